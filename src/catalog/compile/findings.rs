//! Collects what is wrong while names are resolved, and guesses what was meant, against a budget: ten thousand faults must not cost
//! ten million comparisons.

use crate::diagnostic::{Diagnostic, Place};
use crate::document::suggest::nearest;

/// How many candidates are looked at in all; one comparison takes about a microsecond.
const COMPARISONS: usize = 100_000;

pub(super) struct Findings<'f> {
    found: &'f mut Vec<Diagnostic>,
    comparisons: usize,
}

impl<'f> Findings<'f> {
    pub(super) fn new(found: &'f mut Vec<Diagnostic>) -> Self {
        Self { found, comparisons: 0 }
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    pub(super) fn error(&mut self, code: &'static str, place: &Place, message: impl Into<String>, hint: impl Into<String>) {
        self.push(Diagnostic::error(code, place, message).hint(hint));
    }

    pub(super) fn warning(&mut self, code: &'static str, place: &Place, message: impl Into<String>, hint: impl Into<String>) {
        self.push(Diagnostic::warning(code, place, message).hint(hint));
    }

    /// "did you mean `x`?" or what else there is to say.
    pub(super) fn meant<'c>(&mut self, word: &str, candidates: impl IntoIterator<Item = &'c str>, otherwise: &str) -> String {
        let left = COMPARISONS.saturating_sub(self.comparisons);
        let mut looked_at = 0;
        let near = nearest(word, candidates.into_iter().take(left).inspect(|_| looked_at += 1));
        self.comparisons += looked_at;
        near.map_or_else(|| otherwise.to_owned(), |near| format!("did you mean `{near}`?"))
    }
}
