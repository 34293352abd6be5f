//! What a terminal is shown of texts that others wrote.

use std::sync::Arc;

use crate::catalog::compile::compile;
use crate::catalog::load::SourceFile;
use crate::catalog::snapshot::Snapshot;
use crate::explain::{Explanation, Question, Rules, explain_with};
use crate::health::Seen;
use crate::session::{Answer, Placement, State};

const CATALOG: &str = r#"
version: 1
label: "stage LABEL"
priority_groups:
  ab: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 0}]}
models:
  m: {chain: [ab], endpoint_metadata: {stage: "STAGE"}}
"#;

fn catalog(text: &str) -> Snapshot {
    // As YAML writes them: a label and metadata may hold any character.
    let escaped: String = text.chars().map(|character| format!("\\U{:08x}", u32::from(character))).collect();
    let source = CATALOG.replace("LABEL", &escaped).replace("STAGE", &escaped);
    compile(&[SourceFile::new("catalog.yaml", &source)]).unwrap_or_else(|found| panic!("{found:#?}")).snapshot
}

fn explained<'c>(catalog: &'c Snapshot, text: &str) -> Explanation<'c> {
    let given = || Some(format!("m{text}"));
    let question = Question {
        model: given(),
        tenant: given(),
        session: given(),
        random: Some(0),
        cooling: vec![text.to_owned()],
        ..Question::default()
    };
    let placement = Placement { backend: Some(Box::from(text)), endpoint: Some(Box::from(text)), ..Placement::default() };
    let state = State { answer: Answer::Placed(Arc::new(placement)), ..State::default() };
    explain_with(catalog, &Rules::default(), &question, Seen::well(), &|_| text.to_owned(), &|_| state.clone())
}

#[test]
fn nothing_that_others_wrote_moves_the_cursor_or_ends_a_line() {
    let harmless = catalog("-");
    let lines = |text: &str| text.lines().count();
    let expected = lines(&explained(&harmless, "-").to_text(false));
    for (text, shown) in [
        ("\u{1b}[31mred", "\\u{1b}[31mred"),
        ("x\n  tenant   forged", "x\\n  tenant   forged"),
        ("x\r  tenant   forged", "x\\r  tenant   forged"),
        ("\u{7}", "\\u{7}"),
        ("\u{7f}", "\\u{7f}"),
        ("\u{9b}2J", "\\u{9b}2J"),
        ("\u{2028}", "\\u{2028}"),
        ("\u{202e}evil", "\\u{202e}evil"),
        ("Zürich → 東京", "Zürich → 東京"),
    ] {
        let catalog = catalog(text);
        let explanation = explained(&catalog, text);
        let plain = explanation.to_text(false);
        assert!(plain.matches(shown).count() >= 4, "{plain}");
        assert!(!plain.chars().any(|character| character != '\n' && character.is_control()), "{plain:?}");
        assert_eq!(lines(&plain), expected, "{plain}");
        let mut coloured = explanation.to_text(true);
        for style in [super::BOLD, super::DIM, super::GREEN, super::YELLOW, super::RED, super::RESET] {
            coloured = coloured.replace(style, "");
        }
        assert_eq!(coloured, plain, "our own colours and nothing else");
        assert_eq!(explanation.to_json()["directory"]["selected_backend"], text, "programs get what was said");
    }
}
