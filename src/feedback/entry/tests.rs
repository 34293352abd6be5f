use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::data::accesslog::v3 as pb;
use envoy_types::pb::google::protobuf::value::Kind as ValueKind;
use envoy_types::pb::google::protobuf::{Any, ListValue, Struct, UInt32Value, Value};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::proto::priority_group::{ClusterWeight, PriorityGroup, PriorityGroupsOverride};

use pb::AccessLogType as Kind;

const STATUSES: [u16; 3] = [429, 503, 529];

fn entry(status: u32, kind: Kind, flags: pb::ResponseFlags) -> pb::HttpAccessLogEntry {
    let response = pb::HttpResponseProperties {
        response_code: (status > 0).then_some(UInt32Value { value: status }),
        response_headers: [("retry-after".to_owned(), "3".to_owned())].into(),
        ..Default::default()
    };
    let common = pb::AccessLogCommon {
        upstream_cluster: "own".to_owned(),
        response_flags: Some(flags),
        access_log_type: kind.into(),
        ..Default::default()
    };
    pb::HttpAccessLogEntry { common_properties: Some(common), response: Some(response), ..Default::default() }
}

fn tagged(mut entry: pb::HttpAccessLogEntry, name: &str, value: &str) -> pb::HttpAccessLogEntry {
    entry.common_properties.as_mut().unwrap().custom_tags.insert(name.to_owned(), value.to_owned());
    entry
}

fn decoded(entry: &pb::HttpAccessLogEntry) -> HttpLogEntry {
    HttpLogEntry::decode(entry.encode_to_vec().as_slice()).unwrap()
}

