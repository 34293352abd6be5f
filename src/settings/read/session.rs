//! Reads `session`: whether the directory can be asked at all, under a key that clients cannot bend.

use super::{LONGEST_WAIT, Reader};
use crate::diagnostic::Diagnostic;
use crate::document::{Node, Value};
use crate::session::template::{Part, Template};
use crate::settings::{Directory, OnTrouble, Session};

/// What Redis keeps a session under, unless `session.key` says otherwise; memory keeps it likewise.
const KEY: &str = "cascade:session:{tenant}/{model}/{session}";

impl Reader<'_> {
    pub(super) fn session(&mut self, default: &Session) -> Session {
        let (sticky, learn) = (self.is_on("session.sticky"), self.learn());
        if sticky && self.path("secret_file").is_none() {
            let warning = "sessions stick by a random key: they move when the process restarts, and replicas disagree";
            self.warn("random-secret", "session.sticky", warning, "give every replica the same `secret_file`");
        }
        if self.text("session.on_unavailable") == Some("reject")
            && matches!(self.text("session.directory"), None | Some("none" | "memory"))
        {
            let warning = "`session.on_unavailable: reject` rejects nothing: there is no directory that could be away";
            self.warn("rejects-nothing", "session.on_unavailable", warning, "set `session.directory` to `http` or `redis`");
        }
        self.session_is_found(learn);
        self.unused(learn);
        Session {
            directory: self.directory(learn).unwrap_or(Directory::None),
            sticky,
            timeout: self.time("session.timeout", LONGEST_WAIT).unwrap_or(default.timeout),
            ttl: self.duration("session.ttl").unwrap_or(default.ttl),
            negative_ttl: self.duration("session.negative_ttl").unwrap_or(default.negative_ttl),
            capacity: self.integer("session.capacity").unwrap_or(default.capacity),
            learn,
            learn_endpoint: self.learn_endpoint(learn),
            on_unavailable: match self.text("session.on_unavailable") {
                Some("reject") => OnTrouble::Reject,
                _ => default.on_unavailable,
            },
        }
    }

    /// Whether what serves a session is remembered. It is heard of through the access log, in a header of the request.
    fn learn(&mut self) -> bool {
        if !self.is_on("session.learn") {
            return false;
        }
        if !self.is_on("feedback.enabled") {
            let message = "`session.learn` needs `feedback.enabled: true`, and Envoy's access log as docs/attempts.md shows it: what \
                           served a session is heard of there";
            self.fault("learns-nothing", "session.learn", message);
        }
        if self.text("publish.decision_header") == Some("") {
            let message = "`session.learn` needs `publish.decision_header`, for example `x-cascade-decision`: without it the access \
                           log does not know the session";
            self.fault("learns-nothing", "publish.decision_header", message);
        }
        if self.duration("session.ttl").is_some_and(|ttl| ttl.is_zero()) {
            let message = "`session.learn` needs a `session.ttl` above 0: what served a session is remembered for so long";
            self.fault("learns-nothing", "session.ttl", message);
        }
        if self.text("session.directory") == Some("redis") && self.path("secret_file").is_none() {
            let warning = "each replica has keys of its own: what serves a session is learned only where Envoy's log happens to reach \
                           the replica that decided";
            self.warn("random-secret", "session.learn", warning, "give every replica the same `secret_file`");
        }
        true
    }

    fn learn_endpoint(&mut self, learn: bool) -> bool {
        let is_on = self.is_on("session.learn_endpoint");
        if is_on && !learn {
            let message = "`session.learn_endpoint` needs `session.learn: true`: it says what else is remembered";
            self.fault("learns-nothing", "session.learn_endpoint", message);
        }
        is_on
    }

    fn session_is_found(&mut self, learn: bool) {
        if !self.at("extract.session").is_some_and(|list| matches!(&list.value, Value::List(items) if items.is_empty())) {
            return;
        }
        let path = "extract.session";
        let empty = "`extract.session` is empty: no request will have a session";
        let uses = [
            ("session.sticky", self.is_on("session.sticky")),
            ("session.directory", self.text("session.directory").is_some_and(|kind| kind != "none")),
            ("publish.sticky_header", self.path("publish.sticky_header").is_some()),
        ];
        if learn {
            self.fault("learns-nothing", path, &format!("{empty}, and `session.learn` would learn nothing"));
        } else if let Some((user, _)) = uses.into_iter().find(|(_, is_used)| *is_used) {
            self.warn(
                "no-session-source",
                path,
                &format!("{empty}, and `{user}` uses it"),
                "name a header, as in `[{header: x-session-id}]`",
            );
        }
    }

    /// What is written for a directory that is not the chosen one. A default that is written out says nothing.
    fn unused(&mut self, learn: bool) {
        let kind = self.text("session.directory").unwrap_or("none");
        let (url, key) = match kind {
            "none" => (false, learn),
            "memory" => (false, true),
            "http" => (true, false),
            _ => (true, true),
        };
        for (path, is_used, default) in [("session.url", url, ""), ("session.key", key, KEY)] {
            if !is_used && self.text(path).is_some_and(|text| text != default) {
                let message = format!("`{path}` is not used: `session.directory` is `{kind}`");
                self.warn("unused-setting", path, &message, "remove it, or choose the directory that it is meant for");
            }
        }
    }

    fn directory(&mut self, learn: bool) -> Option<Directory> {
        match self.text("session.directory").unwrap_or("none") {
            "none" if !learn => None,
            "none" | "memory" => {
                if !learn {
                    let hint = "turn on `session.learn`, use `http` or `redis`, or `none`";
                    self.warn("empty-directory", "session.directory", "nothing fills a directory in memory", hint);
                }
                let key = self.text("session.key").unwrap_or(KEY);
                Some(Directory::Memory(self.template("session.key", key)?))
            }
            "http" => Some(Directory::Http(self.http()?)),
            "redis" => {
                let url = self.url("redis://host:6379")?;
                let key = self.text("session.key").unwrap_or(KEY);
                self.is_redis(&url).then_some(())?;
                Some(Directory::Redis { url, key: self.template("session.key", key)? })
            }
            _ => None,
        }
    }

    /// The client's own words for a wrong URL do not say how a right one looks.
    fn is_redis(&mut self, url: &str) -> bool {
        let (code, message) = match (url.split_once("://"), redis::Client::open(url)) {
            (Some(("rediss" | "valkeys", _)), _) => {
                ("not-available", "`session.url` asks for TLS to Redis, which this version of Cascade does not have".to_owned())
            }
            (_, Ok(_)) => return true,
            (None, Err(_)) => ("bad-value", "`session.url` is no URL of a Redis: it has no scheme".to_owned()),
            (Some(_), Err(error)) => ("bad-value", format!("`session.url` is no URL of a Redis: {error}")),
        };
        let place = self.at("session.url").unwrap_or(self.root).place.clone();
        let hint = "write `redis://host:6379`, or `redis+unix:///path` for a socket";
        self.found.push(Diagnostic::error(code, &place, message).hint(hint));
        false
    }

    fn http(&mut self) -> Option<Template> {
        let url = self.url("http://directory.internal/s/{tenant}/{model}/{session}")?;
        let Some(rest) = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme)) else {
            let message = "`session.url` must begin with `http://` or `https://`: `session.directory` is `http`";
            self.fault("bad-value", "session.url", message);
            return None;
        };
        if url.contains('#') {
            let message = "`session.url` has a `#`, and what follows one is never sent: write `%23` if the directory wants it";
            self.fault("bad-value", "session.url", message);
            return None;
        }
        let host = rest.find('/').filter(|at| *at > 0 && !rest[..*at].contains('{'));
        let Some(path) = host.map(|at| url.len() - rest.len() + at) else { return self.no_http_url() };
        let template = self.template("session.url", &url)?;
        let sample = template.fill(Some("t"), Some("m"), "s").unwrap_or_default();
        let Ok(asked) = reqwest::Url::parse(&sample) else { return self.no_http_url() };
        // Parts that stand apart in the text must do so in what is sent.
        let query = asked.query().map(|query| format!("?{query}")).unwrap_or_default();
        if sample[path..] != format!("{}{query}", asked.path()) {
            let message = "`session.url` would not be asked as it is written: blanks, `\\`, `<`, `..` and letters beyond ASCII cannot \
                           stand in a URL; write them percent-encoded";
            self.fault("bad-value", "session.url", message);
            return None;
        }
        Some(template)
    }

    fn no_http_url(&mut self) -> Option<Template> {
        let message = "`session.url` must be an http(s) URL whose parts stand after the host, as in \
                       http://directory.internal/s/{tenant}/{model}/{session}";
        self.fault("bad-value", "session.url", message);
        None
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
                    self.tenants_meet(path);
                }
                Some(template)
            }
            Err(fault) => {
                // A part of it may be a password.
                let fault = if path == "session.key" && text.contains("://") { "it is a URL".to_owned() } else { fault };
                self.fault("bad-value", path, &format!("`{path}` is no key of a session: {fault}"));
                None
            }
        }
    }

    /// Whoever fills a directory may know its ids to be unique; we, who would fill it ourselves, do not.
    fn tenants_meet(&mut self, path: &str) {
        let meet = format!("`{path}` does not name {{tenant}}: two tenants with one session id share a placement");
        if self.is_on("session.learn") {
            let message = format!("{meet}; with `session.learn` it has to, so add `{{tenant}}` to it");
            self.fault("shared-sessions", path, &message);
        } else {
            self.warn("shared-sessions", path, &meet, "add `{tenant}` to it");
        }
    }

    fn is_on(&self, path: &str) -> bool {
        self.at(path).and_then(Node::flag) == Some(true)
    }

    pub(super) fn warn(&mut self, code: &'static str, path: &str, message: &str, hint: &str) {
        let place = self.at(path).unwrap_or(self.root).place.clone();
        self.found.push(Diagnostic::warning(code, &place, message).hint(hint));
    }
}
