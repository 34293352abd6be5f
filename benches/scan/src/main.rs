//! How fast request bodies are read, in GB/s: the scanner of `cascade` with the whole body in one piece and in pieces of 64 KiB,
//! beside serde_json and sonic-rs into a struct that keeps the model alone. Bodies are shaped like real ones and have the model at
//! their end. Readers take turns on each body, so that a busy machine is unfair to all alike; a figure is the median of the rounds.
//!
//! ```text
//! cargo run --release --manifest-path benches/scan/Cargo.toml [ROUNDS] [BODY]
//! ```
//!
//! What is compared is not quite the same work. The scanner checks that the body is UTF-8 and that no key on the way to the model
//! stands twice, and it can stop and go on anywhere; serde_json and sonic-rs skip strings without a look at their UTF-8, and need the
//! whole body. `serde_json, utf8` checks the body first.

mod bodies;

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Instant;

use cascade::extract::json::{Scanner, Slot};
use cascade::extract::source::{OnDuplicateKey, Pointer};
use serde::Deserialize;

/// Strings are short and known, so that a reader which finds another one is at fault.
const MODEL: &str = "gpt-4o-mini";

#[derive(Deserialize)]
struct Minimal<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
}

struct Reader {
    name: &'static str,
    read: fn(&[u8]) -> bool,
}

const READERS: [Reader; 5] = [
    Reader { name: "cascade", read: |body| scan(body, body.len()) },
    Reader { name: "cascade, 64 KiB", read: |body| scan(body, 64 * 1024) },
    Reader { name: "serde_json", read: |body| serde_json::from_slice::<Minimal>(body).is_ok_and(|found| found.model == MODEL) },
    Reader {
        name: "serde_json, utf8",
        read: |body| {
            let text = std::str::from_utf8(body);
            text.is_ok_and(|text| serde_json::from_str::<Minimal>(text).is_ok_and(|found| found.model == MODEL))
        },
    },
    Reader { name: "sonic-rs", read: |body| sonic_rs::from_slice::<Minimal>(body).is_ok_and(|found| found.model == MODEL) },
];

fn scan(body: &[u8], piece: usize) -> bool {
    static POINTER: LazyLock<Pointer> = LazyLock::new(|| Pointer::to_key("model"));
    let mut scanner = Scanner::new([&*POINTER], 128, OnDuplicateKey::Reject);
    scanner.guard(0);
    let whole = body.chunks(piece).all(|chunk| scanner.push(chunk).is_ok()) && scanner.finish().is_ok();
    whole && matches!(scanner.slot(0), Slot::Text(model) if model == MODEL)
}

/// Seconds for one reading, from as many as fill a few milliseconds.
fn time(reader: &Reader, body: &[u8], readings: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..readings {
        assert!((reader.read)(black_box(body)), "{} does not find the model", reader.name);
    }
    start.elapsed().as_secs_f64() / f64::from(readings)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().map_or(25, |text| text.parse().expect("ROUNDS is a number"));
    let only = arguments.next();
    print!("{:<22}{:>9}", "GB/s (of cascade)", "bytes");
    READERS.iter().for_each(|reader| print!("{:>20}", reader.name));
    println!();
    for (name, body) in bodies::all(MODEL) {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let readings = u32::try_from(4_000_000 / body.len()).unwrap_or(1).max(1);
        let mut seconds: [Vec<f64>; READERS.len()] = Default::default();
        for _ in 0..rounds {
            for (reader, seconds) in READERS.iter().zip(&mut seconds) {
                seconds.push(time(reader, &body, readings));
            }
        }
        print!("{name:<22}{:>9}", body.len());
        let speeds = seconds.map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            body.len() as f64 / seconds[seconds.len() / 2] / 1e9
        });
        speeds.iter().for_each(|speed| print!("{speed:>12.2} ({:>4.2})", speed / speeds[0]));
        println!();
    }
}
