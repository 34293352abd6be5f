//! Settings as operators write them: what is taken, what is refused and where.

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
session: {directory: none, sticky: false, url: "http://d/{session}", key: k, timeout: 50ms, ttl: 30s, negative_ttl: 1s, capacity: 100000, learn: false, on_unavailable: continue}
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
    let feedback = &settings.feedback;
    assert_eq!((feedback.enabled, feedback.log_name.as_str(), feedback.statuses.as_slice()), (true, "attempts", &[429, 529][..]));
    let cooling = feedback.cooling;
    assert_eq!((cooling.consecutive_failures, cooling.cooldown.as_secs(), cooling.max_cooldown.as_secs()), (5, 20, 3600));
    assert_eq!(settings.secret_file.as_deref(), Some("/etc/cascade/secret"));
    assert_eq!(settings.telemetry.log_format, LogFormat::Json);
}

#[test]
fn each_fault_has_its_code_and_its_place() {
    for (text, expected) in [
        ("lissen: x\n", "unknown-field 1:1"),
        ("limits:\n  max_bodi: 1MiB\n", "unknown-field 2:3"),
        ("limits: {max_body: 32}\n", "wrong-type 1:20"),
        ("limits: {max_body: 32MB}\n", "bad-value 1:20"),
        ("limits: {body_wait: 5}\n", "wrong-type 1:21"),
        ("limits: {max_depth: 0}\n", "bad-number 1:21"),
        ("server: {max_concurrent_streams: 1.5}\n", "bad-number 1:34"),
        ("catalog: here\n", "wrong-type 1:10"),
        ("catalog: {refresh: 0s}\n", "bad-value 1:20"),
        ("listen: 50051\n", "wrong-type 1:9"),
        ("listen: localhost\n", "bad-address 1:9"),
        ("admin: \"::1:80\"\n", "bad-address 1:8"),
        ("admin: host:99999\n", "bad-address 1:8"),
        ("probe: unix:relative\n", "bad-address 1:8"),
        ("publish: {encoding: both}\n", "bad-choice 1:21"),
        ("publish: {decision_namespace: cascade}\n", "same-namespace 1:31"),
        ("publish: {sticky_header: \"x y\"}\n", "bad-value 1:26"),
        ("publish: {decision_header: host}\n", "bad-value 1:28"),
        ("extract: {model: [{headr: x}]}\n", "unknown-field 1:20"),
        ("extract: {model: [{header: x, cookie: y}]}\n", "bad-source 1:19"),
        ("extract: {model: [{trusted: true}]}\n", "bad-source 1:19"),
        ("extract: {model: [{body: model}]}\n", "bad-source 1:26"),
        ("extract: {model: [{path: /x}]}\n", "bad-source 1:26"),
        ("extract: {session: [{dialect: auto}]}\n", "bad-source 1:21"),
        ("extract: {model: [{api_key: {}}]}\n", "bad-source 1:19"),
        ("extract: {tenant: [{metadata: {namespace: n}}]}\n", "bad-source 1:31|missing-field 1:31"),
        ("extract: {model: header}\n", "wrong-type 1:18"),
        ("telemetry: {log: \"a=b=c\"}\n", "bad-value 1:18"),
        ("session: {directory: redis}\n", "missing-field 1:22"),
        ("session: {directory: http}\n", "missing-field 1:22"),
        ("session: {directory: redis, url: \"http://d\"}\n", "bad-value 1:34"),
        ("session: {directory: redis, url: \"redis://d\", key: k}\n", "bad-value 1:52"),
        ("session: {directory: http, url: \"http://d/s\"}\n", "bad-value 1:33"),
        ("session: {directory: http, url: \"http://d/{session}/{user}\"}\n", "bad-value 1:33"),
        ("session: {directory: http, url: \"http://{session}/s\"}\n", "bad-value 1:33"),
        ("session: {directory: http, url: \"ftp://d/{session}\"}\n", "bad-value 1:33"),
        ("session: {learn: true}\n", "learns-nothing 1:18"),
        ("session: {learn: true}\nfeedback: {enabled: true}\npublish: {decision_header: \"\"}\n", "learns-nothing 3:28"),
        ("session: {learn: true, ttl: 0s}\nfeedback: {enabled: true}\n", "learns-nothing 1:29"),
        (
            "session: {learn: true, directory: http, url: \"http://d/{session}\"}\nfeedback: {enabled: true}\nextract: {tenant: [{value: t}]}\n",
            "shared-sessions 1:46",
        ),
        ("feedback: {cooldown: 10ms}\n", "bad-value 1:22"),
        ("feedback: {cooldown: 10m}\n", "bad-value 1:22"),
        ("feedback: {max_cooldown: 5s}\n", "bad-value 1:26"),
        ("feedback: {statuses: [99]}\n", "bad-number 1:23"),
        ("feedback: {share: redis}\n", "missing-field 1:19"),
        (
            "session: {directory: memory, url: \"redis://d\"}\nfeedback: {share: redis}\n",
            "empty-directory 1:22|missing-field 2:19",
        ),
        ("tls: {cert: a.pem}\n", "not-available 1:6"),
        ("telemetry: {otlp_endpoint: \"http://o\"}\n", "not-available 1:28"),
        ("listen: a:1\nlisten: b:1\n", "duplicate-key 2:1"),
        ("listen: [\n", "syntax 2:1"),
        ("- a\n", "wrong-type 1:1"),
    ] {
        assert_eq!(codes(&from(text).expect_err(text)).join("|"), expected, "{text}");
    }
}

