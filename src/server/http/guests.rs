//! The open connections of one HTTP address, and what their answers hold in memory. When there are too many of either, whoever has
//! been silent or slow for longest leaves, so that a probe that comes now is answered. It knows no HTTP.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long a connection may stay without a whole request: one that idles, or whose headers trickle in.
const IDLE: Duration = Duration::from_secs(10);
/// How long an answer may take, from its request to the last byte that the client takes.
const ANSWER: Duration = Duration::from_secs(60);

/// All of one address.
#[derive(Debug)]
pub(super) struct Guests {
    open: Mutex<Vec<Arc<Guest>>>,
    most: usize,
    /// Bytes of answers that are not yet taken.
    held: AtomicU64,
    most_held: u64,
}

/// One connection.
#[derive(Debug)]
struct Guest {
    stage: Mutex<Stage>,
    /// Bytes of its answer that are not yet taken.
    holds: AtomicU64,
    changed: Notify,
    leave: Notify,
}

/// What a connection is at, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle(Instant),
    Answering(Instant),
    /// Asked to leave.
    Leaving,
}

impl Stage {
    /// `None`: it is over.
    fn ends(self) -> Option<Instant> {
        match self {
            Self::Idle(since) => Some(since + IDLE),
            Self::Answering(since) => Some(since + ANSWER),
            Self::Leaving => None,
        }
    }
}

/// A connection's own view of itself; it is forgotten when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    guests: Arc<Guests>,
    guest: Arc<Guest>,
}

/// An answer under way. Dropped with the last of its bytes.
#[derive(Debug)]
pub(super) struct Answering {
    seat: Arc<Seat>,
    bytes: Bytes,
}

impl Guests {
    pub(super) fn new(most: usize, most_held: u64) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), most, held: AtomicU64::new(0), most_held })
    }

    /// Takes in a connection. If there are too many, the one that has been idle for longest is asked to leave, or the slowest.
    pub(super) fn seat(self: &Arc<Self>) -> Arc<Seat> {
        let stage = Mutex::new(Stage::Idle(Instant::now()));
        let guest = Arc::new(Guest { stage, holds: AtomicU64::new(0), changed: Notify::new(), leave: Notify::new() });
        let mut open = self.lock();
        let staying = open.iter().filter(|guest| guest.since().is_some()).count();
        if staying >= self.most
            && let Some(guest) = open.iter().min_by_key(|guest| guest.order())
        {
            guest.ask_to_leave();
        }
        open.push(Arc::clone(&guest));
        drop(open);
        Arc::new(Seat { guests: Arc::clone(self), guest })
    }

    /// Makes room for an answer by asking those to leave who have been taking theirs for longest.
    fn make_room(&self, newcomer: &Arc<Guest>) {
        let mut held = self.held.load(Ordering::Relaxed);
        if held <= self.most_held {
            return;
        }
        let open = self.lock();
        let mut others: Vec<&Arc<Guest>> =
            open.iter().filter(|guest| !Arc::ptr_eq(guest, newcomer) && guest.holds.load(Ordering::Relaxed) > 0).collect();
        others.sort_by_key(|guest| guest.since());
        for guest in others {
            if held <= self.most_held {
                break;
            }
            held = held.saturating_sub(guest.holds.load(Ordering::Relaxed));
            guest.ask_to_leave();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Guest>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: it is leaving.
    fn since(&self) -> Option<Instant> {
        match *self.stage() {
            Stage::Idle(since) | Stage::Answering(since) => Some(since),
            Stage::Leaving => None,
        }
    }

    /// Who leaves first: the idle before the busy, the oldest first, and nobody twice.
    fn order(&self) -> (u8, Option<Instant>) {
        match *self.stage() {
            Stage::Idle(since) => (0, Some(since)),
            Stage::Answering(since) => (1, Some(since)),
            Stage::Leaving => (2, None),
        }
    }

    fn set(&self, next: Stage) {
        let mut stage = self.stage();
        if *stage != Stage::Leaving {
            *stage = next;
        }
        drop(stage);
        self.changed.notify_one();
    }

    fn ask_to_leave(&self) {
        *self.stage() = Stage::Leaving;
        self.leave.notify_one();
    }
}

impl Seat {
    /// A request has come.
    pub(super) fn asked(&self) {
        self.guest.set(Stage::Answering(Instant::now()));
    }

    /// These bytes answer it. The connection is idle again when the last of them has left.
    pub(super) fn answers(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        let size = bytes.len() as u64;
        self.guest.holds.fetch_add(size, Ordering::Relaxed);
        self.guests.held.fetch_add(size, Ordering::Relaxed);
        self.guests.make_room(&self.guest);
        Bytes::from_owner(Answering { seat: Arc::clone(self), bytes })
    }

    /// Resolves when the connection has to go: its time is over, or others need its room.
    pub(super) async fn has_to_leave(&self) {
        loop {
            let Some(until) = self.guest.stage().ends() else { return };
            tokio::select! {
                () = sleep_until(until) => return,
                () = self.guest.leave.notified() => return,
                () = self.guest.changed.notified() => {}
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.guests.lock().retain(|guest| !Arc::ptr_eq(guest, &self.guest));
    }
}

impl AsRef<[u8]> for Answering {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let size = self.bytes.len() as u64;
        self.seat.guest.holds.fetch_sub(size, Ordering::Relaxed);
        self.seat.guests.held.fetch_sub(size, Ordering::Relaxed);
        self.seat.guest.set(Stage::Idle(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_leaving(seat: &Seat) -> bool {
        seat.guest.since().is_none()
    }

    #[tokio::test]
    async fn the_longest_idle_leaves_first_then_the_slowest_and_the_newest_stays() {
        let guests = Guests::new(3, u64::MAX);
        let seats: Vec<_> = (0..3).map(|_| guests.seat()).collect();
        seats[0].asked();
        let newest = guests.seat();
        assert_eq!(seats.iter().map(|seat| is_leaving(seat)).collect::<Vec<_>>(), [false, true, false]);
        seats[2].asked();
        newest.asked();
        let last = guests.seat();
        assert!(is_leaving(&seats[0]) && !is_leaving(&seats[2]) && !is_leaving(&newest) && !is_leaving(&last));
        seats[1].has_to_leave().await;
    }

    #[tokio::test]
    async fn answers_that_nobody_takes_make_room_for_the_next_one() {
        let guests = Guests::new(10, 100);
        let (slow, slower, quick) = (guests.seat(), guests.seat(), guests.seat());
        slower.asked();
        let first = slower.answers(Bytes::from(vec![0; 60]));
        slow.asked();
        let second = slow.answers(Bytes::from(vec![0; 40]));
        assert!(!is_leaving(&slower) && !is_leaving(&slow));
        quick.asked();
        let third = quick.answers(Bytes::from(vec![0; 10]));
        assert!(is_leaving(&slower) && !is_leaving(&slow) && !is_leaving(&quick));
        drop((first, second, third));
        assert_eq!(guests.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn idle_and_slow_connections_have_their_time_and_what_was_taken_begins_anew() {
        let guests = Guests::new(10, 100);
        let (seat, start) = (guests.seat(), Instant::now());
        let left = |seat: &Seat| seat.guest.stage().ends().unwrap().saturating_duration_since(start);
        assert!(left(&seat) <= IDLE);
        seat.asked();
        let answer = seat.answers(Bytes::from_static(b"x"));
        assert!(left(&seat) >= ANSWER);
        drop(answer);
        assert!((IDLE..ANSWER).contains(&left(&seat)));
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let guests = Guests::new(10, 100);
        drop(guests.seat());
        assert!(guests.lock().is_empty());
    }
}
