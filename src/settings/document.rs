//! What may stand in `cascade.yaml`: the table behind its checks, its JSON Schema, the environment's names and the help in editors.
//! The defaults here are for people; those that count are in [`super::Settings`], and a test holds the two together.

use crate::document::schema;
use crate::document::shape::{Field, Record, Shape, field};

/// The whole file.
pub static SETTINGS: Shape = Shape::Record(&TOP);

/// The JSON Schema of the settings: what `cascade schema settings` prints.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schema::of(&SETTINGS, "The settings of Cascade, cascade.yaml")
}

pub(super) static TOP: Record = Record {
    title: "the settings",
    fields: &[
        field("$schema", Shape::Text, "Where an editor finds the JSON Schema of this file. Means nothing to Cascade."),
        field("listen", Shape::Text, "Where Envoy reaches the processor: `host:port` or `unix:/path`. Port 0 takes a free one.")
            .default("\"127.0.0.1:50051\""),
        field("admin", Shape::Text, "Where people reach health, metrics, `/catalog` and `/explain`: `host:port` or `unix:/path`.")
            .default("\"127.0.0.1:9091\""),
        field("admin_hosts", Shape::List(&Shape::Name), "Host names under which `admin` may be asked, beside IP addresses and the name in `admin`. Requests for another name are refused: a web page could have made a browser send them. A Unix socket takes any.")
            .default("[\"localhost\"]")
            .example("[\"localhost\", \"cascade.monitoring.svc\"]"),
        field("probe", Shape::Text, "A second address with `/livez`, `/readyz`, `/healthz` and `/metrics` only, for the kubelet and Prometheus. Empty: none.")
            .default("\"\""),
        field("catalog", CATALOG, "Where the catalog comes from."),
        field("publish", PUBLISH, "How decisions reach Envoy."),
        field("extract", EXTRACT, "Where a request says its model, tenant and session. The first source with a value wins."),
        field("limits", LIMITS, "What one request may cost."),
        field("session", SESSION, "Which provider holds a session's state."),
        field("feedback", FEEDBACK, "What Envoy's access log tells of providers that fail."),
        field("attempts", ATTEMPTS, "What Envoy is asked for each attempt of a chain. It needs `mutation_rules: {allow_envoy: true}` on Envoy's ext_proc filter; without it Envoy drops these headers and its route's own numbers hold."),
        field("server", SERVER, "The gRPC server."),
        field("secret_file", Shape::Text, "A file of keys, one a line, at least 16 characters each (`openssl rand -base64 32`), shared by replicas and read again when it changes: the first one signs, all verify. A file that is emptied or removed takes no key back: those before stay in use, and the log says so every minute. Empty: a random key per process.")
            .default("\"\""),
        field("admin_token_file", Shape::Text, "A file of tokens, one a line, at least 16 characters each, read again when it changes; emptied, removed or unusable it allows nobody: cooling and clearing a cluster at `admin` then takes one of them (`authorization: Bearer …`), at every address. Empty: only a loopback address or a Unix socket allows it.")
            .default("\"\""),
        field("tls", TLS, "Certificates for the gRPC server. Not in this version: anything but `{}` is an error. Use a Unix socket or a sidecar."),
        field("telemetry", TELEMETRY, "Logs and traces."),
    ],
};

const ATTEMPTS: Shape = Shape::Record(&Record {
    title: "the settings of attempts",
    fields: &[
        field("exact_retries", Shape::Bool, "True asks Envoy for exactly as many retries as the request's chain has groups, less one, whatever the route's `num_retries` says.")
            .default("true"),
        field("timeout", Shape::Text, "How long one attempt may take up to its response headers, which for an answer that does not stream is the whole generation; then Envoy tries the next group. A model's `attempt_timeout` wins. Empty: Envoy's own.")
            .default("\"\"")
            .example("\"120s\""),
        field("stream_timeout", Shape::Text, "The same for a request whose answer streams (`stream: true`, or a path that says so). A model's `stream_attempt_timeout` wins. Empty: as for any other request.")
            .default("\"\"")
            .example("\"20s\""),
        field("hold_first_byte", Shape::Bool, "Holds an answer until its first event. Not in this version: `true` is an error.").default("false"),
    ],
});

