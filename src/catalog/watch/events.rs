//! File events, reduced to two questions: may the catalog have changed, and is one of its files open for writing? Watches directories,
//! never files: an atomic rename and a ConfigMap's `..data` swap replace what a watch on a file would be attached to. The content is
//! compared afterwards; and no event proves nothing, the poll is the safety net.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tracing::{debug, warn};

use crate::catalog::load::is_catalog_file;

/// The watched directories.
pub(super) struct Events {
    seen: Seen,
    watcher: Option<RecommendedWatcher>,
    watched: Vec<(PathBuf, Identity)>,
    complained: bool,
}

/// What the events said so far. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    wake: Arc<Notify>,
    writing: Arc<Mutex<HashMap<PathBuf, Instant>>>,
}

impl Seen {
    /// Waits for the next event, or one that came since the last wait.
    pub(super) async fn next(&self) {
        self.wake.notified().await;
    }

    /// What may mean a change without being an event.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// The file of the catalog that has been open for writing for longest, and since when. Of a file that was opened before it was
    /// watched, nothing is known.
    pub(super) fn writing(&self) -> Option<(PathBuf, Instant)> {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        writing.iter().min_by_key(|(_, since)| **since).map(|(path, since)| (path.clone(), *since))
    }

    fn on(&self, event: &Event, own_name: &OsStr) {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for path in event.paths.iter().filter(|path| belongs(path, own_name)) {
            match event.kind {
                // A creation alone is no writing: links are created too, and nobody closes them.
                EventKind::Modify(ModifyKind::Data(_)) => {
                    writing.entry(path.clone()).or_insert_with(Instant::now);
                }
                EventKind::Access(AccessKind::Close(AccessMode::Write))
                | EventKind::Modify(ModifyKind::Name(_))
                | EventKind::Remove(_) => {
                    writing.remove(path);
                }
                _ => {}
            }
        }
        drop(writing);
        if !is_reading(&event.kind) {
            self.wake();
        }
    }

    fn start_anew(&self) {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner).clear();
        // What happened between the last reading and now made no event.
        self.wake();
    }
}

fn belongs(path: &Path, own_name: &OsStr) -> bool {
    path.file_name().is_some_and(|name| name == own_name || is_catalog_file(name))
}

/// Which directory a path means now: it may be deleted and made anew under the same name.
type Identity = (u64, u64);

impl Events {
    pub(super) fn new(seen: Seen) -> Self {
        Self { seen, watcher: None, watched: Vec::new(), complained: false }
    }

    /// Watches `directories`, anew if they are not what they were; `own_name` is what the source is called. Blocks.
    pub(super) fn watch(&mut self, directories: BTreeSet<PathBuf>, own_name: &OsStr) {
        let mut wanted: Vec<(PathBuf, Identity)> =
            directories.into_iter().filter_map(|directory| identity(&directory).map(|identity| (directory, identity))).collect();
        wanted.sort();
        wanted.dedup_by_key(|(_, identity)| *identity);
        if wanted == self.watched && (self.watcher.is_some() || wanted.is_empty()) {
            return;
        }
        match self.start(&wanted, own_name.to_owned()) {
            Ok(watcher) => {
                debug!(directories = ?wanted.iter().map(|(path, _)| path).collect::<Vec<_>>(), "watching for changes of the catalog");
                (self.watcher, self.watched, self.complained) = (Some(watcher), wanted, false);
                self.seen.start_anew();
            }
            Err(error) => {
                (self.watcher, self.watched) = (None, Vec::new());
                if !self.complained {
                    self.complained = true;
                    warn!(%error, "no file events: changes of the catalog are found by the poll only (catalog.refresh)");
                }
            }
        }
    }

    fn start(&self, directories: &[(PathBuf, Identity)], own_name: OsString) -> notify::Result<RecommendedWatcher> {
        let seen = self.seen.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| match event {
            Ok(event) => seen.on(&event, &own_name),
            Err(_) => seen.start_anew(),
        })?;
        for (directory, _) in directories {
            watcher.watch(directory, RecursiveMode::NonRecursive)?;
        }
        Ok(watcher)
    }
}

/// Our own reading of the files must not wake us again.
fn is_reading(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if *access != AccessKind::Close(AccessMode::Write))
}

#[cfg(unix)]
fn identity(directory: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(directory).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(directory: &Path) -> Option<Identity> {
    std::fs::metadata(directory).ok().map(|_| (0, 0))
}
