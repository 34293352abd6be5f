//! The least HTTP/1.1 client: one request, one connection, TCP or Unix.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::process::LIMIT;

#[derive(Debug)]
pub struct Response {
    /// 0: no connection, or no answer.
    pub status: u16,
    /// Lower case, one a line.
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn none() -> Self {
        Self { status: 0, head: String::new(), body: Vec::new() }
    }
}

pub async fn get(address: &str, path: &str) -> Response {
    send(address, "GET", path, b"").await
}

pub async fn post(address: &str, path: &str, body: &str) -> Response {
    send(address, "POST", path, body.as_bytes()).await
}

pub async fn send(address: &str, method: &str, path: &str, body: &[u8]) -> Response {
    send_with(address, method, path, "", body).await
}

/// The same with further lines of the head, each with its end.
pub async fn send_with(address: &str, method: &str, path: &str, lines: &str, body: &[u8]) -> Response {
    let host = if address.starts_with("unix:") { "localhost" } else { address };
    let own = format!("host: {host}\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    let head = format!("{method} {path} HTTP/1.1\r\n{own}{lines}\r\n");
    let bytes = [head.as_bytes(), body].concat();
    let exchange = async {
        match address.strip_prefix("unix:") {
            Some(path) => exchange(UnixStream::connect(path).await.ok()?, &bytes).await,
            None => exchange(TcpStream::connect(address).await.ok()?, &bytes).await,
        }
    };
    timeout(LIMIT, exchange).await.expect("an HTTP answer in time").unwrap_or_else(Response::none)
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &[u8]) -> Option<Response> {
    stream.write_all(request).await.ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.ok()?;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?.to_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = bytes[end + 4..].to_vec();
    Some(Response { status, head, body })
}
