//! A directory behind HTTP: `GET` of the key, which is the URL. 200 with JSON is an answer, 404 an unknown session; everything
//! else is no answer. It follows no redirect, since the operator named one host.

use std::time::Duration;

use reqwest::{Client, StatusCode, Url, redirect::Policy};

use super::{Directory, Lookup};
use crate::session::{Answer, Fault, MAX_ANSWER, parse};

#[derive(Debug, Clone)]
pub struct Http {
    client: Client,
}

impl Http {
    /// # Errors
    /// No client can be made.
    pub fn new(timeout: Duration) -> Result<Self, String> {
        let client = Client::builder()
            .timeout(timeout)
            .redirect(Policy::none())
            // What the environment says of proxies is meant for the way out; this is a way beside each request.
            .no_proxy()
            .user_agent(concat!("cascade/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("no HTTP client can be made: {error}"))?;
        Ok(Self { client })
    }

    async fn ask(&self, url: Url) -> Result<Answer, Fault> {
        let fault = |error: &reqwest::Error| if error.is_timeout() { Fault::Timeout } else { Fault::Unreachable };
        let mut asked = self.client.get(url.clone()).send().await;
        if asked.as_ref().is_err_and(|error| error.is_request() && !error.is_connect() && !error.is_timeout()) {
            // The directory, or something on the way, closes what is idle, and that is only noticed now.
            asked = self.client.get(url).send().await;
        }
        let mut response = asked.map_err(|error| fault(&error))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(Answer::Unknown),
            _ => return Err(Fault::Refused),
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| fault(&error))? {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(Fault::Garbage);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(parse(&bytes))
    }
}

impl Directory for Http {
    fn look_up(&self, key: &str) -> Lookup {
        // The settings made sure that a filled template is a URL.
        let Ok(url) = Url::parse(key) else { return Lookup::Ready(Answer::Unavailable(Fault::Internal)) };
        let this = self.clone();
        Lookup::Pending(Box::pin(async move { this.ask(url).await.unwrap_or_else(Answer::Unavailable) }))
    }
}
