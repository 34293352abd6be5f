//! Reads `feedback`: what counts as a failure, how long it cools, and whether replicas can tell each other.

use super::Reader;
use crate::document::Node;
use crate::health;
use crate::settings::{Address, Feedback, Share};

/// Where cooldowns stand in Redis, unless `feedback.share_key` says otherwise.
const KEY: &str = "cascade:cooldowns";

impl Reader<'_> {
    pub(super) fn feedback(&mut self, default: Feedback) -> Feedback {
        let cooling = health::Policy {
            consecutive_failures: self.integer("feedback.consecutive_failures").unwrap_or(default.cooling.consecutive_failures),
            cooldown: self.duration("feedback.cooldown").unwrap_or(default.cooling.cooldown),
            max_cooldown: self.duration("feedback.max_cooldown").unwrap_or(default.cooling.max_cooldown),
        };
        if cooling.cooldown < health::MIN_COOLDOWN {
            self.fault("bad-value", "feedback.cooldown", "`feedback.cooldown` must be 1s at least");
        }
        if cooling.max_cooldown < cooling.cooldown {
            let written = ["feedback.max_cooldown", "feedback.cooldown"].into_iter().find(|path| self.at(path).is_some());
            let message = "`feedback.max_cooldown` is shorter than `feedback.cooldown`";
            self.fault("bad-value", written.unwrap_or("feedback"), message);
        }
        let statuses = self
            .at("feedback.statuses")
            .map(|node| node.items().iter().filter_map(|item| u16::try_from(item.integer()?).ok()).collect());
        Feedback {
            enabled: self.at("feedback.enabled").and_then(Node::flag).unwrap_or(default.enabled),
            listen: self.log_address(),
            log_name: self.text("feedback.log_name").map_or(default.log_name, str::to_owned),
            statuses: statuses.unwrap_or(default.statuses),
            cooling,
            share: self.share(),
        }
    }

    fn log_address(&mut self) -> Option<Address> {
        self.path("feedback.listen")?;
        let address = self.address("feedback.listen")?;
        if !self.at("feedback.enabled").and_then(Node::flag).unwrap_or(false) {
            let message = "`feedback.listen` is not used: `feedback.enabled` is false";
            self.warn("unused-setting", "feedback.listen", message, "remove it, or set `feedback.enabled: true`");
        }
        Some(address)
    }

    /// It is the Redis of the sessions: one server to run, one address to keep right.
    fn share(&mut self) -> Option<Share> {
        if self.text("feedback.share") != Some("redis") {
            if self.text("feedback.share_key").is_some_and(|key| key != KEY) {
                let message = "`feedback.share_key` is not used: `feedback.share` is `none`";
                self.warn("unused-setting", "feedback.share_key", message, "remove it, or set `feedback.share: redis`");
            }
            return None;
        }
        let url = self.path("session.url").filter(|_| self.text("session.directory") == Some("redis"));
        let Some(url) = url else {
            let message = "`feedback.share: redis` uses the Redis of the sessions, and there is none: set `session.directory: redis` \
                           and `session.url`, as in redis://host:6379";
            self.fault("missing-field", "feedback.share", message);
            return None;
        };
        if self.at("feedback.enabled").and_then(Node::flag) != Some(true) {
            let message = "`feedback.enabled` is false: only what people cool and clear is shared";
            self.warn("no-feedback", "feedback.share", message, "set `feedback.enabled: true`");
        }
        if self.path("secret_file").is_none() {
            let message = "replicas cannot read each other's `publish.decision_header`: a 429 of a request that another one decided \
                           cools the whole cluster";
            self.warn("random-secret", "feedback.share", message, "give every replica the same `secret_file`");
        }
        let key = self.path("feedback.share_key").unwrap_or_else(|| KEY.to_owned());
        Some(Share { url, key })
    }
}
