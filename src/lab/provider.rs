//! Stub providers: servers on loopback that record what reaches them and answer as they are told. They decide nothing by
//! themselves but leave their name in `x-served-by`.

use std::future::{pending, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use futures_util::StreamExt;
use futures_util::stream::{self, once};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

use super::{Result, Trouble};

/// More than any test sends.
const MAX_BODY: usize = 128 << 20;

/// A request as it reached a provider.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub path: String,
    /// Names in lower case, in the order received.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// What the provider answered; 0 while it has not.
    pub answered: u16,
}

impl Seen {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The top-level `model` of a JSON body.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        body.get("model")?.as_str().map(str::to_owned)
    }
}

/// How a reply goes on after what it has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It is complete.
    End,
    /// The connection stays open, and nothing more comes.
    Stall,
    /// The connection breaks.
    Break,
}

/// What a provider answers.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub then: Then,
    /// False: not even the head is sent.
    pub begins: bool,
}

impl Reply {
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new(), then: Then::End, begins: true }
    }

    /// No answer at all, and an open connection.
    #[must_use]
    pub fn silence() -> Self {
        Self { begins: false, ..Self::status(0) }
    }

    /// What follows the body.
    #[must_use]
    pub fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }

    /// The provider's rate limit, as providers say it: 429 with `retry-after` in seconds.
    #[must_use]
    pub fn too_many(retry_after: u32) -> Self {
        Self::status(429).header("retry-after", &retry_after.to_string())
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }
}

type Script = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

struct Desk {
    name: String,
    begun: AtomicUsize,
    seen: Mutex<Vec<Seen>>,
    script: Mutex<Script>,
}

/// A provider that runs until it is dropped.
pub struct Provider {
    address: SocketAddr,
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

impl Provider {
    /// Starts one that answers by `script`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(name: &str, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Result<Self> {
        let (mut provider, listener, router) = Self::open(name, script).await?;
        provider.task = tokio::spawn(async move {
            // It ends when the task is aborted; an error of the listener shows as a provider that refuses.
            let _ = axum::serve(listener, router).await;
        });
        Ok(provider)
    }

    /// Starts one that speaks HTTP/2 from the first byte, and holds requests to the length that they declare.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_http2(name: &str, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Result<Self> {
        let (mut provider, listener, router) = Self::open(name, script).await?;
        provider.task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(router.clone());
                let http2 = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(http2.serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(provider)
    }

    async fn open(name: &str, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Result<(Self, TcpListener, Router)> {
        let listener =
            TcpListener::bind("127.0.0.1:0").await.map_err(|error| Trouble::new("opening a port for a provider", error))?;
        let address = listener.local_addr().map_err(|error| Trouble::new("reading a provider's port", error))?;
        let script: Script = Arc::new(script);
        let desk = Arc::new(Desk {
            name: name.to_owned(),
            begun: AtomicUsize::new(0),
            seen: Mutex::default(),
            script: Mutex::new(script),
        });
        let router = Router::new().fallback(serve).with_state(Arc::clone(&desk));
        Ok((Self { address, desk, task: tokio::spawn(std::future::ready(())) }, listener, router))
    }

    /// Starts one that always answers with this status.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn answering(name: &str, status: u16) -> Result<Self> {
        Self::start(name, move |_| Reply::status(status)).await
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.desk.name
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it answers by `script`.
    pub fn answer(&self, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        *lock(&self.desk.script) = Arc::new(script);
    }

    /// From now on it always answers with this status.
    pub fn answer_status(&self, status: u16) {
        self.answer(move |_| Reply::status(status));
    }

    /// How many requests have begun: their heads are here, whatever is still to come.
    #[must_use]
    pub fn begun(&self) -> usize {
        self.desk.begun.load(Ordering::SeqCst)
    }

    /// Every request so far that has come to its end, in that order.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.desk.seen).clone()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(State(desk): State<Arc<Desk>>, request: axum::extract::Request) -> http::Response<Body> {
    desk.begun.fetch_add(1, Ordering::SeqCst);
    let (parts, body) = request.into_parts();
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let method = parts.method.to_string();
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    // A body that breaks off is kept as what it is: not all of it came.
    let body = to_bytes(body, MAX_BODY).await.map(|bytes| bytes.to_vec()).unwrap_or_default();
    let mut seen = Seen { method, path, headers, body, answered: 0 };
    let script = Arc::clone(&lock(&desk.script));
    let reply = script(&seen);
    seen.answered = reply.status;
    lock(&desk.seen).push(seen);
    if !reply.begins {
        pending::<()>().await;
    }
    respond(&desk.name, reply)
}

fn respond(name: &str, reply: Reply) -> http::Response<Body> {
    let mut response = http::Response::builder().status(reply.status).header("x-served-by", name);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let body = match reply.then {
        Then::End => Body::from(reply.body),
        Then::Stall => Body::from_stream(once(ready(Ok::<_, io::Error>(reply.body))).chain(stream::pending())),
        Then::Break => {
            // A turn later, so that what was said is sent before.
            let broken = once(async {
                tokio::task::yield_now().await;
                Err(io::Error::other("the provider breaks off"))
            });
            Body::from_stream(once(ready(Ok(reply.body))).chain(broken))
        }
    };
    response.body(body).unwrap_or_else(|_| http::Response::new(Body::from("a reply that cannot be sent")))
}

/// A panic of a script must not hide what the other requests left.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port that refuses every connection for as long as this lives: bound, so nobody else gets it, and never listened to.
#[derive(Debug)]
pub struct DeadPort {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl DeadPort {
    /// # Errors
    /// When no port can be had.
    pub fn reserve() -> Result<Self> {
        let doing = "reserving a port that refuses";
        let socket = TcpSocket::new_v4().map_err(|error| Trouble::new(doing, error))?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).map_err(|error| Trouble::new(doing, error))?;
        let address = socket.local_addr().map_err(|error| Trouble::new(doing, error))?;
        Ok(Self { address, _socket: socket })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
