//! The other places of a request that name its model. The first source with a value decides; which one a provider reads is not known
//! here, so whoever may not use every model has all of them compared. What is trusted has no rivals: no client can write it.

use super::field::{Field, read};
use super::wanted::Wanted;
use super::{Body, Reader};
use crate::extract::dialect::{Dialect, ModelPlace};
use crate::extract::head::Head;
use crate::extract::json::Slot;
use crate::extract::source::Source;
use crate::extract::{Found, Trouble};

/// Where the model is named beside the place that decides.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// What the head says.
    head: Vec<Found<String>>,
    /// Slots of the body. One of them may be the one that decides.
    pub(super) slots: Vec<usize>,
}

impl Rivals {
    pub(super) fn are_in_the_body(&self) -> bool {
        !self.slots.is_empty()
    }
}

impl Wanted<'_> {
    /// The places besides what `model` found in the head, in the configured sources and where the API has it.
    pub(super) fn rivals(&mut self, head: &impl Head, sources: &[Source], dialect: &Dialect, model: &Field) -> Option<Rivals> {
        if model.source.as_ref().is_some_and(|source| !source.is_client_written()) {
            return None;
        }
        let mut rivals = Rivals::default();
        let decided = model.source.as_ref().map(|_| model.fallback_source);
        let unlisted = (!sources.contains(&Source::Dialect)).then_some((usize::MAX, &Source::Dialect));
        for (index, source) in sources.iter().enumerate().chain(unlisted) {
            if Some(index) != decided && source.is_client_written() {
                let found = self.in_head(head, source, dialect);
                rivals.head.extend(Some(found).filter(|found| *found != Found::Nothing));
            }
            let holds_none = *source == Source::Dialect && dialect.model == ModelPlace::Nowhere;
            if !holds_none && let Some(slot) = self.slot(source) {
                self.guard(slot);
                rivals.slots.push(slot);
            }
        }
        Some(rivals)
    }
}

impl Reader {
    /// True if the tenant can no longer come from the body.
    #[must_use]
    pub fn knows_the_tenant(&self) -> bool {
        self.is_settled(&self.tenant)
    }

    /// Nobody compares the rivals: they are not waited for.
    pub fn ignore_rivals(&mut self) {
        self.rivals = None;
        if self.reads_for_the_session_alone() && (!self.needs.session || self.session.candidates.is_empty()) {
            self.body = Body::Ignored;
        }
    }

    /// A rival that cannot be read any more could have been any model.
    pub(super) fn miss_rivals(&mut self, trouble: &Trouble) {
        let is_open = |slot: &usize| !read(self.scanner(), *slot).1;
        if self.rivals.iter().flat_map(|rivals| &rivals.slots).any(is_open) {
            self.note_doubt(trouble.clone());
        }
    }

    pub(super) fn reads_for_rivals_alone(&self) -> bool {
        self.reads_for_the_session_alone() && self.session.candidates.is_empty() && self.rivals.is_some()
    }

    /// What the other places say, if they say anything else than what was found.
    pub(super) fn found_rivals(&self, model: &Found<String>) -> Vec<Found<String>> {
        let Some(rivals) = self.rivals.as_ref().filter(|_| *model != Found::Nothing) else { return Vec::new() };
        let scanner = self.scanner();
        let is_odd = |slot: usize| scanner.is_some_and(|scanner| scanner.is_odd(slot));
        let in_body = rivals.slots.iter().map(|slot| match read(scanner, *slot).0 {
            Slot::Text(text) if !text.is_empty() => Found::Value(text.clone()),
            Slot::Unusable => Found::Unusable,
            // A provider may make a text of it.
            Slot::NotText if is_odd(*slot) => Found::Unusable,
            Slot::Text(_) | Slot::NotText | Slot::Absent => Found::Nothing,
        });
        let in_head = rivals.head.iter().chain([&self.model.fallback]).cloned();
        in_body.chain(in_head).filter(|rival| *rival != Found::Nothing && rival != model).collect()
    }
}

#[cfg(test)]
mod tests;
