//! What the health of clusters does to a chain: those that cool leave their group if others remain, a group that is all cooling
//! moves behind the others, and if everything cools the chain stays as written. It changes order and membership, never
//! permission: no cluster is added, and none that was last is lost.

use crate::catalog::snapshot::{ClusterId, ModelId, Snapshot};
use crate::health::{Scope, Seen};
use crate::outcome::HealthEffect;
use crate::resolve::chain::Step;
use crate::resolve::trace::{Considered, Trace};

/// The steps, what was done to them, and what of them cools.
pub(super) type Reordered = (Vec<Step>, HealthEffect, Vec<(ClusterId, Scope)>);

/// Reorders the steps. A group known only by name never cools: only Envoy knows its clusters.
pub(super) fn reorder(
    snapshot: &Snapshot,
    steps: Vec<Step>,
    model: Option<ModelId>,
    health: Seen<'_>,
    trace: &mut impl Trace,
) -> Reordered {
    if health.is_well() {
        return (steps, HealthEffect::AsWritten, Vec::new());
    }
    let model = model.map(|model| snapshot.model(model).name.as_str());
    let mut cooled: Vec<(ClusterId, Scope)> = Vec::new();
    for (id, _) in steps.iter().flat_map(|step| &step.clusters) {
        if let Some(scope) = health.cooling(snapshot.cluster(*id).name.as_str(), model)
            && !cooled.iter().any(|(known, _)| known == id)
        {
            cooled.push((*id, scope));
        }
    }
    let cools = |id: ClusterId| cooled.iter().any(|(cooled, _)| *cooled == id);
    let effect = effect(&steps, cools);
    if effect == HealthEffect::AsWritten {
        return (steps, effect, cooled);
    }
    trace.consider(|| describe(snapshot, &steps, effect, cools));
    if effect == HealthEffect::AllCooling {
        return (steps, effect, cooled);
    }
    let (mut first, mut behind) = (Vec::with_capacity(steps.len()), Vec::new());
    for mut step in steps {
        if !step.clusters.is_empty() && step.clusters.iter().all(|(id, _)| cools(*id)) {
            behind.push(step);
        } else {
            step.clusters.retain(|(id, _)| !cools(*id));
            first.push(step);
        }
    }
    first.append(&mut behind);
    (first, effect, cooled)
}

/// What will come of it, in one look at every cluster.
fn effect(steps: &[Step], cools: impl Fn(ClusterId) -> bool) -> HealthEffect {
    let (mut any_stays, mut any_behind, mut changes) = (false, false, false);
    for step in steps {
        let cooling = step.clusters.iter().filter(|(id, _)| cools(*id)).count();
        if cooling > 0 && cooling == step.clusters.len() {
            any_behind = true;
        } else {
            any_stays = true;
            // It loses clusters, or overtakes a group that cools.
            changes |= cooling > 0 || any_behind;
        }
    }
    match (any_stays, any_behind) {
        (false, true) => HealthEffect::AllCooling,
        _ if changes => HealthEffect::Reordered,
        _ => HealthEffect::AsWritten,
    }
}

