//! Placements in this process's memory: bounded, each for its own time. It is a directory of its own and the cache of the others;
//! it never holds that a directory was away.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, EntryAction, EntryResult};
use serde_json::Value;
use siphasher::sip128::SipHasher13;

use super::{Directory, Lookup};
use crate::session::Answer;

/// Stands for a key: keys are as long as clients make ids, and a million of them are remembered. Keyed with secret numbers of this
/// process, so that nobody can aim at another's; SHA-256 would be dear where the processor has no instructions for it.
type Hash = [u64; 2];

#[derive(Debug)]
pub struct Memory {
    answers: Cache<Hash, (Answer, Instant), BySize>,
    hasher: SipHasher13,
    placed: Duration,
    unknown: Duration,
}

impl Memory {
    /// Holds `capacity` answers, fewer if they are large. A placement that does not say how long it holds does for `placed`.
    #[must_use]
    pub fn new(capacity: u64, placed: Duration, unknown: Duration) -> Self {
        let answers = Cache::with_weighter(usize::try_from(capacity).unwrap_or(usize::MAX), capacity, BySize);
        // The standard library's are random, and a hash under one gives none of it away.
        let secret = || RandomState::new().hash_one(());
        Self { answers, hasher: SipHasher13::new_with_keys(secret(), secret()), placed, unknown }
    }

    fn hash(&self, key: &str) -> Hash {
        let hash = self.hasher.hash(key.as_bytes());
        [hash.h1, hash.h2]
    }

    /// What is remembered of the session.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Answer> {
        Some(self.find(key)?.0)
    }

    /// The same, and how long it still holds.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<(Answer, Duration)> {
        let hash = self.hash(key);
        let (answer, until) = self.answers.get(&hash)?;
        let now = Instant::now();
        if now < until {
            return Some((answer, until - now));
        }
        self.answers.remove_if(&hash, |(_, until)| *until <= now);
        None
    }

    /// Remembers an answer instead of the one before. That a directory was away is not worth remembering.
    pub fn put(&self, key: &str, answer: &Answer) {
        match self.holds(answer) {
            Some(holds) if holds.is_zero() => _ = self.answers.remove(&self.hash(key)),
            Some(holds) => self.answers.insert(self.hash(key), (answer.clone(), Instant::now() + holds)),
            None => {}
        }
    }

    /// The same for an answer that was long on its way: what has come in meanwhile is newer and stays. Gives what counts.
    pub fn offer(&self, key: &str, answer: Answer) -> Answer {
        let Some(holds) = self.holds(&answer).filter(|holds| !holds.is_zero()) else { return self.get(key).unwrap_or(answer) };
        let now = Instant::now();
        let entry = self.answers.entry(&self.hash(key), None, |_, (known, until)| match now < *until {
            true => EntryAction::Retain(known.clone()),
            false => EntryAction::ReplaceWithGuard,
        });
        match entry {
            EntryResult::Retained(known) => known,
            EntryResult::Vacant(room) | EntryResult::Replaced(room, _) => match room.insert((answer.clone(), now + holds)) {
                Ok(()) => answer,
                // Something was put here this very moment.
                Err(_) => self.get(key).unwrap_or(answer),
            },
            EntryResult::Removed(..) | EntryResult::Timeout => answer,
        }
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
        self.answers.len() as u64
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An answer with much metadata counts as several: what a directory says must not outgrow what `capacity` promises.
#[derive(Debug, Clone)]
struct BySize;

impl BySize {
    /// Bytes that count as one more answer.
    const USUAL: usize = 512;
    /// What a value takes in a map beside its texts, about.
    const VALUE: usize = 96;

    fn bytes(name: usize, value: &Value) -> usize {
        let inside = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(|item| Self::bytes(0, item)).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| Self::bytes(name.len(), value)).sum(),
        };
        Self::VALUE + name + inside
    }
}

impl Weighter<Hash, (Answer, Instant)> for BySize {
    fn weight(&self, _: &Hash, (answer, _): &(Answer, Instant)) -> u64 {
        let Answer::Placed(placement) = answer else { return 1 };
        let entry = placement.metadata.as_deref().into_iter().flatten();
        let metadata: usize = entry.map(|(name, value)| Self::bytes(name.len(), value)).sum();
        let backend = placement.backend.as_deref().map_or(0, str::len);
        1 + ((metadata + backend) / Self::USUAL) as u64
    }
}

impl Directory for Memory {
    fn look_up(&self, key: &str) -> Lookup {
        Lookup::Ready(self.get(key).unwrap_or(Answer::Unknown))
    }
}
