//! What entries of our log teach: each attempt is counted and given to the cluster's health, each session that was served to whoever
//! remembers sessions. An attempt whose own entry does not tell how it ended waits for its request's. It keeps no connection and
//! reads no clock but the monitor's.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::classify::Class;
use super::entry::{self, Attempt, RequestEnd, Told};
use super::ignored::Ledger;
use super::learn::Learner;
use super::monitor::Monitor;
use super::repeated::Remembered;
use super::room::{Room, Waiting};
use super::token::Token;
use crate::catalog::snapshot::Snapshot;
use crate::catalog::store::Store;
use crate::directory::Sessions;
use crate::health::Moment;
use crate::proto::{HttpLogEntries, HttpLogEntry};
use crate::secret::Keys;
use crate::settings::Settings;
use crate::telemetry::{Ignored, Metrics};

#[derive(Debug)]
pub(super) struct Reader {
    statuses: Vec<u16>,
    decision_header: String,
    /// Where decisions publish the chain.
    namespace: String,
    store: Arc<Store>,
    monitor: Arc<Monitor>,
    metrics: Arc<Metrics>,
    keys: Keys,
    /// While sessions are learned.
    learner: Option<Learner>,
    ledger: Ledger,
    seen: Mutex<Remembered>,
    room: Mutex<Room>,
    /// Makes keys of the room, which nobody outside can aim at.
    hasher: RandomState,
}

/// An attempt whose end is known.
struct Settled<'a> {
    cluster: &'a str,
    class: Class,
    status: u16,
    retry_after: Option<Duration>,
    endpoint: Option<SocketAddr>,
    token: Option<&'a str>,
}

