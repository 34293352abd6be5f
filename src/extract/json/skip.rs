//! The fast way through what leads to no target: token by token, with the state in local variables. A token that the chunk cuts, or
//! that is wrong, is left to the reader that goes byte by byte: it can stop in the middle, and it says what is wrong.

use super::block::{blank_length, plain_run};
use super::text::is_utf8;
use super::{Malformed, NO_COLON, NO_END, NO_KEY, Purpose, Scanner, State, TOO_DEEP, token};

/// Which containers are open: one bit each, so that 64 levels fit in a register.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    depth: usize,
    /// The innermost levels, the lowest bit first; set for an object.
    bits: u64,
    /// What no longer fits.
    outer: Vec<u64>,
}

impl Nesting {
    #[inline(always)]
    pub(super) fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = (self.bits << 1) | u64::from(is_object);
        self.depth += 1;
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.depth -= 1;
        self.bits >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }

    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.depth == 0
    }

    #[inline(always)]
    const fn in_object(&self) -> bool {
        self.bits & 1 == 1
    }
}

/// What may follow a backslash, but for `u`. A table: which one comes next cannot be guessed.
const IS_ESCAPE: [bool; 256] = {
    let mut table = [false; 256];
    let mut rest: &[u8] = b"\"\\/bfnrt";
    while let [byte, tail @ ..] = rest {
        table[*byte as usize] = true;
        rest = tail;
    }
    table
};

/// Why skipping stopped, other than at the end of the chunk or of the outermost container.
enum Halt {
    Malformed(Malformed),
    /// The chunk has no more tokens.
    End,
    /// In the middle of a string.
    Text(Purpose),
    /// Behind the first byte of a number or a word that is cut or wrong.
    Token,
}

impl From<Malformed> for Halt {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

struct Skip<'a> {
    bytes: &'a [u8],
    at: usize,
    state: State,
    nesting: Nesting,
    /// How many levels may be open.
    limit: usize,
}

impl Scanner {
    /// Skips from `at` to the end of the outermost container that leads nowhere, or as far as the chunk goes; returns where it
    /// stopped.
    pub(super) fn skip(&mut self, bytes: &[u8], at: usize) -> Result<usize, Malformed> {
        let nesting = std::mem::take(&mut self.skipped);
        let mut skip = Skip { bytes, at, state: self.state, nesting, limit: self.max_depth - self.path.len() };
        let halt = loop {
            if let Err(halt) = skip.member() {
                break Some(halt);
            }
            if skip.nesting.is_empty() {
                break None;
            }
        };
        self.state = skip.state;
        self.skipped = skip.nesting;
        match halt {
            None | Some(Halt::End | Halt::Token) => {}
            Some(Halt::Malformed(malformed)) => return Err(malformed),
            Some(Halt::Text(purpose)) => {
                self.purpose = purpose;
                self.state = State::Text;
            }
        }
        Ok(skip.at)
    }
}

impl Skip<'_> {
    /// The next byte that is no blank.
    #[inline(always)]
    fn peek(&mut self) -> Result<u8, Halt> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte > b' ' => Ok(*byte),
            Some(_) => {
                self.at += blank_length(&self.bytes[self.at..]);
                self.bytes.get(self.at).copied().ok_or(Halt::End)
            }
            None => Err(Halt::End),
        }
    }

    /// One member of an object or item of an array, from wherever the state is, and the ends of containers behind it.
    #[inline(always)]
    fn member(&mut self) -> Result<(), Halt> {
        if matches!(self.state, State::FirstKey | State::Key) {
            self.key()?;
        }
        if self.state == State::Colon {
            if self.peek()? != b':' {
                return Err(NO_COLON.into());
            }
            self.at += 1;
            self.state = State::Value;
        }
        if matches!(self.state, State::FirstItem | State::Value) {
            self.value()?;
        }
        while self.state == State::After && !self.nesting.is_empty() {
            match (self.peek()?, self.nesting.in_object()) {
                (b',', true) => self.state = State::Key,
                (b',', false) => self.state = State::Value,
                (b'}', true) | (b']', false) => self.nesting.pop(),
                _ => return Err(NO_END.into()),
            }
            self.at += 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn key(&mut self) -> Result<(), Halt> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.text(Purpose::SkippedKey)?;
                self.state = State::Colon;
            }
            b'}' if self.state == State::FirstKey => self.close(),
            _ => return Err(NO_KEY.into()),
        }
        Ok(())
    }

    #[inline(always)]
    fn value(&mut self) -> Result<(), Halt> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.text(Purpose::SkippedValue)?;
            }
            b'{' => return self.open(true),
            b'[' => return self.open(false),
            b']' if self.state == State::FirstItem => {
                self.close();
                return Ok(());
            }
            byte => {
                let (state, length) = token::start(byte, &self.bytes[self.at..])?;
                self.state = state;
                self.at += length;
                return if state == State::After { Ok(()) } else { Err(Halt::Token) };
            }
        }
        self.state = State::After;
        Ok(())
    }

    #[inline(always)]
    fn open(&mut self, is_object: bool) -> Result<(), Halt> {
        if self.nesting.depth >= self.limit {
            return Err(TOO_DEEP.into());
        }
        self.nesting.push(is_object);
        self.at += 1;
        self.state = if is_object { State::FirstKey } else { State::FirstItem };
        Ok(())
    }

    #[inline(always)]
    fn close(&mut self) {
        self.nesting.pop();
        self.at += 1;
        self.state = State::After;
    }

    /// To behind the closing quote. Nobody wants this string: what its escapes stand for does not matter.
    #[inline(always)]
    fn text(&mut self, purpose: Purpose) -> Result<(), Halt> {
        loop {
            let rest = &self.bytes[self.at..];
            let run = plain_run(rest);
            // A run that the chunk ends is read again by the other reader, which keeps half a character for the next chunk.
            let is_whole = run.length < rest.len() && (run.is_ascii || is_utf8(&rest[..run.length]));
            if !is_whole {
                return Err(Halt::Text(purpose));
            }
            self.at += run.length;
            match &rest[run.length..] {
                [b'"', ..] => {
                    self.at += 1;
                    return Ok(());
                }
                [b'\\', escape, ..] if IS_ESCAPE[usize::from(*escape)] => self.at += 2,
                [b'\\', b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => self.at += 6,
                _ => return Err(Halt::Text(purpose)),
            }
        }
    }
}
