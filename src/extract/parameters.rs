//! The parameters of a header's value, `; a=1; b="2;3"`, as in `content-type` and `content-disposition`: what they say, and whether
//! every parser reads them in the same way. It knows no header.

/// The value of a parameter, the first of several; quoted values may hold semicolons and escaped quotes.
#[must_use]
pub fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';']);
        let (name, after) = rest.split_once('=')?;
        let (value, tail) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = tail;
    }
}

fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            // Browsers escape a quote with a backslash and nothing else; a file path may hold lone backslashes.
            '\\' if quoted[at + 1..].starts_with('"') => {
                characters.next();
                value.push('"');
            }
            other => value.push(other),
        }
    }
    None
}

/// True if all parsers read the same here: every parameter is `; name=token` or `; name="text"`, no name comes twice, nothing is
/// escaped, and no name is one of RFC 2231's (`name*`, `name*0`), which some parsers know and others do not. `loose` names a
/// parameter whose text may hold lone backslashes: the file paths of some browsers do.
#[must_use]
pub fn are_plain(parameters: &str, loose: &str) -> bool {
    let mut names: Vec<String> = Vec::new();
    let mut rest = parameters.trim_matches([' ', '\t']);
    while !rest.is_empty() {
        let Some(after) = rest.strip_prefix(';') else { return false };
        rest = after.trim_start_matches([' ', '\t']);
        // A semicolon at the end is nothing.
        if rest.is_empty() {
            break;
        }
        let Some((name, after)) = rest.split_once('=') else { return false };
        let name = name.to_ascii_lowercase();
        let Some((value, tail)) = plain_value(after) else { return false };
        let escapes = value.contains('\\') && (name != loose || value.contains("\\\\") || value.ends_with('\\'));
        let is_token = !name.is_empty() && name.bytes().all(|byte| is_token(byte) && byte != b'*');
        let could_be_more = value.contains(';') && value.contains('=');
        if !is_token || escapes || could_be_more || value.contains("=?") || names.contains(&name) {
            return false;
        }
        names.push(name);
        rest = tail.trim_start_matches([' ', '\t']);
    }
    true
}

/// A value and what follows it.
fn plain_value(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.find('"')?;
        return quoted[..end].chars().all(|character| !character.is_control()).then(|| (&quoted[..end], &quoted[end + 1..]));
    }
    let end = text.bytes().position(|byte| !is_token(byte)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// RFC 9110's token, without the single quote: some parsers take it for a quote.
#[must_use]
pub const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_among_others() {
        for (parameters, value) in [
            ("; name=model", Some("model")),
            (" NAME = \"a;b\" ; x=1", Some("a;b")),
            ("filename=\"a\\\";name=b\"; name=\"c\"", Some("c")),
            ("filename=\"C:\\a\"; name=c", Some("c")),
            ("x=1; y", None),
            ("name=\"open", None),
        ] {
            assert_eq!(parameter(parameters, "name").as_deref(), value, "{parameters}");
        }
    }

    #[test]
    fn what_parsers_disagree_about_is_not_plain() {
        for parameters in [
            "",
            ";",
            "; name=model",
            "; name=\"model\"; filename=\"a b.wav\"",
            ";name=\"é\"; filename=\"C:\\dir\\x.wav\";",
            "; name=\"x\"; filename=\"a;b\"",
            "; boundary=----WebKitFormBoundaryX_1.2",
            " ; charset=utf-8 ; boundary=\"a b\"",
        ] {
            assert!(are_plain(parameters, "filename"), "{parameters}");
        }
        for parameters in [
            "name=model",
            "; name",
            "; name=",
            "; name = model",
            "; name=\"a\"; name=\"b\"",
            "; name=\"a\"; NAME=\"b\"",
            "; name*=utf-8''model",
            "; name*0=mo; name*1=del",
            "; name=\"mod\\el\"",
            "; name=\"mod\\\"el\"",
            "; filename=\"a\\\"; name=\"model\"",
            "; filename=\"a; name=model\"",
            "; name='model'",
            "; name=model, x=y",
            "; name=\"model",
            "; name=\"a\"b",
            "; name=\"a\u{0}\"",
            "; name=\"=?utf-8?q?model?=\"",
        ] {
            assert!(!are_plain(parameters, "filename"), "{parameters}");
        }
    }
}
