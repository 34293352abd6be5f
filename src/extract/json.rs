//! A JSON scanner that finds the strings at a few pointers while the document streams by: resumable at any byte, in memory that
//! does not grow with the document, and as strict as RFC 8259. It keeps nothing but the wanted values; it knows no model and no
//! request, and it cannot say what a missing value means.
//!
//! It exists because tokenizers for streams either copy the document or give up at chunk borders inside a token, and because a
//! key that stands twice has to be seen: parsers that build a map have already forgotten the first one.

mod number;
mod text;

use std::sync::Arc;

use memchr::memchr2;

use self::number::Digits;
use self::text::{Capture, Utf8, has_controls, plain_length};
use super::source::{OnDuplicateKey, Pointer};

/// The longest wanted value that is kept, in bytes; a longer one is a name that nobody knows.
pub const MAX_VALUE: usize = 8 * 1024;

/// Why a document is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

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

#[derive(Debug)]
struct Target {
    segments: Arc<[String]>,
    /// How many leading segments the current position matches.
    matched: usize,
    /// How many leading segments have been seen at least once.
    seen: usize,
    slot: Slot,
    /// Where the opening quote of the text stands that was found last.
    start: usize,
    /// Closed: the object that holds the last segment has ended, nothing can change the slot.
    closed: bool,
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
    targets: Vec<Target>,
    /// The most segments of a target: below that level nothing is wanted, and nothing is kept up.
    deepest: usize,
    on_duplicate: OnDuplicateKey,
    duplicate: bool,
    max_depth: usize,
    /// One entry a level: `None` for an object, the current index for an array.
    stack: Vec<Option<u64>>,
    state: State,
    purpose: Purpose,
    text: Capture,
    utf8: Utf8,
    /// The current chunk holds bytes below 0x20, so that strings have to be searched for them too.
    has_controls: bool,
    /// How many bytes came before the current chunk, and where in the document the byte stands that is looked at.
    before: usize,
    at: usize,
    failed: Option<Malformed>,
}

