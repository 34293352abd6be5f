//! Signs that Envoy's configuration lets a part of ours do nothing, or does it twice: each is said once a minute with its cure, never
//! once per request. It changes no answer.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::extract::head::Head;

/// How many requests are remembered. A later one takes the place of an older one: a warning may be missed, memory never grows.
const REMEMBERED: usize = 4096;
/// An attempt begins right after its decision. A request id that comes again later is another request's, as far as anybody knows.
const TOGETHER: u64 = 10;

/// All of them, for one process.
#[derive(Debug)]
pub(super) struct Cautions {
    start: Instant,
    hasher: RandomState,
    /// The hash of a request id, with the second of its decision in the last 16 bits.
    recent: Box<[AtomicU64]>,
    decided_twice: Pause,
    no_cluster: Pause,
    body_not_shown: Pause,
    no_headers: Pause,
    no_body: Pause,
    no_entries: Pause,
    /// Overrides whose attempts should have been heard of.
    overrides: AtomicU64,
    /// When the first of them was sent, in milliseconds from the start and one more; 0: not yet.
    first_override: AtomicU64,
}

/// So many overrides, and so long a time, without a word of what became of them, are no accident.
const UNHEARD_OVERRIDES: u64 = 20;
const UNHEARD_TIME: Duration = Duration::from_secs(30);

impl Cautions {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            hasher: RandomState::new(),
            recent: (0..REMEMBERED).map(|_| AtomicU64::new(0)).collect(),
            decided_twice: Pause::default(),
            no_cluster: Pause::default(),
            body_not_shown: Pause::default(),
            no_headers: Pause::default(),
            no_body: Pause::default(),
            no_entries: Pause::default(),
            overrides: AtomicU64::new(0),
            first_override: AtomicU64::new(0),
        }
    }

    /// A stream asks for a decision. True if it looks like the filter of an attempt: what is asked about was decided already.
    /// `is_decided`: the head has what a decision of ours leaves there.
    pub(super) fn decides(&self, head: &impl Head, request_id: Option<&str>, is_decided: bool) -> bool {
        let has = |name: &str| head.attribute(name).is_some_and(|value| !value.is_empty());
        let is_twice = request_id.is_some_and(|id| self.was_decided(id, self.start.elapsed()));
        // The second is known before there is an attempt too, but nobody who asks for decisions needs it, and attempts are counted.
        let has_host =
            has("upstream.address") || (has("xds.cluster_name") && head.header("x-envoy-attempt-count").next().is_some());
        let is_attempt = is_decided || is_twice || has_host;
        if is_attempt && self.decided_twice.is_over(self.start.elapsed()) {
            tracing::warn!(
                event = "decided_twice",
                request_id = request_id.unwrap_or("-"),
                "Envoy asks for a decision on a request that was decided already. Most likely an ext_proc filter in \
                 `upstream_http_filters`, or in a cluster's `http_filters`, does not say that it is one of attempts: each attempt is \
                 then judged as a new request and may be refused. Add `initial_metadata: [{{key: x-cascade-role, value: upstream}}]` \
                 to its grpc_service. (Two gateways that ask the same Cascade about one request are no fault.)"
            );
        }
        is_attempt
    }

    /// An override goes out while feedback is on, and no entry of Envoy's log has ever come.
    pub(super) fn unheard_override(&self) {
        let now = self.start.elapsed();
        if self.is_unheard(now) && self.no_entries.is_over(now) {
            tracing::warn!(
                event = "no_log_entries",
                overrides = self.overrides.load(Ordering::Relaxed),
                "feedback is on, and Envoy has not sent one entry of its access log, so that no failure of a provider is noticed. Add \
                 the `envoy.access_loggers.http_grpc` logger of examples/envoy/full.yaml to the router's `upstream_log` and to the \
                 connection manager's `access_log`, with Cascade's cluster and `feedback.log_name`"
            );
        }
    }

    fn is_unheard(&self, now: Duration) -> bool {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        let first = match self.first_override.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => now,
            Err(first) => first,
        };
        let count = self.overrides.fetch_add(1, Ordering::Relaxed) + 1;
        count >= UNHEARD_OVERRIDES && u128::from(now.saturating_sub(first)) >= UNHEARD_TIME.as_millis()
    }

    /// An attempt does not say which cluster it goes to.
    pub(super) fn no_cluster(&self) {
        if self.no_cluster.is_over(self.start.elapsed()) {
            tracing::warn!(
                event = "no_cluster_name",
                "Envoy does not say which cluster an attempt goes to, so that no model is renamed for it. Add \
                 `request_attributes: [xds.cluster_name]` to the ext_proc filter with `x-cascade-role: upstream`"
            );
        }
    }

    /// An attempt may need another name in its body, which never comes whole.
    pub(super) fn body_not_shown(&self) {
        if self.body_not_shown.is_over(self.start.elapsed()) {
            tracing::warn!(
                event = "body_not_shown",
                "the model of an attempt is in its body, and Envoy does not show it whole, so that it is not renamed. Set \
                 `request_body_mode: BUFFERED` in the ext_proc filter with `x-cascade-role: upstream`"
            );
        }
    }

    /// A request comes without its headers.
    pub(super) fn no_headers(&self) {
        if self.no_headers.is_over(self.start.elapsed()) {
            tracing::warn!(
                event = "headers_not_shown",
                "Envoy does not show the headers of requests (request_header_mode: SKIP): tenants, sessions and paths in them are \
                 not seen, and every request is judged without them. Set `request_header_mode: SEND` in the ext_proc filter"
            );
        }
    }

    /// A request has a body that would decide, and Envoy does not show it.
    pub(super) fn no_body(&self) {
        if self.no_body.is_over(self.start.elapsed()) {
            tracing::warn!(
                event = "request_body_not_shown",
                "a request's body would say its model, tenant or session, and Envoy does not show it (request_body_mode: NONE). Set \
                 `request_body_mode: BUFFERED` or FULL_DUPLEX_STREAMED in the ext_proc filter, or name only sources of `extract` that \
                 are in the head"
            );
        }
    }

    /// Notes the request; true if it was noted a moment ago.
    fn was_decided(&self, id: &str, since_start: Duration) -> bool {
        const SECONDS: u64 = 0xFFFF;
        let hash = self.hasher.hash_one(id);
        // Second 0 and a hash of 0 would look like an empty place.
        let now = (since_start.as_secs() + 1) & SECONDS;
        // The first 12 bits of the hash choose one of the places.
        let Some(place) = usize::try_from(hash >> 52).ok().and_then(|place| self.recent.get(place)) else { return false };
        let before = place.swap(hash & !SECONDS | now, Ordering::Relaxed);
        before != 0 && before & !SECONDS == hash & !SECONDS && (now.wrapping_sub(before) & SECONDS) <= TOGETHER
    }
}

