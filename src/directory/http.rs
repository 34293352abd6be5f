//! A directory behind HTTP: `GET` of the key, which is the URL. 200 with JSON is an answer, 404 an unknown session; everything
//! else is no answer. It follows no redirect, since the operator named one host.

use std::time::Duration;

use reqwest::{Client, StatusCode, Url, redirect::Policy};

use super::{Asking, Failure, Remote};
use crate::session::{Answer, Fault, MAX_ANSWER, TOO_LONG, read};

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

    async fn get(&self, url: Url) -> Result<Answer, Failure> {
        let mut asked = self.client.get(url.clone()).send().await;
        if asked.as_ref().is_err_and(|error| error.is_request() && !error.is_connect() && !error.is_timeout()) {
            // The directory, or something on the way, closes what is idle, and that is only noticed now.
            asked = self.client.get(url).send().await;
        }
        let mut response = asked.map_err(Failure::of_http)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(Answer::Unknown),
            status => return Err(Failure::new(Fault::Refused, format!("status {}", status.as_u16()))),
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(Failure::of_http)? {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(Failure::new(Fault::Garbage, TOO_LONG));
            }
            bytes.extend_from_slice(&chunk);
        }
        read(&bytes).map_err(|why| Failure::new(Fault::Garbage, why))
    }
}

impl Remote for Http {
    fn ask(&self, key: &str) -> Asking {
        // The settings made sure that a filled template is a URL.
        let url = Url::parse(key).map_err(|_| Failure::new(Fault::Internal, "the key is no URL"));
        let this = self.clone();
        Box::pin(async move { this.get(url?).await })
    }
}
