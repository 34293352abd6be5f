//! The health of clusters, shared: whoever learns of an attempt writes it here, and decisions read a small view of what cools. The
//! rules of cooling are `health`'s; this adds a clock, a lock, a log line at each start and end, and nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::info;

use super::clock::{Clock, GLANCE};
use super::share::{Entry, Outlet};
use crate::health::{Cause, Change, Cluster, Event, Health, Moment, Policy, Seen, View, What};

/// The shared state.
#[derive(Debug)]
pub struct Monitor {
    clock: Clock,
    health: Mutex<Health>,
    view: ArcSwap<View>,
    changed: Notify,
    /// Envoy's log has said something, whatever it was.
    has_heard: AtomicBool,
    /// Where other replicas hear of it.
    outlet: Option<Outlet>,
}

/// The view at an instant, for one decision.
pub struct Look {
    view: Guard<Arc<View>>,
    now: Moment,
}

impl Look {
    #[must_use]
    pub fn seen(&self) -> Seen<'_> {
        Seen::new(&self.view, self.now)
    }
}

impl Monitor {
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            clock: Clock::new(Instant::now(), SystemTime::now()),
            health: Mutex::new(Health::new(policy)),
            view: ArcSwap::from_pointee(View::default()),
            changed: Notify::new(),
            has_heard: AtomicBool::new(false),
            outlet: None,
        }
    }

    /// Notes that an entry of Envoy's log has come.
    pub fn hear(&self) {
        self.has_heard.store(true, Ordering::Relaxed);
    }

    /// True if an entry of Envoy's log has ever come.
    #[must_use]
    pub fn has_heard(&self) -> bool {
        self.has_heard.load(Ordering::Relaxed)
    }

    /// Tells other replicas from now on.
    #[must_use]
    pub fn telling(self, outlet: Option<Outlet>) -> Self {
        Self { outlet, ..self }
    }

    #[must_use]
    pub fn outlet(&self) -> Option<&Outlet> {
        self.outlet.as_ref()
    }

    #[must_use]
    pub fn now(&self) -> Moment {
        self.at(Instant::now())
    }

    #[must_use]
    pub fn at(&self, instant: Instant) -> Moment {
        self.clock.at(instant)
    }

    /// What a decision at this instant sees. While nothing cools it costs a load.
    #[must_use]
    pub fn look(&self, instant: Instant) -> Look {
        let view = self.view.load();
        let now = if view.is_empty() { Moment::default() } else { self.at(instant) };
        Look { view, now }
    }

    /// False if the event cannot change anything, so that nothing about it needs to be found out.
    #[must_use]
    pub fn is_of_interest(&self, cluster: &str, event: Event) -> bool {
        event != Event::Answered || self.lock().cluster(cluster).is_some()
    }

    /// Takes in what became of an attempt.
    pub fn note(&self, cluster: &str, model: Option<&str>, event: Event) {
        // Without randomness cooldowns end together: a pity, not a fault.
        let jitter = if event == Event::Answered { 0 } else { getrandom::u64().unwrap_or_default() };
        let now = self.now();
        let mut health = self.lock();
        let ended = health.ended(now);
        let cools = health.note(cluster, model, event, now, jitter);
        if cools.is_some() || !ended.is_empty() {
            self.publish(&health, now);
        }
        // Under the lock, so that others hear of it in the order in which it happened.
        self.tell_others(|| cools.clone().map(Entry::Cools));
        let row = cools.as_ref().and_then(|_| health.cluster(cluster)).map(Cluster::row_in_words).unwrap_or_default();
        drop(health);
        ended.iter().for_each(|change| tell_end(change, "its time is over"));
        cools.iter().for_each(|change| tell_start(change, &row, "here"));
    }

    /// Takes in what other replicas tell, in their order, and says how much of it was news.
    pub fn learn(&self, entries: &[Entry]) -> usize {
        let now = self.now();
        let mut health = self.lock();
        let mut changes = health.ended(now);
        let over = changes.len();
        for entry in entries {
            match entry {
                Entry::Cools(Change { cluster, model, cooldown, .. }) => {
                    changes.extend(health.learn(cluster, model.as_deref(), *cooldown, now));
                }
                Entry::Cleared { cluster, .. } => changes.extend(health.clear(cluster, now)),
            }
        }
        if !changes.is_empty() {
            self.publish(&health, now);
        }
        drop(health);
        for change in &changes {
            match change.what {
                What::Begins | What::Moves => tell_start(change, "", "another replica"),
                What::Ends if change.cooldown.is_cooling(now) => tell_end(change, "somebody said so to another replica"),
                What::Ends => tell_end(change, "its time is over"),
            }
        }
        changes.len() - over
    }

    fn tell_others(&self, entry: impl FnOnce() -> Option<Entry>) {
        if let Some(outlet) = &self.outlet
            && let Some(entry) = entry()
        {
            outlet.tell(entry);
        }
    }

    /// Takes a cluster out by hand.
    pub fn cool(&self, cluster: &str, time: Duration) {
        let now = self.now();
        let mut health = self.lock();
        let change = health.cool(cluster, time, now);
        self.publish(&health, now);
        self.tell_others(|| Some(Entry::Cools(change.clone())));
        drop(health);
        tell_start(&change, "", "here");
    }

    /// Brings a cluster and its models back by hand.
    pub fn clear(&self, cluster: &str) {
        let now = self.now();
        let mut health = self.lock();
        let ended = health.clear(cluster, now);
        self.publish(&health, now);
        self.tell_others(|| Some(Entry::Cleared { cluster: Box::from(cluster), at: now }));
        drop(health);
        ended.iter().for_each(|change| tell_end(change, "somebody said so"));
    }

    /// What is known of a cluster.
    #[must_use]
    pub fn cluster(&self, name: &str) -> Option<Cluster> {
        self.lock().cluster(name).cloned()
    }

    /// True if the cluster or one of its models cools.
    #[must_use]
    pub fn is_cooling(&self, cluster: &str) -> bool {
        self.view.load().touches(cluster, self.now())
    }

    /// Looks at the time of day again: it was wrong at the start, or the machine has slept. What cools goes on to cool for as long as it
    /// was to; what others are told, and what tokens say, is right from now on.
    pub fn look_at_the_clock(&self, instant: Instant, wall: SystemTime) {
        let Some(by) = self.clock.drift(instant, wall) else { return };
        let mut health = self.lock();
        health.clock_moved(by);
        self.clock.moved(by);
        let now = self.at(instant);
        self.publish(&health, now);
        drop(health);
        info!(event = "clock", moved_ms = by, "the time of day has moved: cooldowns keep their length");
    }

    /// Notes the ends of cooldowns when they come, for as long as it is polled.
    pub async fn follow(self: Arc<Self>) {
        loop {
            self.look_at_the_clock(Instant::now(), SystemTime::now());
            let next = self.lock().next_end();
            let changed = self.changed.notified();
            match next {
                Some(end) => {
                    let wait = Duration::from_millis(end.0.saturating_sub(self.now().0));
                    tokio::select! {
                        () = sleep(wait) => self.sweep(),
                        () = sleep(GLANCE) => {}
                        () = changed => {}
                    }
                }
                None => tokio::select! {
                    () = sleep(GLANCE) => {}
                    () = changed => {}
                },
            }
        }
    }

    fn sweep(&self) {
        let now = self.now();
        let mut health = self.lock();
        let ended = health.ended(now);
        self.publish(&health, now);
        drop(health);
        ended.iter().for_each(|change| tell_end(change, "its time is over"));
    }

    fn publish(&self, health: &Health, now: Moment) {
        self.view.store(Arc::new(health.view(now)));
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `row`: which failures, where failures are the cause. `seen`: here, or by another replica.
fn tell_start(change: &Change, row: &str, seen: &str) {
    let Change { cluster, model, cooldown, what } = change;
    if *what == What::Moves {
        return;
    }
    let seconds = cooldown.until.0.saturating_sub(cooldown.since.0) / 1000;
    let (model, cause) = (model.as_deref().unwrap_or("all"), cooldown.cause.as_str());
    let failures = Some(row).filter(|row| cooldown.cause == Cause::Failures && !row.is_empty());
    let cluster = &**cluster;
    info!(event = "cooling", cluster, model, cause, failures, seconds, seen, "a cluster cools: requests go elsewhere first");
}

fn tell_end(change: &Change, why: &str) {
    let Change { cluster, model, cooldown, .. } = change;
    let (model, cause) = (model.as_deref().unwrap_or("all"), cooldown.cause.as_str());
    info!(event = "cooled", cluster = &**cluster, model, cause, why, "a cluster has cooled: the next request tries it");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cools_is_seen_and_what_is_cleared_is_not() {
        let monitor = Monitor::new(Policy::default());
        let cools = |cluster: &str| monitor.look(Instant::now()).seen().is_cooling(cluster, None);
        assert!(monitor.look(Instant::now()).seen().is_well());
        monitor.note("a", None, Event::NoHost);
        monitor.note("b", Some("m"), Event::RateLimited { retry_after: None });
        assert!(cools("a") && !cools("b") && monitor.is_cooling("b"));
        monitor.clear("a");
        monitor.clear("b");
        assert!(monitor.look(Instant::now()).seen().is_well());
    }

    #[tokio::test]
    async fn a_clock_that_was_wrong_is_right_again_and_cooldowns_keep_their_length() {
        let monitor = Monitor::new(Policy::default());
        let (instant, hour) = (Instant::now(), Duration::from_secs(3600));
        monitor.cool("a", Duration::from_secs(60));
        let before = monitor.cluster("a").unwrap().whole.unwrap();
        for wall in [SystemTime::now() + hour, SystemTime::now() - hour, SystemTime::now()] {
            monitor.look_at_the_clock(instant, wall);
            let says = wall.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
            assert!(u128::from(monitor.at(instant).0).abs_diff(says) <= 1_000);
            let now = monitor.cluster("a").unwrap().whole.unwrap();
            assert_eq!(now.until.0 - now.since.0, before.until.0 - before.since.0);
            let left = now.until.0 - monitor.at(instant).0;
            assert!((59_000..=61_000).contains(&left), "{left}");
            assert!(monitor.look(instant).seen().is_cooling("a", None));
            assert!(!monitor.look(instant + Duration::from_secs(62)).seen().is_cooling("a", None));
        }
    }

    #[tokio::test]
    async fn the_end_is_noted_when_it_comes() {
        let monitor = Arc::new(Monitor::new(Policy::default()));
        let follow = tokio::spawn(Arc::clone(&monitor).follow());
        monitor.cool("a", Duration::ZERO);
        while !monitor.view.load().is_empty() || monitor.lock().next_end().is_some() {
            tokio::task::yield_now().await;
        }
        follow.abort();
    }
}
