//! What a decision learns of its request's session: the directory is asked as soon as the key is known, the wait is bounded, and
//! the id itself goes no further than a keyed hash. It decides nothing.

use std::time::Duration;

use tokio::time::timeout;

use crate::catalog::snapshot::Snapshot;
use crate::directory::{Lookup, Sessions};
use crate::extract::Facts;
use crate::extract::reader::Reader;
use crate::resolve::affinity;
use crate::secret::Keys;
use crate::session::{Answer, Fault, State};
use crate::settings::Settings;

#[derive(Debug)]
pub struct Affinity {
    sessions: Option<Sessions>,
    keys: Keys,
    /// Something uses the session.
    wanted: bool,
    deadline: Duration,
}

impl Affinity {
    #[must_use]
    pub fn new(settings: &Settings, sessions: Option<Sessions>, keys: Keys) -> Self {
        Self { sessions, keys, wanted: settings.rules().session, deadline: settings.limits.decision_deadline }
    }

    /// True if there is somebody to ask.
    #[must_use]
    pub fn has_directory(&self) -> bool {
        self.sessions.is_some()
    }

    /// True if what has been read makes the key, though the body may still be on its way.
    #[must_use]
    pub fn can_ask(&self, reader: &Reader) -> bool {
        self.sessions.as_ref().is_some_and(|sessions| {
            let (with_model, with_tenant) = affinity::made_of(&sessions.template);
            reader.knows_the_session(with_model, with_tenant)
        })
    }

    /// Starts to ask for the session of these facts; `None`: there is nothing to ask, or nobody.
    #[must_use]
    pub fn ask(&self, snapshot: &Snapshot, facts: &Facts) -> Option<Lookup> {
        let sessions = self.sessions.as_ref()?;
        Some(sessions.look_up(&affinity::key(snapshot, &sessions.template, facts)?))
    }

    /// Waits for what was asked, no longer than a decision may.
    pub async fn state(&self, facts: &Facts, asked: Option<Lookup>) -> State {
        let answer = match asked {
            None => Answer::NotAsked,
            Some(Lookup::Ready(answer)) => answer,
            Some(pending) => timeout(self.deadline, pending.answer()).await.unwrap_or(Answer::Unavailable(Fault::Deadline)),
        };
        let session = facts.session.as_deref().filter(|_| self.wanted);
        State { answer, seed: session.map(|session| self.keys.seed(session)) }
    }

    /// The directory's state for people; `None`: there is no directory.
    #[must_use]
    pub fn status(&self) -> Option<serde_json::Value> {
        self.sessions.as_ref().map(Sessions::status)
    }
}
