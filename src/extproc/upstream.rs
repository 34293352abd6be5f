//! The stream of one attempt, in the upstream role (fact 27): message in, reply out. It follows the body mode that Envoy announces:
//! only a body that comes whole can be changed, everything else goes by as it is. It never refuses (fact 37).

use crate::encode::attempt as written;
use crate::encode::piece::pieces;
use crate::encode::reply::{self, Kind, Reply};
use crate::extproc::intake::EnvoyHead;
use crate::extract::head;
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
}

impl Upstream {
    #[must_use]
    pub fn new(attempt: Attempt) -> Self {
        Self { attempt, mode: BodyMode::Buffered, response_mode: BodyMode::None, reads_body: false }
    }

    /// Takes the next message.
    pub fn on(&mut self, message: &ProcessingRequest) -> Vec<Reply> {
        if let Some(config) = &message.protocol_config {
            self.mode = BodyMode::from_number(config.request_body_mode);
            self.response_mode = BodyMode::from_number(config.response_body_mode);
        }
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
            Some(Request::RequestBody(body)) => self.on_body(body),
            Some(Request::RequestTrailers(_)) => vec![reply::unchanged(Kind::RequestTrailers)],
            Some(Request::ResponseHeaders(_)) => vec![reply::unchanged(Kind::ResponseHeaders)],
            Some(Request::ResponseBody(body)) if self.response_mode == BodyMode::FullDuplexStreamed => {
                pieces(Kind::ResponseBody, body.body.clone(), body.end_of_stream)
            }
            Some(Request::ResponseBody(_)) => vec![reply::unchanged(Kind::ResponseBody)],
            Some(Request::ResponseTrailers(_)) => vec![reply::unchanged(Kind::ResponseTrailers)],
        }
    }

    fn on_body(&mut self, body: &HttpBody) -> Vec<Reply> {
        if self.mode == BodyMode::FullDuplexStreamed {
            return pieces(Kind::RequestBody, body.body.clone(), body.end_of_stream);
        }
        let reads = std::mem::take(&mut self.reads_body);
        if !reads {
            return vec![reply::unchanged(Kind::RequestBody)];
        }
        self.attempt.read(&body.body);
        let change = self.attempt.change(&body.body);
        vec![written::body(&body.body, change.edit.as_ref(), &change.set)]
    }
}