/// Between two lines that say the same.
#[derive(Debug, Default)]
struct Pause {
    /// When the next may be written, in milliseconds since the start.
    until: AtomicU64,
}

impl Pause {
    const LENGTH: u64 = 60_000;

    fn is_over(&self, since_start: Duration) -> bool {
        let now = u64::try_from(since_start.as_millis()).unwrap_or(u64::MAX);
        let until = self.until.load(Ordering::Relaxed);
        let next = now.saturating_add(Self::LENGTH);
        now >= until && self.until.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::request::Request;

    #[test]
    fn a_line_is_written_once_a_minute() {
        let pause = Pause::default();
        let said = [0, 1, 59, 60, 61, 119, 120, 1000].map(|second| pause.is_over(Duration::from_secs(second)));
        assert_eq!(said, [true, false, false, true, false, false, true, true]);
    }

    #[test]
    fn a_request_is_known_for_a_moment_and_memory_does_not_grow() {
        let cautions = Cautions::new();
        let decided = |id: &str, second: u64| cautions.was_decided(id, Duration::from_secs(second));
        assert_eq!(
            [decided("a", 0), decided("a", 1), decided("b", 1), decided("a", 11), decided("a", 22)],
            [false, true, false, true, false]
        );
        // Past 2^16 seconds too.
        assert_eq!([decided("c", 65_530), decided("c", 65_539), decided("c", 131_072)], [false, true, false]);
        (0..20_000).for_each(|number| assert!(!decided(&format!("{number}"), 0)));
        assert_eq!(cautions.recent.len(), REMEMBERED);
    }

    #[test]
    fn many_overrides_and_a_while_without_a_word_are_no_accident() {
        let cautions = Cautions::new();
        let quick: Vec<bool> = (0..100).map(|_| cautions.is_unheard(Duration::from_secs(5))).collect();
        assert!(!quick.contains(&true), "the first entries may be on their way");
        assert!(!cautions.is_unheard(Duration::from_secs(34)) && cautions.is_unheard(Duration::from_secs(35)));
        let few = Cautions::new();
        let said: Vec<bool> = (0..20).map(|minute| few.is_unheard(Duration::from_secs(60 * minute))).collect();
        assert_eq!(said.iter().position(|said| *said), Some(19), "the twentieth");
    }

    #[test]
    fn the_filter_of_an_attempt_gives_itself_away() {
        let cautions = Cautions::new();
        let plain = Request::new("/");
        let mut upstream = Request::new("/");
        upstream.attributes.insert("upstream.address".to_owned(), "127.0.0.1:1".to_owned());
        assert!(!cautions.decides(&plain, None, false));
        assert!(!cautions.decides(&plain, Some("a"), false));
        assert!(cautions.decides(&plain, Some("a"), false), "the same request");
        assert!(cautions.decides(&plain, None, true), "a decision's token");
        assert!(cautions.decides(&upstream, None, false), "an upstream host");
        let mut named = Request::new("/");
        named.attributes.insert("xds.cluster_name".to_owned(), "a".to_owned());
        assert!(!cautions.decides(&named, None, false), "the route's");
        named.add_header("x-envoy-attempt-count", "1");
        assert!(cautions.decides(&named, None, false), "an attempt's cluster");
    }
}
