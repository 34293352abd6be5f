//! The settings of the process: what `cascade.yaml`, the environment and flags may say, with every default. Reading them is
//! `settings/read`'s work; nothing here acts.

mod address;
pub(crate) mod document;
mod environment;
mod place;
pub mod read;
mod server;
mod sources;
#[cfg(test)]
mod tests;
mod unavailable;

use std::time::Duration;

pub use self::address::Address;
pub use self::server::Server;
use crate::explain::Rules;
use crate::extract;
use crate::extract::source::Plan;
use crate::health;
pub use crate::outcome::OnTrouble;
use crate::resolve::Policy;
pub use crate::resolve::attempts::AttemptRules;
use crate::session::template::Template;
pub use document::{SETTINGS, json_schema};

pub const MIB: u64 = 1024 * 1024;

#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: Address,
    pub admin: Address,
    /// Names of hosts under which `admin` may be asked, beside IP addresses and the name in `admin` itself.
    pub admin_hosts: Vec<String>,
    /// A second address with the probes and metrics only.
    pub probe: Option<Address>,
    pub catalog: CatalogSettings,
    pub publish: Publish,
    pub extract: Extract,
    pub limits: Limits,
    pub session: Session,
    pub feedback: Feedback,
    pub attempts: AttemptRules,
    pub server: Server,
    pub secret_file: Option<String>,
    /// Tokens of people who may cool and clear clusters.
    pub admin_token_file: Option<String>,
    pub telemetry: Telemetry,
}

#[derive(Debug, Clone)]
pub struct CatalogSettings {
    /// A file, a directory or an http(s) URL.
    pub source: String,
    pub refresh: Duration,
    /// How long a change must stay as it is before it comes into use.
    pub settle: Duration,
    /// The same for a change that takes something away or opens something.
    pub settle_loosening: Duration,
    /// A directory for the last accepted snapshot.
    pub last_good: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    pub namespace: String,
    pub encoding: Encoding,
    /// Empty: the decision is not published.
    pub decision_namespace: String,
    pub endpoint_namespace: String,
    /// Empty: none. Removed from every request that carries it.
    pub sticky_header: String,
    /// Empty: none. Removed from every request that carries it.
    pub decision_header: String,
    pub requested_model: ShowModel,
    /// The response header of a refusal that holds the decision's id. Empty: none.
    pub decision_id_header: String,
}

/// Whose unknown models are published as they were sent, so that somebody sees the slip; a hash for everybody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShowModel {
    /// Of tenants that the catalog knows.
    Authenticated,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Untyped,
    Typed,
}

#[derive(Debug, Clone)]
pub struct Extract {
    pub plan: Plan,
    pub on_missing_model: OnTrouble,
    pub on_malformed_body: OnTrouble,
}

impl Settings {
    /// The names under which the admin address may be asked: those of the settings, and the one that it was given by.
    #[must_use]
    pub fn admin_hosts(&self) -> Vec<String> {
        let own = match &self.admin {
            Address::Tcp(address) => address.rsplit_once(':').map(|(host, _)| host.to_owned()),
            Address::Unix(_) => None,
        };
        self.admin_hosts.iter().cloned().chain(own).collect()
    }

    /// How requests are read and judged, besides the catalog.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let Session { directory, sticky, on_unavailable, .. } = &self.session;
        Rules {
            plan: self.extract.plan.clone(),
            policy: Policy {
                on_missing_model: self.extract.on_missing_model,
                on_malformed_body: self.extract.on_malformed_body,
                on_session_unavailable: *on_unavailable,
                sticky: *sticky,
            },
            limits: self.limits.extract(),
            attempts: self.attempts,
            session: *sticky || *directory != Directory::None || !self.publish.sticky_header.is_empty(),
        }
    }
}

/// Which provider holds a session's state.
#[derive(Debug, Clone)]
pub struct Session {
    pub directory: Directory,
    pub sticky: bool,
    /// How long one lookup may take.
    pub timeout: Duration,
    /// How long an answer holds that does not say so itself.
    pub ttl: Duration,
    pub negative_ttl: Duration,
    /// How many answers are remembered.
    pub capacity: u64,
    /// What served a session is remembered. There is a directory then, and feedback is on.
    pub learn: bool,
    /// Its address too.
    pub learn_endpoint: bool,
    pub on_unavailable: OnTrouble,
}

