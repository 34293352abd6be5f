//! Answers to the stream of one attempt (the upstream role): set headers, show the body or let it go as it is, replace it. There is
//! no way to refuse here: an upstream filter's own response would end the chain (fact 37).

use std::ops::Range;

use super::reply::{Kind, Reply, set_header};
use super::wire::Writer;

/// Answers the head. Unless the body is wanted, nothing of this attempt need be shown any more (fact 28b).
#[must_use]
pub fn head(set: &[(&str, String)], wants_body: bool) -> Reply {
    const SKIP: u64 = 2;
    let mut writer = Writer::with_capacity(64);
    writer.message(Kind::RequestHeaders.tag(), |response| {
        if set.is_empty() {
            return;
        }
        let change = |mutation: &mut Writer| set.iter().for_each(|(name, value)| set_header(mutation, 1, name, value));
        response.message(1, |common| common.message(2, change));
    });
    if !wants_body {
        // mode_override: the modes that are not written are DEFAULT and, for the bodies, NONE.
        writer.message(9, |mode| mode.number(2, SKIP));
    }
    Reply::Written(writer.into_bytes())
}

/// The one place in a body that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

impl Edit {
    /// How long the body is afterwards, in bytes.
    #[must_use]
    pub fn length_of(&self, body: &[u8]) -> usize {
        body.len() - self.range.len() + self.text.len()
    }
}

/// Answers the body: with an edited one, with another `content-length`, or both. The bytes are copied once.
#[must_use]
pub fn body(body: &[u8], edit: Option<&Edit>, length: Option<usize>) -> Reply {
    let size = edit.map_or(0, |edit| edit.length_of(body));
    let mut writer = Writer::with_capacity(size + 64);
    writer.message_of(size, Kind::RequestBody.tag(), |response| {
        response.message_of(size, 1, |common| {
            if let Some(length) = length {
                common.message(2, |mutation| set_header(mutation, 1, "content-length", &length.to_string()));
            }
            if let Some(Edit { range, text }) = edit {
                common.message_of(size, 3, |mutation| {
                    mutation.pieces(1, &[&body[..range.start], text.as_bytes(), &body[range.end..]]);
                });
            }
        });
    });
    Reply::Written(writer.into_bytes())
}
