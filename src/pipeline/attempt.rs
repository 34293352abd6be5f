//! One attempt on its way to one cluster: which name the model has there, and where in the request to put it. It decides no route
//! and refuses nothing: whatever it cannot do leaves the request as it is, with a counted reason.

use std::sync::Arc;

use super::Pipeline;
use crate::catalog::snapshot::{Cluster, ModelId, Snapshot};
use crate::extproc::intake::EnvoyHead;
use crate::extract::Found;
use crate::extract::head::{self, Head};
use crate::extract::place::{InBody, Place};
use crate::feedback::token::Token;
use crate::proto::ProcessingRequest;
use crate::resolve::naming;
use crate::telemetry::StreamGuard;

/// What to do about the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Nothing will change: the body need not be shown.
    Leave,
    /// The path becomes this one.
    SetPath(String),
    /// The body will tell.
    ReadBody,
}

/// What became of a request; a closed list for the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    Unchanged,
    Body,
    Path,
    Compressed,
    Malformed,
    /// No decision sent the request, and the cluster is not in the catalog, or Envoy does not say which one it is.
    UnknownCluster,
}

impl Became {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Body => "body",
            Self::Path => "path",
            Self::Compressed => "compressed",
            Self::Malformed => "malformed",
            Self::UnknownCluster => "unknown_cluster",
        }
    }
}

/// The attempt of one stream.
#[derive(Debug)]
pub struct Attempt {
    pipeline: Arc<Pipeline>,
    snapshot: Option<Arc<Snapshot>>,
    cluster: String,
    place: Place,
    /// The decision's model, if its token came along.
    decided: Option<ModelId>,
    /// `content-length` is as the client sent it.
    is_intact: bool,
    _guard: StreamGuard,
}

impl Pipeline {
    /// Starts the stream of an attempt. It owes no decision.
    #[must_use]
    pub fn attempt(self: &Arc<Self>) -> Attempt {
        Attempt {
            snapshot: self.store.current(),
            cluster: String::new(),
            place: Place::Nowhere,
            decided: None,
            is_intact: true,
            _guard: self.metrics.stream(),
            pipeline: Arc::clone(self),
        }
    }
}

impl Attempt {
    /// Reads the head.
    pub fn head(&mut self, message: &ProcessingRequest) -> Plan {
        let head = EnvoyHead(message);
        self.cluster = head.attribute("xds.cluster_name").unwrap_or_default();
        self.place = Place::of(&head);
        let token = self.token(&head);
        self.is_intact = is_intact(&head, token.as_ref());
        let Some(snapshot) = self.snapshot.clone() else { return self.leave(Became::UnknownCluster) };
        let decided = token.as_ref().and_then(|token| token.model.as_deref());
        self.decided = decided.and_then(|name| naming::model_called(&snapshot, name));
        if self.is_foreign(&snapshot) {
            return self.leave(Became::UnknownCluster);
        }
        match self.place {
            Place::Path(..) => self.path(&snapshot, head::target(&head)),
            _ if self.is_settled(&snapshot, token.as_ref()) => self.leave(Became::Unchanged),
            Place::Compressed => self.leave(Became::Compressed),
            Place::Nowhere => self.leave(Became::Unchanged),
            Place::Json | Place::Multipart { .. } => Plan::ReadBody,
        }
    }

    /// The whole body as this cluster shall see it; `None`: as it is.
    pub fn body(&self, body: &[u8]) -> Option<Vec<u8>> {
        let Some(snapshot) = self.snapshot.as_ref().filter(|snapshot| !self.is_foreign(snapshot)) else {
            self.count(Became::UnknownCluster);
            return None;
        };
        let Ok(found) = self.place.in_body(body, self.pipeline.rules.limits.max_depth) else {
            self.count(Became::Malformed);
            return None;
        };
        let renamed = found.and_then(|InBody { range, model: sent }| {
            let model = self.decided.or_else(|| naming::model_called(snapshot, &sent))?;
            let name = naming::name_at(snapshot, self.known_cluster(snapshot), model);
            (name != sent).then(|| [&body[..range.start], self.place.write(name).as_bytes(), &body[range.end..]].concat())
        });
        self.count(if renamed.is_some() { Became::Body } else { Became::Unchanged });
        renamed
    }

    fn path(&self, snapshot: &Snapshot, target: &str) -> Plan {
        let Place::Path(range, sent) = &self.place else { return self.leave(Became::Unchanged) };
        // The path of an earlier attempt stays, as its headers do.
        let by_name = || naming::model_called(snapshot, sent).or_else(|| naming::model_called_anywhere(snapshot, sent));
        let model = self.decided.or_else(by_name);
        let name = model.map(|model| naming::name_at(snapshot, self.known_cluster(snapshot), model));
        let Some(name) = name.filter(|name| name != sent) else { return self.leave(Became::Unchanged) };
        self.count(Became::Path);
        Plan::SetPath(format!("{}{}{}", &target[..range.start], self.place.write(name), &target[range.end..]))
    }

    /// True if the head alone says that the model has its name already.
    fn is_settled(&self, snapshot: &Snapshot, token: Option<&Token>) -> bool {
        match (token, self.decided) {
            (Some(token), Some(model)) => {
                token.own_name && token.model.as_deref() == Some(naming::name_at(snapshot, self.known_cluster(snapshot), model))
            }
            // The catalog does not know the model: nothing is known of its names.
            (Some(token), None) => token.model.is_none(),
            (None, _) => self.known_cluster(snapshot).is_some_and(|cluster| naming::never_differs(snapshot, cluster)),
        }
    }

    fn known_cluster<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s Cluster> {
        snapshot.cluster_ids.get(self.cluster.as_str()).map(|id| snapshot.cluster(*id))
    }

    /// True for a cluster of Envoy's static chain that no decision sent the request to: what goes there is none of ours.
    fn is_foreign(&self, snapshot: &Snapshot) -> bool {
        self.decided.is_none() && self.known_cluster(snapshot).is_none()
    }

    fn token(&self, head: &impl Head) -> Option<Token> {
        let name = self.pipeline.publish.decision_header.as_str();
        if name.is_empty() {
            return None;
        }
        match head::header(head, name) {
            Found::Value(text) => Token::open(&text, &self.pipeline.keys, self.pipeline.monitor.now()),
            Found::Nothing | Found::Unusable => None,
        }
    }

    /// Nothing is to be renamed. The body is asked for all the same if an earlier attempt has left its length behind.
    fn leave(&self, why: Became) -> Plan {
        if !self.is_intact && matches!(self.place, Place::Json | Place::Multipart { .. }) {
            return Plan::ReadBody;
        }
        self.count(why);
        Plan::Leave
    }

    fn count(&self, became: Became) {
        self.pipeline.metrics.rewrite(became.as_str());
    }
}

/// All attempts share the request's headers: what one sets, the next one finds, while the body starts anew each time.
fn is_intact(head: &impl Head, token: Option<&Token>) -> bool {
    match token {
        Some(token) => token.length == length_of(head),
        None => head::header(head, "x-envoy-attempt-count") == Found::Value("1".to_owned()),
    }
}

/// `content-length`, if there is one.
pub(super) fn length_of(head: &impl Head) -> Option<u64> {
    match head::header(head, "content-length") {
        Found::Value(text) => text.parse().ok(),
        Found::Nothing | Found::Unusable => None,
    }
}
