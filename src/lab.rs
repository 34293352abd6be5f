//! A laboratory on loopback: a real Envoy, stub providers that record what reaches them, and a client that can be slow. The demo
//! and the end-to-end tests both stand on it, so what the demo shows is what the tests assert.
//!
//! It decides how these parts are started, watched and stopped. It refuses to know catalogs and decisions: the processor that
//! Envoy asks is whatever listens at the address it is given.

pub mod binary;
pub mod client;
pub mod config;
pub mod envoy;
pub mod provider;
pub mod redis;
pub mod scratch;
pub mod serve;
pub mod tap;
pub mod trail;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use client::{Request, Response};
pub use config::{BodyMode, Cluster, EnvoySetup, Group, OwnFilters};
pub use envoy::Envoy;
pub use provider::{DeadPort, Provider, Reply, Seen, Then};
pub use redis::RedisServer;
pub use scratch::Scratch;
pub use serve::Serve;
pub use tap::Tap;
pub use trail::{Attempt, Trail};

/// Why the laboratory could not be set up or read, in words that say what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble(pub String);

impl Trouble {
    /// What was being done, and what came of it.
    pub fn new(doing: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self(format!("{doing}: {error}"))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}

/// Where something listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<&Endpoint> for Endpoint {
    fn from(endpoint: &Endpoint) -> Self {
        endpoint.clone()
    }
}

impl fmt::Display for Endpoint {
    /// As Cascade's flags have it: `host:port` or `unix:/path`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub type Result<T> = std::result::Result<T, Trouble>;

/// How often a condition is looked at while it is awaited.
const POLL: Duration = Duration::from_millis(10);

/// Looks at `condition` until it yields a value. What is awaited goes on in other processes, whose sockets, files and counters
/// tell nobody that they have changed: so they are looked at, and the pause between two looks decides nothing.
///
/// # Errors
/// When `limit` has passed; the message names what was awaited.
pub async fn eventually<T>(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = condition().await {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            return Err(Trouble::new(what, format!("not within {limit:?}")));
        }
        tokio::time::sleep(POLL).await;
    }
}
