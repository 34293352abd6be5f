//! When to write a line about something that fails again and again: at most one a minute, and one when it is over, if it was told
//! that it began. It counts failures; what failed, and how that reads, is the caller's to know.

use std::time::Duration;

use tokio::time::Instant;

/// One key that always fails between keys that never do must not fill the log.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Outage {
    /// Since the last success.
    failures: u64,
    /// Failures since the last line that told of any.
    untold: u64,
    told_at: Option<Instant>,
    /// A line has said that it fails, and none that it is over.
    is_told: bool,
}

impl Outage {
    /// Something failed. If a line about it is due: how many failures it tells of.
    pub(super) fn failed(&mut self, now: Instant) -> Option<u64> {
        self.failures += 1;
        self.untold += 1;
        if self.told_at.is_some_and(|told| now.duration_since(told) < PAUSE) {
            return None;
        }
        (self.told_at, self.is_told) = (Some(now), true);
        Some(std::mem::take(&mut self.untold))
    }

    /// Something went well. If a line about it is due: how many failures in a row are over.
    pub(super) fn went_well(&mut self) -> Option<u64> {
        let failures = std::mem::take(&mut self.failures);
        std::mem::take(&mut self.is_told).then_some(failures)
    }

    /// Failures since the last success.
    pub(super) fn failures(&self) -> u64 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_go_on_are_told_once_a_minute_and_once_when_they_are_over() {
        let (mut outage, start) = (Outage::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(outage.went_well(), None);
        assert_eq!(outage.failed(at(0)), Some(1));
        let told: Vec<_> = (1..=125).filter_map(|second| Some((second, outage.failed(at(second))?))).collect();
        assert_eq!(told, [(60, 60), (120, 60)]);
        assert_eq!((outage.failures(), outage.went_well(), outage.failures()), (126, Some(126), 0));
        assert_eq!(outage.went_well(), None);
    }

    #[test]
    fn failures_in_turn_with_successes_are_told_once_a_minute_and_no_end_without_a_beginning() {
        let (mut outage, start) = (Outage::default(), Instant::now());
        let mut told = Vec::new();
        for second in 0..=60 {
            let failed = outage.failed(start + Duration::from_secs(second));
            let over = outage.went_well();
            if (failed, over) != (None, None) {
                told.push((second, failed, over));
            }
        }
        assert_eq!(told, [(0, Some(1), Some(1)), (60, Some(60), Some(1))]);
    }
}
