//! One contract for every directory, each the real thing: HTTP over a socket, Redis as a server of its own.

mod learning;
mod suite;
mod trouble;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::Notify;

use super::*;
use crate::session::template::Template;

/// Longer than any answer here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn settings() -> Session {
    Session { timeout: PATIENCE, ..Session::default() }
}

fn memory(settings: &Session) -> Arc<Memory> {
    Arc::new(Memory::new(settings.capacity, settings.ttl, settings.negative_ttl))
}

fn cached(remote: Arc<dyn Directory>, settings: &Session) -> Cached {
    Cached::new(remote, memory(settings), settings, Arc::new(Metrics::new()))
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
        let waits = async {
            while self.asked() < times {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, waits).await.expect("the directory is asked");
    }
}

/// Debian's `redis-server` on a socket in a directory of its own.
struct RedisServer {
    child: Option<Child>,
    folder: tempfile::TempDir,
}

impl RedisServer {
    async fn start() -> Self {
        let mut server = Self { child: None, folder: tempfile::tempdir().unwrap() };
        server.run();
        let up = async {
            while tokio::net::UnixStream::connect(server.socket()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, up).await.expect("redis-server listens");
        server
    }

    fn run(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(self.socket());
        let child = command.arg("--dir").arg(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.unwrap_or_else(|error| {
            panic!("these tests ask a real Redis: install `redis-server` (Debian: apt-get install redis-server): {error}")
        }));
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    async fn set(&self, key: &str, value: &str) {
        self.ask::<()>(::redis::cmd("SET").arg(key).arg(value)).await;
    }

    async fn ask<T: ::redis::FromRedisValue>(&self, command: &::redis::Cmd) -> T {
        let client = ::redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        command.query_async(&mut connection).await.unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}
