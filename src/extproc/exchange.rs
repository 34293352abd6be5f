//! One ext_proc stream as a state machine without I/O: which message may come, what kind of answer it gets and when the decision
//! is due, in each of Envoy's body modes. It follows the mode that Envoy announces in its first message, never a guess of ours;
//! it does not know what a model is, and it cannot answer a message twice, in another kind, or not at all.

mod held;
mod reading;
mod request;

use self::held::Held;
pub use self::reading::{Cut, Intake, Read};
use crate::encode::piece::pieces;
use crate::encode::reply::{self, Answer, KeepBody, Kind, Reply};
use crate::proto::{BodyMode, HttpBody, ProcessingRequest, Request};

/// What has to happen after a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Send these, in order.
    pub replies: Vec<Reply>,
    /// What has to be done next.
    pub next: Next,
}

/// What an exchange waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Next {
    /// The next message.
    #[default]
    Message,
    /// The message is not read to its end: call [`Exchange::read_on`], and let others have their turn before. No other message may
    /// come in between.
    ReadOn,
    /// Make the decision now and hand it to [`Exchange::answer`].
    Decide,
}

impl Step {
    fn reply(reply: Reply) -> Self {
        Self { replies: vec![reply], next: Next::Message }
    }

    fn decide() -> Self {
        Self { replies: Vec::new(), next: Next::Decide }
    }

    fn read_on() -> Self {
        Self { replies: Vec::new(), next: Next::ReadOn }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has come.
    Start,
    /// The headers are answered; the body decides.
    AwaitBody,
    /// FULL_DUPLEX_STREAMED: the header answer is held until the body has said enough.
    Hold,
    /// The decision is asked for; it answers the message of this kind.
    Deciding(Kind),
    /// The request is on its way, and may have to be refused after all.
    DecidingLate,
    /// Decided: everything else goes by unchanged.
    Pass,
    /// Refused: Envoy has ended the exchange.
    Closed,
}

#[derive(Debug)]
pub struct Exchange {
    state: State,
    mode: BodyMode,
    response_mode: BodyMode,
    /// Envoy has announced its modes.
    announced: bool,
    /// The head has decided, though a body comes: the answer may tell Envoy to keep it.
    body_unneeded: bool,
    /// observability_mode: Envoy wants no answers.
    silent: bool,
    held: Held,
    unread: Option<Unread>,
    /// Nothing more of the request will come that needs an answer.
    request_done: bool,
    response_started: bool,
}

/// A message with a part of the body, of which this many bytes are read.
#[derive(Debug)]
struct Unread {
    body: HttpBody,
    read: usize,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            state: State::Start,
            mode: BodyMode::Buffered,
            response_mode: BodyMode::None,
            announced: false,
            body_unneeded: false,
            silent: false,
            held: Held::default(),
            unread: None,
            request_done: false,
            response_started: false,
        }
    }
}

impl Exchange {
    /// Takes the next message.
    pub fn on(&mut self, message: ProcessingRequest, intake: &mut impl Intake) -> Step {
        if self.state == State::Closed {
            return Step::default();
        }
        if self.state == State::Start {
            self.configure(&message);
        }
        let step = match &message.request {
            None => Step::default(),
            Some(Request::RequestHeaders(headers)) if self.state == State::Start => {
                let ended = headers.end_of_stream;
                intake.head(&message);
                self.on_head(ended, intake)
            }
            Some(Request::RequestHeaders(_)) => Step::reply(reply::unchanged(Kind::RequestHeaders)),
            Some(Request::RequestBody(_) | Request::RequestTrailers(_)) if self.state == State::Start => {
                // It has no headers, and may have what else Envoy says of a request.
                intake.head(&message);
                self.on_headless(message, intake)
            }
            Some(Request::RequestBody(_)) => match message.request {
                Some(Request::RequestBody(body)) => self.on_body(body, intake),
                _ => Step::default(),
            },
            Some(Request::RequestTrailers(_)) => self.on_trailers(intake),
            Some(Request::ResponseHeaders(_)) => self.on_response(reply::unchanged(Kind::ResponseHeaders)),
            Some(Request::ResponseBody(body)) => self.on_response_body(body),
            Some(Request::ResponseTrailers(_)) => self.on_response(reply::unchanged(Kind::ResponseTrailers)),
        };
        self.heard(step)
    }

