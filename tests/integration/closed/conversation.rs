//! One stream as Envoy would hold it, driven without a network: messages in, and what the request came to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use cascade::catalog::compile::compile;
use cascade::catalog::load::SourceFile;
use cascade::catalog::store::Store;
use cascade::encode::reply::Reply;
use cascade::extproc::exchange::{Cut, Exchange, Next, Step};
use cascade::extract::source::Source;
use cascade::feedback::Monitor;
use cascade::health::Policy;
use cascade::pipeline::affinity::Affinity;
use cascade::pipeline::{Judgement, Pipeline, Stage, Word};
use cascade::proto::{HeaderMap, HeaderValue, HttpBody, HttpHeaders, Ignored, ProcessingRequest, ProtocolConfiguration, Request};
use cascade::secret::Keys;
use cascade::settings::Settings;
use cascade::telemetry::Metrics;
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingResponse, processing_response::Response};
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use futures_util::FutureExt;
use prost::Message;

use super::ground::{Body, Ground};

const BUFFERED: i32 = 2;
const PARTIAL: i32 = 3;

/// A stage that fails at its nth call, or always.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub stage: Stage,
    pub nth: Option<usize>,
}

/// How a request comes by.
#[derive(Debug, Clone)]
pub struct Plot {
    pub mode: i32,
    pub announced: bool,
    /// Its path names the model `m`.
    pub by_path: bool,
    /// Lengths of the body's pieces; the last one repeats.
    pub cuts: Vec<usize>,
    /// Before this message a broken one comes, and nothing after it.
    pub broken_at: Option<usize>,
    /// Before this message the clock of the body runs out.
    pub clock_at: Option<usize>,
    pub trailers: bool,
    pub fault: Option<Fault>,
    /// Envoy does not show the headers.
    pub headless: bool,
}

impl Plot {
    pub fn plain(mode: i32) -> Self {
        Self {
            mode,
            announced: true,
            by_path: false,
            cuts: Vec::new(),
            broken_at: None,
            clock_at: None,
            trailers: false,
            fault: None,
            headless: false,
        }
    }
}

/// What the request came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Envoy's configuration shows nothing of it: there is no stream.
    Unasked,
    /// It goes on by Envoy's static chain.
    Nothing,
    /// The clusters of each group.
    Override(Vec<Vec<String>>),
    Refused,
}

pub fn play(ground: &Ground, tenant: &str, body: &Body, plot: &Plot) -> Verdict {
    let pipeline = pipeline(&ground.catalog(), plot.fault);
    let mut stage =
        Scene { exchange: Exchange::default(), judgement: pipeline.begin(), plot, first: true, verdict: Verdict::Nothing };
    let messages = messages(tenant, body, plot);
    if messages.is_empty() {
        return Verdict::Unasked;
    }
    for (index, request) in messages.into_iter().enumerate() {
        if plot.broken_at == Some(index) {
            let step = stage.exchange.on_broken(Cut::Broken, &mut stage.judgement);
            stage.follow(step);
            break;
        }
        if plot.clock_at == Some(index) {
            let step = stage.exchange.on_body_wait(&mut stage.judgement);
            stage.follow(step);
        }
        if stage.exchange.is_over() {
            break;
        }
        let message = stage.message(request);
        let step = stage.exchange.on(message, &mut stage.judgement);
        stage.follow(step);
    }
    stage.verdict
}

fn pipeline(catalog: &str, fault: Option<Fault>) -> Arc<Pipeline> {
    let mut settings = Settings::default();
    settings.extract.plan.tenant = vec![Source::Header("x-tenant".to_owned())];
    let accepted = compile(&[SourceFile::new("catalog.yaml", catalog)]).unwrap_or_else(|faults| panic!("{faults:#?}\n{catalog}"));
    let store = Arc::new(Store::new("catalog.yaml"));
    store.accept(&Arc::new(accepted.snapshot), SystemTime::UNIX_EPOCH);
    let keys = Keys::random().unwrap();
    let affinity = Arc::new(Affinity::new(&settings, None, keys.clone()));
    let monitor = Arc::new(Monitor::new(Policy::default()));
    let pipeline = Pipeline::new(&settings, store, Arc::new(Metrics::new()), keys, monitor, affinity);
    let calls = AtomicUsize::new(0);
    Arc::new(match fault {
        None => pipeline,
        Some(Fault { stage, nth }) => pipeline.watched_by(Arc::new(move |now| {
            if now == stage && nth.is_none_or(|nth| calls.fetch_add(1, Ordering::Relaxed) + 1 == nth) {
                // A panic that says nothing on standard error.
                std::panic::resume_unwind(Box::new("injected"));
            }
        })),
    })
}

