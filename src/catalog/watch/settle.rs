//! How long a change must stay as it is before it is judged, and before it comes into use. Two clocks: the *content* must be the same
//! for a while, so that a file is not read in the middle of being written; and whatever a change takes away or opens must have been
//! so for longer, since half a file and a file that is moved aside look just like that. Pure: time comes in as a duration since some
//! start, content as a hash, a loosening as marks.

use std::collections::HashMap;
use std::time::Duration;

use crate::catalog::origin::ContentHash;

/// A source that never comes to rest is judged all the same once it has been different from what is in use for this long: what it
/// loosens must still have been so for the whole of [`Times::loosening`].
pub(super) const RESTLESS: Duration = Duration::from_secs(30);
/// How long a file that is open for writing holds a change up. A writer that forgets to close must not hold it up for ever.
pub(super) const LONGEST_WRITE: Duration = Duration::from_secs(300);

/// So many times [`Times::settle`] a file waits that looks cut where there is no catalog yet.
const FIRST: u32 = 3;

#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// For every change.
    pub(super) settle: Duration,
    /// For what a change takes away or opens.
    pub(super) loosening: Duration,
}

/// What was seen of the source while it differs from what is in use.
#[derive(Debug)]
pub(super) struct Settling {
    times: Times,
    content: Option<Content>,
    /// Since when each loosening has been there, in every content that was judged.
    loosened: HashMap<u64, Duration>,
}

#[derive(Debug)]
struct Content {
    hash: ContentHash,
    since: Duration,
    /// Since when the source has been seen to be different, whatever it held.
    different_since: Duration,
}

impl Settling {
    pub(super) fn new(times: Times) -> Self {
        Self { times, content: None, loosened: HashMap::new() }
    }

    /// The source holds this. `unchanged`: for how long it has been so already, as far as the file system tells.
    pub(super) fn see(&mut self, hash: ContentHash, now: Duration, unchanged: Duration) {
        let since = now.saturating_sub(unchanged);
        match &mut self.content {
            Some(content) if content.hash == hash => {}
            Some(content) => (content.hash, content.since) = (hash, now),
            None => self.content = Some(Content { hash, since, different_since: now }),
        }
    }

    /// The source holds what is in use, or what was refused.
    pub(super) fn forget(&mut self) {
        (self.content, self.loosened) = (None, HashMap::new());
    }

    /// Since when the content is as it is.
    pub(super) fn since(&self) -> Option<Duration> {
        self.content.as_ref().map(|content| content.since)
    }

