//! `publish.sticky_header` on a real Envoy (fact 16): a group that only Envoy knows is picked from by the session's number, the same
//! on every attempt, and what a change of weights does to it.

use std::collections::BTreeSet;
use std::path::Path;

use cascade::lab::{Cluster, Envoy, EnvoySetup, Group, Provider, Request, Scratch, Serve};

use crate::cases::CASCADE;
use crate::gateway::ok;

const WEIGHTS: [(&str, u32); 3] = [("a", 5), ("b", 3), ("c", 2)];
/// The catalog knows the group by its name alone.
const CATALOG: &str = "version: 1\npriority_groups: {pool: {}}\nmodels: {m: {chain: [pool, pool]}}\n";
const SETTINGS: &str = "publish: {sticky_header: x-cascade-pick}\nsecret_file: SECRET\n";

struct Pool {
    envoy: Envoy,
    providers: Vec<Provider>,
    _serve: Serve,
    _scratch: Scratch,
}

impl Pool {
    async fn open(weights: &[(&str, u32)]) -> Self {
        let scratch = ok(Scratch::new());
        let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        let secret = text(ok(scratch.write("secret", "a-key-that-stays-the-same\n")));
        let settings = text(ok(scratch.write("cascade.yaml", &SETTINGS.replace("SECRET", &secret))));
        let catalog = text(ok(scratch.write("catalog.yaml", CATALOG)));
        let serve = ok(Serve::start(Path::new(CASCADE), scratch.path(), &["--config", &settings, "--catalog", &catalog]).await);
        let mut providers = Vec::new();
        for (name, _) in weights {
            providers.push(ok(Provider::answering(name, 200).await));
        }
        let clusters = providers.iter().map(|provider| Cluster::new(provider.name(), provider.address())).collect();
        let mut setup = EnvoySetup::new(serve.grpc().clone(), clusters);
        let listed = weights.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
        // Nobody would be found on the static chain by accident: its first group is another one.
        setup.static_chain = vec![Group::of("first", weights[0].0), Group { name: "pool".to_owned(), clusters: listed }];
        setup.header_name = Some("x-cascade-pick".to_owned());
        Self { envoy: ok(Envoy::start(&setup).await), providers, _serve: serve, _scratch: scratch }
    }

    /// The way of a request of the session, and the number that it carried.
    async fn send(&self, session: &str) -> (String, u64) {
        let request = Request::post("/v1/chat/completions", r#"{"model":"m","messages":[]}"#);
        let (_, trail) = ok(self.envoy.send(request.header("x-session-id", session).header("x-cascade-pick", "0")).await);
        let mut picks = BTreeSet::new();
        for seen in self.providers.iter().flat_map(Provider::seen) {
            if seen.header("x-request-id") == Some(&trail.id) {
                picks.insert(seen.header("x-cascade-pick").unwrap().parse().unwrap());
            }
        }
        assert_eq!(picks.len(), 1, "one number for all attempts: {picks:?}");
        (trail.to_string(), picks.pop_first().unwrap())
    }
}

/// What the weights, laid side by side, say of a number.
fn pick<'a>(weights: &[(&'a str, u32)], number: u64) -> &'a str {
    let mut rest = number % weights.iter().map(|(_, weight)| u64::from(*weight)).sum::<u64>();
    for (name, weight) in weights {
        match rest.checked_sub(u64::from(*weight)) {
            Some(left) => rest = left,
            None => return name,
        }
    }
    unreachable!("the remainder lies below the sum")
}

#[tokio::test]
async fn a_session_stays_on_one_cluster_of_a_group_that_only_envoy_knows() {
    let pool = Pool::open(&WEIGHTS).await;
    let (mut used, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for session in 0..40 {
        let session = format!("s{session}");
        let (way, number) = pool.send(&session).await;
        assert_eq!(way, format!("{}(200)", pick(&WEIGHTS, number)), "{number}");
        assert_eq!(pool.send(&session).await, (way.clone(), number), "and again");
        used.insert(way);
        numbers.insert(number);
    }
    assert_eq!((used.len(), numbers.len()), (3, 40));
}

#[tokio::test]
async fn a_repeat_of_the_group_tries_the_same_cluster_again() {
    let pool = Pool::open(&WEIGHTS).await;
    pool.providers.iter().for_each(|provider| provider.answer_status(503));
    for session in ["s1", "s2", "s3"] {
        let (way, number) = pool.send(session).await;
        let again = vec![format!("{}(503)", pick(&WEIGHTS, number)); way.split(' ').count()];
        assert!(again.len() >= 2, "{way}");
        assert_eq!(way, again.join(" "));
    }
}

#[tokio::test]
async fn a_change_of_weights_moves_sessions_that_it_need_not() {
    let before = Pool::open(&WEIGHTS).await;
    // One more share for the last one: by weight a tenth or so of all sessions would have to move, and only to it.
    let raised = [("a", 5), ("b", 3), ("c", 3)];
    let after = Pool::open(&raised).await;
    let mut needless = 0;
    for session in 0..40 {
        let session = format!("s{session}");
        let ((was, number), (is, same)) = (before.send(&session).await, after.send(&session).await);
        assert_eq!((number, is.as_str()), (same, format!("{}(200)", pick(&raised, number)).as_str()));
        needless += usize::from(was != is && is != "c(200)");
    }
    assert!(needless > 0, "docs/sessions.md says so");
}