fn messages(tenant: &str, body: &Body, plot: &Plot) -> Vec<Request> {
    let text = body.text();
    let path = if plot.by_path { "/openai/deployments/m/chat/completions" } else { "/v1/chat/completions" };
    let pairs = [(":method", "POST"), (":path", path), ("content-type", "application/json"), ("x-tenant", tenant)];
    let headers = pairs.into_iter().map(|(name, value)| HeaderValue {
        key: Bytes::from_static(name.as_bytes()),
        value: Bytes::new(),
        raw_value: Bytes::copy_from_slice(value.as_bytes()),
    });
    let head = HttpHeaders { headers: Some(HeaderMap { headers: headers.collect() }), end_of_stream: text.is_empty() };
    let mut messages = if plot.headless { Vec::new() } else { vec![Request::RequestHeaders(head)] };
    let is_whole = !plot.announced || matches!(plot.mode, BUFFERED | PARTIAL);
    let shows_body = !plot.announced || plot.mode != 0;
    let mut rest = text.as_bytes();
    let mut cuts = plot.cuts.iter().copied();
    let mut length = usize::MAX;
    while shows_body && !rest.is_empty() {
        length = if is_whole { usize::MAX } else { cuts.next().unwrap_or(length) };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        let end_of_stream = rest.is_empty() && !plot.trailers;
        messages.push(Request::RequestBody(HttpBody { body: Bytes::copy_from_slice(piece), end_of_stream }));
    }
    if plot.trailers && shows_body && !text.is_empty() {
        messages.push(Request::RequestTrailers(Ignored {}));
    }
    messages
}

struct Scene<'a> {
    exchange: Exchange,
    judgement: Judgement,
    plot: &'a Plot,
    first: bool,
    verdict: Verdict,
}

impl Scene<'_> {
    fn message(&mut self, request: Request) -> ProcessingRequest {
        let config = ProtocolConfiguration { request_body_mode: self.plot.mode, response_body_mode: 0 };
        let first = std::mem::take(&mut self.first);
        ProcessingRequest {
            protocol_config: (self.plot.announced && first).then_some(config),
            request: Some(request),
            ..ProcessingRequest::default()
        }
    }

    fn follow(&mut self, mut step: Step) {
        while step.next == Next::ReadOn {
            step = self.exchange.read_on(&mut self.judgement);
        }
        let mut replies = step.replies;
        if step.next == Next::Decide {
            let word = if self.exchange.has_last_word() { Word::Last } else { Word::First };
            let answer = self.judgement.decide(word).now_or_never().expect("without a directory nothing is awaited");
            replies.extend(self.exchange.answer(&answer));
        }
        replies.iter().for_each(|reply| self.hear(reply));
    }

    fn hear(&mut self, reply: &Reply) {
        let response = ProcessingResponse::decode(reply.to_bytes().as_slice()).unwrap();
        let reroutes = |common: Option<envoy_types::pb::envoy::service::ext_proc::v3::CommonResponse>| {
            common.is_some_and(|common| common.clear_route_cache)
        };
        match response.response.expect("a kind") {
            Response::ImmediateResponse(_) => self.verdict = Verdict::Refused,
            Response::RequestHeaders(headers) if reroutes(headers.response.clone()) => {
                self.verdict = Verdict::Override(groups(response.dynamic_metadata.as_ref()));
            }
            Response::RequestBody(body) if reroutes(body.response.clone()) => {
                self.verdict = Verdict::Override(groups(response.dynamic_metadata.as_ref()));
            }
            _ => {}
        }
    }
}

/// The clusters of each group of an override.
fn groups(metadata: Option<&Struct>) -> Vec<Vec<String>> {
    let field = |fields: &Struct, name: &str| fields.fields.get(name).and_then(|value| value.kind.clone());
    let list = |kind: Option<Kind>| -> Vec<Value> {
        match kind {
            Some(Kind::ListValue(list)) => list.values,
            _ => Vec::new(),
        }
    };
    let Some(Kind::StructValue(own)) = metadata.and_then(|fields| field(fields, "cascade")) else {
        panic!("no override: {metadata:?}")
    };
    let groups = list(field(&own, "priority_groups"));
    assert!(!groups.is_empty(), "an empty chain");
    let name = |cluster: &Value| match &cluster.kind {
        Some(Kind::StructValue(cluster)) => match field(cluster, "cluster_name") {
            Some(Kind::StringValue(name)) => name,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let clusters = |group: &Value| match &group.kind {
        Some(Kind::StructValue(group)) => list(field(group, "clusters")).iter().map(name).collect(),
        other => panic!("{other:?}"),
    };
    groups.iter().map(clusters).collect()
}
