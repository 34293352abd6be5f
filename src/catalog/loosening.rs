//! What a changed catalog takes away or opens, beside the one in use: a tenant, a restriction or a file that is gone, a model that may
//! be used now. A half-written or half-copied catalog does the same, so that such a change needs more certainty than another one
//! before it is taken. A pure function of two snapshots: when to take the change is `watch`'s business.
//!
//! What is *new* and could lack its end (a tenant, a model) counts too: its restrictions may not be written yet.

mod clusters;
mod tenants;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::load::SourceFile;
use super::snapshot::{Defaults, Model, Snapshot, StrangerPolicy, UnknownModelPolicy};
use crate::document::shows_its_end;

/// How many changes are put in words; the others are counted.
const SAID: usize = 8;

/// All that a change takes away or opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loosening {
    said: Vec<String>,
    /// One number for each, the same whenever the same is taken away or opened.
    marks: Vec<u64>,
}

impl Loosening {
    fn say(&mut self, what: String) {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        self.marks.push(hasher.finish());
        if self.said.len() < SAID {
            self.said.push(what);
        }
    }

    fn say_if(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if holds {
            self.say(what());
        }
    }

    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.marks.is_empty()
    }

    #[must_use]
    pub fn marks(&self) -> &[u64] {
        &self.marks
    }

    /// For people: the first ones, and how many there are besides.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let more = self.marks.len() - self.said.len();
        let rest = (more > 0).then(|| format!("and {more} more"));
        self.said.iter().cloned().chain(rest).collect()
    }
}

/// What is remembered of a file to see whether its end is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEnd {
    name: Arc<str>,
    shows_its_end: bool,
    ends_a_line: bool,
}

impl FileEnd {
    #[must_use]
    pub fn of(file: &SourceFile) -> Self {
        Self { name: file.name.clone(), shows_its_end: shows_its_end(&file.text), ends_a_line: file.text.ends_with('\n') }
    }

    /// True if the text stops in the middle of a line and nothing in it says that this is its end.
    #[must_use]
    pub fn looks_cut(&self) -> bool {
        !self.shows_its_end && !self.ends_a_line
    }
}

/// What `new` takes away or opens, where `old` is in use.
#[must_use]
pub fn between(old: (&Snapshot, &[FileEnd]), new: (&Snapshot, &[FileEnd])) -> Loosening {
    let mut found = Loosening::default();
    files(old.1, new.1, &mut found);
    let (old, new) = (old.0, new.0);
    defaults((old, &old.defaults), (new, &new.defaults), &mut found);
    clusters::compare(old, new, &mut found);
    models(old, new, &mut found);
    tenants::compare(old, new, &mut found);
    let (before, after) = (&old.expectations, &new.expectations);
    found.say_if(after.tests.len() < before.tests.len(), || format!("{} tests fewer", before.tests.len() - after.tests.len()));
    let fewer = before.invariants.len().saturating_sub(after.invariants.len());
    found.say_if(fewer > 0, || format!("{fewer} invariants fewer"));
    found
}

fn files(old: &[FileEnd], new: &[FileEnd], found: &mut Loosening) {
    for before in old {
        let FileEnd { name, shows_its_end, .. } = before;
        match new.iter().find(|after| after.name == *name) {
            None => found.say(format!("the file {name} is gone")),
            Some(after) => {
                found
                    .say_if(*shows_its_end && !after.shows_its_end, || format!("the file {name} does not show its end any more"));
                found
                    .say_if(after.looks_cut() && !before.looks_cut(), || format!("the file {name} ends in the middle of a line"));
            }
        }
    }
    for after in new.iter().filter(|after| after.looks_cut() && old.iter().all(|before| before.name != after.name)) {
        found.say(format!("the new file {} ends in the middle of a line", after.name));
    }
}

