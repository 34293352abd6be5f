//! Whether cooldowns are shared at this moment: a word for `/healthz`, a metric, and one log line at each loss and return.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tracing::{info, warn};

use crate::telemetry::Metrics;

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Connecting,
    Ok,
    Failing(String),
}

/// Reading and writing fail apart: a Redis that is full, or a copy, gives and does not take.
#[derive(Debug)]
struct Sides {
    reads: State,
    /// Why the last write was refused.
    refused: Option<String>,
}

impl Sides {
    fn state(&self) -> State {
        match (&self.reads, &self.refused) {
            (State::Ok, Some(why)) => State::Failing(why.clone()),
            (reads, _) => reads.clone(),
        }
    }
}

#[derive(Debug)]
pub struct Status {
    sides: Mutex<Sides>,
    metrics: Arc<Metrics>,
}

impl Status {
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        metrics.sharing(false);
        Self { sides: Mutex::new(Sides { reads: State::Connecting, refused: None }), metrics }
    }

    pub(super) fn up(&self) {
        self.change(|sides| sides.reads = State::Ok);
    }

    pub(super) fn down(&self, why: &str) {
        self.change(|sides| sides.reads = State::Failing(why.to_owned()));
    }

    pub(super) fn written(&self) {
        self.change(|sides| sides.refused = None);
    }

    pub(super) fn refused(&self, why: &str) {
        self.change(|sides| sides.refused = Some(why.to_owned()));
    }

    fn change(&self, change: impl FnOnce(&mut Sides)) {
        let mut sides = self.lock();
        let before = sides.state();
        change(&mut sides);
        let after = sides.state();
        drop(sides);
        match (before, after) {
            (State::Connecting | State::Failing(_), State::Ok) => {
                self.metrics.sharing(true);
                info!(event = "sharing", "cooldowns are shared through Redis");
            }
            (State::Connecting | State::Ok, State::Failing(why)) => {
                self.metrics.sharing(false);
                warn!(
                    event = "not_sharing",
                    why, "cooldowns are not shared: Redis is away or refuses; each replica goes by what it sees itself"
                );
            }
            (State::Ok, State::Ok) | (State::Failing(_), State::Failing(_)) | (_, State::Connecting) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sides> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `connecting`, `ok` or `failing`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.lock().state() {
            State::Connecting => "connecting",
            State::Ok => "ok",
            State::Failing(_) => "failing",
        }
    }

    #[must_use]
    pub fn to_json(&self) -> Value {
        let error = match self.lock().state() {
            State::Failing(why) => Some(why),
            State::Connecting | State::Ok => None,
        };
        json!({"share": "redis", "state": self.word(), "last_error": error})
    }
}