    /// Reads on in the message that came last, where the last step stopped.
    pub fn read_on(&mut self, intake: &mut impl Intake) -> Step {
        let Some(unread) = self.unread.take() else { return Step::default() };
        let step = self.read(unread, intake);
        self.heard(step)
    }

    /// What Envoy gets to hear of a step: nothing in observability_mode.
    fn heard(&self, mut step: Step) -> Step {
        if self.silent {
            step.replies.clear();
        }
        step
    }

    /// Sends the decision that a step asked for, and whatever waited for it.
    pub fn answer(&mut self, answer: &Answer) -> Vec<Reply> {
        let (kind, is_late) = match self.state {
            State::Deciding(kind) => (kind, false),
            State::DecidingLate => (Kind::RequestBody, true),
            State::Start | State::AwaitBody | State::Hold | State::Pass | State::Closed => return Vec::new(),
        };
        let refused = matches!(answer, Answer::Refuse { .. });
        let mut replies = Vec::new();
        // The request goes on as it was decided before, and all that is due is its body.
        if !self.silent && (refused || !is_late) {
            let keep_body = self.keep_body(kind);
            replies.push(reply::deciding(kind, answer, keep_body));
            self.request_done |= keep_body.is_some();
        }
        if self.silent || refused || self.mode != BodyMode::FullDuplexStreamed {
            self.held.clear();
        } else {
            self.held.release(&mut replies);
        }
        // Last, so that an exchange that failed in the middle of its answer is still undecided.
        self.state = if refused && !self.silent { State::Closed } else { State::Pass };
        replies
    }

    /// Asks Envoy not to send a body that changes nothing. FULL_DUPLEX_STREAMED does not listen (fact 9a), and where responses are
    /// processed in that mode or in one that is not known here, a complete override cannot be written.
    fn keep_body(&self, kind: Kind) -> Option<KeepBody> {
        use BodyMode::{Buffered, BufferedPartial, None as Nothing, Streamed};
        let switchable = matches!(self.mode, Buffered | BufferedPartial | Streamed);
        let known = matches!(self.response_mode, Nothing | Buffered | BufferedPartial | Streamed);
        let asked = self.announced && self.body_unneeded && kind == Kind::RequestHeaders;
        (asked && switchable && known).then_some(KeepBody { response_body: self.response_mode })
    }

    /// True while the client's bytes are awaited and only a clock of ours can end the wait.
    #[must_use]
    pub fn waits_for_client(&self) -> bool {
        self.state == State::Hold
    }

