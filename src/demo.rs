//! `cascade demo`: a gateway in one command. Four stub providers, a dead port, `cascade serve` with a catalog of its own, a real
//! Envoy in front of it, and eight requests that each show one thing the catalog decides. What it prints is what happened, read
//! from Envoy's logs; whether that is what should have happened is checked, and with `--once` is the exit code.

mod scenario;
mod stage;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;

use scenario::{Case, Witness};
use stage::Stage;

use crate::lab::Result;

/// Runs the demo. `once`: ends after the table, with success only if every request went where it should; else it stays up until
/// ctrl-c.
pub async fn run(once: bool) -> ExitCode {
    match show(once).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(trouble) => {
            eprintln!("cascade demo: {trouble}");
            ExitCode::FAILURE
        }
    }
}

async fn show(once: bool) -> Result<bool> {
    let stage = Stage::set().await?;
    let cases = scenario::cases();
    let mut seen = Vec::new();
    for case in &cases {
        seen.push(stage.play(case).await?);
    }
    let judged: Vec<(&Case, &Witness)> = cases.iter().zip(&seen).collect();
    say(&table::render(&judged));
    let good = judged.iter().filter(|(case, witness)| case.is_met_by(witness)).count();
    say(&format!("{good} of {} went where they should.\n", judged.len()));
    if !once {
        say(&stage.invitation());
        stop_asked().await;
        say("Cleaning up.\n");
    }
    Ok(good == judged.len())
}

/// Until ctrl-c or SIGTERM.
async fn stop_asked() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

/// To standard output; a reader that has gone away is no reason to fail.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
