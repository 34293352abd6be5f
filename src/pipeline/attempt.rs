//! One attempt on its way to one cluster: which name the model has there, where in the request to put it, and how the path begins.
//! The model is renamed where the decision found it, by the same sources in the same order. It decides no route and refuses nothing:
//! whatever it cannot do leaves the request as the client sent it, with a counted reason.

mod lines;
mod naming;
pub(crate) mod origin;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use self::lines::{Changing, Lines, SentHead};
use self::naming::Naming;
use super::Pipeline;
use crate::encode::attempt::Edit;
use crate::extproc::intake::EnvoyHead;
use crate::extract::head::Head;
use crate::extract::place::{InBody, InHead, Style};
use crate::extract::reader::{Needs, Reader};
use crate::extract::{Found, Slice, encoding};
use crate::proto::ProcessingRequest;
use crate::telemetry::StreamGuard;

/// What a request's body is to this stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// It has none, or one without an end (an upgrade).
    Absent,
    /// It can be asked for, and comes whole.
    Whole,
    /// The filter's body mode never shows it whole.
    OutOfReach,
}

/// What to do about the head.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Headers to set.
    pub set: Vec<(String, String)>,
    /// The body has to tell; else it need not even be shown.
    pub reads_body: bool,
}

/// What to do once the body is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Headers to set.
    pub set: Vec<(String, String)>,
    pub edit: Option<Edit>,
}

/// What became of a request; a closed list for the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    Unchanged,
    Body,
    Path,
    Query,
    Header,
    Compressed,
    Malformed,
    /// The filter does not show the body, which has the model.
    BodyNotShown,
    /// An earlier attempt's changes were sealed with keys that are gone: no line of the head is changed on top of them.
    Unreadable,
    /// No decision sent the request, and the cluster is not in the catalog, or Envoy does not say which one it is.
    UnknownCluster,
}

impl Became {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Body => "body",
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Compressed => "compressed",
            Self::Malformed => "malformed",
            Self::BodyNotShown => "body_not_shown",
            Self::Unreadable => "unreadable",
            Self::UnknownCluster => "unknown_cluster",
        }
    }
}

/// The attempt of one stream.
#[derive(Debug)]
pub struct Attempt {
    pipeline: Arc<Pipeline>,
    naming: Naming,
    changing: Changing,
    request_id: Option<String>,
    /// Reads the body, if that is where the model may be.
    reader: Option<Reader>,
    /// Where the model may be if not in the body, by the source that finds it there.
    in_head: Vec<(usize, InHead)>,
    /// The body has no content coding.
    is_plain: bool,
    /// Something was counted: what is not changed further need not be.
    is_counted: bool,
    _guard: StreamGuard,
}

impl Pipeline {
    /// Starts the stream of an attempt. It owes no decision.
    #[must_use]
    pub fn attempt(self: &Arc<Self>) -> Attempt {
        Attempt {
            naming: Naming::of(self.store.current()),
            changing: Changing::default(),
            request_id: None,
            reader: None,
            in_head: Vec::new(),
            is_plain: true,
            is_counted: false,
            _guard: self.metrics.stream(),
            pipeline: Arc::clone(self),
        }
    }
}

impl Attempt {
    /// Reads the head.
    pub fn head(&mut self, message: &ProcessingRequest, body: Body) -> Plan {
        self.guarded(|this| this.plan(message, body))
    }

    /// Reads one slice of the next bytes of the body.
    pub fn read(&mut self, bytes: &[u8]) -> Slice {
        self.guarded(|this| this.reader.as_mut().map_or(Slice::Whole, |reader| reader.take(bytes)))
    }

    /// The body, all of which has been read, as this cluster shall have it.
    pub fn change(&mut self, body: &[u8]) -> Change {
        self.guarded(|this| this.changed(body))
    }

