//! The stream of one attempt, in the upstream role (fact 27): message in, reply out. It follows the body mode that Envoy announces:
//! only a body that comes whole can be changed, everything else goes by as it is. It never refuses (fact 37).

use bytes::Bytes;

use crate::encode::attempt as written;
use crate::encode::piece::pieces;
use crate::encode::reply::{self, Kind, Reply};
use crate::pipeline::attempt::{Attempt, Plan};
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
    /// `content-length` of the head, whatever it says.
    length: Option<Bytes>,
}

impl Upstream {
    #[must_use]
    pub fn new(attempt: Attempt) -> Self {
        Self { attempt, mode: BodyMode::Buffered, response_mode: BodyMode::None, reads_body: false, length: None }
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
                let mut all = headers.headers.iter().flat_map(|map| &map.headers);
                let length = all.find(|header| header.key.eq_ignore_ascii_case(b"content-length"));
                self.length = length.map(|header| Bytes::copy_from_slice(header.bytes()));
                let has_body = !headers.end_of_stream && self.mode == BodyMode::Buffered;
                let Plan { set, reads_body } = self.attempt.head(message);
                self.reads_body = reads_body && has_body;
                vec![written::head(&set, self.reads_body)]
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
        let edit = self.attempt.body(&body.body);
        let length = edit.as_ref().map_or(body.body.len(), |edit| edit.length_of(&body.body));
        // It follows the body, also where an earlier attempt has changed it and this one changes nothing.
        let length = self.length.as_ref().filter(|said| *said != length.to_string().as_bytes()).map(|_| length);
        vec![written::body(&body.body, edit.as_ref(), length)]
    }
}
