//! Plain HTTP for people, probes and Prometheus: one listener, HTTP/1.1, few connections. A broken listener ends its task, and
//! with it the run.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::connection::Connection;
use super::dealer::BREATHER;
use super::listener::{Listener, is_fatal};
use super::phase::{Phase, reached};

/// Probes, a scraper and some people; more than this is a mistake, and waits.
const MAX_CONNECTIONS: usize = 256;
/// How long a request may take, its body included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take to send its request's headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until the phase is over, then lets open requests finish.
pub(super) async fn serve(listener: Listener, routes: Router, mut phase: watch::Receiver<Phase>) -> io::Result<()> {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut tasks = JoinSet::new();
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return Ok(()) };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            () = reached(&mut phase, Phase::Over) => break,
        };
        match accepted {
            Ok(connection) => {
                let (routes, phase) = (routes.clone(), phase.clone());
                tasks.spawn(async move {
                    serve_connection(connection, routes, phase).await;
                    drop(permit);
                });
            }
            Err(error) if is_fatal(&error) => return Err(error),
            Err(_) => sleep(BREATHER).await,
        }
    }
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// A client that does not send its body must not hold one of the connections for ever: the probes need them.
async fn in_time(request: Request, next: Next) -> Response {
    let answer = timeout(REQUEST_TIMEOUT, next.run(request)).await;
    answer.unwrap_or_else(|_| (StatusCode::REQUEST_TIMEOUT, "the request did not come in time\n").into_response())
}

async fn serve_connection(connection: Connection, routes: Router, mut phase: watch::Receiver<Phase>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let routes = routes.layer(from_fn(in_time));
    let serving = http.serve_connection(TokioIo::new(connection), TowerToHyperService::new(routes));
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = reached(&mut phase, Phase::Over) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "an admin connection ended with an error");
    }
}
