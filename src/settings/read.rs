//! Reads settings: flags over environment over file over defaults, all that is wrong at once. It reads no file and no environment
//! itself, and starts nothing.

mod attempts;
mod feedback;
mod headers;
mod server;
mod session;

use std::time::Duration;

use super::document::SETTINGS;
use super::sources::{self, Field};
use super::{Address, CatalogSettings, Encoding, Extract, Limits, LogFormat, OnTrouble, Publish, Settings, ShowModel, Telemetry};
use super::{environment, unavailable};
use crate::diagnostic::mask::is_address;
use crate::diagnostic::{Diagnostic, Place, acceptable};
use crate::document::units::{parse_duration, parse_size};
use crate::document::{self, Format, Node, Value, check};
use crate::extract::source::{OnDuplicateKey, Plan, Source};

/// No request waits longer, whatever proxy is before us.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A change that waits longer is not followed but forgotten.
const LONGEST_SETTLE: Duration = Duration::from_secs(3_600);

/// Settings that flags give; they win over everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    pub catalog: Option<String>,
    pub listen: Option<String>,
    pub admin: Option<String>,
}

/// Reads settings from a file (its name and text), the environment and flags; also the warnings.
///
/// # Errors
/// All that was found, warnings included; at least one is an error.
pub fn read(
    file: Option<(&str, &str)>,
    environment: impl Iterator<Item = (String, String)>,
    flags: Flags,
) -> Result<(Settings, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut found = Vec::new();
    let Some(mut root) = root(file, &mut found) else { return Err(found) };
    // The file is judged by itself first: what is wrong in it stays wrong, even if a variable stands above it.
    found.extend(check::check(&root, &SETTINGS));
    environment::overlay(&mut root, environment, &mut found);
    environment::overlay_flag(&mut root, "--catalog", &["catalog", "source"], flags.catalog);
    environment::overlay_flag(&mut root, "--listen", &["listen"], flags.listen);
    environment::overlay_flag(&mut root, "--admin", &["admin"], flags.admin);
    found.extend(check::check(&root, &SETTINGS));
    unavailable::check(&root, &mut found);
    let settings = Reader { root: &root, found: &mut found }.settings();
    found.sort_by(|a, b| (&a.place, a.severity, a.code, &a.message).cmp(&(&b.place, b.severity, b.code, &b.message)));
    found.dedup();
    if acceptable(&found) { Ok((settings, found)) } else { Err(found) }
}

fn root(file: Option<(&str, &str)>, found: &mut Vec<Diagnostic>) -> Option<Node> {
    let Some((name, text)) = file else { return Some(Node { value: Value::Null, place: Place::whole("settings") }) };
    let (node, faults) = document::parse(name, text, Format::of(name));
    found.extend(faults);
    node
}

struct Reader<'r> {
    root: &'r Node,
    found: &'r mut Vec<Diagnostic>,
}

impl<'r> Reader<'r> {
    fn settings(mut self) -> Settings {
        let default = Settings::default();
        let extract = self.extract(default.extract);
        Settings {
            listen: self.address("listen").unwrap_or(default.listen),
            admin: self.address("admin").unwrap_or(default.admin),
            admin_hosts: self.admin_hosts().unwrap_or(default.admin_hosts),
            probe: if self.text("probe").is_none_or(str::is_empty) { None } else { self.address("probe") },
            catalog: self.catalog(default.catalog),
            publish: self.publish(default.publish, &extract.plan),
            extract,
            limits: self.limits(&default.limits, default.server.max_message),
            session: self.session(&default.session),
            feedback: self.feedback(default.feedback),
            attempts: self.attempts(default.attempts),
            server: self.server(&default.server),
            secret_file: self.file("secret_file").or(default.secret_file),
            admin_token_file: self.file("admin_token_file").or(default.admin_token_file),
            telemetry: self.telemetry(default.telemetry),
        }
    }

