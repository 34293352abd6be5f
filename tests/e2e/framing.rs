//! Framing between attempts, on a real Envoy: all attempts of a request share one set of headers while the body starts anew, so that
//! whatever becomes of Cascade between two of them, each provider gets a whole request and nothing else (facts 70 to 72).

use cascade::lab::{OwnFilters, Request, Seen};

use crate::street::{Fate, NAMES, Street};

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

#[tokio::test]
async fn every_attempt_is_whole_over_http2() {
    let both = || Street::build(|clusters| clusters.iter_mut().for_each(|cluster| cluster.http2 = true));
    let mut street = both().await;
    walk(&mut street, Fate::Lives, [true; 3]).await;
    walk(&mut street, Fate::Freezes, [true, false, false]).await;
    walk(&mut street, Fate::Dies, [true, false, false]).await;
    // One protocol after the other.
    let mut street = Street::build(|clusters| clusters[1].http2 = true).await;
    walk(&mut street, Fate::Freezes, [true, false, false]).await;
    let mixed = Street::build(|clusters| {
        clusters[0].http2 = true;
        clusters[1].own_filters = OwnFilters::WithoutRole;
    });
    walk(&mut mixed.await, Fate::Lives, [true, false, true]).await;
}
