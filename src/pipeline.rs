//! The one place where a decision is put together, and what all streams share for it. A stream that asks for a decision becomes a
//! [`Judgement`], one in the upstream role an [`attempt::Attempt`].

pub mod affinity;
pub mod attempt;
mod caution;
pub mod held;
mod judgement;
mod shown;
mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use self::affinity::Affinity;
use self::caution::Cautions;
use self::held::Account;
pub use self::judgement::{Judgement, Word};
use self::stage::Stages;
pub use self::stage::{Stage, Watcher};
use crate::catalog::store::Store;
use crate::encode::router;
use crate::explain::Rules;
use crate::extract::Found;
use crate::extract::head::{self, Head};
use crate::extract::source::{Plan, Source};
use crate::feedback::Monitor;
use crate::feedback::token::Token;
use crate::secret::Keys;
use crate::settings::{Publish, Settings};
use crate::telemetry::Metrics;

/// How many headers no client may send.
const OWN_HEADERS: usize = 3 + router::HEADERS.len();

/// What all streams share.
#[derive(Debug)]
pub struct Pipeline {
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    keys: Keys,
    affinity: Arc<Affinity>,
    rules: Rules,
    /// Where an attempt finds the model: as a decision does.
    renaming: Plan,
    publish: Publish,
    monitor: Arc<Monitor>,
    /// Overrides carry what the access log has to bring back.
    feedback: bool,
    body_wait: Duration,
    /// What all streams hold of bodies.
    held: Arc<Account>,
    /// Decision ids: a random start, then counted.
    next_id: AtomicU64,
    warned_too_late: AtomicBool,
    cautions: Cautions,
    stages: Stages,
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
            held: Account::new(settings.limits.held_bodies, Arc::clone(&metrics)),
            store,
            metrics,
            keys,
            affinity,
            renaming: renaming(&settings.rules().plan),
            rules: settings.rules(),
            publish: settings.publish.clone(),
            monitor,
            feedback: settings.feedback.enabled && !settings.publish.decision_header.is_empty(),
            body_wait: settings.limits.body_wait,
            next_id: AtomicU64::new(u64::from_le_bytes(seed)),
            warned_too_late: AtomicBool::new(false),
            cautions: Cautions::new(),
            stages: Stages::default(),
        }
    }

    /// Lets somebody watch every stage of every decision.
    #[must_use]
    pub fn watched_by(self, watcher: Watcher) -> Self {
        Self { stages: Stages::watched_by(watcher), ..self }
    }

    /// How long the client's bytes are awaited where only we can end the wait.
    #[must_use]
    pub fn body_wait(&self) -> Duration {
        self.body_wait
    }

    /// What all streams hold of bodies.
    #[must_use]
    pub fn held(&self) -> &Arc<Account> {
        &self.held
    }

    /// Starts a stream: from here on it sees one snapshot of the catalog, whatever is loaded meanwhile.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Judgement {
        Judgement::new(Arc::clone(self))
    }

    /// Headers that no client may send: our own under their configured names, and those that Envoy's router obeys.
    fn own_headers(&self) -> [&str; OWN_HEADERS] {
        let mut names = [""; OWN_HEADERS];
        let own = [self.publish.decision_header.as_str(), self.publish.sticky_header.as_str(), attempt::origin::HEADER];
        for (name, own) in names.iter_mut().zip(own.into_iter().chain(router::HEADERS)) {
            *name = own;
        }
        names
    }

    /// What a decision of ours says of this request, if its token is there and can be read.
    fn token(&self, head: &impl Head) -> Option<Token> {
        let name = self.publish.decision_header.as_str();
        if name.is_empty() {
            return None;
        }
        match head::header(head, name) {
            Found::Value(text) => Token::open(&text, &self.keys, self.monitor.now()),
            Found::Nothing | Found::Unusable => None,
        }
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

/// The sources of a decision's model as an attempt can read them. What Envoy's own AI filter reports, it has read where the API keeps
/// the model, and there it is renamed.
fn renaming(plan: &Plan) -> Plan {
    let as_read = |source: &Source| if source.is_envoys_reading() { Source::Dialect } else { source.clone() };
    let model = plan.model.iter().map(as_read).collect();
    Plan { model, tenant: Vec::new(), session: Vec::new(), on_duplicate_key: plan.on_duplicate_key }
}