    fn catalog(&mut self, default: CatalogSettings) -> CatalogSettings {
        let settle = self.time("catalog.settle", LONGEST_SETTLE).unwrap_or(default.settle);
        let settle_loosening = self.time("catalog.settle_loosening", LONGEST_SETTLE).unwrap_or(default.settle_loosening);
        if settle_loosening < settle {
            let path = if self.at("catalog.settle_loosening").is_some() { "catalog.settle_loosening" } else { "catalog.settle" };
            let message =
                "`catalog.settle_loosening` is shorter than `catalog.settle`: what opens something must wait at least as long";
            self.fault("bad-value", path, message);
        }
        CatalogSettings {
            source: self.text("catalog.source").map_or(default.source, str::to_owned),
            // However little is asked for: the loader knows how often it can read.
            refresh: self.time("catalog.refresh", Duration::MAX).unwrap_or(default.refresh),
            settle,
            settle_loosening,
            last_good: self.file("catalog.last_good").or(default.last_good),
        }
    }

    fn publish(&mut self, default: Publish, plan: &Plan) -> Publish {
        let text = |reader: &Self, path: &str, default: String| reader.text(path).map_or(default, str::to_owned);
        let publish = Publish {
            namespace: text(self, "publish.namespace", default.namespace),
            encoding: match self.text("publish.encoding") {
                Some("typed") => Encoding::Typed,
                Some("untyped") => Encoding::Untyped,
                _ => default.encoding,
            },
            decision_namespace: text(self, "publish.decision_namespace", default.decision_namespace),
            endpoint_namespace: text(self, "publish.endpoint_namespace", default.endpoint_namespace),
            sticky_header: self.header("publish.sticky_header", default.sticky_header, plan),
            decision_header: self.header("publish.decision_header", default.decision_header, plan),
            requested_model: match self.text("publish.requested_model") {
                Some("always") => ShowModel::Always,
                Some("never") => ShowModel::Never,
                Some("authenticated") => ShowModel::Authenticated,
                _ => default.requested_model,
            },
            decision_id_header: self.header("publish.decision_id_header", default.decision_id_header, plan),
        };
        // Each namespace is written whole, so that two uses of one would overwrite each other.
        let clash = "two namespaces of `publish` are the same: one answer would overwrite the other";
        let names = [&publish.namespace, &publish.decision_namespace, &publish.endpoint_namespace];
        if names[0] == names[1] || names[0] == names[2] || names[1] == names[2] {
            let paths = ["publish.endpoint_namespace", "publish.decision_namespace", "publish.namespace"];
            let written = paths.into_iter().find(|path| self.at(path).is_some()).unwrap_or("publish");
            self.fault("same-namespace", written, clash);
        }
        if !publish.sticky_header.is_empty() && publish.sticky_header == publish.decision_header {
            let message = "`publish.sticky_header` and `publish.decision_header` are the same: a header can hold one of them";
            self.fault("bad-value", "publish.sticky_header", message);
        }
        if !publish.sticky_header.is_empty() && self.path("secret_file").is_none() {
            let warning =
                "a session's number is made with a random key: it changes when the process restarts, and replicas disagree";
            self.warn("random-secret", "publish.sticky_header", warning, "give every replica the same `secret_file`");
        }
        publish
    }

    fn extract(&mut self, default: Extract) -> Extract {
        let trouble = |word: Option<&str>, default: OnTrouble| match word {
            Some("reject") => OnTrouble::Reject,
            Some("pass_through") => OnTrouble::PassThrough,
            _ => default,
        };
        let plan = Plan {
            model: self.sources("extract.model", Field::Model, default.plan.model),
            tenant: self.sources("extract.tenant", Field::Tenant, default.plan.tenant),
            session: self.sources("extract.session", Field::Session, default.plan.session),
            on_duplicate_key: match self.text("extract.on_duplicate_key") {
                Some("last") => OnDuplicateKey::Last,
                Some("reject") => OnDuplicateKey::Reject,
                _ => default.plan.on_duplicate_key,
            },
        };
        if let Some(node) =
            self.at("extract.model").filter(|node| node.items().is_empty() && matches!(node.value, Value::List(_)))
        {
            let warning =
                Diagnostic::warning("no-model-source", &node.place, "`extract.model` is empty: no request will have a model");
            self.found.push(warning.hint("remove the key for the default, `[{dialect: auto}]`"));
        }
        Extract {
            plan,
            on_missing_model: trouble(self.text("extract.on_missing_model"), default.on_missing_model),
            on_malformed_body: trouble(self.text("extract.on_malformed_body"), default.on_malformed_body),
        }
    }