impl Reader {
    pub(super) fn new(
        settings: &Settings,
        store: Arc<Store>,
        monitor: Arc<Monitor>,
        metrics: Arc<Metrics>,
        keys: Keys,
        sessions: Option<Arc<Sessions>>,
    ) -> Self {
        Self {
            learner: sessions.map(|sessions| Learner { sessions, metrics: metrics.clone() }),
            statuses: settings.feedback.statuses.clone(),
            decision_header: settings.publish.decision_header.clone(),
            namespace: settings.publish.namespace.clone(),
            store,
            monitor,
            ledger: Ledger::new(metrics.clone()),
            metrics,
            keys,
            seen: Mutex::default(),
            room: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// Takes in one encoded entry.
    pub(super) fn take(&self, bytes: &Bytes) {
        self.monitor.hear();
        let now = self.monitor.now();
        let entry = HttpLogEntries::decode_entry(bytes);
        let told = entry.as_ref().and_then(|entry| Some((entry, entry::read(entry, &self.statuses, now)?)));
        let Some((entry, told)) = told else {
            self.ignore(Ignored::Unreadable, 1, "");
            return;
        };
        let Some(snapshot) = self.store.current() else { return };
        match told {
            Told::Attempt(attempt) => self.attempt(&snapshot, entry, &attempt, bytes, now),
            Told::Request(end) => self.request(&snapshot, entry, end, bytes, now),
            Told::Nothing => {}
        }
    }

    /// Gives up what has waited long enough.
    pub(super) fn sweep(&self) {
        let vain = self.room().expire(self.monitor.now());
        self.ignore(Ignored::Unmatched, vain, "");
    }

    /// Counts entries that teach nothing.
    pub(super) fn ignore(&self, why: Ignored, times: usize, seen: &str) {
        self.ledger.note(why, times, seen, self.monitor.now());
    }

    fn attempt(&self, snapshot: &Snapshot, entry: &HttpLogEntry, attempt: &Attempt<'_>, bytes: &Bytes, now: Moment) {
        let named = attempt.clusters.into_iter().flatten();
        let Some(cluster) = named.clone().find(|name| snapshot.cluster_ids.contains_key(*name)) else {
            let name = named.into_iter().next();
            let why = if name.is_some() { Ignored::UnknownCluster } else { Ignored::NoCluster };
            self.ignore(why, 1, name.unwrap_or_default());
            return;
        };
        // Success changes no more however often it is told.
        if attempt.became != Ok(Class::Success) && self.is_repeated(entry, bytes) {
            return;
        }
        let token = entry.request_header(&self.decision_header);
        let Attempt { status, retry_after, endpoint, number, .. } = *attempt;
        let open = match attempt.became {
            Ok(class) => return self.settle(snapshot, &Settled { cluster, class, status, retry_after, endpoint, token }, now),
            Err(open) => open,
        };
        let Some(key) = self.key(entry) else {
            // Nothing will ever say more.
            return self.settle(snapshot, &Settled { cluster, class: Class::NotOurs, status, retry_after, endpoint, token }, now);
        };
        let waiting = Waiting { cluster: Box::from(cluster), open, status, endpoint, number, token: token.map(Box::from) };
        let (met, vain) = self.room().attempt(key, waiting, now);
        self.ignore(Ignored::Unmatched, vain, "");
        if let Some((waiting, end)) = met {
            self.meet(snapshot, &waiting, &end, now);
        }
    }

    fn request(&self, snapshot: &Snapshot, entry: &HttpLogEntry, end: RequestEnd, bytes: &Bytes, now: Moment) {
        let (is_fallback, is_exhausted) = (end.is_fallback(), end.is_exhausted(&self.statuses));
        let counts = (end.found_nobody || is_fallback || is_exhausted) && !self.is_repeated(entry, bytes);
        if counts && end.found_nobody {
            self.found_nobody(snapshot, entry, &end, now);
        }
        // A request without a decision has no chain of ours.
        if counts && let Some(token) = self.token(entry.request_header(&self.decision_header), now) {
            let model = token.model.as_deref();
            if is_fallback {
                self.metrics.fell_back(model);
            } else if is_exhausted {
                self.metrics.chain_exhausted(model);
            }
        }
        let Some(key) = self.key(entry) else { return };
        let (waiting, vain) = self.room().request(key, end, !end.is_complete, now);
        self.ignore(Ignored::Unmatched, vain, "");
        waiting.iter().for_each(|waiting| self.meet(snapshot, waiting, &end, now));
    }

    /// The last attempt of a request had nobody to go to.
    fn found_nobody(&self, snapshot: &Snapshot, entry: &HttpLogEntry, end: &RequestEnd, now: Moment) {
        let named = entry::missed(entry, &self.namespace, end.attempts);
        let Some(cluster) = named.iter().find(|name| snapshot.cluster_ids.contains_key(name.as_str())) else {
            let why = if named.is_empty() { Ignored::NoCluster } else { Ignored::UnknownCluster };
            self.ignore(why, 1, named.first().map(String::as_str).unwrap_or_default());
            return;
        };
        let (class, token) = (Class::NoHealthyHost, entry.request_header(&self.decision_header));
        let settled = Settled { cluster, class, status: end.status, retry_after: None, endpoint: None, token };
        self.settle(snapshot, &settled, now);
    }

    /// An attempt and the end of its request have found each other.
    fn meet(&self, snapshot: &Snapshot, waiting: &Waiting, end: &RequestEnd, now: Moment) {
        let class = waiting.open.settle(waiting.ending(end));
        let Waiting { cluster, status, endpoint, token, .. } = waiting;
        let settled =
            Settled { cluster, class, status: *status, retry_after: None, endpoint: *endpoint, token: token.as_deref() };
        self.settle(snapshot, &settled, now);
    }

    fn settle(&self, snapshot: &Snapshot, attempt: &Settled<'_>, now: Moment) {
        let Settled { cluster, class, status, retry_after, endpoint, token } = *attempt;
        self.metrics.attempt(cluster, class.as_str());
        // A redirect is an answer, but nobody was served.
        let is_served = class == Class::Success && (200..300).contains(&status);
        if let Some(learner) = self.learner.as_ref().filter(|_| is_served)
            && let Some(session) = self.token(token, now).and_then(|token| token.session)
        {
            learner.served(snapshot, &session, cluster, endpoint);
        }
        let Some(event) = class.event(status, retry_after) else { return };
        if !self.monitor.is_of_interest(cluster, event) {
            return;
        }
        let model = self.token(token, now).and_then(|token| token.model);
        self.monitor.note(cluster, model.as_deref(), event);
    }

    /// What the decision says of itself; `None`: there was none, or nobody can tell.
    fn token(&self, sealed: Option<&str>, now: Moment) -> Option<Token> {
        Token::open(sealed?, &self.keys, now)
    }

    /// What the entries of one request have in common: the header of its decision, sealed with a nonce of its own. A request without a
    /// decision has its id.
    fn key(&self, entry: &HttpLogEntry) -> Option<u64> {
        if let Some(header) = entry.request_header(&self.decision_header).filter(|header| !header.is_empty()) {
            return Some(self.hasher.hash_one(("decision", header)));
        }
        let id = entry.request.as_ref().map(|request| &request.request_id).filter(|id| !id.is_empty())?;
        Some(self.hasher.hash_one(("request", id)))
    }

    /// True for an entry that has been taken in before. One that does not say which request it is of cannot be told from its like.
    fn is_repeated(&self, entry: &HttpLogEntry, bytes: &Bytes) -> bool {
        entry.is_named() && !self.seen.lock().unwrap_or_else(PoisonError::into_inner).is_new(bytes)
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
