//! An explanation for a person at a terminal: the answer first, then what it rests on. It adds nothing that the JSON lacks.

use std::fmt::Write;

use super::{Attempt, Explanation};
use crate::extract::{Found, TenantClaim};
use crate::outcome::Outcome;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";

struct Paint(bool);

impl Paint {
    fn paint(&self, style: &str, text: &str) -> String {
        if self.0 { format!("{style}{text}{RESET}") } else { text.to_owned() }
    }
}

impl Explanation<'_> {
    /// Several lines, each ended. `colour`: with terminal escapes.
    #[must_use]
    pub fn to_text(&self, colour: bool) -> String {
        let paint = Paint(colour);
        let mut out = String::new();
        self.headline(&mut out, &paint);
        self.facts_text(&mut out, &paint);
        self.attempts_text(&mut out, &paint);
        let left_out = self.left_out();
        if !left_out.is_empty() {
            section(&mut out, &paint, "left out");
            for (group, cluster, why, detail) in left_out {
                let what = cluster.map_or_else(|| format!("group {group}"), |cluster| format!("{cluster} of {group}"));
                let detail = detail.map(|detail| format!(" {detail}")).unwrap_or_default();
                line(&mut out, &format!("{what}: {why}{detail}"));
            }
        }
        let endpoint = self.endpoint_metadata();
        if !endpoint.is_empty() {
            section(&mut out, &paint, "endpoint metadata (envoy.lb)");
            line(&mut out, &serde_json::Value::Object(endpoint).to_string());
        }
        section(&mut out, &paint, "considered");
        for considered in &self.considered {
            let place = considered.place.as_ref().map(|place| paint.paint(DIM, &format!("  {place}"))).unwrap_or_default();
            line(&mut out, &format!("{}: {}{place}", considered.rule, considered.result));
        }
        out
    }

    fn headline(&self, out: &mut String, paint: &Paint) {
        let resolution = &self.resolution;
        let style = match resolution.outcome {
            Outcome::Override => GREEN,
            Outcome::PassThrough => YELLOW,
            Outcome::Reject => RED,
        };
        let meaning = match resolution.outcome {
            Outcome::Override => "Envoy is sent the chain below".to_owned(),
            Outcome::PassThrough => "Envoy's static chain stands".to_owned(),
            Outcome::Reject => format!("the client gets {}", resolution.reason.status()),
        };
        let word = paint.paint(style, &paint.paint(BOLD, resolution.outcome.as_str()));
        let _ = writeln!(out, "{word} ({}): {meaning}", resolution.reason.as_str());
        let label = self.snapshot.label.as_deref().map(|label| format!(", {label}")).unwrap_or_default();
        line(
            out,
            &paint.paint(DIM, &format!("catalog {}{label}; health {}", self.snapshot.revision, resolution.health.as_str())),
        );
    }

    fn facts_text(&self, out: &mut String, paint: &Paint) {
        section(out, paint, "facts");
        let origin = |field: &str| {
            let found = self.origins.iter().find(|(name, _)| *name == field);
            found.map(|(_, origin)| paint.paint(DIM, &format!("  from {origin}"))).unwrap_or_default()
        };
        let model = match &self.facts.model {
            Found::Value(name) => match self.model() {
                Some(known) if known != name => format!("{known} (sent as {})", printable(name)),
                _ => printable(name),
            },
            Found::Nothing => "-".to_owned(),
            Found::Unusable => "a value that is no name".to_owned(),
        };
        line(out, &format!("model    {model}{}", origin("model")));
        let claim = match &self.facts.tenant {
            Found::Value(TenantClaim::Name(name)) => printable(name),
            Found::Value(TenantClaim::ApiKey(_)) => "an API key".to_owned(),
            Found::Nothing => "-".to_owned(),
            Found::Unusable => "a value that is no name".to_owned(),
        };
        let judged = match self.tenant() {
            Some(name) if name != claim => format!("{name} (sent: {claim})"),
            _ => claim,
        };
        line(out, &format!("tenant   {judged}{}", origin("tenant")));
        let session = self.session.as_deref().map_or_else(|| "-".to_owned(), |hash| format!("{hash} (a keyed hash of its id)"));
        line(out, &format!("session  {session}{}", origin("session")));
    }

    fn attempts_text(&self, out: &mut String, paint: &Paint) {
        let attempts = self.attempts();
        if attempts.is_empty() {
            return;
        }
        let title = if self.resolution.outcome == Outcome::Override { "attempts" } else { "attempts it would have had" };
        section(out, paint, title);
        attempts.iter().for_each(|attempt| line(out, &attempt_line(attempt, paint)));
    }
}

fn attempt_line(attempt: &Attempt<'_>, paint: &Paint) -> String {
    let clusters = if attempt.clusters.is_empty() {
        "as Envoy's own group of that name has it".to_owned()
    } else {
        let share = |(name, probability): &(&str, f64)| format!("{name} {:.1} %", probability * 100.0);
        attempt.clusters.iter().map(share).collect::<Vec<_>>().join(", ")
    };
    let pick = attempt.pick.map(|pick| format!(" → {}", paint.paint(BOLD, pick))).unwrap_or_default();
    format!("{}. {}: {clusters}{pick}", attempt.number, attempt.group)
}

/// Names in a request are data: no control character reaches the terminal.
fn printable(text: &str) -> String {
    text.chars().take(200).map(|character| if character.is_control() { '\u{FFFD}' } else { character }).collect()
}

fn section(out: &mut String, paint: &Paint, title: &str) {
    let _ = writeln!(out, "{}", paint.paint(BOLD, title));
}

fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "  {text}");
}
