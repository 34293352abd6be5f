//! Session directories: who knows where a session lives. Asking one cannot fail: what goes wrong is part of the answer. A
//! directory knows keys and placements; which requests ask, and what comes of an answer, is decided elsewhere.

mod cached;
mod flight;
mod http;
pub mod memory;
mod redis;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

pub use self::cached::Cached;
pub use self::http::Http;
pub use self::memory::Memory;
pub use self::redis::Redis;
use crate::session::template::Template;
use crate::session::{Answer, Fault};
use crate::settings::{self, Session};
use crate::telemetry::Metrics;

/// An answer that is there, or on its way. Dropping one ends the wait, never the lookup of somebody else.
pub enum Lookup {
    Ready(Answer),
    Pending(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl Debug for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready(answer) => write!(f, "Ready({})", answer.as_str()),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}

impl Lookup {
    pub async fn answer(self) -> Answer {
        match self {
            Self::Ready(answer) => answer,
            Self::Pending(pending) => pending.await,
        }
    }
}

/// One that can be asked.
pub trait Directory: Debug + Send + Sync {
    fn look_up(&self, key: &str) -> Lookup;
}

/// The directory of the settings and the keys it is asked by.
#[derive(Debug)]
pub struct Sessions {
    kind: &'static str,
    asked: Arc<dyn Directory>,
    pub template: Template,
    /// Of the remote ones.
    cache: Option<Arc<Cached>>,
}

impl Sessions {
    /// Makes what the settings name; `None`: no directory. Nothing is connected yet. It must be called inside a runtime, which
    /// lookups then run on, whatever thread they are asked from.
    ///
    /// # Errors
    /// A client cannot be made.
    pub fn open(settings: &Session, metrics: &Arc<Metrics>) -> Result<Option<Self>, String> {
        let (kind, remote, template): (_, Arc<dyn Directory>, _) = match &settings.directory {
            settings::Directory::None => return Ok(None),
            settings::Directory::Memory(template) => {
                let memory = Arc::new(Memory::new(settings.capacity, settings.ttl, settings.negative_ttl));
                return Ok(Some(Self { kind: "memory", asked: memory, template: template.clone(), cache: None }));
            }
            settings::Directory::Http(template) => ("http", Arc::new(Http::new(settings.timeout)?), template.clone()),
            settings::Directory::Redis { url, key } => ("redis", Arc::new(Redis::new(url, settings.timeout)?), key.clone()),
        };
        let cached = Arc::new(Cached::new(remote, settings, Arc::clone(metrics)));
        Ok(Some(Self { kind, asked: cached.clone(), template, cache: Some(cached) }))
    }

    /// Starts to ask.
    #[must_use]
    pub fn look_up(&self, key: &str) -> Lookup {
        self.asked.look_up(key)
    }

    /// The directory's state for people.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({"directory": self.kind});
        if let Some(cache) = &self.cache {
            let (failures, last) = cache.trouble();
            status["state"] = json!(if failures == 0 { "ok" } else { "failing" });
            status["failures_since"] = json!(failures);
            status["last_error"] = json!(last.map(Fault::as_str));
            status["cached"] = json!(cache.len());
        }
        status
    }
}

#[cfg(test)]
mod tests;
