//! What a decision learns of its request's session: the directory is asked as soon as the key is known, the wait is bounded, and
//! the id itself goes no further than a keyed hash. It decides nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::catalog::snapshot::Snapshot;
use crate::directory::{Lookup, Sessions};
use crate::extract::reader::Reader;
use crate::extract::{Facts, Found};
use crate::feedback::token;
use crate::resolve::matching::{find_model, find_tenant};
use crate::resolve::{Resolution, affinity};
use crate::secret::Keys;
use crate::session::{Answer, Fault, State};
use crate::settings::Settings;

/// A question to the directory, and the session's key.
#[derive(Debug)]
pub struct Asked {
    key: String,
    lookup: Lookup,
}

#[derive(Debug)]
pub struct Affinity {
    sessions: Option<Arc<Sessions>>,
    keys: Keys,
    /// Something is chosen by the session's own number.
    sticks: bool,
    deadline: Duration,
}

impl Affinity {
    #[must_use]
    pub fn new(settings: &Settings, sessions: Option<Arc<Sessions>>, keys: Keys) -> Self {
        let sticks = settings.session.sticky || !settings.publish.sticky_header.is_empty();
        Self { sessions, keys, sticks, deadline: settings.limits.decision_deadline }
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
    pub fn ask(&self, snapshot: &Snapshot, facts: &Facts) -> Option<Asked> {
        let sessions = self.sessions.as_ref()?;
        let key = affinity::key(snapshot, &sessions.template, facts)?;
        // Whoever it is asks in its own turn, whether or not the key names it.
        let tenant = find_tenant(snapshot, &facts.tenant, &mut ()).ok().flatten().map(|id| snapshot.tenant(id).name.as_str());
        Some(Asked { lookup: sessions.look_up(tenant, &key), key })
    }

    /// Waits for what was asked, no longer than a decision may.
    pub async fn state(&self, facts: &Facts, asked: Option<Asked>) -> State {
        let session = facts.session.as_deref().filter(|_| self.sticks);
        let seed = session.map(|session| self.keys.seed(session));
        let (Some(sessions), Some(Asked { key, lookup })) = (&self.sessions, asked) else {
            return State { seed, ..State::default() };
        };
        let answer = match lookup {
            Lookup::Ready(answer) => answer,
            pending => timeout(self.deadline, pending.answer()).await.unwrap_or(Answer::Unavailable(Fault::Deadline)),
        };
        State { answer, learned: sessions.learned(&key), seed }
    }

    /// What the attempts of this decision have to bring back, if what serves its session is to be remembered.
    #[must_use]
    pub fn to_remember(&self, snapshot: &Snapshot, facts: &Facts, resolution: &Resolution) -> Option<token::Session> {
        let template = &self.sessions.as_ref().filter(|sessions| sessions.learns())?.template;
        let tenant = resolution.tenant.map(|id| snapshot.tenant(id));
        let model = match &facts.model {
            Found::Value(name) => find_model(snapshot, tenant, Some(name), &mut ()).known(snapshot),
            Found::Nothing | Found::Unusable => None,
        };
        let (tenant, id) = (tenant.map(|tenant| tenant.name.as_str()), facts.session.as_deref()?);
        // What makes no key is not looked up, so that it need not be remembered either.
        template.fill(tenant, model, id)?;
        let owned = |name: &str| name.to_owned();
        Some(token::Session { tenant: tenant.map(owned), model: model.map(owned), id: owned(id) })
    }

    /// The directory's state for people; `None`: there is no directory.
    #[must_use]
    pub fn status(&self) -> Option<serde_json::Value> {
        self.sessions.as_ref().map(|sessions| sessions.status())
    }
}
