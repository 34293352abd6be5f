//! The corpus as requests: files of `tests/differentials/corpus` are read, bodies crossed with heads, and codings done. What the
//! fields mean stands in `tests/differentials/README.md`.

use std::fs;
use std::io::Write;
use std::path::Path;

use cascade::document::{Format, parse};
use cascade::lab::Request;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use serde_json::{Map, Value};

use super::parsers::NAMES;

/// One request of the corpus.
pub struct Sample {
    /// File and name, for whoever reads a failure.
    pub name: String,
    pub request: Request,
    /// An ordinary request: it arrives, and these parsers read `allowed` in it.
    pub passes: bool,
    pub read_by: Vec<String>,
}

/// All samples of all files.
pub fn read() -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differentials/corpus");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut samples = Vec::new();
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (node, found) = parse(name, &fs::read_to_string(&path).unwrap(), Format::Yaml);
        assert!(found.is_empty(), "{found:?}");
        let document = node.unwrap().to_json().unwrap();
        samples.extend(list(&document["requests"]).map(|fields| sample(name, fields)));
        for body in list(&document["cross"]["bodies"]) {
            for head in list(&document["cross"]["heads"]) {
                let title = format!("{}, {}", text(body, "name"), text(head, "name"));
                let mut both: Map<String, Value> = body.clone();
                both.extend(head.clone());
                both.insert("name".to_owned(), title.into());
                samples.push(sample(name, &both));
            }
        }
    }
    samples
}

fn list(value: &Value) -> impl Iterator<Item = &Map<String, Value>> {
    value.as_array().into_iter().flatten().map(|item| item.as_object().unwrap())
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("a text `{name}` in {fields:?}"))
}

fn sample(file: &str, fields: &Map<String, Value>) -> Sample {
    const FIELDS: [&str; 10] = ["name", "method", "path", "headers", "type", "text", "bytes", "coded", "passes", "read_by"];
    assert!(fields.keys().all(|key| FIELDS.contains(&key.as_str())), "unknown fields in {fields:?}");
    let path = fields.get("path").map_or("/v1/chat/completions", |path| path.as_str().unwrap());
    let mut request = Request::get(path);
    request.method = fields.get("method").map_or("POST", |method| method.as_str().unwrap()).to_owned();
    match fields.get("type") {
        None => request = request.header("content-type", "application/json"),
        Some(Value::String(kind)) => request = request.header("content-type", kind),
        Some(_) => {}
    }
    for (name, value) in fields.get("headers").and_then(Value::as_object).into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap());
    }
    request.body = match fields.get("bytes") {
        // YAML knows no bytes: each character stands for one.
        Some(bytes) => bytes.as_str().unwrap().chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect(),
        None => fields.get("text").map(|text| text.as_str().unwrap().as_bytes().to_vec()).unwrap_or_default(),
    };
    for coding in fields.get("coded").and_then(Value::as_array).into_iter().flatten() {
        request.body = coded(&request.body, coding);
    }
    let read_by = match fields.get("read_by").and_then(Value::as_array) {
        Some(names) => names.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
        None => NAMES.iter().map(|name| (*name).to_owned()).collect(),
    };
    let name = format!("{file}: {}", text(fields, "name"));
    Sample { name, request, passes: fields.get("passes") == Some(&Value::Bool(true)), read_by }
}

fn coded(body: &[u8], coding: &Value) -> Vec<u8> {
    if let Some(more) = coding.get("then") {
        return [body, more.as_str().unwrap().as_bytes()].concat();
    }
    let units = || std::str::from_utf8(body).unwrap().encode_utf16();
    match coding.as_str().unwrap() {
        "gzip" => through(GzEncoder::new(Vec::new(), Compression::default()), body, GzEncoder::finish),
        "deflate" => through(ZlibEncoder::new(Vec::new(), Compression::default()), body, ZlibEncoder::finish),
        "raw-deflate" => through(DeflateEncoder::new(Vec::new(), Compression::default()), body, DeflateEncoder::finish),
        "utf-16le" => units().flat_map(u16::to_le_bytes).collect(),
        "utf-16be" => units().flat_map(u16::to_be_bytes).collect(),
        "utf-32le" => std::str::from_utf8(body).unwrap().chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
        "utf-7" => utf7(std::str::from_utf8(body).unwrap()).into_bytes(),
        other => panic!("no coding {other}"),
    }
}

fn through<W: Write>(mut encoder: W, body: &[u8], finish: impl FnOnce(W) -> std::io::Result<Vec<u8>>) -> Vec<u8> {
    encoder.write_all(body).unwrap();
    finish(encoder).unwrap()
}

/// Everything but letters and digits as UTF-16 in base64, which UTF-7 allows.
fn utf7(text: &str) -> String {
    use base64::Engine;
    let shifted = |character: char| {
        let units: Vec<u8> = character.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_be_bytes()).collect();
        format!("+{}-", base64::engine::general_purpose::STANDARD_NO_PAD.encode(units))
    };
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_string() } else { shifted(c) }).collect()
}
