//! Framing between attempts, on a real Envoy: all attempts of a request share one set of headers while the body starts anew, so that
//! whatever becomes of Cascade between two of them, each provider gets a whole request and nothing else (facts 70 to 72).

use cascade::lab::serve::signal;
use cascade::lab::{Cluster, Envoy, EnvoySetup, Group, OwnFilters, Reply, Request, Scratch, Seen, Serve, Tap};

use crate::gateway::ok;
use crate::town;

/// `m` has a longer and then a shorter name than its alias, `n` the other way round; the third cluster has no names.
const CATALOG: &str = "version: 1
clusters:
  one: {models: {m: vendor-one-with-a-much-longer-name, n: v}}
  two: {models: {m: v, n: vendor-two-with-a-much-longer-name}}
  three: {}
priority_groups:
  first: {clusters: [{cluster_name: one, weight: 1}]}
  second: {clusters: [{cluster_name: two, weight: 1}]}
  third: {clusters: [{cluster_name: three, weight: 1}]}
models:
  m: {aliases: [alias-m], chain: [first, second, third]}
  n: {aliases: [alias-n], chain: [first, second, third]}
";
const SETTINGS: &str = "feedback: {enabled: true, consecutive_failures: 100}
secret_file: SECRET
extract: {model: [{header: x-model}, {query: model}, {form: engine}, {body: /spec/engine}, {dialect: auto}]}
";

