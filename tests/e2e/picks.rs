//! `explain --random` says which cluster serves each attempt, and Envoy agrees (fact 16): many values, group shapes and weights.

use std::fmt::Write as _;
use std::fs;

use cascade::catalog::compile::compile;
use cascade::catalog::load::SourceFile;
use cascade::catalog::snapshot::Snapshot;
use cascade::explain::{Question, Rules, explain};
use cascade::health::Seen;
use cascade::lab::{Cluster, Envoy, EnvoySetup, Group, Provider, Request, Scratch};

use crate::gateway::ok;
use crate::town::start;

const CLUSTERS: [&str; 5] = ["c0", "c1", "c2", "c3", "c4"];
const MODELS: usize = 12;
const RANDOM_PER_MODEL: usize = 24;

/// A generator with a seed, so that a failure can be run again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap()
    }

    /// Small weights, large ones, and the largest.
    fn weight(&mut self) -> u64 {
        match self.below(4) {
            0 => 1,
            1 => 1 + self.below(10),
            2 => 1 + self.below(1_000_000),
            _ => u64::from(u32::MAX) - self.below(100),
        }
    }
}

/// Models `m0`, `m1`, …, each with a chain of one to four groups of one to four clusters.
fn catalog(random: &mut Random) -> String {
    let mut text = String::from("version: 1\nmodels:\n");
    for model in 0..MODELS {
        let mut groups = Vec::new();
        for group in 0..=random.below(4) {
            let first = random.index(CLUSTERS.len());
            let members = (0..=random.index(4)).map(|index| {
                let name = CLUSTERS[(first + index) % CLUSTERS.len()];
                format!("{{cluster_name: {name}, weight: {}}}", random.weight())
            });
            groups.push(format!("{{name: m{model}g{group}, clusters: [{}]}}", members.collect::<Vec<_>>().join(", ")));
        }
        let _ = writeln!(text, "  m{model}: {{chain: [{}]}}", groups.join(", "));
    }
    text
}

/// Random values, and those where a pick by remainder could go wrong: the ends of the number's range, and the sum of each group's
/// weights with its neighbours.
fn values(random: &mut Random, snapshot: &Snapshot, model: &str) -> Vec<u64> {
    let mut values = vec![0, 1, u64::MAX, u64::MAX - 1, u64::from(u32::MAX), u64::from(u32::MAX) + 1];
    let groups = snapshot.groups.iter().filter(|group| group.name.as_str().starts_with(&format!("{model}g")));
    for group in groups {
        let total: u64 = group.clusters.iter().map(|(_, weight)| u64::from(*weight)).sum();
        values.extend([total - 1, total, total + 1]);
    }
    let random_values = values.len() + RANDOM_PER_MODEL;
    values.resize_with(random_values, || random.next() >> random.below(60));
    values
}

#[tokio::test]
async fn explain_with_a_random_number_names_the_cluster_of_every_attempt() {
    let mut random = Random(20_261_130);
    let text = catalog(&mut random);
    let snapshot = compile(&[SourceFile::new("catalog.yaml", &text)]).unwrap().snapshot;
    let scratch = ok(Scratch::new());
    ok(scratch.write("catalog.yaml", &text));
    // The route's own retries, so that the last group is seen more than once (fact 15).
    fs::write(scratch.path().join("cascade.yaml"), "attempts: {exact_retries: false}\n").unwrap();
    let serve = start(&scratch).await;
    // Every attempt fails, so that all of them are seen.
    let mut providers = Vec::new();
    for name in CLUSTERS {
        providers.push(ok(Provider::answering(name, 503).await));
    }
    let clusters = providers.iter().map(|provider| Cluster::new(provider.name(), provider.address())).collect();
    let mut setup = EnvoySetup::new(serve.grpc().clone(), clusters);
    setup.static_chain = vec![Group::of("static", "c0")];
    setup.header_name = Some("x-pick".to_owned());
    let attempts = setup.num_retries as usize + 1;
    let envoy = ok(Envoy::start(&setup).await);

    for model in 0..MODELS {
        let name = format!("m{model}");
        for value in values(&mut random, &snapshot, &name) {
            let question =
                Question { model: Some(name.clone()), random: Some(value), attempts: Some(attempts), ..Question::default() };
            let explanation = explain(&snapshot, &Rules::default(), &question, Seen::well(), &|_| String::new());
            let expected: Vec<String> =
                explanation.attempts().iter().map(|attempt| format!("{}(503)", attempt.pick.unwrap_or("nobody"))).collect();
            let request =
                Request::post("/v1/chat/completions", format!(r#"{{"model":"{name}"}}"#)).header("x-pick", &value.to_string());
            let (_, trail) = ok(envoy.send(request).await);
            assert_eq!(trail.to_string(), expected.join(" "), "{name} with {value} in\n{text}");
        }
    }
}
