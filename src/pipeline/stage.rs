//! The stages of a decision, and who watches them. Tests let each of them fail, so that what a fault of ours comes to is shown and
//! not hoped for; while nobody watches a stage costs one look at an empty place.

use std::fmt;
use std::sync::Arc;

/// A part of a decision, in the order in which a request comes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    Head,
    Body,
    /// The session is asked for while the body is on its way.
    Ask,
    End,
    Cut,
    /// Whether what has been read decides.
    Ready,
    /// What has been read is put together.
    Facts,
    Session,
    Resolve,
    Token,
    Encode,
    Record,
}

impl Stage {
    pub const ALL: [Self; 12] = [
        Self::Head,
        Self::Body,
        Self::Ask,
        Self::End,
        Self::Cut,
        Self::Ready,
        Self::Facts,
        Self::Session,
        Self::Resolve,
        Self::Token,
        Self::Encode,
        Self::Record,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Body => "body",
            Self::Ask => "ask",
            Self::End => "end",
            Self::Cut => "cut",
            Self::Ready => "ready",
            Self::Facts => "facts",
            Self::Session => "session",
            Self::Resolve => "resolve",
            Self::Token => "token",
            Self::Encode => "encode",
            Self::Record => "record",
        }
    }
}

/// Is called at the beginning of every stage of every decision.
pub type Watcher = Arc<dyn Fn(Stage) + Send + Sync>;

#[derive(Clone, Default)]
pub(super) struct Stages(Option<Watcher>);

impl Stages {
    pub(super) fn watched_by(watcher: Watcher) -> Self {
        Self(Some(watcher))
    }

    pub(super) fn enter(&self, stage: Stage) {
        if let Some(watcher) = &self.0 {
            watcher(stage);
        }
    }
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stages").field(&self.0.is_some()).finish()
    }
}
