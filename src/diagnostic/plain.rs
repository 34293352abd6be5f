//! Text from a catalog, a directory or a request on its way to a terminal or a log: nothing in it may move the cursor, end a line or
//! turn its direction.

use std::borrow::Cow;

/// Controls, and what ends a line or turns its direction without being one.
#[must_use]
pub fn is_harmful(character: char) -> bool {
    character.is_control() || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with what is harmful written as Rust does in literals (`\n`, `\u{1b}`).
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_harmful(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}
