//! A `multipart/form-data` scanner that finds the text of a few named parts while the body streams by. Parts with a filename are
//! skipped without a copy; a border may fall anywhere. It knows no model.

use std::ops::Range;

use memchr::memmem;

use super::json::{MAX_VALUE, Malformed, Slot};
use super::source::OnDuplicateKey;

/// The headers of one part, in bytes; more is malformed.
const MAX_PART_HEADERS: usize = 16 * 1024;

#[derive(Debug)]
pub struct Scanner {
    /// `CRLF--boundary`. The first delimiter may lack its line break, so the stream starts as if one had just been read.
    delimiter: Vec<u8>,
    names: Vec<String>,
    slots: Vec<Slot>,
    on_duplicate: OnDuplicateKey,
    duplicate: bool,
    state: State,
    /// The last bytes read that may be the start of a delimiter.
    held: Vec<u8>,
    /// How many of the held bytes are a line break that was read before and is no content.
    borrowed: usize,
    /// Part headers, or the text of a wanted part.
    text: Vec<u8>,
    overflow: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first delimiter.
    Preamble,
    /// Behind a delimiter: `--`, or blanks and a line break.
    Delimiter,
    Headers,
    /// The part with this index among the wanted names, or one that is skipped.
    Part(Option<usize>),
    /// Behind the last delimiter.
    Epilogue,
}

impl Scanner {
    #[must_use]
    pub fn new(boundary: &str, names: Vec<String>, on_duplicate: OnDuplicateKey) -> Self {
        Self {
            delimiter: format!("\r\n--{boundary}").into_bytes(),
            slots: vec![Slot::Absent; names.len()],
            names,
            on_duplicate,
            duplicate: false,
            state: State::Preamble,
            held: b"\r\n".to_vec(),
            borrowed: 2,
            text: Vec::new(),
            overflow: false,
        }
    }

