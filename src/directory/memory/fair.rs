//! A bounded map whose room is shared fairly: when it is full, the tenant that takes the most gives up what it has not asked for in
//! the longest time. One tenant alone may fill it. It knows no clock and no session.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

use super::Owed;
use crate::session::Answer;

/// Stands for a key. It is random already.
pub(super) type Hash = [u64; 2];

/// How many answers that were asked for again are passed over before one is forgotten all the same.
const CHANCES: u32 = 8;
/// Room that is set aside at the start, so that a growing map does not hold up lookups while it is moved.
const SET_ASIDE: usize = 1 << 17;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) answer: Answer,
    /// Milliseconds of the caller's clock.
    pub(super) until: u64,
    pub(super) owed: Owed,
    whose: u64,
    weight: u32,
    /// Which of the owner's handles is this one's.
    serial: u32,
    /// Since it was last passed over.
    asked: AtomicBool,
}

/// What one tenant has, the oldest first. A handle whose entry is gone or has another serial means nothing.
#[derive(Debug, Default)]
struct Share {
    weight: u64,
    entries: usize,
    handles: VecDeque<(Hash, u32)>,
    /// When it changed last.
    stamp: u64,
}

type Rank = (u64, Reverse<u64>, u64);

impl Share {
    /// The greatest makes room: it takes the most, and of those that take as much it has been unchanged for longest.
    fn rank(&self, whose: u64) -> Rank {
        (self.weight, Reverse(self.stamp), whose)
    }
}

#[derive(Debug)]
pub(super) struct Fair {
    capacity: u64,
    weight: u64,
    entries: HashMap<Hash, Entry, BuildHasherDefault<Taken>>,
    shares: HashMap<u64, Share>,
    ranks: BTreeSet<Rank>,
    serial: u32,
    stamp: u64,
}

impl Entry {
    pub(super) fn new(whose: u64, answer: Answer, until: u64, weight: u32) -> Self {
        Self { answer, until, owed: Owed::Nothing, whose, weight, serial: 0, asked: AtomicBool::new(false) }
    }
}

