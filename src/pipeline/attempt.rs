//! One attempt on its way to one cluster: which name the model has there, where in the request to put it, and how the path begins.
//! It decides no route and refuses nothing: whatever it cannot do leaves the request as it is, with a counted reason.

pub(crate) mod origin;

use std::sync::Arc;

use super::Pipeline;
use crate::catalog::snapshot::{Cluster, ModelId, Snapshot};
use crate::encode::attempt::Edit;
use crate::extproc::intake::EnvoyHead;
use crate::extract::Found;
use crate::extract::head::{self, Head};
use crate::extract::path::split_target;
use crate::extract::place::{InBody, Place};
use crate::feedback::token::Token;
use crate::proto::ProcessingRequest;
use crate::resolve::naming;
use crate::telemetry::StreamGuard;

/// What to do about the head.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Headers to set.
    pub set: Vec<(&'static str, String)>,
    /// The body has to tell; else it need not even be shown.
    pub reads_body: bool,
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
    /// It goes out with another path than the one that the client sent.
    has_own_path: bool,
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
            has_own_path: false,
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
        let target = head::target(&head);
        let (now, query) = target.split_at(split_target(target).0.len());
        let kept = origin::of(&head, &self.pipeline.keys, self.pipeline.monitor.now());
        let sent = kept.as_deref().unwrap_or(now);
        self.place = Place::of(sent, &head);
        let token = self.token(&head);
        self.is_intact = is_intact(&head, token.as_ref());
        let snapshot = self.snapshot.clone();
        let decided = token.as_ref().and_then(|token| token.model.as_deref());
        self.decided = snapshot.as_ref().and_then(|snapshot| naming::model_called(snapshot, decided?));
        let snapshot = snapshot.filter(|snapshot| !self.is_foreign(snapshot));
        let wanted = snapshot.as_ref().map_or_else(|| sent.to_owned(), |snapshot| self.path(snapshot, sent));
        let set = if wanted == now { Vec::new() } else { self.set_path(&wanted, query, sent, kept.is_some()) };
        if wanted != sent && (wanted == now || !set.is_empty()) {
            self.count(Became::Path);
            self.has_own_path = true;
        }
        Plan { set, reads_body: self.reads_body(snapshot.as_deref(), token.as_ref()) }
    }

    /// Sets the path, and keeps the one that was sent unless an earlier attempt has: what cannot be taken back is not done.
    fn set_path(&self, wanted: &str, query: &str, sent: &str, is_kept: bool) -> Vec<(&'static str, String)> {
        let keep = if is_kept { None } else { origin::seal(sent, &self.pipeline.keys, self.pipeline.monitor.now()) };
        if !is_kept && keep.is_none() {
            return Vec::new();
        }
        let path = (":path", format!("{wanted}{query}"));
        [path].into_iter().chain(keep.map(|keep| (origin::HEADER, keep))).collect()
    }

    /// Whether the body has to be seen. `None`: the cluster is none of ours.
    fn reads_body(&self, snapshot: Option<&Snapshot>, token: Option<&Token>) -> bool {
        let Some(snapshot) = snapshot else { return self.leave(Became::UnknownCluster) };
        match self.place {
            Place::Path(..) | Place::Nowhere => self.leave(Became::Unchanged),
            _ if self.is_settled(snapshot, token) => self.leave(Became::Unchanged),
            Place::Compressed => self.leave(Became::Compressed),
            Place::Json | Place::Multipart { .. } => true,
        }
    }

    /// What has to change in the whole body for this cluster; `None`: nothing.
    pub fn body(&self, body: &[u8]) -> Option<Edit> {
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
            (name != sent).then(|| Edit { range, text: self.place.write(name) })
        });
        self.count(if renamed.is_some() { Became::Body } else { Became::Unchanged });
        renamed
    }

    /// The path that the client sent as this cluster shall see it: its beginning by `path_prefix`, and the model behind it.
    fn path(&self, snapshot: &Snapshot, sent: &str) -> String {
        let cluster = self.known_cluster(snapshot);
        let rule = cluster.and_then(|cluster| cluster.path_prefix.as_ref());
        let begins = rule.and_then(|rule| rule.length_in(sent)).unwrap_or(0);
        let rest = match &self.place {
            Place::Path(range, model) if range.start >= begins => {
                let id = self.decided.or_else(|| naming::model_called(snapshot, model));
                let name = id.map(|id| naming::name_at(snapshot, cluster, id)).filter(|name| name != model);
                name.map(|name| format!("{}{}{}", &sent[begins..range.start], self.place.write(name), &sent[range.end..]))
            }
            _ => None,
        };
        let rest = rest.unwrap_or_else(|| sent[begins..].to_owned());
        match rule {
            Some(rule) if rule.length_in(sent).is_some() => rule.before(&rest),
            _ => rest,
        }
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

    /// Nothing in the body is to be renamed. It is asked for all the same if an earlier attempt has left its length behind.
    fn leave(&self, why: Became) -> bool {
        if !self.is_intact && matches!(self.place, Place::Json | Place::Multipart { .. }) {
            return true;
        }
        self.count(why);
        false
    }

    fn count(&self, became: Became) {
        if became == Became::Unchanged && self.has_own_path {
            return;
        }
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
