//! Envoy's configuration, written from a small description. The defaults are those of a gateway that falls back well; whoever
//! wants to see a trap changes the one setting it is about. What a full configuration for production looks like is the business
//! of `examples/envoy`; this one is only as long as a laboratory needs.

mod yaml;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::Endpoint;

/// The namespace from which `priority_group` reads the override.
pub const OVERRIDE_NAMESPACE: &str = "cascade";
/// The namespace whose content the access log shows as `decision`.
pub const DECISION_NAMESPACE: &str = "cascade.decision";

/// ext_proc's `request_body_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyMode {
    None,
    Buffered,
    BufferedPartial,
    Streamed,
    FullDuplexStreamed,
}

impl fmt::Display for BodyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "NONE",
            Self::Buffered => "BUFFERED",
            Self::BufferedPartial => "BUFFERED_PARTIAL",
            Self::Streamed => "STREAMED",
            Self::FullDuplexStreamed => "FULL_DUPLEX_STREAMED",
        })
    }
}

/// How Envoy learns that the processor is away before it sends a request there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessorWatch {
    /// By trying.
    Nothing,
    /// A gRPC health check, and no traffic to an unhealthy processor (fact 32).
    HealthCheck,
    /// The first failure ejects it.
    OutlierDetection,
}

/// A provider cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub name: String,
    pub hosts: Vec<SocketAddr>,
    /// Told to Envoy as `health_status: UNHEALTHY`.
    pub unhealthy: bool,
    /// `healthy_panic_threshold` in percent; `None` is Envoy's 50.
    pub panic_threshold: Option<u32>,
    /// A host of priority 1, tried when priority 0 has none (fact 35).
    pub last_resort: Option<SocketAddr>,
    /// Envoy reads the hosts from this file ([`Cluster::assignment`]) and follows it, instead of `hosts` and `last_resort`.
    pub followed: Option<PathBuf>,
    /// It is spoken to in HTTP/2.
    pub http2: bool,
    /// `per_connection_buffer_limit_bytes`; `None` is Envoy's 1 MiB.
    pub buffer_limit: Option<u32>,
    pub own_filters: OwnFilters,
    /// `alt_stat_name`: the name under which Envoy's statistics, and `%UPSTREAM_CLUSTER%`, know it.
    pub alt_stat_name: Option<String>,
}

/// The `http_filters` of a cluster; with any, it skips the router's `upstream_http_filters` (fact 38).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnFilters {
    /// None: the router's count.
    Absent,
    /// One that has nothing to do with Cascade.
    WithoutRole,
    /// The upstream role.
    WithRole,
    /// The filter of the upstream role, which does not say that it is.
    RoleUnnamed,
}

impl Cluster {
    #[must_use]
    pub fn new(name: &str, host: SocketAddr) -> Self {
        Self { hosts: vec![host], ..Self::empty(name) }
    }

    /// A cluster that has no host at all.
    #[must_use]
    pub fn empty(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            hosts: Vec::new(),
            unhealthy: false,
            panic_threshold: None,
            last_resort: None,
            followed: None,
            http2: false,
            buffer_limit: None,
            own_filters: OwnFilters::Absent,
            alt_stat_name: None,
        }
    }
}

/// A group of the static chain: its name, its clusters and their weights.
#[derive(Debug, Clone)]
pub struct Group {
    pub name: String,
    pub clusters: Vec<(String, u32)>,
}

impl Group {
    /// A group of one cluster.
    #[must_use]
    pub fn of(name: &str, cluster: &str) -> Self {
        Self { name: name.to_owned(), clusters: vec![(cluster.to_owned(), 100)] }
    }
}

#[derive(Debug, Clone)]
pub struct EnvoySetup {
    pub clusters: Vec<Cluster>,
    /// What Envoy does without an override; at least one group.
    pub static_chain: Vec<Group>,
    pub processor: Endpoint,
    pub processor_watch: ProcessorWatch,
    pub body_mode: BodyMode,
    pub failure_mode_allow: bool,
    pub allow_mode_override: bool,
    /// The processor may set headers of Envoy's router (facts 52 and 53).
    pub allow_envoy: bool,
    /// The processor sees the headers of responses.
    pub shows_responses: bool,
    pub message_timeout: Duration,
    /// Namespaces that the processor may write, untyped.
    pub untyped: Vec<String>,
    /// Namespaces that the processor may write, typed.
    pub typed: Vec<String>,
    /// `header_name` of the cluster specifier.
    pub header_name: Option<String>,
    /// `per_connection_buffer_limit_bytes` of the listener.
    pub buffer_limit: u32,
    pub num_retries: u32,
    pub refresh_cluster_on_retry: bool,
    /// `max_retries` of each provider cluster's circuit breaker; `None` is Envoy's 3 (fact 33).
    pub max_retries: Option<u32>,
    /// `request_attributes` of ext_proc.
    pub request_attributes: Vec<String>,
    /// Envoy's access log reaches the processor: every attempt and every request (facts 28, 35 and 42).
    pub feedback: bool,
    /// The entry of an attempt says whether its answer was complete.
    pub tells_complete: bool,
    /// `per_try_timeout` of the route; `None`: no limit.
    pub per_try_timeout: Option<Duration>,
    /// `per_try_idle_timeout` of the route; `None`: no limit.
    pub per_try_idle_timeout: Option<Duration>,
    /// `timeout` of the route, for all attempts together.
    pub route_timeout: Duration,
    /// The processor sees every attempt as well (fact 27).
    pub upstream_role: bool,
    /// Connections may become WebSockets.
    pub websockets: bool,
    /// Envoy can be asked to let time pass ([`super::Envoy::let_pass`]).
    pub stopwatch: bool,
    /// Headers that Envoy adds to answers, in its format language.
    pub response_headers: Vec<(String, String)>,
}

impl EnvoySetup {
    /// A gateway in front of these clusters: BUFFERED, fail open, the static chain one group per cluster in this order.
    #[must_use]
    pub fn new(processor: Endpoint, clusters: Vec<Cluster>) -> Self {
        let static_chain = clusters.iter().map(|cluster| Group::of(&cluster.name, &cluster.name)).collect();
        Self {
            clusters,
            static_chain,
            processor,
            processor_watch: ProcessorWatch::Nothing,
            body_mode: BodyMode::Buffered,
            failure_mode_allow: true,
            allow_mode_override: false,
            allow_envoy: true,
            shows_responses: false,
            message_timeout: Duration::from_secs(2),
            untyped: vec![OVERRIDE_NAMESPACE.to_owned(), DECISION_NAMESPACE.to_owned(), "envoy.lb".to_owned()],
            typed: Vec::new(),
            header_name: None,
            buffer_limit: 32 << 20,
            num_retries: 5,
            refresh_cluster_on_retry: true,
            max_retries: Some(1000),
            request_attributes: Vec::new(),
            feedback: false,
            tells_complete: true,
            per_try_timeout: None,
            per_try_idle_timeout: None,
            route_timeout: Duration::from_secs(15),
            upstream_role: false,
            websockets: false,
            stopwatch: false,
            response_headers: Vec::new(),
        }
    }
}
