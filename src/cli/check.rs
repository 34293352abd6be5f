//! `cascade check`: is this catalog good?

use std::io;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::arguments::{Check, Format};
use super::{not_available, print, report, source};
use crate::catalog::load::SourceFile;
use crate::catalog::snapshot::{Cluster, Served, Snapshot};
use crate::diagnostic::{Diagnostic, Place, Severity, acceptable, render};
use crate::expectations::drain::{self, DrainEffect, Loss, Report};
use crate::names::ModelName;
use crate::resolve::Policy;
use crate::secret::{AdminTokens, BadSecret, Keys};
use crate::settings::Settings;

pub(super) fn run(arguments: &Check) -> ExitCode {
    if arguments.envoy.is_some() {
        return not_available("check --envoy");
    }
    let Checked { files, snapshot, policy, diagnostics } = check(arguments);
    let drains = snapshot.as_ref().map(|snapshot| drain::report(snapshot, policy));
    match arguments.format {
        Format::Json => {
            let mut report = render::json(&diagnostics);
            report["revision"] = json!(snapshot.as_ref().map(|snapshot| snapshot.revision.to_string()));
            report["label"] = json!(snapshot.as_ref().and_then(|snapshot| snapshot.label.as_deref()));
            report["drains"] = drains.as_ref().map(drains_json).unwrap_or_default();
            print(&format!("{report:#}\n"));
        }
        Format::Text => {
            print(&report::text(&diagnostics, &files, &io::stdout()));
            print(&drains.as_ref().map(drains_text).unwrap_or_default());
            print(&conclusion(snapshot.as_ref(), &diagnostics));
        }
    }
    let is_good = if arguments.strict { diagnostics.is_empty() } else { acceptable(&diagnostics) };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Checked {
    files: Vec<SourceFile>,
    snapshot: Option<Snapshot>,
    policy: Policy,
    diagnostics: Vec<Diagnostic>,
}

fn check(arguments: &Check) -> Checked {
    let source::Read { settings, warnings: mut diagnostics, mut files } = match source::settings(&arguments.common, None, None) {
        Ok(read) => read,
        Err(source::Refused { diagnostics, files }) => {
            return Checked { files, snapshot: None, policy: Policy::default(), diagnostics };
        }
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
    let policy = settings.rules().policy;
    diagnostics.extend(snapshot.iter().flat_map(|snapshot| drain::without_any_cluster(snapshot, policy)));
    if arguments.strict {
        diagnostics.iter_mut().for_each(|diagnostic| diagnostic.severity = Severity::Error);
    }
    Checked { files, snapshot, policy, diagnostics }
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
fn drains_text(report: &Report) -> String {
    let keeps = match report.lost_already.as_slice() {
        [] => "every model keeps a cluster",
        _ => "every model that has a cluster now keeps one",
    };
    let mut text = String::new();
    for DrainEffect { provider, models, missing_model, losses } in &report.effects {
        text += &match (models.as_slice(), missing_model) {
            ([], false) => format!("if {provider} is drained, {keeps}\n"),
            ([], true) => format!("if {provider} is drained, nothing is left for requests without a model\n"),
            (models, false) => format!("if {provider} is drained, nothing is left for {}\n", joined(models)),
            (models, true) => {
                format!("if {provider} is drained, nothing is left for {} and requests without a model\n", joined(models))
            }
        };
        for loss in losses {
            text += &format!("  and for {} nothing is left for {}\n", whose(loss), joined(&loss.models));
        }
    }
    if report.not_looked_at > 0 {
        text += &format!("{} tenants have too many different rules to look at what drains mean for each\n", report.not_looked_at);
    }
    text
}

fn whose(loss: &Loss) -> String {
    let more = if loss.count > 1 { format!(" and {} with the same rules", loss.count - 1) } else { String::new() };
    match &loss.tier {
        Some(tier) => format!("tenant {} of tier {tier}{more}", loss.tenant),
        None => format!("tenant {}{more}", loss.tenant),
    }
}

fn joined(models: &[ModelName]) -> String {
    models.iter().map(ModelName::as_str).collect::<Vec<_>>().join(", ")
}

fn drains_json(report: &Report) -> Value {
    let names = |models: &[ModelName]| models.iter().map(|model| json!(model.as_str())).collect::<Value>();
    let loss = |loss: &Loss| {
        json!({
            "tier": loss.tier.as_ref().map(ToString::to_string),
            "tenant": loss.tenant.as_str(),
            "tenants": loss.count,
            "models_without_cluster": names(&loss.models),
        })
    };
    let effect = |effect: &DrainEffect| {
        let losses: Value = effect.losses.iter().map(loss).collect();
        let mut told =
            json!({"provider": effect.provider.as_str(), "models_without_cluster": names(&effect.models), "restricted": losses});
        if effect.missing_model {
            told["missing_model_without_cluster"] = json!(true);
        }
        told
    };
    report.effects.iter().map(effect).collect()
}

fn conclusion(snapshot: Option<&Snapshot>, diagnostics: &[Diagnostic]) -> String {
    let count = |severity| diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
    let warnings = count_of(count(Severity::Warning), "warning");
    match snapshot {
        Some(snapshot) if acceptable(diagnostics) => format!(
            "good: revision {}, {}, {}, {}; {warnings}\n",
            snapshot.revision,
            count_of(snapshot.models.len(), "model"),
            count_of(snapshot.tenants.len(), "tenant"),
            count_of(snapshot.expectations.tests.len(), "test"),
        ),
        Some(_) | None => format!("not good: {}, {warnings}\n", count_of(count(Severity::Error), "error")),
    }
}

fn count_of(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
