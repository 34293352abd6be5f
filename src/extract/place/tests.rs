use super::*;
use crate::extract::path::Template;
use crate::extract::reader::{Needs, Reader};
use crate::extract::request::Request;
use crate::extract::source::{OnDuplicateKey, Plan, Pointer};
use crate::extract::{Limits, Trouble};

fn request(path: &str, headers: &[(&str, &str)]) -> Request {
    let mut request = Request::new(path);
    headers.iter().for_each(|(name, value)| request.add_header(name, value));
    request
}

/// The body with the model replaced; `None` if it is not in the body.
fn replaced(plan: &Plan, request: &Request, body: &str, name: &str) -> Result<Option<String>, Trouble> {
    let mut reader = Reader::new(request, plan, Needs::default(), &Limits::default());
    reader.push(body.as_bytes());
    reader.finish();
    if let Some(trouble) = reader.facts().0.trouble {
        return Err(trouble);
    }
    let place = reader.model_in(body.as_bytes());
    Ok(place
        .map(|InBody { range, style }| format!("{}{}{}", &body[..range.start], style.write(name).unwrap(), &body[range.end..])))
}

fn last_counts(sources: Vec<Source>) -> Plan {
    Plan { model: sources, on_duplicate_key: OnDuplicateKey::Last, ..Plan::default() }
}

