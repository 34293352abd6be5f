//! A provider that speaks HTTP/1.1 by hand and keeps every byte: what a connection carried is cut into requests by their own framing,
//! and what makes no request is kept as well. It judges nothing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{Reply, Result, Seen, Trouble};

type Script = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// A provider that runs until it is dropped. Its connections stay open after an answer.
pub struct Tap {
    address: SocketAddr,
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

struct Desk {
    name: String,
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
    /// Of each connection, the bytes that make no whole request (yet).
    rest: Mutex<Vec<Vec<u8>>>,
}

impl Tap {
    /// Starts one that answers by `script`, which may block.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(name: &str, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Result<Self> {
        let doing = "opening a port for a provider";
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| Trouble::new(doing, error))?;
        let address = listener.local_addr().map_err(|error| Trouble::new(doing, error))?;
        let (seen, rest, script) = (Mutex::default(), Mutex::default(), Mutex::new(Arc::new(script) as Script));
        let desk = Arc::new(Desk { name: name.to_owned(), script, seen, rest });
        let at_the_desk = Arc::clone(&desk);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Arc::clone(&at_the_desk), stream));
            }
        });
        Ok(Self { address, desk, task })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it answers by `script`.
    pub fn answer(&self, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        *lock(&self.desk.script) = Arc::new(script);
    }

    /// The requests so far, in their order. A body is what its framing says; `transfer-encoding` is among the headers.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.desk.seen).clone()
    }

    /// All bytes that came behind the last whole request of a connection.
    #[must_use]
    pub fn rest(&self) -> Vec<u8> {
        lock(&self.desk.rest).concat()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(desk: Arc<Desk>, mut stream: TcpStream) {
    let connection = {
        let mut rest = lock(&desk.rest);
        rest.push(Vec::new());
        rest.len() - 1
    };
    let mut bytes = Vec::new();
    loop {
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        while let Some((mut seen, length)) = first_request(&bytes) {
            bytes.drain(..length);
            let script = Arc::clone(&lock(&desk.script));
            let reply = script(&seen);
            seen.answered = reply.status;
            lock(&desk.seen).push(seen);
            lock(&desk.rest)[connection].clone_from(&bytes);
            let headers: String = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let answer = format!(
                "HTTP/1.1 {} OK\r\nx-served-by: {}\r\ncontent-length: {}\r\n{headers}\r\n{}",
                reply.status,
                desk.name,
                reply.body.len(),
                reply.body
            );
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
        lock(&desk.rest)[connection].clone_from(&bytes);
    }
}

/// The first request of these bytes and how many of them it is; `None` if it is not whole.
fn first_request(bytes: &[u8]) -> Option<(Seen, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers: Vec<_> = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let mut seen = Seen { method, path, headers, body: Vec::new(), answered: 0 };
    let mut at = end + 4;
    if seen.header("transfer-encoding").is_some() {
        loop {
            let line = at + bytes.get(at..)?.windows(2).position(|window| window == b"\r\n")?;
            let size = usize::from_str_radix(std::str::from_utf8(&bytes[at..line]).ok()?, 16).ok()?;
            seen.body.extend_from_slice(bytes.get(line + 2..line + 2 + size)?);
            at = line + 2 + size + 2;
            bytes.get(..at)?;
            if size == 0 {
                return Some((seen, at));
            }
        }
    }
    let length = seen.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    seen.body = bytes.get(at..at + length)?.to_vec();
    Some((seen, at + length))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_cut_by_their_own_framing() {
        let all = b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nabPOST /b HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nrest";
        let (first, length) = first_request(all).unwrap();
        assert_eq!((first.path.as_str(), first.body.as_slice()), ("/a", &b"ab"[..]));
        let (second, next) = first_request(&all[length..]).unwrap();
        assert_eq!((second.path.as_str(), second.body.as_slice()), ("/b", &b"x"[..]));
        assert_eq!(&all[length + next..], b"rest");
        assert!(first_request(&all[..length - 1]).is_none() && first_request(&all[length..length + next - 1]).is_none());
    }
}
