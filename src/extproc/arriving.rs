//! The bytes of a gRPC stream on their way in: counted before anything is made of them, since a message of many megabytes is there
//! only once its last byte has come. It knows no message; where there is no room for more, the stream breaks off here.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use tonic::Status;

use crate::pipeline::held::Holding;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A request's body whose bytes are counted.
#[derive(Debug)]
pub(super) struct Arriving<B> {
    body: Pin<Box<B>>,
    holding: Arc<Holding>,
}

impl<B> Arriving<B> {
    pub(super) fn new(body: B, holding: Arc<Holding>) -> Self {
        Self { body: Box::pin(body), holding }
    }
}

impl<B> Body for Arriving<B>
where
    B: Body,
    B::Error: Into<Error>,
{
    type Data = B::Data;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, Error>>> {
        let polled = self.body.as_mut().poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
            && !self.holding.arrive(data.remaining() as u64)
        {
            return Poll::Ready(Some(Err(Status::resource_exhausted("limits.held_bodies").into())));
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
