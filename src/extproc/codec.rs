//! How messages cross gRPC: requests are decoded without copying their bytes, replies are written as
//! they are sent, so that a body on its way back is never encoded as a whole.

use bytes::Bytes;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::encode::reply::Reply;
use crate::proto::{ProcessingRequest, Received};

#[derive(Debug, Clone, Copy, Default)]
pub struct ExtProcCodec;

impl Codec for ExtProcCodec {
    type Encode = Reply;
    type Decode = ProcessingRequest;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Decoder for ExtProcCodec {
    type Item = ProcessingRequest;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<ProcessingRequest>, Status> {
        use bytes::Buf;
        // One slice of the received frame; every byte field of the message is a slice of it in turn.
        let frame: Bytes = buffer.copy_to_bytes(buffer.remaining());
        ProcessingRequest::receive(frame).map(Some).map_err(|_| Status::internal("the message is not a ProcessingRequest"))
    }
}

impl Encoder for ExtProcCodec {
    type Item = Reply;
    type Error = Status;

    fn encode(&mut self, reply: Reply, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(reply.room());
        reply.write(buffer);
        Ok(())
    }
}