    fn sources(&mut self, path: &str, field: Field, default: Vec<Source>) -> Vec<Source> {
        match self.at(path) {
            Some(node) => sources::read(node, field, self.found),
            None => default,
        }
    }

    fn limits(&mut self, default: &Limits, max_message: u64) -> Limits {
        let limits = Limits {
            max_body: self.size("limits.max_body").unwrap_or(default.max_body),
            max_decompressed: self.size("limits.max_decompressed").unwrap_or(default.max_decompressed),
            max_codings: self.integer("limits.max_codings").unwrap_or(default.max_codings),
            max_depth: self.integer("limits.max_depth").unwrap_or(default.max_depth),
            session_scan: self.size("limits.session_scan").unwrap_or(default.session_scan),
            held_bodies: self.size("limits.held_bodies").unwrap_or(default.held_bodies),
            body_wait: self.time("limits.body_wait", Duration::MAX).unwrap_or(default.body_wait),
            decision_deadline: self.time("limits.decision_deadline", LONGEST_WAIT).unwrap_or(default.decision_deadline),
        };
        let max_message = self.size("server.max_message").unwrap_or(max_message);
        if limits.max_body >= max_message {
            let place = ["limits.max_body", "server.max_message"]
                .iter()
                .find_map(|path| self.at(path))
                .unwrap_or(self.root)
                .place
                .clone();
            let message =
                "`limits.max_body` is not below `server.max_message`: a buffered body is one message, and gRPC refuses it first";
            let warning = Diagnostic::warning("limits-disagree", &place, message);
            self.found.push(warning.hint("let `server.max_message` be some MiB larger"));
        }
        limits
    }

    fn telemetry(&mut self, default: Telemetry) -> Telemetry {
        let log = self.text("telemetry.log").map_or(default.log, str::to_owned);
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&log) {
            let message = format!("`telemetry.log` is no log filter: {error}; try `info`, `debug` or `info,cascade=debug`");
            self.fault("bad-value", "telemetry.log", &message);
        }
        let log_format = match self.text("telemetry.log_format") {
            Some("json") => LogFormat::Json,
            Some("text") => LogFormat::Text,
            _ => default.log_format,
        };
        Telemetry { log, log_format }
    }

    fn at(&self, path: &str) -> Option<&'r Node> {
        path.split('.').try_fold(self.root, Node::get)
    }

    fn text(&self, path: &str) -> Option<&'r str> {
        self.at(path)?.text()
    }

    fn fault(&mut self, code: &'static str, path: &str, message: &str) {
        let place = self.at(path).unwrap_or(self.root).place.clone();
        self.found.push(Diagnostic::error(code, &place, message));
    }

    /// A path of the file system, which is shown where it cannot be opened; an address may hold a password.
    fn file(&mut self, path: &str) -> Option<String> {
        if self.text(path).is_some_and(is_address) {
            self.fault("bad-value", path, &format!("`{path}` must be a path of the file system, not an address"));
        }
        self.path(path)
    }

    /// A text; empty is none.
    fn path(&self, path: &str) -> Option<String> {
        self.text(path).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn duration(&self, path: &str) -> Option<Duration> {
        parse_duration(self.text(path)?).ok()
    }

    /// How long something takes or is awaited: never no time at all.
    fn time(&mut self, path: &str, longest: Duration) -> Option<Duration> {
        let time = self.duration(path)?;
        if time.is_zero() {
            self.fault("bad-value", path, &format!("`{path}` must be more than 0s"));
        } else if time > longest {
            self.fault("bad-value", path, &format!("`{path}` may be {}s at most", longest.as_secs()));
        }
        Some(time)
    }

    fn size(&self, path: &str) -> Option<u64> {
        parse_size(self.text(path)?).ok()
    }

    fn integer<N: TryFrom<i64>>(&self, path: &str) -> Option<N> {
        N::try_from(self.at(path)?.integer()?).ok()
    }

    fn address(&mut self, path: &str) -> Option<Address> {
        match Address::parse(self.text(path)?) {
            Ok(address) => Some(address),
            Err(fault) => {
                self.fault("bad-address", path, &format!("`{path}` is no address: {fault}"));
                None
            }
        }
    }
}
