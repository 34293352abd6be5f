//! Ids for names, in the order of the names, so that neither files nor their order decide them.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::diagnostic::Place;
use crate::document::{Entry, Node};

/// Names with ids `0..`.
pub(super) struct Ids<N> {
    pub(super) names: Vec<N>,
    ids: HashMap<N, u32>,
}

impl<N: Clone + Eq + Hash> Ids<N> {
    pub(super) fn new(names: Vec<N>) -> Self {
        let ids = names.iter().enumerate().map(|(at, name)| (name.clone(), number(at))).collect();
        Self { names, ids }
    }

    pub(super) fn get<Q: ?Sized + Eq + Hash>(&self, name: &Q) -> Option<u32>
    where
        N: std::borrow::Borrow<Q>,
    {
        self.ids.get(name).copied()
    }
}

/// An index as an id. A document has at most [`crate::document::MAX_NODES`] values, so it always fits.
pub(super) fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The place that comes first, and the other one.
pub(super) fn in_order<'p>(a: &'p Place, b: &'p Place) -> (&'p Place, &'p Place) {
    if a <= b { (a, b) } else { (b, a) }
}

/// The entries of a section, sorted by name.
pub(super) fn section<'d>(document: &'d Node, name: &str) -> Vec<&'d Entry> {
    let mut entries: Vec<&Entry> = document.get(name).map(Node::entries).unwrap_or_default().iter().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    entries
}

/// Texts and the first place of each, sorted.
pub(super) fn first_places<'d>(nodes: impl Iterator<Item = &'d Node>) -> BTreeMap<&'d str, &'d Place> {
    let mut places = BTreeMap::new();
    for node in nodes {
        if let Some(text) = node.text() {
            places.entry(text).or_insert(&node.place);
        }
    }
    places
}
