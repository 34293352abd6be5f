//! A decision in Envoy's words: the priority_group override, `envoy.lb`, and the facts of the decision as metadata. It decides
//! nothing: what it is given it writes down, and the words it uses for reasons are those of `outcome`.

pub mod attempt;
pub mod piece;
pub mod refusal;
pub mod reply;
pub mod router;
pub mod wire;

#[cfg(test)]
pub(crate) mod tests;

use prost::Message;
use reply::{Answer, HeaderChanges, Metadata};
use wire::Writer;

use crate::catalog::snapshot::Snapshot;
use crate::diagnostic::plain::plain;
use crate::extract::{Api, Found};
use crate::outcome::{Outcome, Reason};
use crate::proto::priority_group;
use crate::resolve::Resolution;
use crate::resolve::attempts::Budget;
use crate::resolve::chain::{LeftOut, Step};
use crate::resolve::endpoint;
use crate::settings::{Encoding, Publish};

/// What an answer is written from.
#[derive(Debug)]
pub struct Decision<'a> {
    /// `None`: no catalog has been loaded.
    pub snapshot: Option<&'a Snapshot>,
    pub resolution: &'a Resolution,
    pub decision_id: &'a str,
    /// `x-request-id`, as Envoy sent it.
    pub request_id: Option<&'a str>,
    /// The model as sent, for the client's own eyes.
    pub requested: &'a Found<String>,
    /// The same as it may be published: hashed if the catalog does not know it.
    pub requested_model: Option<&'a str>,
    /// Hashed.
    pub session: Option<&'a str>,
    pub api: Api,
    /// Those of our own headers that the client sent: they are removed.
    pub spoofed: &'a [&'a str],
    /// For `decision_header`, on an override while feedback is on.
    pub token: Option<&'a str>,
    /// What an override asks of Envoy's router.
    pub budget: Budget,
}

const TYPE_URL: &str = "type.googleapis.com/envoy.extensions.router.cluster_specifiers.priority_group.v3.PriorityGroupsOverride";

/// Writes the answer.
#[must_use]
pub fn answer(decision: &Decision<'_>, publish: &Publish) -> Answer {
    let metadata = metadata(decision, publish);
    match decision.resolution.outcome {
        Outcome::Override => Answer::Proceed { reroute: true, headers: changes(decision, publish), metadata },
        // The static chain is what Envoy's route has already; removing a header of ours does not touch it.
        Outcome::PassThrough => Answer::Proceed { reroute: false, headers: changes(decision, publish), metadata },
        Outcome::Reject => {
            let mut refusal = refusal::of(decision.resolution.reason, decision.api, decision.requested);
            if !publish.decision_id_header.is_empty() {
                refusal.headers.push((publish.decision_id_header.clone(), decision.decision_id.to_owned()));
            }
            Answer::Refuse { refusal, metadata }
        }
    }
}

/// An answer of the outcome alone, where more could not be written. No override is written so.
#[must_use]
pub fn bare(outcome: Outcome, reason: Reason, api: Api, remove: Vec<String>) -> Answer {
    let metadata = Metadata::default();
    match outcome {
        Outcome::Reject => Answer::Refuse { refusal: refusal::of(reason, api, &Found::Nothing), metadata },
        Outcome::Override | Outcome::PassThrough => {
            Answer::Proceed { reroute: false, headers: HeaderChanges { set: Vec::new(), remove }, metadata }
        }
    }
}

fn changes(decision: &Decision<'_>, publish: &Publish) -> HeaderChanges {
    let token = decision.token.iter().map(|token| (publish.decision_header.clone(), (*token).to_owned()));
    let number = decision.resolution.number.filter(|_| decision.resolution.outcome == Outcome::Override);
    let sticky = number.filter(|_| !publish.sticky_header.is_empty());
    let sticky = sticky.map(|number| (publish.sticky_header.clone(), number.to_string()));
    let set: Vec<_> = token.chain(sticky).chain(router::headers(decision.budget)).collect();
    // What is set overwrites the client's own.
    let is_set = |name: &str| set.iter().any(|(set, _)| set == name);
    let remove = decision.spoofed.iter().filter(|name| !is_set(name)).map(|name| (*name).to_owned()).collect();
    HeaderChanges { set, remove }
}

fn metadata(decision: &Decision<'_>, publish: &Publish) -> Metadata {
    let mut writer = Writer::with_capacity(1024);
    let mut typed = None;
    if let (Some(snapshot), Outcome::Override) = (decision.snapshot, decision.resolution.outcome) {
        match publish.encoding {
            Encoding::Untyped => writer.field(&publish.namespace, |value| {
                value.struct_value(|fields| override_fields(fields, snapshot, &decision.resolution.chain));
            }),
            Encoding::Typed => typed = Some((publish.namespace.clone(), typed_override(snapshot, &decision.resolution.chain))),
        }
        let endpoint = endpoint::of(snapshot, decision.resolution);
        if !endpoint.is_empty() && !publish.endpoint_namespace.is_empty() {
            writer.field(&publish.endpoint_namespace, |value| value.struct_value(|fields| fields.json_fields(&endpoint)));
        }
    }
    if !publish.decision_namespace.is_empty() {
        writer.field(&publish.decision_namespace, |value| value.struct_value(|fields| decision_fields(fields, decision)));
    }
    Metadata { untyped: writer.into_bytes(), typed }
}

