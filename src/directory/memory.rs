//! Placements in this process's memory: bounded, each for its own time. It is a directory of its own and the cache of the others;
//! it never holds that a directory was away. When it is full, the tenant with the most answers makes room, so that nobody's sessions
//! are forgotten because somebody else asks for many.

mod fair;

use std::hash::{BuildHasher, RandomState};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::Value;
use siphasher::sip128::SipHasher13;

use self::fair::{Entry, Fair, Hash};
use super::{Directory, Lookup};
use crate::session::Answer;

#[derive(Debug)]
pub struct Memory {
    answers: RwLock<Fair>,
    hasher: SipHasher13,
    /// What `until` of an entry counts from.
    start: Instant,
    placed: Duration,
    unknown: Duration,
}

/// What Redis does not know yet of something that was learned here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owed {
    Nothing,
    /// That it still holds, or an address.
    Renewal,
    /// That the session has moved.
    Move,
}

impl Memory {
    /// Holds `capacity` answers, fewer if they are large. A placement that does not say how long it holds does for `placed`.
    #[must_use]
    pub fn new(capacity: u64, placed: Duration, unknown: Duration) -> Self {
        // The standard library's are random, and a hash under one gives none of it away.
        let secret = || RandomState::new().hash_one(());
        let (answers, hasher) = (RwLock::new(Fair::new(capacity)), SipHasher13::new_with_keys(secret(), secret()));
        Self { answers, hasher, start: Instant::now(), placed, unknown }
    }

    /// Stands for a key: keys are as long as clients make ids, and a million of them are remembered. Keyed with secret numbers of
    /// this process, so that nobody can aim at another's; SHA-256 would be dear where the processor has no instructions for it.
    fn hash(&self, key: &str) -> Hash {
        let hash = self.hasher.hash(key.as_bytes());
        [hash.h1, hash.h2]
    }

    /// Stands for a tenant; those without one are together.
    pub(super) fn whose(&self, tenant: Option<&str>) -> u64 {
        tenant.map_or(0, |tenant| self.hasher.hash(tenant.as_bytes()).h1)
    }

    /// What is remembered of the session.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Answer> {
        Some(self.find(key)?.0)
    }

    /// The same, and how long it still holds.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<(Answer, Duration)> {
        let (hash, now) = (self.hash(key), self.now());
        let answers = self.read();
        let entry = answers.get(&hash)?;
        if now < entry.until {
            return Some((entry.answer.clone(), Duration::from_millis(entry.until - now)));
        }
        drop(answers);
        let mut answers = self.write();
        if answers.get(&hash).is_some_and(|entry| entry.until <= now) {
            answers.remove(&hash);
        }
        None
    }

    /// Remembers an answer for a tenant instead of the one before. That a directory was away is not worth remembering.
    pub fn put(&self, tenant: Option<&str>, key: &str, answer: &Answer) {
        let hash = self.hash(key);
        match self.holds(answer) {
            Some(holds) if holds.is_zero() => self.write().remove(&hash),
            Some(holds) => self.write().insert(hash, self.entry(tenant, answer.clone(), holds)),
            None => {}
        }
    }

    /// The same for an answer that was long on its way: what has come in meanwhile is newer and stays. Gives what counts.
    pub fn offer(&self, tenant: Option<&str>, key: &str, answer: Answer) -> Answer {
        let Some(holds) = self.holds(&answer).filter(|holds| !holds.is_zero()) else { return self.get(key).unwrap_or(answer) };
        let (hash, now) = (self.hash(key), self.now());
        let mut answers = self.write();
        if let Some(known) = answers.get(&hash).filter(|known| now < known.until) {
            return known.answer.clone();
        }
        answers.insert(hash, self.entry(tenant, answer.clone(), holds));
        answer
    }

    /// Notes what Redis has not been told of an answer, until another one takes its place.
    pub(super) fn owe(&self, key: &str, owed: Owed) {
        let hash = self.hash(key);
        if let Some(entry) = self.write().get_mut(&hash) {
            entry.owed = owed;
        }
    }

    pub(super) fn owed(&self, key: &str) -> Owed {
        self.read().get(&self.hash(key)).map_or(Owed::Nothing, |entry| entry.owed)
    }

    fn entry(&self, tenant: Option<&str>, answer: Answer, holds: Duration) -> Entry {
        let until = self.now().saturating_add(u64::try_from(holds.as_millis()).unwrap_or(u64::MAX));
        let weight = weight(&answer);
        Entry::new(self.whose(tenant), answer, until, weight)
    }

    /// Milliseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// `None`: it is not worth remembering.
    fn holds(&self, answer: &Answer) -> Option<Duration> {
        match answer {
            Answer::Placed(placement) => Some(placement.ttl.unwrap_or(self.placed)),
            Answer::Unknown => Some(self.unknown),
            Answer::NotAsked | Answer::Unavailable(_) => None,
        }
    }

    /// How many answers it holds, counting those whose time is over until they are asked for or make room.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.read().len() as u64
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read(&self) -> RwLockReadGuard<'_, Fair> {
        self.answers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Fair> {
        self.answers.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that count as one more answer: one with much metadata counts as several, so that what a directory says does not outgrow what
/// `capacity` promises.
const USUAL: usize = 512;
/// What a value takes in a map beside its texts, about.
const VALUE: usize = 96;

fn weight(answer: &Answer) -> u32 {
    let Answer::Placed(placement) = answer else { return 1 };
    let entry = placement.metadata.as_deref().into_iter().flatten();
    let metadata: usize = entry.map(|(name, value)| bytes(name.len(), value)).sum();
    let backend = placement.backend.as_deref().map_or(0, str::len);
    1 + u32::try_from((metadata + backend) / USUAL).unwrap_or(u32::MAX - 1)
}

fn bytes(name: usize, value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| bytes(0, item)).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| bytes(name.len(), value)).sum(),
    };
    VALUE + name + inside
}

impl Directory for Memory {
    fn look_up(&self, _: Option<&str>, key: &str) -> Lookup {
        Lookup::Ready(self.get(key).unwrap_or(Answer::Unknown))
    }
}
