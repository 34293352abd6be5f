use std::sync::Arc;

use super::*;

fn event<'a>(model: Option<&'a str>, tenant: TenantLabel<'a>) -> DecisionEvent<'a> {
    DecisionEvent { outcome: Outcome::Override, reason: Reason::ModelChain, model, tenant, elapsed: Duration::from_micros(3) }
}

fn value(metrics: &Metrics, series: &str) -> Option<f64> {
    let (text, _) = metrics.text(false);
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn a_decision_counts_in_every_family() {
    let metrics = Metrics::new();
    metrics.decided(&event(Some("m"), TenantLabel::Named("acme")));
    for series in [
        r#"cascade_requests_total{outcome="override",reason="model_chain"}"#,
        r#"cascade_model_requests_total{model="m",outcome="override"}"#,
        r#"cascade_tenant_requests_total{tenant="acme",outcome="override"}"#,
        "cascade_decision_seconds_count",
        r#"cascade_decision_seconds_bucket{le="5e-06"}"#,
    ] {
        assert_eq!(value(&metrics, series), Some(1.0), "{series}\n{}", metrics.text(false).0);
    }
}

#[test]
fn answers_that_can_happen_stand_at_zero_from_the_start_and_others_do_not() {
    let metrics = Metrics::new();
    assert_eq!(value(&metrics, r#"cascade_requests_total{outcome="reject",reason="unknown_tenant"}"#), Some(0.0));
    assert_eq!(value(&metrics, r#"cascade_requests_total{outcome="override",reason="unknown_tenant"}"#), None);
    metrics.answers.count(Outcome::Override, Reason::UnknownTenant);
    assert_eq!(value(&metrics, r#"cascade_requests_total{outcome="override",reason="unknown_tenant"}"#), Some(1.0));
}

#[test]
fn the_first_thousand_tenants_have_series_and_the_rest_is_other() {
    let metrics = Metrics::new();
    for index in 0..1_200 {
        let name = format!("t{index}");
        metrics.decided(&event(None, TenantLabel::Named(&name)));
        metrics.decided(&event(None, TenantLabel::Named(&name)));
    }
    metrics.decided(&event(None, TenantLabel::Unknown));
    assert_eq!(value(&metrics, r#"cascade_tenant_requests_total{tenant="t999",outcome="override"}"#), Some(2.0));
    assert_eq!(value(&metrics, r#"cascade_tenant_requests_total{tenant="t1000",outcome="override"}"#), None);
    assert_eq!(value(&metrics, r#"cascade_tenant_requests_total{tenant="other",outcome="override"}"#), Some(401.0));
    assert_eq!(value(&metrics, r#"cascade_model_requests_total{model="other",outcome="override"}"#), Some(2401.0));
}

#[test]
fn a_stream_that_ends_before_its_decision_is_abandoned_and_only_that() {
    let metrics = Arc::new(Metrics::new());
    let idle = metrics.stream();
    let mut abandoned = metrics.stream();
    abandoned.expect_decision();
    let mut decided = metrics.stream();
    decided.expect_decision();
    decided.decided(&event(None, TenantLabel::Anonymous));
    let mut excused = metrics.stream();
    excused.expect_decision();
    excused.excuse();
    assert_eq!(value(&metrics, "cascade_streams_in_flight"), Some(4.0));
    drop((idle, abandoned, decided, excused));
    assert_eq!(value(&metrics, "cascade_streams_in_flight"), Some(0.0));
    assert_eq!(value(&metrics, "cascade_abandoned_total"), Some(1.0));
}

#[test]
fn label_values_of_the_catalog_are_escaped() {
    let metrics = Metrics::new();
    metrics.decided(&event(Some("a\"b\\c"), TenantLabel::Anonymous));
    let (text, _) = metrics.text(false);
    assert!(text.contains(r#"model="a\"b\\c""#), "{text}");
}

#[test]
fn openmetrics_is_given_to_those_who_ask() {
    let metrics = Metrics::new();
    let (text, kind) = metrics.text(true);
    assert!(text.ends_with("# EOF\n") && kind.starts_with("application/openmetrics-text"));
    let (text, kind) = metrics.text(false);
    assert!(!text.contains("# EOF") && kind.starts_with("text/plain; version=0.0.4"));
}
