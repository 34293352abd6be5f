//! Plain HTTP for people, probes and Prometheus: HTTP/1.1 on one listener, bounded in connections, time and memory. A broken
//! listener ends its task, and with it the run.

mod guests;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::Service;
use tracing::debug;

use self::guests::{Guests, Seat};
use super::connection::Connection;
use super::dealer::BREATHER;
use super::listener::{Listener, is_fatal};
use super::phase::{Phase, reached};

/// Probes, a scraper and some people; more than this is a mistake, and the oldest make room.
const MAX_CONNECTIONS: usize = 256;
/// Bytes of answers that clients have not taken yet. A page of 1,000 tenants has about half a MiB.
const MAX_HELD: u64 = 32 * 1024 * 1024;
/// Requests with a body at once: each may have as much as `admin` allows.
const MAX_BODIES: usize = 4;
/// How long a request may take, its body included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take to send its request's headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// What one connection may send before it is read, in bytes.
const READ_BUFFER: usize = 64 * 1024;

/// Serves until the phase is over, then lets open requests finish. It belongs to the runtime that it is polled on.
pub(super) async fn serve(listener: Listener, routes: Router, mut phase: watch::Receiver<Phase>) -> io::Result<()> {
    let listener = listener.open()?;
    let guests = Guests::new(MAX_CONNECTIONS, MAX_HELD);
    let bodies = Arc::new(Semaphore::new(MAX_BODIES));
    let routes = routes.layer(from_fn(move |request: Request, next: Next| in_time(Arc::clone(&bodies), request, next)));
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            () = reached(&mut phase, Phase::Over) => break,
        };
        match accepted {
            Ok(connection) => {
                tasks.spawn(serve_connection(connection, routes.clone(), guests.seat(), phase.clone()));
            }
            Err(error) if is_fatal(&error) => return Err(error),
            Err(_) => sleep(BREATHER).await,
        }
    }
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// A client that does not send its body must not hold others up, and few bodies are read at a time.
async fn in_time(bodies: Arc<Semaphore>, request: Request, next: Next) -> Response {
    let is_small = matches!(*request.method(), Method::GET | Method::HEAD);
    let answer = timeout(REQUEST_TIMEOUT, async {
        let _turn = if is_small { None } else { bodies.acquire().await.ok() };
        next.run(request).await
    });
    answer.await.unwrap_or_else(|_| (StatusCode::REQUEST_TIMEOUT, "the request did not come in time\n").into_response())
}

async fn serve_connection(connection: Connection, routes: Router, seat: Arc<Seat>, mut phase: watch::Receiver<Phase>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(READ_BUFFER);
    let service = service_fn(|request: hyper::Request<Incoming>| answer(Arc::clone(&seat), routes.clone(), request));
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(connection), service));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = seat.has_to_leave() => return debug!("an admin connection is closed: it was idle or slow"),
        () = reached(&mut phase, Phase::Over) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "an admin connection ended with an error");
    }
}

/// Answers are whole when they are sent: what the client has not taken of them is counted.
async fn answer(seat: Arc<Seat>, mut routes: Router, request: hyper::Request<Incoming>) -> Result<Response, Infallible> {
    seat.asked();
    let (parts, body) = routes.call(request.map(Body::new)).await?.into_parts();
    // A body that is there cannot fail.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    Ok(Response::from_parts(parts, Body::from(seat.answers(bytes))))
}
