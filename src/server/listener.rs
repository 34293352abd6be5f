//! Addresses become sockets: TCP with port 0 allowed, and Unix sockets whose file is taken over only from the dead. It knows no
//! protocol.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::connection::Connection;
use crate::settings::Address;

/// Read and write for owner and group: Envoy often runs as another user of the same group.
const SOCKET_MODE: u32 = 0o660;

/// A bound socket of no runtime yet: whoever opens it serves it on the thread that it is then on.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    /// `None` for a Unix socket.
    address: Option<SocketAddr>,
    shown: String,
}

#[derive(Debug)]
enum Socket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, SocketFile),
}

impl Listener {
    /// Binds `address`. Connections are queued by the system until it is opened.
    ///
    /// # Errors
    /// The address is taken, cannot be resolved, or may not be used.
    pub async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address.as_str()).await?;
                let address = listener.local_addr()?;
                Ok(Self { socket: Socket::Tcp(listener.into_std()?), address: Some(address), shown: address.to_string() })
            }
            Address::Unix(path) => {
                let (listener, file) = bind_unix(Path::new(path)).await?;
                Ok(Self { socket: Socket::Unix(listener.into_std()?, file), address: None, shown: format!("unix:{path}") })
            }
        }
    }

    /// The bound address in the form of the settings, with the port that was given for port 0.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// `None` for a Unix socket.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// True if only this machine reaches it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.address.is_none_or(|address| address.ip().to_canonical().is_loopback())
    }

    /// Starts to accept on the current runtime.
    ///
    /// # Errors
    /// The runtime cannot take the socket.
    pub fn open(self) -> io::Result<Accepting> {
        Ok(match self.socket {
            Socket::Tcp(listener) => Accepting::Tcp(TcpListener::from_std(listener)?),
            Socket::Unix(listener, file) => Accepting::Unix(UnixListener::from_std(listener)?, file),
        })
    }
}

/// A socket that accepts on one runtime.
#[derive(Debug)]
pub enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener, #[allow(dead_code, reason = "kept for its Drop")] SocketFile),
}

impl Accepting {
    /// The next connection.
    ///
    /// # Errors
    /// Most errors are of one connection, not of the listener.
    pub async fn accept(&self) -> io::Result<Connection> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Answers are small and awaited: Nagle's delay would be most of their latency. It fails for clients that are gone.
                let _ = stream.set_nodelay(true);
                Ok(Connection::Tcp(stream))
            }
            Self::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Connection::Unix(stream)),
        }
    }
}

/// True if the listener itself is broken; everything else (a client that went away, no more file descriptors) passes.
#[must_use]
pub(super) fn is_fatal(error: &io::Error) -> bool {
    const EBADF: i32 = 9;
    const EINVAL: i32 = 22;
    #[cfg(target_os = "linux")]
    const ENOTSOCK: i32 = 88;
    #[cfg(not(target_os = "linux"))]
    const ENOTSOCK: i32 = 38;
    matches!(error.raw_os_error(), Some(EBADF | EINVAL | ENOTSOCK))
}

/// The file of a Unix socket, removed with its listener unless another process has put its own there.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

async fn bind_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => match UnixStream::connect(path).await {
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on this socket")),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(error) => return Err(error),
        },
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is not a socket")),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    let file = SocketFile { path: path.to_path_buf(), identity: identity(path) };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    Ok((listener, file))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(path: &Path) -> Address {
        Address::Unix(path.display().to_string())
    }

    #[tokio::test]
    async fn a_socket_file_of_the_dead_is_taken_over_and_a_living_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cascade.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a std listener leaves its file behind");
        let living = Listener::bind(&unix(&path)).await.unwrap();
        let refused = Listener::bind(&unix(&path)).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(living);
        assert!(!path.exists(), "the file goes with its listener");
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("precious");
        std::fs::write(&path, "x").unwrap();
        assert!(Listener::bind(&unix(&path)).await.is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x");
    }

    #[tokio::test]
    async fn a_successors_socket_file_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cascade.sock");
        let first = Listener::bind(&unix(&path)).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = Listener::bind(&unix(&path)).await.unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
    }

    #[tokio::test]
    async fn port_zero_is_shown_as_the_port_that_was_given() {
        let listener = Listener::bind(&Address::Tcp("127.0.0.1:0".to_owned())).await.unwrap();
        assert_ne!(listener.tcp_address().unwrap().port(), 0);
        assert_eq!(listener.shown(), listener.tcp_address().unwrap().to_string());
    }
}
