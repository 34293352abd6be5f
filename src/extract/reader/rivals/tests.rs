//! Which other places are read, and what is waited for.

use super::super::{Needs, Reader};
use crate::extract::request::Request;
use crate::extract::source::{Plan, Pointer, Source};
use crate::extract::{Found, Limits, Trouble};

const NEEDS: Needs = Needs { tenant: false, session: false, rivals: true, stream: false };
const AZURE: &str = "/openai/deployments/path/chat/completions";

fn plan(model: Vec<Source>) -> Plan {
    Plan { model, session: Vec::new(), ..Plan::default() }
}

fn body(pointer: &str) -> Source {
    Source::Body(Pointer::parse(pointer).unwrap())
}

fn read(plan: &Plan, path: &str, headers: &[(&str, &str)], body: &str) -> (Found<String>, Vec<Found<String>>, Option<Trouble>) {
    let mut request = Request::new(path);
    request.add_header(":method", "POST");
    headers.iter().for_each(|(name, value)| request.add_header(name, value));
    request.body = Some(body.as_bytes().to_vec());
    let facts = request.read(plan, NEEDS, &Limits::default()).0;
    assert_eq!(facts.trouble, None, "{path} {body}");
    (facts.model, facts.rivals, facts.doubt)
}

fn value(text: &str) -> Found<String> {
    Found::Value(text.to_owned())
}

#[test]
fn every_place_that_a_client_writes_is_a_rival() {
    let header = Source::Header("x-model".to_owned());
    let template = Source::Path(crate::extract::path::Template::parse("/m/{model}/**").unwrap());
    let json = r#"{"model":"body","engine":"engine"}"#;
    let auto = || plan(vec![Source::Dialect]);
    for (plan, path, headers, body, model, rivals) in [
        (auto(), AZURE, &[][..], json, "path", &["body"][..]),
        (auto(), AZURE, &[], r#"{"model":"path"}"#, "path", &[]),
        (auto(), AZURE, &[], "", "path", &[]),
        (auto(), "/v1/chat/completions", &[], json, "body", &[]),
        (auto(), "/v1/realtime?model=query", &[], json, "query", &["body"]),
        (plan(vec![header.clone(), Source::Dialect]), AZURE, &[("x-model", "header")], json, "header", &["body", "path"]),
        (plan(vec![header]), "/custom", &[("x-model", "header")], json, "header", &["body"]),
        (plan(vec![template, body("/engine")]), "/m/template/x", &[], json, "template", &["engine", "body"]),
        (plan(vec![body("/engine"), Source::Dialect]), "/custom", &[], json, "engine", &["body"]),
        (plan(vec![body("/engine"), Source::Dialect]), AZURE, &[], json, "engine", &["body", "path"]),
        (plan(vec![Source::Value("fixed".to_owned()), Source::Dialect]), AZURE, &[], json, "fixed", &[]),
    ] {
        let (found, others, doubt) = read(&plan, path, headers, body);
        let rivals: Vec<Found<String>> = rivals.iter().map(|name| value(name)).collect();
        assert_eq!((found, others, doubt), (value(model), rivals, None), "{plan:?} {path} {body}");
    }
}

#[test]
fn a_rival_that_cannot_be_read_is_a_doubt_and_no_trouble() {
    let plan = plan(vec![Source::Dialect]);
    let compressed = [("content-encoding", "snappy")];
    for (headers, body, is_doubtful) in [
        (&[][..], r#"{"x": "#, true),
        (&[], r#"{"model":"path","model":"path"}"#, true),
        (&compressed, "x", true),
        (&[("content-type", "application/octet-stream")], "\u{1}", false),
    ] {
        let (model, _, doubt) = read(&plan, AZURE, headers, body);
        assert_eq!((model, doubt.is_some()), (value("path"), is_doubtful), "{headers:?} {body}");
    }
}

#[test]
fn rivals_are_seen_late_and_not_waited_for() {
    let mut request = Request::new(AZURE);
    request.add_header(":method", "POST");
    let plan = plan(vec![Source::Dialect]);
    let mut reader = Reader::new(&request, &plan, NEEDS, &Limits::default());
    assert!(!reader.needs_no_body() && reader.is_ready());
    reader.push(br#"{"x":1,"#);
    assert!(reader.facts().0.rivals.is_empty());
    reader.push(br#""model":"late""#);
    assert_eq!(reader.facts().0.rivals, [value("late")]);
    // A body that is cut could hold one more.
    let mut reader = Reader::new(&request, &plan, NEEDS, &Limits::default());
    reader.cut(Trouble::TooLarge);
    assert_eq!((reader.doubt(), reader.trouble()), (Some(Trouble::TooLarge), None));
    // Where nobody compares them, the head alone decides.
    let mut reader = Reader::new(&request, &plan, NEEDS, &Limits::default());
    reader.ignore_rivals();
    assert!(reader.needs_no_body());
    assert!(Reader::new(&request, &plan, Needs::default(), &Limits::default()).needs_no_body());
}
