//! A connection, TCP or Unix, that can move from the runtime that accepted it to the one that serves it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A connection of this runtime.
#[derive(Debug)]
pub enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection between runtimes.
#[derive(Debug)]
pub enum Parked {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Connection {
    /// Takes the connection off this runtime.
    ///
    /// # Errors
    /// The runtime cannot let go of it.
    pub fn park(self) -> io::Result<Parked> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(Parked::Tcp),
            Self::Unix(stream) => stream.into_std().map(Parked::Unix),
        }
    }
}

impl Parked {
    /// Puts the connection onto the current runtime.
    ///
    /// # Errors
    /// The runtime cannot take it.
    pub fn unpark(self) -> io::Result<Connection> {
        match self {
            Self::Tcp(stream) => TcpStream::from_std(stream).map(Connection::Tcp),
            Self::Unix(stream) => UnixStream::from_std(stream).map(Connection::Unix),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
