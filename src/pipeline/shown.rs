//! Which of a client's own words are published. A model that the catalog does not know is published as it was sent only where the
//! operator allows it and where it looks like a name: a slip of the pen is then seen, and nothing that could forge a line of a log or
//! carry a prompt gets there. Everything else is a keyed hash.

use crate::catalog::snapshot::Snapshot;
use crate::extract::Found;
use crate::resolve::Resolution;
use crate::secret::Keys;
use crate::settings::ShowModel;

/// The longest name that is shown as it was sent, in bytes.
const MAX_SHOWN: usize = 64;

/// The model as it may be published.
pub(super) fn requested_model(
    sent: &Found<String>,
    snapshot: Option<&Snapshot>,
    resolution: &Resolution,
    show: ShowModel,
    keys: &Keys,
) -> Option<String> {
    let Found::Value(name) = sent else { return None };
    let own = snapshot.zip(resolution.model).map(|(snapshot, id)| snapshot.model(id));
    let is_the_catalogs = own.is_some_and(|model| model.name.as_str() == name);
    let is_open = match show {
        ShowModel::Always => true,
        ShowModel::Authenticated => resolution.tenant.is_some(),
        ShowModel::Never => false,
    };
    let shown = is_the_catalogs || ((own.is_some() || is_open) && looks_like_a_name(name));
    Some(if shown { name.clone() } else { keys.hide(name) })
}

fn looks_like_a_name(text: &str) -> bool {
    text.len() <= MAX_SHOWN && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:/@+".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::compile::compile;
    use crate::catalog::load::SourceFile;
    use crate::outcome::{Outcome, Reason};

    #[test]
    fn an_unknown_model_is_shown_to_the_operator_where_it_is_a_name_and_allowed() {
        let keys = Keys::random().unwrap();
        let catalog = SourceFile::new("catalog.yaml", "version: 1\ntenants: {t: {}}\n");
        let snapshot = compile(&[catalog]).unwrap().snapshot;
        let known = snapshot.tenant_ids.values().next().copied();
        let long = "x".repeat(65);
        let mut resolution = Resolution::of(Outcome::PassThrough, Reason::UnknownModel);
        for (tenant, show, sent, shown) in [
            (true, ShowModel::Authenticated, "gpt-4oo", true),
            (true, ShowModel::Authenticated, "eu/anthropic.claude-3:0@latest+x", true),
            (true, ShowModel::Authenticated, "gpt\n4", false),
            (true, ShowModel::Always, "gpt\u{1b}[2J", false),
            (true, ShowModel::Always, "two words", false),
            (true, ShowModel::Always, "größe", false),
            (true, ShowModel::Always, &long, false),
            (true, ShowModel::Always, &long[1..], true),
            (true, ShowModel::Never, "gpt-4oo", false),
            (false, ShowModel::Authenticated, "gpt-4oo", false),
            (false, ShowModel::Always, "gpt-4oo", true),
        ] {
            resolution.tenant = known.filter(|_| tenant);
            let sent = Found::Value(sent.to_owned());
            let published = requested_model(&sent, None, &resolution, show, &keys).unwrap();
            let Found::Value(sent) = sent else { panic!() };
            assert_eq!(published == sent, shown, "{sent:?} {show:?}");
            assert!(!published.contains(char::is_control) && published.len() <= MAX_SHOWN, "{published:?}");
        }
        assert_eq!(requested_model(&Found::Nothing, None, &resolution, ShowModel::Always, &keys), None);
    }
}
