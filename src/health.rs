//! Which clusters are known to fail, and until when: cooldowns as data, with time as data. It decides when a cluster (or one model
//! on it) cools and for how long. It knows no Envoy, no clock and no request, and it never ends a cooldown but by time or by hand.

pub mod view;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

pub use view::{Seen, View};

/// Milliseconds since 1970, as the caller's clock has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Moment(pub u64);

impl Moment {
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// The shortest cooldown: a provider that says "retry after 0" has refused a request all the same.
pub const MIN_COOLDOWN: Duration = Duration::from_secs(1);

/// Models of one cluster that are kept track of. Beyond that the one whose cooldown ended first is forgotten.
const MAX_MODELS: usize = 1_000;

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
    /// A failure that counts, or no connection.
    Failed,
    /// There was nobody to send the attempt to.
    NoHost,
}

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
    length: Duration,
    /// False once its end has been noted.
    open: bool,
}

impl Cooldown {
    #[must_use]
    pub fn is_cooling(&self, now: Moment) -> bool {
        now < self.until
    }
}

/// What is known of one cluster.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// Failures in a row.
    pub failures: u32,
    /// When it failed last, and how.
    pub last_failure: Option<(Moment, Cause)>,
    pub whole: Option<Cooldown>,
    pub models: HashMap<Box<str>, Cooldown>,
}

/// A cooldown that starts or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub cluster: Box<str>,
    /// `None`: the whole cluster.
    pub model: Option<Box<str>>,
    pub cooldown: Cooldown,
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
    /// business. Says what starts to cool.
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
            Event::Failed => (Cause::Failures, None, None),
            Event::NoHost | Event::Answered => (Cause::NoHost, None, None),
        };
        known.last_failure = Some((now, cause));
        if event == Event::Failed {
            known.failures = known.failures.saturating_add(1);
            // One that has cooled before is on trial: a single failure is enough.
            let on_trial = known.whole.is_some();
            if !on_trial && known.failures < policy.consecutive_failures {
                return None;
            }
        }
        let length = asked.unwrap_or(policy.cooldown).max(MIN_COOLDOWN);
        let cooldown = known.cool(model, cause, length, &policy, now, jitter)?;
        Some(Change { cluster: Box::from(cluster), model: model.map(Box::from), cooldown })
    }

    /// Somebody takes the whole cluster out for a while, exactly that long.
    pub fn cool(&mut self, cluster: &str, time: Duration, now: Moment) -> Change {
        let known = self.clusters.entry(Box::from(cluster)).or_default();
        let cooldown =
            Cooldown { cause: Cause::Operator, since: now, until: now.after(time), length: Duration::ZERO, open: true };
        known.whole = Some(cooldown);
        Change { cluster: Box::from(cluster), model: None, cooldown }
    }

    /// Somebody brings the cluster and all its models back, as if nothing had happened. Says what was cooling.
    pub fn clear(&mut self, cluster: &str, now: Moment) -> Vec<Change> {
        let Some(known) = self.clusters.remove(cluster) else { return Vec::new() };
        let whole = known.whole.map(|cooldown| (None, cooldown));
        let models = known.models.into_iter().map(|(model, cooldown)| (Some(model), cooldown));
        let all = whole.into_iter().chain(models).filter(|(_, cooldown)| cooldown.is_cooling(now));
        all.map(|(model, cooldown)| Change { cluster: Box::from(cluster), model, cooldown }).collect()
    }

    /// The cooldowns that have ended since this was last asked.
    pub fn ended(&mut self, now: Moment) -> Vec<Change> {
        let mut ended = Vec::new();
        for (name, known) in &mut self.clusters {
            let whole = known.whole.iter_mut().map(|cooldown| (None, cooldown));
            let models = known.models.iter_mut().map(|(model, cooldown)| (Some(model.clone()), cooldown));
            for (model, cooldown) in whole.chain(models).filter(|(_, cooldown)| cooldown.open && !cooldown.is_cooling(now)) {
                cooldown.open = false;
                ended.push(Change { cluster: name.clone(), model, cooldown: *cooldown });
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

impl Cluster {
    /// An answer ends a row of failures and a trial, but no cooldown: the request may have been under way when that began.
    fn answered(&mut self, model: Option<&str>, now: Moment) {
        self.failures = 0;
        if self.whole.is_some_and(|cooldown| !cooldown.is_cooling(now) && !cooldown.open) {
            self.whole = None;
        }
        if let Some(model) = model
            && self.models.get(model).is_some_and(|cooldown| !cooldown.is_cooling(now) && !cooldown.open)
        {
            self.models.remove(model);
        }
    }

    /// Starts a cooldown, or lengthens one where the provider asks for more. `None` if nothing new starts.
    fn cool(
        &mut self,
        model: Option<&str>,
        cause: Cause,
        asked: Duration,
        policy: &Policy,
        now: Moment,
        jitter: u64,
    ) -> Option<Cooldown> {
        let known = match model {
            Some(model) => self.models.get(model),
            None => self.whole.as_ref(),
        };
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
        match model {
            None => self.whole = Some(cooldown),
            Some(model) => {
                self.make_room(model);
                self.models.insert(Box::from(model), cooldown);
            }
        }
        under_way.is_none().then_some(cooldown)
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
