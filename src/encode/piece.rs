//! A FULL_DUPLEX_STREAMED body on its way back to Envoy: slices of the messages it came in, cut to what Envoy takes and written only
//! as they are sent, so that a chunk is in memory once however large it is. It changes no byte and decides nothing.

use bytes::{BufMut, Bytes};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use super::reply::{Kind, Reply};

/// The largest piece of a body that is sent back: Envoy refuses streamed pieces over 64 KiB, and the frame needs some room.
pub const MAX_PIECE: usize = 62 * 1024;

/// A slice of a body, and whether the body ends with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    kind: Kind,
    bytes: Bytes,
    end_of_stream: bool,
}

/// A chunk as pieces that Envoy accepts; the mark of the end on the last one. An empty chunk without it needs no answer.
#[must_use]
pub fn pieces(kind: Kind, mut chunk: Bytes, end_of_stream: bool) -> Vec<Reply> {
    let mut pieces = Vec::with_capacity(chunk.len().div_ceil(MAX_PIECE).max(1));
    while chunk.len() > MAX_PIECE {
        pieces.push(Reply::Piece(Piece { kind, bytes: chunk.split_to(MAX_PIECE), end_of_stream: false }));
    }
    if !chunk.is_empty() || end_of_stream {
        pieces.push(Reply::Piece(Piece { kind, bytes: chunk, end_of_stream }));
    }
    pieces
}

impl Piece {
    /// Writes the `ProcessingResponse`: `<kind>.response.body_mutation.streamed_response {body, end_of_stream}`. Lengths first, since
    /// moving the bytes to make room for them would cost more than all else.
    pub(super) fn write(&self, buffer: &mut impl BufMut) {
        const NESTED: [u32; 3] = [1, 3, 3];
        let mut length = self.content_length();
        let mut frames = [(self.kind.tag(), 0); NESTED.len() + 1];
        frames[1..].iter_mut().zip(NESTED).for_each(|(frame, tag)| frame.0 = tag);
        for frame in frames.iter_mut().rev() {
            frame.1 = length;
            length += key_len(frame.0) + encoded_len_varint(length as u64);
        }
        for (tag, length) in frames {
            encode_key(tag, WireType::LengthDelimited, buffer);
            encode_varint(length as u64, buffer);
        }
        if !self.bytes.is_empty() {
            encode_key(1, WireType::LengthDelimited, buffer);
            encode_varint(self.bytes.len() as u64, buffer);
            buffer.put_slice(&self.bytes);
        }
        if self.end_of_stream {
            encode_key(2, WireType::Varint, buffer);
            encode_varint(1, buffer);
        }
    }

    /// What is written at most, in bytes.
    pub(super) fn room(&self) -> usize {
        // Six keys and five lengths of five bytes at most.
        self.bytes.len() + 32
    }

    fn content_length(&self) -> usize {
        let bytes = match self.bytes.len() {
            0 => 0,
            length => key_len(1) + encoded_len_varint(length as u64) + length,
        };
        bytes + if self.end_of_stream { key_len(2) + 1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
    use envoy_types::pb::envoy::service::ext_proc::v3::{
        ProcessingResponse, StreamedBodyResponse, processing_response::Response,
    };
    use prost::Message;

    use super::*;

    fn read(reply: &Reply) -> StreamedBodyResponse {
        let Some(Response::RequestBody(body)) = ProcessingResponse::decode(reply.to_bytes().as_slice()).unwrap().response else {
            panic!("another kind")
        };
        match body.response.unwrap().body_mutation.unwrap().mutation.unwrap() {
            Mutation::StreamedResponse(piece) => piece,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_chunk_is_given_back_in_pieces_that_envoy_takes_and_ends_once() {
        for length in [0, 1, 126, 127, 128, 16_383, 16_384, MAX_PIECE - 1, MAX_PIECE, MAX_PIECE + 1, 3 * MAX_PIECE, 200_000] {
            let chunk: Bytes = (b'a'..=b'z').cycle().take(length).collect();
            for end_of_stream in [true, false] {
                let pieces: Vec<_> = pieces(Kind::RequestBody, chunk.clone(), end_of_stream).iter().map(read).collect();
                assert!(pieces.iter().all(|piece| piece.body.len() <= MAX_PIECE));
                assert!(pieces.iter().map(|piece| piece.body.as_slice()).collect::<Vec<_>>().concat() == chunk);
                assert_eq!(pieces.iter().filter(|piece| piece.end_of_stream).count(), usize::from(end_of_stream));
                assert_eq!(pieces.last().is_some_and(|piece| piece.end_of_stream), end_of_stream);
                assert!(pieces.iter().all(|piece| !piece.body.is_empty() || piece.end_of_stream), "nothing is no answer");
            }
        }
    }

    #[test]
    fn pieces_are_slices_of_the_chunk_and_no_copies() {
        let chunk = Bytes::from(vec![b'x'; 3 * MAX_PIECE + 1]);
        let starts: Vec<_> = pieces(Kind::RequestBody, chunk.clone(), true)
            .iter()
            .map(|reply| match reply {
                Reply::Piece(piece) => piece.bytes.as_ptr() as usize - chunk.as_ptr() as usize,
                Reply::Written(_) => panic!("written before it is sent"),
            })
            .collect();
        assert_eq!(starts, [0, MAX_PIECE, 2 * MAX_PIECE, 3 * MAX_PIECE]);
    }
}