#[test]
fn nothing_but_the_models_bytes_changes_in_json() {
    let plan = last_counts(vec![Source::Dialect]);
    let request = request("/v1/chat/completions", &[]);
    for (before, after) in [
        (r#"{"model":"a"}"#, r#"{"model":"n\"x"}"#),
        (r#" { "x" : 1.0e2 , "model" : "a\u0062\"" , "y":[ ] }"#, r#" { "x" : 1.0e2 , "model" : "n\"x" , "y":[ ] }"#),
        (
            "\u{feff}{\"m\":{\"model\":\"no\"},\"model\":\"c\",\"z\":\"\\\\\"}",
            "\u{feff}{\"m\":{\"model\":\"no\"},\"model\":\"n\\\"x\",\"z\":\"\\\\\"}",
        ),
        (r#"{"model":"a","model":"b"}"#, r#"{"model":"a","model":"n\"x"}"#),
        (r#"{"m\u006fdel":"a"}"#, r#"{"m\u006fdel":"n\"x"}"#),
    ] {
        assert_eq!(replaced(&plan, &request, before, "n\"x").unwrap().as_deref(), Some(after));
    }
    for body in ["{}", "[]", r#"{"model":1}"#, r#"{"model":""}"#, r#"{"x":{"model":"a"}}"#] {
        assert_eq!(replaced(&plan, &request, body, "n").unwrap(), None, "{body}");
    }
    assert!(replaced(&plan, &request, "{\"model\":\"a\"", "n").is_err());
    assert!(replaced(&Plan::default(), &request, r#"{"model":"a","model":"b"}"#, "n").is_err(), "what a decision refuses");
}

#[test]
fn the_first_source_with_a_value_is_the_one_that_changes() {
    let pointer = |text: &str| Source::Body(Pointer::parse(text).unwrap());
    let plan = Plan { model: vec![pointer("/a/0/engine"), pointer("/engine"), Source::Dialect], ..Plan::default() };
    let request = request("/custom", &[("content-type", "application/json")]);
    for (before, after) in [
        (r#"{"model":"m","engine":"e","a":[{"engine":"x"}]}"#, Some(r#"{"model":"m","engine":"e","a":[{"engine":"n"}]}"#)),
        (r#"{"model":"m","engine":"e","a":[{"engine":""}]}"#, Some(r#"{"model":"m","engine":"n","a":[{"engine":""}]}"#)),
        (r#"{"model":"m","engine":7,"a":7}"#, Some(r#"{"model":"n","engine":7,"a":7}"#)),
        (r#"{"engine":null}"#, None),
    ] {
        assert_eq!(replaced(&plan, &request, before, "n").unwrap().as_deref(), after, "{before}");
    }
}

#[test]
fn nothing_but_the_parts_content_changes_in_a_multipart_body() {
    let plan = last_counts(vec![Source::Dialect]);
    let request = request("/v1/audio/transcriptions", &[("content-type", "multipart/form-data; boundary=B")]);
    let replaced = |body: &str, name: &str| replaced(&plan, &request, body, name);
    let part =
        |disposition: &str, content: &str| format!("--B\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n");
    let body = |model: &str| {
        let file = part("name=\"file\"; filename=\"model\"", "x\r\n-B");
        format!("{file}{}{}--B--\r\n", part("name=\"model\"", model), part("name=\"z\"", "1"))
    };
    assert_eq!(replaced(&body("a"), "longer name").unwrap(), Some(body("longer name")));
    assert_eq!(replaced(&body(""), "b").unwrap(), None, "an empty name is none");
    let twice = body("a").replace("--B--", &(part("name=\"model\"", "a") + "--B--"));
    assert_eq!(replaced(&twice, "b").unwrap(), Some(twice.replace("\r\n\r\na\r\n--B--", "\r\n\r\nb\r\n--B--")));
    for broken in ["--B", &part("name=\"model\"", "a")] {
        assert!(replaced(broken, "b").is_err(), "{broken}");
    }
}

#[test]
fn nothing_but_the_value_changes_in_a_form() {
    let plan = last_counts(vec![Source::Form("model".to_owned())]);
    let request = request("/custom", &[("content-type", "application/x-www-form-urlencoded")]);
    for (before, after) in [
        ("model=a&x=%7e+y&z", Some("model=n%2Fa%20%2B%26%3D:0&x=%7e+y&z")),
        ("x=1&m%6fdel=a%2Fb", Some("x=1&m%6fdel=n%2Fa%20%2B%26%3D:0")),
        ("model=a&model=b", Some("model=a&model=n%2Fa%20%2B%26%3D:0")),
        ("model=&x=1", None),
    ] {
        assert_eq!(replaced(&plan, &request, before, "n/a +&=:0").unwrap().as_deref(), after, "{before}");
    }
}

#[test]
fn a_model_in_the_head_is_found_as_its_bytes() {
    let path = |text: &str| Source::Path(Template::parse(text).unwrap());
    for (target, source, segment) in [
        ("/openai/deployments/gpt%2D4o/chat?x=gpt", Source::Dialect, Some("gpt%2D4o")),
        ("/v1beta/models/gemini:generateContent", Source::Dialect, Some("gemini")),
        ("/model/us.anthropic:0/invoke", Source::Dialect, Some("us.anthropic:0")),
        ("/model/%ff/invoke", Source::Dialect, None),
        ("/v1/chat/completions", Source::Dialect, None),
        ("/a/b-m%20x:run/c", path("/a/b-{model}:run/**"), Some("m%20x")),
        ("/a/b-:run/c", path("/a/b-{model}:run/**"), None),
    ] {
        let expected =
            segment.map(|segment| InHead::Path(target.find(segment).unwrap()..target.find(segment).unwrap() + segment.len()));
        assert_eq!(InHead::of(&request(target, &[]), &source), expected, "{target}");
    }
    let query = Source::Query("model".to_owned());
    let twice = Some(InHead::Query(vec![10..11, 18..19]));
    assert_eq!(InHead::of(&request("/x?a=1&model=m&model=m#model=no", &[]), &query), twice);
    assert_eq!(InHead::of(&request("/x?model=", &[]), &query), None);
    let header = Source::Header("x-model".to_owned());
    assert_eq!(InHead::of(&request("/", &[("x-model", "a")]), &header), Some(InHead::Header("x-model".to_owned())));
    assert_eq!(InHead::of(&request("/", &[]), &header), None);
    assert_eq!(InHead::of(&request("/", &[("x-model", "a")]), &Source::Value("a".to_owned())), None);
}

#[test]
fn a_name_is_written_as_its_place_needs_it() {
    assert_eq!(Style::Segment.write("a b/c:0@x+").as_deref(), Some("a%20b%2Fc:0@x+"));
    assert_eq!(Style::Pair.write("a b/c:0@x+&ü").as_deref(), Some("a%20b%2Fc:0@x%2B%26%C3%BC"));
    assert_eq!(Style::Plain.write("a b/ü").as_deref(), Some("a b/ü"));
    assert_eq!(Style::Plain.write("a\r\nb"), None);
    assert_eq!(Style::Json.write("a\r\n\"b").as_deref(), Some(r#""a\r\n\"b""#));
}
