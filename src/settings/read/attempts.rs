//! Reads `attempts`: what Envoy is asked for each attempt of a chain.

use std::time::Duration;

use super::Reader;
use crate::document::Node;
use crate::document::units::parse_duration;
use crate::settings::AttemptRules;

impl Reader<'_> {
    pub(super) fn attempts(&mut self, default: AttemptRules) -> AttemptRules {
        AttemptRules {
            exact_retries: self.at("attempts.exact_retries").and_then(Node::flag).unwrap_or(default.exact_retries),
            timeout: self.limit("attempts.timeout"),
            stream_timeout: self.limit("attempts.stream_timeout"),
        }
    }

    /// A limit, or nothing for the empty text. Envoy counts milliseconds, and takes 0 for no limit at all.
    fn limit(&mut self, path: &str) -> Option<Duration> {
        let text = self.text(path).filter(|text| !text.is_empty())?;
        match parse_duration(text) {
            Ok(limit) if limit.as_millis() > 0 => Some(limit),
            Ok(_) => {
                self.fault("bad-value", path, &format!("`{path}` must be at least 1ms; write \"\" for Envoy's own limit"));
                None
            }
            Err(why) => {
                self.fault("bad-value", path, &format!("`{path}` is no duration: {why}"));
                None
            }
        }
    }
}
