//! Rules that speak of models which are not there, and rules that change nothing.

use std::collections::HashMap;

use super::{Context, Written};
use crate::catalog::pattern::Pattern;
use crate::catalog::snapshot::Snapshot;
use crate::diagnostic::Place;
use crate::document::suggest::nearest;

/// How many misspelt names get a "did you mean": comparing costs about a microsecond per model.
const SUGGESTIONS: usize = 100;

pub(super) fn check(context: &mut Context<'_>) {
    let mut models = Models { snapshot: context.snapshot, matched: HashMap::new(), suggestions: 0 };
    for written in context.written {
        patterns(context, written, &mut models);
        keys(context, written, &mut models);
        changes_nothing(context, written);
    }
}

struct Models<'s> {
    snapshot: &'s Snapshot,
    /// Rules repeat each other: each pattern is looked up once.
    matched: HashMap<String, bool>,
    suggestions: usize,
}

impl Models<'_> {
    fn matched(&mut self, pattern: &Pattern) -> bool {
        let find = || self.snapshot.models.iter().any(|model| pattern.matches(model.name.as_str()));
        pattern.is_any() || *self.matched.entry(pattern.as_str().to_owned()).or_insert_with(find)
    }

    /// The model that has this name, or a name of this pattern, as an alias.
    fn aliased(&self, pattern: &Pattern) -> Option<&str> {
        let has = |alias: &Pattern| alias == pattern || pattern.matches(alias.as_str());
        self.snapshot.models.iter().find(|model| model.aliases.iter().any(has)).map(|model| model.name.as_str())
    }

    fn hint(&mut self, pattern: &Pattern) -> String {
        if let Some(model) = self.aliased(pattern) {
            return format!("that is an alias; names are matched after aliases, write `{model}`");
        }
        self.suggestions += 1;
        let names = self.snapshot.models.iter().map(|model| model.name.as_str());
        let near = nearest(pattern.as_str(), names).filter(|_| self.suggestions <= SUGGESTIONS);
        near.map_or_else(|| "see `models`; names are matched after aliases".to_owned(), |near| format!("did you mean `{near}`?"))
    }
}

fn patterns(context: &mut Context<'_>, written: &Written, models: &mut Models<'_>) {
    let own_names: Vec<&str> =
        written.folded.chains.iter().map(|keyed| &keyed.key).filter(|key| key.is_exact()).map(Pattern::as_str).collect();
    let allowed = written.own.allowed.iter().flatten().map(|rule| ("allowed_models", rule));
    let denied = written.own.denied.iter().map(|rule| ("denied_models", rule));
    for (field, (pattern, place)) in allowed.chain(denied) {
        if !models.matched(pattern) && !own_names.iter().any(|name| pattern.matches(name)) {
            let message =
                format!("`{field}` of {} speaks of `{}`, and no model has such a name", written.whose, pattern.as_str());
            let hint = models.hint(pattern);
            context.warn("unmatched-name", place, message, hint);
        }
    }
}

fn keys(context: &mut Context<'_>, written: &Written, models: &mut Models<'_>) {
    for keyed in &written.own.chains {
        let (key, place): (&Pattern, &Place) = (&keyed.key, &keyed.chain.place);
        if models.matched(key) {
            continue;
        }
        let text = key.as_str();
        if let Some(model) = models.aliased(key) {
            let message = format!(
                "`{text}` is an alias of `{model}`; keys of `chains` are matched against the catalog's names, so requests for `{model}` do not use this chain"
            );
            context.warn("chains-key-is-alias", place, message, format!("write `{model}`"));
        } else if key.is_exact() {
            let message =
                format!("`{text}` is no model of the catalog: it exists for {} alone, and only by this very name", written.whose);
            let hint = models.hint(key);
            context.warn("unmatched-name", place, message, hint);
        } else {
            let hint = models.hint(key);
            context.warn("unmatched-name", place, format!("no model has a name like `{text}`: this chain is never used"), hint);
        }
    }
}

fn changes_nothing(context: &mut Context<'_>, written: &Written) {
    if let Some((false, place)) = &written.own.fail_closed
        && (written.folded.restricts() || matches!(written.folded.fail_closed, Some((true, _))))
    {
        let message = format!(
            "`fail: open` changes nothing for {}: with restrictions, or a tier that is closed, it stays closed",
            written.whose
        );
        context.warn("fail-open-ignored", place, message, "remove it");
    }
    if written.own.allowed.as_ref().is_some_and(Vec::is_empty) {
        let message = format!("`allowed_models` is empty: {} may use no model at all", written.whose);
        context.warn("allows-nothing", &written.place, message, "name some models, or remove the key to allow all");
    }
}
