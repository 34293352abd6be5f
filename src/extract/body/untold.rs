//! A body whose content type does not say JSON, and which may be JSON all the same: `curl -d` calls everything a form, and providers
//! that read JSON whatever the type says do not mind. Its first byte that is neither blank nor a byte order mark tells: `{` begins
//! JSON, everything else is what the type says.

use super::super::json::{Malformed, Slot};
use super::super::place::{self, InBody, Style};
use super::super::source::{OnDuplicateKey, Pointer};
use super::super::{Trouble, form, json};
use super::by_spelling;

/// What a slot is called in JSON and in a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub pointer: Option<Pointer>,
    pub name: Option<String>,
}

/// What a body is that does not begin as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    Form,
    /// It holds nothing.
    Nothing,
    /// It may hold something, and cannot be read.
    Unclear(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    /// Blanks so far.
    Open,
    Json,
    Otherwise,
}

#[derive(Debug)]
pub struct Untold {
    is: Is,
    otherwise: Otherwise,
    json: json::Scanner,
    form: form::Scanner,
    /// Per slot where JSON has it and where a form has it.
    slots: Vec<(Option<usize>, Option<usize>)>,
}

static NOTHING: Slot = Slot::Absent;

impl Untold {
    /// Slots are in the order of `keys`.
    #[must_use]
    pub fn new(keys: &[Key], otherwise: Otherwise, max_depth: usize, on_duplicate: OnDuplicateKey) -> Self {
        let pointers: Vec<&Pointer> = keys.iter().filter_map(|key| key.pointer.as_ref()).collect();
        let names: Vec<String> = keys.iter().filter_map(|key| key.name.clone()).collect();
        let (mut in_json, mut in_form) = (0.., 0..);
        let slots = keys.iter().map(|key| {
            let json = key.pointer.as_ref().and_then(|_| in_json.next());
            (json, key.name.as_ref().and_then(|_| in_form.next()))
        });
        Self {
            is: Is::Open,
            otherwise,
            slots: slots.collect(),
            json: json::Scanner::new(pointers, max_depth, on_duplicate),
            form: form::Scanner::new(names, on_duplicate),
        }
    }

    pub(super) fn guard(&mut self, index: usize) {
        let (json, form) = self.slots[index];
        if let Some(json) = json {
            self.json.guard(json);
        }
        if let Some(form) = form {
            self.form.guard(form);
        }
    }

    pub(super) fn be_lenient(&mut self, index: usize) {
        if let (Some(json), _) = self.slots[index] {
            self.json.be_lenient(json);
        }
    }

