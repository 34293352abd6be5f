//! `cascade check`: is this catalog good?

use std::io;
use std::process::ExitCode;

use super::arguments::{Check, Format};
use super::{not_available, print, report, source};
use crate::catalog::snapshot::Snapshot;
use crate::diagnostic::{Diagnostic, Severity, acceptable};
use crate::telemetry::log::colour;

pub(super) fn run(arguments: &Check) -> ExitCode {
    if arguments.envoy.is_some() {
        return not_available("check --envoy");
    }
    let (snapshot, diagnostics) = check(arguments);
    match arguments.format {
        Format::Json => print(&format!("{:#}\n", report::json(&diagnostics))),
        Format::Text => {
            print(&report::text(&diagnostics, colour(&io::stdout())));
            print(&conclusion(snapshot.as_ref(), &diagnostics));
        }
    }
    if acceptable(&diagnostics) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check(arguments: &Check) -> (Option<Snapshot>, Vec<Diagnostic>) {
    let (settings, mut diagnostics) = match source::settings(&arguments.common) {
        Ok(read) => read,
        Err(diagnostics) => return (None, diagnostics),
    };
    match source::catalog(&settings) {
        Ok(accepted) => {
            diagnostics.extend(accepted.warnings);
            (Some(accepted.snapshot), diagnostics)
        }
        Err(found) => {
            diagnostics.extend(found);
            (None, diagnostics)
        }
    }
}

fn conclusion(snapshot: Option<&Snapshot>, diagnostics: &[Diagnostic]) -> String {
    let count = |severity| diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
    let warnings = count_of(count(Severity::Warning), "warning");
    match snapshot {
        Some(snapshot) => format!(
            "good: revision {}, {}, {}, {}; {warnings}\n",
            snapshot.revision,
            count_of(snapshot.models.len(), "model"),
            count_of(snapshot.tenants.len(), "tenant"),
            count_of(snapshot.expectations.tests.len(), "test"),
        ),
        None => format!("not good: {}, {warnings}\n", count_of(count(Severity::Error), "error")),
    }
}

fn count_of(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