#[test]
fn a_tenant_that_clients_write_must_be_trusted() {
    for source in ["header: t", "cookie: t", "query: t", "path: \"/{t}\"", "body: /t", "multipart: t", "form: t"] {
        let text = |more: &str| format!("extract:\n  tenant:\n  - {{value: x}}\n  - {{{source}{more}}}\n");
        let found = from(&text("")).expect_err(source);
        assert_eq!(codes(&found), ["untrusted-tenant 4:5"], "{source}");
        assert!(found[0].message.contains("clients write") && found[0].hint.as_ref().unwrap().contains("trusted: true"));
        assert_eq!(codes(&from(&text(", trusted: false")).unwrap_err()), ["untrusted-tenant 4:5"]);
        assert!(from(&text(", trusted: true")).is_ok(), "{source}");
        let others = format!("extract: {{model: [{{{source}}}], session: [{{{source}}}]}}\n");
        assert!(from(&others).is_ok(), "{source}: models and sessions need no trust");
    }
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let file = "listen: file:1\nadmin: file:2\nprobe: file:3\n";
    let environment = [("CASCADE_LISTEN", "env:1"), ("CASCADE_ADMIN", "env:2"), ("PATH", "/bin")];
    let variables = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
    let flags = Flags { listen: Some("flag:1".to_owned()), catalog: Some("there".to_owned()), admin: None };
    let (settings, warnings) = read(Some(("cascade.yaml", file)), variables, flags).unwrap();
    assert!(warnings.is_empty());
    assert_eq!(settings.listen, Address::Tcp("flag:1".to_owned()));
    assert_eq!(settings.admin, Address::Tcp("env:2".to_owned()));
    assert_eq!(settings.probe, Some(Address::Tcp("file:3".to_owned())));
    assert_eq!(settings.catalog.source, "there");
    let flags = Flags { listen: Some("nowhere".to_owned()), ..Flags::default() };
    assert_eq!(codes(&read(None, std::iter::empty(), flags).unwrap_err()), ["bad-address --listen"]);
}

#[test]
fn variables_reach_every_setting() {
    let (settings, warnings) = with_environment(
        "limits: {max_body: 1MiB, max_depth: 5}",
        &[
            ("CASCADE_CATALOG__SOURCE", "2024"),
            ("CASCADE_CATALOG__REFRESH", "1s"),
            ("CASCADE_LIMITS__MAX_DEPTH", "99"),
            ("CASCADE_EXTRACT__TENANT", "[{header: x-tenant, trusted: true}]"),
            ("CASCADE_PROBE", ""),
            ("CASCADE_TELEMETRY", "{log: debug}"),
        ],
    )
    .unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(settings.catalog.source, "2024");
    assert_eq!(settings.catalog.refresh, Duration::from_secs(1));
    assert_eq!((settings.limits.max_depth, settings.limits.max_body), (99, 1 << 20));
    assert_eq!(settings.extract.plan.tenant, [Source::Header("x-tenant".to_owned())]);
    assert_eq!(settings.telemetry.log, "debug");
}

#[test]
fn a_variable_is_judged_like_the_file() {
    for (name, value, expected) in [
        ("CASCADE_LIMITS__MAX_DEPTH", "many", "wrong-type CASCADE_LIMITS__MAX_DEPTH"),
        ("CASCADE_LIMITS__BODY_WAIT", "5", "bad-value CASCADE_LIMITS__BODY_WAIT"),
        ("CASCADE_EXTRACT__TENANT", "[{header: x}]", "untrusted-tenant CASCADE_EXTRACT__TENANT"),
        ("CASCADE_EXTRACT__TENANT", "[{", "syntax CASCADE_EXTRACT__TENANT"),
        ("CASCADE_LISTEN", "", "bad-address CASCADE_LISTEN"),
        ("CASCADE_SESSION__LEARN", "true", "learns-nothing CASCADE_SESSION__LEARN"),
    ] {
        assert_eq!(codes(&with_environment("", &[(name, value)]).unwrap_err()), [expected], "{value}");
    }
    // What is wrong in the file stays wrong under a variable.
    let found = with_environment("catalog: here\n", &[("CASCADE_CATALOG__SOURCE", "there")]).unwrap_err();
    assert_eq!(codes(&found), ["wrong-type 1:10"]);
}

