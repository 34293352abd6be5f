//! File events, reduced to one question: may the catalog have changed? Watches directories, never files: an atomic rename and a
//! ConfigMap's `..data` swap replace what a watch on a file would be attached to. Which event it was does not matter, the
//! content is compared afterwards; and no event proves nothing, the poll is the safety net.

use std::path::PathBuf;
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tracing::{debug, warn};

/// The watched directories.
pub(super) struct Events {
    notify: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    watched: Vec<(PathBuf, Identity)>,
    complained: bool,
}

/// Which directory a path means now: it may be deleted and made anew under the same name.
type Identity = (u64, u64);

impl Events {
    pub(super) fn new() -> Self {
        Self { notify: Arc::new(Notify::new()), watcher: None, watched: Vec::new(), complained: false }
    }

    /// Waits for the next event, or one that came since the last wait.
    pub(super) async fn next(&self) {
        self.notify.notified().await;
    }

    /// Watches `directories`, anew if they are not what they were. Blocks for a moment.
    pub(super) fn watch(&mut self, directories: Vec<PathBuf>) {
        let mut wanted: Vec<(PathBuf, Identity)> =
            directories.into_iter().filter_map(|directory| identity(&directory).map(|identity| (directory, identity))).collect();
        wanted.sort();
        wanted.dedup_by_key(|(_, identity)| *identity);
        if wanted == self.watched && (self.watcher.is_some() || wanted.is_empty()) {
            return;
        }
        match self.start(&wanted) {
            Ok(watcher) => {
                debug!(directories = ?wanted.iter().map(|(path, _)| path).collect::<Vec<_>>(), "watching for changes of the catalog");
                (self.watcher, self.watched, self.complained) = (Some(watcher), wanted, false);
                // What happened between the last reading and now made no event.
                self.notify.notify_one();
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

    fn start(&self, directories: &[(PathBuf, Identity)]) -> notify::Result<RecommendedWatcher> {
        let notify = self.notify.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_reading(&event.kind)) {
                return;
            }
            notify.notify_one();
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
fn identity(directory: &std::path::Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(directory).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(directory: &std::path::Path) -> Option<Identity> {
    std::fs::metadata(directory).ok().map(|_| (0, 0))
}
