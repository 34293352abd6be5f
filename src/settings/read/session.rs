//! Reads `session`: whether the directory can be asked at all, under a key that clients cannot bend.

use super::Reader;
use crate::diagnostic::Diagnostic;
use crate::session::template::{Part, Template};
use crate::settings::{Directory, OnTrouble, Session};

/// What Redis keeps a session under, unless `session.key` says otherwise; memory keeps it likewise.
const KEY: &str = "cascade:session:{tenant}/{model}/{session}";

impl Reader<'_> {
    pub(super) fn session(&mut self, default: &Session) -> Session {
        let sticky = self.at("session.sticky").and_then(crate::document::Node::flag).unwrap_or(default.sticky);
        if sticky && self.path("secret_file").is_none() {
            let warning = "sessions stick by a random key: they move when the process restarts, and replicas disagree";
            self.warn("random-secret", "session.sticky", warning, "give every replica the same `secret_file`");
        }
        Session {
            directory: self.directory().unwrap_or(Directory::None),
            sticky,
            timeout: self.duration("session.timeout").unwrap_or(default.timeout),
            ttl: self.duration("session.ttl").unwrap_or(default.ttl),
            negative_ttl: self.duration("session.negative_ttl").unwrap_or(default.negative_ttl),
            capacity: self.integer("session.capacity").unwrap_or(default.capacity),
            on_unavailable: match self.text("session.on_unavailable") {
                Some("reject") => OnTrouble::Reject,
                _ => default.on_unavailable,
            },
        }
    }

    fn directory(&mut self) -> Option<Directory> {
        match self.text("session.directory")? {
            "memory" => {
                let hint = "use `http` or `redis`, or `none`";
                self.warn("empty-directory", "session.directory", "nothing fills a directory in memory yet", hint);
                Some(Directory::Memory(self.template("session.key", KEY)?))
            }
            "http" => Some(Directory::Http(self.http()?)),
            "redis" => {
                let url = self.url("redis://host:6379")?;
                let key = self.text("session.key").unwrap_or(KEY);
                if let Err(error) = redis::Client::open(url.as_str()) {
                    self.fault("bad-value", "session.url", &format!("`session.url` is no URL of a Redis: {error}"));
                    return None;
                }
                Some(Directory::Redis { url, key: self.template("session.key", key)? })
            }
            _ => None,
        }
    }

    fn http(&mut self) -> Option<Template> {
        let url = self.url("http://directory.internal/s/{tenant}/{model}/{session}")?;
        let template = self.template("session.url", &url)?;
        let authority = ["http://", "https://"].iter().find_map(|scheme| template.start().strip_prefix(scheme));
        let is_fixed = authority.is_some_and(|rest| rest.find('/').is_some_and(|at| at > 0));
        // Filled with any parts it must stay a URL, and of the same host.
        let sample = template.fill(Some("t"), Some("m"), "s").unwrap_or_default();
        if !is_fixed || reqwest::Url::parse(&sample).is_err() {
            let message = "`session.url` must be an http(s) URL whose parts stand after the host, as in \
                           http://directory.internal/s/{tenant}/{model}/{session}";
            self.fault("bad-value", "session.url", message);
            return None;
        }
        Some(template)
    }

    fn url(&mut self, example: &str) -> Option<String> {
        let url = self.path("session.url");
        if url.is_none() {
            let message = format!("`session.url` is missing: where is the directory? For example {example}");
            self.fault("missing-field", "session.directory", &message);
        }
        url
    }

    fn template(&mut self, path: &str, text: &str) -> Option<Template> {
        match Template::parse(text) {
            Ok(template) => {
                let has_tenants = self.at("extract.tenant").is_some_and(|list| !list.items().is_empty());
                if has_tenants && !template.names(Part::Tenant) {
                    let warning = format!("`{path}` does not name {{tenant}}: two tenants with one session id share a placement");
                    self.warn("shared-sessions", path, &warning, "add `{tenant}` to it");
                }
                Some(template)
            }
            Err(fault) => {
                self.fault("bad-value", path, &format!("`{path}` is no key of a session: {fault}"));
                None
            }
        }
    }

    pub(super) fn warn(&mut self, code: &'static str, path: &str, message: &str, hint: &str) {
        let place = self.at(path).unwrap_or(self.root).place.clone();
        self.found.push(Diagnostic::warning(code, &place, message).hint(hint));
    }
}
