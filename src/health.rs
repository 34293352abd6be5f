//! Which clusters are known to fail, and until when: cooldowns as data, with time as data. It decides when a cluster (or one model
//! on it) cools and for how long. It knows no Envoy, no clock and no request, and it never ends a cooldown but by time or by hand.

mod cluster;
pub mod view;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

pub use cluster::{Cause, Cluster, Cooldown, LastFailure};
pub use view::{Scope, Seen, View};

/// Milliseconds since 1970, as the caller's clock has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Moment(pub u64);

impl Moment {
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The same moment after the clock was set by so many milliseconds.
    #[must_use]
    pub fn moved(self, by: i64) -> Self {
        Self(self.0.saturating_add_signed(by))
    }
}

/// The shortest cooldown: a provider that says "retry after 0" has refused a request all the same.
pub const MIN_COOLDOWN: Duration = Duration::from_secs(1);

/// The longest cooldown that a person may ask for. Who means longer drains the cluster in the catalog.
pub const MAX_BY_HAND: Duration = Duration::from_secs(86_400);

/// What the settings say of cooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub consecutive_failures: u32,
    pub cooldown: Duration,
    pub max_cooldown: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self { consecutive_failures: 3, cooldown: Duration::from_secs(10), max_cooldown: Duration::from_secs(300) }
    }
}

/// What one attempt says of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The provider answered, and not with a failure.
    Answered,
    /// The provider's limit, with its own word on when to come back.
    RateLimited { retry_after: Option<Duration> },
    /// A failure that counts.
    Failed(Failure),
    /// There was nobody to send the attempt to.
    NoHost,
}

/// How an attempt failed, for the people who read why a cluster cools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The provider answered with this status.
    Status(u16),
    /// No connection, or one that broke before the answer began.
    Connection,
    /// No answer in time.
    Timeout,
    /// The answer began and did not come to its end.
    BrokenStream,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Connection => f.write_str("connection_failure"),
            Self::Timeout => f.write_str("timeout"),
            Self::BrokenStream => f.write_str("broken_stream"),
        }
    }
}

/// A cooldown that begins, moves its end or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub cluster: Box<str>,
    /// `None`: the whole cluster.
    pub model: Option<Box<str>>,
    pub cooldown: Cooldown,
    pub what: What,
}

/// What happened to a cooldown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Begins,
    /// Its end moves.
    Moves,
    Ends,
}

/// The state of every cluster that has ever failed.
#[derive(Debug, Clone, Default)]
pub struct Health {
    policy: Policy,
    clusters: HashMap<Box<str>, Cluster>,
}

