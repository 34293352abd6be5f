//! What is done and said once it is known what a reading means: a catalog comes into use, is refused, is waited for, cannot be reached.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::time::timeout;
use tracing::{error, info, warn};

use super::verdict::{Verdict, judge, summary};
use super::{Candidate, InUse, Loader, Trouble};
use crate::catalog::last_good::Saved;
use crate::catalog::load::{Files, SourceFile};
use crate::catalog::loosening::FileEnd;
use crate::catalog::origin::{ContentHash, HOW_TO_NAME};
use crate::catalog::store::Pending;
use crate::diagnostic::{Diagnostic, Severity};
use crate::telemetry::metrics::Reload;

/// How many diagnostics of one catalog are logged; `cascade check` shows all.
const MAX_LOGGED: usize = 20;
/// How long `catalog.last_good` may take to be read at the start.
const LONGEST_READ: Duration = Duration::from_secs(10);
/// How often it is said again that there is no catalog at all.
const REMINDER: Duration = Duration::from_secs(60);

/// What was noticed of the files beside what is in them. Each is said once.
#[derive(Debug, Default)]
pub(super) struct Noticed {
    warnings: Vec<Diagnostic>,
    resolved: Option<PathBuf>,
    looks: u64,
    said_away: Option<Instant>,
}

impl Noticed {
    pub(super) fn notice(&mut self, files: &Files) {
        self.looks += 1;
        if files.warnings != self.warnings {
            let new: Vec<Diagnostic> =
                files.warnings.iter().filter(|warning| !self.warnings.contains(warning)).cloned().collect();
            log_each(&new);
            self.warnings.clone_from(&files.warnings);
        }
        if let (Some(before), Some(now)) = (&self.resolved, &files.resolved)
            && before != now
        {
            info!(before = %before.display(), now = %now.display(), "the links of catalog.source lead elsewhere now");
        }
        self.resolved.clone_from(&files.resolved);
    }

    pub(super) fn is_first_look(&self) -> bool {
        self.looks <= 1
    }
}

impl Loader {
    pub(super) async fn take(&mut self, candidate: Candidate) {
        let Candidate { hash, accepted, files, ends, loosening, .. } = candidate;
        let now = SystemTime::now();
        let snapshot = Arc::new(accepted.snapshot);
        log_each(&accepted.warnings);
        let label = snapshot.label.as_deref().unwrap_or_default();
        let loosened = (self.in_use.is_some() && !loosening.is_nothing()).then(|| loosening.words().join("; "));
        let (models, tenants) = (snapshot.models.len(), snapshot.tenants.len());
        info!(revision = %snapshot.revision, label, models, tenants, loosened, "catalog in use");
        self.metrics.catalog_in_use(&snapshot, true);
        self.metrics.reloaded(Reload::Success, now);
        self.store.accept(&snapshot, now);
        self.put_in_use(InUse { hash, snapshot, ends });
        self.trouble = Trouble::None;
        self.settling.forget();
        if let Some(saving) = &mut self.saving {
            saving.save(now, files.texts).await;
        }
    }

    fn put_in_use(&mut self, used: InUse) {
        self.retired.extend(self.in_use.replace(used).map(|old| old.snapshot));
        self.retire();
    }

    /// Frees what no stream holds any more.
    pub(super) fn retire(&mut self) {
        self.retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }

    /// The source holds what is in use.
    pub(super) fn recover(&mut self) {
        self.settle_down();
        if self.trouble != Trouble::None || self.store.status().stale {
            info!("the source holds the catalog that is in use");
            self.trouble = Trouble::None;
            self.store.recover();
            self.metrics.reloaded(Reload::Success, SystemTime::now());
            self.metrics.catalog_stale(false);
        }
    }

    /// Nothing is waited for.
    pub(super) fn settle_down(&mut self) {
        self.settling.forget();
        self.candidate = None;
        self.store.pending(None);
    }

    pub(super) fn announce_change(&self, written: Option<PathBuf>, left: Duration) {
        let why = match written {
            Some(path) => format!("{} is open for writing", path.display()),
            None => format!("the source has changed: it has to stay as it is for {:?}", self.times.settle),
        };
        self.pend(why, left, Vec::new());
    }

    pub(super) fn announce_candidate(&mut self, left: Duration) {
        let time = self.times.loosening;
        let Some(candidate) = &mut self.candidate else { return };
        if self.in_use.is_none() {
            self.pend("the text ends in the middle of a line: more of it may come".to_owned(), left, Vec::new());
            return;
        }
        let words = candidate.loosening.words();
        if !std::mem::replace(&mut candidate.is_announced, true) {
            let loosens = words.join("; ");
            info!(loosens, "the catalog has changed: what takes something away or opens something has to stay so for {time:?}");
        }
        let why = format!("the change takes something away or opens something: it has to stay so for {time:?}");
        self.pend(why, left, words);
    }