    /// Reads the next bytes.
    ///
    /// # Errors
    /// The body is not multipart.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        let mut rest = chunk;
        while !rest.is_empty() {
            rest = match self.state {
                State::Preamble | State::Part(_) => self.skip_to_delimiter(rest),
                State::Delimiter => self.read_delimiter(rest)?,
                State::Headers => self.read_headers(rest)?,
                State::Epilogue => &[],
            };
        }
        Ok(())
    }

    /// The body has ended.
    ///
    /// # Errors
    /// The last delimiter is missing.
    pub fn finish(&mut self) -> Result<(), Malformed> {
        if self.state == State::Epilogue { Ok(()) } else { Err(Malformed("the multipart body ends too early")) }
    }

    #[must_use]
    pub fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    #[must_use]
    pub fn is_settled(&self, index: usize) -> bool {
        self.state == State::Epilogue || (self.slots[index] != Slot::Absent && self.on_duplicate == OnDuplicateKey::Reject)
    }

    #[must_use]
    pub fn has_duplicate(&self) -> bool {
        self.duplicate
    }

    /// Content up to the next delimiter; what may be the start of one is held back.
    fn skip_to_delimiter<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let length = self.delimiter.len();
        // A delimiter that began in an earlier chunk.
        if !self.held.is_empty() {
            let seam_end = rest.len().min(length);
            let mut seam = std::mem::take(&mut self.held);
            let before = seam.len();
            let borrowed = std::mem::take(&mut self.borrowed);
            seam.extend_from_slice(&rest[..seam_end]);
            // It may also begin with this chunk, and be all of it.
            if let Some(at) = memmem::find(&seam, &self.delimiter) {
                self.keep(&seam[borrowed.min(at)..at]);
                self.end_part();
                return &rest[at + length - before..];
            }
            if seam_end == rest.len() {
                let keep_from = self.possible_start(&seam);
                self.keep(&seam[borrowed.min(keep_from)..keep_from]);
                self.held = seam[keep_from..].to_vec();
                self.borrowed = borrowed.saturating_sub(keep_from);
                return &[];
            }
            self.keep(&seam[borrowed..before]);
        }
        if let Some(at) = memmem::find(rest, &self.delimiter) {
            self.keep(&rest[..at]);
            self.end_part();
            return &rest[at + length..];
        }
        let keep_from = self.possible_start(rest);
        self.keep(&rest[..keep_from]);
        self.held = rest[keep_from..].to_vec();
        &[]
    }

    /// Where the longest tail begins that could be the start of a delimiter.
    fn possible_start(&self, bytes: &[u8]) -> usize {
        let earliest = bytes.len().saturating_sub(self.delimiter.len() - 1);
        (earliest..bytes.len()).find(|at| self.delimiter.starts_with(&bytes[*at..])).unwrap_or(bytes.len())
    }

    fn keep(&mut self, content: &[u8]) {
        if !matches!(self.state, State::Part(Some(_))) {
            return;
        }
        self.overflow |= self.text.len() + content.len() > MAX_VALUE;
        if !self.overflow {
            self.text.extend_from_slice(content);
        }
    }

    fn end_part(&mut self) {
        if let State::Part(Some(index)) = self.state {
            let text = std::mem::take(&mut self.text);
            self.slots[index] = match String::from_utf8(text) {
                Ok(text) if !self.overflow => Slot::Text(text),
                _ => Slot::Unusable,
            };
        }
        self.text.clear();
        self.overflow = false;
        self.state = State::Delimiter;
    }

    fn read_delimiter<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let (byte, tail) = (rest[0], &rest[1..]);
        self.text.push(byte);
        match self.text.as_slice() {
            b"--" => {
                self.text.clear();
                self.state = State::Epilogue;
            }
            [b' ' | b'\t', ..] | b"-" if self.text.len() < MAX_PART_HEADERS && byte != b'\n' => {}
            line if line.ends_with(b"\r\n") && line[..line.len() - 2].iter().all(|byte| matches!(byte, b' ' | b'\t')) => {
                // The line break of the delimiter also starts the headers, so that a part without headers ends them at once.
                self.text.drain(..line.len() - 2);
                self.state = State::Headers;
            }
            b"\r" => {}
            _ => return Err(Malformed("a multipart delimiter is not followed by a line break")),
        }
        Ok(tail)
    }

    fn read_headers<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let before = self.text.len();
        let room = MAX_PART_HEADERS - before;
        self.text.extend_from_slice(&rest[..rest.len().min(room)]);
        let Some(end) = memmem::find(&self.text, b"\r\n\r\n") else {
            return if rest.len() >= room { Err(Malformed("the headers of a multipart part are too long")) } else { Ok(&[]) };
        };
        let consumed = end + 4 - before;
        let wanted = part_name(&self.text[..end]).and_then(|name| self.names.iter().position(|wanted| *wanted == name));
        self.text.clear();
        if let Some(index) = wanted
            && self.slots[index] != Slot::Absent
        {
            self.duplicate |= self.on_duplicate == OnDuplicateKey::Reject;
        }
        self.state = State::Part(wanted);
        // The empty line may serve as the line break of the next delimiter: a part without content.
        self.held = b"\r\n".to_vec();
        self.borrowed = 2;
        Ok(&rest[consumed..])
    }
}

/// Which bytes of a whole body are the content of the last part with this name that is no file.
#[must_use]
pub fn content_of(body: &[u8], boundary: &str, name: &str) -> Option<Range<usize>> {
    let delimiter = format!("\r\n--{boundary}").into_bytes();
    let mut borders: Vec<usize> = memmem::find_iter(body, &delimiter).collect();
    let mut starts: Vec<usize> = borders.iter().map(|at| at + delimiter.len()).collect();
    // The first delimiter may lack its line break.
    if body.starts_with(&delimiter[2..]) {
        starts.insert(0, delimiter.len() - 2);
    } else if !borders.is_empty() {
        borders.remove(0);
    }
    let parts = starts.into_iter().zip(borders);
    let mut content = parts.rev().filter_map(|(start, end)| {
        let headers = memmem::find(body.get(start..end)?, b"\r\n\r\n")?;
        let is_wanted = part_name(body.get(start..start + headers)?).is_some_and(|found| found == name);
        is_wanted.then_some(start + headers + 4..end)
    });
    content.next()
}

/// The name of a part that is no file.
fn part_name(headers: &[u8]) -> Option<String> {
    let headers = std::str::from_utf8(headers).ok()?;
    let disposition = headers.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    let (kind, parameters) = disposition.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("form-data")
        || parameter(parameters, "filename").is_some()
        || parameter(parameters, "filename*").is_some()
    {
        return None;
    }
    parameter(parameters, "name")
}

