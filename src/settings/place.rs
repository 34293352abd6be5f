//! Where a directory is, for the log: its host, or its socket. A URL may hold credentials, and its path and query a session's id or
//! a secret, so that nothing else of it is shown.

use reqwest::Url;

use super::Directory;

impl Directory {
    /// `host:port`, `host` where the port goes without saying, or a socket's path. `None`: it is in this process, or there is none.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let url = match self {
            Self::None | Self::Memory(_) => return None,
            Self::Http(template) => template.start(),
            Self::Redis { url, .. } => url,
        };
        let url = Url::parse(url).ok()?;
        Some(match (url.host_str().filter(|host| !host.is_empty()), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (Some(host), None) => host.to_owned(),
            (None, _) => url.path().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::template::Template;

    #[test]
    fn a_place_is_a_host_or_a_socket_and_nothing_else_of_the_url() {
        let key = || Template::parse("{session}").unwrap();
        for (url, place) in [
            ("http://user:secret@d.internal/secret/{session}?key=secret", "d.internal"),
            ("https://[::1]:8443/{session}", "[::1]:8443"),
            ("redis://user:secret@r.internal:6379/0", "r.internal:6379"),
            ("redis://r.internal", "r.internal"),
            ("redis+unix:///run/redis.sock?pass=secret", "/run/redis.sock"),
        ] {
            let directory = match url.starts_with("http") {
                true => Directory::Http(Template::parse(url).unwrap()),
                false => Directory::Redis { url: url.to_owned(), key: key() },
            };
            assert_eq!(directory.place().as_deref(), Some(place), "{url}");
        }
        assert_eq!((Directory::None.place(), Directory::Memory(key()).place()), (None, None));
    }
}
