//! Entries that have been taken in, so that one that comes again does not count again: hashes of the last ones, keyed so that nobody can
//! aim at a collision.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;

/// How many are remembered.
const REMEMBERED: usize = 16_384;

#[derive(Debug, Default)]
pub(super) struct Remembered {
    hasher: RandomState,
    order: VecDeque<u64>,
    known: HashSet<u64>,
}

impl Remembered {
    pub(super) fn is_new(&mut self, bytes: &Bytes) -> bool {
        let hash = self.hasher.hash_one(bytes);
        if !self.known.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}
