//! Conversations with a counting intake: what each message of Envoy's is answered with.

mod any_order;
mod modes;
mod refusals;

use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingResponse, processing_response::Response};
use prost::Message;

use super::*;
use crate::encode::reply::{HeaderChanges, Metadata, Refusal};
use crate::proto::{HttpHeaders, Ignored, ProtocolConfiguration};

/// How much the counting intake reads at once.
const SLICE: usize = 2;

/// Reads until `wanted` bytes have come; `wanted` of 0 needs no body.
#[derive(Debug, Default)]
struct Counter {
    wanted: usize,
    read: usize,
    heads: usize,
    waits: usize,
    ended: bool,
    cut: Option<Cut>,
    lost: bool,
    /// What has to be judged late comes behind so many bytes, or with the end.
    trouble_after: Option<usize>,
    trouble_at_end: bool,
    forged: Vec<&'static str>,
}

impl Intake for Counter {
    fn head(&mut self, _: &ProcessingRequest) {
        self.heads += 1;
    }
    fn body(&mut self, chunk: &[u8]) -> Read {
        let taken = chunk.len().min(SLICE);
        self.read += taken;
        if taken == chunk.len() { Read::All } else { Read::Part(taken) }
    }
    fn wait(&mut self) {
        self.waits += 1;
    }
    fn end(&mut self) {
        self.ended = true;
    }
    fn cut(&mut self, why: Cut) {
        self.cut = Some(why);
    }
    fn lost(&mut self, why: Cut) {
        (self.cut, self.lost) = (Some(why), true);
    }
    fn needs_no_body(&self) -> bool {
        self.wanted == 0
    }
    fn is_ready(&self) -> bool {
        self.ended || self.cut.is_some() || self.read >= self.wanted
    }
    fn must_judge_late(&mut self, response_started: bool) -> bool {
        let found = self.trouble_after.is_some_and(|limit| self.read > limit) || (self.trouble_at_end && self.ended);
        if found {
            (self.trouble_after, self.trouble_at_end) = (None, false);
        }
        found && !response_started
    }
    fn forged(&self) -> Vec<String> {
        self.forged.iter().map(|name| (*name).to_owned()).collect()
    }
}

fn message(mode: i32, request: Request) -> ProcessingRequest {
    ProcessingRequest {
        protocol_config: Some(ProtocolConfiguration { request_body_mode: mode, response_body_mode: 0 }),
        request: Some(request),
        ..ProcessingRequest::default()
    }
}

fn head(end_of_stream: bool) -> Request {
    Request::RequestHeaders(HttpHeaders { headers: None, end_of_stream })
}

fn body(bytes: &[u8], end_of_stream: bool) -> Request {
    Request::RequestBody(HttpBody { body: Bytes::copy_from_slice(bytes), end_of_stream })
}

fn proceed() -> Answer {
    Answer::Proceed { reroute: true, headers: HeaderChanges::default(), metadata: Metadata::default() }
}

fn refuse() -> Answer {
    Answer::Refuse {
        refusal: Refusal { status: 403, headers: Vec::new(), body: Vec::new(), details: "" },
        metadata: Metadata::default(),
    }
}

/// What was answered, one word a reply: `headers`, `headers!` with the decision, `body`, `body:<bytes>` streamed, `.` for its end.
fn describe(reply: &Reply) -> String {
    let common = |response: Option<envoy_types::pb::envoy::service::ext_proc::v3::CommonResponse>, name: &str| {
        let Some(common) = response else { return name.to_owned() };
        match common.body_mutation.and_then(|mutation| mutation.mutation) {
            Some(Mutation::StreamedResponse(piece)) => {
                format!("{name}:{}{}", String::from_utf8_lossy(&piece.body), if piece.end_of_stream { "." } else { "" })
            }
            Some(other) => panic!("{other:?}"),
            None if common.clear_route_cache => format!("{name}!"),
            None => name.to_owned(),
        }
    };
    match ProcessingResponse::decode(reply.to_bytes().as_slice()).unwrap().response.expect("every reply has a kind") {
        Response::RequestHeaders(headers) => common(headers.response, "headers"),
        Response::RequestBody(body) => common(body.response, "body"),
        Response::RequestTrailers(_) => "trailers".to_owned(),
        Response::ResponseHeaders(_) => "response-headers".to_owned(),
        Response::ResponseBody(body) => common(body.response, "response-body"),
        Response::ResponseTrailers(_) => "response-trailers".to_owned(),
        Response::ImmediateResponse(_) => "refusal".to_owned(),
        other => panic!("{other:?}"),
    }
}

/// A message and all slices that it is read in.
fn hear(exchange: &mut Exchange, message: ProcessingRequest, intake: &mut Counter) -> Step {
    let mut step = exchange.on(message, intake);
    while step.next == Next::ReadOn {
        assert_eq!(step.replies, [], "nothing is answered before the message is read");
        step = exchange.read_on(intake);
    }
    step
}

/// Runs a conversation: per message what was answered, decisions made at once.
fn converse(mode: i32, intake: &mut Counter, answer: &Answer, requests: Vec<Request>) -> Vec<String> {
    let mut exchange = Exchange::default();
    let answers = requests.into_iter().map(|request| {
        let mut step = hear(&mut exchange, message(mode, request), intake);
        if step.next == Next::Decide {
            step.replies.extend(exchange.answer(answer));
        }
        step.replies.iter().map(describe).collect::<Vec<_>>().join(" ")
    });
    answers.collect()
}

const NONE: i32 = 0;
const STREAMED: i32 = 1;
const BUFFERED: i32 = 2;
const PARTIAL: i32 = 3;
const DUPLEX: i32 = 4;

fn after(wanted: usize) -> Counter {
    Counter { wanted, ..Counter::default() }
}

#[test]
fn forged_headers_go_with_the_first_answer_even_if_trailers_alone_follow() {
    let mut intake = Counter { wanted: 9, forged: vec!["x-ours"], ..Counter::default() };
    let mut exchange = Exchange::default();
    let step = exchange.on(message(BUFFERED, head(false)), &mut intake);
    let response = ProcessingResponse::decode(step.replies[0].to_bytes().as_slice()).unwrap().response;
    let Some(Response::RequestHeaders(answer)) = response else { panic!("{response:?}") };
    let common = answer.response.unwrap();
    assert_eq!(common.header_mutation.unwrap().remove_headers, ["x-ours"]);
    assert!(!common.clear_route_cache);
}

#[test]
fn a_message_is_read_slice_by_slice_and_answered_once() {
    let mut intake = after(9);
    let mut exchange = Exchange::default();
    exchange.on(message(BUFFERED, head(false)), &mut intake);
    let mut step = exchange.on(message(BUFFERED, body(b"0123456789", true)), &mut intake);
    let mut slices = 1;
    while step.next == Next::ReadOn {
        assert_eq!((step.replies.len(), intake.read, intake.ended), (0, slices * SLICE, false));
        step = exchange.read_on(&mut intake);
        slices += 1;
    }
    assert_eq!((step.next, slices, intake.read, intake.ended), (Next::Decide, 5, 10, true));
    assert_eq!(exchange.read_on(&mut intake), Step::default(), "nothing is left to be read");
}
