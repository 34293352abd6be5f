//! The readable forms of a body behind one face: JSON, multipart, a form. It passes bytes on and answers for what was found.

use super::json::{Malformed, Slot};
use super::place::{self, InBody, Style};
use super::{form, json, multipart};

#[derive(Debug)]
pub enum Scanner {
    Json(Box<json::Scanner>),
    Multipart(Box<multipart::Scanner>),
    Form(form::Scanner),
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
            Self::Form(scanner) => scanner.push(chunk),
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
            Self::Form(scanner) => scanner.finish(),
        }
    }

    /// What was found for the slot, and whether that can still change.
    #[must_use]
    pub fn slot(&self, index: usize) -> (&Slot, bool) {
        match self {
            Self::Json(scanner) => (scanner.slot(index), scanner.is_settled(index)),
            Self::Multipart(scanner) => (scanner.slot(index), scanner.is_settled(index)),
            Self::Form(scanner) => (scanner.slot(index), scanner.is_settled()),
        }
    }

    /// Which bytes of the whole body the text of the slot is, and how a name is written there.
    #[must_use]
    pub fn place(&self, index: usize, body: &[u8]) -> Option<InBody> {
        match self {
            Self::Json(scanner) => place::json_text(body, scanner.starts_at(index)),
            Self::Multipart(scanner) => scanner.place(index).map(|range| InBody { range, style: Style::Plain }),
            Self::Form(scanner) => scanner.place(index).map(|range| InBody { range, style: Style::Pair }),
        }
    }

    /// True if a key that decides the route stood twice and is refused.
    #[must_use]
    pub fn has_duplicate(&self) -> bool {
        match self {
            Self::Json(scanner) => scanner.has_duplicate(),
            Self::Multipart(scanner) => scanner.has_duplicate(),
            Self::Form(scanner) => scanner.has_duplicate(),
        }
    }
}
