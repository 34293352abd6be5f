//! What is wrong with a document an operator wrote, and where. The same diagnostics serve the catalog and the settings; this
//! module knows neither.

pub mod codes;
pub mod mask;
pub mod plain;
pub mod render;

use std::fmt;
use std::sync::Arc;

/// A position in a source: line and column count from 1, columns in characters. Line 0 means the source as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// A file's path as the operator named it, an environment variable, a flag.
    pub source: Arc<str>,
    pub line: u32,
    pub column: u32,
}

impl Place {
    /// The source as a whole.
    #[must_use]
    pub fn whole(source: &str) -> Self {
        Self { source: Arc::from(source), line: 0, column: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 { f.write_str(&self.source) } else { write!(f, "{}:{}:{}", self.source, self.line, self.column) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The document is not accepted.
    Error,
    /// It is accepted, and may not do what its author thinks.
    Warning,
}

impl Severity {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One finding. Messages hold names of the document, never values that may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Stable, kebab-case.
    pub code: &'static str,
    pub place: Place,
    /// What is wrong and what will happen.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Diagnostic {
    #[must_use]
    pub fn error(code: &'static str, place: &Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, code, place: place.clone(), message: message.into(), hint: None }
    }

    #[must_use]
    pub fn warning(code: &'static str, place: &Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, place, message) }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// True if nothing found is an error.
#[must_use]
pub fn acceptable(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().all(|diagnostic| diagnostic.severity != Severity::Error)
}
