//! A form: `a=1&b=2`, kept until its end, since a form is small. It knows no model.

use std::ops::Range;

use super::Trouble;
use super::json::{MAX_VALUE, Malformed, Slot};
use super::path::{decode_form, pair, values_of};
use super::source::OnDuplicateKey;
use super::spelling::{Seen, is_form_variant};

/// A form longer than this holds a file, not a model.
const MAX_FORM: usize = 1024 * 1024;
/// How many fields a form may have: all of it is searched at its end, in one go. Frameworks stop at a thousand.
const MAX_FIELDS: usize = 4096;
/// The longest name of a field, as sent, that is compared with a wanted one; the same for a value, of which three bytes may be one.
const MAX_NAME: usize = 1024;
const MAX_SENT_VALUE: usize = 3 * MAX_VALUE + MAX_NAME;

#[derive(Debug)]
pub struct Scanner {
    bytes: Vec<u8>,
    names: Vec<String>,
    slots: Vec<Slot>,
    on_duplicate: OnDuplicateKey,
    duplicate: bool,
    ended: bool,
    /// Which names are guarded, and the spellings seen of each.
    guarded: Vec<(usize, Seen)>,
}

impl Scanner {
    #[must_use]
    pub fn new(names: Vec<String>, on_duplicate: OnDuplicateKey) -> Self {
        Self {
            bytes: Vec::new(),
            slots: vec![Slot::Absent; names.len()],
            names,
            on_duplicate,
            duplicate: false,
            ended: false,
            guarded: Vec::new(),
        }
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

    /// Notes what other parsers may take for the field with this name.
    pub fn guard(&mut self, index: usize) {
        self.guarded.push((index, Seen::default()));
    }

    /// What may be read in another way; known at the end.
    #[must_use]
    pub fn doubt(&self) -> Option<Trouble> {
        if self.guarded.iter().any(|(_, seen)| seen.twice) {
            return Some(Trouble::DuplicateKey);
        }
        let is_other = self.guarded.iter().any(|(_, seen)| seen.other);
        is_other.then_some(Trouble::Malformed("the name of a field is spelled in another way than the wanted one"))
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
        if memchr::memchr2_iter(b'&', b';', &self.bytes).nth(MAX_FIELDS - 1).is_some() {
            return Err(Malformed("the form has too many fields"));
        }
        for (slot, name) in self.slots.iter_mut().zip(&self.names) {
            let values: Vec<&str> = text.split('&').filter(|part| is_pair_of(part, name)).collect();
            self.duplicate |= values.len() > 1 && self.on_duplicate == OnDuplicateKey::Reject;
            *slot = match values.last().filter(|last| last.len() <= MAX_SENT_VALUE).map(|last| pair(last, name)) {
                None if values.is_empty() => Slot::Absent,
                None => Slot::Unusable,
                Some(Ok(value)) => Slot::Text(value.unwrap_or_default()),
                Some(Err(_)) => Slot::Unusable,
            };
        }
        for (index, seen) in &mut self.guarded {
            note_spellings(text, &self.names[*index], seen);
        }
        Ok(())
    }
}

/// Some parsers take a semicolon for an ampersand.
fn note_spellings(text: &str, wanted: &str, seen: &mut Seen) {
    for part in text.split('&') {
        for (at, pair) in part.split(';').enumerate() {
            match name_of(pair) {
                Some(name) if name == wanted && at == 0 => seen.note_exact(),
                Some(name) if name == wanted || is_form_variant(&name, wanted) => seen.note_other(),
                _ => {}
            }
        }
    }
}

fn is_pair_of(part: &str, name: &str) -> bool {
    name_of(part).as_deref() == Some(name)
}

/// The name of a field, unless it is none or too long to be a wanted one.
fn name_of(part: &str) -> Option<String> {
    part.split('=').next().filter(|name| name.len() <= MAX_NAME).and_then(decode_form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_parser_takes_for_the_field_is_doubtful() {
        for (form, doubt) in [
            ("model=a&x=1", None),
            ("models=a&mode=b&x[model]=c", None),
            ("model=a&MODEL=b", Some(Trouble::DuplicateKey)),
            ("model=a&model[]=b", Some(Trouble::DuplicateKey)),
            ("model=a&model%5B0%5D=b", Some(Trouble::DuplicateKey)),
            ("model=a&+model=b", Some(Trouble::DuplicateKey)),
            ("model=a&mod%2565l=b", Some(Trouble::DuplicateKey)),
            ("model=a;model=b", Some(Trouble::DuplicateKey)),
            ("x=1;model=b&model=a", Some(Trouble::DuplicateKey)),
            ("Model=a&mOdel=b", Some(Trouble::DuplicateKey)),
            ("x=1;model=b", Some(Trouble::Malformed("the name of a field is spelled in another way than the wanted one"))),
            ("Model=a", Some(Trouble::Malformed("the name of a field is spelled in another way than the wanted one"))),
        ] {
            let mut scanner = Scanner::new(vec!["model".to_owned()], OnDuplicateKey::Last);
            scanner.guard(0);
            scanner.push(form.as_bytes()).unwrap();
            assert_eq!(scanner.doubt(), None);
            scanner.finish().unwrap();
            assert_eq!(scanner.doubt(), doubt, "{form}");
        }
    }

    #[test]
    fn a_form_of_very_many_fields_is_none_and_a_very_long_value_is_no_name() {
        let read = |form: &str| {
            let mut scanner = Scanner::new(vec!["model".to_owned()], OnDuplicateKey::Reject);
            let result = scanner.push(form.as_bytes()).and_then(|()| scanner.finish());
            (result, scanner.slot(0).clone())
        };
        assert_eq!(read(&format!("{}model=m", "a=1&".repeat(4_000))), (Ok(()), Slot::Text("m".to_owned())));
        for separator in ["&", ";", "a&b;"] {
            assert!(read(&format!("{}model=m", separator.repeat(5_000))).0.is_err(), "{separator}");
        }
        assert_eq!(read(&format!("model={}", "%41".repeat(9_000))), (Ok(()), Slot::Unusable));
        assert_eq!(read(&format!("{}=1&model=m", "n".repeat(100_000))), (Ok(()), Slot::Text("m".to_owned())));
    }
}
