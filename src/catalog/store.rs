//! Where the accepted catalog lives: one pointer, swapped whole, that requests, health and the admin address all read. The
//! snapshot and what is said of it stand behind the same pointer, so that they cannot disagree. The store does not know where a
//! catalog comes from or whether it is good: `watch` decides that.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::snapshot::{Revision, Snapshot};

/// The catalog in use. Cheap to read from any thread; written by one loader.
#[derive(Debug)]
pub struct Store {
    state: ArcSwap<State>,
    loaded: watch::Sender<bool>,
}

#[derive(Debug, Clone)]
struct State {
    snapshot: Option<Arc<Snapshot>>,
    status: Status,
}

/// What an operator needs to know of the catalog in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Where it should come from, without credentials.
    pub source: Arc<str>,
    pub revision: Option<Revision>,
    pub label: Option<Arc<str>>,
    /// When the revision in use was accepted; for one from `catalog.last_good`, when it was accepted first.
    pub loaded_at: Option<SystemTime>,
    /// Why the last load failed; `None` if it did not.
    pub last_error: Option<Arc<str>>,
    /// Failed loads since the last good one.
    pub failures_since: u64,
    /// A catalog is in use, and the source cannot be reached or holds none that is good.
    pub stale: bool,
    /// A change that was seen and is not in use yet.
    pub pending: Option<Pending>,
    /// Why the catalog in use is not in `catalog.last_good`, if it should be.
    pub last_good_error: Option<Arc<str>>,
}

/// A change of the source that has to stay as it is for a while before it comes into use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub why: Arc<str>,
    pub since: SystemTime,
    /// When it comes into use if nothing changes until then.
    pub until: SystemTime,
    /// What it takes away or opens, for people.
    pub loosens: Vec<String>,
}

impl Store {
    /// An empty store: no request can be judged yet.
    #[must_use]
    pub fn new(source: &str) -> Self {
        let status = Status {
            source: Arc::from(source),
            revision: None,
            label: None,
            loaded_at: None,
            last_error: None,
            failures_since: 0,
            stale: false,
            pending: None,
            last_good_error: None,
        };
        Self { state: ArcSwap::from_pointee(State { snapshot: None, status }), loaded: watch::channel(false).0 }
    }

