//! How much memory remembered sessions take: fills a directory in memory with a million answers as directories give them and
//! compares the process's resident memory before and after (Linux).
//!
//!   cargo run --release --example session_memory [SESSIONS]

#![allow(clippy::print_stdout, reason = "it is a command")]

use std::time::Duration;

use cascade::directory::Memory;
use cascade::session::parse;
use cascade::session::template::Template;

const HELP: &str = "\
Measures how much memory remembered sessions take (Linux).

Usage: session_memory [SESSIONS]

  SESSIONS  how many are remembered, 1000000 if none is given";

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() * 1024
}

fn main() -> Result<(), String> {
    if std::env::args().any(|argument| argument == "-h" || argument == "--help") {
        println!("{HELP}");
        return Ok(());
    }
    let sessions: u32 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let template = Template::parse("http://directory.internal/s/{tenant}/{model}/{session}")?;
    let hour = Duration::from_secs(3600);
    let memory = Memory::new(u64::from(sessions), hour, hour);
    let before = resident();
    for session in 0..sessions {
        let answer = parse(br#"{"selected_backend":"openai_eu","selected_endpoint":"10.1.2.3:8000"}"#);
        // As long as a UUID.
        let id = format!("{session:08x}-2d6b-4f0e-9a5f-1f1f1f1f1f1f");
        if let Some(key) = template.fill(Some("team-0042"), Some("gpt-4o"), &id) {
            memory.put(Some("team-0042"), &key, &answer);
        }
    }
    let used = resident() - before;
    println!("{sessions} sessions: {} MB, {} bytes per session", used / 1_000_000, used / u64::from(sessions));
    Ok(())
}