/// The value of a parameter in `a=1; b="2;3"`; quoted values may hold semicolons and escaped quotes.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(body: &[u8], step: usize, on_duplicate: OnDuplicateKey) -> (Result<(), Malformed>, Scanner) {
        let mut scanner = Scanner::new("B-x", vec!["model".to_owned(), "session".to_owned()], on_duplicate);
        for chunk in body.chunks(step) {
            if let Err(error) = scanner.push(chunk) {
                return (Err(error), scanner);
            }
        }
        (scanner.finish(), scanner)
    }

    fn part(disposition: &str, content: &str) -> String {
        format!("--B-x\r\nContent-Disposition: form-data; {disposition}\r\nX: y\r\n\r\n{content}\r\n")
    }

    #[test]
    fn finds_parts_without_a_filename_wherever_the_borders_fall() {
        let file =
            part("name=\"file\"; filename=\"model\"", &"\r\n--B-\r\n--B\r\n\r\n--B-xx".replace("--B-xx", "--B-").repeat(20));
        let cases = [
            (part("name=\"model\"", "whisper-1"), Slot::Text("whisper-1".to_owned())),
            (file.clone() + &part("name=model", "whisper-1"), Slot::Text("whisper-1".to_owned())),
            (file + &part("name=\"model\"; filename=\"x\"", "whisper-1"), Slot::Absent),
            (part("name=\"model\"", ""), Slot::Text(String::new())),
            (part("name=\"model\"", "a\r\n\r\nb"), Slot::Text("a\r\n\r\nb".to_owned())),
            (part("name=\"model\"", &"x".repeat(MAX_VALUE + 1)), Slot::Unusable),
            (part("filename=\"a;name=\\\"\"; name=\"model\"", "x"), Slot::Absent),
        ];
        for (parts, expected) in cases {
            let body = format!("preamble\r\n{parts}--B-x--\r\nepilogue");
            for step in [1, 2, 3, 7, 64, 100_000] {
                let (result, scanner) = scan(body.as_bytes(), step, OnDuplicateKey::Reject);
                assert_eq!((result, scanner.slot(0)), (Ok(()), &expected), "{body:?} in steps of {step}");
            }
        }
    }

    #[test]
    fn a_chunk_that_is_a_delimiter_ends_the_part_before_it() {
        let mut scanner = Scanner::new("B-x", vec!["model".to_owned()], OnDuplicateKey::Reject);
        let head = "--B-x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n";
        for chunk in [&head[..head.len() - 2], "\r", "\n--B-x", "--"] {
            scanner.push(chunk.as_bytes()).unwrap();
        }
        assert_eq!((scanner.finish(), scanner.slot(0)), (Ok(()), &Slot::Text("m".to_owned())));
        let mut scanner = Scanner::new("B-x", vec!["model".to_owned()], OnDuplicateKey::Reject);
        for chunk in [&head[..head.len() - 2], "\r", "\r\n--B-x", "--"] {
            scanner.push(chunk.as_bytes()).unwrap();
        }
        assert_eq!((scanner.finish(), scanner.slot(0)), (Ok(()), &Slot::Text("m\r".to_owned())));
    }

    #[test]
    fn a_part_that_is_read_may_stand_once() {
        let body = part("name=\"model\"", "a") + &part("name=\"model\"", "b") + "--B-x--";
        let (result, scanner) = scan(body.as_bytes(), 5, OnDuplicateKey::Reject);
        assert_eq!((result, scanner.has_duplicate()), (Ok(()), true));
        let (result, scanner) = scan(body.as_bytes(), 5, OnDuplicateKey::Last);
        assert_eq!((result, scanner.has_duplicate(), scanner.slot(0)), (Ok(()), false, &Slot::Text("b".to_owned())));
    }

    #[test]
    fn what_is_not_multipart_is_refused() {
        let endless = format!("--B-x\r\nX: {}", "y".repeat(MAX_PART_HEADERS + 1));
        for body in
            ["", "x", "--B-x", "--B-x\r\n", "--B-xy\r\n\r\n", &part("name=\"model\"", "a"), "--B-x\r\n\r\n\r\n--B-x-", &endless]
        {
            for step in [1, 4, 1000] {
                assert!(scan(body.as_bytes(), step, OnDuplicateKey::Reject).0.is_err(), "{body:?}");
            }
        }
        assert!(scan(b"--B-x--", 1, OnDuplicateKey::Reject).0.is_ok());
        assert!(scan(b"--B-x \t\r\n\r\n\r\n--B-x--", 1, OnDuplicateKey::Reject).0.is_ok());
    }
}
