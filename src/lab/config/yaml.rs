//! The description as Envoy reads it: YAML, with ports that Envoy chooses and access logs on standard output.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use super::{BodyMode, Cluster, DECISION_NAMESPACE, EnvoySetup, OVERRIDE_NAMESPACE, OwnFilters, ProcessorWatch};
use crate::lab::Endpoint;
use crate::lab::trail::ID_HEADER;

/// The filter of the upstream role, and the one that must be the last of every attempt.
const ROLE: &str = r#"{name: envoy.filters.http.ext_proc, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor, grpc_service: {envoy_grpc: {cluster_name: processor}, initial_metadata: [{key: x-cascade-role, value: upstream}]}, failure_mode_allow: true, allow_mode_override: true, request_attributes: [xds.cluster_name], processing_mode: {request_header_mode: SEND, request_body_mode: BUFFERED, response_header_mode: SKIP}}}"#;
/// What makes it the role's.
const NAMED: &str = ", initial_metadata: [{key: x-cascade-role, value: upstream}]";
const CODEC: &str = r#"{name: envoy.filters.http.upstream_codec, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec}}"#;
/// A filter of a cluster's own that knows nothing of Cascade.
const STRANGER: &str = r#"{name: envoy.filters.http.header_mutation, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation, mutations: {request_mutations: [{append: {header: {key: x-own-filter, value: "1"}}}]}}}"#;

impl EnvoySetup {
    /// The configuration. Ports are Envoy's to choose; access logs go to standard output.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let clusters: String = self.clusters.iter().map(|cluster| self.provider(cluster)).collect();
        format!(
            r#"admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}}}
node: {{id: laboratory, cluster: laboratory}}
static_resources:
  listeners:
  - name: ingress
    address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
    per_connection_buffer_limit_bytes: {buffer}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: ingress{upgrades}
          access_log:
{request_log}{request_feedback}
          http_filters:
{stopwatch}{ext_proc}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
              upstream_log:
{attempt_log}{attempt_feedback}{upstream_role}
          route_config:
            virtual_hosts:
            - name: providers
              domains: ["*"]
              include_request_attempt_count: true
              response_headers_to_add: [{response_headers}]
              routes:
              - match: {{prefix: /}}
                route:
{route}
  clusters:
{clusters}{processor}"#,
            buffer = self.buffer_limit,
            upgrades = if self.websockets { "\n          upgrade_configs: [{upgrade_type: websocket}]" } else { "" },
            request_log = access_log(10, "request", &format!(", decision: '%DYNAMIC_METADATA({DECISION_NAMESPACE})%'")),
            stopwatch = self.stopwatch_filter(),
            ext_proc = self.ext_proc(),
            attempt_log = access_log(14, "attempt", ", attempt: '%REQ(x-envoy-attempt-count)%'"),
            request_feedback = self.feedback_log(10),
            attempt_feedback = self.feedback_log(14),
            upstream_role = self.upstream_filters(),
            response_headers = self.response_headers(),
            route = self.route(),
            processor = self.processor(),
        )
    }

    /// A filter that does nothing to requests that do not ask for it in their headers.
    fn stopwatch_filter(&self) -> &'static str {
        if !self.stopwatch {
            return "";
        }
        r#"          - name: envoy.filters.http.fault
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault
              delay: {header_delay: {}, percentage: {numerator: 100}}
              abort: {header_abort: {}, percentage: {numerator: 100}}
