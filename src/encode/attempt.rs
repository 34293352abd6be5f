//! Answers to the stream of one attempt (the upstream role): set headers, show the body or let it go as it is, replace it. There is
//! no way to refuse here: an upstream filter's own response would end the chain (fact 37).

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

/// Answers the body: with another one, with another `content-length`, or both.
#[must_use]
pub fn body(new: Option<&[u8]>, length: Option<usize>) -> Reply {
    let mut writer = Writer::with_capacity(new.map_or(0, <[u8]>::len) + 64);
    writer.message(Kind::RequestBody.tag(), |response| {
        response.message(1, |common| {
            if let Some(length) = length {
                common.message(2, |mutation| set_header(mutation, 1, "content-length", &length.to_string()));
            }
            if let Some(new) = new {
                common.message(3, |mutation| mutation.bytes(1, new));
            }
        });
    });
    Reply::Written(writer.into_bytes())
}
