//! `tests/cases` as data for the harnesses that go over a wire: what to send, what the pure core says of it, who shall serve it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cascade::catalog::compile::compile;
use cascade::catalog::load::SourceFile;
use cascade::document::{Format, parse};
use cascade::explain::{DEFAULT_PATH, Question, Rules, explain};
use cascade::health::Seen;
use cascade::lab::{Request, Scratch};
use cascade::settings::{self, read::Flags};
use serde_json::{Value, json};

use crate::gateway::ok;

/// What stands in for `cascade.yaml` where a case has none: tenant and session in headers that only this harness writes.
const SETTINGS: &str = "extract: {tenant: [{header: x-case-tenant, trusted: true}], session: [{header: x-case-session}]}\n";
/// The first cluster of the static chain, and its group.
pub const FIXED: &str = "fixed";

pub struct Case {
    pub name: String,
    pub catalog: PathBuf,
    settings: String,
    /// Cluster → status; `None` is a dead port. The static chain's clusters are among them.
    pub providers: BTreeMap<String, Option<u16>>,
    pub static_chain: Vec<String>,
    pub requests: Vec<Ask>,
}

pub struct Ask {
    pub name: String,
    pub request: Request,
    /// False: the request ends with its head.
    pub has_body: bool,
    /// Only the whole body shows this answer.
    pub whole: bool,
    /// The answer of the pure core, in the words of `POST /explain`.
    pub explained: Value,
    /// The ways it may go on a real Envoy.
    pub served: Vec<String>,
}

/// Every case, by name.
pub fn all() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let folders =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.join("requests.yaml").exists());
    let mut cases: Vec<Case> = folders.map(|folder| read(&folder)).collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() > 10, "the cases are missing");
    cases
}

impl Case {
    /// Writes the settings and says how `cascade serve` is to be started.
    pub fn arguments(&self, scratch: &Scratch) -> [String; 4] {
        let settings = ok(scratch.write("cascade.yaml", &self.settings));
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        ["--config".to_owned(), text(&settings), "--catalog".to_owned(), text(&self.catalog)]
    }
}

fn yaml(path: &Path) -> Value {
    let (node, found) = parse(&path.display().to_string(), &fs::read_to_string(path).unwrap(), Format::Yaml);
    assert!(found.is_empty(), "{found:?}");
    node.unwrap().to_json().unwrap()
}

fn texts(value: &Value) -> Vec<String> {
    let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
    values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

fn read(folder: &Path) -> Case {
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let catalog = folder.join("catalog.yaml");
    let text = fs::read_to_string(&catalog).unwrap();
    let snapshot = compile(&[SourceFile::new("catalog.yaml", &text)]).unwrap().snapshot;
    let document = yaml(&folder.join("requests.yaml"));
    let settings = fs::read_to_string(folder.join("cascade.yaml")).unwrap_or_else(|_| SETTINGS.to_owned());

    let by_name: Vec<String> =
        snapshot.groups.iter().filter(|group| group.clusters.is_empty()).map(|group| group.name.to_string()).collect();
    let static_chain = match &document["static_chain"] {
        Value::Null => std::iter::once(FIXED.to_owned()).chain(by_name.iter().filter(|name| *name != FIXED).cloned()).collect(),
        chain => texts(chain),
    };
    let known = snapshot.clusters.iter().map(|cluster| cluster.name.to_string());
    let mut providers: BTreeMap<String, Option<u16>> =
        known.chain(static_chain.iter().cloned()).map(|name| (name, Some(200))).collect();
    for (cluster, answer) in document["providers"].as_object().into_iter().flatten() {
        providers.insert(cluster.clone(), answer.as_u64().map(|status| u16::try_from(status).unwrap()));
    }

    let requests = document["requests"].as_array().unwrap().iter().map(|entry| {
        let question = Question::from_json(&entry["ask"]).unwrap();
        let explained = explain(&snapshot, &rules(&settings), &question, Seen::well(), &|session| session.to_owned()).to_json();
        let served = match &entry["served"] {
            Value::Null => expected(&explained, &static_chain),
            ways => texts(ways),
        };
        let (request, has_body) = send(&question);
        Ask {
            name: entry["name"].as_str().unwrap().to_owned(),
            request,
            has_body,
            whole: entry["whole"] == true,
            explained,
            served,
        }
    });
    let requests = requests.collect();
    Case { name, catalog, settings, providers, static_chain, requests }
}

/// The first cluster that the decision allows, where every provider is well.
fn expected(explained: &Value, static_chain: &[String]) -> Vec<String> {
    match explained["outcome"].as_str().unwrap() {
        "reject" => vec![String::new()],
        "pass_through" => vec![format!("{}(200)", static_chain[0])],
        _ => {
            let first = &explained["chain"][0];
            let clusters = texts_of(&first["clusters"], "cluster_name");
            let names = if clusters.is_empty() { texts(&first["name"]) } else { clusters };
            names.iter().map(|name| format!("{name}(200)")).collect()
        }
    }
}

/// A field of every object of a list.
pub fn texts_of(list: &Value, field: &str) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| item[field].as_str().map(str::to_owned)).collect()
}

/// The question as a request: what is given by name is sent where the harness's settings look for it.
fn send(question: &Question) -> (Request, bool) {
    let method = question.method.clone().unwrap_or_else(|| "POST".to_owned());
    let mut request = Request::get(question.path.as_deref().unwrap_or(DEFAULT_PATH));
    request.method = method;
    request.headers.clone_from(&question.headers);
    for (header, value) in [("x-case-tenant", &question.tenant), ("x-case-session", &question.session)] {
        if let Some(value) = value {
            request = request.header(header, value);
        }
    }
    let mut body = question.body.clone();
    if let (Some(model), None) = (&question.model, &body) {
        request = request.header("content-type", "application/json");
        body = Some(json!({"messages": [], "model": model}).to_string().into_bytes());
    }
    request.body = body.clone().unwrap_or_default();
    (request, body.is_some())
}

/// What the settings say of reading and judging. A tenant and a session that the harness sends in its own headers are given to the
/// core by name, so those sources need not be known here.
fn rules(settings: &str) -> Rules {
    let read = settings::read::read(Some(("cascade.yaml", settings)), std::iter::empty(), Flags::default());
    read.unwrap().0.rules()
}
