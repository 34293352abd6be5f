//! What is refused or warned of, and where.

use super::{codes, from};

/// Settings, and the code and place of each fault.
const FAULTS: &[(&str, &str)] = &[
    ("lissen: x\n", "unknown-field 1:1"),
    ("limits:\n  max_bodi: 1MiB\n", "unknown-field 2:3"),
    ("limits: {max_body: 32}\n", "wrong-type 1:20"),
    ("limits: {max_body: 32MB}\n", "bad-value 1:20"),
    ("limits: {body_wait: 5}\n", "wrong-type 1:21"),
    ("limits: {body_wait: 0s}\n", "bad-value 1:21"),
    ("limits: {decision_deadline: 0ms}\n", "bad-value 1:29"),
    ("limits: {decision_deadline: 61s}\n", "bad-value 1:29"),
    ("limits: {max_depth: 0}\n", "bad-number 1:21"),
    ("server: {max_concurrent_streams: 1.5}\n", "bad-number 1:34"),
    ("catalog: here\n", "wrong-type 1:10"),
    ("catalog: {refresh: 0s}\n", "bad-value 1:20"),
    ("catalog: {last_good: \"file:///d\"}\n", "bad-value 1:22"),
    ("secret_file: \"user:pw@h\"\n", "bad-value 1:14"),
    ("secret_file: redis://d\n", "bad-value 1:14"),
    ("admin_token_file: redis://d\n", "bad-value 1:19"),
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
    ("session: {directory: redis, url: \"rediss://d:6379\"}\n", "not-available 1:34"),
    ("session: {directory: redis, url: \"d:6379\"}\n", "bad-value 1:34"),
    ("session: {directory: redis, url: \"redis://d\", key: k}\n", "bad-value 1:52"),
    ("session: {directory: http, url: \"http://d/s\"}\n", "bad-value 1:33"),
    ("session: {directory: http, url: \"http://d/{session}/{user}\"}\n", "bad-value 1:33"),
    ("session: {directory: http, url: \"http://{session}/s\"}\n", "bad-value 1:33"),
    ("session: {directory: http, url: \"ftp://d/{session}\"}\n", "bad-value 1:33"),
    ("session: {directory: http, url: \"redis://d\"}\n", "bad-value 1:33"),
    ("session: {directory: http, url: \"http://d/#{session}\"}\n", "bad-value 1:33"),
    ("session: {directory: http, url: \"http://d/{session}#\"}\n", "bad-value 1:33"),
    ("session: {directory: http, url: \"http://d/{tenant}/../{session}\"}\n", "bad-value 1:33"),
    ("session: {directory: http, url: \"http://d/{tenant} {session}\"}\n", "bad-value 1:33"),
    ("session: {directory: http, url: \"http://d/{tenant}<{session}\"}\n", "bad-value 1:33"),
    ("session: {directory: http, url: \"http://d/{tenant}-{session}\"}\n", "bad-value 1:33"),
    ("session: {directory: redis, url: \"redis://d\", key: \"{tenant}{session}\"}\n", "bad-value 1:52"),
    ("session: {learn: true, key: \"{model}_{session}\"}\nfeedback: {enabled: true}\n", "bad-value 1:29"),
    ("session: {timeout: 0s}\n", "bad-value 1:20"),
    ("session: {timeout: 61s}\n", "bad-value 1:20"),
    ("session: {learn: true}\nfeedback: {enabled: true}\nextract: {session: []}\n", "learns-nothing 3:20"),
    ("session: {learn: true}\n", "learns-nothing 1:18"),
    ("session: {learn: true}\nfeedback: {enabled: true}\npublish: {decision_header: \"\"}\n", "learns-nothing 3:28"),
    ("session: {learn_endpoint: true}\n", "learns-nothing 1:27"),
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
        "empty-directory 1:22|unused-setting 1:35|missing-field 2:19",
    ),
    ("tls: {cert: a.pem}\n", "not-available 1:6"),
    ("telemetry: {otlp_endpoint: \"http://o\"}\n", "not-available 1:28"),
    ("listen: a:1\nlisten: b:1\n", "duplicate-key 2:1"),
    ("listen: [\n", "syntax 2:1"),
    ("- a\n", "wrong-type 1:1"),
];

#[test]
fn each_fault_has_its_code_and_its_place() {
    for (text, expected) in FAULTS {
        assert_eq!(codes(&from(text).expect_err(text)).join("|"), *expected, "{text}");
    }
}

