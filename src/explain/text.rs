//! An explanation for a person at a terminal: the answer first, then what it rests on. It adds nothing that the JSON lacks. What it
//! tells was written by clients, catalogs and directories, so that no character of theirs moves the cursor or ends a line.

use super::{Attempt, Explanation};
use crate::diagnostic::plain::plain;
use crate::extract::{Found, TenantClaim};
use crate::outcome::Outcome;

const PLAIN: &str = "";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const GREEN: &str = "\x1b[1;32m";
const YELLOW: &str = "\x1b[1;33m";
const RED: &str = "\x1b[1;31m";
const RESET: &str = "\x1b[0m";

/// The only way to the terminal. A line is made of pieces, each a style and a text.
struct Page {
    out: String,
    colour: bool,
}

impl Page {
    fn section(&mut self, title: &str) {
        self.write(&[(BOLD, title)]);
    }

    fn line(&mut self, pieces: &[(&str, &str)]) {
        self.out.push_str("  ");
        self.write(pieces);
    }

    fn write(&mut self, pieces: &[(&str, &str)]) {
        for (style, text) in pieces {
            let is_styled = self.colour && !style.is_empty() && !text.is_empty();
            self.out.push_str(if is_styled { style } else { PLAIN });
            self.out.push_str(&plain(text));
            self.out.push_str(if is_styled { RESET } else { PLAIN });
        }
        self.out.push('\n');
    }
}

impl Explanation<'_> {
    /// Several lines, each ended. `colour`: with terminal escapes.
    #[must_use]
    pub fn to_text(&self, colour: bool) -> String {
        let mut page = Page { out: String::new(), colour };
        self.headline(&mut page);
        self.facts_text(&mut page);
        self.attempts_text(&mut page);
        let left_out = self.left_out();
        if !left_out.is_empty() {
            page.section("left out");
            for (group, cluster, why, detail) in left_out {
                let what = cluster.map_or_else(|| format!("group {group}"), |cluster| format!("{cluster} of {group}"));
                let detail = detail.map(|detail| format!(" {detail}")).unwrap_or_default();
                page.line(&[(PLAIN, &format!("{what}: {why}{detail}"))]);
            }
        }
        let endpoint = self.endpoint_metadata();
        if !endpoint.is_empty() {
            page.section("endpoint metadata (envoy.lb)");
            page.line(&[(PLAIN, &serde_json::Value::Object(endpoint).to_string())]);
        }
        page.section("considered");
        for considered in &self.considered {
            let place = considered.place.as_ref().map(|place| format!("  {place}")).unwrap_or_default();
            page.line(&[(PLAIN, &format!("{}: {}", considered.rule, considered.result)), (DIM, &place)]);
        }
        page.out
    }

    fn headline(&self, page: &mut Page) {
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
        let reason = format!(" ({}): {meaning}", resolution.reason.as_str());
        page.write(&[(style, resolution.outcome.as_str()), (PLAIN, &reason)]);
        let label = self.snapshot.label.as_deref().map(|label| format!(", {label}")).unwrap_or_default();
        let health = resolution.health.as_str();
        page.line(&[(DIM, &format!("catalog {}{label}; health {health}", self.snapshot.revision))]);
    }

    fn facts_text(&self, page: &mut Page) {
        page.section("facts");
        let origin = |field: &str| {
            let found = self.origins.iter().find(|(name, _)| *name == field);
            found.map(|(_, origin)| format!("  from {origin}")).unwrap_or_default()
        };
        let model = match &self.facts.model {
            Found::Value(name) => match self.model() {
                Some(known) if known != name => format!("{known} (sent as {})", short(name)),
                _ => short(name),
            },
            Found::Nothing => "-".to_owned(),
            Found::Unusable => "a value that is no name".to_owned(),
        };
        page.line(&[(PLAIN, &format!("model    {model}")), (DIM, &origin("model"))]);
        let claim = match &self.facts.tenant {
            Found::Value(TenantClaim::Name(name)) => short(name),
            Found::Value(TenantClaim::ApiKey(_)) => "an API key".to_owned(),
            Found::Nothing => "-".to_owned(),
            Found::Unusable => "a value that is no name".to_owned(),
        };
        let judged = match self.tenant() {
            Some(name) if name != claim => format!("{name} (sent: {claim})"),
            _ => claim,
        };
        page.line(&[(PLAIN, &format!("tenant   {judged}")), (DIM, &origin("tenant"))]);
        let session = self.session.as_deref().map_or_else(|| "-".to_owned(), |hash| format!("{hash} (a keyed hash of its id)"));
        page.line(&[(PLAIN, &format!("session  {session}")), (DIM, &origin("session"))]);
    }

    fn attempts_text(&self, page: &mut Page) {
        let attempts = self.attempts();
        if attempts.is_empty() {
            return;
        }
        let title = if self.resolution.outcome == Outcome::Override { "attempts" } else { "attempts it would have had" };
        page.section(title);
        attempts.iter().for_each(|attempt| attempt_line(page, attempt));
    }
}

fn attempt_line(page: &mut Page, attempt: &Attempt<'_>) {
    let clusters = if attempt.clusters.is_empty() {
        "as Envoy's own group of that name has it".to_owned()
    } else {
        let share = |(name, probability): &(&str, f64)| format!("{name} {:.1} %", probability * 100.0);
        attempt.clusters.iter().map(share).collect::<Vec<_>>().join(", ")
    };
    let shares = format!("{}. {}: {clusters}", attempt.number, attempt.group);
    match attempt.pick {
        Some(pick) => page.line(&[(PLAIN, &shares), (PLAIN, " → "), (BOLD, pick)]),
        None => page.line(&[(PLAIN, &shares)]),
    }
}

/// Names in a request may be as long as the request.
fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
