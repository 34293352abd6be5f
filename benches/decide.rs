//! What a decision costs inside the process, without the network: reading the request, judging it, writing the answer, and all
//! three, with a catalog of 1,000 models and 10,000 tenants. `cargo bench --bench decide`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use cascade::catalog::store::Store;
use cascade::feedback::token::Token;
use cascade::feedback::{AccessLog, Monitor};
use cascade::health::{self, Event, Health, Moment, View};
use cascade::secret::Keys;
use cascade::settings::Settings;
use cascade::telemetry::Metrics;
use envoy_types::pb::envoy::data::accesslog::v3::{
    AccessLogCommon, AccessLogType, HttpAccessLogEntry, HttpRequestProperties, HttpResponseProperties, ResponseFlags,
};
use envoy_types::pb::google::protobuf::UInt32Value;
use prost::Message;

use cascade::catalog::compile::compile;
use cascade::catalog::load::SourceFile;
use cascade::catalog::snapshot::Snapshot;
use cascade::directory::Memory;
use cascade::encode::{Decision, answer, reply};
use cascade::explain::Rules;
use cascade::extract::request::Request;
use cascade::extract::source::{Plan, Source};
use cascade::extract::{Api, Facts, Found};
use cascade::health::Seen;
use cascade::resolve::{Resolution, affinity, resolve};
use cascade::session::template::Template;
use cascade::session::{State, parse};
use cascade::settings::{Encoding, Publish};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn catalog() -> Snapshot {
    let mut text = String::from(
        "version: 1\nclusters:\n  a: {provider: p, tags: [eu]}\n  b: {provider: p, tags: [eu]}\n  c: {provider: q, tags: [us]}\n\
         priority_groups:\n  primary: {clusters: [{cluster_name: a, weight: 80}, {cluster_name: c, weight: 20}]}\n  \
         backup: {clusters: [{cluster_name: b, weight: 1}]}\ndefaults: {missing_tenant: reject}\nmodels:\n",
    );
    for index in 0..1_000 {
        text.push_str(&format!("  model-{index}: {{aliases: [alias-{index}, \"model-{index}-*\"], chain: [primary, backup]}}\n"));
    }
    text.push_str("tiers:\n  eu: {require_tags: [eu]}\ntenants:\n");
    for index in 0..10_000 {
        text.push_str(&format!("  tenant-{index}: {{tier: eu}}\n"));
    }
    let accepted = compile(&[SourceFile::new("catalog.yaml", &text)]).map_err(|found| format!("{found:?}"));
    accepted.map(|accepted| accepted.snapshot).unwrap_or_else(|found| {
        eprintln!("the catalog of the benchmark is bad: {found}");
        std::process::exit(1)
    })
}

