//! What the headers of a part say: its name, whether it is a file, and whether every parser reads the same in them. It knows no body.

use crate::extract::content_type::is_utf8;
use crate::extract::parameters::{are_plain, is_token, parameter};

/// The headers of a part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Part {
    /// `None` if no parser has to see one.
    pub(super) name: Option<String>,
    /// An empty filename is one: parsers do not agree.
    pub(super) filename: Option<String>,
    /// All parsers read the same name and the same filename.
    pub(super) is_plain: bool,
    /// The content is text as it stands there: UTF-8, and not encoded.
    pub(super) is_plain_text: bool,
}

impl Part {
    /// Reads the lines before the empty one.
    pub(super) fn read(headers: &[u8]) -> Self {
        let text = String::from_utf8_lossy(headers);
        let lines: Vec<(&str, &str)> = text.split("\r\n").filter_map(|line| line.split_once(':')).collect();
        let values = |wanted: &'static str| {
            lines.iter().filter(move |(name, _)| name.trim().eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
        };
        let mut dispositions = values("content-disposition");
        let is_plain = std::str::from_utf8(headers).is_ok_and(|text| text.split("\r\n").all(is_plain_line))
            && values("content-disposition").count() == 1
            && values("content-disposition").all(is_plain_disposition);
        let is_plain_text = values("content-type").all(|value| is_utf8(value.find(';').map_or("", |at| &value[at..])))
            && values("content-transfer-encoding")
                .all(|value| ["7bit", "8bit", "binary"].iter().any(|plain| value.eq_ignore_ascii_case(plain)));
        let form_data = dispositions.next().and_then(|value| {
            let (kind, parameters) = value.split_once(';')?;
            kind.trim().eq_ignore_ascii_case("form-data").then_some(parameters)
        });
        let Some(parameters) = form_data else { return Self { is_plain, is_plain_text, ..Self::default() } };
        let filename = parameter(parameters, "filename").or_else(|| parameter(parameters, "filename*"));
        Self { name: parameter(parameters, "name"), filename, is_plain, is_plain_text }
    }
}

/// A line that is a header of its own: neither folded nor broken by something that is no line break to us.
fn is_plain_line(line: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else { return false };
    !name.is_empty() && name.bytes().all(is_token) && value.chars().all(|character| character == '\t' || !character.is_control())
}

fn is_plain_disposition(value: &str) -> bool {
    let (kind, parameters) = value.split_at(value.find(';').unwrap_or(value.len()));
    kind.trim_end().eq_ignore_ascii_case("form-data")
        && are_plain(parameters, "filename")
        && parameter(parameters, "name").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_headers_say_who_the_part_is() {
        for (headers, name, filename) in [
            ("content-disposition: form-data; name=\"model\"", "model", None),
            ("X: y\r\nCONTENT-DISPOSITION: FORM-DATA; NAME=model", "model", None),
            (
                "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav",
                "file",
                Some("a.wav"),
            ),
            ("content-disposition: form-data; name=\"model\"; filename=\"\"", "model", Some("")),
            ("content-disposition:form-data; name=\"é\"; filename=\"C:\\x.wav\"", "é", Some("C:\\x.wav")),
        ] {
            let part = Part::read(headers.as_bytes());
            assert!(part.is_plain && part.is_plain_text, "{headers}");
            assert_eq!((part.name.as_deref(), part.filename.as_deref()), (Some(name), filename), "{headers}");
        }
    }

    #[test]
    fn headers_that_parsers_read_differently_are_not_plain() {
        let plain = "content-disposition: form-data; name=\"model\"";
        for headers in [
            "",
            "x: y",
            "content-disposition: form-data",
            "content-disposition: attachment; name=\"model\"",
            "content-disposition: form-data;\r\n name=\"model\"",
            "content-disposition: form-data; name=\"x\"; name=\"model\"",
            "content-disposition: form-data; name=\"mod\\el\"",
            "content-disposition: form-data; name*=utf-8''model",
            "content-disposition: form-data; name=\"model\"; filename*=utf-8''x",
            "content-disposition : form-data; name=\"model\"",
            &format!("{plain}\r\n{plain}"),
            &format!("{plain}\n\nx"),
            &format!("{plain}\r\n--B"),
            &format!("x: \u{b}\r\n{plain}"),
        ] {
            assert!(!Part::read(headers.as_bytes()).is_plain, "{headers}");
        }
        let bad = [b"x: \xff\r\n".as_slice(), plain.as_bytes()].concat();
        let part = Part::read(&bad);
        assert!(!part.is_plain && part.name.as_deref() == Some("model"));
    }

    #[test]
    fn content_that_is_encoded_is_no_plain_text() {
        let plain = "content-disposition: form-data; name=\"model\"\r\n";
        for (header, is_plain_text) in [
            ("content-type: text/plain; charset=utf-8", true),
            ("content-type: text/plain; charset=utf-7", false),
            ("content-transfer-encoding: 8BIT", true),
            ("content-transfer-encoding: base64", false),
        ] {
            assert_eq!(Part::read(format!("{plain}{header}").as_bytes()).is_plain_text, is_plain_text, "{header}");
        }
    }
}
