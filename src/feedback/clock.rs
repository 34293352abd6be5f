//! The time of day that cooldowns, tokens and other replicas' words are dated by: it runs as evenly as the machine's own clock and is
//! set only when the two have come apart. Both clocks come in as data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::health::Moment;

/// How often the time of day is looked at.
pub(super) const GLANCE: Duration = Duration::from_secs(1);
/// Clocks that are kept right are moved by less than this at a time.
const APART: i64 = 1_000;

#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    /// The time of day at that instant, in milliseconds since 1970.
    base: AtomicU64,
}

impl Clock {
    pub(super) fn new(started: Instant, wall: SystemTime) -> Self {
        Self { started, base: AtomicU64::new(millis(wall)) }
    }

    pub(super) fn at(&self, instant: Instant) -> Moment {
        Moment(self.base.load(Ordering::Relaxed)).after(instant.saturating_duration_since(self.started))
    }

    /// By how many milliseconds the time of day is ahead of this clock; `None`: they agree.
    pub(super) fn drift(&self, instant: Instant, wall: SystemTime) -> Option<i64> {
        let apart = i64::try_from(i128::from(millis(wall)) - i128::from(self.at(instant).0)).ok()?;
        (apart.abs() > APART).then_some(apart)
    }

    pub(super) fn moved(&self, by: i64) {
        let moved = Moment(self.base.load(Ordering::Relaxed)).moved(by);
        self.base.store(moved.0, Ordering::Relaxed);
    }
}

fn millis(wall: SystemTime) -> u64 {
    u64::try_from(wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_follows_what_moves_and_not_what_trembles() {
        let (start, day) = (Instant::now(), UNIX_EPOCH + Duration::from_secs(1_000_000));
        let clock = Clock::new(start, day);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let wall = |millis: u64| day + Duration::from_millis(millis);
        assert_eq!(clock.at(at(5)), Moment(1_000_005_000));
        for trembling in [4_000, 5_000, 6_000] {
            assert_eq!(clock.drift(at(5), wall(trembling)), None, "{trembling}");
        }
        // Asleep for an hour, or wrong by an hour at the start.
        assert_eq!(clock.drift(at(5), wall(3_605_000)), Some(3_600_000));
        clock.moved(3_600_000);
        assert_eq!((clock.at(at(5)), clock.drift(at(5), wall(3_605_000))), (Moment(1_003_605_000), None));
        assert_eq!(clock.drift(at(6), wall(6_000)), Some(-3_600_000), "and back");
        // Before a clock is set at all.
        assert_eq!(clock.drift(at(6), UNIX_EPOCH), Some(-1_003_606_000));
    }
}
