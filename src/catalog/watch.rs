//! When the catalog is read, and what becomes of each reading: accepted whole, or refused while the last good one stays. One
//! loader writes the store. It knows files and URLs only as [`Origin`]s, and what makes a catalog good only as `load`'s verdict.

mod events;
mod follow;
mod verdict;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use self::events::Events;
pub use self::follow::Following;
use self::verdict::{Verdict, judge, summary};
use super::compile::Accepted;
use super::last_good::LastGood;
use super::load::SourceFile;
use super::origin::{BadSource, ContentHash, HOW_TO_NAME, Origin, Reading, Texts};
use super::store::Store;
use crate::diagnostic::{Diagnostic, Severity};
use crate::explain::Rules;
use crate::settings::CatalogSettings;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::Reload;

/// How long after a file event the files are read: events come in bursts. Doubled for each event that changed nothing, since the
/// directory may be a busy one, up to the longest.
const DEBOUNCE: Duration = Duration::from_millis(30);
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(1);
/// Two readings this far apart must agree before a change counts.
const SETTLE: Duration = Duration::from_millis(60);
/// A source that never comes to rest is judged all the same after this many readings.
const MAX_READINGS: u32 = 30;
/// The shortest poll: `refresh: 0s` must not spin.
const MIN_REFRESH: Duration = Duration::from_millis(50);

/// How many diagnostics of one catalog are logged; `cascade check` shows all.
const MAX_LOGGED: usize = 20;

/// Reads the source again and again and keeps the store up to date.
pub struct Loader {
    origin: Origin,
    refresh: Duration,
    last_good: Option<LastGood>,
    /// How the catalog's own tests are read and judged.
    rules: Arc<Rules>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    last: Last,
}

/// What the latest reading was.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Last {
    None,
    Accepted(ContentHash),
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

/// A catalog that was not accepted.
#[derive(Debug, Default)]
struct Refused {
    diagnostics: Vec<Diagnostic>,
    files: Vec<SourceFile>,
}

impl Loader {
    /// A loader and the store that it fills.
    ///
    /// # Errors
    /// `catalog.source` is neither a path nor a usable URL.
    pub fn new(settings: &CatalogSettings, rules: Rules, metrics: Arc<Metrics>) -> Result<(Self, Arc<Store>), BadSource> {
        let origin = Origin::parse(&settings.source)?;
        let store = Arc::new(Store::new(&origin.shown()));
        let loader = Self {
            origin,
            refresh: settings.refresh.max(MIN_REFRESH),
            last_good: settings.last_good.as_deref().map(LastGood::new),
            rules: Arc::new(rules),
            store: store.clone(),
            metrics,
            last: Last::None,
        };
        Ok((loader, store))
    }

    /// Loads for the first time. A catalog that is invalid is read twice before it is refused: it may have been half written.
    async fn first(&mut self) -> First {
        let Refused { diagnostics, files } = self.refresh().await.unwrap_or_default();
        if matches!(self.last, Last::Accepted(_)) {
            First::Loaded
        } else if self.use_last_good().await {
            log_each(&diagnostics);
            First::Loaded
        } else if diagnostics.is_empty() {
            First::Away
        } else {
            First::Invalid { diagnostics, files }
        }
    }

    /// Follows the source for ever.
    async fn run(mut self) {
        let mut events = Events::new();
        let mut debounce = DEBOUNCE;
        loop {
            events.watch(self.origin.directories());
            let is_event = timeout(self.refresh, events.next()).await.is_ok();
            if is_event {
                sleep(debounce).await;
            }
            let before = self.last.clone();
            self.refresh().await;
            let is_noise = is_event && self.last == before;
            debounce = if is_noise { LONGEST_DEBOUNCE.min(debounce * 2) } else { DEBOUNCE };
        }
    }

    /// Reads the source once and acts if it changed. Gives what is refused now, if anything.
    async fn refresh(&mut self) -> Option<Refused> {
        let mut reading = self.origin.read().await;
        // A file that is being replaced, or links that are being swapped, may be away for a moment.
        if matches!((&reading, &self.last), (Reading::Away(_), Last::Accepted(_) | Last::Refused(_))) {
            sleep(SETTLE).await;
            reading = self.origin.read().await;
        }
        match reading {
            Reading::Found(_, hash) if self.last == Last::Accepted(hash) || self.last == Last::Refused(hash) => None,
            Reading::NotModified => None,
            Reading::Found(texts, hash) => self.consider(texts, hash).await,
            Reading::Away(why) => {
                self.away(why);
                None
            }
        }
    }

    async fn consider(&mut self, texts: Texts, hash: ContentHash) -> Option<Refused> {
        // At the start nothing is in use, and a good catalog need not wait until its source has come to rest.
        if self.last == Last::None
            && let Verdict::Good(good) = judge(texts.clone(), self.rules.clone()).await
        {
            self.accept(*good, texts, hash).await;
            return None;
        }
        let (texts, hash) = match self.at_rest(texts, hash).await {
            Ok(read) => read,
            Err(why) => {
                self.away(why);
                return None;
            }
        };
        match judge(texts.clone(), self.rules.clone()).await {
            Verdict::Good(good) => {
                self.accept(*good, texts, hash).await;
                None
            }
            Verdict::Bad(diagnostics) => {
                self.refuse(&diagnostics, hash);
                Some(Refused { diagnostics, files: texts.unwrap_or_default() })
            }
        }
    }

