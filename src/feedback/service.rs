//! `envoy.service.accesslog.v3.AccessLogService`: Envoy's log streams on the gRPC port, taken in entry by entry. It runs beside the
//! requests, never before one. One message that cannot be read does not end its stream. What entries mean is `reader`'s business.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::interval;
use tonic::body::Body;
use tonic::server::{ClientStreamingService, Grpc, NamedService};
use tonic::{Request, Response, Status, Streaming};
use tower::Service;

use super::codec::{Frame, LogCodec};
use super::monitor::Monitor;
use super::reader::Reader;
use crate::catalog::store::Store;
use crate::directory::Sessions;
use crate::secret::Keys;
use crate::settings::Settings;
use crate::telemetry::{Ignored, Metrics};

const SERVICE: &str = "envoy.service.accesslog.v3.AccessLogService";
const STREAM: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";

/// What is read of a message before others of this thread have their turn, in bytes: well under a millisecond, whatever the entries
/// are. An entry costs as much as some hundred bytes beside its own.
const TURN: usize = 32 * 1024;
const ENTRY: usize = 512;
/// How often attempts that have waited long enough for their request's entry are given up, where nothing else happens.
const SWEEP: Duration = Duration::from_secs(1);

/// The service; clones share everything.
#[derive(Debug, Clone)]
pub struct AccessLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    log_name: String,
    reader: Reader,
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
        let reader = Reader::new(settings, store, monitor, metrics, keys, sessions.filter(|sessions| sessions.learns()));
        Self(Arc::new(Inner { log_name: settings.feedback.log_name.clone(), reader, over: watch::Sender::new(false) }))
    }

    /// Ends the log's streams, which would keep their connections open for ever. What they would still tell is lost.
    pub fn end(&self) {
        self.0.over.send_replace(true);
    }

    /// Takes in one encoded `HTTPAccessLogEntry` of our log.
    pub fn take(&self, entry: &Bytes) {
        self.0.reader.take(entry);
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

struct Stream(Arc<Inner>);

impl ClientStreamingService<Frame> for Stream {
    type Response = ();
    type Future = BoxFuture<Result<Response<()>, Status>>;

    fn call(&mut self, request: Request<Streaming<Frame>>) -> Self::Future {
        let (inner, mut messages) = (Arc::clone(&self.0), request.into_inner());
        Box::pin(async move {
            // The name is in the first message; the others belong to it.
            let mut name = Bytes::new();
            let mut over = inner.over.subscribe();
            let mut sweep = interval(SWEEP);
            loop {
                let received = tokio::select! {
                    received = messages.message() => received?,
                    _ = sweep.tick() => {
                        inner.reader.sweep();
                        continue;
                    }
                    _ = over.wait_for(|over| *over) => None,
                };
                let Some(received) = received else { return Ok(Response::new(())) };
                inner.receive(received, &mut name).await;
                // A batch of thousands must not keep others of this thread waiting twice.
                tokio::task::yield_now().await;
            }
        })
    }
}

impl Inner {
    async fn receive(&self, received: Frame, name: &mut Bytes) {
        let Frame::Message(message) = received else {
            self.reader.ignore(Ignored::Unreadable, 1, "");
            return;
        };
        if let Some(identifier) = message.identifier {
            *name = identifier.log_name;
        }
        let entries = message.http.map(|http| http.entries).unwrap_or_default();
        self.reader.ignore(Ignored::Tcp, message.tcp.map_or(0, |tcp| tcp.entries.len()), "");
        if *name == self.log_name.as_bytes() {
            let mut read = 0;
            for entry in &entries {
                self.reader.take(entry);
                read += entry.len() + ENTRY;
                if read >= TURN {
                    read = 0;
                    tokio::task::yield_now().await;
                }
            }
        } else {
            self.reader.ignore(Ignored::LogName, entries.len(), &String::from_utf8_lossy(name));
        }
    }
}
