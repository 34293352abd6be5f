//! The one place where a decision is put together, and what all streams share for it. A stream that asks for a decision becomes a
//! [`Judgement`], one in the upstream role an [`attempt::Attempt`].

pub mod affinity;
pub mod attempt;
mod judgement;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use self::affinity::Affinity;
pub use self::judgement::Judgement;
use crate::catalog::store::Store;
use crate::explain::Rules;
use crate::feedback::Monitor;
use crate::secret::Keys;
use crate::settings::{Publish, Settings};
use crate::telemetry::Metrics;

/// What all streams share.
#[derive(Debug)]
pub struct Pipeline {
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    keys: Keys,
    affinity: Arc<Affinity>,
    rules: Rules,
    publish: Publish,
    monitor: Arc<Monitor>,
    /// Overrides carry what the access log has to bring back.
    feedback: bool,
    body_wait: Duration,
    /// Decision ids: a random start, then counted.
    next_id: AtomicU64,
    warned_too_late: AtomicBool,
}

impl Pipeline {
    #[must_use]
    pub fn new(
        settings: &Settings,
        store: Arc<Store>,
        metrics: Arc<Metrics>,
        keys: Keys,
        monitor: Arc<Monitor>,
        affinity: Arc<Affinity>,
    ) -> Self {
        let mut seed = [0; 8];
        // Without randomness ids may repeat after a restart; nothing but log reading depends on them.
        let _ = getrandom::fill(&mut seed);
        Self {
            store,
            metrics,
            keys,
            affinity,
            rules: settings.rules(),
            publish: settings.publish.clone(),
            monitor,
            feedback: settings.feedback.enabled && !settings.publish.decision_header.is_empty(),
            body_wait: settings.limits.body_wait,
            next_id: AtomicU64::new(u64::from_le_bytes(seed)),
            warned_too_late: AtomicBool::new(false),
        }
    }

    /// How long the client's bytes are awaited where only we can end the wait.
    #[must_use]
    pub fn body_wait(&self) -> Duration {
        self.body_wait
    }

    /// Starts a stream: from here on it sees one snapshot of the catalog, whatever is loaded meanwhile.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Judgement {
        Judgement::new(Arc::clone(self))
    }

    /// Headers of ours that no client may send: names as configured.
    fn own_headers(&self) -> [&str; 3] {
        [self.publish.decision_header.as_str(), self.publish.sticky_header.as_str(), attempt::origin::HEADER]
    }

    fn decision_id(&self) -> String {
        // An odd multiplier permutes the counter, so that ids do not look like a count.
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        format!("{id:016x}")
    }

    fn warn_too_late(&self) {
        if !self.warned_too_late.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                event = "mode_too_late",
                "Envoy's ext_proc filter streams the request body (request_body_mode: STREAMED): it forwards the headers before the \
                 model is known, so that no override can take effect. Use BUFFERED or FULL_DUPLEX_STREAMED"
            );
        }
    }
}