fn request(model: &str, size: usize) -> Request {
    let mut request = Request::new("/v1/chat/completions");
    request.add_header("content-type", "application/json");
    request.add_header("x-tenant-id", "tenant-777");
    let turn = r#"{"role":"user","content":"It is a long way to the next line,\nand a \"quoted\" word stands on it. "},"#;
    let turns = turn.repeat(size / turn.len());
    request.body = Some(format!(r#"{{"messages":[{}],"model":"{model}"}}"#, turns.trim_end_matches(',')).into_bytes());
    request
}

fn write(snapshot: &Snapshot, resolution: &Resolution, facts: &Facts, publish: &Publish) -> reply::Reply {
    let decision = Decision {
        snapshot: Some(snapshot),
        resolution,
        decision_id: "0123456789abcdef",
        request_id: Some("b9ef8c1e-2d6b-4f0e-9a5f-1f1f1f1f1f1f"),
        requested: &facts.model,
        requested_model: Some("model-500"),
        session: None,
        api: Api::OpenAi,
        spoofed: &[],
        token: None,
        budget: cascade::resolve::attempts::Budget::default(),
    };
    reply::deciding(reply::Kind::RequestBody, &answer(&decision, publish), None)
}

/// A thousand patterns that begin with a star, and the longest name that is compared with them.
fn with_patterns(criterion: &mut Criterion) {
    let mut text = String::from("version: 1\npriority_groups: {g: {}}\nmodels:\n");
    for index in 0..1000 {
        text.push_str(&format!("  m{index}: {{aliases: [\"*a{index}*b{index}*\"], chain: [g]}}\n"));
    }
    let Ok(accepted) = compile(&[SourceFile::new("catalog.yaml", &text)]) else { return };
    let snapshot = accepted.snapshot;
    let mut group = criterion.benchmark_group("patterns");
    for (title, name) in [
        ("none fits 512 bytes", "a999b".repeat(102)),
        ("none fits 512 bytes of a", "a".repeat(512)),
        ("the last fits 512 bytes", format!("{}b999", "a999".repeat(127))),
        ("8 KiB are no name", "a999b".repeat(1638)),
    ] {
        let facts = Facts { model: Found::Value(name), ..Facts::default() };
        group.bench_function(title, |bencher| {
            bencher.iter(|| resolve(&snapshot, Default::default(), black_box(&facts), &State::default(), Seen::well(), &mut ()));
        });
    }
    group.finish();
}

/// A chain over three of 200 clusters, all of which cool and come back while decisions are made.
fn with_health(criterion: &mut Criterion) {
    let mut text = String::from("version: 1\npriority_groups:\n");
    for index in 0..100 {
        text.push_str(&format!(
            "  g{index}: {{clusters: [{{cluster_name: c{index}, weight: 1}}, {{cluster_name: d{index}, weight: 1}}]}}\n"
        ));
    }
    text.push_str("models: {m: {chain: [g10, g20, g30]}}\n");
    let Ok(accepted) = compile(&[SourceFile::new("catalog.yaml", &text)]) else { return };
    let snapshot = accepted.snapshot;
    let facts = Facts { model: Found::Value("m".to_owned()), ..Facts::default() };
    let name = |index: u64| format!("{}{}", if index.is_multiple_of(2) { "c" } else { "d" }, index / 2);
    let cooling = |which: &dyn Fn(u64) -> bool| {
        let mut health = Health::new(health::Policy::default());
        for index in (0..200).filter(|index| which(*index)) {
            health.note(&name(index), None, Event::NoHost, Moment(0), index);
        }
        health.view(Moment(0))
    };
    let mut group = criterion.benchmark_group("health");
    let judge = |view: &View| {
        resolve(&snapshot, Default::default(), black_box(&facts), &State::default(), Seen::new(view, Moment(1)), &mut ())
    };
    for (title, view) in [
        ("all well", cooling(&|_| false)),
        ("197 cool, none of the chain", cooling(&|index| !matches!(index / 2, 10 | 20 | 30))),
        ("100 cool, half of each group", cooling(&|index| index.is_multiple_of(2))),
        ("200 cool", cooling(&|_| true)),
    ] {
        group.bench_function(title, |bencher| bencher.iter(|| judge(&view)));
    }
    let monitor = Monitor::new(health::Policy::default());
    group.bench_function("200 clusters that change", |bencher| {
        let mut turn = 0;
        bencher.iter_custom(|rounds| {
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                // The change itself happens elsewhere; what counts is what a decision finds.
                if u64::is_multiple_of(turn, 8) {
                    let index = turn / 8 % 200;
                    if (turn / 1600).is_multiple_of(2) {
                        monitor.note(&name(index), None, Event::NoHost);
                    } else {
                        monitor.clear(&name(index));
                    }
                }
                turn += 1;
                let start = Instant::now();
                let look = monitor.look(start);
                black_box(resolve(&snapshot, Default::default(), black_box(&facts), &State::default(), look.seen(), &mut ()));
                spent += start.elapsed();
            }
            spent
        });
    });
    group.finish();
    with_feedback(criterion, snapshot);
}

/// What Envoy's log costs, off every request's path, and the header that makes it speak of models.
fn with_feedback(criterion: &mut Criterion, snapshot: Snapshot) {
    let mut group = criterion.benchmark_group("feedback");
    group.throughput(Throughput::Elements(1));
    let (store, metrics) = (Arc::new(Store::new("bench")), Arc::new(Metrics::new()));
    store.accept(&Arc::new(snapshot), SystemTime::now());
    let Ok(keys) = Keys::random() else { return };
    let monitor = Arc::new(Monitor::new(health::Policy::default()));
    let log = AccessLog::new(&Settings::default(), store, monitor.clone(), metrics, keys.clone(), None);
    let token = Token { model: Some("m".to_owned()), own_name: true, sent: Token::mark_of("m"), session: None }
        .seal(&keys, monitor.now());
    for (title, status) in [("an entry that succeeded", 200), ("an entry that was limited", 429)] {
        let entry = entry(status, &token.clone().unwrap_or_default());
        group.bench_function(title, |bencher| bencher.iter(|| log.take(black_box(&entry))));
    }
    group.finish();
    criterion.bench_function("token", |bencher| {
        bencher.iter(|| {
            Token { model: Some("m".to_owned()), own_name: true, sent: Token::mark_of("m"), session: None }.seal(&keys, Moment(0))
        });
    });
}

/// An attempt's entry as Envoy writes it, without the fields that we skip.
fn entry(status: u32, token: &str) -> Bytes {
    let entry = HttpAccessLogEntry {
        common_properties: Some(AccessLogCommon {
            upstream_cluster: "c10".to_owned(),
            response_flags: Some(ResponseFlags::default()),
            access_log_type: AccessLogType::UpstreamEnd.into(),
            ..Default::default()
        }),
        request: Some(HttpRequestProperties {
            path: "/v1/chat/completions".to_owned(),
            user_agent: "client/1.0".to_owned(),
            request_headers: [("x-cascade-decision".to_owned(), token.to_owned())].into(),
            ..Default::default()
        }),
        response: Some(HttpResponseProperties {
            response_code: Some(UInt32Value { value: status }),
            response_headers: [("retry-after".to_owned(), "1".to_owned())].into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    Bytes::from(entry.encode_to_vec())
}

/// What a session adds to a decision whose directory's answer is remembered: the key, the cache, the moved chain.
fn session(criterion: &mut Criterion, snapshot: &Snapshot, rules: &Rules) {
    let mut request = request("model-500", 1_000);
    request.add_header("x-session-id", "b9ef8c1e-2d6b-4f0e-9a5f-1f1f1f1f1f1f");
    let facts = request.read(&rules.plan, rules.needs(snapshot), &rules.limits).0;
    let hour = Duration::from_secs(3600);
    let memory = Memory::new(100_000, hour, hour);
    let Ok(template) = Template::parse("http://d/s/{tenant}/{model}/{session}") else { return };
    let Some(key) = affinity::key(snapshot, &template, &facts) else { return };
    memory.put(Some("team-0042"), &key, &parse(br#"{"selected_backend":"b","selected_endpoint":"10.0.0.1:80"}"#));
    let mut group = criterion.benchmark_group("session");
    group.bench_function("none", |bencher| {
        bencher.iter(|| resolve(snapshot, rules.policy, black_box(&facts), &State::default(), Seen::well(), &mut ()));
    });
    group.bench_function("remembered", |bencher| {
        bencher.iter(|| {
            let facts = black_box(&facts);
            let answer = affinity::key(snapshot, &template, facts).and_then(|key| memory.get(&key)).unwrap_or_default();
            let state = State { answer, ..State::default() };
            resolve(snapshot, rules.policy, facts, &state, Seen::well(), &mut ())
        });
    });
    group.finish();
}

fn benches(criterion: &mut Criterion) {
    let snapshot = catalog();
    let plan = Plan { tenant: vec![Source::Header("x-tenant-id".to_owned())], ..Plan::default() };
    let rules = Rules { plan, ..Rules::default() };
    let read = |request: &Request| request.read(&rules.plan, rules.needs(&snapshot), &rules.limits).0;
    let publish = Publish::default();

    let mut group = criterion.benchmark_group("read");
    for size in [1_000, 100_000] {
        let request = request("model-500", size);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("{size} bytes"), |bencher| bencher.iter(|| read(black_box(&request))));
    }
    group.finish();

    let mut group = criterion.benchmark_group("resolve");
    for (name, model) in
        [("by name", "model-500"), ("by alias", "alias-500"), ("by pattern", "model-500-x"), ("unknown", "nobody")]
    {
        let facts = read(&request(model, 1_000));
        group.bench_function(name, |bencher| {
            bencher.iter(|| resolve(&snapshot, rules.policy, black_box(&facts), &State::default(), Seen::well(), &mut ()));
        });
    }
    group.finish();

    with_health(criterion);
    with_patterns(criterion);

    let facts = read(&request("model-500", 1_000));
    let resolution = resolve(&snapshot, rules.policy, &facts, &State::default(), Seen::well(), &mut ());
    let mut group = criterion.benchmark_group("encode");
    for (name, encoding) in [("untyped", Encoding::Untyped), ("typed", Encoding::Typed)] {
        let publish = Publish { encoding, ..publish.clone() };
        group.bench_function(name, |bencher| bencher.iter(|| write(&snapshot, black_box(&resolution), &facts, &publish)));
    }
    group.finish();

    session(criterion, &snapshot, &rules);

    let body = request("model-500", 1_000);
    criterion.bench_function("decision, 1 KB", |bencher| {
        bencher.iter(|| {
            let facts = read(black_box(&body));
            let resolution = resolve(&snapshot, rules.policy, &facts, &State::default(), Seen::well(), &mut ());
            write(&snapshot, &resolution, &facts, &publish)
        });
    });
}

criterion_group!(decide, benches);
criterion_main!(decide);