fn describe(snapshot: &Snapshot, steps: &[Step], effect: HealthEffect, cools: impl Fn(ClusterId) -> bool) -> Considered {
    let all = steps.iter().flat_map(|step| &step.clusters).filter(|(id, _)| cools(*id));
    let mut names: Vec<&str> = all.map(|(id, _)| snapshot.cluster(*id).name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let what = match effect {
        HealthEffect::AllCooling => "and nothing else is left: the chain stays as written",
        HealthEffect::Reordered => "so each leaves its group if others remain, and a group of nothing else moves behind",
        HealthEffect::AsWritten => "and come last already",
    };
    Considered::new("health", None, format!("cooling: {}, {what}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::compile::compile;
    use crate::catalog::load::SourceFile;
    use crate::explain::{Question, Rules, explain_with};
    use crate::session::{State, parse};

    /// The chain as `group(cluster cluster)`, and what health did, where these cool.
    fn way(chain: &str, cooling: &[&str]) -> String {
        way_of(chain, cooling, &State::default())
    }

    /// The same for a session.
    fn way_of(chain: &str, cooling: &[&str], session: &State) -> String {
        let text = format!(
            "version: 1\npriority_groups:\n  two: {{clusters: [{{cluster_name: a, weight: 80}}, {{cluster_name: b, weight: 20}}]}}\n  \
             one: {{clusters: [{{cluster_name: c, weight: 1}}]}}\n  named: {{}}\nmodels:\n  m: {{chain: {chain}}}\n  n: {{chain: [one]}}\n\
             defaults: {{max_attempts: 3}}\n"
        );
        let snapshot = compile(&[SourceFile::new("catalog.yaml", &text)]).unwrap().snapshot;
        let cooling = cooling.iter().map(|text| (*text).to_owned()).collect();
        let question = Question { model: Some("m".to_owned()), session: Some("s".to_owned()), cooling, ..Question::default() };
        let mut rules = Rules::default();
        rules.policy.sticky = session.seed.is_some();
        let told = explain_with(&snapshot, &rules, &question, Seen::well(), &|_| String::new(), &|_| session.clone());
        let answer = told.resolution;
        let step = |step: &Step| {
            let clusters: Vec<&str> = step.clusters.iter().map(|(id, _)| snapshot.cluster(*id).name.as_str()).collect();
            format!("{}({})", snapshot.group(step.group).name, clusters.join(" "))
        };
        format!("{}: {}", answer.health.as_str(), answer.chain.iter().map(step).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_cools_leaves_its_group_or_the_group_moves_behind() {
        for (chain, cooling, expected) in [
            ("[two, one]", &[][..], "as_written: two(a b) one(c)"),
            ("[two, one]", &["elsewhere"], "as_written: two(a b) one(c)"),
            ("[two, one]", &["a"], "reordered: two(b) one(c)"),
            ("[two, one]", &["a", "b"], "reordered: one(c) two(a b)"),
            ("[two, one]", &["c"], "as_written: two(a b) one(c)"),
            ("[two, one]", &["a", "c"], "reordered: two(b) one(c)"),
            ("[two, one]", &["a", "b", "c"], "all_cooling: two(a b) one(c)"),
            // Repeats cool together and keep their order.
            ("[one, two, one]", &["c"], "reordered: two(a b) one(c) one(c)"),
            ("[two, two, one]", &["a"], "reordered: two(b) two(b) one(c)"),
            // A group written inside the chain is like any other.
            ("[{name: x, clusters: [{cluster_name: c, weight: 1}]}, two]", &["c"], "reordered: two(a b) x(c)"),
            // Groups known only by name never cool.
            ("[one, named]", &["c"], "reordered: named() one(c)"),
            ("[named, one]", &["c"], "as_written: named() one(c)"),
            // The limit of attempts cuts after the order is settled.
            ("[one, two, named, two]", &["c"], "reordered: two(a b) named() two(a b)"),
            // One model of a cluster.
            ("[one, two]", &["c=m"], "reordered: two(a b) one(c)"),
            ("[one, two]", &["c=n"], "as_written: one(c) two(a b)"),
        ] {
            assert_eq!(way(chain, cooling), expected, "{chain} {cooling:?}");
        }
    }

    #[test]
    fn an_answer_names_what_of_its_chain_cools_and_how_much_of_it() {
        let text = "version: 1\npriority_groups:\n  two: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 1}]}\n  \
                    one: {clusters: [{cluster_name: c, weight: 1}]}\nmodels: {m: {chain: [two, one, two]}, n: {chain: [one]}}\n";
        let snapshot = compile(&[SourceFile::new("catalog.yaml", text)]).unwrap().snapshot;
        let cooled = |cooling: &[&str]| {
            let cooling = cooling.iter().map(|text| (*text).to_owned()).collect();
            let question = Question { model: Some("m".to_owned()), cooling, ..Question::default() };
            let told =
                explain_with(&snapshot, &Rules::default(), &question, Seen::well(), &|_| String::new(), &|_| State::default());
            let name = |(id, scope): &(ClusterId, Scope)| format!("{}:{}", snapshot.cluster(*id).name, scope.as_str());
            told.resolution.cooled.iter().map(name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(cooled(&[]), "");
        assert_eq!(cooled(&["elsewhere", "c=n"]), "");
        assert_eq!(cooled(&["a", "c=m"]), "a:cluster c:model");
        assert_eq!(cooled(&["a", "a=m", "b", "c"]), "a:cluster b:cluster c:cluster");
    }

    #[test]
    fn a_session_pinned_to_what_cools_goes_there_last_and_to_what_is_well_first() {
        for (backend, cooling, expected) in [
            ("a", &[][..], "as_written: two(a) two(a b) one(c)"),
            ("a", &["a"], "reordered: two(b) one(c) two(a)"),
            ("a", &["a=m"], "reordered: two(b) one(c) two(a)"),
            ("a", &["a=n"], "as_written: two(a) two(a b) one(c)"),
            ("a", &["b"], "reordered: two(a) two(a) one(c)"),
            ("a", &["a", "b"], "reordered: one(c) two(a) two(a b)"),
            ("a", &["a", "b", "c"], "all_cooling: two(a) two(a b) one(c)"),
            ("one", &["c"], "reordered: two(a b) one(c)"),
            ("c", &["a"], "reordered: one(c) two(b)"),
        ] {
            let answer = parse(format!("{{\"selected_backend\": \"{backend}\"}}").as_bytes());
            let session = State { answer, ..State::default() };
            assert_eq!(way_of("[two, one]", cooling, &session), expected, "{backend} {cooling:?}");
        }
    }

    #[test]
    fn a_session_that_sticks_to_what_cools_moves_and_comes_back() {
        let mut moved = 0;
        for seed in 0..50 {
            let way = |cooling: &[&str]| way_of("[two, one]", cooling, &State { seed: Some(seed), ..State::default() });
            let (well, cools) = (way(&[]), way(&["a"]));
            assert_eq!(cools, "reordered: two(b) one(c)");
            assert!(["as_written: two(a) one(c)", "as_written: two(b) one(c)"].contains(&well.as_str()), "{well}");
            assert_eq!(way(&["c"]), well, "what cools elsewhere moves nobody");
            moved += usize::from(well.contains("two(a)"));
        }
        assert!(moved > 25, "a has four fifths of the sessions: {moved}");
    }
}