const CATALOG: Shape = Shape::Record(&Record {
    title: "the catalog's settings",
    fields: &[
        field("source", Shape::Name, "A file, a directory, or an http(s) URL.").default("\"catalogs/quickstart\""),
        field("refresh", Shape::Duration, "How often the source is read again, beside file events.").default("\"5s\""),
        field("settle", Shape::Duration, "How long a changed file or directory must stay as it is before the change comes into use.")
            .default("\"1s\""),
        field(
            "settle_loosening",
            Shape::Duration,
            "The same for a change that takes something away or opens something: a file, a tenant or a restriction that is gone, a tenant that is new. A half-written file looks like that.",
        )
        .default("\"10s\""),
        field(
            "last_good",
            Shape::Text,
            "A directory for the last accepted catalog: served at start if the source is bad or away. Empty: none.",
        )
        .default("\"\""),
    ],
});

const PUBLISH: Shape = Shape::Record(&Record {
    title: "how decisions are published",
    fields: &[
        field("namespace", Shape::Name, "The metadata namespace of the override: Envoy's `override_metadata_namespace`.").default("\"cascade\""),
        field("encoding", Shape::Choice(&["untyped", "typed"]), "How the override is written; never both.").default("\"untyped\""),
        field("decision_namespace", Shape::Text, "The metadata namespace of the decision's facts, for access logs. Empty: not published.")
            .default("\"cascade.decision\""),
        field("endpoint_namespace", Shape::Name, "The metadata namespace that chooses endpoints inside a cluster.").default("\"envoy.lb\""),
        field("sticky_header", Shape::Text, "A header with a number made of the session, for groups that only Envoy knows (its `header_name`). Clients' own are removed. Empty: none.")
            .default("\"\"")
            .example("\"x-cascade-pick\""),
        field("decision_header", Shape::Text, "The header that brings the decision back through Envoy's access log while feedback is on. Clients' own are removed. Empty: none.")
            .default("\"x-cascade-decision\""),
        field("requested_model", Shape::Choice(&["authenticated", "always", "never"]), "Whose models are published as they were sent (`requested_model` of the decision) though the catalog does not know them: those of tenants that it knows, everybody's, or nobody's. Only names of up to 64 letters, digits and `-._:/@+`; any other is published as a hash.")
            .default("\"authenticated\""),
        field("decision_id_header", Shape::Text, "A response header with the decision's id on every refusal. Envoy adds it to all other answers: see docs/decision.md. Empty: none.")
            .default("\"\"")
            .example("\"x-cascade-decision-id\""),
    ],
});

const TROUBLE: Shape = Shape::Choice(&["pass_through", "reject"]);

const EXTRACT: Shape = Shape::Record(&Record {
    title: "where facts are found",
    fields: &[
        field("model", Shape::List(&SOURCE), "Where the model is found.").default("[{\"dialect\": \"auto\"}]"),
        field(
            "tenant",
            Shape::List(&SOURCE),
            "Where the tenant is found. What a client can write counts only with `trusted: true`.",
        )
        .default("[]")
        .example("[{\"header\": \"x-tenant-id\", \"trusted\": true}]"),
        field("session", Shape::List(&SOURCE), "Where the session is found.")
            .default("[{\"header\": \"x-session-id\"}, {\"body\": \"/session\"}]"),
        field("on_missing_model", TROUBLE, "For a request without a model.").default("\"pass_through\""),
        field("on_malformed_body", TROUBLE, "For a body that is not what it claims to be.").default("\"pass_through\""),
        field("on_duplicate_key", Shape::Choice(&["reject", "last"]), "For a key that is read and appears twice in one body.")
            .default("\"reject\""),
    ],
});

static SOURCE: Shape = Shape::Record(&Record { title: "a source", fields: SOURCE_FIELDS });

