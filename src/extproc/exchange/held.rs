//! The body that FULL_DUPLEX_STREAMED has sent while nothing was decided: slices of the received messages, in order, and how the
//! body ended if it has. It gives everything back once, unchanged; it does not know what is waited for.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::encode::piece::pieces;
use crate::encode::reply::{self, Kind, Reply};
use crate::proto::HttpBody;

/// What a piece costs beside its bytes: a slice, and its part of a buffer.
const CHUNK: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct Held {
    chunks: VecDeque<Bytes>,
    size: u64,
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
            self.size += body.body.len() as u64 + CHUNK;
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

    /// What is held, in bytes of memory.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Gives back what was held, and the mark of its end once.
    pub(super) fn release(&mut self, replies: &mut Vec<Reply>) {
        let end = std::mem::take(&mut self.end);
        self.size = 0;
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
