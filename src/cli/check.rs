//! `cascade check`: is this catalog good?

use std::io;
use std::process::ExitCode;

use super::arguments::{Check, Format};
use super::{not_available, print, report, source};
use crate::catalog::load::SourceFile;
use crate::catalog::snapshot::Snapshot;
use crate::diagnostic::{Diagnostic, Severity, acceptable, render};
use crate::telemetry::log::colour;

pub(super) fn run(arguments: &Check) -> ExitCode {
    if arguments.envoy.is_some() {
        return not_available("check --envoy");
    }
    let Checked { files, snapshot, diagnostics } = check(arguments);
    match arguments.format {
        Format::Json => print(&format!("{:#}\n", render::json(&diagnostics))),
        Format::Text => {
            print(&report::text(&diagnostics, &files, colour(&io::stdout())));
            print(&conclusion(snapshot.as_ref(), &diagnostics));
        }
    }
    if acceptable(&diagnostics) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Checked {
    files: Vec<SourceFile>,
    snapshot: Option<Snapshot>,
    diagnostics: Vec<Diagnostic>,
}

fn check(arguments: &Check) -> Checked {
    let source::Read { settings, warnings: mut diagnostics, mut files } = match source::settings(&arguments.common, None, None) {
        Ok(read) => read,
        Err(source::Refused { diagnostics, files }) => return Checked { files, snapshot: None, diagnostics },
    };
    let catalog = source::catalog(&settings);
    files.extend(catalog.files);
    let (snapshot, found) = match catalog.verdict {
        Ok(accepted) => (Some(accepted.snapshot), accepted.warnings),
        Err(found) => (None, found),
    };
    diagnostics.extend(found);
    Checked { files, snapshot, diagnostics }
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
