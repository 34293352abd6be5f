//! A path cut into segments, in the two ways that routers cut it: as the URI standard has it, and as the most lenient of them does.
//! Where the two differ, Cascade and a provider could mean different things by one path. It knows no API.

use std::borrow::Cow;
use std::ops::Range;

use percent_encoding::{percent_decode, percent_decode_str};

use super::decode;

/// What stands between two slashes, never empty: routers merge slashes, and a slash at the end means nothing to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Its bytes in the path, as sent.
    pub range: Range<usize>,
    /// As sent.
    pub raw: &'a str,
    /// Percent-decoded; `None` if that is not UTF-8.
    pub text: Option<Cow<'a, str>>,
}

impl Segment<'_> {
    /// True if it is this word of an API, whatever its case and however its letters are encoded.
    #[must_use]
    pub fn is(&self, word: &str) -> bool {
        self.text.as_deref().is_some_and(|text| text.eq_ignore_ascii_case(word))
    }

    /// The bytes as they read, each with where it starts in the segment as sent.
    #[must_use]
    pub fn bytes(&self) -> Vec<(u8, usize)> {
        let raw = self.raw.as_bytes();
        let mut found = Vec::with_capacity(raw.len());
        let mut at = 0;
        while at < raw.len() {
            let encoded = raw.get(at..at + 3).and_then(|triple| percent_decode(triple).next());
            match encoded {
                Some(byte) if raw[at] == b'%' && is_hex(&raw[at + 1..at + 3]) => {
                    found.push((byte, at));
                    at += 3;
                }
                _ => {
                    found.push((raw[at], at));
                    at += 1;
                }
            }
        }
        found
    }

    #[must_use]
    pub fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }
}

fn is_hex(pair: &[u8]) -> bool {
    pair.iter().all(u8::is_ascii_hexdigit)
}

/// The segments of a path without its query. An encoded slash is a part of its segment.
#[must_use]
pub fn segments(path: &str) -> Vec<Segment<'_>> {
    let mut start = 0;
    let mut found = Vec::new();
    for raw in path.split('/') {
        if !raw.is_empty() {
            found.push(Segment { range: start..start + raw.len(), raw, text: decode(raw) });
        }
        start += raw.len() + 1;
    }
    found
}

/// How the most lenient router reads a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loose {
    /// Decoded until nothing is left to decode, backslashes as slashes, without `;parameters`, dot segments followed.
    pub path: String,
    /// A segment is `.` or `..`.
    pub has_dots: bool,
}

/// Why a path with dot segments is doubtful.
pub const DOTS: &str = "the path holds a segment that leads elsewhere, `.` or `..`";
/// Why a path is doubtful that its lenient reading changes.
pub const TWO_WAYS: &str = "the path can be read in two ways";

/// How often a path is decoded at most: each proxy on the way may do it once.
const ROUNDS: usize = 4;

/// The lenient reading; `None` if there is only one way to read the path.
#[must_use]
pub fn loose(path: &str) -> Option<Loose> {
    if !path.contains(['%', '\\', ';']) && !path.contains("/.") && !path.starts_with('.') {
        return None;
    }
    let mut text = Cow::Borrowed(path);
    for _ in 0..ROUNDS {
        let decoded = percent_decode_str(&text).decode_utf8_lossy().into_owned();
        if decoded == *text {
            break;
        }
        text = Cow::Owned(decoded);
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut has_dots = false;
    for segment in text.split(['/', '\\']) {
        match segment.split(';').next().unwrap_or_default() {
            "" => {}
            "." => has_dots = true,
            ".." => {
                has_dots = true;
                kept.pop();
            }
            plain => kept.push(plain),
        }
    }
    Some(Loose { path: format!("/{}", kept.join("/")), has_dots })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_a_word_in_any_spelling() {
        let found = segments("//a%2Db/%4dodels//%ff/x%2fy/");
        assert_eq!(
            found.iter().map(|segment| segment.text.as_deref()).collect::<Vec<_>>(),
            [Some("a-b"), Some("Models"), None, Some("x/y")]
        );
        assert!(found[1].is("models") && !found[0].is("models") && !found[2].is("\u{fffd}"));
        assert_eq!(found[1].raw, &"//a%2Db/%4dodels//%ff/x%2fy/"[found[1].range.clone()]);
    }

    #[test]
    fn the_lenient_reading_follows_what_some_router_follows() {
        for (path, expected, has_dots) in [
            ("/a/../b", "/b", true),
            ("/a/%2e%2E/b", "/b", true),
            ("/a/.%2e/b", "/b", true),
            ("/a/%252e%252e/b", "/b", true),
            ("/a\\..\\b", "/b", true),
            ("/a%5c..%5Cb", "/b", true),
            ("/a/..;x=1/b", "/b", true),
            ("/../../a/.", "/a", true),
            ("/a/b..c/...", "/a/b..c/...", false),
            ("/a%2Fb", "/a/b", false),
            ("/a%252Fb", "/a/b", false),
            ("/a;v=1/b", "/a/b", false),
            ("/a\\b", "/a/b", false),
            ("/%zz/%", "/%zz/%", false),
        ] {
            assert_eq!(loose(path), Some(Loose { path: expected.to_owned(), has_dots }), "{path}");
        }
        assert_eq!(loose("/v1/chat//completions/"), None);
    }
}
