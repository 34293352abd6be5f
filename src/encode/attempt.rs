//! Answers to the stream of one attempt (the upstream role): let it go as it is, set its path, replace its body. There is no way to
//! refuse here: an upstream filter's own response would end the chain (fact 37).

use super::reply::{Kind, Reply, set_header};
use super::wire::Writer;

/// Answers the head: nothing of this attempt need be shown any more (fact 28b), and its path becomes `path` if there is one.
#[must_use]
pub fn go(path: Option<&str>) -> Reply {
    const SKIP: u64 = 2;
    let mut writer = Writer::with_capacity(64);
    writer.message(Kind::RequestHeaders.tag(), |response| {
        let Some(path) = path else { return };
        response.message(1, |common| common.message(2, |mutation| set_header(mutation, 1, ":path", path)));
    });
    // mode_override: the modes that are not written are DEFAULT and, for the bodies, NONE.
    writer.message(9, |mode| mode.number(2, SKIP));
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
