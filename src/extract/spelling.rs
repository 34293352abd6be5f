//! Other spellings of a wanted name. Most parsers compare names byte by byte, and some do not: Go's `encoding/json` and .NET fold
//! case, form parsers of many languages trim blanks and cut brackets off. A body that spells a name in such a way may say one thing
//! to Cascade and another to a provider. It compares names; what follows from it is decided elsewhere.

use percent_encoding::percent_decode_str;

/// What a reader has seen of a wanted name's spellings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// The name itself.
    pub exact: bool,
    /// Another spelling of it.
    pub other: bool,
    /// Two keys that a lenient parser takes for one, of which at least one is another spelling.
    pub twice: bool,
}

impl Seen {
    pub fn note_exact(&mut self) {
        self.twice |= self.other;
        self.exact = true;
    }

    pub fn note_other(&mut self) {
        self.twice |= self.exact || self.other;
        self.other = true;
    }
}

/// True if the keys differ in case alone, as Unicode has it: `ſ` is an `s` and the Kelvin sign a `k`.
#[must_use]
pub fn is_case_variant(key: &str, wanted: &str) -> bool {
    if key.is_ascii() && wanted.is_ascii() {
        return key.len() == wanted.len() && key != wanted && key.eq_ignore_ascii_case(wanted);
    }
    // A variant of another length holds a character beyond ASCII.
    key != wanted && key.chars().map(fold).eq(wanted.chars().map(fold))
}

/// How many bytes a case variant may have at most: `k` takes one, the Kelvin sign three.
#[must_use]
pub const fn longest_variant(wanted: usize) -> usize {
    wanted * 3
}

/// One character for all that are the same but for case. Where languages do not agree (the Turkish `ı` and `İ`), they are the same.
fn fold(character: char) -> char {
    let mut upper = character.to_uppercase();
    let upper = if upper.len() == 1 { upper.next().unwrap_or(character) } else { character };
    upper.to_lowercase().next().unwrap_or(upper)
}

/// True if some parser of forms takes `name` for `wanted`, though it is not: in another case, with blanks around it, with brackets
/// behind it (`model[]`), percent-encoded, or cut by a zero byte.
#[must_use]
pub fn is_form_variant(name: &str, wanted: &str) -> bool {
    if name == wanted {
        return false;
    }
    // The shortest name that may stand for the wanted one is as long as it.
    if name.len() < wanted.len() {
        return false;
    }
    let decoded = percent_decode_str(name).decode_utf8_lossy();
    let cut = decoded.split(['[', '\0']).next().unwrap_or_default();
    let trimmed =
        cut.trim_matches(|character: char| character.is_whitespace() || character.is_control() || "'\"".contains(character));
    trimmed == wanted || is_case_variant(trimmed, wanted)
}

/// True if there is something to see in the text: neither blanks nor control characters nor what has no width.
#[must_use]
pub fn is_visible(text: &str) -> bool {
    text.chars().any(|character| {
        !(character.is_whitespace()
            || character.is_control()
            || matches!(character,
                '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
                | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}'
                | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_folded_as_go_folds_it() {
        for (key, wanted, is_variant) in [
            ("model", "model", false),
            ("Model", "model", true),
            ("MODEL", "model", true),
            ("models", "model", false),
            ("mode", "model", false),
            ("ſeſſion", "session", true),
            ("\u{212A}ey", "key", true),
            ("key", "\u{212A}ey", true),
            ("MODÈLE", "modèle", true),
            ("modele", "modèle", false),
            ("STRAẞE", "straße", true),
            ("ΣΑΣ", "σας", true),
            ("\u{B5}", "\u{39C}", true),
            ("TASK\u{130}D", "taskid", true),
            ("", "", false),
            ("x", "", false),
        ] {
            assert_eq!(is_case_variant(key, wanted), is_variant, "{key} for {wanted}");
            assert!(!is_variant || key.len() <= longest_variant(wanted.len()), "{key}");
        }
    }

    #[test]
    fn names_of_forms_have_more_spellings() {
        for name in
            ["Model", " model", "model\t", "model[]", "MODEL[0][x]", "model\0x", "mod%65l", "'model'", "\u{a0}model", "%4dodel"]
        {
            assert!(is_form_variant(name, "model"), "{name:?}");
        }
        for name in ["model", "models", "x[model]", "my model", "mode", ""] {
            assert!(!is_form_variant(name, "model"), "{name:?}");
        }
    }

    #[test]
    fn blanks_of_any_kind_are_nothing_to_see() {
        for text in ["", " ", "\t\r\n", "\u{a0}\u{3000}\u{2003}", "\u{0}\u{1f}\u{7f}\u{85}", "\u{200b}\u{feff}\u{2060} "] {
            assert!(!is_visible(text), "{text:?}");
        }
        for text in ["0", " a ", "é", "😀", "-"] {
            assert!(is_visible(text), "{text:?}");
        }
    }
}
