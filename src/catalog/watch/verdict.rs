//! Texts in, a snapshot or the reasons against it out, on a thread that may block: compiling a large catalog takes a while.

use std::sync::Arc;

use crate::catalog::compile::Accepted;
use crate::catalog::load::SourceFile;
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::expectations::accept;
use crate::explain::Rules;

pub(super) enum Verdict {
    Good(Box<Accepted>),
    Bad(Vec<Diagnostic>),
}

pub(super) async fn judge(texts: Vec<SourceFile>, rules: Arc<Rules>) -> Verdict {
    match tokio::task::spawn_blocking(move || accept(&texts, &rules)).await {
        Ok(Ok(accepted)) => Verdict::Good(Box::new(accepted)),
        Ok(Err(diagnostics)) => Verdict::Bad(diagnostics),
        // A panic of the compiler is a fault of ours: the last good catalog stays all the same.
        Err(_) => Verdict::Bad(vec![Diagnostic::error(
            "internal",
            &Place::whole("catalog"),
            "Cascade failed while it read this catalog",
        )]),
    }
}

/// One line: the first error and how many there are.
pub(super) fn summary(diagnostics: &[Diagnostic]) -> String {
    let mut errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let Some(first) = errors.next() else { return "the catalog is refused".to_owned() };
    let line = format!("{}: {} ({})", first.place, first.message, first.code);
    match errors.count() {
        0 => line,
        more => format!("{line}, and {more} more"),
    }
}