fn override_fields(fields: &mut Writer, snapshot: &Snapshot, chain: &[Step]) {
    fields.field("priority_groups", |value| {
        value.list_value(|groups| {
            chain.iter().for_each(|step| groups.item(|group| group.struct_value(|group| group_fields(group, snapshot, step))));
        });
    });
}

fn group_fields(group: &mut Writer, snapshot: &Snapshot, step: &Step) {
    group.field("name", |name| name.text_value(snapshot.group(step.group).name.as_str()));
    if step.clusters.is_empty() {
        return;
    }
    group.field("clusters", |value| {
        value.list_value(|clusters| {
            for (cluster, weight) in &step.clusters {
                clusters.item(|item| {
                    item.struct_value(|fields| {
                        fields.field("cluster_name", |name| name.text_value(snapshot.cluster(*cluster).name.as_str()));
                        fields.field("weight", |value| value.number_value(f64::from(weight.get())));
                    });
                });
            }
        });
    });
}

fn typed_override(snapshot: &Snapshot, chain: &[Step]) -> Vec<u8> {
    let groups = chain.iter().map(|step| priority_group::PriorityGroup {
        name: snapshot.group(step.group).name.as_str().to_owned(),
        clusters: step
            .clusters
            .iter()
            .map(|(cluster, weight)| priority_group::ClusterWeight {
                cluster_name: snapshot.cluster(*cluster).name.as_str().to_owned(),
                weight: Some(weight.get()),
            })
            .collect(),
    });
    let message = priority_group::PriorityGroupsOverride { priority_groups: groups.collect() };
    let mut any = Writer::default();
    any.text(1, TYPE_URL);
    any.bytes(2, &message.encode_to_vec());
    any.into_bytes()
}

/// The facts of a decision; every key is always there, null where there is nothing to say.
fn decision_fields(fields: &mut Writer, decision: &Decision<'_>) {
    let resolution = decision.resolution;
    let tenant = decision.snapshot.zip(resolution.tenant).map(|(snapshot, id)| snapshot.tenant(id));
    let model = decision.snapshot.zip(resolution.model).map(|(snapshot, id)| snapshot.model(id).name.as_str());
    optional(fields, "decision_id", Some(decision.decision_id));
    optional(fields, "request_id", decision.request_id);
    optional(fields, "outcome", Some(resolution.outcome.as_str()));
    optional(fields, "reason", Some(resolution.reason.as_str()));
    optional(fields, "health", Some(resolution.health.as_str()));
    optional(fields, "revision", decision.snapshot.map(|snapshot| &*snapshot.revision.0));
    optional(fields, "label", decision.snapshot.and_then(|snapshot| snapshot.label.as_deref()));
    optional(fields, "tenant", tenant.map(|tenant| tenant.name.as_str()));
    optional(fields, "tier", tenant.and_then(|tenant| tenant.tier.as_ref()).map(|tier| tier.as_str()));
    optional(fields, "model", model);
    optional(fields, "requested_model", decision.requested_model);
    optional(fields, "session", decision.session);
    fields.field("chain", |value| {
        value.list_value(|list| {
            let Some(snapshot) = decision.snapshot else { return };
            resolution.chain.iter().for_each(|step| list.item(|item| item.text_value(snapshot.group(step.group).name.as_str())));
        });
    });
    fields.field("cooled", |value| {
        value.list_value(|list| {
            let Some(snapshot) = decision.snapshot else { return };
            for (cluster, scope) in &resolution.cooled {
                list.item(|item| {
                    item.struct_value(|fields| {
                        optional(fields, "cluster", Some(snapshot.cluster(*cluster).name.as_str()));
                        optional(fields, "scope", Some(scope.as_str()));
                    });
                });
            }
        });
    });
    fields.field("left_out", |value| {
        value.list_value(|list| {
            let Some(snapshot) = decision.snapshot else { return };
            resolution
                .left_out
                .iter()
                .for_each(|left| list.item(|item| item.struct_value(|fields| left_out_fields(fields, snapshot, left))));
        });
    });
}

fn left_out_fields(fields: &mut Writer, snapshot: &Snapshot, left: &LeftOut) {
    optional(fields, "cluster", left.cluster.map(|id| snapshot.cluster(id).name.as_str()));
    optional(fields, "group", Some(snapshot.group(left.group).name.as_str()));
    optional(fields, "why", Some(left.why.as_str()));
}

fn optional(fields: &mut Writer, name: &str, value: Option<&str>) {
    fields.field(name, |field| match value {
        // Envoy's text logs write it as it is: nothing in it may begin a line of its own.
        Some(text) => field.text_value(&plain(text)),
        None => field.null_value(),
    });
}