fn models(old: &Snapshot, new: &Snapshot, found: &mut Loosening) {
    let find = |snapshot: &Snapshot, model: &Model| {
        let id = snapshot.model_ids.get(model.name.as_str()).copied()?;
        (snapshot.model(id).name == model.name).then_some(id)
    };
    for before in &old.models {
        // How long an attempt may take opens nothing.
        let Model {
            name,
            aliases,
            chain,
            endpoint_metadata,
            fail_closed,
            attempt_timeout: _,
            stream_attempt_timeout: _,
            place: _,
        } = before;
        let Some(id) = find(new, before) else {
            found.say(format!("the model `{name}` is gone"));
            continue;
        };
        let after = new.model(id);
        found.say_if(*fail_closed && !after.fail_closed, || format!("the model `{name}` does not fail closed any more"));
        let is_shorter = after.chain.entries.len() < chain.entries.len();
        found.say_if(is_shorter, || format!("the chain of the model `{name}` is shorter"));
        let lost = aliases.iter().find(|alias| !after.aliases.contains(alias));
        found.say_if(lost.is_some(), || format!("the model `{name}` has lost an alias"));
        let is_less = after.endpoint_metadata.len() < endpoint_metadata.len();
        found.say_if(is_less, || format!("the model `{name}` has lost metadata"));
    }
    for after in new.models.iter().filter(|model| find(old, model).is_none()) {
        found.say(format!("the model `{}` is new", after.name));
    }
}

fn defaults(old: (&Snapshot, &Defaults), new: (&Snapshot, &Defaults), found: &mut Loosening) {
    let Defaults { missing_tenant, unknown_tenant, unknown_model, missing_model, rejects_drained, fail_closed, max_attempts: _ } =
        old.1;
    let stranger = |snapshot: &Snapshot, policy: StrangerPolicy| match policy {
        StrangerPolicy::Anonymous => "anonymous".to_owned(),
        StrangerPolicy::Reject => "reject".to_owned(),
        StrangerPolicy::As(tenant) => format!("`{}`", snapshot.tenant(tenant).name),
    };
    let policies =
        [("missing_tenant", *missing_tenant, new.1.missing_tenant), ("unknown_tenant", *unknown_tenant, new.1.unknown_tenant)];
    for (name, before, after) in policies {
        let after_words = stranger(new.0, after);
        let is_looser = after != StrangerPolicy::Reject && stranger(old.0, before) != after_words;
        found.say_if(is_looser, || format!("`defaults.{name}` is {after_words} now"));
    }
    let is_looser = match (unknown_model, &new.1.unknown_model) {
        (_, UnknownModelPolicy::Reject) | (UnknownModelPolicy::PassThrough, UnknownModelPolicy::PassThrough) => false,
        (UnknownModelPolicy::Chain(before), UnknownModelPolicy::Chain(after)) => after.entries.len() < before.entries.len(),
        (UnknownModelPolicy::PassThrough, UnknownModelPolicy::Chain(_)) => false,
        (UnknownModelPolicy::Reject | UnknownModelPolicy::Chain(_), _) => true,
    };
    found.say_if(is_looser, || "`defaults.unknown_model` lets more through".to_owned());
    let rejected = *rejects_drained && !new.1.rejects_drained;
    found.say_if(rejected, || "`defaults.on_drained` does not reject any more".to_owned());
    let is_looser = match (missing_model, &new.1.missing_model) {
        (None | Some(UnknownModelPolicy::PassThrough), None)
        | (_, Some(UnknownModelPolicy::Reject))
        | (Some(UnknownModelPolicy::PassThrough), Some(UnknownModelPolicy::PassThrough)) => false,
        (Some(UnknownModelPolicy::Chain(before)), Some(UnknownModelPolicy::Chain(after))) => {
            after.entries.len() < before.entries.len()
        }
        (None | Some(_), None | Some(_)) => true,
    };
    found.say_if(is_looser, || "`defaults.missing_model` lets more through".to_owned());
    found.say_if(*fail_closed && !new.1.fail_closed, || "`defaults.fail` is not closed any more".to_owned());
}

#[cfg(test)]
mod tests;
