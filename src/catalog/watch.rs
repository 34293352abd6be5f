//! When the catalog is read, and when a reading is judged and comes into use: once it has been the same for a while, and for longer if
//! it takes something away or opens something. One loader writes the store. It knows files and URLs only as a `Source`, what makes
//! a catalog good only as `load`'s verdict, and how long is long enough only from `settle`.

mod acting;
mod events;
mod follow;
mod links;
mod reading;
mod saving;
mod settle;
mod source;
mod verdict;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::time::{sleep, timeout};

use self::events::Seen;
pub use self::follow::Following;
use self::saving::Saving;
use self::settle::{Settling, Times};
use self::source::Source;
use super::compile::Accepted;
use super::last_good::LastGood;
use super::load::{Files, SourceFile};
use super::loosening::{FileEnd, Loosening};
use super::origin::{BadSource, ContentHash, Origin, Reading};
use super::snapshot::Snapshot;
use super::store::Store;
use crate::diagnostic::Diagnostic;
use crate::explain::Rules;
use crate::settings::CatalogSettings;
use crate::telemetry::Metrics;

/// How long after a file event the files are read: events come in bursts. Doubled for each event that changed nothing, since the
/// directory may be a busy one, up to the longest.
const DEBOUNCE: Duration = Duration::from_millis(30);
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(1);
/// The shortest poll: `refresh: 0s` must not spin.
const MIN_REFRESH: Duration = Duration::from_millis(50);
/// What the loader's clock shows when it starts: a day, so that a file can be known to be as it is for longer than that.
const CLOCK_START: Duration = Duration::from_secs(86_400);
/// After so many times `settle` a source that does not settle at the start is served from `last_good` for the time being.
const LONG_START: u32 = 4;
/// The shortest wait for something to settle: clocks must have moved on.
const MIN_WAIT: Duration = Duration::from_millis(5);

/// Reads the source again and again and keeps the store up to date.
pub struct Loader {
    source: Source,
    /// How the source is called in logs and answers.
    shown: Arc<str>,
    refresh: Duration,
    times: Times,
    seen: Seen,
    /// When the loader was made: its clock showed [`CLOCK_START`] then.
    started: Instant,
    settling: Settling,
    saving: Option<Saving>,
    /// How the catalog's own tests are read and judged.
    rules: Arc<Rules>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    in_use: Option<InUse>,
    trouble: Trouble,
    /// Since when the source has been away, while that is not yet believed.
    away_since: Option<Duration>,
    candidate: Option<Candidate>,
    /// What the source held last, for a server that says that it has not changed.
    last_read: Option<ContentHash>,
    /// What was warned of files that are not read, and where the source's links lead.
    noticed: acting::Noticed,
    /// Catalogs that were in use. They are freed here once no stream holds them: a large one takes a while.
    retired: Vec<Arc<Snapshot>>,
}

struct InUse {
    hash: ContentHash,
    snapshot: Arc<Snapshot>,
    ends: Vec<FileEnd>,
}

/// A catalog that is good and waits to come into use.
struct Candidate {
    hash: ContentHash,
    accepted: Box<Accepted>,
    files: Files,
    ends: Vec<FileEnd>,
    loosening: Loosening,
    is_announced: bool,
}

/// What is wrong with the source now.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Trouble {
    None,
    Refused(ContentHash),
    /// Could not be reached, and why.
    Away(String),
}

/// How the first load ended.
#[derive(Debug)]
pub enum First {
    /// A catalog is in use, if only the last good one.
    Loaded,
    /// The source cannot be reached yet; the loader goes on trying.
    Away,
    /// The source was reached and holds no valid catalog, and no last good one stands in.
    Invalid { diagnostics: Vec<Diagnostic>, files: Vec<SourceFile> },
}

/// What a look at the source came to.
#[derive(Debug)]
enum Step {
    Done,
    /// Look again after this long at the latest.
    Wait(Duration),
    Refused {
        diagnostics: Vec<Diagnostic>,
        files: Vec<SourceFile>,
    },
}

