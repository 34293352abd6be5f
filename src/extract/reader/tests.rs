use super::super::request::Request;
use super::super::source::{Pointer, Source};
use super::super::{Api, TenantClaim};
use super::*;

const BOTH: Needs = Needs { tenant: true, session: false, rivals: false, stream: false };

fn header(name: &str) -> Source {
    Source::Header(name.to_owned())
}

fn pointer(text: &str) -> Source {
    Source::Body(Pointer::parse(text).unwrap())
}

fn request(path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Request {
    let mut request = Request::new(path);
    headers.iter().for_each(|(name, value)| request.add_header(name, value));
    request.body = body.map(|body| body.as_bytes().to_vec());
    request
}

fn model_of(plan: &Plan, request: &Request) -> (Found<String>, Option<Trouble>) {
    let (facts, _) = request.read(plan, Needs::default(), &Limits::default());
    (facts.model, facts.trouble)
}

fn value(text: &str) -> Found<String> {
    Found::Value(text.to_owned())
}

const JSON: (&str, &str) = ("content-type", "application/json");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const MULTIPART: (&str, &str) = ("content-type", "multipart/form-data; boundary=b");

#[test]
fn the_dialect_finds_the_model_where_the_api_keeps_it() {
    let multipart = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--";
    for (path, headers, body, expected) in [
        ("/v1/chat/completions", &[JSON][..], Some(r#"{"model":"m"}"#), value("m")),
        ("/v1/chat/completions", &[FORM], Some(r#"{"model":"m"}"#), value("m")),
        ("/v1/messages", &[], Some(r#"{"model":"m"}"#), value("m")),
        ("/v1/audio/transcriptions", &[MULTIPART], Some(multipart), value("m")),
        ("/v1beta/models/g:generateContent", &[JSON], Some(r#"{"model":"m"}"#), value("g")),
        ("/model/b/invoke", &[JSON], None, value("b")),
        ("/custom", &[FORM], Some("a=1&model=m"), value("m")),
        ("/custom", &[JSON], Some(r#"{"model":"m"}"#), value("m")),
        ("/custom", &[("content-type", "text/plain")], Some("model=m"), Found::Nothing),
        ("/v1/chat/completions", &[JSON], None, Found::Nothing),
        ("/v1/chat/completions", &[JSON], Some(""), Found::Nothing),
        ("/v1/chat/completions", &[JSON], Some(r#"{"model":""}"#), Found::Nothing),
        ("/v1/chat/completions", &[JSON], Some(r#"{"model":7}"#), Found::Nothing),
        ("/v1/chat/completions", &[JSON], Some(r#"{"model":"\ud800"}"#), Found::Unusable),
    ] {
        assert_eq!(model_of(&Plan::default(), &request(path, headers, body)), (expected, None), "{path} {body:?}");
    }
}

#[test]
fn the_first_source_with_a_value_wins() {
    let plan = |sources: Vec<Source>| Plan { model: sources, ..Plan::default() };
    let body = Some(r#"{"model":"body","other":"other"}"#);
    for (sources, expected) in [
        (vec![header("x-model"), Source::Dialect], "header"),
        (vec![Source::Dialect, header("x-model")], "body"),
        (vec![pointer("/none"), header("x-model"), Source::Dialect], "header"),
        (vec![pointer("/other"), header("x-model")], "other"),
        (vec![header("x-none"), Source::Dialect], "body"),
        (vec![header("x-none"), pointer("/none"), Source::Value("fixed".to_owned())], "fixed"),
    ] {
        let request = request("/v1/responses", &[("x-model", "header")], body);
        assert_eq!(model_of(&plan(sources.clone()), &request), (value(expected), None), "{sources:?}");
    }
}

#[test]
fn a_body_that_decides_nothing_is_not_judged() {
    let plan = Plan { model: vec![header("x-model"), Source::Dialect], ..Plan::default() };
    let request = request("/v1/responses", &[("x-model", "m")], Some("{broken"));
    assert_eq!(model_of(&plan, &request), (value("m"), None));
}

#[test]
fn trouble_names_what_kept_the_body_from_being_read() {
    let limits = Limits { max_body: 40, ..Limits::default() };
    for (headers, body, trouble) in [
        (&[JSON][..], r#"{"model":"m""#, Trouble::Malformed("the JSON ends too early")),
        (&[JSON], r#"{"model":"m","model":"n"}"#, Trouble::DuplicateKey),
        (&[JSON], r#"{"model":"m","padding":"xxxxxxxxxxxxxxxxxxxxxxxx"}"#, Trouble::TooLarge),
        (
            &[JSON, ("content-encoding", "rot13")],
            r#"{"model":"m"}"#,
            Trouble::Malformed("the body has a content-encoding that is not known here"),
        ),
        (
            &[JSON, ("content-encoding", "gzip")],
            r#"{"model":"m"}"#,
            Trouble::Malformed("the body is not compressed as its content-encoding says"),
        ),
    ] {
        let (facts, _) = request("/v1/responses", headers, Some(body)).read(&Plan::default(), Needs::default(), &limits);
        assert_eq!(facts.trouble, Some(trouble), "{body}");
    }
    let (facts, _) = request("/x", &[FORM], Some("model=a&model=a")).read(&Plan::default(), Needs::default(), &limits);
    assert_eq!(facts.trouble, Some(Trouble::DuplicateKey));
}

#[test]
fn a_key_that_appears_twice_counts_though_the_body_breaks_behind_it() {
    let body = r#"{"model":"m","model"`:"n"}"#;
    for step in [1, body.len()] {
        let mut reader =
            Reader::new(&request("/v1/messages", &[JSON], None), &Plan::default(), Needs::default(), &Limits::default());
        body.as_bytes().chunks(step).for_each(|chunk| reader.push(chunk));
        reader.finish();
        assert_eq!(reader.facts().0.trouble, Some(Trouble::DuplicateKey), "in steps of {step}");
    }
}

#[test]
fn a_tenant_is_a_name_or_the_hash_of_a_key() {
    let key = Source::ApiKey { header: "authorization".to_owned(), scheme: "Bearer".to_owned() };
    let plan = Plan { tenant: vec![key, header("x-tenant"), pointer("/tenant")], ..Plan::default() };
    let body = Some(r#"{"tenant":"from-body"}"#);
    let tenant = |headers: &[(&str, &str)]| request("/v1/responses", headers, body).read(&plan, BOTH, &Limits::default());
    let (facts, origins) = tenant(&[("x-tenant", "acme")]);
    assert_eq!((facts.tenant, origins.tenant), (Found::Value(TenantClaim::Name("acme".to_owned())), Some(1)));
    let (facts, origins) = tenant(&[("authorization", "Bearer k"), ("x-tenant", "acme")]);
    assert!(matches!(facts.tenant, Found::Value(TenantClaim::ApiKey(_))) && origins.tenant == Some(0));
    let (facts, origins) = tenant(&[]);
    assert_eq!((facts.tenant, origins.tenant), (Found::Value(TenantClaim::Name("from-body".to_owned())), Some(2)));
    let (facts, _) = tenant(&[("x-tenant", "a"), ("x-tenant", "b")]);
    assert_eq!(facts.tenant, Found::Unusable);
}

#[test]
fn a_request_is_ready_as_soon_as_its_needed_fields_are_known() {
    let body = r#"{"x":1,"model":"m","tenant":"t","session":"s","messages":[]}"#;
    let plan = Plan { tenant: vec![pointer("/tenant")], ..Plan::default() };
    let ready_after = |needs: Needs, end: &str| {
        let request = request("/v1/responses", &[JSON], None);
        let mut reader = Reader::new(&request, &plan, needs, &Limits::default());
        let ready = body.bytes().position(|byte| {
            reader.push(&[byte]);
            reader.is_ready()
        });
        assert_eq!(ready, body.find(end), "{needs:?}");
    };
    ready_after(Needs::default(), r#"","tenant"#);
    ready_after(Needs { tenant: true, session: false, rivals: false, stream: false }, r#"","session"#);
    ready_after(Needs { tenant: true, session: true, rivals: false, stream: false }, r#"","messages"#);
}

#[test]
fn a_cut_body_is_trouble_only_if_something_is_still_missing() {
    let request = request("/v1/messages", &[JSON], None);
    let read = |chunk: &str| {
        let mut reader = Reader::new(&request, &Plan::default(), Needs::default(), &Limits::default());
        reader.push(chunk.as_bytes());
        reader.cut(Trouble::Deadline);
        reader.facts().0
    };
    assert_eq!(read(r#"{"model":"m","#).trouble, None);
    let facts = read(r#"{"mod"#);
    assert_eq!((facts.trouble, facts.model, facts.api), (Some(Trouble::Deadline), Found::Nothing, Api::Anthropic));
}

#[test]
fn what_keeps_a_session_from_being_read_is_no_trouble() {
    const LZ4: (&str, &str) = ("content-encoding", "lz4");
    let plan = Plan { session: vec![pointer("/session"), header("x-session-id")], ..Plan::default() };
    let needs = Needs { tenant: false, session: true, rivals: false, stream: false };
    let limits = Limits { max_body: 100, session_scan: 200, ..Limits::default() };
    let long = "x".repeat(100);
    let by_path = "/openai/deployments/m/chat/completions";
    for (path, headers, chunks, cut) in [
        // Cut: the client is slow, Envoy's buffer is full, or the mode is too late.
        ("/v1/responses", &[JSON][..], vec![r#"{"model":"m","messages":["#], true),
        (by_path, &[JSON], vec![], true),
        (by_path, &[JSON], vec![r#"{"messages":["#], true),
        // Too large, and more that is not waited for.
        ("/v1/responses", &[JSON], vec![r#"{"model":"m","input":""#, &long], false),
        // No body that could be read, where all else is known without it.
        (by_path, &[JSON, LZ4], vec![r#"{"session":"s"}"#], false),
        (by_path, &[JSON], vec![r#"{"messages":[}"#, "x"], false),
    ] {
        let mut reader = Reader::new(&request(path, headers, None), &plan, needs, &limits);
        chunks.iter().for_each(|chunk| reader.push(chunk.as_bytes()));
        if cut {
            assert!(!reader.is_ready(), "{chunks:?}");
            reader.cut(Trouble::Deadline);
        }
        let facts = reader.facts().0;
        assert_eq!((facts.model, facts.trouble, facts.session), (value("m"), None, None), "{path} {chunks:?}");
        assert!(reader.is_ready() && !reader.knows_the_session(false, false));
    }
    // A header may still have one.
    let mut reader = Reader::new(&request(by_path, &[JSON, LZ4, ("x-session-id", "s")], None), &plan, needs, &limits);
    assert_eq!((reader.needs_no_body(), reader.facts().0.session.as_deref()), (true, Some("s")));
    reader.finish();
    // And a second model behind the cut is seen.
    let mut reader = Reader::new(&request("/v1/responses", &[JSON], None), &plan, needs, &limits);
    reader.push(br#"{"model":"m","messages":["#);
    reader.cut(Trouble::Deadline);
    reader.push(br#"],"model":"n""#);
    assert!(reader.has_duplicate());
}

#[test]
fn a_session_is_waited_for_so_far_and_no_further() {
    let plan = Plan { session: vec![pointer("/session")], ..Plan::default() };
    let needs = Needs { tenant: false, session: true, rivals: false, stream: false };
    let limits = Limits { session_scan: 100, ..Limits::default() };
    let mut reader = Reader::new(&request("/v1/responses", &[JSON], None), &plan, needs, &limits);
    reader.push(br#"{"model":"m","input":""#);
    assert!(!reader.is_ready() && !reader.knows_the_session(true, true));
    reader.push(&[b'x'; 100]);
    assert!(!reader.is_ready());
    reader.push(b"x");
    assert!(reader.is_ready() && !reader.knows_the_session(true, true));
    assert_eq!(reader.facts().0.session, None);
    // One that comes in time ends the wait.
    let mut reader = Reader::new(&request("/v1/responses", &[JSON], None), &plan, needs, &limits);
    reader.push(br#"{"model":"m","session":"s","#);
    assert!(reader.is_ready() && reader.knows_the_session(true, true));
}

#[test]
fn a_session_that_is_no_text_is_not_waited_for() {
    let plan = Plan { session: vec![pointer("/session"), pointer("/metadata/session")], ..Plan::default() };
    let needs = Needs { tenant: false, session: true, rivals: false, stream: false };
    let ready_after = |body: &str| {
        let mut reader = Reader::new(&request("/v1/responses", &[JSON], None), &plan, needs, &Limits::default());
        let ready = body.bytes().position(|byte| {
            reader.push(&[byte]);
            reader.is_ready()
        });
        (ready.map(|at| body[..=at].to_owned()), reader.facts().0.session)
    };
    // The other place may still have one.
    let start = r#"{"model":"m","session":null,"metadata":{"session":"#;
    for value in ["null", "7", "true", "[\"s\"]", r#"{"id":"s"}"#] {
        let body = format!(r#"{start}{value},"user":"u"}},"messages":["#);
        let (read, session) = ready_after(&body);
        assert!(read.as_deref().is_some_and(|read| !read.contains("messages")), "{value}: ready after {read:?}");
        assert_eq!(session, None, "{value}");
    }
    let (read, session) = ready_after(&format!(r#"{start}"s","#));
    assert_eq!((read, session.as_deref()), (Some(format!(r#"{start}"s""#)), Some("s")));
}

#[test]
fn a_body_is_read_up_to_the_limit_and_watched_for_a_second_model_beyond_it() {
    let limits = Limits { max_body: 1000, ..Limits::default() };
    let read = |chunks: &[&[u8]]| {
        let mut reader = Reader::new(&request("/v1/responses", &[JSON], None), &Plan::default(), Needs::default(), &limits);
        chunks.iter().for_each(|chunk| reader.push(chunk));
        (reader.is_ready(), reader.facts().0.trouble, reader.has_duplicate())
    };
    let (start, filler, end) = (&br#"{"model":"m","x":""#[..], [b'x'; 2000], &br#"","model":"n"}"#[..]);
    assert_eq!(read(&[start]), (true, None, false));
    assert_eq!(read(&[start, &filler]), (true, None, false));
    assert_eq!(read(&[start, &filler, end]), (true, Some(Trouble::DuplicateKey), true));
    // Nothing is known yet where the limit is passed.
    assert_eq!(read(&[br#"{"x":""#, &filler[..900]]), (false, None, false));
    assert_eq!(read(&[br#"{"x":""#, &filler, br#"","model":"m"}"#]), (true, Some(Trouble::TooLarge), false));
    // A body that comes at once is judged as a whole.
    assert_eq!(read(&[&[start, &filler, b"\"}"].concat()]), (true, Some(Trouble::TooLarge), false));
}

/// What a reader doubts of a body that it reads as a whole and byte by byte; the two must agree.
fn doubt_of(plan: &Plan, head: &Request, body: &[u8]) -> Option<Trouble> {
    let read = |step: usize| {
        let mut reader = Reader::new(head, plan, BOTH, &Limits::default());
        body.chunks(step).for_each(|chunk| reader.push(chunk));
        reader.finish();
        reader.facts().0
    };
    let facts = read(body.len().max(1));
    assert_eq!(facts, read(1), "{}", String::from_utf8_lossy(body));
    assert_eq!(facts.trouble, None, "{}", String::from_utf8_lossy(body));
    facts.doubt
}

#[test]
fn another_spelling_of_a_key_that_decides_the_route_is_doubtful_wherever_it_is() {
    let plan = Plan {
        model: vec![pointer("/a/model"), Source::Dialect],
        tenant: vec![pointer("/org/task")],
        session: vec![pointer("/session")],
        ..Plan::default()
    };
    let head = request("/v1/responses", &[JSON], None);
    let malformed = || Some(Trouble::Malformed("a key differs from the wanted one in case alone"));
    for (body, doubt) in [
        (r#"{"model":"m"}"#, None),
        (r#"{"model":"m","Model":"n"}"#, Some(Trouble::DuplicateKey)),
        (r#"{"MODEL":"n","model":"m"}"#, Some(Trouble::DuplicateKey)),
        (r#"{"Model":"n","mOdel":"m"}"#, Some(Trouble::DuplicateKey)),
        (r#"{"Model":"n","Model":"m"}"#, Some(Trouble::DuplicateKey)),
        (r#"{"model":"m","\u004dodel":"n"}"#.replace("\\\\", "\\").leak(), Some(Trouble::DuplicateKey)),
        (r#"{"Model":"n"}"#, malformed()),
        (r#"{"Model":null}"#, malformed()),
        (r#"{"a":{"model":"m"},"A":{}}"#, Some(Trouble::DuplicateKey)),
        (r#"{"A":{"model":"m"}}"#, malformed()),
        (r#"{"a":{"model":"m","MODEL":1}}"#, Some(Trouble::DuplicateKey)),
        (r#"{"a":[{"Model":"n"}],"model":"m"}"#, None),
        (r#"{"model":"m","org":{"TASK":"t"}}"#, malformed()),
        (r#"{"model":"m","org":{"task":"t","taſ\u212a":"u"}}"#.replace("\\\\", "\\").leak(), Some(Trouble::DuplicateKey)),
        (r#"{"model":"m","Session":"s","SESSION":"t","session":"u"}"#, None),
        (r#"{"model":"m","x":{"Model":"n"},"models":"n","mode":"n"}"#, None),
    ] {
        assert_eq!(doubt_of(&plan, &head, body.as_bytes()), doubt, "{body}");
    }
    let last = Plan { on_duplicate_key: super::super::source::OnDuplicateKey::Last, ..Plan::default() };
    assert_eq!(doubt_of(&last, &head, br#"{"model":"m","model":"n"}"#), None);
    assert_eq!(doubt_of(&last, &head, br#"{"model":"m","Model":"n"}"#), Some(Trouble::DuplicateKey));
}

#[test]
fn a_value_that_a_provider_may_make_a_text_of_is_not_stepped_over_in_silence() {
    let plan = Plan { model: vec![Source::Dialect, pointer("/fallback"), header("x-model")], ..Plan::default() };
    let head = request("/v1/responses", &[JSON, ("x-model", "h")], None);
    for (body, is_doubted) in [
        (r#"{"model":["n"]}"#, true),
        (r#"{"model":{"id":"n"}}"#, true),
        (r#"{"model":7,"fallback":"f"}"#, true),
        (r#"{"model":true}"#, true),
        (r#"{"model":null}"#, false),
        (r#"{"model":""}"#, false),
        (r#"{"model":"m","fallback":7}"#, false),
    ] {
        assert_eq!(doubt_of(&plan, &head, body.as_bytes()).is_some(), is_doubted, "{body}");
    }
    let alone = request("/v1/responses", &[JSON], None);
    assert_eq!(doubt_of(&Plan::default(), &alone, br#"{"model":["n"]}"#), None, "there is no model at all");
}

#[test]
fn a_body_that_begins_as_json_is_json_where_nothing_else_fits() {
    let by_pointer = Plan { model: vec![pointer("/model")], ..Plan::default() };
    let types: [&[(&str, &str)]; 5] = [
        &[FORM],
        &[("content-type", "text/plain")],
        &[("content-type", "text/plain"), ("content-type", "application/json")],
        &[("content-type", "application/octet-stream")],
        &[("content-type", "multipart/form-data")],
    ];
    for headers in types {
        for body in [r#"{"model":"m"}"#, "\u{feff}{\"model\":\"m\"}", " \r\n{\"model\":\"m\"}"] {
            for plan in [&Plan::default(), &by_pointer] {
                assert_eq!(model_of(plan, &request("/custom", headers, Some(body))), (value("m"), None), "{headers:?} {body}");
            }
        }
        let (_, trouble) = model_of(&Plan::default(), &request("/custom", headers, Some(r#"{"model":"m"}{"model":"n"}"#)));
        assert!(matches!(trouble, Some(Trouble::Malformed(_))), "{headers:?}");
    }
    for headers in [types[2], types[4]] {
        let (_, trouble) = model_of(&Plan::default(), &request("/custom", headers, Some("--b\r\n")));
        assert!(matches!(trouble, Some(Trouble::Malformed(_))), "{headers:?}");
    }
    // A model that the head names needs no body, whatever it is called.
    let plan = Plan { model: vec![header("x-model"), Source::Dialect], ..Plan::default() };
    let reader =
        Reader::new(&request("/custom", &[types[2][0], types[2][1], ("x-model", "m")], None), &plan, BOTH, &Limits::default());
    assert!(reader.needs_no_body() && reader.doubt().is_none());
}

#[test]
fn a_session_with_nothing_to_see_is_none() {
    let plan = Plan {
        session: vec![header("x-session"), Source::Cookie("sid".to_owned()), pointer("/session"), header("x-other")],
        ..Plan::default()
    };
    let needs = Needs { tenant: false, session: true, rivals: false, stream: false };
    for blank in ["", " ", "\t", "\\u00a0", "\\u3000 \\u2003", "\\u0000", "\\u0085\\u200b", "\\n\\r"] {
        let text: String = serde_json::from_str(&format!("\"{}\"", blank.replace('\t', "\\t"))).unwrap();
        let headers = [JSON, ("x-session", text.as_str()), ("cookie", &format!("sid={text}"))];
        let body = format!(r#"{{"model":"m","session":"{}"}}"#, blank.replace('\t', "\\t"));
        let read = |more: &[(&str, &str)]| {
            let head = request("/v1/responses", &[&headers[..], more].concat(), Some(&body));
            head.read(&plan, needs, &Limits::default()).0
        };
        assert_eq!((read(&[]).session, read(&[]).trouble), (None, None), "{blank}");
        assert_eq!(read(&[("x-other", "s")]).session.as_deref(), Some("s"), "{blank}");
    }
    let head = request("/v1/responses", &[JSON], Some(r#"{"model":"m","session":" s "}"#));
    assert_eq!(head.read(&plan, needs, &Limits::default()).0.session.as_deref(), Some(" s "));
}

#[test]
fn a_body_of_which_the_provider_gets_more_than_is_seen_is_doubtful() {
    let plan = Plan { session: vec![pointer("/session")], ..Plan::default() };
    let needs = Needs { tenant: false, session: true, rivals: false, stream: false };
    for (path, chunk, trouble, doubt) in [
        ("/v1/responses", r#"{"model":"m","x":""#, None, Some(Trouble::TooLarge)),
        ("/v1/responses", r#"{"x":""#, Some(Trouble::TooLarge), Some(Trouble::TooLarge)),
        // The model is in the path: what is cut holds a session at most.
        ("/openai/deployments/m/chat/completions", r#"{"x":""#, None, None),
    ] {
        let mut reader = Reader::new(&request(path, &[JSON], None), &plan, needs, &Limits::default());
        reader.push(chunk.as_bytes());
        reader.truncate(Trouble::TooLarge);
        assert!(reader.is_ready());
        let facts = reader.facts().0;
        assert_eq!((facts.trouble, facts.doubt), (trouble, doubt), "{path} {chunk}");
    }
}
