//! Where attempts wait for the entry of their request: what Envoy ends without a word is explained there alone, and the two entries
//! come in any order. It is bounded in number and in time, and time is data. What waits in vain teaches nothing.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use super::classify::{Ending, Open};
use super::entry::RequestEnd;
use crate::health::Moment;

/// How long the other entry is waited for. Envoy sends both within its `buffer_flush_interval`, a second by default.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests that are waited for at the same time; beyond that the oldest is given up.
const MAX_REQUESTS: usize = 16_384;
/// Attempts of one request that end without a word: there is one, if nobody repeats or forges entries.
const MAX_ATTEMPTS: usize = 4;

/// An attempt whose entry left a question open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) cluster: Box<str>,
    pub(super) open: Open,
    pub(super) status: u16,
    pub(super) endpoint: Option<SocketAddr>,
    /// As in [`super::entry::Attempt`].
    pub(super) number: u32,
    /// The sealed header of its decision.
    pub(super) token: Option<Box<str>>,
}

impl Waiting {
    /// How it ended, by the entry of its request, which speaks of the last attempt.
    pub(super) fn ending(&self, request: &RequestEnd) -> Ending {
        let is_last = self.number == 0 || request.attempts == 0 || self.number == request.attempts;
        if is_last { request.ending } else { Ending::Other }
    }
}

#[derive(Debug, Default)]
struct Slot {
    since: Moment,
    attempts: Vec<Waiting>,
    end: Option<RequestEnd>,
}

/// Attempts and ends of requests that wait for each other, by a key of their decision.
#[derive(Debug, Default)]
pub(super) struct Room {
    slots: HashMap<u64, Slot>,
    /// When each was first heard of, oldest first.
    order: VecDeque<(Moment, u64)>,
}

impl Room {
    /// An attempt asks how its request ended; `None`: it waits. The number is of those that were given up for it.
    pub(super) fn attempt(&mut self, key: u64, attempt: Waiting, now: Moment) -> (Option<(Waiting, RequestEnd)>, usize) {
        if let Some(end) = self.slots.get(&key).and_then(|slot| slot.end) {
            return (Some((attempt, end)), 0);
        }
        let vain = self.make_room(key, now);
        let slot = self.slot(key, now);
        if slot.attempts.len() < MAX_ATTEMPTS {
            slot.attempts.push(attempt);
            return (None, vain);
        }
        (None, vain + 1)
    }

    /// A request ended: the attempts that waited for it. If none did, it is kept while `is_needed`.
    pub(super) fn request(&mut self, key: u64, end: RequestEnd, is_needed: bool, now: Moment) -> (Vec<Waiting>, usize) {
        if let Some(slot) = self.slots.get_mut(&key).filter(|slot| !slot.attempts.is_empty()) {
            let attempts = std::mem::take(&mut slot.attempts);
            self.slots.remove(&key);
            return (attempts, 0);
        }
        if !is_needed {
            return (Vec::new(), 0);
        }
        let vain = self.make_room(key, now);
        self.slot(key, now).end = Some(end);
        (Vec::new(), vain)
    }

    /// Gives up what has waited long enough, and says how many attempts that were.
    pub(super) fn expire(&mut self, now: Moment) -> usize {
        let mut vain = 0;
        while self.order.front().is_some_and(|(since, _)| now >= since.after(PATIENCE)) {
            vain += self.drop_oldest();
        }
        vain
    }

    fn slot(&mut self, key: u64, now: Moment) -> &mut Slot {
        let order = &mut self.order;
        self.slots.entry(key).or_insert_with(|| {
            order.push_back((now, key));
            Slot { since: now, ..Slot::default() }
        })
    }

    fn make_room(&mut self, key: u64, now: Moment) -> usize {
        let mut vain = self.expire(now);
        // Keys that were served meanwhile leave their place in the order behind.
        while self.order.len() >= MAX_REQUESTS && !self.slots.contains_key(&key) {
            vain += self.drop_oldest();
        }
        vain
    }

    fn drop_oldest(&mut self) -> usize {
        let Some((since, key)) = self.order.pop_front() else { return 0 };
        if self.slots.get(&key).is_none_or(|slot| slot.since != since) {
            return 0;
        }
        self.slots.remove(&key).map_or(0, |slot| slot.attempts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(number: u32) -> Waiting {
        let cluster = Box::from("c");
        Waiting { cluster, open: Open::Answering, status: 200, endpoint: None, number, token: None }
    }

    fn end(ending: Ending) -> RequestEnd {
        RequestEnd { ending, status: 200, attempts: 1, found_nobody: false, is_complete: false }
    }

    fn at(milliseconds: u64) -> Moment {
        Moment(1_000_000 + milliseconds)
    }

    #[test]
    fn the_two_entries_meet_in_either_order() {
        let mut room = Room::default();
        assert_eq!(room.attempt(1, waiting(1), at(0)), (None, 0));
        assert_eq!(room.request(1, end(Ending::Whole), true, at(4_999)), (vec![waiting(1)], 0));
        assert_eq!(room.request(2, end(Ending::ClientLeft), true, at(0)), (Vec::new(), 0));
        let (met, _) = room.attempt(2, waiting(1), at(4_999));
        assert_eq!(met, Some((waiting(1), end(Ending::ClientLeft))));
        // Nobody needs the end of a request whose attempt has said it all.
        room.request(3, end(Ending::Whole), false, at(0));
        assert_eq!(room.attempt(3, waiting(1), at(0)), (None, 0));
    }

    #[test]
    fn what_waits_too_long_is_given_up_and_nothing_of_it_stays() {
        let mut room = Room::default();
        room.attempt(1, waiting(1), at(0));
        room.request(2, end(Ending::Whole), true, at(1));
        assert_eq!((room.expire(at(4_999)), room.expire(at(5_000))), (0, 1));
        assert_eq!(room.request(1, end(Ending::Whole), false, at(5_000)), (Vec::new(), 0), "too late");
        assert_eq!(room.expire(at(5_001)), 0, "an end that nobody waited for is no loss");
        assert!(room.slots.is_empty() && room.order.is_empty());
    }

    #[test]
    fn a_flood_is_bounded_and_takes_the_oldest_first() {
        let mut room = Room::default();
        let vain: usize = (0..50_000).map(|key| room.attempt(key, waiting(1), at(0)).1).sum();
        assert_eq!((room.slots.len(), vain), (MAX_REQUESTS, 50_000 - MAX_REQUESTS));
        assert_eq!(room.request(49_999, end(Ending::Whole), true, at(1)).0.len(), 1);
        assert!(room.request(0, end(Ending::Whole), false, at(1)).0.is_empty());
        // One request that repeats itself takes one place.
        let vain: usize = (0..100).map(|_| room.attempt(7_000_000, waiting(1), at(2)).1).sum();
        assert!(vain >= 100 - MAX_ATTEMPTS && room.slots.len() <= MAX_REQUESTS);
        // What is served leaves nothing behind for good.
        for key in 0..50_000 {
            room.attempt(key, waiting(1), at(3));
            room.request(key, end(Ending::Whole), true, at(3));
        }
        assert!(room.order.len() <= MAX_REQUESTS);
    }

    #[test]
    fn the_end_of_a_request_speaks_of_its_last_attempt() {
        let last = RequestEnd { attempts: 2, ..end(Ending::Whole) };
        let ending = |number| waiting(number).ending(&last);
        assert_eq!((ending(1), ending(2), ending(0)), (Ending::Other, Ending::Whole, Ending::Whole));
    }
}
