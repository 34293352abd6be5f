//! Remembers what a remote directory said and asks once for all who want to know at the same time. A lookup runs on the runtime
//! where this was made, not on the stream's: it outlives the streams that wait for it, and its late answer still fills the cache.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::flight::{Boarding, Flights, wait};
use super::outage::Outage;
use super::turns::{Crowded, Turns};
use super::{Directory, Failure, Lookup, Memory, Remote};
use crate::session::{Answer, Fault};
use crate::settings::Session;
use crate::telemetry::Metrics;

/// Lookups under way at once: a directory that hangs must not take all sockets of the process.
const MAX_FLYING: usize = 320;
/// Those that are kept for tenants with few of them: one tenant alone has 256.
const SHARE: usize = 64;
/// Lookups of one tenant that wait for their turn. More than that are not made in time.
const MAX_WAITING: usize = 8_192;

#[derive(Debug)]
pub struct Cached {
    remote: Arc<dyn Remote>,
    core: Arc<Core>,
    pub(super) flights: Flights,
    runtime: Handle,
}

/// What a lookup leaves behind.
#[derive(Debug)]
struct Core {
    /// Where the directory is, for the log.
    place: Option<String>,
    memory: Arc<Memory>,
    timeout: Duration,
    turns: Turns,
    metrics: Arc<Metrics>,
    /// Lookups that fail, and why the last one that ever did.
    trouble: Mutex<(Outage, Option<Fault>)>,
}

impl Cached {
    /// Must be called inside a runtime, which runs the lookups.
    #[must_use]
    pub fn new(remote: Arc<dyn Remote>, memory: Arc<Memory>, settings: &Session, metrics: Arc<Metrics>) -> Self {
        let (turns, trouble) = (Turns::new(MAX_FLYING, SHARE, MAX_WAITING), Mutex::default());
        let core = Core { place: settings.directory.place(), memory, timeout: settings.timeout, turns, metrics, trouble };
        Self { remote, core: Arc::new(core), flights: Flights::default(), runtime: Handle::current() }
    }

    /// About how many answers are remembered.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.core.memory.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many lookups failed since the last answer, and why the last one that ever did.
    #[must_use]
    pub fn trouble(&self) -> (u64, Option<Fault>) {
        let trouble = self.core.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        (trouble.0.failures(), trouble.1)
    }
}

impl Core {
    async fn fetch(&self, remote: &dyn Remote, tenant: Option<&str>, key: &str) -> Answer {
        let mut begun = None;
        let asked = timeout(self.timeout, async {
            let turn = self.turns.take(self.memory.whose(tenant)).await;
            let _turn = turn.map_err(|Crowded| Failure::busy())?;
            begun = Some(Instant::now());
            remote.ask(key).await
        });
        let said = asked.await.unwrap_or_else(|_| Err(Failure::timeout()));
        // What was spent waiting for a turn is not the directory's.
        if let Some(begun) = begun {
            self.metrics.session_lookup_took(begun.elapsed());
        }
        self.note(said.as_ref().err());
        let answer = said.unwrap_or_else(|failure| Answer::Unavailable(failure.fault));
        // What was learned while this lookup was under way is newer than what it found.
        let answer = self.memory.offer(tenant, key, answer);
        self.metrics.sessions_cached(self.memory.len());
        answer
    }

    fn note(&self, failure: Option<&Failure>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.place.as_deref();
        match failure {
            // It says nothing of the directory.
            Some(Failure { fault: Fault::Busy, .. }) => {}
            Some(Failure { fault, cause }) => {
                trouble.1 = Some(*fault);
                if let Some(failed) = trouble.0.failed(Instant::now()) {
                    let (why, said) = (fault.as_str(), in_words(*fault));
                    tracing::warn!(event = "session_directory_away", place, why, failed, cause = &**cause, "{said}");
                }
            }
            None => {
                if let Some(failed) = trouble.0.went_well() {
                    tracing::info!(event = "session_directory_back", place, failed, "the session directory answers again");
                }
            }
        }
    }
}

const fn in_words(fault: Fault) -> &'static str {
    match fault {
        Fault::Garbage => "what the session directory says is no placement",
        Fault::Refused => "the session directory answers with an error",
        Fault::Timeout | Fault::Deadline | Fault::Busy | Fault::Unreachable | Fault::Internal => {
            "the session directory does not answer"
        }
    }
}

impl Directory for Cached {
    fn look_up(&self, tenant: Option<&str>, key: &str) -> Lookup {
        let known = || self.core.memory.get(key);
        if let Some(answer) = known() {
            return Lookup::Ready(answer);
        }
        match self.flights.board(key, known) {
            Err(answer) => Lookup::Ready(answer),
            Ok(Boarding::Waits(landing)) => wait(landing),
            Ok(Boarding::Pilot(landing, flight)) => {
                let (remote, core, key) = (Arc::clone(&self.remote), Arc::clone(&self.core), key.to_owned());
                let tenant = tenant.map(str::to_owned);
                self.runtime.spawn(async move {
                    let answer = core.fetch(&*remote, tenant.as_deref(), &key).await;
                    flight.land(answer);
                });
                wait(landing)
            }
        }
    }
}
