//! What a reading means beside what is in use: nothing, a change that has to settle, a catalog that may come into use, or trouble.

use std::time::Duration;

use super::verdict::{Verdict, judge};
use super::{CLOCK_START, Candidate, InUse, Loader, Step, Trouble, age};
use crate::catalog::load::Files;
use crate::catalog::loosening::{self, FileEnd};
use crate::catalog::origin::{ContentHash, Reading, Texts};

impl Loader {
    pub(super) async fn on(&mut self, reading: Reading) -> Step {
        let now = self.now();
        match reading {
            Reading::Away(why) => self.on_away(why, now),
            Reading::Found(texts, hash) => {
                self.last_read = Some(hash);
                self.on_found(Some(texts), hash, now).await
            }
            Reading::NotModified => match self.last_read {
                Some(hash) => self.on_found(None, hash, now).await,
                None => Step::Done,
            },
        }
    }

    /// A file that is being replaced, or links that are being swapped, may be away for a moment.
    fn on_away(&mut self, why: String, now: Duration) -> Step {
        let since = *self.away_since.get_or_insert(now);
        let left = (since + self.times.settle).saturating_sub(now);
        if self.in_use.is_some() && self.trouble == Trouble::None && !left.is_zero() {
            return Step::Wait(left);
        }
        self.away(why);
        Step::Done
    }

    /// `texts`: `None` if they are those that were read last.
    async fn on_found(&mut self, texts: Option<Texts>, hash: ContentHash, now: Duration) -> Step {
        self.away_since = None;
        if let Some(Ok(files)) = &texts {
            self.noticed.notice(files);
        }
        if self.in_use.as_ref().is_some_and(|used| used.hash == hash) {
            self.recover();
            return Step::Done;
        }
        if self.trouble == Trouble::Refused(hash) {
            self.settle_down();
            return Step::Done;
        }
        // What the file system says of times is believed at the start only: later there is a clock of our own.
        let is_start = self.trouble == Trouble::None && self.noticed.is_first_look();
        let unchanged = match &texts {
            Some(Ok(files)) if is_start => age(files),
            _ => Duration::ZERO,
        };
        self.settling.see(hash, now, unchanged);
        if self.candidate.as_ref().is_some_and(|candidate| candidate.hash != hash) {
            self.candidate = None;
        }
        let written = self.seen.writing();
        let written_since = written.as_ref().map(|(_, since)| CLOCK_START + since.saturating_duration_since(self.started));
        if let Some(left) = self.settling.until_judged(now, written_since) {
            self.announce_change(written.map(|(path, _)| path), left);
            return Step::Wait(left);
        }
        if self.candidate.is_none() {
            let Some(texts) = texts else { return Step::Done };
            match self.weigh(texts, hash).await {
                Ok(candidate) => self.candidate = Some(candidate),
                Err(refused) => return refused,
            }
        }
        self.take_if_settled().await
    }

    async fn take_if_settled(&mut self) -> Step {
        let now = self.now();
        let Some(candidate) = self.candidate.take() else { return Step::Done };
        let left = if self.in_use.is_some() {
            self.settling.until_taken(candidate.loosening.marks(), now)
        } else {
            self.settling.until_first(now).filter(|_| candidate.ends.iter().any(FileEnd::looks_cut))
        };
        match left {
            None => {
                self.take(candidate).await;
                Step::Done
            }
            Some(left) => {
                self.candidate = Some(candidate);
                self.announce_candidate(left);
                Step::Wait(left)
            }
        }
    }

    /// Judges texts, and compares them with what is in use.
    async fn weigh(&mut self, texts: Texts, hash: ContentHash) -> Result<Candidate, Step> {
        let (diagnostics, files) = match texts {
            Err(diagnostics) => (diagnostics, Files::default()),
            Ok(files) => match judge(files.texts.clone(), self.rules.clone()).await {
                Verdict::Bad(diagnostics) => (diagnostics, files),
                Verdict::Good(accepted) => {
                    if self.in_use.is_none() && self.settling.age(self.now()) < self.times.loosening {
                        // It may be half of what it was before the restart.
                        self.stand_in(hash).await;
                    }
                    // What a server answers is whole, however it ends.
                    let read = if self.source.is_whole() { &[][..] } else { &files.texts };
                    let ends: Vec<FileEnd> = read.iter().map(FileEnd::of).collect();
                    let compare = |used: &InUse| loosening::between((&used.snapshot, &used.ends), (&accepted.snapshot, &ends));
                    let loosening = self.in_use.as_ref().map(compare).unwrap_or_default();
                    return Ok(Candidate { hash, accepted, files, ends, loosening, is_announced: false });
                }
            },
        };
        self.refuse(&diagnostics, hash);
        Err(Step::Refused { diagnostics, files: files.texts })
    }
}
