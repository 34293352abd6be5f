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

#[test]
fn pairs_of_tenant_and_model_are_bounded_as_a_whole() {
    let metrics = Metrics::new();
    for index in 0..6_000 {
        let (tenant, model) = (format!("t{}", index / 100), format!("m{}", index % 100));
        metrics.decided(&event(Some(&model), TenantLabel::Named(&tenant)));
    }
    metrics.decided(&event(None, TenantLabel::Anonymous));
    metrics.decided(&event(Some("m0"), TenantLabel::Named("t0")));
    let of = |tenant: &str, model: &str| {
        let labels = format!(r#"{{tenant="{tenant}",model="{model}",outcome="override"}}"#);
        value(&metrics, &format!("cascade_tenant_model_requests_total{labels}"))
    };
    assert_eq!((of("t0", "m0"), of("t49", "m99"), of("t50", "m0")), (Some(2.0), Some(1.0), None));
    assert_eq!(of("other", "other"), Some(1_001.0));
}

#[test]
fn fallbacks_are_counted_by_a_bounded_number_of_models() {
    let metrics = Metrics::new();
    for index in 0..10_500 {
        metrics.fell_back(Some(&format!("m{index}")));
    }
    metrics.fell_back(Some("m0"));
    metrics.chain_exhausted(None);
    assert_eq!(value(&metrics, r#"cascade_fallbacks_total{model="m0"}"#), Some(2.0));
    assert_eq!(value(&metrics, r#"cascade_fallbacks_total{model="other"}"#), Some(500.0));
    assert_eq!(value(&metrics, r#"cascade_chains_exhausted_total{model="other"}"#), Some(1.0));
}
