//! The inside of JSON strings: which bytes need attention, what a wanted string says once its escapes are undone, and whether the
//! stream is UTF-8. It does not know where in a document it stands.

use super::Malformed;

/// The text of a wanted string, unescaped, up to a limit.
#[derive(Debug, Default)]
pub(super) struct Capture {
    bytes: Vec<u8>,
    limit: usize,
    /// Over the limit, or no Unicode text.
    unusable: bool,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

impl Capture {
    pub(super) fn start(&mut self, limit: usize) {
        self.bytes.clear();
        self.limit = limit;
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

    pub(super) fn take(&mut self) -> Option<String> {
        if self.unusable || self.high.is_some() { None } else { std::str::from_utf8(&self.bytes).ok().map(str::to_owned) }
    }
}

/// Checks that the stream is UTF-8, a character split between chunks included.
#[derive(Debug, Default)]
pub(super) struct Utf8 {
    /// The bytes of an unfinished character.
    partial: Vec<u8>,
}

impl Utf8 {
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        let mut chunk = chunk;
        while !self.partial.is_empty() {
            let Some((byte, tail)) = chunk.split_first() else { return Ok(()) };
            self.partial.push(*byte);
            chunk = tail;
            match std::str::from_utf8(&self.partial) {
                Ok(_) => self.partial.clear(),
                Err(error) if error.error_len().is_some() => return Err(NOT_UTF8),
                Err(_) => {}
            }
        }
        if chunk.is_ascii() {
            return Ok(());
        }
        match std::str::from_utf8(chunk) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_some() => Err(NOT_UTF8),
            Err(error) => {
                self.partial.extend_from_slice(&chunk[error.valid_up_to()..]);
                Ok(())
            }
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.partial.is_empty()
    }
}

const NOT_UTF8: Malformed = Malformed("the body is not UTF-8");

/// One pass that the compiler turns into vector code; compact JSON has no such byte.
pub(super) fn has_controls(chunk: &[u8]) -> bool {
    chunk.chunks(1024).any(|part| part.iter().fold(false, |found, byte| found | (*byte < 0x20)))
}

/// How many leading bytes of a string need no attention: up to a quote, a backslash or a control character. Blocks first, which
/// the compiler turns into vector code, then eight bytes at a time.
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let mut at = 0;
    for block in bytes.chunks_exact(BLOCK) {
        if block.iter().fold(false, |found, byte| found | (*byte == b'"') | (*byte == b'\\') | (*byte < 0x20)) {
            break;
        }
        at += BLOCK;
    }
    let (words, tail) = bytes[at..].as_chunks::<8>();
    for word in words {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + tail.iter().take_while(|byte| !matches!(**byte, b'"' | b'\\' | 0..=0x1F)).count()
}

/// Marks the bytes that are a quote, a backslash or below 0x20 in their high bit. Bits above the lowest one may be wrong (a borrow
/// runs upwards), the lowest is exact, and only that is read.
const fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    ((quote.wrapping_sub(ONES) & !quote) | (slash.wrapping_sub(ONES) & !slash) | (word.wrapping_sub(ONES * 0x20) & !word)) & HIGH
}
