//! One thread, one current-thread runtime, the gRPC connections dealt to it. Threads that wake each other cost more than a
//! decision does (fact 34), so a stream lives and dies on the thread of its connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::debug;

use super::connection::{Connection, Parked};
use super::greeting;
use super::phase::{Phase, reached};
use super::routes::{Door, Processor, Routes};
use crate::telemetry::Metrics;

/// What one stream may send before we have read it, in bytes. A body of 20 MB then needs few round trips.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
/// The same for all streams of a connection together. It bounds what a connection can make us hold unread.
const CONNECTION_WINDOW: u32 = 32 * 1024 * 1024;
/// Finds peers that vanished without a word.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a peer may take to say that it speaks HTTP/2. Envoy says so with its first packet.
const GREETING: Duration = Duration::from_secs(5);

type Dealt = (Parked, Door, Open);

/// A worker as the accepting side sees it.
#[derive(Debug)]
pub(super) struct Worker {
    connections: mpsc::UnboundedSender<Dealt>,
    open: Arc<AtomicUsize>,
    thread: thread::JoinHandle<()>,
}

/// What the workers share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) metrics: Arc<Metrics>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) max_concurrent_streams: u32,
}

impl Worker {
    /// Starts a worker. The receiver resolves when its thread ends, for whatever reason.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub(super) fn start<P: Processor>(
        index: usize,
        routes: Routes<P>,
        shared: Shared,
    ) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let (connections, incoming) = mpsc::unbounded_channel();
        let (alive, ended) = oneshot::channel::<()>();
        let open = Arc::new(AtomicUsize::new(0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            let _alive = alive;
            runtime.block_on(serve(incoming, routes, shared));
            // Streams that outlived the drain are dropped with the runtime; blocking tasks are not waited for.
            runtime.shutdown_background();
        })?;
        Ok((Self { connections, open, thread }, ended))
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Hands a connection over. A worker that is gone drops it.
    pub(super) fn deal(&self, connection: Parked, door: Door) {
        let open = Open::count(&self.open);
        let _ = self.connections.send((connection, door, open));
    }

    /// Waits for the thread, which must be about to end.
    pub(super) fn join(self) -> thread::Result<()> {
        self.thread.join()
    }
}

/// Counts a dealt connection as open until it is dropped.
#[derive(Debug)]
struct Open(Arc<AtomicUsize>);

impl Open {
    fn count(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve<P: Processor>(mut incoming: mpsc::UnboundedReceiver<Dealt>, routes: Routes<P>, shared: Shared) {
    let mut phase = shared.phase.clone();
    let mut tasks = JoinSet::new();
    let http = http(shared.max_concurrent_streams);
    loop {
        tokio::select! {
            dealt = incoming.recv() => match dealt {
                Some((parked, door, open)) => {
                    let guards = (open, shared.metrics.connection());
                    let routes = Routes { door, ..routes.clone() };
                    let (http, phase) = (http.clone(), shared.phase.clone());
                    tasks.spawn(async move {
                        match parked.unpark() {
                            Ok(connection) => serve_connection(&http, connection, routes, phase).await,
                            Err(error) => debug!(%error, "a connection could not be taken over"),
                        }
                        drop(guards);
                    });
                }
                None => break,
            },
            Some(_) = tasks.join_next() => {}
            () = reached(&mut phase, Phase::Draining) => break,
        }
    }
    tokio::select! {
        () = async { while tasks.join_next().await.is_some() {} } => {}
        () = reached(&mut phase, Phase::Over) => {}
    }
}

fn http(max_concurrent_streams: u32) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(max_concurrent_streams)
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        // When many clients hang up at once Envoy resets that many streams at once. The default of 20 would answer with a
        // GOAWAY and take every other stream of the connection along.
        .max_pending_accept_reset_streams(usize::try_from(max_concurrent_streams).unwrap_or(usize::MAX).max(1024))
        .auto_date_header(false);
    http
}

async fn serve_connection<P: Processor>(
    http: &http2::Builder<TokioExecutor>,
    connection: Connection,
    routes: Routes<P>,
    mut phase: watch::Receiver<Phase>,
) {
    let (connection, greeted) = greeting::awaited(connection);
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(connection), routes));
    let mut ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        _ = greeted => None,
        () = sleep(GREETING) => return debug!("a connection that never spoke HTTP/2 is closed"),
        // Who has not begun by now will not.
        () = reached(&mut phase, Phase::Draining) => return,
    };
    if ended.is_none() {
        ended = tokio::select! {
            ended = serving.as_mut() => Some(ended),
            () = reached(&mut phase, Phase::Draining) => {
                // GOAWAY: no new streams; the open ones finish.
                serving.as_mut().graceful_shutdown();
                Some(serving.await)
            }
        };
    }
    if let Some(Err(error)) = ended {
        debug!(%error, "a gRPC connection ended with an error");
    }
}