impl Fair {
    pub(super) fn new(capacity: u64) -> Self {
        let room = usize::try_from(capacity).unwrap_or(usize::MAX).min(SET_ASIDE);
        let entries = HashMap::with_capacity_and_hasher(room, BuildHasherDefault::default());
        Self { capacity, weight: 0, entries, shares: HashMap::new(), ranks: BTreeSet::new(), serial: 0, stamp: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Asks for an entry, which is then kept for longer.
    pub(super) fn get(&self, hash: &Hash) -> Option<&Entry> {
        let entry = self.entries.get(hash)?;
        // Writing what is written already would take the line from the other threads.
        if !entry.asked.load(Ordering::Relaxed) {
            entry.asked.store(true, Ordering::Relaxed);
        }
        Some(entry)
    }

    pub(super) fn get_mut(&mut self, hash: &Hash) -> Option<&mut Entry> {
        self.entries.get_mut(hash)
    }

    /// Puts an entry in the place of the one before and makes room for it.
    pub(super) fn insert(&mut self, hash: Hash, mut entry: Entry) {
        self.remove(&hash);
        self.serial = self.serial.wrapping_add(1);
        entry.serial = self.serial;
        let (whose, weight, serial) = (entry.whose, u64::from(entry.weight), entry.serial);
        self.entries.insert(hash, entry);
        self.weight += weight;
        self.change(whose, |share| {
            share.weight += weight;
            share.entries += 1;
            share.handles.push_back((hash, serial));
        });
        while self.weight > self.capacity && self.make_room() {}
    }

    pub(super) fn remove(&mut self, hash: &Hash) {
        if let Some(entry) = self.entries.remove(hash) {
            let weight = u64::from(entry.weight);
            self.weight -= weight;
            self.change(entry.whose, |share| {
                share.weight -= weight;
                share.entries -= 1;
            });
            self.tidy(entry.whose);
        }
    }

    /// False if nothing is left.
    fn make_room(&mut self) -> bool {
        let Some((_, _, whose)) = self.ranks.last().copied() else { return false };
        let mut chances = CHANCES;
        loop {
            let Some((hash, serial)) = self.shares.get_mut(&whose).and_then(|share| share.handles.pop_front()) else {
                return false;
            };
            let Some(entry) = self.entries.get(&hash).filter(|entry| entry.serial == serial) else { continue };
            if chances > 0 && entry.asked.swap(false, Ordering::Relaxed) {
                chances -= 1;
                if let Some(share) = self.shares.get_mut(&whose) {
                    share.handles.push_back((hash, serial));
                }
                continue;
            }
            self.remove(&hash);
            return true;
        }
    }

    fn change(&mut self, whose: u64, act: impl FnOnce(&mut Share)) {
        self.stamp += 1;
        let share = self.shares.entry(whose).or_default();
        self.ranks.remove(&share.rank(whose));
        act(share);
        share.stamp = self.stamp;
        if share.entries == 0 {
            self.shares.remove(&whose);
        } else {
            self.ranks.insert(share.rank(whose));
        }
    }

    /// Handles that mean nothing must not outgrow those that do.
    fn tidy(&mut self, whose: u64) {
        if let Some(share) = self.shares.get_mut(&whose).filter(|share| share.handles.len() > 2 * share.entries + 16) {
            let entries = &self.entries;
            share.handles.retain(|(hash, serial)| entries.get(hash).is_some_and(|entry| entry.serial == *serial));
        }
    }
}

/// Takes a part of a hash as it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken(u64);

impl Hasher for Taken {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_ne_bytes(*first);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(fair: &mut Fair, whose: u64, key: u64) {
        let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        fair.insert([spread, whose], Entry::new(whose, Answer::Unknown, 0, 1));
    }

    fn has(fair: &Fair, whose: u64, key: u64) -> bool {
        fair.get(&[key.wrapping_mul(0x9e37_79b9_7f4a_7c15), whose]).is_some()
    }

    #[test]
    fn a_tenant_that_asks_for_much_displaces_only_itself() {
        let mut fair = Fair::new(100);
        (0..100).for_each(|key| put(&mut fair, 1, key));
        assert_eq!(fair.len(), 100, "alone it may have everything");
        (0..20).for_each(|key| put(&mut fair, 2, key));
        (0..20).for_each(|key| put(&mut fair, 3, key));
        (100..100_000).for_each(|key| put(&mut fair, 1, key));
        assert!((0..20).all(|key| has(&fair, 2, key) && has(&fair, 3, key)));
        assert_eq!(fair.len(), 100);
    }

    #[test]
    fn what_is_asked_for_again_stays_longer() {
        let mut fair = Fair::new(10);
        (0..10).for_each(|key| put(&mut fair, 1, key));
        for key in 10..100 {
            assert!(has(&fair, 1, 3));
            put(&mut fair, 1, key);
        }
        assert!(has(&fair, 1, 3));
    }

    #[test]
    fn equals_make_room_in_turn() {
        let mut fair = Fair::new(10);
        (0..1000).for_each(|whose| put(&mut fair, whose, 0));
        assert!((990..1000).all(|whose| has(&fair, whose, 0)));
    }

    proptest! {
        #[test]
        fn the_books_are_right_whatever_happens(
            capacity in 1_u64..50,
            steps in prop::collection::vec((0_u64..5, 0_u64..40, 1_u32..4, any::<bool>()), 0..400),
        ) {
            let mut fair = Fair::new(capacity);
            for (whose, key, weight, is_put) in steps {
                let hash = [key, 0];
                if is_put {
                    fair.insert(hash, Entry::new(whose, Answer::Unknown, 0, weight));
                } else {
                    fair.remove(&hash);
                }
                let weight: u64 = fair.entries.values().map(|entry| u64::from(entry.weight)).sum();
                prop_assert_eq!(weight, fair.weight);
                prop_assert!(weight <= capacity);
                prop_assert_eq!(fair.shares.len(), fair.ranks.len());
                for (whose, share) in &fair.shares {
                    let own: Vec<_> = fair.entries.values().filter(|entry| entry.whose == *whose).collect();
                    prop_assert_eq!(own.len(), share.entries);
                    prop_assert_eq!(own.iter().map(|entry| u64::from(entry.weight)).sum::<u64>(), share.weight);
                    prop_assert!(share.handles.len() <= 2 * share.entries + 17);
                    prop_assert!(fair.ranks.contains(&share.rank(*whose)));
                }
            }
        }
    }
}
