//! One field of a request on its way: where in the body it may still come from, in order, and what the head said. It knows what counts
//! as a value; it reads nothing.

use crate::extract::Found;
use crate::extract::body::Scanner;
use crate::extract::json::Slot;
use crate::extract::place::InBody;
use crate::extract::source::Source;
use crate::extract::spelling;

/// What a field is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Purpose {
    /// Model and tenant: they decide the route, and what a provider may read in another way counts.
    #[default]
    Route,
    /// Blanks are no session: many clients would share it.
    Session,
}

/// Where a field may still come from, in order, and what the head said.
#[derive(Debug, Default)]
pub(super) struct Field {
    purpose: Purpose,
    /// Slots of the body that come before the head's value, each with its source's index.
    pub(super) candidates: Vec<(usize, usize)>,
    /// What the first head source with a value said.
    pub(super) fallback: Found<String>,
    pub(super) fallback_source: usize,
    /// The tenant alone: the value may be an API key's.
    pub(super) source: Option<Source>,
}

static NOTHING: Slot = Slot::Absent;

impl Field {
    pub(super) fn for_(purpose: Purpose) -> Self {
        Self { purpose, ..Self::default() }
    }

    /// Takes the value that a source found in the head; false if it is none.
    pub(super) fn is_said_by_the_head(&mut self, found: Found<String>, index: usize, source: &Source) -> bool {
        let is_value = match &found {
            Found::Nothing => false,
            Found::Value(text) => self.is_value(text),
            Found::Unusable => true,
        };
        if is_value {
            self.fallback = found;
            self.fallback_source = index;
            self.source = Some(source.clone());
        }
        is_value
    }

    fn is_value(&self, text: &str) -> bool {
        match self.purpose {
            Purpose::Route => !text.is_empty(),
            Purpose::Session => spelling::is_visible(text),
        }
    }

    /// A field is settled by its first candidate with a value, if all before it are settled without one.
    pub(super) fn is_settled(&self, scanner: Option<&Scanner>) -> bool {
        for (slot, _) in &self.candidates {
            match read(scanner, *slot) {
                (_, false) => return false,
                (Slot::Text(text), true) if self.is_value(text) => return true,
                (Slot::Unusable, true) => return true,
                (Slot::Text(_) | Slot::NotText | Slot::Absent, true) => {}
            }
        }
        true
    }

    /// What is known now, and which source said it.
    pub(super) fn value(&self, scanner: Option<&Scanner>) -> (Found<String>, Option<usize>) {
        for (slot, source) in &self.candidates {
            match read(scanner, *slot).0 {
                Slot::Text(text) if self.is_value(text) => return (Found::Value(text.clone()), Some(*source)),
                Slot::Unusable => return (Found::Unusable, Some(*source)),
                Slot::Text(_) | Slot::NotText | Slot::Absent => {}
            }
        }
        let source = (self.fallback != Found::Nothing).then_some(self.fallback_source);
        (self.fallback.clone(), source)
    }

    /// Where the value is in the whole body; `None` if it was found elsewhere.
    pub(super) fn place(&self, scanner: &Scanner, body: &[u8]) -> Option<InBody> {
        let slots = self.candidates.iter().map(|(slot, _)| (*slot, scanner.slot(*slot).0));
        let mut values = slots.filter(|(_, found)| match found {
            Slot::Text(text) => self.is_value(text),
            Slot::Unusable => true,
            Slot::NotText | Slot::Absent => false,
        });
        match values.next()? {
            (slot, Slot::Text(_)) => scanner.place(slot, body),
            _ => None,
        }
    }

    /// The head's source, if it gave the value.
    pub(super) fn head_source(&self, given_by: Option<usize>) -> Option<&Source> {
        self.source.as_ref().filter(|_| given_by == Some(self.fallback_source))
    }

    /// True if the value is another source's because the body has a number, a list or the like in its place: some providers make a text
    /// of it.
    pub(super) fn steps_over_an_odd_value(&self, scanner: &Scanner) -> bool {
        let (found, given_by) = self.value(Some(scanner));
        let before = |source: usize| given_by.is_some_and(|given_by| source < given_by);
        found != Found::Nothing
            && self
                .candidates
                .iter()
                .any(|(slot, source)| before(*source) && matches!(scanner.slot(*slot).0, Slot::NotText) && scanner.is_odd(*slot))
    }
}

pub(super) fn read(scanner: Option<&Scanner>, slot: usize) -> (&Slot, bool) {
    scanner.map_or((&NOTHING, true), |scanner| scanner.slot(slot))
}