"#
    }

    fn ext_proc(&self) -> String {
        // Fact 7: FULL_DUPLEX_STREAMED is refused without the trailers.
        let trailers = if self.body_mode == BodyMode::FullDuplexStreamed { "SEND" } else { "SKIP" };
        format!(
            r#"          - name: envoy.filters.http.ext_proc
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
              grpc_service: {{envoy_grpc: {{cluster_name: processor}}}}
              failure_mode_allow: {fail_open}
              message_timeout: {timeout}s
              allow_mode_override: {mode_override}
              mutation_rules: {{allow_envoy: {allow_envoy}}}
              request_attributes: [{attributes}]
              processing_mode:
                request_header_mode: SEND
                request_body_mode: {mode}
                request_trailer_mode: {trailers}
                response_header_mode: {responses}
              metadata_options: {{receiving_namespaces: {{untyped: [{untyped}], typed: [{typed}]}}}}"#,
            fail_open = self.failure_mode_allow,
            timeout = self.message_timeout.as_secs_f64(),
            mode_override = self.allow_mode_override,
            allow_envoy = self.allow_envoy,
            attributes = self.request_attributes.join(", "),
            mode = self.body_mode,
            responses = if self.shows_responses { "SEND" } else { "SKIP" },
            untyped = self.untyped.join(", "),
            typed = self.typed.join(", "),
        )
    }

    fn feedback_log(&self, indent: usize) -> String {
        if !self.feedback {
            return String::new();
        }
        let pad = " ".repeat(indent);
        let complete = "{tag: answer_complete, value: '%COMMON_DURATION(US_RX_BEG:US_RX_END:ms)%'}";
        let complete = if self.tells_complete { format!(", {complete}") } else { String::new() };
        format!(
            r#"
{pad}- name: envoy.access_loggers.http_grpc
{pad}  typed_config:
{pad}    "@type": type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig
{pad}    common_config:
{pad}      log_name: cascade
{pad}      transport_api_version: V3
{pad}      buffer_flush_interval: 0.05s
{pad}      grpc_service: {{envoy_grpc: {{cluster_name: processor}}}}
{pad}      custom_tags: [{{tag: upstream_cluster, value: '%UPSTREAM_CLUSTER_RAW%'}}{complete}]
{pad}    additional_request_headers_to_log: [x-cascade-decision, x-envoy-attempt-count]
{pad}    additional_response_headers_to_log: [retry-after]"#
        )
    }

    fn upstream_filters(&self) -> String {
        if !self.upstream_role {
            return String::new();
        }
        format!("\n              upstream_http_filters:\n              - {ROLE}\n              - {CODEC}")
    }

    fn response_headers(&self) -> String {
        let header = |(name, value): &(String, String)| format!("{{header: {{key: {name}, value: '{value}'}}}}");
        self.response_headers.iter().map(header).collect::<Vec<_>>().join(", ")
    }

    fn route(&self) -> String {
        let mut groups = String::new();
        for group in &self.static_chain {
            let clusters: Vec<_> =
                group.clusters.iter().map(|(name, weight)| format!("{{cluster_name: {name}, weight: {weight}}}")).collect();
            let _ = write!(groups, "\n                        - {{name: {}, clusters: [{}]}}", group.name, clusters.join(", "));
        }
        let header =
            self.header_name.iter().fold(String::new(), |_, name| format!("\n                        header_name: {name}"));
        format!(
            r#"                  timeout: {timeout}s
                  inline_cluster_specifier_plugin:
                    extension:
                      name: envoy.router.cluster_specifier_plugin.priority_group
                      typed_config:
                        "@type": type.googleapis.com/envoy.extensions.router.cluster_specifiers.priority_group.v3.PriorityGroupClusterSpecifier
                        override_metadata_namespace: {OVERRIDE_NAMESPACE}{header}
                        priority_groups:{groups}
                  retry_policy:
                    retry_on: connect-failure,refused-stream,reset,retriable-status-codes
                    retriable_status_codes: [429, 500, 502, 503, 504]
                    num_retries: {retries}{per_try}{per_try_idle}
                    refresh_cluster_on_retry: {refresh}
                    retry_back_off: {{base_interval: 0.005s, max_interval: 0.01s}}"#,
            timeout = self.route_timeout.as_secs_f64(),
            retries = self.num_retries,
            per_try = limit("per_try_timeout", self.per_try_timeout),
            per_try_idle = limit("per_try_idle_timeout", self.per_try_idle_timeout),
            refresh = self.refresh_cluster_on_retry,
        )
    }

    fn provider(&self, cluster: &Cluster) -> String {
        let panic = cluster.panic_threshold.map_or(String::new(), panic_threshold);
        let breaker =
            self.max_retries.map_or(String::new(), |max| format!(", circuit_breakers: {{thresholds: [{{max_retries: {max}}}]}}"));
        let endpoints = match &cluster.followed {
            None => format!("type: STATIC, load_assignment: {}", cluster.load_assignment()),
            Some(file) => format!(
                "type: EDS, eds_cluster_config: {{eds_config: {{resource_api_version: V3, path_config_source: {{path: '{}'}}}}}}",
                file.display()
            ),
        };
        let protocol = cluster.protocol();
        let buffer = cluster.buffer_limit.map_or(String::new(), |limit| format!(", per_connection_buffer_limit_bytes: {limit}"));
        let alt = cluster.alt_stat_name.iter().fold(String::new(), |_, name| format!(", alt_stat_name: {name}"));
        let all = format!("{alt}{panic}{breaker}{protocol}{buffer}");
        format!("  - {{name: {}, connect_timeout: 1s{all},\n     {endpoints}}}\n", cluster.name)
    }

    fn processor(&self) -> String {
        let address = match &self.processor {
            Endpoint::Tcp(address) => socket(*address),
            Endpoint::Unix(path) => format!("{{pipe: {{path: '{}'}}}}", path.display()),
        };
        let watch = match self.processor_watch {
            ProcessorWatch::Nothing => String::new(),
            ProcessorWatch::HealthCheck => format!(
                "\n    health_checks: [{{timeout: 0.2s, interval: 0.2s, no_traffic_interval: 0.2s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {{}}}}]\n    {}",
                &panic_threshold(0)[2..]
            ),
            ProcessorWatch::OutlierDetection => format!(
                "\n    outlier_detection: {{consecutive_5xx: 1, base_ejection_time: 30s, max_ejection_percent: 100}}\n    {}",
                &panic_threshold(0)[2..]
            ),
        };
        format!(
            r#"  - name: processor
    type: STATIC
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    load_assignment: {{cluster_name: processor, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {address}}}}}]}}]}}{watch}
"#
        )
    }
}

