//! Whether a peer has said that it speaks HTTP/2. Keepalive finds peers that fall silent later; one that never began is not looked
//! after by the protocol, so that whoever accepts connections must know when to give it up.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`: whether it is exactly that is the protocol's to judge.
const PREFACE: usize = 24;

/// A connection whose first bytes are counted.
#[derive(Debug)]
pub(super) struct Greeted<S> {
    inner: S,
    missing: usize,
    done: Option<oneshot::Sender<()>>,
}

/// The connection, and what resolves once as many bytes have come as a greeting has.
pub(super) fn awaited<S>(inner: S) -> (Greeted<S>, oneshot::Receiver<()>) {
    let (done, greeted) = oneshot::channel();
    (Greeted { inner, missing: PREFACE, done: Some(done) }, greeted)
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(context, buffer);
        if this.missing > 0 {
            this.missing = this.missing.saturating_sub(buffer.filled().len() - before);
            if this.missing == 0
                && let Some(done) = this.done.take()
            {
                let _ = done.send(());
            }
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeted<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_greeting_is_over_with_its_last_byte_however_it_comes() {
        let (mut peer, ours) = tokio::io::duplex(64);
        let (mut ours, mut greeted) = awaited(ours);
        for _ in 0..PREFACE {
            assert!(greeted.try_recv().is_err());
            peer.write_all(b"x").await.unwrap();
            ours.read_u8().await.unwrap();
        }
        assert!(greeted.try_recv().is_ok());
    }

    #[tokio::test]
    async fn a_connection_that_goes_before_has_not_greeted() {
        let (peer, ours) = tokio::io::duplex(64);
        let (ours, greeted) = awaited(ours);
        drop((peer, ours));
        assert!(greeted.await.is_err());
    }
}
