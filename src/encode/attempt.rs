//! Answers to the stream of one attempt (the upstream role): set headers, show the body or let it go as it is, replace it. There is
//! no way to refuse here: an upstream filter's own response would end the chain (fact 37).

use std::ops::Range;

use super::reply::{Kind, Reply, set_header};
use super::wire::Writer;

/// Answers the head. Unless the body is wanted, nothing of this attempt need be shown any more (fact 28b).
#[must_use]
pub fn head(set: &[(String, String)], wants_body: bool) -> Reply {
    const SKIP: u64 = 2;
    let mut writer = Writer::with_capacity(64);
    writer.message(Kind::RequestHeaders.tag(), |response| {
        if !set.is_empty() {
            response.message(1, |common| common.message(2, |mutation| set_all(mutation, set)));
        }
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

/// Answers the body: with an edited one, with other headers, or both. The bytes are copied once.
///
/// `content-length` leaves with the edit: all attempts share one set of headers while the body starts anew each time, so that a length
/// which is set here could meet another attempt's body (facts 70 and 71). Without one, Envoy frames each body by what it is.
#[must_use]
pub fn body(body: &[u8], edit: Option<&Edit>, set: &[(String, String)]) -> Reply {
    let size = edit.map_or(0, |edit| edit.length_of(body));
    let mut writer = Writer::with_capacity(size + 64);
    writer.message_of(size, Kind::RequestBody.tag(), |response| {
        if edit.is_none() && set.is_empty() {
            return;
        }
        response.message_of(size, 1, |common| {
            common.message(2, |mutation| {
                set_all(mutation, set);
                if edit.is_some() {
                    mutation.text(2, "content-length");
                }
            });
            if let Some(Edit { range, text }) = edit {
                common.message_of(size, 3, |mutation| {
                    mutation.pieces(1, &[&body[..range.start], text.as_bytes(), &body[range.end..]]);
                });
            }
        });
    });
    Reply::Written(writer.into_bytes())
}

fn set_all(mutation: &mut Writer, set: &[(String, String)]) {
    set.iter().for_each(|(name, value)| set_header(mutation, 1, name, value));
}