impl Health {
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, clusters: HashMap::new() }
    }

    /// Takes in what an attempt on `cluster` for `model` says. `jitter` is any number: where it comes from is the caller's
    /// business. Says what begins to cool, or cools longer.
    pub fn note(&mut self, cluster: &str, model: Option<&str>, event: Event, now: Moment, jitter: u64) -> Option<Change> {
        if event == Event::Answered {
            if let Some(known) = self.clusters.get_mut(cluster) {
                known.answered(model, now);
            }
            return None;
        }
        let policy = self.policy;
        let known = self.clusters.entry(Box::from(cluster)).or_default();
        let (cause, model, asked) = match event {
            Event::RateLimited { retry_after } => (Cause::RateLimited, model, retry_after),
            Event::Failed(_) => (Cause::Failures, None, None),
            Event::NoHost | Event::Answered => (Cause::NoHost, None, None),
        };
        let failure = if let Event::Failed(failure) = event { Some(failure) } else { None };
        known.last_failure = Some(LastFailure { at: now, cause, failure });
        if let Some(failure) = failure {
            known.failed(failure);
            // One that has cooled before is on trial: a single failure is enough.
            let on_trial = known.whole.is_some();
            if !on_trial && known.failures < policy.consecutive_failures {
                return None;
            }
        }
        let length = asked.unwrap_or(policy.cooldown).max(MIN_COOLDOWN);
        let (cooldown, what) = known.cool(model, cause, length, &policy, now, jitter)?;
        Some(Change { cluster: Box::from(cluster), model: model.map(Box::from), cooldown, what })
    }

    /// Takes over a cooldown that another replica tells of. Its end is absolute, and what has doubled there does not double again
    /// here. Says what that changes.
    pub fn learn(&mut self, cluster: &str, model: Option<&str>, told: Cooldown, now: Moment) -> Option<Change> {
        let longest = if told.cause == Cause::Operator { MAX_BY_HAND } else { self.policy.max_cooldown.max(MIN_COOLDOWN) };
        let (since, until) = (told.since.min(now), told.until.min(now.after(longest)));
        let before = self.clusters.get(cluster).and_then(|known| known.cooldown(model)).copied();
        let length = told.length.min(longest).max(before.map_or(Duration::ZERO, |before| before.length));
        let under_way = before.filter(|before| before.is_cooling(now));
        // A person's word replaces what was there, as it does where it is said: it may be over by now, and what was there with it.
        let replaces = told.cause == Cause::Operator && under_way.is_some();
        if until <= now && !replaces {
            return None;
        }
        let cooldown = match under_way {
            Some(cooling) if !replaces && cooling.until >= until => Cooldown { length, ..cooling },
            Some(cooling) => Cooldown { since: cooling.since, ..Cooldown::told(told.cause, since, until, length) },
            None => Cooldown::told(told.cause, since, until, length),
        };
        self.clusters.entry(Box::from(cluster)).or_default().put(model, cooldown);
        let what = if under_way.is_some() { What::Moves } else { What::Begins };
        let changes = under_way.is_none_or(|cooling| cooling.until != cooldown.until);
        changes.then(|| Change { cluster: Box::from(cluster), model: model.map(Box::from), cooldown, what })
    }

    /// Somebody takes the whole cluster out for a while, exactly that long.
    pub fn cool(&mut self, cluster: &str, time: Duration, now: Moment) -> Change {
        let known = self.clusters.entry(Box::from(cluster)).or_default();
        let cooldown =
            Cooldown { cause: Cause::Operator, since: now, until: now.after(time), length: Duration::ZERO, open: true };
        known.whole = Some(cooldown);
        Change { cluster: Box::from(cluster), model: None, cooldown, what: What::Begins }
    }

    /// Somebody brings the cluster and all its models back, as if nothing had happened. Says what was cooling.
    pub fn clear(&mut self, cluster: &str, now: Moment) -> Vec<Change> {
        let Some(known) = self.clusters.remove(cluster) else { return Vec::new() };
        let whole = known.whole.map(|cooldown| (None, cooldown));
        let models = known.models.into_iter().map(|(model, cooldown)| (Some(model), cooldown));
        let all = whole.into_iter().chain(models).filter(|(_, cooldown)| cooldown.is_cooling(now));
        all.map(|(model, cooldown)| Change { cluster: Box::from(cluster), model, cooldown, what: What::Ends }).collect()
    }

    /// The caller's clock was set: what was to last for a while from now still does.
    pub fn clock_moved(&mut self, by: i64) {
        for known in self.clusters.values_mut() {
            if let Some(last) = &mut known.last_failure {
                last.at = last.at.moved(by);
            }
            for cooldown in known.whole.iter_mut().chain(known.models.values_mut()) {
                (cooldown.since, cooldown.until) = (cooldown.since.moved(by), cooldown.until.moved(by));
            }
        }
    }

    /// The cooldowns that have ended since this was last asked.
    pub fn ended(&mut self, now: Moment) -> Vec<Change> {
        let mut ended = Vec::new();
        for (name, known) in &mut self.clusters {
            let whole = known.whole.iter_mut().map(|cooldown| (None, cooldown));
            let models = known.models.iter_mut().map(|(model, cooldown)| (Some(model.clone()), cooldown));
            for (model, cooldown) in whole.chain(models).filter(|(_, cooldown)| cooldown.open && !cooldown.is_cooling(now)) {
                cooldown.open = false;
                ended.push(Change { cluster: name.clone(), model, cooldown: *cooldown, what: What::Ends });
            }
        }
        ended
    }

    /// When the next cooldown ends whose end has not been noted.
    #[must_use]
    pub fn next_end(&self) -> Option<Moment> {
        let all = self.clusters.values().flat_map(|known| known.whole.iter().chain(known.models.values()));
        all.filter(|cooldown| cooldown.open).map(|cooldown| cooldown.until).min()
    }

    #[must_use]
    pub fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.clusters.get(name)
    }

    /// What decisions look at: the cooldowns under way.
    #[must_use]
    pub fn view(&self, now: Moment) -> View {
        let mut view = View::default();
        for (name, known) in &self.clusters {
            if let Some(whole) = known.whole.filter(|cooldown| cooldown.is_cooling(now)) {
                view.add(name, None, whole.until);
            }
            for (model, cooldown) in known.models.iter().filter(|(_, cooldown)| cooldown.is_cooling(now)) {
                view.add(name, Some(model), cooldown.until);
            }
        }
        view
    }
}
