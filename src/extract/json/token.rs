//! Tokens read byte by byte: strings that are wanted, and whatever a chunk cuts. It knows what a token may hold; where it stands and
//! whether anybody wants it was decided before.

use super::block::plain_run;
use super::number::{self, Digits};
use super::{Malformed, NO_VALUE, Purpose, Scanner, Slot, State};

/// Reads a number or a word: to behind it if the chunk has all of it, else its first byte. Returns the state there and how many bytes
/// were read.
#[inline(always)]
pub(super) fn start(byte: u8, bytes: &[u8]) -> Result<(State, usize), Malformed> {
    let (state, length) = match byte {
        b't' => word(b"true", bytes),
        b'f' => word(b"false", bytes),
        b'n' => word(b"null", bytes),
        b'-' => (State::Number(Digits::Minus), number::length(bytes)),
        b'0' => (State::Number(Digits::Zero), number::length(bytes)),
        b'1'..=b'9' => (State::Number(Digits::Whole), number::length(bytes)),
        _ => return Err(NO_VALUE),
    };
    Ok(length.map_or((state, 1), |length| (State::After, length)))
}

#[inline(always)]
fn word(word: &'static [u8], bytes: &[u8]) -> (State, Option<usize>) {
    (State::Literal(word, 1), bytes.starts_with(word).then_some(word.len()))
}

impl Scanner {
    /// Reads a string from `at` to its end, to an escape, or as far as the chunk goes; returns where it stopped.
    pub(super) fn read_text(&mut self, chunk: &[u8], at: usize) -> Result<usize, Malformed> {
        let run = plain_run(&chunk[at..]);
        let end = at + run.length;
        let plain = &chunk[at..end];
        self.utf8.push(plain, run.is_ascii)?;
        let special = chunk.get(end);
        if self.is_kept() && special != Some(&b'"') {
            self.text.push(plain);
        }
        let Some(special) = special else { return Ok(end) };
        self.utf8.end()?;
        match special {
            b'"' => self.end_text(plain, run.is_ascii),
            b'\\' => self.state = State::Escape,
            _ => return Err(Malformed("a string holds a control character")),
        }
        Ok(end + 1)
    }

    const fn is_kept(&self) -> bool {
        matches!(self.purpose, Purpose::Key | Purpose::Value)
    }

    fn end_text(&mut self, last: &[u8], is_ascii: bool) {
        let depth = self.path.len();
        match self.purpose {
            Purpose::SkippedKey | Purpose::SkippedValue => {}
            Purpose::Key => self.targets.enter(depth, self.text.end(last, is_ascii)),
            Purpose::Value => {
                let slot = self.text.end(last, is_ascii).map_or(Slot::Unusable, |text| Slot::Text(text.to_owned()));
                self.targets.end_text(depth, &slot);
            }
        }
        self.state = match self.purpose {
            Purpose::SkippedKey | Purpose::Key => State::Colon,
            Purpose::SkippedValue | Purpose::Value => State::After,
        };
    }

    /// The next byte of an escape or a word.
    pub(super) fn read_inside(&mut self, byte: u8) -> Result<(), Malformed> {
        match self.state {
            State::Escape => self.escape(byte),
            State::Hex(read, value) => self.hex(read, value, byte),
            State::Literal(word, read) if word.get(usize::from(read)) == Some(&byte) => {
                self.state = if usize::from(read) + 1 == word.len() { State::After } else { State::Literal(word, read + 1) };
                Ok(())
            }
            _ => Err(Malformed("a word is not true, false or null")),
        }
    }

    /// How many bytes are the number's: one, or none if it has ended.
    pub(super) fn read_number(&mut self, digits: Digits, byte: u8) -> Result<usize, Malformed> {
        if let Some(next) = digits.next(byte) {
            self.state = State::Number(next);
            return Ok(1);
        }
        if !digits.may_end() {
            return Err(Malformed("a number is not written as JSON has it"));
        }
        self.state = State::After;
        Ok(0)
    }

    fn escape(&mut self, byte: u8) -> Result<(), Malformed> {
        let plain = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.state = State::Hex(0, 0);
                return Ok(());
            }
            _ => return Err(Malformed("a string holds an unknown escape")),
        };
        if self.is_kept() {
            self.text.push(&[plain]);
        }
        self.state = State::Text;
        Ok(())
    }

    fn hex(&mut self, read: u8, value: u16, byte: u8) -> Result<(), Malformed> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return Err(Malformed("a \\u escape needs four hexadecimal digits")),
        };
        let value = (value << 4) | u16::from(digit);
        if read < 3 {
            self.state = State::Hex(read + 1, value);
            return Ok(());
        }
        if self.is_kept() {
            self.text.push_unit(value);
        }
        self.state = State::Text;
        Ok(())
    }
}
