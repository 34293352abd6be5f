//! Settings as operators write them. Here: what is taken, and what counts where nothing is written.

mod environment;
mod faults;
mod secrets;
mod sessions;

use std::time::Duration;

use super::read::{Flags, read};
use super::{Address, Directory, Encoding, LogFormat, OnTrouble, Settings, document};
use crate::diagnostic::Diagnostic;
use crate::document::shape::{Record, Shape};
use crate::extract::source::{OnDuplicateKey, Source};
use crate::session::template::Template;

fn from(text: &str) -> Result<(Settings, Vec<Diagnostic>), Vec<Diagnostic>> {
    read(Some(("cascade.yaml", text)), std::iter::empty(), Flags::default())
}

fn with_environment(text: &str, variables: &[(&str, &str)]) -> Result<(Settings, Vec<Diagnostic>), Vec<Diagnostic>> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    read(Some(("cascade.yaml", text)), variables, Flags::default())
}

/// `code place` of each finding.
fn codes(found: &[Diagnostic]) -> Vec<String> {
    found.iter().map(|fault| format!("{} {}", fault.code, fault.place.to_string().trim_start_matches("cascade.yaml:"))).collect()
}

#[test]
fn without_a_file_everything_has_its_default() {
    let (settings, warnings) = read(None, std::iter::empty(), Flags::default()).unwrap();
    assert_eq!(format!("{settings:?}"), format!("{:?}", Settings::default()));
    assert!(warnings.is_empty());
    let (settings, _) = from("# nothing yet\n").unwrap();
    assert_eq!(format!("{settings:?}"), format!("{:?}", Settings::default()));
}

/// A document that writes out every default of the table.
fn all_defaults(record: &Record) -> String {
    let fields = record.fields.iter().filter_map(|field| {
        let value = match field.shape {
            Shape::Record(inner) => all_defaults(inner),
            _ => field.default?.to_owned(),
        };
        Some(format!("\"{}\": {value}", field.name))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

#[test]
fn the_defaults_in_the_table_are_those_that_count() {
    let written = all_defaults(&document::TOP);
    let (settings, warnings) = from(&written).unwrap();
    assert_eq!(format!("{settings:?}"), format!("{:?}", Settings::default()), "{written}");
    assert!(warnings.is_empty());
}

#[test]
fn every_key_of_the_contract_is_taken() {
    let (settings, warnings) = from(
        r#"
listen: unix:/run/cascade.sock
admin: "[::1]:0"
probe: 0.0.0.0:9092
catalog: {source: https://example.com/catalog.yaml, refresh: 1m, last_good: /var/lib/cascade}
publish: {namespace: ns, encoding: typed, decision_namespace: "", endpoint_namespace: lb, sticky_header: X-Pick, decision_header: ""}
extract:
  model: [{header: X-Model}, {path: "/deployments/{model}/**"}, {multipart: model}, {form: model}, {dialect: auto}]
  tenant:
  - {api_key: {header: Authorization, scheme: Bearer}}
  - {metadata: {namespace: envoy.filters.http.jwt_authn, path: [claims, tenant]}}
  - {attribute: source.principal}
  - {cookie: t, trusted: true}
  - {value: everyone}
  session: [{query: s}]
  on_missing_model: reject
  on_malformed_body: reject
  on_duplicate_key: last
limits: {max_body: 1MiB, max_decompressed: 2MiB, max_depth: 64, session_scan: 1KiB, body_wait: 2s, decision_deadline: 20ms}
session: {directory: redis, sticky: false, url: "redis://d", key: "k/{tenant}/{session}", timeout: 50ms, ttl: 30s, negative_ttl: 1s, capacity: 100000, learn: false, learn_endpoint: false, on_unavailable: continue}
feedback: {enabled: true, log_name: attempts, statuses: [429, 529], consecutive_failures: 5, cooldown: 20s, max_cooldown: 1h, share: none}
server: {drain: 1s, max_concurrent_streams: 100, max_message: 3MiB}
secret_file: /etc/cascade/secret
tls: {}
telemetry: {log: "warn,cascade=debug", log_format: json, otlp_endpoint: ""}
"#,
    )
    .unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(settings.listen, Address::Unix("/run/cascade.sock".to_owned()));
    assert_eq!(settings.admin, Address::Tcp("[::1]:0".to_owned()));
    assert_eq!(settings.probe, Some(Address::Tcp("0.0.0.0:9092".to_owned())));
    assert_eq!(settings.catalog.refresh, Duration::from_secs(60));
    assert_eq!(settings.catalog.last_good.as_deref(), Some("/var/lib/cascade"));
    assert_eq!(settings.publish.encoding, Encoding::Typed);
    assert_eq!((settings.publish.sticky_header.as_str(), settings.publish.decision_header.as_str()), ("x-pick", ""));
    assert_eq!(settings.extract.plan.model[0], Source::Header("x-model".to_owned()));
    assert_eq!(settings.extract.plan.tenant.len(), 5);
    assert_eq!(settings.extract.plan.session, [Source::Query("s".to_owned())]);
    assert_eq!(settings.extract.plan.on_duplicate_key, OnDuplicateKey::Last);
    assert_eq!((settings.extract.on_missing_model, settings.extract.on_malformed_body), (OnTrouble::Reject, OnTrouble::Reject));
    assert_eq!((settings.limits.max_body, settings.limits.decision_deadline), (1 << 20, Duration::from_millis(20)));
    assert_eq!((settings.server.max_concurrent_streams, settings.server.max_message), (100, 3 << 20));
    let key = Template::parse("k/{tenant}/{session}").unwrap();
    assert_eq!(settings.session.directory, Directory::Redis { url: "redis://d".to_owned(), key });
    let feedback = &settings.feedback;
    assert_eq!((feedback.enabled, feedback.log_name.as_str(), feedback.statuses.as_slice()), (true, "attempts", &[429, 529][..]));
    let cooling = feedback.cooling;
    assert_eq!((cooling.consecutive_failures, cooling.cooldown.as_secs(), cooling.max_cooldown.as_secs()), (5, 20, 3600));
    assert_eq!(settings.secret_file.as_deref(), Some("/etc/cascade/secret"));
    assert_eq!(settings.telemetry.log_format, LogFormat::Json);
}
