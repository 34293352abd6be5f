//! Diagnostics for people and for programs. For people each shows its line with a mark under the place, as compilers do; API keys,
//! hashes of keys, secrets of URLs and fields that may be keys are blacked out of that line. It does not decide where the text goes.

use std::fmt::Write;

use serde_json::json;

use super::plain::{is_harmful, plain};
use super::{Diagnostic, Severity, acceptable, mask};

/// The longest stretch of a line that is shown, in characters: catalogs in flow style have very long lines.
const WIDTH: usize = 110;
/// So many diagnostics show their line. Each costs a pass over its source, and nobody reads on before these are mended.
const QUOTED: usize = 200;
/// How many bytes of lines are gone over for that in all: a catalog may be one line of many megabytes.
const QUOTED_BYTES: usize = 16 * 1024 * 1024;
/// The shortest one, on a very narrow terminal: a name and a little around it.
const MIN_WIDTH: usize = 20;

/// The diagnostics as text, one paragraph each; `source` finds the text behind a name, for the line that is shown. `columns`: those
/// of a terminal, where a line that is broken by it would have its mark under the wrong place.
#[must_use]
pub fn text<'s>(
    diagnostics: &[Diagnostic],
    source: impl Fn(&str) -> Option<&'s str>,
    colour: bool,
    columns: Option<usize>,
) -> String {
    let paint = Paint { colour };
    let (mut out, mut room) = (String::new(), QUOTED_BYTES);
    for (index, diagnostic) in diagnostics.iter().enumerate() {
        let quoted = source(&diagnostic.place.source).filter(|_| index < QUOTED);
        let line = quoted.and_then(|text| excerpt(text, diagnostic, columns, &mut room));
        // Writing to a string cannot fail.
        let _ = paragraph(&mut out, diagnostic, line.as_ref(), paint, columns);
    }
    out
}

/// `{"ok":bool,"diagnostics":[{severity, code, file, line, column, message, hint}]}`. Line and column are null if the source as a
/// whole is meant.
#[must_use]
pub fn json(diagnostics: &[Diagnostic]) -> serde_json::Value {
    let each = |diagnostic: &Diagnostic| {
        let is_at = diagnostic.place.line > 0;
        json!({
            "severity": diagnostic.severity.as_str(),
            "code": diagnostic.code,
            "file": &*diagnostic.place.source,
            "line": is_at.then_some(diagnostic.place.line),
            "column": is_at.then_some(diagnostic.place.column),
            "message": diagnostic.message,
            "hint": diagnostic.hint,
        })
    };
    json!({"ok": acceptable(diagnostics), "diagnostics": diagnostics.iter().map(each).collect::<Vec<_>>()})
}

#[derive(Clone, Copy)]
struct Paint {
    colour: bool,
}