    pub(super) fn is_true(&self, index: usize) -> bool {
        matches!((self.is, self.slots[index]), (Is::Json, (Some(json), _)) if self.json.is_true(json))
    }

    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        if self.is == Is::Open {
            // What comes before the first byte that tells belongs to the body, whatever it is: both read it.
            let told = chunk.iter().find(|byte| !is_nothing(**byte));
            match told {
                Some(b'{') => self.is = Is::Json,
                Some(_) => self.is = Is::Otherwise,
                None => {
                    let _ = (self.json.push(chunk), self.form.push(chunk));
                    return Ok(());
                }
            }
        }
        match (self.is, self.otherwise) {
            (Is::Json, _) => self.json.push(chunk),
            (_, Otherwise::Form) => self.form.push(chunk),
            (_, Otherwise::Nothing) => Ok(()),
            (_, Otherwise::Unclear(why)) => Err(Malformed(why)),
        }
    }

    pub(super) fn finish(&mut self) -> Result<(), Malformed> {
        match (self.is, self.otherwise) {
            (Is::Json, _) => self.json.finish(),
            (_, Otherwise::Form) => {
                self.is = Is::Otherwise;
                self.form.finish()
            }
            (_, Otherwise::Nothing | Otherwise::Unclear(_)) => {
                self.is = Is::Otherwise;
                Ok(())
            }
        }
    }

    pub(super) fn slot(&self, index: usize) -> (&Slot, bool) {
        let (json, form) = self.slots[index];
        match (self.is, json, form) {
            (Is::Open, ..) => (&NOTHING, false),
            (Is::Json, Some(json), _) => (self.json.slot(json), self.json.is_settled(json)),
            (Is::Otherwise, _, Some(form)) if self.otherwise == Otherwise::Form => (self.form.slot(form), self.form.is_settled()),
            (Is::Json | Is::Otherwise, ..) => (&NOTHING, true),
        }
    }

    pub(super) fn place(&self, index: usize, body: &[u8]) -> Option<InBody> {
        match (self.is, self.slots[index]) {
            (Is::Json, (Some(json), _)) => place::json_text(body, self.json.starts_at(json)),
            (Is::Otherwise, (_, Some(form))) if self.otherwise == Otherwise::Form => {
                self.form.place(form).map(|range| InBody { range, style: Style::Pair })
            }
            (Is::Open | Is::Json | Is::Otherwise, _) => None,
        }
    }

    pub(super) fn doubt(&self) -> Option<Trouble> {
        match self.is {
            Is::Open => None,
            Is::Json => by_spelling(self.json.spellings()),
            Is::Otherwise => self.form.doubt(),
        }
    }

    pub(super) fn is_odd(&self, index: usize) -> bool {
        self.is == Is::Json && self.slots[index].0.is_some_and(|json| self.json.is_odd(json))
    }

    pub(super) fn has_duplicate(&self) -> bool {
        match self.is {
            Is::Open => false,
            Is::Json => self.json.has_duplicate(),
            Is::Otherwise => self.form.has_duplicate(),
        }
    }
}

/// Blanks, and the bytes of every byte order mark and of the zeros beside one: some parsers find out for themselves that a body is
/// UTF-16 or UTF-32, and what begins like that must not pass for something else.
const fn is_nothing(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | 0 | 0xEF | 0xBB | 0xBF | 0xFE | 0xFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &[u8], step: usize, otherwise: Otherwise) -> (Result<(), Malformed>, Slot) {
        let key = Key { pointer: Some(Pointer::to_key("model")), name: Some("model".to_owned()) };
        let other = Key { pointer: None, name: Some("other".to_owned()) };
        let mut untold = Untold::new(&[other, key], otherwise, 16, OnDuplicateKey::Reject);
        let pushed = body.chunks(step).try_for_each(|chunk| untold.push(chunk)).and_then(|()| untold.finish());
        assert!(untold.slot(1).1 || pushed.is_err());
        (pushed, untold.slot(1).0.clone())
    }

    #[test]
    fn the_first_byte_that_says_something_tells() {
        let model = Slot::Text("m".to_owned());
        let unclear = Otherwise::Unclear("unclear");
        for step in [1, 2, 1000] {
            for otherwise in [Otherwise::Form, Otherwise::Nothing, unclear] {
                for body in ["{\"model\":\"m\"}", " \r\n\t{\"model\":\"m\"}", "\u{feff}{\"model\":\"m\"}"] {
                    assert_eq!(read(body.as_bytes(), step, otherwise), (Ok(()), model.clone()), "{body}");
                }
                for body in ["{", "{model:\"m\"}", "\u{b}{\"model\":\"m\"}", "{\"model\":\"m\"}&model=n"] {
                    assert!(read(body.as_bytes(), step, otherwise).0.is_err(), "{body}");
                }
                // UTF-16 and UTF-32, with and without a mark.
                for body in [&b"\xff\xfe{\0\"\0"[..], b"{\0\"\0m\0", b"\0{\0\"\0m", b"\0\0\xfe\xff\0\0\0{"] {
                    assert!(read(body, step, otherwise).0.is_err(), "{body:?}");
                }
            }
            assert_eq!(read(b"a=1&model=m", step, Otherwise::Form), (Ok(()), model.clone()));
            assert_eq!(read(b"model=m", step, Otherwise::Nothing), (Ok(()), Slot::Absent));
            assert_eq!(read(b"model=m", step, unclear).0, Err(Malformed("unclear")));
            assert_eq!(read(b"\r\n", step, unclear), (Ok(()), Slot::Absent));
        }
    }
}
