//! A client of one request per connection that can be as slow as a test needs: it writes the head, then pieces of the body when
//! told to. It speaks HTTP/1.1 by hand, since the point is who sends which bytes when.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;

use super::{Endpoint, Result, Trouble};

/// Longer than anything an Envoy of the laboratory may take; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request to be sent. The body's length is declared unless it is sent in chunks.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self { method: "GET".to_owned(), path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// A POST of a JSON body.
    #[must_use]
    pub fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { method: "POST".to_owned(), body: body.into(), ..Self::get(path) }.header("content-type", "application/json")
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends it whole, head and body in one write, and reads the answer.
    ///
    /// # Errors
    /// When no answer can be read.
    pub async fn send(&self, to: impl Into<Endpoint>) -> Result<Response> {
        let to = to.into();
        let mut bytes = self.head(&to, Some(self.body.len())).into_bytes();
        bytes.extend_from_slice(&self.body);
        Sending::open(&to, &bytes, false).await?.response().await
    }

    /// Opens a connection and sends the head alone. `length` is the declared length of the body, `None` sends it in chunks.
    ///
    /// # Errors
    /// When the connection cannot be made.
    pub async fn begin(&self, to: impl Into<Endpoint>, length: Option<usize>) -> Result<Sending> {
        let to = to.into();
        Sending::open(&to, self.head(&to, length).as_bytes(), length.is_none()).await
    }

    fn head(&self, to: &Endpoint, length: Option<usize>) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            let host = if let Endpoint::Tcp(address) = to { address.to_string() } else { "localhost".to_owned() };
            head.push_str(&format!("host: {host}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match length {
            None => head.push_str("transfer-encoding: chunked\r\n"),
            Some(0) if self.method == "GET" => {}
            Some(length) => head.push_str(&format!("content-length: {length}\r\n")),
        }
        head.push_str("connection: close\r\n\r\n");
        head
    }
}

/// A request under way: the head is sent, the body is not.
pub struct Sending {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    chunked: bool,
    answer: JoinHandle<Result<Response>>,
}

impl Sending {
    async fn open(to: &Endpoint, first: &[u8], chunked: bool) -> Result<Self> {
        let no_way = |error| Trouble::new(format!("connecting to {to}"), error);
        match to {
            Endpoint::Tcp(address) => {
                let (reader, writer) = TcpStream::connect(address).await.map_err(no_way)?.into_split();
                Ok(Self::over(reader, writer, first, chunked).await)
            }
            Endpoint::Unix(path) => {
                let (reader, writer) = UnixStream::connect(path).await.map_err(no_way)?.into_split();
                Ok(Self::over(reader, writer, first, chunked).await)
            }
        }
    }

    async fn over(
        reader: impl AsyncRead + Send + Unpin + 'static,
        mut writer: impl AsyncWrite + Send + Unpin + 'static,
        first: &[u8],
        chunked: bool,
    ) -> Self {
        // The answer is read from the start: a server may say no before it has seen everything.
        let answer = tokio::spawn(read_response(reader));
        let _ = writer.write_all(first).await;
        Self { writer: Box::new(writer), chunked, answer }
    }

    /// Sends a piece of the body. A peer that has closed is no error: its answer says why.
    pub async fn write(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        if self.chunked {
            let mut framed = format!("{:x}\r\n", piece.len()).into_bytes();
            framed.extend_from_slice(piece);
            framed.extend_from_slice(b"\r\n");
            let _ = self.writer.write_all(&framed).await;
        } else {
            let _ = self.writer.write_all(piece).await;
        }
    }

    /// True once the answer has arrived.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.answer.is_finished()
    }

    /// Ends the body and reads the answer.
    ///
    /// # Errors
    /// When no answer can be read.
    pub async fn response(mut self) -> Result<Response> {
        if self.chunked {
            let _ = self.writer.write_all(b"0\r\n\r\n").await;
        }
        let answer = tokio::time::timeout(PATIENCE, &mut self.answer).await;
        match answer {
            Err(_) => Err(Trouble(format!("no answer within {PATIENCE:?}"))),
            Ok(Err(error)) => Err(Trouble::new("reading the answer", error)),
            Ok(Ok(response)) => response,
        }
    }
}

impl Drop for Sending {
    /// A client that leaves takes its connection with it.
    fn drop(&mut self) {
        self.answer.abort();
    }
}

#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

async fn read_response(mut reader: impl AsyncRead + Unpin) -> Result<Response> {
    let mut bytes = Vec::new();
    // A reset after the answer is how a server ends a request that it did not read to its end.
    let ended = reader.read_to_end(&mut bytes).await;
    parse(&bytes).ok_or_else(|| match ended {
        Err(error) => Trouble::new("reading the answer", error),
        Ok(_) => Trouble(format!("the connection ended after {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(200)]))),
    })
}

fn parse(bytes: &[u8]) -> Option<Response> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let rest = &bytes[end + 4..];
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { unchunk(rest)? } else { rest.to_vec() };
    Some(Response { status, headers, body })
}

/// The body of a chunked message; `None` if it is cut short.
fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[line + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_answer_is_put_together() {
        let response = parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").unwrap();
        assert_eq!((response.status, response.text().as_str()), (200, "abcde"));
    }

    #[test]
    fn an_answer_that_is_cut_short_is_none() {
        assert!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab").is_none());
        assert!(parse(b"HTTP/1.1 200 OK\r\n").is_none());
    }
}
