//! What served a session is remembered, so that the session comes back to it: in memory, and in Redis for the other replicas if
//! that is the directory. It runs beside the requests, writes only what is news, and gives up rather than queue. Whether a session
//! may be remembered at a cluster is the caller's to know.

mod verdict;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use self::verdict::has_moved;
pub(super) use self::verdict::{Verdict, judge};
use super::memory::Owed;
use super::outage::Outage;
use super::{Failure, Memory, Redis};
use crate::session::{Answer, Placement};
use crate::telemetry::{Learned, Metrics};

/// Writes to Redis under way at once. Beyond them nothing waits: the session is served again soon.
const MAX_WRITING: usize = 256;
/// What served a session.
#[derive(Debug, Clone)]
pub struct Served {
    /// Whose session it is; `None`: nobody's in particular.
    pub tenant: Option<String>,
    pub cluster: String,
    /// `ip:port`.
    pub endpoint: Option<String>,
    /// What a placement may call the cluster: by its name, or by a group of the chain that holds it.
    pub names: Vec<String>,
}

impl Served {
    pub(super) fn placement(&self, ttl: Duration) -> Placement {
        Placement::learned(&self.cluster, self.endpoint.as_deref(), ttl)
    }
}

/// What served a session, and whether it has moved there as far as this replica knew. If not, it was served where a copy said that it
/// lives, and whatever speaks of another cluster in Redis by now is newer.
#[derive(Debug)]
pub(super) struct News {
    pub(super) served: Served,
    pub(super) is_move: bool,
}

impl News {
    /// What Redis does not know while this is not written.
    const fn owed(&self) -> Owed {
        if self.is_move { Owed::Move } else { Owed::Renewal }
    }
}

/// What a write came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// This stands there, and stays.
    Kept(Answer),
    /// Something stands there that is no placement, and stays.
    LeftAlone,
    Renewed,
    Learned,
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        if verdict == Verdict::Renew { Self::Renewed } else { Self::Learned }
    }
}

/// Where things that were learned go.
#[derive(Debug)]
pub(super) struct Learning {
    /// The directory in memory, the cache of the one in Redis, or a memory beside one over HTTP.
    pub(super) memory: Arc<Memory>,
    /// The directory knows nothing of it.
    pub(super) is_apart: bool,
    shared: Option<Arc<Shared>>,
    ttl: Duration,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Shared {
    redis: Redis,
    /// Where it is, for the log.
    place: Option<String>,
    timeout: Duration,
    room: Arc<Semaphore>,
    runtime: Handle,
    /// Sessions that are being written, and what has served them since: two writes of one session must not overtake each other.
    sessions: Mutex<HashMap<Box<str>, Option<News>>>,
    /// Writes that fail.
    outage: Mutex<Outage>,
}

impl Learning {
    pub(super) fn new(memory: Arc<Memory>, ttl: Duration, metrics: Arc<Metrics>) -> Self {
        Self { memory, is_apart: false, shared: None, ttl, metrics }
    }

    /// The same beside a directory that cannot be told.
    pub(super) fn apart(self) -> Self {
        Self { is_apart: true, ..self }
    }

    /// The same, shared with other replicas. Must be called inside a runtime, which runs the writes.
    pub(super) fn shared(self, redis: Redis, timeout: Duration, place: Option<String>) -> Self {
        let (room, runtime) = (Arc::new(Semaphore::new(MAX_WRITING)), Handle::current());
        let (sessions, outage) = (Mutex::default(), Mutex::default());
        Self { shared: Some(Arc::new(Shared { redis, place, timeout, room, runtime, sessions, outage })), ..self }
    }

    /// True if it is known already that the session lives in this cluster, at this address, and will be for a while.
    pub(super) fn knows(&self, key: &str, cluster: &str, endpoint: Option<&str>) -> bool {
        let Some((Answer::Placed(placement), left)) = self.memory.find(key) else { return false };
        let is_current = || {
            left > self.ttl / 2
                && !has_moved(&placement, left, endpoint, self.ttl)
                // What Redis did not take is offered again.
                && self.memory.owed(key) == Owed::Nothing
        };
        placement.backend.as_deref() == Some(cluster) && (!placement.learned || is_current())
    }

