//! What the one-shot commands work on: the settings and the catalog, read once.

use crate::catalog::compile::Accepted;
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
///
/// # Errors
/// The source cannot be reached, or the catalog is not good.
pub(super) fn catalog(settings: &Settings) -> Result<Accepted, Vec<Diagnostic>> {
    let source = &settings.catalog.source;
    let unreachable = |why: String| {
        let diagnostic = Diagnostic::error("unreachable", &Place::whole(source), format!("the catalog cannot be reached: {why}"));
        vec![diagnostic.hint("name a file, a directory or an http(s) URL with --catalog")]
    };
    let mut origin = Origin::parse(source)
        .map_err(|error| vec![Diagnostic::error("bad-source", &Place::whole("catalog.source"), error.to_string())])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let reading = runtime.map_err(|error| unreachable(error.to_string()))?.block_on(origin.read());
    match reading {
        Reading::Found(texts, _) => accept(&texts?, &settings.rules()),
        Reading::Away(why) => Err(unreachable(why)),
        Reading::NotModified => Err(unreachable("the server says that nothing changed".to_owned())),
    }
}