    /// For how long the content has been as it is.
    pub(super) fn age(&self, now: Duration) -> Duration {
        self.since().map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// How long to wait before the content may be judged; `None`: it may be now. `written_since`: since when one of its files has
    /// been open for writing.
    pub(super) fn until_judged(&self, now: Duration, written_since: Option<Duration>) -> Option<Duration> {
        let content = self.content.as_ref()?;
        let rest = (content.since + self.times.settle).min(content.different_since + RESTLESS.max(self.times.settle));
        let closed = written_since.map_or(Duration::ZERO, |since| since + LONGEST_WRITE);
        rest.max(closed).checked_sub(now).filter(|left| !left.is_zero())
    }

    /// How long to wait before a content that looks cut may be the first of all. There is nothing to compare it with, and as long as
    /// nothing is in use nothing is served, so that this is shorter than for a loosening.
    pub(super) fn until_first(&self, now: Duration) -> Option<Duration> {
        (self.since()? + self.times.settle * FIRST).checked_sub(now).filter(|left| !left.is_zero())
    }

    /// How long to wait before the content, which loosens this, may come into use; `None`: it may now.
    pub(super) fn until_taken(&mut self, marks: &[u64], now: Duration) -> Option<Duration> {
        let since = self.since().unwrap_or(now);
        let seen = std::mem::take(&mut self.loosened);
        self.loosened = marks.iter().map(|mark| (*mark, seen.get(mark).copied().unwrap_or(since))).collect();
        let latest = self.loosened.values().max()?;
        (*latest + self.times.loosening).checked_sub(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::load::{Files, SourceFile};

    const TIMES: Times = Times { settle: Duration::from_secs(1), loosening: Duration::from_secs(10) };

    fn content(text: &str) -> ContentHash {
        ContentHash::of(&Ok(Files { texts: vec![SourceFile::new("a", text)], ..Files::default() }))
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(100_000 + milliseconds)
    }

    fn see(settling: &mut Settling, text: &str, milliseconds: u64) {
        settling.see(content(text), at(milliseconds), Duration::ZERO);
    }

    #[test]
    fn a_content_is_judged_once_it_has_been_the_same_for_a_while() {
        let mut settling = Settling::new(TIMES);
        assert_eq!(settling.until_judged(at(0), None), None, "nothing is waited for");
        see(&mut settling, "half", 0);
        assert_eq!(settling.until_judged(at(0), None), Some(Duration::from_secs(1)));
        see(&mut settling, "half", 900);
        assert_eq!(settling.until_judged(at(900), None), Some(Duration::from_millis(100)));
        see(&mut settling, "whole", 950);
        assert_eq!(settling.until_judged(at(1_000), None), Some(Duration::from_millis(950)), "another content starts anew");
        assert_eq!(settling.until_judged(at(1_950), None), None);
        settling.forget();
        see(&mut settling, "half", 5_000);
        assert!(settling.until_judged(at(5_500), None).is_some());
    }

    #[test]
    fn what_the_file_system_says_was_so_before_counts_at_the_first_sight_only() {
        let mut settling = Settling::new(TIMES);
        settling.see(content("old"), at(0), Duration::from_secs(3_600));
        assert_eq!(settling.until_judged(at(0), None), None);
        assert_eq!(settling.until_taken(&[1], at(0)), None, "it has been gone for an hour");
        settling.see(content("new"), at(100), Duration::from_secs(3_600));
        assert!(settling.until_judged(at(100), None).is_some(), "it was seen to change now");
    }

    #[test]
    fn a_loosening_must_have_been_there_for_longer() {
        let mut settling = Settling::new(TIMES);
        see(&mut settling, "half", 0);
        assert_eq!(settling.until_taken(&[1, 2], at(1_000)), Some(Duration::from_secs(9)));
        assert_eq!(settling.until_taken(&[1, 2], at(9_999)), Some(Duration::from_millis(1)));
        assert_eq!(settling.until_taken(&[1, 2], at(10_000)), None);
        // The second half comes: nothing is loosened any more.
        see(&mut settling, "whole", 10_000);
        assert_eq!(settling.until_taken(&[], at(11_000)), None);
        // And what is gone again starts anew.
        see(&mut settling, "half", 12_000);
        assert_eq!(settling.until_taken(&[1], at(13_000)), Some(Duration::from_secs(9)));
    }

    #[test]
    fn a_first_file_that_looks_cut_waits_a_little_longer() {
        let mut settling = Settling::new(TIMES);
        see(&mut settling, "half", 0);
        assert_eq!(settling.until_first(at(1_000)), Some(Duration::from_secs(2)));
        assert_eq!(settling.until_first(at(3_000)), None);
    }

    /// A generator that writes every few seconds would otherwise never get a removal through.
    #[test]
    fn a_loosening_that_stays_while_the_rest_changes_keeps_its_clock() {
        let mut settling = Settling::new(TIMES);
        for second in 0..10 {
            see(&mut settling, &format!("content {second}"), second * 1_000);
            assert!(settling.until_taken(&[7], at(second * 1_000)).is_some());
        }
        see(&mut settling, "content 10", 10_000);
        assert_eq!(settling.until_taken(&[7], at(10_000)), None);
        assert_eq!(settling.until_taken(&[7, 8], at(10_000)), Some(Duration::from_secs(10)), "what is new waits for itself");
    }

    #[test]
    fn a_source_that_never_comes_to_rest_is_judged_all_the_same() {
        let mut settling = Settling::new(TIMES);
        for tick in 0..60 {
            see(&mut settling, &format!("content {tick}"), tick * 500);
            assert!(settling.until_judged(at(tick * 500), None).is_some(), "{tick}");
        }
        see(&mut settling, "content 60", 30_000);
        assert_eq!(settling.until_judged(at(30_000), None), None);
    }

    #[test]
    fn a_file_that_is_open_for_writing_is_waited_for_but_not_for_ever() {
        let mut settling = Settling::new(TIMES);
        see(&mut settling, "half", 0);
        assert!(settling.until_judged(at(60_000), Some(at(0))).is_some());
        assert_eq!(settling.until_judged(at(60_000), None), None, "it was closed");
        assert_eq!(settling.until_judged(at(0) + LONGEST_WRITE, Some(at(0))), None);
    }
}
