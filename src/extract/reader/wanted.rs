//! What a body is asked for: the sources of every field, in order, become slots of the one scanner that reads this kind of body, and
//! what the head says already. It plans; nothing is read here.

use std::sync::LazyLock;

use super::Body;
use super::field::{Field, Purpose};
use crate::extract::body::{Key, Otherwise, Scanner, Untold};
use crate::extract::content_type::BodyKind;
use crate::extract::dialect::{Dialect, ModelPlace};
use crate::extract::encoding::{Allowance, Decoder};
use crate::extract::head::{self, Head};
use crate::extract::source::{OnDuplicateKey, Pointer, Source};
use crate::extract::{Found, Limits, json, multipart};

/// Where dialects keep the model.
const MODEL: &str = "model";
static MODEL_POINTER: LazyLock<Pointer> = LazyLock::new(|| Pointer::to_key(MODEL));
/// Where bodies say whether the answer shall stream.
static STREAM: LazyLock<Pointer> = LazyLock::new(|| Pointer::to_key("stream"));

/// Collects what the body is asked for while the fields are planned.
pub(super) struct Wanted<'a> {
    kind: &'a BodyKind,
    keys: Vec<Key>,
    /// Slots of which other spellings count.
    guarded: Vec<usize>,
    lenient: Option<usize>,
    /// Why a provider may read the head in another way, of the sources that were looked at for the model or the tenant.
    pub(super) doubt: Option<&'static str>,
}

impl<'a> Wanted<'a> {
    pub(super) const fn of(kind: &'a BodyKind) -> Self {
        Self { kind, keys: Vec::new(), guarded: Vec::new(), lenient: None, doubt: None }
    }

    /// Plans a field; one that is not searched for in the body takes what the head has.
    pub(super) fn field(
        &mut self,
        head: &impl Head,
        sources: &[Source],
        dialect: &Dialect,
        purpose: Purpose,
        in_body: bool,
    ) -> Field {
        let mut field = Field::for_(purpose);
        for (index, source) in sources.iter().enumerate() {
            let doubt = if *source == Source::Dialect { dialect.doubt } else { head::doubt(head, source) };
            self.doubt = self.doubt.or(doubt);
            let found = self.in_head(head, source, dialect);
            if field.is_said_by_the_head(found, index, source) {
                break;
            }
            let holds_none = *source == Source::Dialect && dialect.model == ModelPlace::Nowhere;
            if in_body
                && !holds_none
                && let Some(slot) = self.slot(source)
            {
                field.candidates.push((slot, index));
                if purpose == Purpose::Route {
                    self.guard(slot);
                }
            }
        }
        field
    }

    /// Other spellings of this slot's key count.
    pub(super) fn guard(&mut self, slot: usize) {
        if !self.guarded.contains(&slot) {
            self.guarded.push(slot);
        }
    }

    /// What the head says for the source.
    pub(super) fn in_head(&self, head: &impl Head, source: &Source, dialect: &Dialect) -> Found<String> {
        match (source, &dialect.model) {
            (Source::Dialect, ModelPlace::Path(model)) => model.clone().map_or(Found::Unusable, Found::Value),
            (Source::Dialect, ModelPlace::Query(name)) => head::find(head, &Source::Query((*name).to_owned())),
            _ => head::find(head, source),
        }
    }

    /// The slot that says whether the answer shall stream, if this kind of body can have it and it means nothing else.
    pub(super) fn stream(&mut self) -> Option<usize> {
        let may_be_json = match self.kind {
            BodyKind::Json | BodyKind::Other | BodyKind::Form | BodyKind::Unclear(_) => true,
            BodyKind::Multipart { .. } => false,
        };
        let key = Key { pointer: Some(STREAM.clone()), name: None };
        if may_be_json && !self.keys.iter().any(|known| known.pointer == key.pointer) {
            self.keys.push(key);
            self.lenient = Some(self.keys.len() - 1);
        }
        self.lenient
    }

    /// The body's slot for the source, if this kind of body can have it.
    pub(super) fn slot(&mut self, source: &Source) -> Option<usize> {
        let (pointer, name) = match source {
            Source::Dialect => (Some(MODEL_POINTER.clone()), Some(MODEL.to_owned())),
            Source::Body(pointer) => (Some(pointer.clone()), None),
            Source::Multipart(name) if matches!(self.kind, BodyKind::Multipart { .. } | BodyKind::Unclear(_)) => {
                (None, Some(name.clone()))
            }
            Source::Form(name) if matches!(self.kind, BodyKind::Form | BodyKind::Unclear(_)) => (None, Some(name.clone())),
            _ => return None,
        };
        let key = match self.kind {
            BodyKind::Json | BodyKind::Other => Key { pointer, name: None },
            BodyKind::Multipart { .. } => Key { pointer: None, name },
            BodyKind::Form | BodyKind::Unclear(_) => Key { pointer, name },
        };
        if key.pointer.is_none() && key.name.is_none() {
            return None;
        }
        Some(self.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        }))
    }

    pub(super) fn body(self, limits: &Limits, on_duplicate: OnDuplicateKey, encoding: &str) -> Body {
        let mut scanner = self.scanner(limits.max_depth, on_duplicate);
        self.guarded.iter().for_each(|slot| scanner.guard(*slot));
        self.lenient.iter().for_each(|slot| scanner.be_lenient(*slot));
        let allowed = Allowance { max_decompressed: limits.max_decompressed, max_codings: limits.max_codings };
        Decoder::new(encoding, scanner, allowed).map_or_else(Body::Unreadable, |decoder| Body::Read(Box::new(decoder)))
    }

    fn scanner(&self, max_depth: usize, on_duplicate: OnDuplicateKey) -> Scanner {
        let otherwise = match self.kind {
            BodyKind::Json => {
                let pointers = self.keys.iter().filter_map(|key| key.pointer.as_ref());
                return Scanner::Json(Box::new(json::Scanner::new(pointers, max_depth, on_duplicate)));
            }
            BodyKind::Multipart { boundary } => {
                let names = self.keys.iter().filter_map(|key| key.name.clone()).collect();
                return Scanner::Multipart(Box::new(multipart::Scanner::new(boundary, names, on_duplicate)));
            }
            BodyKind::Form => Otherwise::Form,
            BodyKind::Other => Otherwise::Nothing,
            BodyKind::Unclear(why) => Otherwise::Unclear(why),
        };
        Scanner::Untold(Box::new(Untold::new(&self.keys, otherwise, max_depth, on_duplicate)))
    }
}