#[test]
fn an_unknown_variable_is_a_warning() {
    for (name, hint) in [
        ("CASCADE_CATALOG_SOURCE", "did you mean `CASCADE_CATALOG__SOURCE`?"),
        ("CASCADE_SERVICE_HOST", "Kubernetes"),
        ("CASCADE_PORT_50051_TCP", "Kubernetes"),
        ("CASCADE_LISTEN__X", "did you mean `CASCADE_LISTEN`?"),
        ("CASCADE_SOMETHING_ELSE_ENTIRELY", "joined by __"),
        ("CASCADE_", "joined by __"),
    ] {
        let (_, warnings) = with_environment("", &[(name, "x")]).unwrap();
        assert_eq!(codes(&warnings), [format!("unknown-variable {name}")]);
        assert!(warnings[0].hint.as_ref().unwrap().contains(hint), "{:?}", warnings[0]);
    }
}

#[test]
fn session_settings_make_a_directory() {
    let (settings, warnings) =
        from("session: {directory: http, url: \"http://d:1/s/{session}\", on_unavailable: reject}\n").unwrap();
    assert!(warnings.is_empty() && settings.rules().session, "{warnings:?}");
    assert_eq!(settings.session.directory, Directory::Http(Template::parse("http://d:1/s/{session}").unwrap()));
    assert_eq!(settings.rules().policy.on_session_unavailable, OnTrouble::Reject);
    let (settings, _) = from("session: {directory: redis, url: \"redis://d\", timeout: 10ms, ttl: 1m, capacity: 5}\n").unwrap();
    let key = Template::parse("cascade:session:{tenant}/{model}/{session}").unwrap();
    assert_eq!(settings.session.directory, Directory::Redis { url: "redis://d".to_owned(), key });
    assert_eq!((settings.session.timeout, settings.session.capacity), (Duration::from_millis(10), 5));
    let (settings, _) = from("publish: {sticky_header: x-pick}\n").unwrap();
    assert!(settings.rules().session && !settings.rules().policy.sticky);
}

#[test]
fn learning_makes_a_directory_in_memory_where_there_is_none() {
    let key = || Template::parse("cascade:session:{tenant}/{model}/{session}").unwrap();
    for (session, expected) in [
        ("learn: true", Directory::Memory(key())),
        ("learn: true, directory: memory", Directory::Memory(key())),
        (
            "learn: true, directory: memory, key: \"{tenant}/{session}\"",
            Directory::Memory(Template::parse("{tenant}/{session}").unwrap()),
        ),
        ("learn: true, directory: redis, url: \"redis://d\"", Directory::Redis { url: "redis://d".to_owned(), key: key() }),
    ] {
        let text = format!("session: {{{session}}}\nfeedback: {{enabled: true}}\nsecret_file: /s\n");
        let (settings, warnings) = from(&text).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!((settings.session.directory.clone(), settings.session.learn), (expected, true));
        assert!(settings.rules().session);
    }
}

#[test]
fn sessions_that_would_move_or_meet_are_a_warning() {
    for (text, expected) in [
        ("session: {sticky: true}\n", "random-secret 1:19"),
        ("session: {directory: memory}\n", "empty-directory 1:22"),
        ("session: {learn: true, directory: redis, url: \"redis://d\"}\nfeedback: {enabled: true}\n", "random-secret 1:18"),
        ("extract: {tenant: [{value: t}]}\nsession: {directory: http, url: \"http://d/{session}\"}\n", "shared-sessions 2:33"),
    ] {
        let (settings, warnings) = from(text).unwrap();
        assert_eq!(codes(&warnings), [expected]);
        assert!(settings.rules().session);
    }
    assert!(from("session: {sticky: true}\nsecret_file: /s\n").unwrap().1.is_empty());
}

#[test]
fn sharing_uses_the_redis_of_the_sessions() {
    let redis = "secret_file: /s\nsession: {directory: redis, url: \"redis://d\"}\n";
    let (settings, warnings) = from(&format!("{redis}feedback: {{enabled: true, share: redis}}\n")).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let share = settings.feedback.share.unwrap();
    assert_eq!((share.url.as_str(), share.key.as_str()), ("redis://d", "cascade:cooldowns"));
    let (settings, warnings) = from(&format!("{redis}feedback: {{share: redis, share_key: k}}\n")).unwrap();
    assert_eq!((codes(&warnings), settings.feedback.share.unwrap().key), (vec!["no-feedback 3:19".to_owned()], "k".to_owned()));
    let (_, warnings) = from(&format!("{}feedback: {{enabled: true, share: redis}}\n", &redis[16..])).unwrap();
    assert_eq!(codes(&warnings), ["random-secret 2:34"]);
}

#[test]
fn limits_that_disagree_are_a_warning() {
    let (_, warnings) = from("limits: {max_body: 64MiB}\n").unwrap();
    assert_eq!(codes(&warnings), ["limits-disagree 1:20"]);
    let (_, warnings) = from("extract: {model: []}\n").unwrap();
    assert_eq!(codes(&warnings), ["no-model-source 1:18"]);
}
