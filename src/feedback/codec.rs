//! How the access log crosses gRPC: messages in, one empty answer at the end.

use bytes::Buf;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::proto::{LogMessage, Received};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogCodec;

impl Codec for LogCodec {
    type Encode = ();
    type Decode = LogMessage;
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
    type Item = LogMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<LogMessage>, Status> {
        let frame = buffer.copy_to_bytes(buffer.remaining());
        LogMessage::receive(frame).map(Some).map_err(|_| Status::internal("the message is not a StreamAccessLogsMessage"))
    }
}

impl Encoder for LogCodec {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), _: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}
