//! How the access log crosses gRPC: messages in, one empty answer at the end.

use bytes::Buf;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::proto::{LogMessage, Received};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogCodec;

/// A message as it came. One that cannot be read ends no stream: Envoy would only begin another, and what else it holds is lost.
#[derive(Debug)]
pub(super) enum Frame {
    Message(LogMessage),
    Unreadable,
}

impl Codec for LogCodec {
    type Encode = ();
    type Decode = Frame;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Decoder for LogCodec {
    type Item = Frame;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Frame>, Status> {
        let frame = buffer.copy_to_bytes(buffer.remaining());
        Ok(Some(LogMessage::receive(frame).map_or(Frame::Unreadable, Frame::Message)))
    }
}

impl Encoder for LogCodec {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), _: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}