impl Scanner {
    /// Looks for the strings at `pointers`; nesting beyond `max_depth` is malformed.
    #[must_use]
    pub fn new<'a>(pointers: impl IntoIterator<Item = &'a Pointer>, max_depth: usize, on_duplicate: OnDuplicateKey) -> Self {
        let targets = pointers.into_iter().map(|pointer| Target {
            segments: pointer.segments().clone(),
            matched: 0,
            seen: 0,
            slot: Slot::Absent,
            start: 0,
            closed: false,
        });
        let targets: Vec<Target> = targets.collect();
        Self {
            deepest: targets.iter().map(|target| target.segments.len()).max().unwrap_or(0),
            targets,
            on_duplicate,
            duplicate: false,
            max_depth,
            stack: Vec::new(),
            state: State::Mark(0),
            purpose: Purpose::SkippedValue,
            text: Capture::default(),
            utf8: Utf8::default(),
            has_controls: false,
            before: 0,
            at: 0,
            failed: None,
        }
    }

    /// Reads the next bytes.
    ///
    /// # Errors
    /// The document is not JSON; every later call says the same.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        self.has_controls = has_controls(chunk);
        let result = self.utf8.push(chunk).and_then(|()| self.scan(chunk));
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
        let whole = self.stack.is_empty() && self.state == State::After && self.utf8.is_whole();
        self.targets.iter_mut().for_each(|target| target.closed = true);
        if whole { Ok(()) } else { Err(Malformed("the JSON ends too early")) }
    }

    /// What stands at the pointer with this index; with `OnDuplicateKey::Last` the last one.
    #[must_use]
    pub fn slot(&self, index: usize) -> &Slot {
        &self.targets[index].slot
    }

    /// Where the opening quote of the slot's text stands, in bytes from the start of the document.
    #[must_use]
    pub fn starts_at(&self, index: usize) -> usize {
        self.targets[index].start
    }

    /// True if nothing that may still come can change the slot, other than a duplicate key that is refused.
    #[must_use]
    pub fn is_settled(&self, index: usize) -> bool {
        let target = &self.targets[index];
        target.closed || (target.slot != Slot::Absent && self.on_duplicate == OnDuplicateKey::Reject)
    }

    /// True if a key on the way to a wanted value stood twice where it is refused.
    #[must_use]
    pub fn has_duplicate(&self) -> bool {
        self.duplicate
    }

    fn scan(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        let mut rest = chunk;
        while let Some((&byte, tail)) = rest.split_first() {
            rest = match self.state {
                State::Text => self.read_text(rest)?,
                State::Number(digits) => match digits.next(byte) {
                    Some(next) => {
                        self.state = State::Number(next);
                        tail
                    }
                    None if digits.may_end() => {
                        self.state = State::After;
                        rest
                    }
                    None => return Err(Malformed("a number is not written as JSON has it")),
                },
                State::Mark(read) => self.read_mark(read, byte, rest, tail)?,
                _ if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') && self.may_pause() => {
                    let blank = tail.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
                    &tail[blank..]
                }
                _ => {
                    self.at = self.before + (chunk.len() - rest.len());
                    self.step(byte)?;
                    tail
                }
            };
        }
        Ok(())
    }

    const fn may_pause(&self) -> bool {
        !matches!(self.state, State::Escape | State::Hex(..) | State::Literal(..))
    }

    fn read_mark<'a>(&mut self, read: u8, byte: u8, rest: &'a [u8], tail: &'a [u8]) -> Result<&'a [u8], Malformed> {
        const MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];
        if byte == MARK[usize::from(read)] {
            self.state = if read == 2 { State::Value } else { State::Mark(read + 1) };
            Ok(tail)
        } else if read == 0 {
            self.state = State::Value;
            Ok(rest)
        } else {
            Err(Malformed("the body starts with half a byte order mark"))
        }
    }

    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        match (self.state, byte) {
            (State::FirstItem, b']') | (State::FirstKey, b'}') => self.close(),
            (State::Value | State::FirstItem, _) => return self.start_value(byte),
            (State::FirstKey | State::Key, b'"') => self.start_key(),
            (State::FirstKey | State::Key, _) => return Err(Malformed("a key is missing its quotes")),
            (State::Colon, b':') => self.state = State::Value,
            (State::Colon, _) => return Err(Malformed("a key is not followed by a colon")),
            (State::After, _) => return self.after_value(byte),
            (State::Escape, _) => return self.escape(byte),
            (State::Hex(read, value), _) => return self.hex(read, value, byte),
            (State::Literal(word, read), _) if word.get(usize::from(read)) == Some(&byte) => {
                self.state = if usize::from(read) + 1 == word.len() { State::After } else { State::Literal(word, read + 1) };
            }
            (State::Literal(..), _) => return Err(Malformed("a word is not true, false or null")),
            // Handled where the loop can skip many bytes at once.
            (State::Text | State::Number(_) | State::Mark(_), _) => {}
        }
        Ok(())
    }

    fn start_value(&mut self, byte: u8) -> Result<(), Malformed> {
        let wanted = self.mark_value(byte == b'"');
        self.state = match byte {
            b'"' => {
                self.purpose = if wanted { Purpose::Value } else { Purpose::SkippedValue };
                self.text.start(MAX_VALUE);
                State::Text
            }
            b'{' => return self.open(None),
            b'[' => return self.open(Some(0)),
            b't' => State::Literal(b"true", 1),
            b'f' => State::Literal(b"false", 1),
            b'n' => State::Literal(b"null", 1),
            b'-' => State::Number(Digits::Minus),
            b'0' => State::Number(Digits::Zero),
            b'1'..=b'9' => State::Number(Digits::Whole),
            _ => return Err(Malformed("a value is missing or is not JSON")),
        };
        Ok(())
    }

    /// Notes that a value starts here; true if a target wants its text.
    fn mark_value(&mut self, is_text: bool) -> bool {
        let depth = self.stack.len();
        if depth > self.deepest {
            return false;
        }
        let mut wanted = false;
        for target in &mut self.targets {
            if depth > 0 && target.matched == depth && target.segments.len() == depth {
                wanted = true;
                if is_text {
                    target.start = self.at;
                } else {
                    target.slot = Slot::NotText;
                }
            }
        }
        wanted && is_text
    }

    fn open(&mut self, index: Option<u64>) -> Result<(), Malformed> {
        if self.stack.len() >= self.max_depth {
            return Err(Malformed("the JSON is nested too deeply"));
        }
        self.stack.push(index);
        self.state = if index.is_some() { State::FirstItem } else { State::FirstKey };
        if index.is_some() {
            self.enter_item();
        }
        Ok(())
    }

    /// A segment of digits names an item of an array.
    fn enter_item(&mut self) {
        let depth = self.stack.len();
        if depth <= self.deepest
            && let Some(Some(index)) = self.stack.last()
            && self.targets.iter().any(|target| target.segments.len() >= depth && target.matched + 1 >= depth)
        {
            let name = index.to_string();
            self.enter(&name);
        }
    }

    fn start_key(&mut self) {
        self.state = State::Text;
        self.purpose = Purpose::SkippedKey;
        let depth = self.stack.len();
        if depth > self.deepest {
            return;
        }
        let on_the_way = |target: &&Target| target.segments.len() >= depth && target.matched.min(depth - 1) == depth - 1;
        let longest = self.targets.iter().filter(on_the_way).map(|target| target.segments[depth - 1].len()).max();
        self.purpose = if longest.is_some() { Purpose::Key } else { Purpose::SkippedKey };
        // One byte more than the longest wanted key is enough to know that this one is another.
        self.text.start(longest.unwrap_or(0) + 1);
    }

    /// The position is now below `segment` of the innermost container.
    fn enter(&mut self, segment: &str) {
        let depth = self.stack.len();
        for target in &mut self.targets {
            target.matched = target.matched.min(depth - 1);
            if target.matched + 1 != depth || target.segments.get(depth - 1).is_none_or(|wanted| wanted != segment) {
                continue;
            }
            target.matched = depth;
            if target.seen >= depth {
                self.duplicate |= self.on_duplicate == OnDuplicateKey::Reject;
                // With `Last` all that stood below the first one is forgotten, as a map would.
                target.slot = Slot::Absent;
                target.closed = false;
            }
            target.seen = depth;
        }
    }

    fn close(&mut self) {
        let depth = self.stack.len();
        self.stack.pop();
        self.state = State::After;
        if depth > self.deepest {
            return;
        }
        for target in &mut self.targets {
            // `matched` may still count the last key of the container that ends here.
            if depth <= target.segments.len() && target.matched + 1 >= depth {
                // A parent further up may come again under `Last`: only its own end makes that impossible.
                target.closed = depth == 1 || self.on_duplicate == OnDuplicateKey::Reject;
            }
            target.matched = target.matched.min(depth.saturating_sub(1));
        }
    }

    fn after_value(&mut self, byte: u8) -> Result<(), Malformed> {
        match (self.stack.last_mut(), byte) {
            (Some(None), b',') => self.state = State::Key,
            (Some(Some(index)), b',') => {
                *index += 1;
                self.state = State::Value;
                self.enter_item();
            }
            (Some(None), b'}') | (Some(Some(_)), b']') => self.close(),
            (None, _) => return Err(Malformed("something follows the JSON")),
            _ => return Err(Malformed("a comma or a closing bracket is missing")),
        }
        Ok(())
    }

    fn read_text<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let keep = matches!(self.purpose, Purpose::Key | Purpose::Value);
        let mut rest = rest;
        loop {
            let plain = if self.has_controls { plain_length(rest) } else { memchr2(b'"', b'\\', rest).unwrap_or(rest.len()) };
            if keep {
                self.text.push(&rest[..plain]);
            }
            match rest[plain..] {
                [] => return Ok(&[]),
                [b'"', ..] => {
                    self.end_text();
                    return Ok(&rest[plain + 1..]);
                }
                // Nobody wants this string: what its escapes stand for does not matter.
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] if !keep => rest = &rest[plain + 2..],
                [b'\\', ..] => {
                    self.state = State::Escape;
                    return Ok(&rest[plain + 1..]);
                }
                _ => return Err(Malformed("a string holds a control character")),
            }
        }
    }

    fn end_text(&mut self) {
        self.state = match self.purpose {
            Purpose::SkippedKey | Purpose::Key => State::Colon,
            Purpose::SkippedValue | Purpose::Value => State::After,
        };
        match self.purpose {
            Purpose::SkippedKey => {
                let depth = self.stack.len();
                if depth > self.deepest {
                    return;
                }
                self.targets.iter_mut().for_each(|target| target.matched = target.matched.min(depth - 1));
            }
            Purpose::SkippedValue => {}
            Purpose::Key => {
                let key = self.text.take();
                let depth = self.stack.len();
                match key {
                    Some(key) => self.enter(&key),
                    None => self.targets.iter_mut().for_each(|target| target.matched = target.matched.min(depth - 1)),
                }
            }
            Purpose::Value => {
                let slot = self.text.take().map_or(Slot::Unusable, Slot::Text);
                let depth = self.stack.len();
                for target in &mut self.targets {
                    if target.matched == depth && target.segments.len() == depth {
                        target.slot = slot.clone();
                    }
                }
            }
        }
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
        self.text.push(&[plain]);
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
        } else {
            self.text.push_unit(value);
            self.state = State::Text;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
