//! A catalog behind an http(s) URL: one conditional GET, bounded in time and size. Every failure of the transport and every
//! status but 200 and 304 means "cannot be reached"; it does not judge what the text says.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, TRANSFER_ENCODING};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{StatusCode, Url, Version};

use crate::document::shows_its_end;

/// How long one fetch may take, connection included. A catalog server that needs longer is as good as away.
const TIMEOUT: Duration = Duration::from_secs(10);
/// 64 MiB: a hundred times a catalog of 10,000 tenants.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;

const MAY_BE_CUT: &str = "the answer has neither a `content-length` nor chunks, so that a cut one looks whole: serve it with one of \
                          them, as JSON, or with `...` as the last line of the YAML";

/// A URL and what is known of its last answer.
#[derive(Debug)]
pub struct Remote {
    url: Url,
    client: reqwest::Client,
    shown: Arc<str>,
    etag: Option<HeaderValue>,
}

/// What the server gave.
#[derive(Debug)]
pub enum Fetched {
    Text(String),
    NotModified,
}

impl Remote {
    /// Prepares to fetch `url`; nothing is sent yet.
    ///
    /// # Errors
    /// Says what is wrong with the URL, without its credentials.
    pub fn new(url: &str) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("the catalog URL cannot be understood: {error}"))?;
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(Policy::custom(|attempt: Attempt<'_>| match may_follow(attempt.previous(), attempt.url()) {
                Ok(()) => attempt.follow(),
                Err(why) => attempt.error(why),
            }))
            .user_agent(concat!("cascade/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("no HTTP client can be made: {error}"))?;
        let shown = Arc::from(shown(&url));
        Ok(Self { url, client, shown, etag: None })
    }

    /// The URL without user, password, query and fragment.
    #[must_use]
    pub fn shown(&self) -> Arc<str> {
        self.shown.clone()
    }

    pub fn forget(&mut self) {
        self.etag = None;
    }

    /// Fetches the text, unless the server says that it is the one it gave last.
    ///
    /// # Errors
    /// One line that says why the catalog cannot be reached.
    pub async fn fetch(&mut self) -> Result<Fetched, String> {
        let mut request = self.client.get(self.url.clone());
        if let Some(etag) = &self.etag {
            request = request.header(IF_NONE_MATCH, etag.clone());
        }
        let mut response = request.send().await.map_err(|error| self.away(error))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if self.etag.is_some() => return Ok(Fetched::NotModified),
            status => return Err(format!("{}: the server answers {status}", self.shown)),
        }
        let etag = response.headers().get(ETAG).cloned();
        let is_delimited = is_delimited(response.version(), response.headers());
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.away(error))? {
            if bytes.len() + chunk.len() > MAX_BYTES {
                return Err(format!("{}: larger than {MAX_BYTES} bytes", self.shown));
            }
            bytes.extend_from_slice(&chunk);
        }
        let text = String::from_utf8(bytes).map_err(|_| format!("{}: the answer is not UTF-8 text", self.shown))?;
        if !is_delimited && !shows_its_end(&text) {
            return Err(format!("{}: {MAY_BE_CUT}", self.shown));
        }
        self.etag = etag;
        Ok(Fetched::Text(text))
    }

    /// The whole chain of causes (`connection refused` is three deep), never the URL as configured.
    fn away(&self, error: reqwest::Error) -> String {
        let error = error.without_url();
        let mut line = format!("{}: {error}", self.shown);
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            line.push_str(": ");
            line.push_str(&error.to_string());
            cause = error.source();
        }
        line
    }
}

/// Once the way was encrypted it must stay so: who can answer in the plain could hand out any catalog.
fn may_follow(previous: &[Url], next: &Url) -> Result<(), &'static str> {
    if previous.iter().any(|url| url.scheme() == "https") && next.scheme() != "https" {
        Err("it redirects from https to http, which is not followed: anybody on the way could change the catalog")
    } else if previous.len() > MAX_REDIRECTS {
        Err("it redirects more than 5 times")
    } else {
        Ok(())
    }
}

/// True if a body that was cut could not be taken for a whole one: an end by closing the connection says nothing.
fn is_delimited(version: Version, headers: &HeaderMap) -> bool {
    let is_chunked =
        |value: &HeaderValue| value.to_str().is_ok_and(|text| text.to_ascii_lowercase().trim_end().ends_with("chunked"));
    version >= Version::HTTP_2
        || headers.contains_key(CONTENT_LENGTH)
        || headers.get_all(TRANSFER_ENCODING).iter().next_back().is_some_and(is_chunked)
}

fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_was_encrypted_stays_so() {
        let urls = |list: &[&str]| list.iter().map(|url| Url::parse(url).unwrap()).collect::<Vec<_>>();
        for (previous, next, follows) in [
            (&["https://a/"][..], "https://b/", true),
            (&["http://a/"], "https://b/", true),
            (&["http://a/"], "http://b/", true),
            (&["https://a/"], "http://a/", false),
            (&["http://a/", "https://a/"], "http://a/", false),
            (&["https://a/", "https://b/"], "http://127.0.0.1/", false),
            (&["http://a/"; 6], "http://a/", false),
        ] {
            assert_eq!(may_follow(&urls(previous), &Url::parse(next).unwrap()).is_ok(), follows, "{previous:?} {next}");
        }
    }

    #[test]
    fn credentials_of_a_url_are_never_shown() {
        let remote = Remote::new("https://user:secret@catalog.internal:8443/a.yaml?sig=secret#secret").unwrap();
        assert_eq!(&*remote.shown(), "https://catalog.internal:8443/a.yaml");
    }
}
