//! The demo's table as text: two lines a request, so that it fits a terminal of 80 columns.

use std::fmt::Write as _;

use super::scenario::{Case, Witness};

const HEAD: [&str; 3] = ["request → groups sent", "decided", "served by, attempt after attempt"];

/// One block per case: what was sent, what was decided and why, which cluster served each attempt.
pub(super) fn render(judged: &[(&Case, &Witness)]) -> String {
    let decided = |witness: &Witness| format!("{}: {}", witness.outcome, witness.reason);
    let width = judged.iter().map(|(_, witness)| decided(witness).chars().count()).max().unwrap_or(0);
    let mut text = format!("\n  {}\n  {:width$}  {}\n\n", HEAD[0], HEAD[1], HEAD[2]);
    for (case, witness) in judged {
        let mark = if case.is_met_by(witness) { "✓" } else { "✗" };
        let chain = if witness.chain.is_empty() { String::new() } else { format!(" → {}", witness.chain.join(", ")) };
        let _ = writeln!(text, "{mark} {}{chain}\n  {:width$}  {}", case.title, decided(witness), served(witness));
    }
    text.push('\n');
    text
}

fn served(witness: &Witness) -> String {
    let ways: Vec<_> = witness
        .ways
        .iter()
        .map(|(way, times)| match (way.as_str(), *times) {
            ("", _) => format!("nobody; the client got {}", witness.status),
            (way, 1) => way.replace(") ", "), "),
            (way, times) => format!("{times} × {way}"),
        })
        .collect();
    ways.join(", ")
}
