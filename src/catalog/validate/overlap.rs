//! Patterns of different models that match the same names, and which of them wins.

use std::collections::BTreeMap;

use super::Context;
use crate::catalog::pattern::Pattern;
use crate::diagnostic::Place;
use crate::document::Node;

/// Steps that the comparison of patterns may take in all, about a tenth of a second. A catalog of a thousand models stays far below.
const STEPS: usize = 20_000_000;

struct Alias<'d> {
    pattern: Pattern,
    model: &'d str,
    place: &'d Place,
}

pub(super) fn check(context: &mut Context<'_>, document: &Node) {
    let models = document.get("models").map(Node::entries).unwrap_or_default();
    let mut aliases: Vec<Alias<'_>> = Vec::new();
    for model in models {
        let nodes = model.value.get("aliases").map(Node::items).unwrap_or_default();
        let texts = nodes.iter().filter_map(|node| Some((node.text()?, &node.place)));
        // `*` alone is meant to match what is left.
        let patterns = texts.filter(|(text, _)| text.contains('*') && *text != "*");
        aliases.extend(patterns.map(|(text, place)| Alias { pattern: Pattern::new(text), model: &model.key, place }));
    }
    for (loser, winners) in losers(&aliases) {
        report(context, &aliases[loser], &winners.iter().map(|winner| &aliases[*winner]).collect::<Vec<_>>());
    }
}

/// Each pattern that loses some names, and the patterns of other models to which it loses them.
fn losers(aliases: &[Alias<'_>]) -> BTreeMap<usize, Vec<usize>> {
    let (mut losers, mut steps) = (BTreeMap::<usize, Vec<usize>>::new(), STEPS);
    for (i, a) in aliases.iter().enumerate() {
        for (j, b) in aliases.iter().enumerate().skip(i + 1) {
            if a.model != b.model && overlap(&a.pattern, &b.pattern, &mut steps) {
                let (winner, loser) = if a.pattern.rank() < b.pattern.rank() { (i, j) } else { (j, i) };
                losers.entry(loser).or_default().push(winner);
            }
        }
    }
    losers
}

fn report(context: &mut Context<'_>, loser: &Alias<'_>, winners: &[&Alias<'_>]) {
    let Some(winner) = winners.iter().min_by(|a, b| a.pattern.rank().cmp(&b.pattern.rank())) else { return };
    let more = if winners.len() > 1 { format!("; so it is with {} more", winners.len() - 1) } else { String::new() };
    let message = format!(
        "`{}` of `{}` and `{}` of `{}` match some of the same names; those go to `{}`{more}",
        loser.pattern.as_str(),
        loser.model,
        winner.pattern.as_str(),
        winner.model,
        winner.model
    );
    let hint =
        format!("the longer literal prefix wins (the other one is at {}); make one of them narrower to be sure", winner.place);
    context.warn("overlapping-patterns", loser.place, message, hint);
}

/// True if some name that people could really use is matched by both. Almost any two patterns with stars at both ends match *some*
/// name, by one's text following the other's; that counts only if they share text, or if one holds all that the other matches.
fn overlap(a: &Pattern, b: &Pattern, steps: &mut usize) -> bool {
    let (x, y) = (a.as_str(), b.as_str());
    if !ends_agree(x, y) {
        return false;
    }
    let single = |text: &str| text.matches('*').count() == 1;
    let opposite = single(x) && single(y) && (x.ends_with('*') && y.starts_with('*') || x.starts_with('*') && y.ends_with('*'));
    // A character that no literal can be stands for the star: what matches it can only be a star.
    let holds = |outer: &Pattern, inner: &str| outer.matches(&inner.replace('*', "\u{1}"));
    opposite || holds(a, y) || holds(b, x) || share_text(x.as_bytes(), y.as_bytes(), steps)
}

/// What stands before the first star must be a prefix of the other's, and what stands after the last one a suffix.
fn ends_agree(x: &str, y: &str) -> bool {
    let before = |text: &str| text.split('*').next().unwrap_or_default().as_bytes().to_vec();
    let after = |text: &str| text.rsplit('*').next().unwrap_or_default().as_bytes().to_vec();
    let (a, b, c, d) = (before(x), before(y), after(x), after(y));
    (a.starts_with(&b) || b.starts_with(&a)) && (c.ends_with(&d) || d.ends_with(&c))
}

/// True if the shortest name that both match is shorter than both texts in a row.
fn share_text(x: &[u8], y: &[u8], steps: &mut usize) -> bool {
    const NEVER: usize = usize::MAX / 2;
    let Some(left) = steps.checked_sub((x.len() + 1) * (y.len() + 1)) else { return false };
    *steps = left;
    // shortest[j]: the shortest name matched by x[i..] and y[j..], for the row i that is being filled.
    let mut below = vec![NEVER; y.len() + 1];
    for i in (0..=x.len()).rev() {
        let mut row = vec![NEVER; y.len() + 1];
        for j in (0..=y.len()).rev() {
            row[j] = match (x.get(i), y.get(j)) {
                (None, None) => 0,
                (Some(b'*'), Some(b'*')) => below[j].min(row[j + 1]),
                (Some(b'*'), Some(_)) => below[j].min(row[j + 1] + 1),
                (Some(_), Some(b'*')) => row[j + 1].min(below[j] + 1),
                (Some(a), Some(b)) if a == b => below[j + 1] + 1,
                (Some(b'*'), None) => below[j],
                (None, Some(b'*')) => row[j + 1],
                _ => NEVER,
            };
        }
        below = row;
    }
    let literals = |text: &[u8]| text.iter().filter(|byte| **byte != b'*').count();
    below[0] < literals(x) + literals(y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_overlap_if_a_real_name_could_be_meant_by_both() {
        for (a, b, expected) in [
            ("gpt-*", "gpt-4*", true),
            ("gpt-*-mini", "gpt-4-*", true),
            ("*-mini", "gpt-*", true),
            ("claude*", "*latest", true),
            ("gpt-4*", "gpt-5*", false),
            ("*-mini", "*-nano", false),
            ("*.anthropic.claude-opus-*", "claude-sonnet-4-*", false),
            ("*.anthropic.claude-opus-*", "*.anthropic.claude-sonnet-*", false),
            ("*claude*", "anthropic-claude-*", true),
            ("modèle-*", "modèle-é*", true),
        ] {
            let (a, b) = (Pattern::new(a), Pattern::new(b));
            assert_eq!(overlap(&a, &b, &mut STEPS.clone()), expected, "{a:?} {b:?}");
            assert_eq!(overlap(&b, &a, &mut STEPS.clone()), expected, "{b:?} {a:?}");
        }
    }
}