impl Cluster {
    fn protocol(&self) -> String {
        let filters = match self.own_filters {
            OwnFilters::Absent if !self.http2 => return String::new(),
            OwnFilters::Absent => String::new(),
            OwnFilters::WithoutRole => format!(", http_filters: [{STRANGER}, {CODEC}]"),
            OwnFilters::RoleUnnamed => format!(", http_filters: [{}, {CODEC}]", ROLE.replace(NAMED, "")),
            OwnFilters::WithRole => format!(", http_filters: [{STRANGER}, {ROLE}, {CODEC}]"),
        };
        let version = if self.http2 { "http2_protocol_options" } else { "http_protocol_options" };
        format!(
            ", typed_extension_protocol_options: {{envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {{\"@type\": \
             type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: \
             {{{version}: {{}}}}{filters}}}}}"
        )
    }

    fn load_assignment(&self) -> String {
        let status = if self.unhealthy { ", health_status: UNHEALTHY" } else { "" };
        let mut levels = vec![locality(&self.hosts, 0, status)];
        levels.extend(self.last_resort.map(|host| locality(&[host], 1, "")));
        format!("{{cluster_name: {}, endpoints: [{}]}}", self.name, levels.join(", "))
    }

    /// The hosts as the content of a file that Envoy follows: YAML, to be put in place by a rename.
    #[must_use]
    pub fn assignment(&self) -> String {
        let kind = "\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
        self.load_assignment().replacen('{', &format!("resources:\n- {{{kind}, "), 1)
    }
}

/// A line of the retry policy.
fn limit(name: &str, limit: Option<Duration>) -> String {
    limit.map_or(String::new(), |limit| format!("\n                    {name}: {}s", limit.as_secs_f64()))
}

fn panic_threshold(percent: u32) -> String {
    format!(", common_lb_config: {{healthy_panic_threshold: {{value: {percent}}}}}")
}

fn socket(address: SocketAddr) -> String {
    format!("{{socket_address: {{address: '{}', port_value: {}}}}}", address.ip(), address.port())
}

fn locality(hosts: &[SocketAddr], priority: u32, status: &str) -> String {
    let hosts: Vec<_> = hosts.iter().map(|host| format!("{{endpoint: {{address: {}}}{status}}}", socket(*host))).collect();
    format!("{{priority: {priority}, lb_endpoints: [{}]}}", hosts.join(", "))
}

/// One JSON line per `kind`, read back by [`super::trail`].
fn access_log(indent: usize, kind: &str, more: &str) -> String {
    let pad = " ".repeat(indent);
    format!(
        r#"{pad}- name: envoy.access_loggers.stdout
{pad}  typed_config:
{pad}    "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
{pad}    log_format:
{pad}      json_format: {{kind: {kind}, id: '%REQ({ID_HEADER})%', cluster: '%UPSTREAM_CLUSTER%', code: '%RESPONSE_CODE%', flags: '%RESPONSE_FLAGS%'{more}}}"#
    )
}
