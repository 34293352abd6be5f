//! What an exchange asks of whoever reads the request. It hands over bytes, slice by slice, and asks whether they are enough; what
//! they say it never learns.

use crate::proto::ProcessingRequest;

/// What reads the request while it streams by.
pub trait Intake {
    /// The head, or an empty one if Envoy does not send it.
    fn head(&mut self, message: &ProcessingRequest);
    /// Reads one slice of the next bytes of the body: little work, whatever the bytes are.
    fn body(&mut self, chunk: &[u8]) -> Read;
    /// More of the body has to come before there is a decision: what can be done meanwhile is started.
    fn wait(&mut self);
    /// The body has ended.
    fn end(&mut self);
    /// No more of the body is seen, though it has not ended.
    fn cut(&mut self, why: Cut);
    /// The same, and of all decisions only a refusal still has an effect: the stream ends, or the headers are on their way.
    fn lost(&mut self, why: Cut);
    /// True if the head alone decides.
    fn needs_no_body(&self) -> bool;
    /// True if what has been read decides.
    fn is_ready(&self) -> bool;
    /// True, once, if what came after the decision has to be judged as well: reading has met trouble. Where a response has started no
    /// refusal reaches the client any more: then trouble is noted, and nothing is judged.
    fn must_judge_late(&mut self, response_started: bool) -> bool;
    /// Names of our own headers that the client sent: they go with the first answer, whatever is decided later.
    fn forged(&self) -> Vec<String>;
}

/// How far a slice of reading came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// The bytes are read, and nothing is left to be done for them.
    All,
    /// This many bytes are read, maybe none: there is more to do, with the rest of them.
    Part(usize),
}

/// Why the rest of a body is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The mode forwards the headers before the body is seen (fact 6).
    ModeTooLate,
    /// BUFFERED_PARTIAL: the body is larger than Envoy's buffer (fact 5).
    TooLarge,
    /// The client's bytes did not come in time.
    Deadline,
    /// A message that cannot be decoded.
    Broken,
    /// There is no room for more of it: all streams of the process hold as much as they may.
    Overloaded,
}
