//! "Did you mean": the nearest of the words that could have been meant.

/// The candidate nearest to `word`, if it is near enough to be a slip of the pen.
#[must_use]
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let length = word.chars().count();
    // One slip in a short word, one in three letters of a long one.
    let allowed = (length / 3).clamp(1, 4);
    let folded = word.to_lowercase();
    candidates
        .into_iter()
        .filter(|candidate| *candidate != word && candidate.chars().count().abs_diff(length) <= allowed)
        .map(|candidate| (strsim::damerau_levenshtein(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_pen_is_recognised_and_another_word_is_not() {
        let fields = ["allowed_models", "denied_models", "chains", "fail", "mode"];
        for (word, expected) in [
            ("allowed_model", Some("allowed_models")),
            ("alowed_models", Some("allowed_models")),
            ("chain", Some("chains")),
            ("chians", Some("chains")),
            ("Mode", Some("mode")),
            ("tags", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, fields), expected, "{word}");
        }
    }
}
