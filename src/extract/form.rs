//! A form: `a=1&b=2`, kept until its end, since a form is small. It knows no model.

use std::ops::Range;

use super::json::{Malformed, Slot};
use super::path::{decode_form, pair, values_of};
use super::source::OnDuplicateKey;

/// A form longer than this holds a file, not a model.
const MAX_FORM: usize = 1024 * 1024;

#[derive(Debug)]
pub struct Scanner {
    bytes: Vec<u8>,
    names: Vec<String>,
    slots: Vec<Slot>,
    on_duplicate: OnDuplicateKey,
    duplicate: bool,
    ended: bool,
}

impl Scanner {
    #[must_use]
    pub fn new(names: Vec<String>, on_duplicate: OnDuplicateKey) -> Self {
        Self { bytes: Vec::new(), slots: vec![Slot::Absent; names.len()], names, on_duplicate, duplicate: false, ended: false }
    }

    #[must_use]
    pub fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    /// Which bytes of the form the slot's value is, as written there.
    #[must_use]
    pub fn place(&self, index: usize) -> Option<Range<usize>> {
        let text = std::str::from_utf8(&self.bytes).ok()?;
        values_of(text, self.names.get(index)?).pop()
    }

    /// Nothing is known of a form before its end.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.ended
    }

    #[must_use]
    pub fn has_duplicate(&self) -> bool {
        self.duplicate
    }

    /// Reads the next bytes.
    ///
    /// # Errors
    /// The form is too long.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        if self.bytes.len() + chunk.len() > MAX_FORM {
            return Err(Malformed("the form is too long"));
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// The form has ended.
    ///
    /// # Errors
    /// It is no text.
    pub fn finish(&mut self) -> Result<(), Malformed> {
        self.ended = true;
        let Ok(text) = std::str::from_utf8(&self.bytes) else { return Err(Malformed("the form is not UTF-8")) };
        for (slot, name) in self.slots.iter_mut().zip(&self.names) {
            let values: Vec<&str> = text.split('&').filter(|part| is_pair_of(part, name)).collect();
            self.duplicate |= values.len() > 1 && self.on_duplicate == OnDuplicateKey::Reject;
            *slot = match values.last().map(|last| pair(last, name)) {
                None => Slot::Absent,
                Some(Ok(value)) => Slot::Text(value.unwrap_or_default()),
                Some(Err(_)) => Slot::Unusable,
            };
        }
        Ok(())
    }
}

fn is_pair_of(part: &str, name: &str) -> bool {
    decode_form(part.split('=').next().unwrap_or_default()).as_deref() == Some(name)
}
