//! Flags and environment variables, beside the file.

use std::time::Duration;

use super::{codes, with_environment};
use crate::extract::source::Source;
use crate::settings::Address;
use crate::settings::read::{Flags, read};

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
fn what_kubernetes_says_of_services_is_said_to_be_that() {
    for (name, value, service) in [
        ("CASCADE_PORT", "tcp://10.0.0.7:50051", "`cascade`"),
        ("CASCADE_SERVICE_HOST", "10.0.0.7", "`cascade`"),
        ("CASCADE_SERVICE_PORT", "50051", "`cascade`"),
        ("CASCADE_SERVICE_PORT_GRPC", "50051", "`cascade`"),
        ("CASCADE_PORT_50051_TCP", "tcp://10.0.0.7:50051", "`cascade`"),
        ("CASCADE_PORT_50051_TCP_ADDR", "10.0.0.7", "`cascade`"),
        ("CASCADE_PORT_53_UDP_PROTO", "udp", "`cascade`"),
        ("CASCADE_ADMIN_PORT", "tcp://10.0.0.8:9091", "`cascade-admin`"),
        ("CASCADE_CATALOG_SERVICE_PORT", "80", "`cascade-catalog`"),
    ] {
        let (_, warnings) = with_environment("", &[(name, value)]).unwrap();
        let hint = warnings[0].hint.as_deref().unwrap();
        assert!(hint.contains(service) && hint.contains("enableServiceLinks"), "{name}: {hint}");
    }
    let (_, warnings) = with_environment("", &[("CASCADE_PROBES", "127.0.0.1:1")]).unwrap();
    assert!(warnings[0].hint.as_deref().unwrap().contains("CASCADE_PROBE`"), "{warnings:?}");
}
