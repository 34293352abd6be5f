//! How an address is written. Whether anybody listens there, or may, is not known here: nothing is resolved or opened.

use std::fmt;

/// `host:port` or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp(String),
    Unix(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

impl Address {
    /// Takes `host:port` (an IPv6 host in brackets, port 0 for a free one) or `unix:/path`.
    ///
    /// # Errors
    /// Says how it is written.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') { Ok(Self::Unix(path.to_owned())) } else { Err("write unix: and an absolute path") };
        }
        let (host, port) = text.rsplit_once(':').ok_or("write host:port, or unix:/path")?;
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || host.contains(['/', '@']) || host.chars().any(char::is_whitespace) {
            return Err("write host:port, as in 127.0.0.1:50051 or 0.0.0.0:50051");
        }
        if host.contains(':') && !is_bracketed {
            return Err("an IPv6 address stands in brackets, as in [::1]:50051");
        }
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) || port.parse::<u16>().is_err() {
            return Err("the port is a number from 0 to 65535");
        }
        Ok(Self::Tcp(text.to_owned()))
    }
}
