//! A JSON scanner that finds the strings at a few pointers while the document streams by: resumable at any byte, in memory that
//! does not grow with the document, and as strict as RFC 8259. It keeps nothing but the wanted values; it knows no model and no
//! request, and it cannot say what a missing value means.
//!
//! It exists because tokenizers for streams either copy the document or give up at chunk borders inside a token, and because a
//! key that stands twice has to be seen: parsers that build a map have already forgotten the first one.
//!
//! Two readers share the work. This one goes byte by byte from state to state, so that it can stop anywhere; it reads the way to
//! the wanted values, and tokens that a chunk cuts. Everything else is skipped token by token.

mod block;
mod number;
mod skip;
mod target;
mod text;
mod token;

use self::block::{blank_length, is_blank};
use self::number::Digits;
use self::skip::Nesting;
use self::target::Targets;
use self::text::{Capture, Utf8};
use super::source::{OnDuplicateKey, Pointer};
use super::spelling::Seen;

/// The longest wanted value that is kept, in bytes; a longer one is a name that nobody knows.
pub const MAX_VALUE: usize = 8 * 1024;

/// Why a document is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

const NO_KEY: Malformed = Malformed("a key is missing its quotes");
const NO_COLON: Malformed = Malformed("a key is not followed by a colon");
const NO_VALUE: Malformed = Malformed("a value is missing or is not JSON");
const NO_END: Malformed = Malformed("a comma or a closing bracket is missing");
const TOO_DEEP: Malformed = Malformed("the JSON is nested too deeply");

/// What stands at a pointer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Slot {
    /// Nothing so far.
    #[default]
    Absent,
    Text(String),
    /// `null`, a number, a boolean, an array or an object: no value for us, whatever a provider makes of it.
    NotText,
    /// A string over [`MAX_VALUE`] bytes, or one that is no Unicode text (a lone surrogate).
    Unusable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The byte order mark, this many bytes of it read.
    Mark(u8),
    Value,
    /// After `[`: a value or `]`.
    FirstItem,
    /// After `{`: a key or `}`.
    FirstKey,
    /// After `,` in an object.
    Key,
    Colon,
    /// After a value: `,`, a closing bracket, or the end.
    After,
    Text,
    Escape,
    /// Inside `\uXXXX`: digits read so far and their value.
    Hex(u8, u16),
    Literal(&'static [u8], u8),
    Number(Digits),
}

/// What the string being read is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    SkippedKey,
    SkippedValue,
    /// A key on the way to a target.
    Key,
    /// The value of one or more targets.
    Value,
}

#[derive(Debug)]
pub struct Scanner {
    targets: Targets,
    max_depth: usize,
    /// The containers on the way to a target, outermost first: `None` for an object, the current index for an array.
    path: Vec<Option<u64>>,
    /// The containers below them that lead to no target.
    skipped: Nesting,
    state: State,
    purpose: Purpose,
    text: Capture,
    utf8: Utf8,
    /// How many bytes came before the current chunk.
    before: usize,
    failed: Option<Malformed>,
}

