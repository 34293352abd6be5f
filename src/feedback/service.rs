//! `envoy.service.accesslog.v3.AccessLogService`: reads Envoy's log streams and hands each attempt to the monitor. It runs beside
//! the requests, never before one. Entries of other logs, of clusters that the catalog lacks, and intermediate ones mean nothing.

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::server::{ClientStreamingService, Grpc, NamedService};
use tonic::{Request, Response, Status, Streaming};
use tower::Service;

use super::classify::{self, Class};
use super::codec::LogCodec;
use super::learn::Learner;
use super::monitor::Monitor;
use super::token::Token;
use crate::catalog::store::Store;
use crate::directory::Sessions;
use crate::health::Moment;
use crate::proto::{HttpLogEntries, HttpLogEntry, LogMessage};
use crate::secret::Keys;
use crate::settings::Settings;
use crate::telemetry::Metrics;

const SERVICE: &str = "envoy.service.accesslog.v3.AccessLogService";
const STREAM: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";

/// How many entries are remembered, so that one that comes again does not count again.
const REMEMBERED: usize = 4_096;

/// The service; clones share everything.
#[derive(Debug, Clone)]
pub struct AccessLog(Arc<Reader>);

#[derive(Debug)]
struct Reader {
    log_name: String,
    statuses: Vec<u16>,
    decision_header: String,
    store: Arc<Store>,
    monitor: Arc<Monitor>,
    metrics: Arc<Metrics>,
    keys: Keys,
    /// While sessions are learned.
    learner: Option<Learner>,
    seen: Mutex<Remembered>,
    /// The server drains: Envoy's log streams never end by themselves.
    over: watch::Sender<bool>,
}

impl AccessLog {
    /// `sessions`: where what serves them is remembered, if it learns.
    #[must_use]
    pub fn new(
        settings: &Settings,
        store: Arc<Store>,
        monitor: Arc<Monitor>,
        metrics: Arc<Metrics>,
        keys: Keys,
        sessions: Option<Arc<Sessions>>,
    ) -> Self {
        let learner = sessions.filter(|sessions| sessions.learns());
        Self(Arc::new(Reader {
            learner: learner.map(|sessions| Learner { sessions, metrics: metrics.clone() }),
            log_name: settings.feedback.log_name.clone(),
            statuses: settings.feedback.statuses.clone(),
            decision_header: settings.publish.decision_header.clone(),
            store,
            monitor,
            metrics,
            keys,
            seen: Mutex::default(),
            over: watch::Sender::new(false),
        }))
    }

    /// Ends the log's streams, which would keep their connections open for ever. What they would still tell is lost.
    pub fn end(&self) {
        self.0.over.send_replace(true);
    }

    /// Takes in one encoded `HTTPAccessLogEntry` of our log.
    pub fn take(&self, entry: &Bytes) {
        self.0.take(entry);
    }
}

impl NamedService for AccessLog {
    const NAME: &'static str = SERVICE;
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<B> Service<http::Request<B>> for AccessLog
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    B::Data: Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        if request.uri().path() != STREAM {
            return Box::pin(async { Ok(Status::unimplemented("this service has one method: StreamAccessLogs").into_http()) });
        }
        let method = Stream(Arc::clone(&self.0));
        Box::pin(async move { Ok(Grpc::new(LogCodec).client_streaming(method, request).await) })
    }
}

struct Stream(Arc<Reader>);

impl ClientStreamingService<LogMessage> for Stream {
    type Response = ();
    type Future = BoxFuture<Result<Response<()>, Status>>;

    fn call(&mut self, request: Request<Streaming<LogMessage>>) -> Self::Future {
        let (reader, mut messages) = (Arc::clone(&self.0), request.into_inner());
        Box::pin(async move {
            // The name stands in the first message; the others belong to it.
            let mut is_ours = false;
            let mut over = reader.over.subscribe();
            loop {
                let message = tokio::select! {
                    message = messages.message() => message?,
                    _ = over.wait_for(|over| *over) => None,
                };
                let Some(message) = message else { return Ok(Response::new(())) };
                if let Some(identifier) = &message.identifier {
                    is_ours = identifier.log_name == reader.log_name.as_bytes();
                }
                if is_ours {
                    message.http.iter().flat_map(|http| &http.entries).for_each(|entry| reader.take(entry));
                }
            }
        })
    }
}

impl Reader {
    fn take(&self, bytes: &Bytes) {
        let Some(entry) = HttpLogEntries::decode_entry(bytes) else { return };
        let now = self.monitor.now();
        let Some(attempt) = classify::read(&entry, &self.statuses, now) else { return };
        let current = self.store.current().filter(|snapshot| snapshot.cluster_ids.contains_key(attempt.cluster));
        let Some(snapshot) = current else { return };
        // Success changes no more however often it is told.
        if attempt.class != Class::Success && entry.is_named() && !self.is_new(bytes) {
            return;
        }
        self.metrics.attempt(attempt.cluster, attempt.class.as_str());
        if let Some(learner) = self.learner.as_ref().filter(|_| attempt.is_served)
            && let Some(session) = self.token(&entry, now).and_then(|token| token.session)
        {
            learner.served(&snapshot, &session, &attempt, &entry);
        }
        let Some(event) = attempt.class.event(attempt.retry_after) else { return };
        if !self.monitor.is_of_interest(attempt.cluster, event) {
            return;
        }
        let model = self.token(&entry, now).and_then(|token| token.model);
        self.monitor.note(attempt.cluster, model.as_deref(), event);
    }

    /// What the decision says of itself; `None`: there was none, or nobody can tell.
    fn token(&self, entry: &HttpLogEntry, now: Moment) -> Option<Token> {
        Token::open(entry.request_header(&self.decision_header)?, &self.keys, now)
    }

    fn is_new(&self, bytes: &Bytes) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).is_new(bytes)
    }
}

/// Hashes of the last entries, keyed so that nobody can aim at a collision.
#[derive(Debug, Default)]
struct Remembered {
    hasher: RandomState,
    order: VecDeque<u64>,
    known: HashSet<u64>,
}

impl Remembered {
    fn is_new(&mut self, bytes: &Bytes) -> bool {
        let hash = self.hasher.hash_one(bytes);
        if !self.known.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}
