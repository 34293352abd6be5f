//! The law that outranks all others: no restricted tenant ever gets an override outside of its clusters or for a model that it may
//! not use, a pass-through, or silence. Random catalogs, bodies, modes, cuts, broken streams and clocks that run out, with a fault
//! injected at any stage of the decision, through the real exchange and the real judgement.

mod conversation;
mod ground;

use proptest::prelude::*;

use self::conversation::{Fault, Plot, Verdict, play};
use self::ground::{Body, Ground, TENANTS};

fn fault() -> impl Strategy<Value = Option<Fault>> {
    let at = (0..cascade::pipeline::Stage::ALL.len(), prop_oneof![3 => (1..4_usize).prop_map(Some), 1 => Just(None)]);
    proptest::option::weighted(0.6, at.prop_map(|(stage, nth)| Fault { stage: cascade::pipeline::Stage::ALL[stage], nth }))
}

fn plot() -> impl Strategy<Value = Plot> {
    let way = (0..6_i32, any::<bool>(), any::<bool>(), proptest::collection::vec(1..20_usize, 0..6));
    let ends = (proptest::option::weighted(0.2, 0..5_usize), proptest::option::weighted(0.2, 0..5_usize), any::<bool>());
    (way, ends, fault(), prop_oneof![9 => Just(false), 1 => Just(true)]).prop_map(|(way, ends, fault, headless)| {
        let (mode, announced, by_path, cuts) = way;
        let (broken_at, clock_at, trailers) = ends;
        Plot { mode, announced: announced || mode == 4, by_path, cuts, broken_at, clock_at, trailers, fault, headless }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_restricted_tenant_gets_out_of_its_clusters_or_past_a_decision_or_nothing(
        ground in ground::grounds(),
        body in ground::body(),
        tenant in 0..TENANTS.len(),
        plot in plot(),
    ) {
        let tenant = TENANTS[tenant];
        let verdict = play(&ground, tenant, &body, &plot);
        if let Some(complaint) = complaint(&ground, tenant, &body, &plot, &verdict) {
            prop_assert!(false, "{complaint}\ntenant {tenant}, {plot:?}\n{verdict:?}\n{}\n{:?}", ground.catalog(), body.text());
        }
    }
}

fn complaint(ground: &Ground, tenant: &str, body: &Body, plot: &Plot, verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Refused | Verdict::Unasked => None,
        _ if !ground::is_restricted(tenant) => None,
        Verdict::Nothing => Some("the request went on without a decision".to_owned()),
        Verdict::Override(groups) => {
            let outside = groups.iter().find(|group| !ground.may_use(tenant, group));
            let named: Vec<&str> = if plot.by_path { vec!["m"] } else { body.models().collect() };
            let forbidden = named.into_iter().find(|model| !ground::may_name(tenant, model));
            outside
                .map(|group| format!("an override with {group:?}"))
                .or_else(|| forbidden.map(|model| format!("an override though {model} is named")))
        }
    }
}

/// The law says nothing if nobody is ever let through.
#[test]
fn who_may_is_sent_on_its_way() {
    let ground = Ground::plain();
    let body = Body::naming("m");
    for tenant in TENANTS {
        for mode in [2, 4] {
            let verdict = play(&ground, tenant, &body, &Plot::plain(mode));
            assert!(matches!(verdict, Verdict::Override(_)), "{tenant} in mode {mode}: {verdict:?}");
        }
    }
}