    /// A fault of ours leaves the attempt as it is; it never ends the stream.
    fn guarded<T: Default>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|_| {
            tracing::error!(event = "fault", "an attempt failed inside; it goes on as it is");
            self.reader = None;
            T::default()
        })
    }

    fn plan(&mut self, message: &ProcessingRequest, body: Body) -> Plan {
        let pipeline = Arc::clone(&self.pipeline);
        let head = EnvoyHead(message);
        let cluster = head.attribute("xds.cluster_name").unwrap_or_default();
        if cluster.is_empty() {
            pipeline.cautions.no_cluster();
        }
        self.naming.read(cluster, pipeline.token(&head));
        let request = origin::Request::of(&head, &pipeline.keys, pipeline.monitor.now());
        self.request_id.clone_from(&request.id);
        self.changing = Changing::of(&head, request.inherited(&head));
        let target = format!("{}{}", self.changing.sent.path, self.changing.sent.query);
        let kept = self.changing.sent.header.clone();
        let sent = SentHead { head: &head, target: &target, header: kept.as_ref() };
        let is_foreign = self.naming.is_foreign();
        if is_foreign {
            self.count(Became::UnknownCluster);
        }
        if self.changing.is_lost() {
            self.count(Became::Unreadable);
        }
        // Else only what earlier attempts have changed is to be taken back, and the path may begin otherwise.
        let is_ours = !is_foreign && !self.naming.is_settled();
        let (renamed, reads_body) = if is_ours { self.look(&sent, body) } else { (None, false) };
        let set = self.set(renamed);
        if !reads_body && !self.is_counted {
            self.count(Became::Unchanged);
        }
        Plan { set, reads_body }
    }

    /// Looks for the model: which name goes where in the head, and whether the body has to be read first.
    fn look(&mut self, sent: &impl Head, body: Body) -> (Option<(InHead, String)>, bool) {
        let pipeline = Arc::clone(&self.pipeline);
        let mut reader = Reader::new(sent, &pipeline.renaming, Needs::default(), &pipeline.rules.limits);
        let sources = pipeline.renaming.model.iter().enumerate();
        self.in_head = sources.filter_map(|(index, source)| Some((index, InHead::of(sent, source)?))).collect();
        self.is_plain = encoding::named(sent).is_some_and(|encoding| encoding::is_plain(&encoding));
        if reader.needs_no_body() || body == Body::Absent {
            reader.finish();
            return (self.in_the_head(&reader), false);
        }
        if !self.is_plain && self.in_head.is_empty() {
            self.count(Became::Compressed);
            return (None, false);
        }
        if body == Body::OutOfReach {
            pipeline.cautions.body_not_shown();
            self.count(Became::BodyNotShown);
            return (None, false);
        }
        self.reader = Some(reader);
        (None, true)
    }

    fn changed(&mut self, body: &[u8]) -> Change {
        let Some(mut reader) = self.reader.take() else { return Change::default() };
        reader.finish();
        let mut change = Change::default();
        if reader.facts().0.trouble.is_some() {
            self.count(Became::Malformed);
            return change;
        }
        // Places in a compressed body are those of what came out of it.
        match reader.model_in(body).filter(|_| self.is_plain) {
            Some(InBody { range, style }) => {
                let text = self.name_for(&reader).and_then(|(_, name)| style.write(&name));
                change.edit = text.map(|text| Edit { range, text });
            }
            None => match self.in_the_head(&reader) {
                Some(renamed) => change.set = self.set(Some(renamed)),
                None if !self.is_plain && self.name_for(&reader).is_some() => self.count(Became::Compressed),
                None => {}
            },
        }
        if change.edit.is_some() {
            self.count(Became::Body);
        }
        if !self.is_counted {
            self.count(Became::Unchanged);
        }
        change
    }

    /// The name that was sent and the one to put in its place, if it is another.
    fn name_for(&self, reader: &Reader) -> Option<(String, String)> {
        let Found::Value(sent) = reader.facts().0.model else { return None };
        let name = self.naming.name_for(&sent)?.to_owned();
        Some((sent, name))
    }

    /// Where in the head which name goes, if that is where the model was found.
    fn in_the_head(&mut self, reader: &Reader) -> Option<(InHead, String)> {
        let (sent, name) = self.name_for(reader)?;
        let found = reader.facts().1.model;
        let at = self.in_head.iter().position(|(index, _)| Some(*index) == found)?;
        let (_, place) = self.in_head.swap_remove(at);
        match &place {
            InHead::Header(header) => self.changing.holds(header, &sent).then_some((place, name)),
            InHead::Path(_) | InHead::Query(_) => Some((place, name)),
        }
    }

    /// The headers to set so that the path begins as it does at this cluster, the model has its name, and all else is as the client
    /// sent it.
    fn set(&mut self, renamed: Option<(InHead, String)>) -> Vec<(String, String)> {
        let sent = self.changing.sent.clone();
        let (place, name) = renamed.unzip();
        let name = name.unwrap_or_default();
        let mut wanted = Lines { path: String::new(), ..sent.clone() };
        let segment = match place {
            Some(InHead::Path(range)) => Style::Segment.write(&name).map(|text| (range, text)),
            Some(InHead::Query(ranges)) => {
                if let Some(text) = Style::Pair.write(&name) {
                    // They are counted from behind the `?`, and the last comes first, so that they stay right.
                    ranges.into_iter().rev().for_each(|range| wanted.query.replace_range(range.start + 1..range.end + 1, &text));
                }
                None
            }
            Some(InHead::Header(header)) => {
                wanted.header = Style::Plain.write(&name).map(|text| (header, text)).or(wanted.header);
                None
            }
            None => None,
        };
        wanted.path = self.naming.path(&sent.path, segment);
        let became = [
            (wanted.path != sent.path, Became::Path),
            (wanted.query != sent.query, Became::Query),
            (wanted.header != sent.header, Became::Header),
        ];
        let pipeline = Arc::clone(&self.pipeline);
        let request = origin::Request { id: self.request_id.clone(), keys: &pipeline.keys, now: pipeline.monitor.now() };
        let (set, is_done) = self.changing.set(wanted, &request);
        became.into_iter().filter(|(changes, _)| *changes && is_done).for_each(|(_, became)| self.count(became));
        set
    }

    fn count(&mut self, became: Became) {
        self.is_counted = true;
        self.pipeline.metrics.rewrite(became.as_str());
    }
}

#[cfg(test)]
mod tests;