/// How a client names the model, and whether the name is in the body.
type Way = (&'static str, bool, fn(&str) -> Request);

const WAYS: [Way; 7] = [
    ("json", true, |name| {
        Request::post("/v1/chat/completions", format!("{{ \"n\":1.0e2,\r\n\"model\" : \"{name}\", \"x\":\"é\"}}\r\n"))
    }),
    ("pointer", true, |name| Request::post("/custom", format!(r#"{{"model":"no","spec":{{"engine":"{name}"}}}}"#))),
    ("multipart", true, |name| {
        let part = |name: &str, more: &str, content: &str| {
            format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{content}\r\n")
        };
        let file = part("file", "; filename=\"model\"", "GET / HTTP/1.1\r\n\r\n\u{0}");
        let body = format!("{file}{}{}--B--\r\n", part("model", "", name), part("n", "", "1"));
        typed("/v1/audio/transcriptions", "multipart/form-data; boundary=B", body)
    }),
    ("form", true, |name| typed("/custom", "application/x-www-form-urlencoded", format!("a=%7e+&engine={name}&b"))),
    ("query", false, |name| Request::post(&format!("/custom?a=%7e+&model={name}&b"), "{\"model\":\"no\"}")),
    ("path", false, |name| Request::post(&format!("/openai/deployments/{name}/chat/completions?x=%2f"), "{}")),
    ("header", false, |name| Request::post("/custom", "{}").header("x-model", name)),
];

fn typed(path: &str, content_type: &str, body: String) -> Request {
    let mut request = Request::post(path, body);
    request.headers.clear();
    request.header("content-type", content_type)
}

/// What happens to Cascade while the first provider thinks about its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lives,
    Freezes,
    Dies,
}

struct Street {
    envoy: Envoy,
    serve: Serve,
    taps: [Tap; 3],
    scratch: Scratch,
}

const NAMES: [&str; 3] = ["one", "two", "three"];

impl Street {
    /// The first two providers fail, the third answers.
    async fn build(change: impl FnOnce(&mut [Cluster])) -> Self {
        let scratch = ok(Scratch::new());
        ok(scratch.write("catalog.yaml", CATALOG));
        let secret = ok(scratch.write("secret", "a-key-that-outlives-a-restart\n"));
        ok(scratch.write("cascade.yaml", &SETTINGS.replace("SECRET", secret.to_str().unwrap())));
        let serve = town::start(&scratch).await;
        let mut taps = Vec::new();
        for (name, status) in NAMES.into_iter().zip([503, 503, 200]) {
            taps.push(ok(Tap::start(name, move |_| Reply::status(status)).await));
        }
        let mut clusters: Vec<_> = NAMES.iter().zip(&taps).map(|(name, tap)| Cluster::new(name, tap.address())).collect();
        change(&mut clusters);
        let mut setup = EnvoySetup::new(serve.grpc().clone(), clusters);
        setup.static_chain = vec![Group::of("fixed", "three")];
        setup.feedback = true;
        setup.upstream_role = true;
        setup.allow_mode_override = true;
        let envoy = ok(Envoy::start(&setup).await);
        let taps = taps.try_into().unwrap_or_else(|_| unreachable!("three providers"));
        Self { envoy, serve, taps, scratch }
    }

    /// Sends it, and gives what each provider saw of it. Nothing may be left on any connection.
    async fn send(&mut self, what: &str, request: &Request, fate: Fate) -> [Seen; 3] {
        let before = self.taps.each_ref().map(|tap| tap.seen().len());
        let id = self.serve.id();
        self.taps[0].answer(move |_| {
            match fate {
                Fate::Lives => {}
                Fate::Freezes => ok(signal(id, "STOP")),
                Fate::Dies => ok(signal(id, "KILL")),
            }
            Reply::status(503)
        });
        let (response, trail) = ok(self.envoy.send(request.clone()).await);
        match fate {
            Fate::Lives => {}
            Fate::Freezes => ok(self.serve.thaw()),
            Fate::Dies => {
                self.serve.kill();
                self.serve = town::start(&self.scratch).await;
            }
        }
        assert_eq!((trail.to_string().as_str(), response.status), ("one(503) two(503) three(200)", 200), "{what} {fate:?}");
        let mut number = 0;
        self.taps.each_ref().map(|tap| {
            let rest = tap.rest();
            assert!(rest.is_empty(), "{what} {fate:?}: left on a connection: {:?}", String::from_utf8_lossy(&rest));
            let seen = tap.seen();
            assert_eq!(seen.len(), before[number] + 1, "{what} {fate:?}: one request each, {seen:?}");
            number += 1;
            seen.into_iter().next_back().unwrap()
        })
    }
}

/// The request as a provider has to see it.
fn shown(request: &Request) -> (String, Option<String>, String) {
    let header = request.headers.iter().find(|(name, _)| name == "x-model").map(|(_, value)| value.clone());
    (request.path.clone(), header, String::from_utf8(request.body.clone()).unwrap())
}

fn as_seen(seen: &Seen) -> (String, Option<String>, String) {
    (seen.path.clone(), seen.header("x-model").map(str::to_owned), String::from_utf8_lossy(&seen.body).into_owned())
}

/// The names of `m` and `n` at each of the clusters.
const MODELS: [(&str, [&str; 3]); 2] = [
    ("alias-m", ["vendor-one-with-a-much-longer-name", "v", "m"]),
    ("alias-n", ["v", "vendor-two-with-a-much-longer-name", "n"]),
];

/// Checks all ways of naming all models. `with_role`: which attempts the role sees.
async fn walk(street: &mut Street, fate: Fate, with_role: [bool; 3]) {
    for (what, in_body, way) in WAYS {
        for (alias, names) in MODELS {
            let seen = street.send(what, &way(alias), fate).await;
            let mut head = alias;
            for number in 0..3 {
                // Without the role the body is the client's, and the head is what the attempt before had.
                if with_role[number] {
                    head = names[number];
                }
                let expected = match in_body {
                    true if !with_role[number] => way(alias),
                    true => way(names[number]),
                    false => way(head),
                };
                let seen = &seen[number];
                let what = format!("{what} {alias} {fate:?}: {} {:?}", NAMES[number], seen.headers);
                assert_eq!(as_seen(seen), shown(&expected), "{what}");
                let length = seen.header("content-length");
                assert!(length.is_none_or(|length| length == seen.body.len().to_string()), "{what}");
                assert_eq!(length.is_none(), in_body, "{what}: a length leaves with the first changed body and never comes back");
            }
        }
    }
}

#[tokio::test]
async fn every_attempt_is_whole_while_cascade_lives() {
    let mut street = Street::build(|_| {}).await;
    walk(&mut street, Fate::Lives, [true; 3]).await;
}

#[tokio::test]
async fn every_attempt_is_whole_though_cascade_freezes_between_two() {
    let mut street = Street::build(|_| {}).await;
    walk(&mut street, Fate::Freezes, [true, false, false]).await;
}

#[tokio::test]
async fn every_attempt_is_whole_though_cascade_dies_between_two() {
    let mut street = Street::build(|_| {}).await;
    walk(&mut street, Fate::Dies, [true, false, false]).await;
}

#[tokio::test]
async fn every_attempt_is_whole_where_a_cluster_has_filters_of_its_own() {
    let mut street = Street::build(|clusters| clusters[1].own_filters = OwnFilters::WithoutRole).await;
    walk(&mut street, Fate::Lives, [true, false, true]).await;
    let mut street = Street::build(|clusters| clusters[1].own_filters = OwnFilters::WithRole).await;
    walk(&mut street, Fate::Lives, [true; 3]).await;
    walk(&mut street, Fate::Freezes, [true, false, false]).await;
}
