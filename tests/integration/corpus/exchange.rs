//! Whole exchanges: whatever messages come in whatever order, the real exchange and the real pipeline give each one answer in its own
//! kind, or none after a refusal; a FULL_DUPLEX_STREAMED body comes back as it came and ends once; an answer that clears the route
//! cache changes headers too (fact 1).

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use bytes::Bytes;
use cascade::catalog::compile::compile;
use cascade::catalog::load::SourceFile;
use cascade::catalog::store::Store;
use cascade::encode::reply::Reply;
use cascade::extproc::exchange::{Cut, Exchange, Next};
use cascade::feedback::Monitor;
use cascade::health::Policy;
use cascade::pipeline::affinity::Affinity;
use cascade::pipeline::{Judgement, Pipeline, Word};
use cascade::proto::{HeaderMap, HeaderValue, HttpBody, HttpHeaders, Ignored, ProcessingRequest, ProtocolConfiguration, Request};
use cascade::secret::Keys;
use cascade::settings::Settings;
use cascade::telemetry::Metrics;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::{CommonResponse, ProcessingResponse, processing_response::Response};
use futures_util::FutureExt;
use prost::Message;

use super::input::Input;

const CATALOG: &str = "
version: 1
priority_groups: {g: {clusters: [{cluster_name: a, weight: 1}]}}
models:
  m: {chain: [g]}
  closed: {chain: [g], fail: closed}
";
const DUPLEX: i32 = 4;
/// FULL_DUPLEX_STREAMED pieces over 64 KiB are refused by Envoy.
const MAX_PIECE: usize = 64 * 1024;

static PIPELINE: LazyLock<Arc<Pipeline>> = LazyLock::new(|| {
    let settings = Settings::default();
    let accepted = compile(&[SourceFile::new("catalog.yaml", CATALOG)]).expect("a good catalog");
    let store = Arc::new(Store::new("catalog.yaml"));
    store.accept(&Arc::new(accepted.snapshot), SystemTime::UNIX_EPOCH);
    let keys = Keys::random().expect("randomness");
    let affinity = Arc::new(Affinity::new(&settings, None, keys.clone()));
    let monitor = Arc::new(Monitor::new(Policy::default()));
    Arc::new(Pipeline::new(&settings, store, Arc::new(Metrics::new()), keys, monitor, affinity))
});

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let mut stream = Conversation {
        exchange: Exchange::default(),
        judgement: PIPELINE.begin(),
        request_mode: i32::from(input.choice() % 6),
        response_mode: i32::from(input.choice() % 6),
        announced: input.choice() % 8 != 7,
        silent: input.choice() % 8 == 7,
        refused: false,
        is_first: true,
    };
    let path =
        *input.one_of(&["/v1/chat/completions", "/v1/audio/transcriptions", "/v1beta/models/m:generateContent", "/custom"]);
    let kind = *input.one_of(&["application/json", "multipart/form-data; boundary=b", "application/x-www-form-urlencoded", ""]);
    let coding = *input.one_of(&["", "gzip"]);
    let count = input.choice() % 16;
    let steps: Vec<u8> = (0..count).map(|_| input.choice()).collect();
    // A well-behaved stream or one in any order.
    let in_order = input.flag();
    let pieces = input.pieces();
    let head = |ended| head(path, kind, coding, ended);
    if in_order {
        stream.in_order(head(false), &pieces, input.flag());
    } else {
        let mut pieces = pieces.into_iter().cycle();
        for step in steps {
            stream.one(match step % 8 {
                0 => Event::Message(head(step & 8 == 8)),
                1..=3 => Event::Message(body(pieces.next().unwrap_or_default(), step & 8 == 8)),
                4 => Event::Message(Request::RequestTrailers(Ignored {})),
                5 => Event::Message(Request::ResponseHeaders(Ignored {})),
                6 if step & 8 == 8 => Event::Message(Request::ResponseTrailers(Ignored {})),
                6 => Event::Message(Request::ResponseBody(HttpBody {
                    body: Bytes::from_static(b"r"),
                    end_of_stream: step & 16 == 16,
                })),
                _ if step & 8 == 8 => Event::Clock,
                _ => Event::Broken,
            });
        }
    }
}

enum Event {
    Message(Request),
    Clock,
    Broken,
}

struct Conversation {
    exchange: Exchange,
    judgement: Judgement,
    request_mode: i32,
    response_mode: i32,
    announced: bool,
    silent: bool,
    refused: bool,
    is_first: bool,
}

/// One answer, as an independent description of Envoy's protocol reads it.
#[derive(Debug, PartialEq)]
struct Told {
    kind: &'static str,
    /// A piece of a FULL_DUPLEX_STREAMED body, and whether it ends there.
    piece: Option<(Vec<u8>, bool)>,
}

impl Conversation {
    /// The head, the body, its end by a last piece or by trailers, and the response.
    fn in_order(&mut self, head: Request, pieces: &[&[u8]], trailers: bool) {
        let mut told = self.event(Event::Message(head));
        for (index, piece) in pieces.iter().enumerate() {
            let ended = !trailers && index + 1 == pieces.len();
            told.extend(self.event(Event::Message(body(piece, ended))));
        }
        if trailers {
            told.extend(self.event(Event::Message(Request::RequestTrailers(Ignored {}))));
        }
        if self.silent || self.refused || !self.announced || self.request_mode != DUPLEX {
            return;
        }
        assert_eq!(told.iter().filter(|told| told.kind == "headers").count(), 1, "{told:?}");
        assert_eq!(told.first().map(|told| told.kind), Some("headers"), "{told:?}");
        let returned: Vec<(Vec<u8>, bool)> = told.iter().filter_map(|told| told.piece.clone()).collect();
        let bytes: Vec<u8> = returned.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        assert!(bytes == pieces.concat(), "the body came back changed: {returned:?}");
        let ends: Vec<bool> = returned.iter().map(|(_, ended)| *ended).collect();
        assert_eq!(ends.iter().filter(|ended| **ended).count(), usize::from(!trailers), "{returned:?}");
        assert!(trailers || ends.last() == Some(&true), "{returned:?}");
        assert_eq!(told.last().is_some_and(|told| told.kind == "trailers"), trailers, "{told:?}");
    }

