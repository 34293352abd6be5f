//! What is stated of clusters and groups less than before. Tags and providers are what restrictions are judged by, so that every
//! change of them may let a tenant reach a cluster.

use super::Loosening;
use crate::catalog::snapshot::{Cluster, Group, Served, Snapshot};

pub(super) fn compare(old: &Snapshot, new: &Snapshot, found: &mut Loosening) {
    for before in old.clusters.iter().filter(|cluster| cluster.listed) {
        let after = new.cluster_ids.get(&before.name).map(|id| new.cluster(*id)).filter(|cluster| cluster.listed);
        match after {
            None => found.say(format!("the entry of the cluster `{}` is gone", before.name)),
            Some(after) => cluster((old, before), (new, after), found),
        }
    }
    for before in old.groups.iter().filter(|group| !group.inline) {
        match new.group_ids.get(&before.name) {
            None => found.say(format!("the group `{}` is gone", before.name)),
            Some(id) => group((old, before), (new, new.group(*id)), found),
        }
    }
}

fn cluster(old: (&Snapshot, &Cluster), new: (&Snapshot, &Cluster), found: &mut Loosening) {
    let Cluster { name, listed: _, provider, tags: _, served, path_prefix, drain, place: _ } = old.1;
    let after = new.1;
    let before_provider = provider.map(|id| &old.0.providers[id.index()]);
    let after_provider = after.provider.map(|id| &new.0.providers[id.index()]);
    found.say_if(before_provider != after_provider, || format!("the cluster `{name}` has another provider"));
    let (before_tags, after_tags) = (tags(old), tags(new));
    let changed = before_tags.iter().find(|tag| !after_tags.contains(tag)).map(|tag| ("lost", tag));
    let changed = changed.or_else(|| after_tags.iter().find(|tag| !before_tags.contains(tag)).map(|tag| ("got", tag)));
    if let Some((what, tag)) = changed {
        found.say(format!("the cluster `{name}` has {what} the tag `{tag}`"));
    }
    match (served, &after.served) {
        (Served::Every, _) => {}
        (Served::Only(_), Served::Every) => found.say(format!("the cluster `{name}` serves every model now")),
        (Served::Only(before), Served::Only(_)) => {
            let kept: Vec<&str> = served_names(new);
            let lost = before.keys().map(|id| old.0.model(*id).name.as_str()).filter(|model| !kept.contains(model)).min();
            if let Some(model) = lost {
                found.say(format!("the cluster `{name}` does not serve `{model}` any more"));
            }
        }
    }
    found.say_if(path_prefix.is_some() && after.path_prefix.is_none(), || {
        format!("the cluster `{name}` has lost its path prefix")
    });
    found.say_if(drain.is_some() && after.drain.is_none(), || format!("the cluster `{name}` is not drained any more"));
}

fn tags((snapshot, cluster): (&Snapshot, &Cluster)) -> Vec<String> {
    cluster.tags.iter().map(|tag| snapshot.tags[tag.index()].clone()).collect()
}

fn served_names<'s>((snapshot, cluster): (&'s Snapshot, &Cluster)) -> Vec<&'s str> {
    match &cluster.served {
        Served::Every => Vec::new(),
        Served::Only(models) => models.keys().map(|id| snapshot.model(*id).name.as_str()).collect(),
    }
}

fn group(old: (&Snapshot, &Group), new: (&Snapshot, &Group), found: &mut Loosening) {
    let Group { name, clusters, inline: _, place: _ } = old.1;
    let kept = |cluster: &str| new.1.clusters.iter().any(|(id, _)| new.0.cluster(*id).name.as_str() == cluster);
    let lost = clusters.iter().map(|(id, _)| old.0.cluster(*id).name.as_str()).find(|cluster| !kept(cluster));
    if let Some(cluster) = lost {
        found.say(format!("the group `{name}` has lost the cluster `{cluster}`"));
    }
}