    fn pend(&self, why: String, left: Duration, loosens: Vec<String>) {
        let now = SystemTime::now();
        let waited = self.settling.since().map_or(Duration::ZERO, |since| self.now().saturating_sub(since));
        let since = now.checked_sub(waited).unwrap_or(now);
        self.store.pending(Some(Pending { why: Arc::from(why), since, until: now + left, loosens }));
    }

    pub(super) fn refuse(&mut self, diagnostics: &[Diagnostic], hash: ContentHash) {
        self.settle_down();
        let why = summary(diagnostics);
        if self.in_use.is_none() && self.trouble == Trouble::None {
            // The caller of `first` decides what is said.
            self.count_failure(&why);
        } else {
            log_each(diagnostics);
            self.failed(&why, "the catalog is refused", None);
        }
        self.trouble = Trouble::Refused(hash);
    }

    /// Logged when it begins and when its cause changes, not at every poll; without any catalog, now and then again.
    pub(super) fn away(&mut self, why: String) {
        self.source.forget();
        self.settle_down();
        let known = self.trouble == Trouble::Away(why.clone());
        let is_due = self.in_use.is_none() && self.noticed.said_away.is_none_or(|said| said.elapsed() >= REMINDER);
        if known && !is_due {
            self.count_failure(&why);
        } else {
            self.noticed.said_away = Some(Instant::now());
            self.failed(&why, "the catalog cannot be reached", Some(HOW_TO_NAME));
        }
        self.trouble = Trouble::Away(why);
    }

    /// `hint`: for who has never had a catalog here.
    fn failed(&self, why: &str, what: &'static str, hint: Option<&str>) {
        self.count_failure(why);
        match self.store.status().revision {
            Some(revision) => error!(error = why, %revision, "{what}: the last good one stays in use"),
            None => {
                let source = &*self.shown;
                let absolute = std::path::absolute(source).unwrap_or_default();
                let waiting_for = if self.source.is_whole() { source.to_owned() } else { absolute.display().to_string() };
                error!(error = why, waiting_for, hint, "{what}, and there is none in use: not ready");
            }
        }
    }

    fn count_failure(&self, why: &str) {
        self.store.fail(why);
        self.metrics.reloaded(Reload::Failure, SystemTime::now());
        self.metrics.catalog_stale(self.store.status().stale);
    }

    /// What the last good catalog holds has settled before it was saved.
    pub(super) async fn trust_if_saved(&mut self, hash: ContentHash) {
        if self.in_use.is_none() && self.saved().await.is_some_and(|saved| hash_of(&saved.texts) == hash) {
            self.settling.see(hash, self.now(), self.times.loosening);
        }
    }

    /// Lets the last good catalog stand in for a source that was changed just now, and that is then compared with it.
    pub(super) async fn stand_in(&mut self, hash: ContentHash) {
        if let Some(saved) = self.saved().await
            && hash_of(&saved.texts) != hash
            && self.use_saved(saved).await
        {
            info!("the source was changed just before the start: the last good catalog is in use while the change is looked at");
        }
    }

    /// True if the saved catalog is in use now.
    pub(super) async fn use_last_good(&mut self) -> bool {
        match self.saved().await {
            Some(saved) => self.use_saved(saved).await,
            None => false,
        }
    }

    async fn saved(&self) -> Option<Saved> {
        let last_good = self.saving.as_ref()?.last_good();
        let path = last_good.path();
        let read = timeout(LONGEST_READ, tokio::task::spawn_blocking(move || last_good.load())).await;
        let error = match read {
            Ok(Ok(Ok(saved))) => return saved,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the disk does not answer".to_owned(),
        };
        error!(path = %path.display(), error, "the last good catalog cannot be read");
        None
    }

    async fn use_saved(&mut self, saved: Saved) -> bool {
        let Saved { source, accepted_at, texts } = saved;
        match judge(texts.clone(), self.rules.clone()).await {
            Verdict::Good(good) => {
                let snapshot = Arc::new(good.snapshot);
                let revision = &snapshot.revision;
                warn!(%revision, saved_from = source, "the last good catalog is in use until the source gives one (stale)");
                self.metrics.catalog_in_use(&snapshot, false);
                self.store.accept_last_good(&snapshot, accepted_at);
                let ends = texts.iter().map(FileEnd::of).collect();
                self.put_in_use(InUse { hash: hash_of(&texts), snapshot, ends });
                true
            }
            Verdict::Bad(diagnostics) => {
                error!(error = summary(&diagnostics), "the last good catalog is not good any more");
                false
            }
        }
    }
}

fn hash_of(texts: &[SourceFile]) -> ContentHash {
    ContentHash::of(&Ok(Files { texts: texts.to_vec(), ..Files::default() }))
}

pub(super) fn log_each(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics.iter().take(MAX_LOGGED) {
        let Diagnostic { severity, code, place, message, hint } = diagnostic;
        let hint = hint.as_deref().unwrap_or_default();
        match severity {
            Severity::Error => error!(code, %place, hint, "catalog: {message}"),
            Severity::Warning => warn!(code, %place, hint, "catalog: {message}"),
        }
    }
}
