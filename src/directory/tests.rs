//! One contract for every directory, each the real thing: HTTP over a socket, Redis as a server of its own.

mod connections;
mod learning;
mod suite;
mod trouble;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::Notify;

use super::*;
use crate::lab::{RedisServer, eventually};
use crate::session::template::Template;

/// Longer than any answer here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn settings() -> Session {
    Session { timeout: PATIENCE, ..Session::default() }
}

fn memory(settings: &Session) -> Arc<Memory> {
    Arc::new(Memory::new(settings.capacity, settings.ttl, settings.negative_ttl))
}

fn cached(remote: Arc<dyn Remote>, settings: &Session) -> Cached {
    Cached::new(remote, memory(settings), settings, Arc::new(Metrics::new()))
}

/// Waits until it holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    eventually(what, PATIENCE, async || holds().await.then_some(())).await.unwrap();
}

/// A directory over HTTP that knows what it is told, counts, and can be made to wait.
#[derive(Clone, Default)]
struct Web {
    known: Arc<Mutex<HashMap<String, (u16, String)>>>,
    asked: Arc<AtomicUsize>,
    /// Held: nobody is answered before [`Web::release`].
    held: Arc<Mutex<bool>>,
    released: Arc<Notify>,
}

impl Web {
    async fn open() -> (Self, String) {
        let (web, listener) = (Self::default(), tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = web.clone();
        let router = Router::new().fallback(move |request: Request| {
            let web = state.clone();
            async move { web.answer(request.uri().path()).await }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        (web, url)
    }

    async fn answer(&self, path: &str) -> Response {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let released = self.released.notified();
        if *self.held.lock().unwrap() {
            released.await;
        }
        match self.known.lock().unwrap().get(path) {
            Some((status, body)) => (StatusCode::from_u16(*status).unwrap(), body.clone()).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }

    fn tell(&self, path: &str, status: u16, body: &str) {
        self.known.lock().unwrap().insert(path.to_owned(), (status, body.to_owned()));
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn hold(&self) {
        *self.held.lock().unwrap() = true;
    }

    fn release(&self) {
        *self.held.lock().unwrap() = false;
        self.released.notify_waiters();
    }

    /// Waits until this many questions have come.
    async fn is_asked(&self, times: usize) {
        until("the directory is asked", async || self.asked() >= times).await;
    }
}
