//! A request put together by hand: what `explain`, the catalog's own tests and our tests judge without a proxy.

use std::collections::HashMap;

use super::head::Head;
use super::reader::{Needs, Reader};
use super::source::Plan;
use super::{Facts, Limits, Origins};

#[derive(Debug, Clone, Default)]
pub struct Request {
    headers: Vec<(String, Vec<u8>)>,
    pub attributes: HashMap<String, String>,
    /// By namespace and dotted path.
    pub metadata: HashMap<(String, String), String>,
    pub body: Option<Vec<u8>>,
}

impl Request {
    /// A request for `target` (path and query) without a body.
    #[must_use]
    pub fn new(target: &str) -> Self {
        let mut request = Self::default();
        request.add_header(":path", target);
        request
    }

    pub fn add_header(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_ascii_lowercase(), value.as_bytes().to_vec()));
    }

    /// Reads the request as a whole.
    #[must_use]
    pub fn read(&self, plan: &Plan, needs: Needs, limits: &Limits) -> (Facts, Origins) {
        let mut reader = Reader::new(self, plan, needs, limits);
        if let Some(body) = &self.body {
            reader.push(body);
        }
        reader.finish();
        reader.facts()
    }
}

impl Head for Request {
    fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_slice())
    }

    fn attribute(&self, name: &str) -> Option<String> {
        self.attributes.get(name).cloned()
    }

    fn metadata(&self, namespace: &str, path: &[String]) -> Option<String> {
        self.metadata.get(&(namespace.to_owned(), path.join("."))).cloned()
    }
}
