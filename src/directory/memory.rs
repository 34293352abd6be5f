//! Placements in this process's memory: bounded, each for its own time. It is a directory of its own and the cache of the others;
//! it never holds that a directory was away.

use std::time::{Duration, Instant};

use moka::Expiry;
use moka::sync::Cache;

use super::{Directory, Lookup};
use crate::session::Answer;

#[derive(Debug)]
pub struct Memory {
    answers: Cache<Box<str>, Answer>,
}

/// How long an answer holds, unless it says so itself.
#[derive(Debug)]
struct Lives {
    placed: Duration,
    unknown: Duration,
}

impl Lives {
    fn of(&self, answer: &Answer) -> Duration {
        match answer {
            Answer::Placed(placement) => placement.ttl.unwrap_or(self.placed),
            Answer::Unknown => self.unknown,
            Answer::NotAsked | Answer::Unavailable(_) => Duration::ZERO,
        }
    }
}

impl Expiry<Box<str>, Answer> for Lives {
    fn expire_after_create(&self, _: &Box<str>, answer: &Answer, _: Instant) -> Option<Duration> {
        Some(self.of(answer))
    }

    fn expire_after_update(&self, _: &Box<str>, answer: &Answer, _: Instant, _: Option<Duration>) -> Option<Duration> {
        Some(self.of(answer))
    }
}

impl Memory {
    #[must_use]
    pub fn new(capacity: u64, placed: Duration, unknown: Duration) -> Self {
        Self { answers: Cache::builder().max_capacity(capacity).expire_after(Lives { placed, unknown }).build() }
    }

    /// What is remembered of the session.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Answer> {
        self.answers.get(key)
    }

    /// Remembers an answer. That a directory was away is not worth remembering.
    pub fn put(&self, key: &str, answer: &Answer) {
        match answer {
            Answer::Placed(_) | Answer::Unknown => self.answers.insert(Box::from(key), answer.clone()),
            Answer::NotAsked | Answer::Unavailable(_) => {}
        }
    }

    /// About how many answers it holds.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.answers.entry_count()
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
