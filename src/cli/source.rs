//! What the one-shot commands work on: the settings and the catalog, read once.

use crate::catalog::compile::Accepted;
use crate::catalog::load::{Files, SourceFile};
use crate::catalog::origin::{HOW_TO_NAME, Origin, Reading};
use crate::cli::arguments::Common;
use crate::diagnostic::{Diagnostic, Place};
use crate::expectations::{accept, weigh};
use crate::explain::Rules;
use crate::settings::Settings;
use crate::settings::read::{self, Flags};

/// Settings that cannot be used, and the file that they point into.
pub(super) struct Refused {
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) files: Vec<SourceFile>,
}

/// Settings as the flags, the environment and the file say, and the warnings.
///
/// # Errors
/// All that is wrong with them, or that the file cannot be read.
pub(super) fn settings(common: &Common, listen: Option<&String>, admin: Option<&String>) -> Result<Read, Refused> {
    let files = match &common.config {
        Some(name) => vec![config(name)?],
        None => Vec::new(),
    };
    let catalog = common.catalog.clone().or_else(|| common.source.clone());
    let flags = Flags { catalog, listen: listen.cloned(), admin: admin.cloned() };
    // A variable that is no UTF-8 is none of ours.
    let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let file = files.first().map(|file| (&*file.name, &*file.text));
    match read::read(file, environment, flags) {
        Ok((settings, warnings)) => Ok(Read { settings, warnings, files }),
        Err(diagnostics) => Err(Refused { diagnostics, files }),
    }
}

/// Settings that can be used.
pub(super) struct Read {
    pub(super) settings: Settings,
    pub(super) warnings: Vec<Diagnostic>,
    pub(super) files: Vec<SourceFile>,
}

fn config(name: &str) -> Result<SourceFile, Refused> {
    match std::fs::read_to_string(name) {
        Ok(text) => Ok(SourceFile::new(name, &text)),
        Err(error) => {
            let diagnostic =
                Diagnostic::error("unreadable", &Place::whole(name), format!("the settings cannot be read: {error}"));
            Err(Refused { diagnostics: vec![diagnostic.hint("name a settings file with --config")], files: Vec::new() })
        }
    }
}

/// The catalog of the settings, held to its own tests.
pub(super) struct Catalog {
    /// What was read; empty if nothing could be.
    pub(super) files: Vec<SourceFile>,
    pub(super) verdict: Result<Accepted, Vec<Diagnostic>>,
}

/// Reads the catalog once.
pub(super) fn catalog(settings: &Settings) -> Catalog {
    read_and(settings, accept)
}

/// The same, and one whose own tests or invariants fail is there to be looked at: its `warnings` hold errors.
pub(super) fn catalog_to_explain(settings: &Settings) -> Catalog {
    read_and(settings, weigh)
}

type Judge = fn(&[SourceFile], &Rules) -> Result<Accepted, Vec<Diagnostic>>;

fn read_and(settings: &Settings, judge: Judge) -> Catalog {
    match read_source(&settings.catalog.source) {
        Ok(Files { texts: files, warnings, .. }) => {
            let mut verdict = judge(&files, &settings.rules());
            match &mut verdict {
                Ok(accepted) => accepted.warnings.extend(warnings),
                Err(found) => found.extend(warnings),
            }
            Catalog { files, verdict }
        }
        Err(found) => Catalog { files: Vec::new(), verdict: Err(found) },
    }
}

fn read_source(source: &str) -> Result<Files, Vec<Diagnostic>> {
    // A URL is shown without what may be secret in it.
    let shown = Origin::parse(source).map_or_else(|_| "catalog.source".to_owned(), |origin| origin.shown().to_string());
    let unreachable = |why: String| {
        let diagnostic = Diagnostic::error("unreachable", &Place::whole(&shown), format!("the catalog cannot be reached: {why}"));
        vec![diagnostic.hint(HOW_TO_NAME)]
    };
    let mut origin = Origin::parse(source)
        .map_err(|error| vec![Diagnostic::error("bad-source", &Place::whole("catalog.source"), error.to_string())])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(|error| unreachable(error.to_string()))?.block_on(origin.read()) {
        Reading::Found(texts, _) => texts,
        Reading::Away(why) => Err(unreachable(why)),
        Reading::NotModified => Err(unreachable("the server says that nothing changed".to_owned())),
    }
}
