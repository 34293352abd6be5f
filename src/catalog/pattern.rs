//! Name patterns: literal text and `*`, anchored at both ends. Which of two patterns wins is the order of their [`Rank`]; this
//! module does not know what the names stand for.

use std::cmp::Reverse;
use std::collections::HashMap;

/// A name, or a name with `*` in it (any run of characters, also none). No other character is special.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: String,
}

/// How closely a pattern describes what it matches: the smaller one wins. Exact beats pattern, a longer literal prefix beats a
/// shorter one, then more literal characters, then the text itself, so that the order of files never decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank<'a>(bool, Reverse<usize>, Reverse<usize>, &'a str);

impl Pattern {
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True if there is no `*`: the pattern is a plain name.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.text.contains('*')
    }

    /// True for the pattern that matches everything.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.text == "*"
    }

    /// The literal text before the first `*`.
    fn prefix(&self) -> &str {
        &self.text[..self.text.find('*').unwrap_or(self.text.len())]
    }

    #[must_use]
    pub fn rank(&self) -> Rank<'_> {
        let prefix = self.prefix().len();
        let literals = self.text.bytes().filter(|byte| *byte != b'*').count();
        Rank(!self.is_exact(), Reverse(prefix), Reverse(literals), &self.text)
    }

    /// Both ends are compared where they are, and what is between two stars is looked for from left to right: the first place is as
    /// good as any later one. Linear in the name's length, whatever the pattern.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.text.split_once('*') else { return self.text == name };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let inner = name.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
        let mut pieces = middle.split('*');
        inner.is_some_and(|inner| pieces.try_fold(inner, |rest, piece| Some(rest.split_once(piece)?.1)).is_some())
    }
}

/// Patterns and what they stand for. The closest match is found by literal prefixes, so that a thousand patterns cost little more
/// than one.
#[derive(Debug, Clone, Default)]
pub struct PatternTable<T> {
    /// Best rank first.
    entries: Vec<(Pattern, T)>,
    /// Indices of `entries` by literal prefix, best rank first.
    by_prefix: HashMap<Box<str>, Vec<usize>>,
    /// Lengths of the prefixes in bytes, longest first: the rank's first word among patterns.
    lengths: Vec<usize>,
}

impl<T> PatternTable<T> {
    #[must_use]
    pub fn new(mut entries: Vec<(Pattern, T)>) -> Self {
        entries.sort_by(|(a, _), (b, _)| a.rank().cmp(&b.rank()));
        let mut by_prefix: HashMap<Box<str>, Vec<usize>> = HashMap::new();
        for (index, (pattern, _)) in entries.iter().enumerate() {
            by_prefix.entry(Box::from(pattern.prefix())).or_default().push(index);
        }
        let mut lengths: Vec<usize> = by_prefix.keys().map(|prefix| prefix.len()).collect();
        lengths.sort_unstable_by_key(|length| Reverse(*length));
        lengths.dedup();
        Self { entries, by_prefix, lengths }
    }

    /// The closest pattern that matches the name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&(Pattern, T)> {
        let with_prefix = |length: &usize| self.by_prefix.get(name.get(..*length)?);
        let candidates = self.lengths.iter().filter_map(with_prefix).flatten().map(|index| &self.entries[*index]);
        candidates.into_iter().find(|(pattern, _)| pattern.matches(name))
    }

    /// All patterns, best rank first.
    pub fn iter(&self) -> impl Iterator<Item = &(Pattern, T)> {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As slow and plain as it can be said.
    fn reads(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => reads(rest, name) || (!name.is_empty() && reads(pattern, &name[1..])),
            ([a, rest @ ..], [b, name @ ..]) => a == b && reads(rest, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_pattern_matches_what_its_definition_says(pattern in "[ab*é]{0,7}", name in "[abé]{0,10}") {
            prop_assert_eq!(Pattern::new(&pattern).matches(&name), reads(pattern.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn a_table_finds_what_a_search_in_order_of_rank_finds(patterns in proptest::collection::vec("[ab*]{1,5}", 0..20), name in "[abé]{0,6}") {
            let table = PatternTable::new(patterns.iter().map(|text| (Pattern::new(text), ())).collect());
            let expected = table.iter().find(|(pattern, ())| pattern.matches(&name));
            prop_assert_eq!(table.find(&name), expected);
        }
    }

    #[test]
    fn a_star_stands_for_any_run_and_both_ends_are_anchored() {
        for (pattern, name, expected) in [
            ("o3", "o3", true),
            ("o3", "o3-mini", false),
            ("o3-*", "o3-", true),
            ("o3-*", "o3", false),
            ("*.anthropic.claude-*", "us.anthropic.claude-opus", true),
            ("*-mini", "gpt-mini-mini", true),
            ("*-mini", "gpt-mini-x", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("*ab*ab*", "aab-ab", true),
            ("*ab*ab", "ab", false),
            ("a**c", "ac", true),
            ("é*é", "é", false),
            ("*", "", true),
            ("**", "x", true),
            ("modèle-*", "modèle-é", true),
            ("a?c", "abc", false),
            ("a[b]c", "abc", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn the_closer_pattern_ranks_first() {
        let mut patterns = ["*", "gpt-*", "gpt-4o", "gpt-4*", "*-4o", "gpt-*-mini", "gpt-*o"].map(Pattern::new);
        patterns.sort_by(|a, b| a.rank().cmp(&b.rank()));
        assert_eq!(
            patterns.map(|p| p.text),
            ["gpt-4o", "gpt-4*", "gpt-*-mini", "gpt-*o", "gpt-*", "*-4o", "*"].map(str::to_owned)
        );
    }
}