/// Where sessions are looked up, and under which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directory {
    None,
    Memory(Template),
    /// The URL.
    Http(Template),
    Redis {
        url: String,
        key: Template,
    },
}

/// Sizes in bytes.
#[derive(Debug, Clone)]
pub struct Limits {
    pub max_body: u64,
    pub max_decompressed: u64,
    /// Codings of a compressed body, one around the other.
    pub max_codings: usize,
    /// Nesting of JSON.
    pub max_depth: usize,
    pub session_scan: u64,
    /// What all streams together hold of bodies, in bytes.
    pub held_bodies: u64,
    pub body_wait: Duration,
    pub decision_deadline: Duration,
}

/// What Envoy's access log tells of attempts, and what comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    pub enabled: bool,
    /// An address for the access log alone; `None`: it comes to `listen`.
    pub listen: Option<Address>,
    /// Entries of other logs are not ours.
    pub log_name: String,
    /// Statuses that count as failures.
    pub statuses: Vec<u16>,
    pub cooling: health::Policy,
    /// Replicas tell each other what cools.
    pub share: Option<Share>,
}

/// Where replicas tell each other what cools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Of a Redis: that of the sessions.
    pub url: String,
    /// The key of the stream there.
    pub key: String,
}

impl Default for Feedback {
    fn default() -> Self {
        Self {
            enabled: false,
            listen: None,
            log_name: "cascade".to_owned(),
            statuses: vec![429, 500, 502, 503, 504, 529],
            cooling: health::Policy::default(),
            share: None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Telemetry {
    /// A filter in `tracing`'s syntax.
    pub log: String,
    pub log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Address::Tcp("127.0.0.1:50051".to_owned()),
            admin: Address::Tcp("127.0.0.1:9091".to_owned()),
            admin_hosts: vec!["localhost".to_owned()],
            probe: None,
            catalog: CatalogSettings {
                source: "catalogs/quickstart".to_owned(),
                refresh: Duration::from_secs(5),
                settle: Duration::from_secs(1),
                settle_loosening: Duration::from_secs(10),
                last_good: None,
            },
            publish: Publish::default(),
            extract: Extract {
                plan: Plan::default(),
                on_missing_model: OnTrouble::PassThrough,
                on_malformed_body: OnTrouble::PassThrough,
            },
            limits: Limits::default(),
            session: Session::default(),
            feedback: Feedback::default(),
            attempts: AttemptRules::default(),
            server: Server::default(),
            secret_file: None,
            admin_token_file: None,
            telemetry: Telemetry { log: "info".to_owned(), log_format: LogFormat::Text },
        }
    }
}

impl Default for Publish {
    fn default() -> Self {
        Self {
            namespace: "cascade".to_owned(),
            encoding: Encoding::Untyped,
            decision_namespace: "cascade.decision".to_owned(),
            endpoint_namespace: "envoy.lb".to_owned(),
            sticky_header: String::new(),
            decision_header: "x-cascade-decision".to_owned(),
            requested_model: ShowModel::Authenticated,
            decision_id_header: String::new(),
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self {
            directory: Directory::None,
            sticky: false,
            timeout: Duration::from_millis(50),
            ttl: Duration::from_secs(30),
            negative_ttl: Duration::from_secs(1),
            capacity: 100_000,
            learn: false,
            learn_endpoint: false,
            on_unavailable: OnTrouble::PassThrough,
        }
    }
}

impl Limits {
    /// The limits that reading a request is held to.
    #[must_use]
    pub fn extract(&self) -> extract::Limits {
        extract::Limits {
            max_body: self.max_body,
            max_decompressed: self.max_decompressed,
            max_codings: self.max_codings,
            max_depth: self.max_depth,
            session_scan: self.session_scan,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body: 32 * MIB,
            max_decompressed: 64 * MIB,
            max_codings: 1,
            max_depth: 128,
            session_scan: 64 * 1024,
            held_bodies: 256 * MIB,
            body_wait: Duration::from_secs(30),
            decision_deadline: Duration::from_millis(150),
        }
    }
}