    /// Remembers what served the session.
    pub(super) fn learn(&self, key: &str, served: Served) {
        let known = self.memory.find(key);
        let (known, left) = known.as_ref().map_or((&Answer::Unknown, Duration::ZERO), |(answer, left)| (answer, *left));
        let (verdict, owed) = (judge(known, left, &served, self.ttl), self.memory.owed(key));
        if verdict == Verdict::Keep && owed == Owed::Nothing {
            return;
        }
        // Requests of this replica see it at once, whatever becomes of the write.
        if verdict != Verdict::Keep {
            self.memory.put(served.tenant.as_deref(), key, &Answer::Placed(Arc::new(served.placement(self.ttl))));
        }
        if !self.is_apart {
            self.metrics.sessions_cached(self.memory.len());
        }
        match &self.shared {
            Some(shared) => shared.write(
                key,
                News { served, is_move: verdict.is_move() || owed == Owed::Move },
                Arc::clone(&self.memory),
                Arc::clone(&self.metrics),
            ),
            None => self.metrics.session_learned(Learned::of(&verdict.into())),
        }
    }

    /// Writes that failed since the last one that did not; `None`: nothing is written.
    pub(super) fn failures(&self) -> Option<u64> {
        self.shared.as_ref().map(|shared| shared.outage().failures())
    }
}

#[cfg(test)]
impl Learning {
    pub(super) fn writing(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| MAX_WRITING - shared.room.available_permits())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.writing() == 0
    }
}

impl Learned {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Kept(_) => Self::Kept,
            Outcome::LeftAlone => Self::LeftAlone,
            Outcome::Renewed => Self::Renewed,
            Outcome::Learned => Self::Learned,
        }
    }
}

impl Shared {
    fn write(self: &Arc<Self>, key: &str, news: News, memory: Arc<Memory>, metrics: Arc<Metrics>) {
        let mut sessions = self.lock();
        if let Some(next) = sessions.get_mut(key) {
            let is_move = news.is_move || next.as_ref().is_some_and(|next| next.is_move);
            *next = Some(News { is_move, ..news });
            return;
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            metrics.session_learned(Learned::Dropped);
            memory.owe(key, news.owed());
            return;
        };
        sessions.insert(Box::from(key), None);
        let (this, key) = (Arc::clone(self), key.to_owned());
        self.runtime.spawn(async move {
            let mut next = Some(news);
            while let Some(news) = next {
                this.write_one(&key, &news, &memory, &metrics).await;
                next = this.next(&key);
            }
            drop(room);
        });
    }

    /// What has served the session while it was being written; `None`: nothing, and its writing is over.
    fn next(&self, key: &str) -> Option<News> {
        let mut sessions = self.lock();
        let next = sessions.get_mut(key).and_then(Option::take);
        if next.is_none() {
            sessions.remove(key);
        }
        next
    }

    async fn write_one(&self, key: &str, news: &News, memory: &Memory, metrics: &Metrics) {
        let written = timeout(self.timeout, self.redis.learn(key, news)).await.unwrap_or_else(|_| Err(Failure::timeout()));
        metrics.session_learned(written.as_ref().map_or(Learned::Failed, Learned::of));
        self.note(written.as_ref().err());
        match written {
            // Somebody else's word says more than we know.
            Ok(Outcome::Kept(placed @ Answer::Placed(_))) => memory.put(news.served.tenant.as_deref(), key, &placed),
            Ok(Outcome::Kept(_) | Outcome::LeftAlone | Outcome::Renewed | Outcome::Learned) => memory.owe(key, Owed::Nothing),
            Err(_) => memory.owe(key, news.owed()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Option<News>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outage(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, failure: Option<&Failure>) {
        let place = self.place.as_deref();
        match failure {
            Some(Failure { fault, cause }) => {
                if let Some(failed) = self.outage().failed(Instant::now()) {
                    tracing::warn!(
                        event = "session_learning_failed",
                        place,
                        why = fault.as_str(),
                        failed,
                        cause = &**cause,
                        "what served a session cannot be written to Redis: only this replica remembers it"
                    );
                }
            }
            None => {
                if let Some(failed) = self.outage().went_well() {
                    tracing::info!(
                        event = "session_learning_back",
                        place,
                        failed,
                        "what serves sessions is written to Redis again"
                    );
                }
            }
        }
    }
}