impl Loader {
    /// A loader and the store that it fills.
    ///
    /// # Errors
    /// `catalog.source` is neither a path nor a usable URL, or the system gives no thread.
    pub fn new(settings: &CatalogSettings, rules: Rules, metrics: Arc<Metrics>) -> Result<(Self, Arc<Store>), BadSource> {
        let origin = Origin::parse(&settings.source)?;
        let (shown, seen) = (origin.shown(), Seen::default());
        let store = Arc::new(Store::new(&shown));
        let source = Source::new(origin, &seen).map_err(|error| BadSource(error.to_string()))?;
        // One answer of a server is whole, so that there is nothing to come to rest.
        let settle = if source.is_whole() { Duration::ZERO } else { settings.settle };
        let times = Times { settle, loosening: settings.settle_loosening };
        let saving = settings.last_good.as_deref().map(|path| Saving::new(LastGood::new(path), shown.clone(), store.clone()));
        let loader = Self {
            source,
            shown,
            refresh: settings.refresh.max(MIN_REFRESH),
            times,
            seen,
            started: Instant::now(),
            settling: Settling::new(times),
            saving,
            rules: Arc::new(rules),
            store: store.clone(),
            metrics,
            in_use: None,
            trouble: Trouble::None,
            away_since: None,
            candidate: None,
            last_read: None,
            noticed: acting::Noticed::default(),
            retired: Vec::new(),
        };
        Ok((loader, store))
    }

    /// Loads for the first time. A source that was changed just now may be half written: the last good catalog stands in for it,
    /// and without one it is waited for.
    async fn first(&mut self) -> First {
        loop {
            let reading = self.source.look().await;
            if let Reading::Found(Ok(files), hash) = &reading
                && age(files) < self.times.loosening
            {
                self.trust_if_saved(*hash).await;
            }
            let step = self.on(reading).await;
            let is_long = self.started.elapsed() > self.times.settle * LONG_START;
            let (diagnostics, files) = match step {
                Step::Wait(left) if self.in_use.is_none() && !(is_long && self.use_last_good().await) => {
                    let _ = timeout(left.max(MIN_WAIT), self.seen.next()).await;
                    continue;
                }
                Step::Refused { diagnostics, files } => (diagnostics, files),
                Step::Done | Step::Wait(_) => (Vec::new(), Vec::new()),
            };
            return if self.in_use.is_some() {
                First::Loaded
            } else if self.use_last_good().await {
                acting::log_each(&diagnostics);
                First::Loaded
            } else if diagnostics.is_empty() {
                First::Away
            } else {
                First::Invalid { diagnostics, files }
            };
        }
    }

    /// Follows the source for ever.
    async fn run(mut self) {
        let (mut debounce, mut wait) = (DEBOUNCE, self.refresh);
        loop {
            let is_event = timeout(wait.clamp(MIN_WAIT, self.refresh), self.seen.next()).await.is_ok();
            if is_event {
                sleep(debounce).await;
            }
            let before = (self.in_use.as_ref().map(|used| used.hash), self.trouble.clone());
            let reading = self.source.look().await;
            let is_waiting = match self.on(reading).await {
                Step::Wait(left) => {
                    wait = left;
                    true
                }
                Step::Done | Step::Refused { .. } => {
                    wait = self.refresh;
                    false
                }
            };
            let is_noise =
                is_event && !is_waiting && before == (self.in_use.as_ref().map(|used| used.hash), self.trouble.clone());
            debounce = if is_noise { LONGEST_DEBOUNCE.min(debounce * 2) } else { DEBOUNCE };
            self.retire();
            if let Some(saving) = &mut self.saving {
                saving.go_on().await;
            }
        }
    }

    fn now(&self) -> Duration {
        CLOCK_START + self.started.elapsed()
    }
}

/// For how long the files have been as they are, by the clock of their file system. A time to come says nothing.
fn age(files: &Files) -> Duration {
    files.changed.and_then(|changed| SystemTime::now().duration_since(changed).ok()).unwrap_or_default()
}
