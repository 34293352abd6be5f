//! Remembers what a remote directory said and asks once for all who want to know at the same time. A lookup runs on the runtime
//! where this was made, not on the stream's: it outlives the streams that wait for it, and its late answer still fills the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::flight::{Boarding, Flights, wait};
use super::{Directory, Lookup, Memory};
use crate::session::{Answer, Fault};
use crate::settings::Session;
use crate::telemetry::Metrics;

/// Lookups under way at once: a directory that hangs must not take all sockets of the process.
const MAX_FLYING: usize = 256;

#[derive(Debug)]
pub struct Cached {
    remote: Arc<dyn Directory>,
    core: Arc<Core>,
    pub(super) flights: Flights,
    runtime: Handle,
}

/// What a lookup leaves behind.
#[derive(Debug)]
struct Core {
    memory: Arc<Memory>,
    timeout: Duration,
    flying: Semaphore,
    metrics: Arc<Metrics>,
    /// Lookups that failed since the last answer.
    failures: AtomicU64,
    /// An index into [`Fault::ALL`], from 1.
    last_fault: AtomicU32,
}

impl Cached {
    /// Must be called inside a runtime, which runs the lookups.
    #[must_use]
    pub fn new(remote: Arc<dyn Directory>, memory: Arc<Memory>, settings: &Session, metrics: Arc<Metrics>) -> Self {
        let core = Core {
            memory,
            timeout: settings.timeout,
            flying: Semaphore::new(MAX_FLYING),
            metrics,
            failures: AtomicU64::new(0),
            last_fault: AtomicU32::new(0),
        };
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
        let last = (self.core.last_fault.load(Ordering::Relaxed) as usize).checked_sub(1);
        (self.core.failures.load(Ordering::Relaxed), last.and_then(|index| Fault::ALL.get(index)).copied())
    }
}

impl Core {
    async fn fetch(&self, remote: &dyn Directory, key: &str) -> Answer {
        let start = Instant::now();
        let asked = timeout(self.timeout, async {
            let _permit = self.flying.acquire().await;
            remote.look_up(key).answer().await
        });
        let answer = asked.await.unwrap_or(Answer::Unavailable(Fault::Timeout));
        self.metrics.session_lookup_took(start.elapsed());
        match &answer {
            Answer::Unavailable(fault) => {
                let index = Fault::ALL.iter().position(|known| known == fault).unwrap_or_default();
                self.last_fault.store(u32::try_from(index + 1).unwrap_or_default(), Ordering::Relaxed);
                if self.failures.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::warn!(
                        event = "session_directory_away",
                        why = fault.as_str(),
                        "the session directory does not answer"
                    );
                }
            }
            Answer::Placed(_) | Answer::Unknown | Answer::NotAsked => {
                let failed = self.failures.swap(0, Ordering::Relaxed);
                if failed > 0 {
                    tracing::info!(event = "session_directory_back", failed, "the session directory answers again");
                }
            }
        }
        // What was learned while this lookup was under way is newer than what it found.
        let answer = self.memory.offer(key, answer);
        self.metrics.sessions_cached(self.memory.len());
        answer
    }
}

impl Directory for Cached {
    fn look_up(&self, key: &str) -> Lookup {
        let known = || self.core.memory.get(key);
        if let Some(answer) = known() {
            return Lookup::Ready(answer);
        }
        match self.flights.board(key, known) {
            Err(answer) => Lookup::Ready(answer),
            Ok(Boarding::Waits(landing)) => wait(landing),
            Ok(Boarding::Pilot(landing, flight)) => {
                let (remote, core, key) = (Arc::clone(&self.remote), Arc::clone(&self.core), key.to_owned());
                self.runtime.spawn(async move {
                    let answer = core.fetch(&*remote, &key).await;
                    flight.land(answer);
                });
                wait(landing)
            }
        }
    }
}
