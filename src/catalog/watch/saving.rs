//! Keeps `catalog.last_good` up to what is in use, beside the loader and never in its way: a disk that is full or does not answer is
//! said and tried again. One writer at a time, so that an older catalog never replaces a newer one.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{error, info};

use crate::catalog::last_good::LastGood;
use crate::catalog::load::SourceFile;
use crate::catalog::store::Store;

/// How long the loader waits for the disk. Then it goes on, and the writing too.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long after a failure it is tried again.
const AGAIN: Duration = Duration::from_secs(10);

pub(super) struct Saving {
    last_good: LastGood,
    source: Arc<str>,
    store: Arc<Store>,
    /// What is to be saved, and when it was accepted.
    wanted: Option<(SystemTime, Vec<SourceFile>)>,
    running: Option<JoinHandle<io::Result<()>>>,
    failed_at: Option<Instant>,
}

impl Saving {
    pub(super) fn new(last_good: LastGood, source: Arc<str>, store: Arc<Store>) -> Self {
        Self { last_good, source, store, wanted: None, running: None, failed_at: None }
    }

    pub(super) fn last_good(&self) -> LastGood {
        self.last_good.clone()
    }

    /// Saves this from now on.
    pub(super) async fn save(&mut self, accepted_at: SystemTime, texts: Vec<SourceFile>) {
        (self.wanted, self.failed_at) = (Some((accepted_at, texts)), None);
        self.go_on().await;
    }

    /// Starts what is to be done and takes what is done.
    pub(super) async fn go_on(&mut self) {
        if let Some(running) = &mut self.running {
            let Ok(done) = timeout(PATIENCE, running).await else { return };
            self.running = None;
            self.done(done.unwrap_or_else(|error| Err(io::Error::other(error))));
        }
        if self.failed_at.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        let Some((accepted_at, texts)) = self.wanted.clone() else { return };
        let (last_good, source) = (self.last_good.clone(), self.source.clone());
        let mut running = tokio::task::spawn_blocking(move || last_good.save(&source, accepted_at, &texts));
        match timeout(PATIENCE, &mut running).await {
            Ok(done) => self.done(done.unwrap_or_else(|error| Err(io::Error::other(error)))),
            Err(_) => {
                self.complain("the disk does not answer", None);
                self.running = Some(running);
            }
        }
    }

    fn done(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => {
                if self.failed_at.take().is_some() || self.store.status().last_good_error.is_some() {
                    info!(path = %self.last_good.path().display(), "the catalog in use is saved to catalog.last_good again");
                }
                self.wanted = None;
                self.store.saved(None);
            }
            Err(error) => {
                // What is there is older than what is in use. Served after a restart it would bring back what was taken away.
                let aside = self.last_good.set_aside();
                self.complain(&error.to_string(), Some(aside));
            }
        }
    }

    fn complain(&mut self, why: &str, aside: Option<io::Result<Option<PathBuf>>>) {
        let is_new = self.failed_at.replace(Instant::now()).is_none();
        if !is_new && self.store.status().last_good_error.is_some() {
            return;
        }
        let path = self.last_good.path();
        let path = path.display();
        let then = match aside {
            Some(Ok(Some(aside))) => format!("the older one there was set aside as {}: a restart finds none", aside.display()),
            Some(Ok(None)) => "a restart finds none".to_owned(),
            Some(Err(error)) => {
                format!("the older one there could not be set aside ({error}): REMOVE IT, or a restart may serve it")
            }
            None => "until it does, a restart may serve an older one".to_owned(),
        };
        error!(%path, error = why, "the catalog in use could not be saved to catalog.last_good: {then}");
        self.store.saved(Some(&format!("{path}: {why}; {then}")));
    }
}