pub(super) const SOURCE_FIELDS: &[Field] = &[
    field("dialect", Shape::Choice(&["auto"]), "The model, wherever the API of the path puts it: body, path or form."),
    field("header", Shape::Name, "A request header."),
    field("cookie", Shape::Name, "A cookie."),
    field("query", Shape::Name, "A parameter of the query."),
    field("path", Shape::Text, "A template of the path with one `{name}`; `**` stands for any rest.")
        .example("\"/openai/deployments/{model}/**\""),
    field("body", Shape::Text, "A JSON pointer into the body.").example("\"/metadata/tenant\""),
    field("multipart", Shape::Name, "A part of a multipart body that is no file."),
    field("form", Shape::Name, "A field of a form."),
    field("attribute", Shape::Name, "An Envoy attribute, if `request_attributes` sends it.").example("\"source.address\""),
    field("metadata", METADATA, "Dynamic metadata, if Envoy forwards its namespace."),
    field("api_key", API_KEY, "An API key; the catalog knows its hash. Tenants only."),
    field("value", Shape::Text, "Always this."),
    field("trusted", Shape::Bool, "True says: my Envoy sets or strips this, so a client cannot forge it.").default("false"),
];

const METADATA: Shape = Shape::Record(&Record {
    title: "a value in metadata",
    fields: &[
        field("namespace", Shape::Name, "The namespace.").example("\"envoy.filters.http.jwt_authn\"").required(),
        field("path", Shape::List(&Shape::Name), "The keys that lead to the value.")
            .example("[\"claims\", \"tenant\"]")
            .required(),
    ],
});

const API_KEY: Shape = Shape::Record(&Record {
    title: "an API key",
    fields: &[
        field("header", Shape::Name, "The header that carries it.").default("\"authorization\""),
        field("scheme", Shape::Text, "What stands before the key, in any case. Empty: nothing does.").default("\"Bearer\""),
    ],
});

const LIMITS: Shape = Shape::Record(&Record {
    title: "the limits",
    fields: &[
        field("max_body", Shape::Size, "The longest body that is read before the model is found.").default("\"32MiB\""),
        field("max_decompressed", Shape::Size, "The same for a body that comes compressed.").default("\"64MiB\""),
        field(
            "max_codings",
            Shape::Integer(0, 4),
            "How many codings a compressed body may have (`content-encoding: gzip, br` has two); with more it is malformed.",
        )
        .default("1"),
        field("max_depth", Shape::Integer(1, 1024), "How deep JSON may be nested.").default("128"),
        field("session_scan", Shape::Size, "How far a body is read for the session once the model is known.")
            .default("\"64KiB\""),
        field("held_bodies", Shape::Size, "What all requests together may hold of bodies at a time; one tenant a quarter of it at most, and so all whose tenant is not known. Beyond it a body is `overloaded`.")
            .default("\"256MiB\""),
        field("body_wait", Shape::Duration, "How long the client's bytes are awaited.").default("\"30s\""),
        field("decision_deadline", Shape::Duration, "How long a decision may take once all its bytes are there: 1m at most.")
            .default("\"150ms\""),
    ],
});

const SESSION: Shape = Shape::Record(&Record {
    title: "the session settings",
    fields: &[
        field("directory", Shape::Choice(&["none", "memory", "http", "redis"]), "Where sessions are looked up.")
            .default("\"none\""),
        field("sticky", Shape::Bool, "True keeps a session on one cluster of each group.").default("false"),
        field("url", Shape::Text, "The directory's URL; `{tenant}`, `{model}` and `{session}` are percent-encoded.")
            .example("\"http://directory.internal/s/{tenant}/{model}/{session}\""),
        field(
            "key",
            Shape::Text,
            "The key in Redis, and in memory. Between two parts stands what no part can hold, as `/` or `:`.",
        )
        .default("\"cascade:session:{tenant}/{model}/{session}\""),
        field("timeout", Shape::Duration, "How long an answer is awaited: 1m at most.").default("\"50ms\""),
        field("ttl", Shape::Duration, "How long an answer is believed that has no `ttl_seconds`; with `learn`, also how long what was learned is remembered.").default("\"30s\""),
        field("negative_ttl", Shape::Duration, "How long it is remembered that a session is unknown.").default("\"1s\""),
        field("capacity", Shape::Integer(1, 100_000_000), "How many answers are remembered.").default("100000"),
        field("learn", Shape::Bool, "True remembers what served a session, and sends it back there. Needs `feedback.enabled`.")
            .default("false"),
        field("learn_endpoint", Shape::Bool, "With `learn`, true remembers the address as well: for clusters under `override_host`.")
            .default("false"),
        field("on_unavailable", Shape::Choice(&["continue", "reject"]), "For a directory that does not answer.")
            .default("\"continue\""),
    ],
});

