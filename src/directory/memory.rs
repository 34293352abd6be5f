//! Placements in this process's memory: bounded, each for its own time. It is a directory of its own and the cache of the others;
//! it never holds that a directory was away.

use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use super::{Directory, Lookup};
use crate::session::Answer;

/// Half of SHA-256: keys are as long as clients make ids, and a million of them are remembered.
type Hash = [u8; 16];

#[derive(Debug)]
pub struct Memory {
    answers: Cache<Hash, (Answer, Instant)>,
    placed: Duration,
    unknown: Duration,
}

fn hash(key: &str) -> Hash {
    let mut half = Hash::default();
    half.iter_mut().zip(Sha256::digest(key.as_bytes())).for_each(|(to, from)| *to = from);
    half
}

impl Memory {
    /// Holds `capacity` answers. A placement that does not say how long it holds does for `placed`.
    #[must_use]
    pub fn new(capacity: u64, placed: Duration, unknown: Duration) -> Self {
        Self { answers: Cache::new(usize::try_from(capacity).unwrap_or(usize::MAX)), placed, unknown }
    }

    /// What is remembered of the session.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Answer> {
        let hash = hash(key);
        let (answer, until) = self.answers.get(&hash)?;
        let now = Instant::now();
        if now < until {
            return Some(answer);
        }
        self.answers.remove_if(&hash, |(_, until)| *until <= now);
        None
    }

    /// Remembers an answer. That a directory was away is not worth remembering.
    pub fn put(&self, key: &str, answer: &Answer) {
        let holds = match answer {
            Answer::Placed(placement) => placement.ttl.unwrap_or(self.placed),
            Answer::Unknown => self.unknown,
            Answer::NotAsked | Answer::Unavailable(_) => return,
        };
        if !holds.is_zero() {
            self.answers.insert(hash(key), (answer.clone(), Instant::now() + holds));
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

impl Directory for Memory {
    fn look_up(&self, key: &str) -> Lookup {
        Lookup::Ready(self.get(key).unwrap_or(Answer::Unknown))
    }
}