    /// True while nothing has come that asks for anything.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.state == State::Start
    }

    /// True once nothing more can be asked on the stream: the request is refused; or it is decided, all that needs an answer has one,
    /// and Envoy will not ask about the response's body. The stream is then ended in good order, so that no answer that streams on
    /// depends on this process any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_answered = self.announced && !self.silent && self.request_done && self.response_mode == BodyMode::None;
        self.state == State::Closed || (self.state == State::Pass && is_answered)
    }

    /// True if the decision that is due cannot be followed by another: no more of the body will be judged.
    #[must_use]
    pub fn has_last_word(&self) -> bool {
        self.mode != BodyMode::FullDuplexStreamed || self.request_done || self.body_unneeded
    }

    /// True once the request is on its way.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.state == State::Pass
    }

    /// True if a decision is still due.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        matches!(self.state, State::AwaitBody | State::Hold | State::Deciding(_) | State::DecidingLate)
    }

    /// The client's bytes did not come in time.
    pub fn on_body_wait(&mut self, intake: &mut impl Intake) -> Step {
        if self.state != State::Hold {
            return Step::default();
        }
        intake.cut(Cut::Deadline);
        self.decide(Kind::RequestHeaders)
    }

    /// A message came that is too large or no message at all; the stream ends. What was to be decided is decided now, since a refusal
    /// still reaches Envoy, while the end of the stream alone would let the request go on (fact 25). If it was the first message, nobody
    /// knows whose request it is.
    pub fn on_broken(&mut self, why: Cut, intake: &mut impl Intake) -> Step {
        match self.state {
            State::Start => {
                intake.lost(why);
                self.decide(Kind::RequestHeaders)
            }
            State::AwaitBody | State::Hold => {
                intake.lost(why);
                self.decide(Kind::RequestBody)
            }
            State::Pass if self.may_refuse_late() => {
                intake.lost(why);
                if intake.must_judge_late(false) {
                    self.state = State::DecidingLate;
                    return Step::decide();
                }
                Step::default()
            }
            State::Deciding(_) | State::DecidingLate | State::Pass | State::Closed => Step::default(),
        }
    }

    /// There is no room for more of the body. What is held in FULL_DUPLEX_STREAMED has to go back all the same; a body that Envoy keeps
    /// can be dropped, also in the middle of its message.
    pub fn on_overload(&mut self, intake: &mut impl Intake) -> Step {
        let unread = self.unread.take();
        let step = match self.state {
            State::AwaitBody => {
                intake.cut(Cut::Overloaded);
                self.decide(Kind::RequestBody)
            }
            State::Hold => {
                if let Some(unread) = unread {
                    self.hold(unread.body);
                }
                intake.cut(Cut::Overloaded);
                self.decide(Kind::RequestHeaders)
            }
            // A head that is larger than there is room for: nobody knows whose it is.
            State::Start => {
                intake.lost(Cut::Overloaded);
                self.decide(Kind::RequestHeaders)
            }
            State::Deciding(_) | State::DecidingLate | State::Pass | State::Closed => {
                self.unread = unread;
                return Step { next: if self.unread.is_some() { Next::ReadOn } else { Next::Message }, ..Step::default() };
            }
        };
        self.heard(step)
    }

    /// How many bytes of the body are kept here, with what keeping each piece costs.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.held.size() + self.unread.as_ref().map_or(0, |unread| unread.body.body.len() as u64)
    }

    /// True while a message may be dropped before it is whole.
    #[must_use]
    pub fn awaits_whole_body(&self) -> bool {
        self.state == State::AwaitBody
    }

    fn hold(&mut self, body: HttpBody) {
        if !self.silent {
            self.held.push(body);
        }
    }

    /// Something failed inside this process, and the stream ends. True if a refusal can still be heard.
    pub fn on_fault(&mut self) -> bool {
        let heard = match self.state {
            State::Start | State::AwaitBody | State::Hold | State::Deciding(_) | State::DecidingLate => true,
            State::Pass => self.may_refuse_late(),
            State::Closed => false,
        };
        self.state = State::Closed;
        heard && !self.silent
    }

    /// True while a part of the body is still to come that may have to be refused, and no response has started (fact 28c).
    fn may_refuse_late(&self) -> bool {
        !self.has_last_word() && !self.response_started
    }

    /// The mode Envoy announces; without an announcement as BUFFERED.
    fn configure(&mut self, message: &ProcessingRequest) {
        self.silent = message.observability_mode;
        if let Some(config) = &message.protocol_config {
            self.announced = true;
            self.mode = BodyMode::from_number(config.request_body_mode);
            self.response_mode = BodyMode::from_number(config.response_body_mode);
        }
    }

    /// The announced mode of the request body.
    #[must_use]
    pub fn mode(&self) -> BodyMode {
        self.mode
    }

    fn decide(&mut self, kind: Kind) -> Step {
        self.state = State::Deciding(kind);
        Step::decide()
    }

    fn on_response_body(&mut self, body: &HttpBody) -> Step {
        if self.response_mode == BodyMode::FullDuplexStreamed {
            return Step { replies: pieces(Kind::ResponseBody, body.body.clone(), body.end_of_stream), next: Next::Message };
        }
        self.on_response(reply::unchanged(Kind::ResponseBody))
    }

    fn on_response(&mut self, reply: Reply) -> Step {
        self.response_started = true;
        Step::reply(reply)
    }
}

#[cfg(test)]
mod tests;