    /// The snapshot to judge by. A stream takes it once and keeps it to its end.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Snapshot>> {
        self.state.load().snapshot.clone()
    }

    /// True once there is a snapshot; it stays so.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.state.load().snapshot.is_some()
    }

    #[must_use]
    pub fn status(&self) -> Status {
        self.state.load().status.clone()
    }

    /// The snapshot with the status that belongs to it.
    #[must_use]
    pub fn view(&self) -> (Option<Arc<Snapshot>>, Status) {
        let state = self.state.load();
        (state.snapshot.clone(), state.status.clone())
    }

    /// Turns true with the first snapshot and stays so.
    #[must_use]
    pub fn loaded(&self) -> watch::Receiver<bool> {
        self.loaded.subscribe()
    }

    /// Puts a catalog that the source holds now into use.
    pub fn accept(&self, snapshot: &Arc<Snapshot>, at: SystemTime) {
        self.put(
            |status| Status {
                revision: Some(snapshot.revision.clone()),
                label: snapshot.label.clone(),
                loaded_at: Some(at),
                last_error: None,
                failures_since: 0,
                stale: false,
                pending: None,
                ..status
            },
            Some(snapshot.clone()),
        );
        self.loaded.send_replace(true);
    }

    /// Puts the last good catalog into use because the source has none to give; [`Store::fail`] has said why.
    pub fn accept_last_good(&self, snapshot: &Arc<Snapshot>, accepted_at: SystemTime) {
        self.put(
            |status| Status {
                revision: Some(snapshot.revision.clone()),
                label: snapshot.label.clone(),
                loaded_at: Some(accepted_at),
                stale: true,
                ..status
            },
            Some(snapshot.clone()),
        );
        self.loaded.send_replace(true);
    }

    /// Records a load that failed. What is in use stays in use.
    pub fn fail(&self, error: &str) {
        let snapshot = self.current();
        let stale = snapshot.is_some();
        self.put(
            |status| Status {
                last_error: Some(Arc::from(error)),
                failures_since: status.failures_since.saturating_add(1),
                stale,
                ..status
            },
            snapshot,
        );
    }

    /// The source holds again what is in use.
    pub fn recover(&self) {
        self.put(|status| Status { last_error: None, failures_since: 0, stale: false, pending: None, ..status }, self.current());
    }

    /// Says what is waited for, or that nothing is.
    pub fn pending(&self, pending: Option<Pending>) {
        if self.state.load().status.pending != pending {
            self.put(|status| Status { pending, ..status }, self.current());
        }
    }

    /// Says whether what is in use was saved.
    pub fn saved(&self, error: Option<&str>) {
        self.put(|status| Status { last_good_error: error.map(Arc::from), ..status }, self.current());
    }

    fn put(&self, change: impl FnOnce(Status) -> Status, snapshot: Option<Arc<Snapshot>>) {
        let status = change(self.status());
        self.state.store(Arc::new(State { snapshot, status }));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::catalog::compile::compile;
    use crate::catalog::load::SourceFile;

    fn snapshot(label: &str) -> Arc<Snapshot> {
        let text = format!("version: 1\nlabel: {label}\npriority_groups: {{g: {{}}}}\nmodels: {{m: {{chain: [g]}}}}\n");
        Arc::new(compile(&[SourceFile::new("a.yaml", &text)]).unwrap().snapshot)
    }

    #[test]
    fn an_empty_store_that_fails_has_nothing_that_could_be_stale() {
        let store = Store::new("a.yaml");
        store.fail("away");
        let status = store.status();
        assert!(!store.is_loaded() && !status.stale && status.failures_since == 1);
        assert_eq!(status.last_error.as_deref(), Some("away"));
    }

    #[test]
    fn a_failure_keeps_what_is_in_use_and_the_next_good_one_forgets_it() {
        let store = Store::new("a.yaml");
        let loaded = store.loaded();
        store.accept(&snapshot("one"), UNIX_EPOCH);
        assert!(*loaded.borrow());
        store.fail("bad");
        store.fail("worse");
        let (kept, status) = store.view();
        assert_eq!(kept.unwrap().label.as_deref(), Some("one"));
        assert_eq!((status.label.as_deref(), status.failures_since, status.stale), (Some("one"), 2, true));
        store.accept(&snapshot("two"), UNIX_EPOCH + Duration::from_secs(1));
        let status = store.status();
        assert_eq!((status.label.as_deref(), status.failures_since, status.stale), (Some("two"), 0, false));
        assert_eq!(status.last_error, None);
    }

    #[test]
    fn the_last_good_catalog_is_stale_from_the_start() {
        let store = Store::new("a.yaml");
        store.fail("away");
        store.accept_last_good(&snapshot("old"), UNIX_EPOCH);
        let status = store.status();
        assert!(store.is_loaded() && status.stale && status.failures_since == 1 && status.last_error.is_some());
    }

    #[test]
    fn a_pinned_snapshot_outlives_the_swap() {
        let store = Store::new("a.yaml");
        store.accept(&snapshot("one"), UNIX_EPOCH);
        let pinned = store.current().unwrap();
        store.accept(&snapshot("two"), UNIX_EPOCH);
        assert_eq!(pinned.label.as_deref(), Some("one"));
    }

    #[test]
    fn after_a_thousand_reloads_only_what_is_in_use_or_pinned_is_alive() {
        let store = Store::new("a.yaml");
        let mut seen = Vec::new();
        let mut pinned = None;
        for round in 0..1_000 {
            let snapshot = snapshot(&format!("v{round}"));
            seen.push(Arc::downgrade(&snapshot));
            store.accept(&snapshot, UNIX_EPOCH);
            drop(snapshot);
            if round == 500 {
                pinned = store.current();
            }
        }
        let alive = || seen.iter().enumerate().filter(|(_, weak)| weak.strong_count() > 0).map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(alive(), [500, 999], "a stream pins the one that it began with");
        drop(pinned);
        assert_eq!(alive(), [999]);
    }
}
