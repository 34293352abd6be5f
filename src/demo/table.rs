//! The demo's table as text.

use std::fmt::Write as _;

use super::scenario::{Case, Witness};

/// One block per case: what was sent, what was decided and why, which cluster served each attempt.
pub(super) fn render(judged: &[(&Case, &Witness)]) -> String {
    let rows: Vec<[String; 4]> = judged.iter().map(|(case, witness)| row(case, witness)).collect();
    let head = ["", "request", "decided", "served by, attempt after attempt"].map(str::to_owned);
    let widths: Vec<usize> =
        (0..3).map(|column| rows.iter().chain([&head]).map(|row| width(&row[column])).max().unwrap_or(0)).collect();
    let mut text = String::from("\n");
    for row in std::iter::once(&head).chain(&rows) {
        for (cell, width_of_column) in row.iter().zip(&widths) {
            let _ = write!(text, "{cell}{}  ", " ".repeat(width_of_column - width(cell)));
        }
        let _ = writeln!(text, "{}", row[3]);
    }
    text.push('\n');
    text
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

fn row(case: &Case, witness: &Witness) -> [String; 4] {
    let mark = if case.is_met_by(witness) { "✓" } else { "✗" };
    let chain = if witness.chain.is_empty() { String::new() } else { format!(" → {}", witness.chain.join(", ")) };
    [mark.to_owned(), case.title.to_owned(), format!("{}: {}{chain}", witness.outcome, witness.reason), served(witness)]
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