    /// Reads until two readings agree: a file that is being written is not judged half-way.
    async fn at_rest(&mut self, texts: Texts, hash: ContentHash) -> Result<(Texts, ContentHash), String> {
        let (mut texts, mut hash) = (texts, hash);
        for _ in 0..MAX_READINGS {
            sleep(SETTLE).await;
            match self.origin.read().await {
                Reading::Found(_, again) if again == hash => break,
                Reading::Found(newer, again) => (texts, hash) = (newer, again),
                Reading::NotModified => break,
                Reading::Away(why) => return Err(why),
            }
        }
        Ok((texts, hash))
    }

    async fn accept(&mut self, good: Accepted, texts: Texts, hash: ContentHash) {
        let now = SystemTime::now();
        let snapshot = Arc::new(good.snapshot);
        log_each(&good.warnings);
        let label = snapshot.label.as_deref().unwrap_or_default();
        info!(revision = %snapshot.revision, label, models = snapshot.models.len(), tenants = snapshot.tenants.len(), "catalog in use");
        self.metrics.catalog_in_use(&snapshot, true);
        self.metrics.reloaded(Reload::Success, now);
        self.store.accept(&snapshot, now);
        self.last = Last::Accepted(hash);
        let (Some(last_good), Ok(texts)) = (self.last_good.clone(), texts) else { return };
        let (source, path) = (self.origin.shown(), last_good.path());
        let saved = tokio::task::spawn_blocking(move || last_good.save(&source, now, &texts)).await;
        if let Some(error) =
            saved.map_or_else(|error| Some(error.to_string()), |saved| saved.err().map(|error| error.to_string()))
        {
            warn!(path = %path.display(), error, "the catalog could not be saved to catalog.last_good: a restart may find none");
        }
    }

    fn refuse(&mut self, diagnostics: &[Diagnostic], hash: ContentHash) {
        let why = summary(diagnostics);
        if self.last == Last::None {
            // The caller of `first` decides what is said.
            self.count_failure(&why);
        } else {
            log_each(diagnostics);
            self.failed(&why, "the catalog is refused", None);
        }
        self.last = Last::Refused(hash);
    }

    /// Logged when it begins and when its cause changes, not at every poll.
    fn away(&mut self, why: String) {
        self.origin.forget();
        let known = self.last == Last::Away(why.clone());
        if known {
            self.count_failure(&why);
        } else {
            self.failed(&why, "the catalog cannot be reached", Some(HOW_TO_NAME));
        }
        self.last = Last::Away(why);
    }

    /// `hint`: for who has never had a catalog here.
    fn failed(&self, why: &str, what: &'static str, hint: Option<&str>) {
        self.count_failure(why);
        match self.store.status().revision {
            Some(revision) => error!(error = why, %revision, "{what}: the last good one stays in use"),
            None => error!(error = why, hint, "{what}, and there is none in use: not ready"),
        }
    }

    fn count_failure(&self, why: &str) {
        self.store.fail(why);
        self.metrics.reloaded(Reload::Failure, SystemTime::now());
        self.metrics.catalog_stale(self.store.status().stale);
    }

    /// True if the saved catalog is in use now.
    async fn use_last_good(&self) -> bool {
        let Some(last_good) = self.last_good.clone() else { return false };
        let path = last_good.path();
        let path = path.display();
        let saved = match tokio::task::spawn_blocking(move || last_good.load()).await {
            Ok(Ok(Some(saved))) => saved,
            Ok(Ok(None)) => return false,
            Ok(Err(error)) => {
                error!(%path, %error, "the last good catalog cannot be read");
                return false;
            }
            Err(error) => {
                error!(%path, %error, "the last good catalog cannot be read");
                return false;
            }
        };
        match judge(Ok(saved.texts), self.rules.clone()).await {
            Verdict::Good(good) => {
                let snapshot = Arc::new(good.snapshot);
                let (revision, source) = (&snapshot.revision, &saved.source);
                warn!(%path, %revision, saved_from = source, "the last good catalog is in use until the source gives one (stale)");
                self.metrics.catalog_in_use(&snapshot, false);
                self.store.accept_last_good(&snapshot, saved.accepted_at);
                true
            }
            Verdict::Bad(diagnostics) => {
                error!(%path, error = summary(&diagnostics), "the last good catalog is not good any more");
                false
            }
        }
    }
}

fn log_each(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics.iter().take(MAX_LOGGED) {
        let Diagnostic { severity, code, place, message, hint } = diagnostic;
        let hint = hint.as_deref().unwrap_or_default();
        match severity {
            Severity::Error => error!(code, %place, hint, "catalog: {message}"),
            Severity::Warning => warn!(code, %place, hint, "catalog: {message}"),
        }
    }
}