fn attempt_of(entry: &pb::HttpAccessLogEntry, look: impl FnOnce(&Attempt<'_>)) {
    let entry = decoded(entry);
    match read(&entry, &STATUSES, Moment(0)) {
        Some(Told::Attempt(attempt)) => look(&attempt),
        other => panic!("an attempt, not {other:?}"),
    }
}

fn request_of(entry: &pb::HttpAccessLogEntry) -> RequestEnd {
    match read(&decoded(entry), &STATUSES, Moment(0)) {
        Some(Told::Request(end)) => end,
        other => panic!("a request, not {other:?}"),
    }
}

#[test]
fn only_the_end_of_an_attempt_or_a_request_tells_something() {
    let told =
        |kind| read(&decoded(&entry(200, kind, pb::ResponseFlags::default())), &STATUSES, Moment(0)).unwrap() != Told::Nothing;
    assert!(told(Kind::NotSet) && told(Kind::UpstreamEnd) && told(Kind::DownstreamEnd));
    for kind in [Kind::DownstreamStart, Kind::DownstreamPeriodic, Kind::UpstreamPoolReady, Kind::UpstreamPeriodic] {
        assert!(!told(kind), "{kind:?}");
    }
    assert_eq!(read(&HttpLogEntry::default(), &[], Moment(0)), None, "without anything common");
}

#[test]
fn an_answer_is_a_success_only_if_something_says_that_it_was_complete() {
    let plain = entry(200, Kind::UpstreamEnd, pb::ResponseFlags::default());
    attempt_of(&plain, |it| assert_eq!(it.became, Err(Open::Answering)));
    attempt_of(&tagged(plain.clone(), COMPLETE_TAG, "0"), |it| assert_eq!(it.became, Ok(Class::Success)));
    for nothing in ["", "-"] {
        attempt_of(&tagged(plain.clone(), COMPLETE_TAG, nothing), |it| assert_eq!(it.became, Err(Open::Answering)));
    }
    // The tag does not outweigh a flag.
    let cut = entry(200, Kind::UpstreamEnd, pb::ResponseFlags { upstream_protocol_error: true, ..Default::default() });
    attempt_of(&tagged(cut, COMPLETE_TAG, "7"), |it| assert_eq!(it.became, Ok(Class::BrokenStream)));
    // A logger without types writes no other entry.
    attempt_of(&entry(200, Kind::NotSet, pb::ResponseFlags::default()), |it| assert_eq!(it.became, Ok(Class::Success)));
    attempt_of(&entry(0, Kind::NotSet, pb::ResponseFlags::default()), |it| assert_eq!(it.became, Ok(Class::NotOurs)));
}

#[test]
fn the_providers_word_is_read_where_it_limits() {
    let after = |status| {
        let mut after = None;
        attempt_of(&entry(status, Kind::UpstreamEnd, pb::ResponseFlags::default()), |it| after = it.retry_after);
        after
    };
    assert_eq!((after(429), after(503)), (Some(Duration::from_secs(3)), None));
}

#[test]
fn where_there_was_no_host_the_tag_names_the_cluster_and_envoys_own_field_the_one_before() {
    let no_host = pb::ResponseFlags { no_healthy_upstream: true, ..Default::default() };
    let ended = |attempts: u32, tag: Option<&str>| {
        let mut entry = entry(503, Kind::DownstreamEnd, no_host);
        entry.common_properties.as_mut().unwrap().upstream_request_attempt_count = attempts;
        let entry = tag.map_or(entry.clone(), |tag| tagged(entry, CLUSTER_TAG, tag));
        let end = request_of(&entry);
        assert!(end.found_nobody);
        missed(&decoded(&entry), "cascade", end.attempts)
    };
    assert_eq!(ended(2, Some("hollow")), ["hollow"]);
    assert_eq!(ended(2, None), [""; 0], "the own field is the earlier attempt's");
    assert_eq!(ended(1, None), ["own"]);
    let missing = pb::ResponseFlags { no_cluster_found: true, ..Default::default() };
    assert!(request_of(&entry(503, Kind::DownstreamEnd, missing)).found_nobody);
    assert!(!request_of(&entry(503, Kind::DownstreamEnd, pb::ResponseFlags::default())).found_nobody);
    let overflow = pb::ResponseFlags { upstream_overflow: true, ..Default::default() };
    assert!(!request_of(&entry(503, Kind::DownstreamEnd, overflow)).found_nobody, "it has an entry of its own (fact 36)");
    attempt_of(&tagged(entry(503, Kind::UpstreamEnd, no_host), CLUSTER_TAG, "hollow"), |it| {
        assert_eq!(it.clusters, [Some("hollow"), Some("own")]);
    });
}

/// A chain in the two ways in which it is published.
fn chains(groups: &[&[(&str, u32)]]) -> [core::Metadata; 2] {
    let text = |text: &str| Value { kind: Some(ValueKind::StringValue(text.to_owned())) };
    let number = |number: u32| Value { kind: Some(ValueKind::NumberValue(f64::from(number))) };
    let fields = |fields: Vec<(&str, Value)>| {
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Value { kind: Some(ValueKind::StructValue(Struct { fields })) }
    };
    let list = |values| Value { kind: Some(ValueKind::ListValue(ListValue { values })) };
    let cluster = |(name, weight): &(&str, u32)| fields(vec![("cluster_name", text(name)), ("weight", number(*weight))]);
    let group =
        |group: &&[(&str, u32)]| fields(vec![("name", text("g")), ("clusters", list(group.iter().map(cluster).collect()))]);
    let Some(ValueKind::StructValue(sent)) = fields(vec![("priority_groups", list(groups.iter().map(group).collect()))]).kind
    else {
        panic!("a struct")
    };
    let typed = PriorityGroupsOverride {
        priority_groups: groups
            .iter()
            .map(|group| PriorityGroup {
                name: "g".to_owned(),
                clusters: group
                    .iter()
                    .map(|(name, weight)| ClusterWeight { cluster_name: (*name).to_owned(), weight: Some(*weight) })
                    .collect(),
            })
            .collect(),
    };
    let any = Any { type_url: "type.googleapis.com/x".to_owned(), value: typed.encode_to_vec() };
    let named = |name: &str| name.to_owned();
    [
        core::Metadata { filter_metadata: HashMap::from([(named("cascade"), sent)]), ..Default::default() },
        core::Metadata { typed_filter_metadata: HashMap::from([(named("cascade"), any)]), ..Default::default() },
    ]
}

#[test]
fn a_cluster_that_envoy_lacks_is_found_in_the_chain_that_was_sent() {
    for metadata in chains(&[&[("a", 1)], &[("b", 1), ("gone", 0)], &[("c", 1), ("d", 1)]]) {
        let missed = |attempts: u32| {
            let mut entry = entry(503, Kind::DownstreamEnd, pb::ResponseFlags { no_cluster_found: true, ..Default::default() });
            let common = entry.common_properties.as_mut().unwrap();
            (common.upstream_cluster, common.metadata) = (String::new(), Some(metadata.clone()));
            super::missed(&decoded(&entry), "cascade", attempts)
        };
        assert_eq!(missed(0), ["a"], "Envoy counts no attempt where the first one had no cluster");
        assert_eq!((missed(1), missed(2)), (vec!["a".to_owned()], vec!["b".to_owned()]));
        assert_eq!((missed(3), missed(9)), (Vec::new(), Vec::new()), "one of two: nobody says which");
    }
}

#[test]
fn a_request_that_a_later_attempt_served_is_told_from_one_that_nobody_served() {
    let end = |status: u32, attempts: u32, flags: pb::ResponseFlags| {
        let mut entry = entry(status, Kind::DownstreamEnd, flags);
        entry.common_properties.as_mut().unwrap().upstream_request_attempt_count = attempts;
        let end = request_of(&entry);
        (end.is_fallback(), end.is_exhausted(&STATUSES))
    };
    let none = pb::ResponseFlags::default();
    let left = pb::ResponseFlags { downstream_connection_termination: true, ..none };
    let timeout = pb::ResponseFlags { upstream_request_timeout: true, upstream_retry_limit_exceeded: true, ..none };
    let no_host = pb::ResponseFlags { no_healthy_upstream: true, ..none };
    for (status, attempts, flags, expected) in [
        (200, 1, none, (false, false)),
        (200, 2, none, (true, false)),
        (400, 2, none, (false, false)),
        (503, 2, none, (false, true)),
        (429, 3, none, (false, true)),
        (504, 2, timeout, (false, true)),
        (503, 1, no_host, (false, true)),
        (0, 2, left, (false, false)),
        (200, 2, left, (false, false)),
    ] {
        assert_eq!(end(status, attempts, flags), expected, "{status} after {attempts}");
    }
}

#[test]
fn the_endpoint_is_where_the_attempt_went() {
    let at = |address: &str, port: u32| {
        let port = core::socket_address::PortSpecifier::PortValue(port);
        let address = core::SocketAddress { address: address.to_owned(), port_specifier: Some(port), ..Default::default() };
        let address = core::Address { address: Some(core::address::Address::SocketAddress(address)) };
        let common = pb::AccessLogCommon { upstream_remote_address: Some(address), ..Default::default() };
        let entry = pb::HttpAccessLogEntry { common_properties: Some(common), ..Default::default() };
        decoded(&entry).endpoint().map(|endpoint| endpoint.to_string())
    };
    assert_eq!(at("10.0.0.1", 8000).as_deref(), Some("10.0.0.1:8000"));
    assert_eq!(at("::1", 8000).as_deref(), Some("[::1]:8000"));
    assert_eq!((at("host", 80), at("10.0.0.1", 0), at("10.0.0.1", 70_000)), (None, None, None));
    assert_eq!(HttpLogEntry::default().endpoint(), None);
}

proptest! {
    /// Whatever bytes come, and however an entry is cut: it is read or it is not, and nothing else happens.
    #[test]
    fn any_bytes_are_an_entry_or_none(garbage in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..400_usize) {
        let mut entry = tagged(entry(503, Kind::DownstreamEnd, pb::ResponseFlags { no_cluster_found: true, ..Default::default() }), "x", "y");
        let [metadata, _] = chains(&[&[("a", 1)]]);
        entry.common_properties.as_mut().unwrap().metadata = Some(metadata);
        let whole = entry.encode_to_vec();
        for bytes in [garbage.as_slice(), &whole[..cut.min(whole.len())]] {
            if let Ok(entry) = HttpLogEntry::decode(bytes) {
                let _ = read(&entry, &STATUSES, Moment(0));
                let _ = missed(&entry, "cascade", 0);
            }
        }
    }
}
