//! The body that FULL_DUPLEX_STREAMED has sent while nothing was decided: slices of the received messages, in order, and how the
//! body ended if it has. It gives everything back once, unchanged; it does not know what is waited for.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::encode::piece::pieces;
use crate::encode::reply::{self, Kind, Reply};
use crate::proto::HttpBody;

#[derive(Debug, Default)]
pub(super) struct Held {
    chunks: VecDeque<Bytes>,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum End {
    #[default]
    Open,
    Piece,
    Trailers,
}

impl Held {
    pub(super) fn push(&mut self, body: HttpBody) {
        if body.end_of_stream {
            self.end = End::Piece;
        }
        if !body.body.is_empty() {
            self.chunks.push_back(body.body);
        }
    }

    /// The body has ended without a last piece.
    pub(super) fn end_with_trailers(&mut self) {
        self.end = End::Trailers;
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Gives back what was held, and the mark of its end once.
    pub(super) fn release(&mut self, replies: &mut Vec<Reply>) {
        let end = std::mem::take(&mut self.end);
        while let Some(chunk) = self.chunks.pop_front() {
            let last = self.chunks.is_empty() && end == End::Piece;
            replies.extend(pieces(Kind::RequestBody, chunk, last));
            if last {
                return;
            }
        }
        match end {
            // The end came as an empty piece, and nothing was held to mark.
            End::Piece => replies.extend(pieces(Kind::RequestBody, Bytes::new(), true)),
            End::Trailers => replies.push(reply::unchanged(Kind::RequestTrailers)),
            End::Open => {}
        }
    }
}
