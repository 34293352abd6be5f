//! What holds for every catalog: how it is cut into files does not matter, and nothing that is written makes the compiler panic.

use proptest::prelude::*;

use super::compile;
use super::semantics::{GROUND, accepted};
use crate::catalog::load::SourceFile;
use crate::catalog::snapshot::{Served, Snapshot};
use crate::diagnostic::Diagnostic;

/// The sections of a catalog, each of which may stand in a file of its own.
fn sections() -> Vec<String> {
    let rest = "tenants:\n  acme: {tier: t}\n  globex: {chains: {gpt: [second]}}\ntiers:\n  t: {require_tags: [eu]}\ndefaults:\n  fail: closed\n";
    let text = format!("{}{rest}", GROUND.trim_start());
    let mut sections: Vec<String> = Vec::new();
    for line in text.lines() {
        if !line.starts_with(' ') {
            sections.push(String::new());
        }
        sections.last_mut().unwrap().push_str(&format!("{line}\n"));
    }
    sections
}

/// What a snapshot says, without places.
fn said(snapshot: &Snapshot) -> String {
    let mut clusters = snapshot.clusters.clone();
    let mut served = Vec::new();
    for cluster in &mut clusters {
        if let Served::Only(models) = std::mem::replace(&mut cluster.served, Served::Every) {
            served.push(models.into_iter().collect::<std::collections::BTreeMap<_, _>>());
        }
    }
    let text = format!("{:?}", (clusters, served, &snapshot.groups, &snapshot.models, &snapshot.tenants, &snapshot.defaults));
    let mut said = String::new();
    for (at, part) in text.split("Place {").enumerate() {
        said.push_str(if at == 0 { part } else { part.split_once('}').unwrap().1 });
    }
    said
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn how_a_catalog_is_cut_into_files_never_matters(names in proptest::collection::vec(0_u8..4, 8), order in any::<prop::sample::Index>()) {
        let sections = sections();
        let whole = accepted(&[&sections.concat()]);
        let mut cut: Vec<SourceFile> = Vec::new();
        for name in 0..4 {
            let mine = sections.iter().zip(&names).filter(|(_, file)| **file == name).map(|(section, _)| section.as_str());
            let text: String = mine.collect();
            if !text.is_empty() {
                cut.push(SourceFile::new(&format!("{name}.yaml"), &text));
            }
        }
        let at = order.index(cut.len());
        cut.rotate_left(at);
        let pieces = compile(&cut).unwrap();
        prop_assert_eq!(&pieces.snapshot.revision, &whole.snapshot.revision);
        prop_assert_eq!(said(&pieces.snapshot), said(&whole.snapshot));
        prop_assert_eq!(pieces.warnings.len(), whole.warnings.len());
    }

    #[test]
    fn no_change_of_a_catalog_makes_the_compiler_panic(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4),
        put in "[-:{}\\[\\],&*\" a1é\n]{0,4}",
    ) {
        let enterprise = include_str!("../../../catalogs/tenant-chains/catalog.yaml");
        let cases = [format!("{GROUND}tenants: {{acme: {{chains: {{\"*\": [model_chain]}}}}}}\n"), enterprise.to_owned()];
        for mut text in cases {
            for (from, to) in &cuts {
                let (from, to) = (from.index(text.len()), to.index(text.len()));
                let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 12));
                if text.is_char_boundary(from) && text.is_char_boundary(to) {
                    text.replace_range(from..to, &put);
                }
            }
            if let Err(found) = compile(&[SourceFile::new("a.yaml", &text)]) {
                prop_assert!(!crate::diagnostic::acceptable(&found));
                let lines = u32::try_from(text.lines().count()).unwrap() + 1;
                prop_assert!(found.iter().all(|fault: &Diagnostic| fault.place.line <= lines), "{found:?}");
            }
        }
    }

    #[test]
    fn no_bytes_make_the_compiler_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        for name in ["a.yaml", "a.json"] {
            let _ = compile(&[SourceFile::new(name, &text)]);
        }
    }
}
