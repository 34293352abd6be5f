//! The inside of JSON strings: what a wanted one says once its escapes are undone, and whether it is UTF-8. It does not know where in
//! a document it stands.

use super::Malformed;

/// The text of a wanted string, unescaped, up to a limit.
#[derive(Debug, Default)]
pub(super) struct Capture {
    bytes: Vec<u8>,
    limit: usize,
    /// A shorter limit for a text that is ASCII and comes in one piece.
    ascii_limit: usize,
    /// Over the limit, or no Unicode text.
    unusable: bool,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

impl Capture {
    pub(super) fn start(&mut self, limit: usize, ascii_limit: usize) {
        self.bytes.clear();
        self.limit = limit;
        self.ascii_limit = ascii_limit;
        self.unusable = false;
        self.high = None;
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.unusable |= self.high.take().is_some() || self.bytes.len() + bytes.len() > self.limit;
        if !self.unusable {
            self.bytes.extend_from_slice(bytes);
        }
    }

    pub(super) fn push_unit(&mut self, unit: u16) {
        let decoded = match (self.high.take(), unit) {
            (None, 0xD800..=0xDBFF) => {
                self.high = Some(unit);
                return;
            }
            (None, _) => char::from_u32(u32::from(unit)),
            (Some(high), 0xDC00..=0xDFFF) => {
                char::from_u32(0x1_0000 + ((u32::from(high) - 0xD800) << 10) + (u32::from(unit) - 0xDC00))
            }
            (Some(_), _) => None,
        };
        match decoded {
            Some(character) => self.push(character.encode_utf8(&mut [0; 4]).as_bytes()),
            None => self.unusable = true,
        }
    }

    /// The text, of which these are the last bytes; `None` if it is too long, or no text. Most come in one piece, and need no copy.
    pub(super) fn end<'a>(&'a mut self, last: &'a [u8], is_ascii: bool) -> Option<&'a str> {
        let is_one_piece = self.bytes.is_empty() && self.high.is_none() && last.len() <= self.limit;
        if is_one_piece && is_ascii && !self.unusable && last.len() > self.ascii_limit {
            return None;
        }
        if !is_one_piece {
            self.push(last);
        }
        let bytes = if is_one_piece { last } else { &self.bytes };
        if self.unusable || self.high.is_some() { None } else { std::str::from_utf8(bytes).ok() }
    }
}

/// Checks that strings are UTF-8, a character split between chunks included. Outside of strings JSON is ASCII.
#[derive(Debug, Default)]
pub(super) struct Utf8 {
    /// The bytes of an unfinished character.
    partial: Vec<u8>,
}

impl Utf8 {
    /// The next bytes of a string, as far as the chunk goes.
    pub(super) fn push(&mut self, run: &[u8], is_ascii: bool) -> Result<(), Malformed> {
        if is_ascii && self.partial.is_empty() {
            return Ok(());
        }
        let mut run = run;
        while !self.partial.is_empty() {
            let Some((byte, tail)) = run.split_first() else { return Ok(()) };
            self.partial.push(*byte);
            run = tail;
            match std::str::from_utf8(&self.partial) {
                Ok(_) => self.partial.clear(),
                Err(error) if error.error_len().is_some() => return Err(NOT_UTF8),
                Err(_) => {}
            }
        }
        match simdutf8::compat::from_utf8(run) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_some() => Err(NOT_UTF8),
            Err(error) => {
                self.partial.extend_from_slice(&run[error.valid_up_to()..]);
                Ok(())
            }
        }
    }

    /// The string, or its part before an escape, ends here.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.partial.is_empty() { Ok(()) } else { Err(NOT_UTF8) }
    }
}

const NOT_UTF8: Malformed = Malformed("the body is not UTF-8");

/// True if the bytes are whole characters.
pub(super) fn is_utf8(bytes: &[u8]) -> bool {
    simdutf8::basic::from_utf8(bytes).is_ok()
}