const FEEDBACK: Shape = Shape::Record(&Record {
    title: "the feedback settings",
    fields: &[
        field("enabled", Shape::Bool, "True receives Envoy's access log and lets failing clusters cool down.").default("false"),
        field("listen", Shape::Text, "An address for the access log alone: `host:port` or `unix:/path`. `listen` then refuses log entries, so that whoever can ask for decisions cannot cool clusters. Empty: it comes to `listen`.")
            .default("\"\""),
        field("log_name", Shape::Name, "The name of the log in Envoy's configuration.").default("\"cascade\""),
        field("statuses", Shape::List(&Shape::Integer(100, 599)), "Statuses that count as failures.")
            .default("[429, 500, 502, 503, 504, 529]"),
        field("consecutive_failures", Shape::Integer(1, 1_000_000), "How many failures in a row cool a cluster.").default("3"),
        field("cooldown", Shape::Duration, "How long a cluster cools at first.").default("\"10s\""),
        field("max_cooldown", Shape::Duration, "How long it cools at most.").default("\"5m\""),
        field("share", Shape::Choice(&["none", "redis"]), "Whether replicas tell each other what cools and what people say of clusters: `redis` through the Redis of `session`.").default("\"none\""),
        field("share_key", Shape::Name, "The key of the stream in Redis. Replicas before the same providers share one.").default("\"cascade:cooldowns\""),
    ],
});

const SERVER: Shape = Shape::Record(&Record {
    title: "the server's settings",
    fields: &[
        field("drain", Shape::Duration, "How long streams may go on after SIGTERM.").default("\"10s\""),
        field(
            "max_connections",
            Shape::Integer(1, 1_000_000),
            "gRPC connections at once, of all addresses. New ones over it are closed at once, and counted.",
        )
        .default("10000"),
        field("max_concurrent_streams", Shape::Integer(1, 1_000_000), "Streams per connection; Envoy opens one per request.")
            .default("1024"),
        field("max_message", Shape::Size, "The largest message; a buffered body is one message.").default("\"64MiB\""),
    ],
});

const TLS: Shape = Shape::Record(&Record {
    title: "the TLS settings",
    fields: &[
        field("cert", Shape::Text, "The certificate's file (PEM)."),
        field("key", Shape::Text, "The private key's file (PEM)."),
        field("client_ca", Shape::Text, "The file of the CA that clients' certificates must come from."),
        field("san", Shape::List(&Shape::Text), "Names of which a client's certificate must have one."),
        field("min_version", Shape::Choice(&["1.2", "1.3"]), "The oldest version of TLS."),
    ],
});

const TELEMETRY: Shape = Shape::Record(&Record {
    title: "the telemetry settings",
    fields: &[
        field("log", Shape::Text, "A log filter: `info`, `debug`, `info,cascade=debug`.").default("\"info\""),
        field("log_format", Shape::Choice(&["text", "json"]), "How log lines are written.").default("\"text\""),
        field("otlp_endpoint", Shape::Text, "Where traces are sent. Not in this version: anything but empty is an error.")
            .default("\"\""),
    ],
});

/// The field that a path of names leads to, through records only.
pub(super) fn find(path: &[String]) -> Option<&'static Field> {
    let (mut record, mut found) = (&TOP, None);
    for (at, name) in path.iter().enumerate() {
        let field = record.fields.iter().find(|field| field.name == name)?;
        found = Some(field);
        match field.shape {
            Shape::Record(inner) => record = inner,
            _ if at + 1 == path.len() => {}
            _ => return None,
        }
    }
    found
}

/// Every variable that is known, for "did you mean".
pub(super) fn variables() -> Vec<String> {
    fn walk(record: &Record, prefix: &str, names: &mut Vec<String>) {
        for field in record.fields.iter().filter(|field| !field.name.starts_with('$')) {
            let name = format!("{prefix}{}", field.name.to_uppercase());
            if let Shape::Record(inner) = field.shape {
                walk(inner, &format!("{name}__"), names);
            }
            names.push(name);
        }
    }
    let mut names = Vec::new();
    walk(&TOP, super::environment::PREFIX, &mut names);
    names
}
