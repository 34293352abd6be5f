//! The readable forms of a body behind one face: JSON, multipart, a form, and one that its first byte will tell. It passes bytes on
//! and answers for what was found.

mod untold;

pub use self::untold::{Key, Otherwise, Untold};
use super::json::{Malformed, Slot};
use super::place::{self, InBody, Style};
use super::spelling::Seen;
use super::{Trouble, json, multipart};

#[derive(Debug)]
pub enum Scanner {
    Json(Box<json::Scanner>),
    Multipart(Box<multipart::Scanner>),
    Untold(Box<Untold>),
}

impl Scanner {
    /// Reads the next bytes.
    ///
    /// # Errors
    /// The body is not what it claims to be.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        match self {
            Self::Json(scanner) => scanner.push(chunk),
            Self::Multipart(scanner) => scanner.push(chunk),
            Self::Untold(scanner) => scanner.push(chunk),
        }
    }

    /// The body has ended.
    ///
    /// # Errors
    /// It is not whole.
    pub fn finish(&mut self) -> Result<(), Malformed> {
        match self {
            Self::Json(scanner) => scanner.finish(),
            Self::Multipart(scanner) => scanner.finish(),
            Self::Untold(scanner) => scanner.finish(),
        }
    }

    /// What was found for the slot, and whether that can still change.
    #[must_use]
    pub fn slot(&self, index: usize) -> (&Slot, bool) {
        match self {
            Self::Json(scanner) => (scanner.slot(index), scanner.is_settled(index)),
            Self::Multipart(scanner) => (scanner.slot(index), scanner.is_settled(index)),
            Self::Untold(scanner) => scanner.slot(index),
        }
    }

    /// Which bytes of the whole body the text of the slot is, and how a name is written there.
    #[must_use]
    pub fn place(&self, index: usize, body: &[u8]) -> Option<InBody> {
        match self {
            Self::Json(scanner) => place::json_text(body, scanner.starts_at(index)),
            Self::Multipart(scanner) => scanner.place(index).map(|range| InBody { range, style: Style::Plain }),
            Self::Untold(scanner) => scanner.place(index, body),
        }
    }

    /// Notes what other parsers may read for this slot.
    pub fn guard(&mut self, index: usize) {
        match self {
            Self::Json(scanner) => scanner.guard(index),
            Self::Multipart(scanner) => scanner.guard(index),
            Self::Untold(scanner) => scanner.guard(index),
        }
    }

    /// The slot decides no route: one that appears twice refuses nothing. Forms and multipart bodies have no such slots.
    pub fn be_lenient(&mut self, index: usize) {
        match self {
            Self::Json(scanner) => scanner.be_lenient(index),
            Self::Multipart(_) => {}
            Self::Untold(scanner) => scanner.be_lenient(index),
        }
    }

    /// True if the slot is JSON's `true`.
    #[must_use]
    pub fn is_true(&self, index: usize) -> bool {
        match self {
            Self::Json(scanner) => scanner.is_true(index),
            Self::Multipart(_) => false,
            Self::Untold(scanner) => scanner.is_true(index),
        }
    }

    /// What another parser may read in another way, of guarded slots.
    #[must_use]
    pub fn doubt(&self) -> Option<Trouble> {
        match self {
            Self::Json(scanner) => by_spelling(scanner.spellings()),
            Self::Multipart(scanner) => scanner.doubt(),
            Self::Untold(scanner) => scanner.doubt(),
        }
    }

    /// True if the slot has a value that is no text to us, and that a provider may make a text of.
    #[must_use]
    pub fn is_odd(&self, index: usize) -> bool {
        match self {
            Self::Json(scanner) => scanner.is_odd(index),
            Self::Multipart(_) => false,
            Self::Untold(scanner) => scanner.is_odd(index),
        }
    }

    /// True if a key that decides the route appeared twice and is refused.
    #[must_use]
    pub fn has_duplicate(&self) -> bool {
        match self {
            Self::Json(scanner) => scanner.has_duplicate(),
            Self::Multipart(scanner) => scanner.has_duplicate(),
            Self::Untold(scanner) => scanner.has_duplicate(),
        }
    }
}

/// Two spellings of one key are a key that appears twice; one that is not the wanted one may be what a provider reads.
fn by_spelling(seen: Seen) -> Option<Trouble> {
    if seen.twice {
        return Some(Trouble::DuplicateKey);
    }
    seen.other.then_some(Trouble::Malformed("a key differs from the wanted one in case alone"))
}
