//! What the one-shot commands work on: the settings and the catalog, read once.

use crate::catalog::compile::Accepted;
use crate::catalog::load::SourceFile;
use crate::catalog::origin::{Origin, Reading};
use crate::cli::arguments::Common;
use crate::diagnostic::{Diagnostic, Place};
use crate::expectations::accept;
use crate::settings::Settings;

/// Settings as the flags, the environment and the file say, and what there is to say of them.
pub(super) fn settings(common: &Common) -> Result<(Settings, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut settings = Settings::default();
    if let Some(source) = &common.catalog {
        settings.catalog.source.clone_from(source);
    }
    Ok((settings, Vec::new()))
}

/// The catalog of the settings, held to its own tests.
pub(super) struct Catalog {
    /// What was read; empty if nothing could be.
    pub(super) files: Vec<SourceFile>,
    pub(super) verdict: Result<Accepted, Vec<Diagnostic>>,
}

/// Reads the catalog once.
pub(super) fn catalog(settings: &Settings) -> Catalog {
    match read(&settings.catalog.source) {
        Ok(files) => Catalog { verdict: accept(&files, &settings.rules()), files },
        Err(found) => Catalog { files: Vec::new(), verdict: Err(found) },
    }
}

fn read(source: &str) -> Result<Vec<SourceFile>, Vec<Diagnostic>> {
    let unreachable = |why: String| {
        let diagnostic = Diagnostic::error("unreachable", &Place::whole(source), format!("the catalog cannot be reached: {why}"));
        vec![diagnostic.hint("name a file, a directory or an http(s) URL with --catalog")]
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