    /// One event in any order; outside FULL_DUPLEX_STREAMED a message gets one answer of its kind.
    fn one(&mut self, event: Event) {
        let before = self.refused;
        let asked = match &event {
            Event::Message(request) => Some(kind_of(request)),
            Event::Clock | Event::Broken => None,
        };
        let is_duplex = self.announced && (self.request_mode == DUPLEX || self.response_mode == DUPLEX);
        let told = self.event(event);
        if before || self.silent {
            assert_eq!(told, [], "answered after a refusal, or though nobody listens");
        } else if is_duplex {
            assert!(told.iter().filter(|told| told.piece.is_none()).count() <= 2, "{told:?}");
        } else if let Some(asked) = asked {
            let kinds: Vec<&str> = told.iter().map(|told| told.kind).collect();
            assert!(kinds == [asked] || kinds == ["refusal"], "{asked} was answered with {kinds:?}");
        } else {
            assert!(told.len() <= 1, "{told:?}");
        }
    }

    fn event(&mut self, event: Event) -> Vec<Told> {
        let mut step = match event {
            Event::Message(request) => {
                let message = self.message(request);
                self.exchange.on(message, &mut self.judgement)
            }
            Event::Clock => self.exchange.on_body_wait(&mut self.judgement),
            Event::Broken => self.exchange.on_broken(Cut::Broken, &mut self.judgement),
        };
        while step.next == Next::ReadOn {
            assert_eq!(step.replies, [], "answered before the message was read");
            step = self.exchange.read_on(&mut self.judgement);
        }
        let mut replies = step.replies;
        if step.next == Next::Decide {
            let word = if self.exchange.has_last_word() { Word::Last } else { Word::First };
            let answer = self.judgement.decide(word).now_or_never().expect("without a directory nothing is awaited");
            replies.extend(self.exchange.answer(&answer));
        }
        replies.iter().map(|reply| self.tell(reply)).collect()
    }

    fn message(&mut self, request: Request) -> ProcessingRequest {
        let config = ProtocolConfiguration { request_body_mode: self.request_mode, response_body_mode: self.response_mode };
        let is_first = std::mem::take(&mut self.is_first);
        ProcessingRequest {
            protocol_config: (self.announced && is_first).then_some(config),
            observability_mode: self.silent,
            request: Some(request),
            ..ProcessingRequest::default()
        }
    }

    fn tell(&mut self, reply: &Reply) -> Told {
        let mut written = Vec::new();
        reply.write(&mut written);
        assert!(written.len() <= reply.room(), "more was written than there is room for");
        let response = ProcessingResponse::decode(written.as_slice()).expect("a ProcessingResponse");
        match response.response.expect("an answer has a kind") {
            Response::RequestHeaders(headers) => told("headers", headers.response),
            Response::RequestBody(body) => told("body", body.response),
            Response::RequestTrailers(_) => told("trailers", None),
            Response::ResponseHeaders(headers) => told("response-headers", headers.response),
            Response::ResponseBody(body) => told("response-body", body.response),
            Response::ResponseTrailers(_) => told("response-trailers", None),
            Response::ImmediateResponse(_) => {
                assert!(!self.refused, "refused twice");
                self.refused = true;
                told("refusal", None)
            }
            other => panic!("an answer that nobody asked for: {other:?}"),
        }
    }
}

fn told(kind: &'static str, common: Option<CommonResponse>) -> Told {
    let Some(common) = common else { return Told { kind, piece: None } };
    assert!(!common.clear_route_cache || common.header_mutation.is_some(), "fact 1: {common:?}");
    let piece = match common.body_mutation.and_then(|mutation| mutation.mutation) {
        None => None,
        Some(Mutation::StreamedResponse(piece)) => {
            assert!(piece.body.len() < MAX_PIECE);
            Some((piece.body, piece.end_of_stream))
        }
        Some(other) => panic!("a body is never replaced here: {other:?}"),
    };
    Told { kind, piece }
}

fn kind_of(request: &Request) -> &'static str {
    match request {
        Request::RequestHeaders(_) => "headers",
        Request::RequestBody(_) => "body",
        Request::RequestTrailers(_) => "trailers",
        Request::ResponseHeaders(_) => "response-headers",
        Request::ResponseBody(_) => "response-body",
        Request::ResponseTrailers(_) => "response-trailers",
    }
}

fn head(path: &str, content_type: &str, coding: &str, end_of_stream: bool) -> Request {
    let pairs = [(":method", "POST"), (":path", path), ("content-type", content_type), ("content-encoding", coding)];
    let headers = pairs.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| HeaderValue {
        key: Bytes::copy_from_slice(name.as_bytes()),
        value: Bytes::new(),
        raw_value: Bytes::copy_from_slice(value.as_bytes()),
    });
    Request::RequestHeaders(HttpHeaders { headers: Some(HeaderMap { headers: headers.collect() }), end_of_stream })
}

fn body(bytes: &[u8], end_of_stream: bool) -> Request {
    Request::RequestBody(HttpBody { body: Bytes::copy_from_slice(bytes), end_of_stream })
}