#[test]
fn a_header_that_somebody_needs_is_none_of_ours() {
    let needed = ["host", "Content-Length", "content-type", "authorization", "transfer-encoding", "connection", "te", "cookie"];
    let ours = ["x-cascade-original-path", "x-envoy-attempt-count", "x-forwarded-for", "x-request-id", "\":path\"", "\":x\""];
    let read = ["x-session-id", "X-Model", "x-tenant", "x-key"];
    let sources =
        "extract: {model: [{header: x-model}], tenant: [{header: x-tenant, trusted: true}, {api_key: {header: x-key}}]}\n";
    for setting in ["sticky_header", "decision_header"] {
        let at = |name: &str| from(&format!("{sources}publish: {{{setting}: {name}}}\nsecret_file: /s\n"));
        for name in [needed.as_slice(), &ours, &read].concat() {
            let found = at(name).expect_err(name);
            assert_eq!(codes(&found), [format!("bad-value 2:{}", setting.len() + 13)], "{name}");
            assert_eq!(found[0].message.contains("extract."), read.contains(&name), "{found:?}");
        }
        for name in ["x-cascade-pick", "X-Forward", "accepted", "x-session"] {
            assert!(at(name).is_ok(), "{name}");
        }
    }
    // Each other, and one that is ours without being written.
    let both = "publish: {sticky_header: x-pick, decision_header: X-Pick}\n";
    for text in [both, "publish: {sticky_header: x-cascade-decision}\n"] {
        assert!(codes(&from(text).unwrap_err()).contains(&"bad-value 1:26".to_owned()), "{text}");
    }
    assert_eq!(codes(&from("extract: {session: [{header: x-cascade-decision}]}\n").unwrap_err()), ["bad-value 1:10"]);
}

#[test]
fn what_nothing_uses_is_a_warning() {
    for (text, expected) in [
        ("session: {url: \"http://d/{session}\"}\n", "unused-setting 1:16"),
        ("session: {directory: none, key: \"{session}\"}\n", "unused-setting 1:33"),
        ("session: {directory: http, url: \"http://d/{session}\", key: \"{session}\"}\n", "unused-setting 1:60"),
        ("session: {learn: true, url: \"redis://d\"}\nfeedback: {enabled: true}\n", "unused-setting 1:29"),
        ("feedback: {share_key: k}\n", "unused-setting 1:23"),
        ("session: {sticky: true}\nsecret_file: /s\nextract: {session: []}\n", "no-session-source 3:20"),
        ("session: {directory: redis, url: \"redis://d\"}\nextract: {session: []}\n", "no-session-source 2:20"),
        ("publish: {sticky_header: x-pick}\nsecret_file: /s\nextract: {session: []}\n", "no-session-source 3:20"),
        ("extract: {session: []}\n", ""),
        ("session: {timeout: 1m, ttl: 0s, negative_ttl: 0s}\nlimits: {decision_deadline: 1m}\nserver: {drain: 0s}\n", ""),
        ("session: {directory: http, url: \"http://u:p@d:1/a%20b/{tenant}/{session}?m={model}&v=1\"}\n", ""),
    ] {
        assert_eq!(codes(&from(text).expect(text).1).join("|"), expected, "{text}");
    }
}

#[test]
fn the_url_of_another_directory_is_told_by_its_scheme() {
    for url in ["redis://d", "redis://d/{session}", "d:80/{session}", "ftp://d/{session}"] {
        let found = from(&format!("session: {{directory: http, url: \"{url}\"}}\n")).unwrap_err();
        assert!(found.len() == 1 && found[0].message.contains("begin with `http://`"), "{found:?}");
    }
    for (template, told) in
        [("{tenant}{session}", "`{tenant}` and `{session}`"), ("{session}-{model}/{tenant}", "`{session}` and `{model}`")]
    {
        for settings in [
            format!("directory: http, url: \"http://d/{template}\""),
            format!("directory: redis, url: \"redis://d\", key: \"{template}\""),
        ] {
            let found = from(&format!("session: {{{settings}}}\n")).unwrap_err();
            assert!(found[0].message.contains(told) && found[0].message.contains("write `/` or `:`"), "{found:?}");
        }
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
fn limits_that_disagree_are_a_warning() {
    let (_, warnings) = from("limits: {max_body: 64MiB}\n").unwrap();
    assert_eq!(codes(&warnings), ["limits-disagree 1:20"]);
    let (_, warnings) = from("extract: {model: []}\n").unwrap();
    assert_eq!(codes(&warnings), ["no-model-source 1:18"]);
}
