//! What `explain` hears while a request is judged. The data path passes `()`, for which no text is ever made.

use crate::diagnostic::Place;

/// A rule that was looked at, where it stands, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// The rule's place in the catalog, in the catalog's words (`tenants.acme.chains.*`).
    pub rule: String,
    pub place: Option<Place>,
    pub result: String,
}

impl Considered {
    #[must_use]
    pub fn new(rule: impl Into<String>, place: Option<&Place>, result: impl Into<String>) -> Self {
        Self { rule: rule.into(), place: place.cloned(), result: result.into() }
    }
}

pub trait Trace {
    fn consider(&mut self, considered: impl FnOnce() -> Considered);
}

impl Trace for () {
    fn consider(&mut self, _: impl FnOnce() -> Considered) {}
}

impl Trace for Vec<Considered> {
    fn consider(&mut self, considered: impl FnOnce() -> Considered) {
        self.push(considered());
    }
}
