//! One log entry → what it tells: of an attempt, or of a request as a whole. It names the cluster that is meant, which is not always
//! the one in Envoy's own field. It knows no cluster's state and remembers nothing.

use std::net::SocketAddr;
use std::time::Duration;

use super::classify::{self, Class, Ending, Open};
use super::retry_after;
use crate::health::Moment;
use crate::proto::{HttpLogEntry, log_type, sent_chain};

/// The custom tag that names the cluster: `%UPSTREAM_CLUSTER_RAW%`. Envoy's own field is empty, or names the cluster of the attempt
/// before, where there was no host.
const CLUSTER_TAG: &str = "upstream_cluster";
/// The custom tag that has a value if the provider's answer came to its end: `%COMMON_DURATION(US_RX_BEG:US_RX_END:ms)%`. Measured:
/// also for answers without a body; it is missing where the client left, a limit ran out or the provider broke off.
const COMPLETE_TAG: &str = "answer_complete";
/// Envoy's header that counts attempts, if the virtual host has `include_request_attempt_count`.
const ATTEMPT_HEADER: &str = "x-envoy-attempt-count";

/// What an entry tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told<'a> {
    Attempt(Attempt<'a>),
    Request(RequestEnd),
    /// It is written while something is under way.
    Nothing,
}

/// An attempt that is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attempt<'a> {
    /// The names under which its cluster may be known, best first.
    pub(super) clusters: [Option<&'a str>; 2],
    pub(super) became: Result<Class, Open>,
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) endpoint: Option<SocketAddr>,
    /// Which attempt of its request it was, counted from 1; 0: nobody says.
    pub(super) number: u32,
}

/// A request that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestEnd {
    pub(super) ending: Ending,
    pub(super) status: u16,
    /// How many attempts it had; 0: nobody says.
    pub(super) attempts: u32,
    /// Its last attempt had nobody to go to, and so has no entry of its own.
    pub(super) found_nobody: bool,
    /// The attempt's own entry has said that the answer was complete.
    pub(super) is_complete: bool,
}

impl RequestEnd {
    /// A later attempt than the first served the request.
    pub(super) fn is_fallback(&self) -> bool {
        self.attempts > 1 && self.ending == Ending::Whole && (200..300).contains(&self.status)
    }

    /// No attempt served the request, and the last one failed: nobody is left who could.
    pub(super) fn is_exhausted(&self, statuses: &[u16]) -> bool {
        match self.ending {
            Ending::ClientLeft => false,
            Ending::Whole => statuses.contains(&self.status),
            // Ended by Envoy, or with a status that a provider gave.
            Ending::TimedOut | Ending::Cut | Ending::Other => {
                self.found_nobody || self.status >= 500 || statuses.contains(&self.status)
            }
        }
    }
}

/// Reads an entry; `None` if it lacks what every entry of Envoy's has.
pub(super) fn read<'a>(entry: &'a HttpLogEntry, statuses: &[u16], now: Moment) -> Option<Told<'a>> {
    let common = entry.common.as_ref()?;
    let told = match common.log_type {
        log_type::NOT_SET if common.intermediate => Told::Nothing,
        log_type::NOT_SET | log_type::UPSTREAM_END => Told::Attempt(attempt(entry, statuses, now)),
        log_type::DOWNSTREAM_END => Told::Request(request(entry)),
        _ => Told::Nothing,
    };
    Some(told)
}

fn attempt<'a>(entry: &'a HttpLogEntry, statuses: &[u16], now: Moment) -> Attempt<'a> {
    let common = entry.common.as_ref();
    let flags = common.and_then(|common| common.response_flags).unwrap_or_default();
    let (own, tag) = (entry.cluster(), entry.tag(CLUSTER_TAG));
    let status = entry.status();
    let became = classify::attempt(flags, status, statuses);
    let is_complete = entry.tag(COMPLETE_TAG).is_some();
    // An entry without a type comes from a logger that writes one entry for an attempt and no other: it has to say it all.
    let is_alone = common.is_none_or(|common| common.log_type == log_type::NOT_SET);
    let became = match became {
        Err(Open::Answering) if is_complete || is_alone => Ok(Class::Success),
        Err(Open::Silent) if is_alone => Ok(Class::NotOurs),
        became => became,
    };
    let retry_after = match became {
        Ok(Class::RateLimited) => entry.response_header("retry-after").and_then(|text| retry_after::parse(text, now)),
        _ => None,
    };
    let clusters = if became == Ok(Class::NoHealthyHost) { [tag, own] } else { [own, tag] };
    Attempt { clusters, became, status, retry_after, endpoint: entry.endpoint(), number: number(entry) }
}

fn number(entry: &HttpLogEntry) -> u32 {
    entry.request_header(ATTEMPT_HEADER).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn request(entry: &HttpLogEntry) -> RequestEnd {
    let common = entry.common.as_ref();
    let flags = common.and_then(|common| common.response_flags).unwrap_or_default();
    let status = entry.status();
    RequestEnd {
        ending: classify::ending(flags, status, entry.details()),
        status,
        attempts: common.map_or(0, |common| common.attempts),
        // A retry whose cluster Envoy lacks has the flag of an empty one: measured.
        found_nobody: flags.no_healthy_upstream || flags.no_cluster_found,
        is_complete: entry.tag(COMPLETE_TAG).is_some(),
    }
}

/// The clusters that a request may have found empty or missing, best guess first. Envoy names an empty one in the tag alone, and a
/// missing one nowhere: then it is the only one of the group whose turn it was, in the chain that was sent under `namespace`.
pub(super) fn missed(entry: &HttpLogEntry, namespace: &str, attempts: u32) -> Vec<String> {
    let tag = entry.tag(CLUSTER_TAG).map(str::to_owned);
    let position = usize::try_from(attempts.max(1) - 1).unwrap_or(usize::MAX);
    let only = |chain: Vec<Vec<String>>| {
        let group = chain.get(position.min(chain.len().checked_sub(1)?))?;
        if let [only] = group.as_slice() { Some(only.clone()) } else { None }
    };
    let planned = sent_chain(entry, namespace).and_then(only);
    // After an attempt that had a host this is that attempt's cluster.
    let own = if attempts <= 1 { entry.cluster().map(str::to_owned) } else { None };
    [tag, planned, own].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
