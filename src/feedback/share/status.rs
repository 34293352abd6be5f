//! Whether cooldowns are shared at this moment: a word for `/healthz`, a metric, and one log line at each loss and return.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tracing::{info, warn};

use crate::telemetry::Metrics;

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Connecting,
    Ok,
    Failing(String),
}

#[derive(Debug)]
pub struct Status {
    state: Mutex<State>,
    metrics: Arc<Metrics>,
}

impl Status {
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        metrics.sharing(false);
        Self { state: Mutex::new(State::Connecting), metrics }
    }

    pub(super) fn up(&self) {
        if self.put(State::Ok) != State::Ok {
            self.metrics.sharing(true);
            info!(event = "sharing", "cooldowns are shared through Redis");
        }
    }

    pub(super) fn down(&self, why: &str) {
        let before = self.put(State::Failing(why.to_owned()));
        if !matches!(before, State::Failing(_)) {
            self.metrics.sharing(false);
            warn!(
                event = "not_sharing",
                why, "cooldowns are not shared: Redis is away; each replica goes by what it sees itself"
            );
        }
    }

    fn put(&self, state: State) -> State {
        std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), state)
    }

    /// `connecting`, `ok` or `failing`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Connecting => "connecting",
            State::Ok => "ok",
            State::Failing(_) => "failing",
        }
    }

    #[must_use]
    pub fn to_json(&self) -> Value {
        let error = match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Failing(why) => Some(why.clone()),
            State::Connecting | State::Ok => None,
        };
        json!({"share": "redis", "state": self.word(), "last_error": error})
    }
}
