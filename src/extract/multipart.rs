//! A `multipart/form-data` scanner that finds the text of a few named parts while the body streams by. Parts with a filename are
//! skipped without a copy; a border may fall anywhere. It also notes what other parsers may read in another way. It knows no model.

mod disposition;
mod suspicion;
#[cfg(test)]
mod tests;
use std::ops::Range;

use memchr::memmem;

use self::disposition::Part;
use self::suspicion::Suspicion;
use super::Trouble;
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
    /// Where the content of each part stands that was read last, in bytes from the start of the body.
    places: Vec<Option<Range<usize>>>,
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
    /// How many bytes came before the current chunk, and where the current part's content starts.
    before: usize,
    start: usize,
    suspicion: Suspicion,
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
            places: vec![None; names.len()],
            suspicion: Suspicion::new(boundary),
            names,
            on_duplicate,
            duplicate: false,
            state: State::Preamble,
            held: b"\r\n".to_vec(),
            borrowed: 2,
            text: Vec::new(),
            overflow: false,
            before: 0,
            start: 0,
        }
    }

    /// Notes what other parsers may take for the part with this name, and whatever they may read in another way.
    pub fn guard(&mut self, index: usize) {
        self.suspicion.guard(&self.names[index]);
    }

    /// What may be read in another way; nothing as long as nothing is guarded.
    #[must_use]
    pub fn doubt(&self) -> Option<Trouble> {
        self.suspicion.doubt()
    }

    /// Reads the next bytes.
    ///
    /// # Errors
    /// The body is not multipart.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        let mut rest = chunk;
        while !rest.is_empty() {
            let was = self.state;
            rest = match was {
                State::Preamble | State::Part(_) => self.skip_to_delimiter(rest),
                State::Delimiter => self.read_delimiter(rest)?,
                State::Headers => self.read_headers(rest)?,
                State::Epilogue => {
                    self.suspicion.outside(rest);
                    &[]
                }
            };
            self.note_place(was, self.before + chunk.len() - rest.len());
        }
        self.before += chunk.len();
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

    /// Which bytes of the body are the content of the part that was read last; `None` if it has none, not even of no length: its
    /// headers run into the delimiter.
    #[must_use]
    pub fn place(&self, index: usize) -> Option<Range<usize>> {
        self.places[index].clone()
    }

    #[must_use]
    pub fn is_settled(&self, index: usize) -> bool {
        self.state == State::Epilogue || (self.slots[index] != Slot::Absent && self.on_duplicate == OnDuplicateKey::Reject)
    }

    #[must_use]
    pub fn has_duplicate(&self) -> bool {
        self.duplicate
    }

    /// The state was this one before the byte at `at`.
    fn note_place(&mut self, was: State, at: usize) {
        match (was, self.state) {
            (State::Headers, State::Part(_)) => self.start = at,
            (State::Part(Some(index)), State::Delimiter) => {
                let end = at - self.delimiter.len();
                self.places[index] = (self.start <= end).then_some(self.start..end);
            }
            _ => {}
        }
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
        self.suspicion.content(content);
        if self.state == State::Preamble {
            self.suspicion.outside(content);
        }
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
        self.suspicion.end_content();
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
        // They begin with the line break of the delimiter.
        let part = Part::read(self.text.get(2..end).unwrap_or_default());
        self.suspicion.part(&part);
        let name = part.name.filter(|_| part.filename.is_none());
        let wanted = name.and_then(|name| self.names.iter().position(|wanted| *wanted == name));
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