impl Paint {
    fn on(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// A line, the part of it that is shown, and what is marked.
struct Excerpt {
    line: String,
    /// Characters before the mark.
    before: usize,
    marked: usize,
}

fn paragraph(
    out: &mut String,
    diagnostic: &Diagnostic,
    line: Option<&Excerpt>,
    paint: Paint,
    columns: Option<usize>,
) -> std::fmt::Result {
    let colour = if diagnostic.severity == Severity::Error { "1;31" } else { "1;33" };
    let title = paint.on(colour, &format!("{}[{}]", diagnostic.severity.as_str(), diagnostic.code));
    writeln!(out, "{title}{}", paint.on("1", &format!(": {}", plain(&diagnostic.message))))?;
    let number = diagnostic.place.line.to_string();
    let gutter = " ".repeat(number.len());
    let bar = paint.on("1;34", "|");
    writeln!(out, "{gutter}{} {}", paint.on("1;34", "-->"), plain(&diagnostic.place.to_string()))?;
    if let Some(line) = line {
        writeln!(out, "{gutter} {bar}")?;
        writeln!(out, "{} {bar} {}", paint.on("1;34", &number), line.line)?;
        writeln!(out, "{gutter} {bar} {}{}", " ".repeat(line.before), paint.on(colour, &"^".repeat(line.marked)))?;
    }
    if let Some(hint) = &diagnostic.hint {
        let indent = gutter.len() + " = hint: ".len();
        let hint = wrapped(&plain(hint), columns, indent);
        writeln!(out, "{gutter} {} {}", paint.on("1;34", "="), paint.on("1;36", "hint: ") + &hint)?;
    }
    writeln!(out)
}

/// A text broken between words where the terminal ends, its later lines under its first one; whole without a terminal.
fn wrapped(text: &str, columns: Option<usize>, indent: usize) -> String {
    let Some(width) = columns.map(|columns| columns.saturating_sub(indent).max(MIN_WIDTH)) else { return text.to_owned() };
    let (mut out, mut used) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out
}

/// What is around a line besides its text: a bar between blanks, and what stands for the parts that are cut off.
const AROUND: &str = " | …  …";

fn excerpt(text: &str, diagnostic: &Diagnostic, columns: Option<usize>, room: &mut usize) -> Option<Excerpt> {
    let index = usize::try_from(diagnostic.place.line).ok()?.checked_sub(1)?;
    let column = usize::try_from(diagnostic.place.column).ok()?.checked_sub(1)?;
    *room = room.checked_sub(text.lines().nth(index)?.len())?;
    let mut line = blacked_out(text, index)?;
    let start = column.min(line.len());
    let marked = token(&line[start..]);
    // A field whose name the message keeps to itself is not shown here either.
    if diagnostic.code == "unknown-field" {
        let name: String = line[start..start + marked].iter().collect();
        if !diagnostic.message.contains(name.trim_matches(['"', '\''])) {
            line[start..start + marked].fill('•');
        }
    }
    // Of a long line, what is around the mark.
    let around = diagnostic.place.line.to_string().len() + AROUND.chars().count();
    let width = columns.map_or(WIDTH, |columns| columns.saturating_sub(around).clamp(MIN_WIDTH, WIDTH));
    let skip = if line.len() > width { start.saturating_sub(width / 3).min(line.len() - width) } else { 0 };
    let end = (skip + width).min(line.len());
    let (cut_left, cut_right) = (skip > 0, end < line.len());
    line = line[skip..end].to_vec();
    let shown: String = line.into_iter().map(|character| if is_harmful(character) { ' ' } else { character }).collect();
    let left = if cut_left { "… " } else { "" };
    let right = if cut_right { " …" } else { "" };
    let before = start - skip + left.chars().count();
    Some(Excerpt { line: format!("{left}{shown}{right}"), before, marked: marked.min(end - start).max(1) })
}

/// The length of the word, or the quoted text, that starts here.
fn token(rest: &[char]) -> usize {
    let is_word = |character: &char| character.is_alphanumeric() || "_-.:/*$•".contains(*character);
    match rest.first() {
        Some(quote @ ('"' | '\'')) => rest.iter().skip(1).position(|character| character == quote).map_or(1, |length| length + 2),
        _ => {
            let length = rest.iter().take_while(|character| is_word(character)).count();
            // `key:` and `a, b`: the punctuation at the end is no part of the word.
            length - rest[..length].iter().rev().take_while(|character| **character == ':').count()
        }
    }
}

/// A line with every secret of a URL, key and hash of a key blacked out, each character by one, so that columns stay.
fn blacked_out(text: &str, index: usize) -> Option<Vec<char>> {
    let lines: Vec<&str> = text.strip_prefix('\u{feff}').unwrap_or(text).lines().take(index + 1).collect();
    let line = lines.get(index)?;
    let mut characters: Vec<char> = mask::blacked_out(line).chars().collect();
    let mut black_out = |starts: &[usize], until: &dyn Fn(char) -> bool| {
        // What one has reached, the next one need not go over again.
        let mut done = 0;
        for from in starts.iter().filter(|from| **from < line.len()) {
            done = done.max(*from);
            while let Some(character) = characters.get_mut(done).filter(|character| !until(**character)) {
                if character.is_alphanumeric() || "_-+/=.".contains(*character) {
                    *character = '•';
                }
                done += 1;
            }
        }
    };
    let keys = ends_of_keys(line, "api_keys");
    let after = |word: &str| {
        let (mut counted, mut count) = (0, 0);
        let ends = line.match_indices(word).map(|(at, _)| {
            let end = at + word.len();
            count += line[counted..end].chars().count();
            counted = end;
            count
        });
        ends.collect::<Vec<_>>()
    };
    if is_in_key_list(&lines, index) {
        let bullet = line.len() - line.trim_start().trim_start_matches("- ").len();
        black_out(&[bullet], &|_| false);
    }
    black_out(&keys, &|character| character == ']');
    black_out(&after("sha256:"), &|character| !character.is_ascii_hexdigit());
    Some(characters)
}

/// True if the line is an item of an `api_keys` list that began on a line before: the nearest line that is indented less names it.
fn is_in_key_list(lines: &[&str], index: usize) -> bool {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let Some(line) = lines.get(index) else { return false };
    let is_item = line.trim_start().starts_with('-');
    let own = indentation(line);
    let parent = lines[..index].iter().rev().filter(|line| !line.trim().is_empty()).find(|line| {
        let other = indentation(line);
        other < own || (is_item && other == own && !line.trim_start().starts_with('-'))
    });
    parent.is_some_and(|parent| !ends_of_keys(without_comment(parent), "api_keys").is_empty())
}

/// Where a mapping's key of this name ends, in characters: the word, quoted or not, and a colon. The word alone, in a comment or as a
/// value, says nothing of what follows.
fn ends_of_keys(line: &str, key: &str) -> Vec<usize> {
    let (mut counted, mut count) = (0, 0);
    let ends = line.match_indices(key).filter_map(|(at, _)| {
        let end = at + key.len();
        let is_start = line[..at].chars().next_back().is_none_or(|before| before.is_whitespace() || "{,\"'-".contains(before));
        let rest = line[end..].trim_start_matches(['"', '\'']).trim_start();
        (is_start && rest.starts_with(':')).then(|| {
            count += line[counted..end].chars().count();
            counted = end;
            count
        })
    });
    ends.collect()
}

/// The line up to a comment: a `#` behind a blank, or at the start. One in quotes is taken for a comment too, which no key has.
fn without_comment(line: &str) -> &str {
    let comment = line.match_indices('#').find(|(at, _)| line[..*at].chars().next_back().is_none_or(char::is_whitespace));
    comment.map_or(line, |(at, _)| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Place;

    fn text<'s>(diagnostics: &[Diagnostic], source: impl Fn(&str) -> Option<&'s str>, colour: bool) -> String {
        super::text(diagnostics, source, colour, None)
    }

    fn at(line: u32, column: u32) -> Diagnostic {
        let place = Place { line, column, ..Place::whole("a.yaml") };
        Diagnostic::error("unknown-group", &place, "there is no priority group `clout`").hint("did you mean `cloud`?")
    }

    #[test]
    fn a_diagnostic_points_at_its_line() {
        let shown = text(&[at(2, 11)], |_| Some("models:\n  m: {chain: [clout]}\n"), false);
        assert_eq!(
            shown,
            "error[unknown-group]: there is no priority group `clout`\n --> a.yaml:2:11\n  |\n2 |   m: {chain: [clout]}\n  \
             |           ^\n  = hint: did you mean `cloud`?\n\n"
        );
        let shown = text(&[at(2, 15)], |_| Some("models:\n  m: {chain: [clout]}\n"), true);
        assert!(shown.contains("\u{1b}[1;31m^^^^^\u{1b}[0m"), "{shown}");
    }

    #[test]
    fn nothing_of_a_document_moves_the_cursor_or_forges_a_line() {
        let place = Place { line: 1, column: 1, ..Place::whole("a\u{1b}[2Jb.yaml") };
        let diagnostic =
            Diagnostic::error("unknown-field", &place, "no field `x\nerror: forged\u{9b}31m`").hint("not \u{202e}that ä");
        let shown = text(&[diagnostic], |_| Some("x\u{1b}[31m\u{2028}: 1"), false);
        let expected = "error[unknown-field]: no field `x\\nerror: forged\\u{9b}31m`\n --> a\\u{1b}[2Jb.yaml:1:1\n  |\n1 | x [31m : 1\n  \
                        | ^\n  = hint: not \\u{202e}that ä\n\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn all_are_told_and_the_first_ones_are_quoted() {
        let line = format!("[{}]", "clout, api_keys sha256: ".repeat(500));
        let found: Vec<_> = (0..1000).map(|index| at(1, 2 + index)).collect();
        let shown = text(&found, |_| Some(&line), false);
        assert_eq!((shown.matches("error[").count(), shown.matches("hint").count()), (1000, 1000));
        assert_eq!(shown.matches("^").count().min(QUOTED), QUOTED);
        assert_eq!(shown.matches("1 | ").count(), QUOTED);
    }

    #[test]
    fn a_line_of_megabytes_is_not_gone_over_for_each_finding() {
        let line = "x".repeat(QUOTED_BYTES / 3);
        let shown = text(&(0..100).map(|_| at(1, 1)).collect::<Vec<_>>(), |_| Some(&line), false);
        assert_eq!((shown.matches("error[").count(), shown.matches("1 | ").count()), (100, 3));
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let line = format!("{}clout{}", "x".repeat(300), "y".repeat(300));
        let shown = text(&[at(1, 301)], |_| Some(&line), false);
        let shown: Vec<&str> = shown.lines().collect();
        assert!(shown.iter().all(|line| line.chars().count() < 130), "{shown:?}");
        assert_eq!(shown[4].find('^'), shown[3].find("clout").map(|at| at - "…".len() + 1));
    }

    #[test]
    fn on_a_terminal_the_line_and_its_mark_fit_its_width() {
        let line = format!("{}clout{}", "x".repeat(300), "y".repeat(300));
        for columns in [40, 80, 100, 1000] {
            let shown = super::text(&[at(1, 301)], |_| Some(&line), false, Some(columns));
            let shown: Vec<&str> = shown.lines().collect();
            let widest = shown[2..5].iter().map(|line| line.chars().count()).max();
            assert_eq!(widest, Some(columns.min(WIDTH + 8)), "{shown:?}");
            let marked: String = shown[3].chars().skip(shown[4].find('^').unwrap()).take(shown[4].matches('^').count()).collect();
            assert!(marked.starts_with("clout"), "{shown:?}");
        }
        assert!(super::text(&[at(1, 301)], |_| Some(&line), false, Some(0)).contains("clout"), "a width that nobody knows");
    }

    #[test]
    fn a_long_hint_wraps_under_itself() {
        let diagnostic = Diagnostic::error("x", &Place::whole("a"), "m").hint("one two three four five six seven");
        let shown = super::text(&[diagnostic], |_| None, false, Some(30));
        let hint: Vec<&str> = shown.lines().skip_while(|line| !line.contains("hint")).collect();
        assert_eq!(hint, ["  = hint: one two three four", "          five six seven", ""]);
    }

    #[test]
    fn a_key_is_never_shown() {
        for source in [
            "tenants:\n  acme:\n    api_keys:\n    - sk-live-secret\n    - x",
            "tenants:\n  acme:\n    api_keys:\n      - sk-live-secret",
            "tenants:\n  acme:\n    api_keys: [\n      sk-live-secret",
            "\n\n\ntenants: {acme: {api_keys: [sk-live-secret, b]}}",
            "\n\n\ntenants: {acme: {api_keys: sk-live-secret}}",
            "{\"tenants\": {\"acme\":\n\n   {\"api_keys\":\n     [\"sk-live-secret\"]}}}",
            "tenants:\n  acme:\n    \"api_keys\" : # ours\n    - sk-live-secret",
            "\n\n\n  'api_keys': [sk-live-secret, b]",
            "\n\n\n  - sha256:5ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e7",
            "\n\n\n  url: redis://user:secret@host",
        ] {
            let shown = text(&[at(4, 1)], |_| Some(source), false);
            assert!(shown.contains("•") && !shown.contains("secret") && !shown.contains("5ec4e7"), "{shown}");
        }
    }

    #[test]
    fn a_word_in_a_comment_hides_nothing() {
        for source in [
            "tenants: # api_keys\n\n\n  acme: {teir: eu}",
            "tenants: # the api_keys: see below\n\n\n  acme: {teir: eu}",
            "# api_keys\n# api_keys:\ntenants:\n  acme: {teir: eu}",
            "\n\n\n  acme: {teir: eu} # api_keys are elsewhere",
            "\n\n\n  acme: {teir: eu, label: api_keys}",
        ] {
            let shown = text(&[at(4, 10)], |_| Some(source), false);
            assert!(shown.contains("teir: eu") && !shown.contains('•'), "{shown}");
        }
    }

    #[test]
    fn a_place_outside_the_text_shows_no_line() {
        for place in [at(0, 0), at(9, 1), at(1, 0)] {
            assert!(!text(&[place], |_| Some("a: b"), false).contains('^'));
        }
        assert!(text(&[at(1, 99)], |_| Some("a: b"), false).contains("     ^"));
    }

    #[test]
    fn programs_get_every_field() {
        let warning = Diagnostic::warning("unused-group", &Place::whole("a.yaml"), "no chain names it");
        assert_eq!(
            json(std::slice::from_ref(&warning)),
            json!({"ok": true, "diagnostics": [{"severity": "warning", "code": "unused-group", "file": "a.yaml", "line": null,
                "column": null, "message": "no chain names it", "hint": null}]})
        );
        let both = json(&[warning, at(1, 2)]);
        assert_eq!(
            (&both["ok"], &both["diagnostics"][1]["line"], &both["diagnostics"][1]["column"]),
            (&json!(false), &json!(1), &json!(2))
        );
    }
}
