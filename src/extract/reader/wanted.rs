//! What a body is asked for: the sources of every field, in order, become slots of the one scanner that reads this kind of body, and
//! what the head says already. It plans; nothing is read here.

use std::sync::LazyLock;

use super::{Body, Field};
use crate::extract::body::Scanner;
use crate::extract::dialect::{BodyKind, Dialect, ModelPlace};
use crate::extract::encoding::{Allowance, Decoder};
use crate::extract::head::{self, Head};
use crate::extract::source::{OnDuplicateKey, Pointer, Source};
use crate::extract::{Found, Limits, form, json, multipart};

/// Where JSON dialects keep the model.
static MODEL: LazyLock<Pointer> = LazyLock::new(|| Pointer::to_key("model"));

/// Collects what the body is asked for while the fields are planned.
pub(super) struct Wanted<'a> {
    pub(super) kind: &'a BodyKind,
    pub(super) pointers: Vec<Pointer>,
    pub(super) names: Vec<String>,
    /// Why a provider may read the head in another way, of the sources that were looked at for the model or the tenant.
    pub(super) doubt: Option<&'static str>,
}

impl Wanted<'_> {
    pub(super) fn field(&mut self, head: &impl Head, sources: &[Source], dialect: &Dialect, in_body: bool) -> Field {
        let mut field = Field::default();
        for (index, source) in sources.iter().enumerate() {
            let doubt = if *source == Source::Dialect { dialect.doubt } else { head::doubt(head, source) };
            self.doubt = self.doubt.or(doubt);
            let found = match (source, &dialect.model) {
                (Source::Dialect, ModelPlace::Path(model)) => model.clone().map_or(Found::Unusable, Found::Value),
                (Source::Dialect, ModelPlace::Query(name)) => head::find(head, &Source::Query((*name).to_owned())),
                _ => head::find(head, source),
            };
            if found != Found::Nothing {
                field.fallback = found;
                field.fallback_source = index;
                field.source = Some(source.clone());
                break;
            }
            let holds_none = *source == Source::Dialect && dialect.model == ModelPlace::Nowhere;
            if in_body
                && !holds_none
                && let Some(slot) = self.slot(source)
            {
                field.candidates.push((slot, index));
            }
        }
        field
    }

    /// The body's slot for the source, if this kind of body can have it.
    fn slot(&mut self, source: &Source) -> Option<usize> {
        let (pointer, name) = match (source, self.kind) {
            (Source::Body(pointer), BodyKind::Json) => (Some(pointer.clone()), None),
            (Source::Dialect, BodyKind::Json) => (Some(MODEL.clone()), None),
            (Source::Dialect, BodyKind::Multipart { .. } | BodyKind::Form) => (None, Some("model")),
            (Source::Multipart(name), BodyKind::Multipart { .. }) | (Source::Form(name), BodyKind::Form) => {
                (None, Some(name.as_str()))
            }
            _ => return None,
        };
        match (pointer, name) {
            (Some(pointer), _) => Some(index_of(&mut self.pointers, pointer)),
            (None, Some(name)) => Some(index_of(&mut self.names, name.to_owned())),
            (None, None) => None,
        }
    }

    pub(super) fn body(self, limits: &Limits, on_duplicate: OnDuplicateKey, encoding: &str) -> Body {
        let scanner = match self.kind {
            BodyKind::Json => Scanner::Json(Box::new(json::Scanner::new(&self.pointers, limits.max_depth, on_duplicate))),
            BodyKind::Multipart { boundary } => {
                Scanner::Multipart(Box::new(multipart::Scanner::new(boundary, self.names, on_duplicate)))
            }
            BodyKind::Form => Scanner::Form(form::Scanner::new(self.names, on_duplicate)),
            BodyKind::Other => return Body::Ignored,
        };
        let allowed = Allowance { max_decompressed: limits.max_decompressed, max_codings: limits.max_codings };
        Decoder::new(encoding, scanner, allowed).map_or_else(Body::Unreadable, |decoder| Body::Read(Box::new(decoder)))
    }
}

fn index_of<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}
