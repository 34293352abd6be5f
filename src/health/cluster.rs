//! One cluster's cooldowns: the whole cluster's and those of models on it, how each begins, grows and is forgotten.

use std::collections::HashMap;
use std::time::Duration;

use super::{Failure, MIN_COOLDOWN, Moment, Policy, What};

/// Models of one cluster that are kept track of. Beyond that the one whose cooldown ended first is forgotten.
pub(super) const MAX_MODELS: usize = 1_000;

/// Failures of a row that are kept by name. The count goes on.
const MAX_NAMED: usize = 8;

/// Why a cluster cools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    RateLimited,
    Failures,
    NoHost,
    /// Somebody said so.
    Operator,
}

impl Cause {
    pub const ALL: [Self; 4] = [Self::RateLimited, Self::Failures, Self::NoHost, Self::Operator];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Failures => "failures",
            Self::NoHost => "no_healthy_host",
            Self::Operator => "operator",
        }
    }
}

/// A cooldown, under way or over. One that is over is remembered: the next failure makes a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cooldown {
    pub cause: Cause,
    pub since: Moment,
    pub until: Moment,
    /// Without jitter, before the limit.
    pub(super) length: Duration,
    /// False once its end has been noted.
    pub(super) open: bool,
}

impl Cooldown {
    /// One that is told by somebody else. `length` is what the next one doubles.
    #[must_use]
    pub const fn told(cause: Cause, since: Moment, until: Moment, length: Duration) -> Self {
        Self { cause, since, until, length, open: true }
    }

    #[must_use]
    pub const fn length(&self) -> Duration {
        self.length
    }

    #[must_use]
    pub fn is_cooling(&self, now: Moment) -> bool {
        now < self.until
    }
}

/// When a cluster failed last, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastFailure {
    pub at: Moment,
    pub cause: Cause,
    /// Which failure, where the cause is [`Cause::Failures`].
    pub failure: Option<Failure>,
}

/// What is known of one cluster.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// Failures in a row.
    pub failures: u32,
    /// The last ones of them, oldest first.
    pub(super) row: Vec<Failure>,
    pub last_failure: Option<LastFailure>,
    pub whole: Option<Cooldown>,
    pub models: HashMap<Box<str>, Cooldown>,
}

impl Cluster {
    /// Which failures make up the row, oldest first: `503, 503, timeout`. Of a long row only the last ones.
    #[must_use]
    pub fn row_in_words(&self) -> String {
        self.row.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// One more failure in a row.
    pub(super) fn failed(&mut self, failure: Failure) {
        self.failures = self.failures.saturating_add(1);
        if self.row.len() == MAX_NAMED {
            self.row.remove(0);
        }
        self.row.push(failure);
    }

    /// An answer ends a row of failures and a trial, but no cooldown: the request may have been under way when that began.
    pub(super) fn answered(&mut self, model: Option<&str>, now: Moment) {
        self.failures = 0;
        self.row.clear();
        if self.whole.is_some_and(|cooldown| !cooldown.is_cooling(now) && !cooldown.open) {
            self.whole = None;
        }
        if let Some(model) = model
            && self.models.get(model).is_some_and(|cooldown| !cooldown.is_cooling(now) && !cooldown.open)
        {
            self.models.remove(model);
        }
    }

    pub(super) fn cooldown(&self, model: Option<&str>) -> Option<&Cooldown> {
        match model {
            Some(model) => self.models.get(model),
            None => self.whole.as_ref(),
        }
    }

    pub(super) fn put(&mut self, model: Option<&str>, cooldown: Cooldown) {
        match model {
            None => self.whole = Some(cooldown),
            Some(model) => {
                self.make_room(model);
                self.models.insert(Box::from(model), cooldown);
            }
        }
    }

    /// Begins a cooldown, or lengthens one where the provider asks for more.
    pub(super) fn cool(
        &mut self,
        model: Option<&str>,
        cause: Cause,
        asked: Duration,
        policy: &Policy,
        now: Moment,
        jitter: u64,
    ) -> Option<(Cooldown, What)> {
        let known = self.cooldown(model);
        let under_way = known.filter(|cooldown| cooldown.is_cooling(now)).copied();
        let length = match (known, under_way) {
            // What failed while it was known to fail says nothing new, but for a provider that asks for more time.
            (_, Some(_)) if cause != Cause::RateLimited => return None,
            (_, Some(cooling)) if cooling.until >= now.after(asked.min(policy.max_cooldown)) => return None,
            (Some(before), None) => asked.max(before.length.saturating_mul(2)),
            _ => asked,
        };
        let length = length.min(policy.max_cooldown.max(MIN_COOLDOWN));
        let longest = now.after(policy.max_cooldown.max(MIN_COOLDOWN));
        let until = now.after(length + spread(length, jitter)).min(longest);
        let since = under_way.map_or(now, |cooling| cooling.since);
        let cooldown = Cooldown { cause, since, until, length, open: true };
        self.put(model, cooldown);
        Some((cooldown, if under_way.is_some() { What::Moves } else { What::Begins }))
    }

    fn make_room(&mut self, model: &str) {
        if self.models.len() >= MAX_MODELS
            && !self.models.contains_key(model)
            && let Some(first) = self.models.iter().min_by_key(|(_, cooldown)| cooldown.until).map(|(name, _)| name.clone())
        {
            self.models.remove(&first);
        }
    }
}

/// Up to a fifth of `length`, so that what failed together does not come back together.
fn spread(length: Duration, jitter: u64) -> Duration {
    length.mul_f64(0.2 * (f64::from(u32::try_from(jitter >> 32).unwrap_or(0)) / f64::from(u32::MAX)))
}
