//! The stream of one attempt, in the upstream role (fact 27): message in, reply out. It follows the body mode that Envoy announces:
//! only a body that comes whole can be changed, everything else goes by as it is. It never refuses (fact 37).

use crate::encode::attempt as written;
use crate::encode::piece::pieces;
use crate::encode::reply::{self, Kind, Reply};
use crate::extproc::intake::EnvoyHead;
use crate::extract::{Slice, head};
use crate::pipeline::attempt::{Attempt, Body, Plan};
use crate::proto::{BodyMode, HttpBody, ProcessingRequest, Request};

/// The role's name in the `x-cascade-role` header of the gRPC stream.
pub const ROLE: &str = "upstream";

/// One attempt under way.
#[derive(Debug)]
pub struct Upstream {
    attempt: Attempt,
    mode: BodyMode,
    response_mode: BodyMode,
    /// The head said that the body decides.
    reads_body: bool,
    /// The body, of which this many bytes are read.
    unread: Option<(HttpBody, usize)>,
}

impl Upstream {
    #[must_use]
    pub fn new(attempt: Attempt) -> Self {
        Self { attempt, mode: BodyMode::Buffered, response_mode: BodyMode::None, reads_body: false, unread: None }
    }

    /// Takes the next message.
    pub fn on(&mut self, mut message: ProcessingRequest) -> Vec<Reply> {
        if let Some(config) = &message.protocol_config {
            self.mode = BodyMode::from_number(config.request_body_mode);
            self.response_mode = BodyMode::from_number(config.response_body_mode);
        }
        if let Some(Request::RequestBody(body)) = &mut message.request
            && !message.observability_mode
        {
            return self.on_body(std::mem::take(body));
        }
        self.on_other(&message)
    }

    /// True while the body is not read to its end: [`Upstream::read_on`] goes on, and no other message may come before.
    #[must_use]
    pub fn reads_on(&self) -> bool {
        self.unread.is_some()
    }

    /// Reads one more slice of the body.
    pub fn read_on(&mut self) -> Vec<Reply> {
        let Some((body, read)) = self.unread.take() else { return Vec::new() };
        if let Slice::Part(length) = self.attempt.read(body.body.get(read..).unwrap_or_default()) {
            self.unread = Some((body, read + length));
            return Vec::new();
        }
        let change = self.attempt.change(&body.body);
        vec![written::body(&body.body, change.edit.as_ref(), &change.set)]
    }

    fn on_other(&mut self, message: &ProcessingRequest) -> Vec<Reply> {
        if message.observability_mode {
            return Vec::new();
        }
        match &message.request {
            None => Vec::new(),
            Some(Request::RequestHeaders(headers)) => {
                let body = match self.mode {
                    _ if headers.end_of_stream || head::is_upgrade(&EnvoyHead(message)) => Body::Absent,
                    BodyMode::Buffered => Body::Whole,
                    _ => Body::OutOfReach,
                };
                let Plan { set, reads_body } = self.attempt.head(message, body);
                self.reads_body = reads_body;
                vec![written::head(&set, reads_body)]
            }
            // Read before, unless nobody wants an answer.
            Some(Request::RequestBody(_)) => Vec::new(),
            Some(Request::RequestTrailers(_)) => vec![reply::unchanged(Kind::RequestTrailers)],
            Some(Request::ResponseHeaders(_)) => vec![reply::unchanged(Kind::ResponseHeaders)],
            Some(Request::ResponseBody(body)) if self.response_mode == BodyMode::FullDuplexStreamed => {
                pieces(Kind::ResponseBody, body.body.clone(), body.end_of_stream)
            }
            Some(Request::ResponseBody(_)) => vec![reply::unchanged(Kind::ResponseBody)],
            Some(Request::ResponseTrailers(_)) => vec![reply::unchanged(Kind::ResponseTrailers)],
        }
    }

    fn on_body(&mut self, body: HttpBody) -> Vec<Reply> {
        if self.mode == BodyMode::FullDuplexStreamed {
            return pieces(Kind::RequestBody, body.body, body.end_of_stream);
        }
        let reads = std::mem::take(&mut self.reads_body);
        if !reads {
            return vec![reply::unchanged(Kind::RequestBody)];
        }
        self.unread = Some((body, 0));
        self.read_on()
    }
}
