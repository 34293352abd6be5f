//! `cascade check`: is this catalog good?

use std::io;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::arguments::{Check, Format};
use super::{not_available, print, report, source};
use crate::catalog::drain::{self, DrainEffect};
use crate::catalog::load::SourceFile;
use crate::catalog::snapshot::{Cluster, Served, Snapshot};
use crate::diagnostic::{Diagnostic, Place, Severity, acceptable, render};
use crate::names::ModelName;
use crate::secret::{AdminTokens, BadSecret, Keys};
use crate::settings::Settings;

pub(super) fn run(arguments: &Check) -> ExitCode {
    if arguments.envoy.is_some() {
        return not_available("check --envoy");
    }
    let Checked { files, snapshot, diagnostics } = check(arguments);
    match arguments.format {
        Format::Json => {
            let mut report = render::json(&diagnostics);
            report["revision"] = json!(snapshot.as_ref().map(|snapshot| snapshot.revision.to_string()));
            report["label"] = json!(snapshot.as_ref().and_then(|snapshot| snapshot.label.as_deref()));
            report["drains"] = snapshot.as_ref().map(drains_json).unwrap_or_default();
            print(&format!("{report:#}\n"));
        }
        Format::Text => {
            print(&report::text(&diagnostics, &files, &io::stdout()));
            print(&snapshot.as_ref().map(drains_text).unwrap_or_default());
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
    diagnostics.extend(bad_secrets(&settings));
    let catalog = source::catalog(&settings);
    files.extend(catalog.files);
    let (snapshot, found) = match catalog.verdict {
        Ok(accepted) => (Some(accepted.snapshot), accepted.warnings),
        Err(found) => (None, found),
    };
    diagnostics.extend(found);
    diagnostics
        .extend(snapshot.as_ref().and_then(|snapshot| not_renamed(&settings, snapshot, arguments.common.config.as_deref())));
    Checked { files, snapshot, diagnostics }
}

/// `serve` would not start with these. A warning: `check` often runs where the secrets are not.
fn bad_secrets(settings: &Settings) -> Vec<Diagnostic> {
    let keys = settings.secret_file.as_deref().map(|path| (path, Keys::of(Some(path)).err()));
    let tokens = settings.admin_token_file.as_deref().map(|path| (path, AdminTokens::of(path).err()));
    let warning = |(path, bad): (&str, Option<BadSecret>)| {
        let message = format!("{}: `cascade serve` would not start with it", bad?.0);
        let hint = "one secret a line, at least 16 characters each, as from `openssl rand -base64 32`";
        Some(Diagnostic::warning("unreadable-secret", &Place::whole(path), message).hint(hint))
    };
    [keys, tokens].into_iter().flatten().filter_map(warning).collect()
}

/// A cluster has a map of names, and there are models in places where no other name can be put.
fn not_renamed(settings: &Settings, snapshot: &Snapshot, config: Option<&str>) -> Option<Diagnostic> {
    let has_names = |cluster: &&Cluster| match &cluster.served {
        Served::Every => false,
        Served::Only(models) => models.values().any(Option::is_some),
    };
    let cluster = snapshot.clusters.iter().find(has_names)?;
    let fixed: Vec<String> =
        settings.extract.plan.model.iter().filter(|source| !source.can_be_renamed()).map(|source| source.describe()).collect();
    if fixed.is_empty() {
        return None;
    }
    let message = format!(
        "`extract.model` reads {}, where no other name can be written: a model found there reaches every provider as it was sent, though \
         the cluster `{}` has names of its own",
        fixed.join(" and "),
        cluster.name,
    );
    let hint = "read the model from where providers read it (`{dialect: auto}`, `{body: /pointer}`, `{query: name}`, ...)";
    Some(Diagnostic::warning("model-not-renamed", &Place::whole(config.unwrap_or("settings")), message).hint(hint))
}

/// What each provider's drain would leave without a cluster, to be known before the incident.
fn drains_text(snapshot: &Snapshot) -> String {
    let keeps = match drain::lost_already(snapshot).as_slice() {
        [] => "every model keeps a cluster",
        _ => "every model that has a cluster now keeps one",
    };
    let line = |effect: DrainEffect| match effect.models.as_slice() {
        [] => format!("if {} is drained, {keeps}\n", effect.provider),
        models => format!("if {} is drained, nothing is left for {}\n", effect.provider, joined(models)),
    };
    drain::effects(snapshot).into_iter().map(line).collect()
}

fn joined(models: &[ModelName]) -> String {
    models.iter().map(ModelName::as_str).collect::<Vec<_>>().join(", ")
}

fn drains_json(snapshot: &Snapshot) -> Value {
    let effect = |effect: DrainEffect| {
        let models: Vec<&str> = effect.models.iter().map(ModelName::as_str).collect();
        json!({"provider": effect.provider.as_str(), "models_without_cluster": models})
    };
    drain::effects(snapshot).into_iter().map(effect).collect()
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
