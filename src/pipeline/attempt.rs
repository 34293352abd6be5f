//! One attempt on its way to one cluster: which name the model has there, and where in the request to put it. It decides no route
//! and refuses nothing: whatever it cannot do leaves the request as it is, with a counted reason.

use std::sync::Arc;

use super::{Pipeline, length_of};
use crate::catalog::snapshot::{ModelId, Snapshot};
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
    /// The cluster is not in the catalog, or Envoy does not say which one it is.
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
        let Some(id) = snapshot.cluster_ids.get(self.cluster.as_str()) else { return self.leave(Became::UnknownCluster) };
        let cluster = snapshot.cluster(*id);
        let decided = token.as_ref().and_then(|token| token.model.as_deref());
        self.decided = decided.and_then(|name| naming::model_called(&snapshot, name));
        if let Place::Path(range, sent) = &self.place {
            let target = head::target(&head);
            // The path of an earlier attempt stays, as its headers do.
            let by_name = || naming::model_called(&snapshot, sent).or_else(|| naming::model_called_anywhere(&snapshot, sent));
            let Some(model) = self.decided.or_else(by_name) else {
                return self.leave(Became::Unchanged);
            };
            let name = naming::name_at(&snapshot, cluster, model);
            if name == sent {
                return self.leave(Became::Unchanged);
            }
            let path = format!("{}{}{}", &target[..range.start], self.place.write(name), &target[range.end..]);
            self.count(Became::Path);
            return Plan::SetPath(path);
        }
        let is_settled = match (&token, self.decided) {
            (Some(token), Some(model)) => {
                token.own_name && token.model.as_deref() == Some(naming::name_at(&snapshot, cluster, model))
            }
            // The catalog does not know the model: nothing is known of its names.
            (Some(token), None) => token.model.is_none(),
            (None, _) => naming::never_differs(&snapshot, cluster),
        };
        match self.place {
            _ if is_settled => self.leave(Became::Unchanged),
            Place::Compressed => self.leave(Became::Compressed),
            Place::Nowhere | Place::Path(..) => self.leave(Became::Unchanged),
            Place::Json | Place::Multipart { .. } => Plan::ReadBody,
        }
    }

    /// The whole body as this cluster shall see it; `None`: as it is.
    pub fn body(&self, body: &[u8]) -> Option<Vec<u8>> {
        let known =
            self.snapshot.as_ref().and_then(|snapshot| Some((snapshot, *snapshot.cluster_ids.get(self.cluster.as_str())?)));
        let Some((snapshot, id)) = known else {
            self.count(Became::UnknownCluster);
            return None;
        };
        let cluster = snapshot.cluster(id);
        let found = match self.place.in_body(body, self.pipeline.rules.limits.max_depth) {
            Ok(found) => found,
            Err(_) => {
                self.count(Became::Malformed);
                return None;
            }
        };
        let renamed = found.and_then(|InBody { range, model: sent }| {
            let model = self.decided.or_else(|| naming::model_called(snapshot, &sent))?;
            let name = naming::name_at(snapshot, cluster, model);
            (name != sent).then(|| [&body[..range.start], self.place.write(name).as_bytes(), &body[range.end..]].concat())
        });
        self.count(if renamed.is_some() { Became::Body } else { Became::Unchanged });
        renamed
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
