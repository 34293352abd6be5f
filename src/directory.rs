//! Session directories: who knows where a session lives. Asking one cannot fail: what goes wrong is part of the answer. A
//! directory knows keys and placements; which requests ask, and what comes of an answer, is decided elsewhere.

mod cached;
mod failure;
mod flight;
mod http;
mod learning;
pub mod memory;
mod outage;
mod redis;
mod turns;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

pub use self::cached::Cached;
pub use self::failure::Failure;
pub use self::http::Http;
use self::learning::Learning;
pub use self::learning::Served;
pub use self::memory::Memory;
pub use self::redis::Redis;
use crate::session::template::Template;
use crate::session::{Answer, Fault, Placement};
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
    /// `tenant`: whom the answer is remembered for, and whose turn it is. It is no part of the key.
    fn look_up(&self, tenant: Option<&str>, key: &str) -> Lookup;
}

/// One somewhere else: it may give no answer, and then says why.
pub trait Remote: Debug + Send + Sync {
    fn ask(&self, key: &str) -> Asking;
}

/// What a remote directory is about to say.
pub type Asking = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

impl<R: Remote> Directory for R {
    fn look_up(&self, _: Option<&str>, key: &str) -> Lookup {
        let asking = self.ask(key);
        Lookup::Pending(Box::pin(async { asking.await.unwrap_or_else(|failure| Answer::Unavailable(failure.fault)) }))
    }
}

/// The directory of the settings and the keys it is asked by.
#[derive(Debug)]
pub struct Sessions {
    kind: &'static str,
    asked: Arc<dyn Directory>,
    pub template: Template,
    /// Of the remote ones.
    cache: Option<Arc<Cached>>,
    /// While `session.learn` is on.
    learning: Option<Learning>,
    /// `session.learn_endpoint`.
    pub learns_endpoints: bool,
}

impl Sessions {
    /// Makes what the settings name; `None`: no directory. Nothing is connected yet. It must be called inside a runtime, which
    /// lookups then run on, whatever thread they are asked from.
    ///
    /// # Errors
    /// A client cannot be made.
    pub fn open(settings: &Session, metrics: &Arc<Metrics>) -> Result<Option<Self>, String> {
        let Session { capacity, ttl, negative_ttl, timeout, learn, learn_endpoint: learns_endpoints, .. } = *settings;
        let memory = || Arc::new(Memory::new(capacity, ttl, negative_ttl));
        let learning = |memory| Learning::new(memory, ttl, Arc::clone(metrics));
        let cached = |remote, memory| Arc::new(Cached::new(remote, memory, settings, Arc::clone(metrics)));
        Ok(Some(match &settings.directory {
            settings::Directory::None => return Ok(None),
            settings::Directory::Memory(template) => {
                let memory = memory();
                let learning = learn.then(|| learning(Arc::clone(&memory)));
                Self { kind: "memory", asked: memory, template: template.clone(), cache: None, learning, learns_endpoints }
            }
            settings::Directory::Http(template) => {
                let cached = cached(Arc::new(Http::new(timeout)?), memory());
                // The directory's answers stay apart from what is learned: it has the first word.
                let learning = learn.then(|| learning(memory()).apart());
                Self {
                    kind: "http",
                    asked: cached.clone(),
                    template: template.clone(),
                    cache: Some(cached),
                    learning,
                    learns_endpoints,
                }
            }
            settings::Directory::Redis { url, key } => {
                let (redis, memory, place) = (Redis::new(url, timeout, ttl)?, memory(), settings.directory.place());
                let cached = cached(Arc::new(redis.clone()), Arc::clone(&memory));
                let learning = learn.then(|| learning(memory).shared(redis, timeout, place));
                Self {
                    kind: "redis",
                    asked: cached.clone(),
                    template: key.clone(),
                    cache: Some(cached),
                    learning,
                    learns_endpoints,
                }
            }
        }))
    }

    /// Starts to ask.
    #[must_use]
    pub fn look_up(&self, tenant: Option<&str>, key: &str) -> Lookup {
        self.asked.look_up(tenant, key)
    }

    /// What served the session last, where the directory cannot be told: in memory and in Redis it is the directory's own word.
    #[must_use]
    pub fn learned(&self, key: &str) -> Option<Arc<Placement>> {
        match self.learning.as_ref().filter(|learning| learning.is_apart)?.memory.get(key)? {
            Answer::Placed(placement) => Some(placement),
            Answer::NotAsked | Answer::Unknown | Answer::Unavailable(_) => None,
        }
    }

    /// True if what serves a session is remembered.
    #[must_use]
    pub fn learns(&self) -> bool {
        self.learning.is_some()
    }

    /// True if nothing can be learned from a success of this cluster at this address: it is known already.
    #[must_use]
    pub fn knows(&self, key: &str, cluster: &str, endpoint: Option<&str>) -> bool {
        self.learning.as_ref().is_none_or(|learning| learning.knows(key, cluster, endpoint))
    }

    /// Remembers what served the session.
    pub fn learn(&self, key: &str, served: Served) {
        if let Some(learning) = &self.learning {
            learning.learn(key, served);
        }
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
        if let Some(learning) = &self.learning {
            status["learned"] = json!({"remembered": learning.memory.len(), "failures_since": learning.failures()});
        }
        status
    }
}

#[cfg(test)]
mod tests;
