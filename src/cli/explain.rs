//! `cascade explain`: what would be decided for a request that is described, and why.

use std::io::{self, Read};
use std::process::ExitCode;
use std::sync::Arc;

use super::arguments::{Explain, Format};
use super::{complain, print, report, source};
use crate::catalog::load::SourceFile;
use crate::diagnostic::{Diagnostic, Severity, acceptable, render};
use crate::directory::Sessions;
use crate::explain::{Question, explain_with};
use crate::extract::Facts;
use crate::health::Seen;
use crate::pipeline::affinity::Affinity;
use crate::resolve::trace::Considered;
use crate::secret::Keys;
use crate::telemetry::Metrics;
use crate::telemetry::log::colour;

pub(super) fn run(arguments: &Explain) -> ExitCode {
    match answer(arguments) {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(trouble) => {
            match arguments.format {
                Format::Json => print(&format!("{:#}\n", trouble.to_json())),
                Format::Text => trouble.complain(),
            }
            ExitCode::FAILURE
        }
    }
}

const NOTHING: &str = "nothing is explained: mend the errors above first";
const NOT_ACCEPTED: &str = "this catalog is not accepted by `cascade serve` (errors above); this is what it would decide";

/// Why nothing is explained.
enum Trouble {
    Found(Vec<Diagnostic>, Vec<SourceFile>),
    Said(String),
}

impl Trouble {
    /// As `check --format json` has it, with an `error` in one line.
    fn to_json(&self) -> serde_json::Value {
        let (diagnostics, error) = match self {
            Self::Found(diagnostics, _) => (diagnostics.as_slice(), NOTHING),
            Self::Said(line) => (&[][..], line.as_str()),
        };
        let mut report = render::json(diagnostics);
        report["ok"] = false.into();
        report["error"] = error.into();
        report
    }

    fn complain(&self) {
        match self {
            Self::Found(diagnostics, files) => {
                report::complain_of(diagnostics, files);
                complain(NOTHING);
            }
            Self::Said(line) => complain(line),
        }
    }
}

fn answer(arguments: &Explain) -> Result<String, Trouble> {
    let read = source::settings(&arguments.common, None, None);
    let settings = read.map_err(|refused| Trouble::Found(refused.diagnostics, refused.files))?.settings;
    let body = match &arguments.body {
        Some(name) => Some(body(name).map_err(|error| Trouble::Said(format!("--body {name}: {error}")))?),
        None => None,
    };
    let source::Catalog { files, verdict } = source::catalog_to_explain(&settings);
    let accepted = match verdict {
        Ok(accepted) => accepted,
        Err(found) => return Err(Trouble::Found(found, files)),
    };
    let is_accepted = acceptable(&accepted.warnings);
    if !is_accepted && arguments.format == Format::Text {
        report::complain_of(&accepted.warnings, &files);
        complain(NOT_ACCEPTED);
    }
    let keys = Keys::of(settings.secret_file.as_deref()).map_err(|error| Trouble::Said(error.0))?;
    let question = Question {
        model: arguments.model.clone(),
        tenant: arguments.tenant.clone(),
        session: arguments.session.clone(),
        path: arguments.path.clone(),
        method: arguments.method.clone(),
        headers: arguments.headers.clone(),
        body,
        random: arguments.random,
        attempts: arguments.attempts,
        cooling: arguments.cooling.clone(),
    };
    let said = |error: String| Trouble::Said(error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| said(error.to_string()))?;
    let sessions = runtime.block_on(async { Sessions::open(&settings.session, &Arc::new(Metrics::new())) }).map_err(said)?;
    let affinity = Affinity::new(&settings, sessions.map(Arc::new), keys.clone());
    let session =
        |facts: &Facts| runtime.block_on(async { affinity.state(facts, affinity.ask(&accepted.snapshot, facts)).await });
    let hide = |session: &str| keys.hide(session);
    let mut explanation = explain_with(&accepted.snapshot, &settings.rules(), &question, Seen::well(), &hide, &session);
    let is_chosen = settings.session.sticky || !settings.publish.sticky_header.is_empty();
    if is_chosen && settings.secret_file.is_none() && explanation.facts.session.is_some() {
        let told = "by a random key, made for this answer alone: replicas choose otherwise, unless they share a `secret_file`";
        explanation.considered.push(Considered::new("session.sticky", None, told));
    }
    Ok(match arguments.format {
        Format::Json => {
            let mut answer = explanation.to_json();
            if !is_accepted {
                let is_error = |diagnostic: &&Diagnostic| diagnostic.severity == Severity::Error;
                let errors: Vec<Diagnostic> = accepted.warnings.iter().filter(is_error).cloned().collect();
                answer["accepted"] = false.into();
                answer["diagnostics"] = render::json(&errors)["diagnostics"].take();
            }
            format!("{answer:#}\n")
        }
        Format::Text => explanation.to_text(colour(&io::stdout())),
    })
}

fn body(name: &str) -> io::Result<Vec<u8>> {
    if name != "-" {
        return std::fs::read(name);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}
