//! The lines of a request's head that attempts change: as the client sent them, as they are now, and as this attempt is to have them.
//! What changes is kept, so that the next attempt starts from what the client sent. It knows no model and no catalog.

use super::origin::{self, Origin};
use crate::extract::Found;
use crate::extract::head::{self, Head};
use crate::extract::path::split_target;

/// Path, query and the one header that may hold the model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Lines {
    pub path: String,
    /// What follows the path, `?` included.
    pub query: String,
    /// Name and value, where the model is in a header or has been.
    pub header: Option<(String, String)>,
}

/// The lines over the attempts of one request.
#[derive(Debug, Default)]
pub(super) struct Changing {
    pub sent: Lines,
    now: Lines,
    kept: Origin,
    /// What was changed before cannot be read, so that nothing is changed on top of it.
    is_lost: bool,
}

impl Changing {
    /// Reads them; `inherited` says what earlier attempts have changed.
    pub(super) fn of(head: &impl Head, inherited: origin::Inherited) -> Self {
        let (kept, is_lost) = match inherited {
            origin::Inherited::Nothing => (Origin::default(), false),
            origin::Inherited::Origin(origin) => (origin, false),
            origin::Inherited::Unreadable => (Origin::default(), true),
        };
        let target = head::target(head);
        let (path, query) = target.split_at(split_target(target).0.len());
        let header = kept.header.as_ref().map(|(name, _)| (name.clone(), value_of(head, name)));
        let now = Lines { path: path.to_owned(), query: query.to_owned(), header };
        let sent = Lines {
            path: kept.path.clone().unwrap_or_else(|| now.path.clone()),
            query: kept.query.clone().unwrap_or_else(|| now.query.clone()),
            header: kept.header.clone(),
        };
        Self { sent, now, kept, is_lost }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The model is in this header, with this value. False if another header was changed before: only one can be kept.
    pub(super) fn holds(&mut self, name: &str, value: &str) -> bool {
        if self.sent.header.is_none() {
            self.sent.header = Some((name.to_owned(), value.to_owned()));
            self.now.header.clone_from(&self.sent.header);
        }
        self.sent.header.as_ref().is_some_and(|(known, _)| known == name)
    }

    /// What to set so that the head has these lines. What cannot be taken back is not done: then they are as the client sent them,
    /// and the second value is false.
    pub(super) fn set(&mut self, wanted: Lines, request: &origin::Request<'_>) -> (Vec<(String, String)>, bool) {
        if self.is_lost {
            return (Vec::new(), false);
        }
        let mut keep = self.kept.clone();
        if wanted.path != self.sent.path {
            keep.path = Some(self.sent.path.clone());
        }
        if wanted.query != self.sent.query {
            keep.query = Some(self.sent.query.clone());
        }
        if wanted.header != self.sent.header {
            keep.header.clone_from(&self.sent.header);
        }
        let sealed = if keep == self.kept { None } else { Some(keep.seal(request)) };
        let (wanted, is_done) = if sealed == Some(None) { (self.sent.clone(), false) } else { (wanted, true) };
        let mut set = Vec::new();
        if wanted.path != self.now.path || wanted.query != self.now.query {
            set.push((":path".to_owned(), format!("{}{}", wanted.path, wanted.query)));
        }
        if wanted.header != self.now.header {
            set.extend(wanted.header.clone());
        }
        if let Some(Some(sealed)) = sealed {
            set.push((origin::HEADER.to_owned(), sealed));
            self.kept = keep;
        }
        self.now = wanted;
        (set, is_done)
    }
}

/// A head as the client sent it.
pub(super) struct SentHead<'a, H> {
    pub head: &'a H,
    pub target: &'a str,
    pub header: Option<&'a (String, String)>,
}

impl<H: Head> Head for SentHead<'_, H> {
    fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let other = self.header.filter(|(kept, _)| kept == name).map(|(_, value)| value.as_str());
        let other = if name == ":path" { Some(self.target) } else { other };
        let as_it_is = other.is_none().then(|| self.head.header(name));
        other.map(str::as_bytes).into_iter().chain(as_it_is.into_iter().flatten())
    }

    fn attribute(&self, name: &str) -> Option<String> {
        self.head.attribute(name)
    }

    fn metadata(&self, namespace: &str, path: &[String]) -> Option<String> {
        self.head.metadata(namespace, path)
    }
}

fn value_of(head: &impl Head, name: &str) -> String {
    match head::header(head, name) {
        Found::Value(value) => value,
        Found::Nothing | Found::Unusable => String::new(),
    }
}
