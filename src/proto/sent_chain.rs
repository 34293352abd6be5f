//! The override as a request's own log entry brings it back: the clusters of each group, in the order of the attempts. Envoy puts all
//! dynamic metadata into that entry (fact 59) and names no group anywhere (fact 83).

use bytes::Bytes;
use prost::Message;

use super::HttpLogEntry;
use super::bound::{LISTS, NAMED, Received, Shape};
use super::priority_group::PriorityGroupsOverride;

/// The clusters of each group that was sent under this namespace, those with a weight of 0 left out. `None`: the entry has no
/// override. A group that only Envoy knows is empty here.
#[must_use]
pub fn sent_chain(entry: &HttpLogEntry, namespace: &str) -> Option<Vec<Vec<String>>> {
    let metadata = Metadata::receive(entry.common.as_ref()?.metadata.clone()).ok()?;
    // Envoy reads the typed one first.
    if let Some(typed) = metadata.typed.iter().find(|entry| entry.name == namespace.as_bytes()) {
        let any = Any::decode(typed.value.clone()).ok()?;
        return PriorityGroupsOverride::decode(any.value).ok().map(typed_chain);
    }
    let untyped = metadata.untyped.into_iter().find(|entry| entry.name == namespace.as_bytes())?;
    let groups = Struct::receive(untyped.value).ok()?.take("priority_groups")?.into_list()?;
    Some(groups.into_iter().map(untyped_group).collect())
}

fn typed_chain(sent: PriorityGroupsOverride) -> Vec<Vec<String>> {
    let groups = sent.priority_groups.into_iter().map(|group| {
        let clusters = group.clusters.into_iter().filter(|cluster| cluster.weight != Some(0));
        clusters.map(|cluster| cluster.cluster_name).collect()
    });
    groups.collect()
}

fn untyped_group(group: Value) -> Vec<String> {
    let clusters = group.into_struct().and_then(|mut group| group.take("clusters")?.into_list()).unwrap_or_default();
    let name = |cluster: Value| {
        let mut cluster = cluster.into_struct()?;
        if let Some(Kind::Number(weight)) = cluster.take("weight")?.kind
            && weight == 0.0
        {
            return None;
        }
        match cluster.take("cluster_name")?.kind? {
            Kind::Text(name) => String::from_utf8(name.to_vec()).ok(),
            Kind::Number(_) | Kind::Struct(_) | Kind::List(_) => None,
        }
    };
    clusters.into_iter().filter_map(name).collect()
}

/// `envoy.config.core.v3.Metadata`.
#[derive(Clone, PartialEq, prost::Message)]
struct Metadata {
    #[prost(message, repeated, tag = "1")]
    untyped: Vec<Named>,
    #[prost(message, repeated, tag = "2")]
    typed: Vec<Named>,
}

impl Received for Metadata {
    const SHAPE: &'static Shape = &NAMED;
}

/// An entry of a map whose values are messages.
#[derive(Clone, PartialEq, prost::Message)]
struct Named {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Struct {
    #[prost(message, repeated, tag = "1")]
    fields: Vec<Field>,
}

impl Received for Struct {
    const SHAPE: &'static Shape = &LISTS;
}

impl Struct {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.iter_mut().rev().find(|field| field.name == name.as_bytes())?.value.take()
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct Field {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(message, optional, tag = "2")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Value {
    #[prost(oneof = "Kind", tags = "2, 3, 5, 6")]
    kind: Option<Kind>,
}

impl Value {
    fn into_struct(self) -> Option<Struct> {
        match self.kind? {
            Kind::Struct(value) => Some(value),
            Kind::Number(_) | Kind::Text(_) | Kind::List(_) => None,
        }
    }

    fn into_list(self) -> Option<Vec<Value>> {
        match self.kind? {
            Kind::List(list) => Some(list.values),
            Kind::Number(_) | Kind::Text(_) | Kind::Struct(_) => None,
        }
    }
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(bytes = "bytes", tag = "3")]
    Text(Bytes),
    #[prost(message, tag = "5")]
    Struct(Struct),
    #[prost(message, tag = "6")]
    List(List),
}

#[derive(Clone, PartialEq, prost::Message)]
struct List {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Value>,
}