impl Scanner {
    /// Looks for the strings at `pointers`; nesting beyond `max_depth` is malformed.
    #[must_use]
    pub fn new<'a>(pointers: impl IntoIterator<Item = &'a Pointer>, max_depth: usize, on_duplicate: OnDuplicateKey) -> Self {
        Self {
            targets: Targets::new(pointers, on_duplicate),
            max_depth,
            path: Vec::new(),
            skipped: Nesting::default(),
            state: State::Mark(0),
            purpose: Purpose::SkippedValue,
            text: Capture::default(),
            utf8: Utf8::default(),
            before: 0,
            failed: None,
        }
    }

    /// Notes other spellings of the keys on the way to the pointer with this index (`Model`), which some parsers take for the same.
    pub fn guard(&mut self, index: usize) {
        self.targets.guard(index);
    }

    /// The pointer with this index decides no route: a key that appears twice on the way to it refuses nothing.
    pub fn be_lenient(&mut self, index: usize) {
        self.targets.be_lenient(index);
    }

    /// True if the value is `true`.
    #[must_use]
    pub fn is_true(&self, index: usize) -> bool {
        self.targets.is_true(index)
    }

    /// What was seen of the guarded keys' other spellings.
    #[must_use]
    pub fn spellings(&self) -> Seen {
        self.targets.spellings()
    }

    /// True if the value is a number, a boolean, an array or an object: a provider may make a text of it.
    #[must_use]
    pub fn is_odd(&self, index: usize) -> bool {
        self.targets.is_odd(index)
    }

    /// Reads the next bytes.
    ///
    /// # Errors
    /// The document is not JSON; every later call says the same.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let result = self.scan(chunk);
        self.before = self.before.saturating_add(chunk.len());
        self.failed = result.err();
        result
    }

    /// The document has ended.
    ///
    /// # Errors
    /// It is not JSON, or not whole.
    pub fn finish(&mut self) -> Result<(), Malformed> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        if let State::Number(digits) = self.state
            && digits.may_end()
        {
            self.state = State::After;
        }
        let whole = self.path.is_empty() && self.skipped.is_empty() && self.state == State::After;
        self.targets.finish();
        if whole { Ok(()) } else { Err(Malformed("the JSON ends too early")) }
    }

    /// What stands at the pointer with this index; with `OnDuplicateKey::Last` the last one.
    #[must_use]
    pub fn slot(&self, index: usize) -> &Slot {
        self.targets.slot(index)
    }

    /// Where the opening quote of the slot's text stands, in bytes from the start of the document.
    #[must_use]
    pub fn starts_at(&self, index: usize) -> usize {
        self.targets.starts_at(index)
    }

    /// True if nothing that may still come can change the slot, other than a duplicate key that is refused.
    #[must_use]
    pub fn is_settled(&self, index: usize) -> bool {
        self.targets.is_settled(index)
    }

    /// True if a key on the way to a wanted value stood twice where it is refused.
    #[must_use]
    pub fn has_duplicate(&self) -> bool {
        self.targets.has_duplicate()
    }

    fn scan(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        let mut at = 0;
        while let Some(&byte) = chunk.get(at) {
            at = match self.state {
                State::Text => self.read_text(chunk, at)?,
                State::Escape | State::Hex(..) | State::Literal(..) => {
                    self.read_inside(byte)?;
                    at + 1
                }
                State::Number(digits) => at + self.read_number(digits, byte)?,
                State::Mark(read) => at + self.read_mark(read, byte)?,
                _ if !self.skipped.is_empty() => self.skip(chunk, at)?,
                _ if is_blank(byte) => at + blank_length(&chunk[at..]),
                _ => at + self.step(byte, &chunk[at..], self.before + at)?,
            };
        }
        Ok(())
    }

    /// How many bytes of the mark are read: one, or none if there is no mark.
    fn read_mark(&mut self, read: u8, byte: u8) -> Result<usize, Malformed> {
        const MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];
        if byte == MARK[usize::from(read)] {
            self.state = if read == 2 { State::Value } else { State::Mark(read + 1) };
            Ok(1)
        } else if read == 0 {
            self.state = State::Value;
            Ok(0)
        } else {
            Err(Malformed("the body starts with half a byte order mark"))
        }
    }

    /// What stands between tokens, or the start of one, on the way to a target; returns how many bytes were read.
    fn step(&mut self, byte: u8, rest: &[u8], at: usize) -> Result<usize, Malformed> {
        match (self.state, byte) {
            (State::FirstItem, b']') | (State::FirstKey, b'}') => self.close(),
            (State::Value | State::FirstItem, _) => return self.start_value(byte, rest, at),
            (State::FirstKey | State::Key, b'"') => self.start_key(),
            (State::FirstKey | State::Key, _) => return Err(NO_KEY),
            (State::Colon, b':') => self.state = State::Value,
            (State::Colon, _) => return Err(NO_COLON),
            (State::After, _) => self.after_value(byte)?,
            // Inside a token, where the loop goes elsewhere.
            (State::Text | State::Escape | State::Hex(..) | State::Literal(..) | State::Number(_) | State::Mark(_), _) => {}
        }
        Ok(1)
    }

    fn start_value(&mut self, byte: u8, rest: &[u8], at: usize) -> Result<usize, Malformed> {
        let wanted = self.targets.start_value(self.path.len(), byte, at);
        match byte {
            b'"' => {
                self.purpose = if wanted { Purpose::Value } else { Purpose::SkippedValue };
                self.text.start(MAX_VALUE, MAX_VALUE);
                self.state = State::Text;
            }
            b'{' => self.open(None)?,
            b'[' => self.open(Some(0))?,
            _ => {
                let (state, length) = token::start(byte, rest)?;
                self.state = state;
                return Ok(length);
            }
        }
        Ok(1)
    }

    fn open(&mut self, index: Option<u64>) -> Result<(), Malformed> {
        if self.path.len() >= self.max_depth {
            return Err(TOO_DEEP);
        }
        self.state = if index.is_some() { State::FirstItem } else { State::FirstKey };
        if self.targets.lead_below(self.path.len()) {
            self.path.push(index);
            self.enter_item();
        } else {
            self.skipped.push(index.is_none());
        }
        Ok(())
    }

    /// A segment of digits names an item of an array.
    fn enter_item(&mut self) {
        if let Some(Some(index)) = self.path.last() {
            self.targets.enter(self.path.len(), Some(&index.to_string()));
        }
    }

    fn start_key(&mut self) {
        self.state = State::Text;
        self.purpose = Purpose::Key;
        // One byte more than the longest wanted key is enough to know that this one is another.
        let (longest, in_ascii) = self.targets.longest_key(self.path.len());
        self.text.start(longest + 1, in_ascii);
    }

    fn close(&mut self) {
        self.targets.leave(self.path.len());
        self.path.pop();
        self.state = State::After;
    }

    fn after_value(&mut self, byte: u8) -> Result<(), Malformed> {
        match (self.path.last_mut(), byte) {
            (Some(None), b',') => self.state = State::Key,
            (Some(Some(index)), b',') => {
                *index += 1;
                self.state = State::Value;
                self.enter_item();
            }
            (Some(None), b'}') | (Some(Some(_)), b']') => self.close(),
            (None, _) => return Err(Malformed("something follows the JSON")),
            _ => return Err(NO_END),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
