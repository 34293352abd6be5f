//! Every kind of fault, as data: `tests/cases/catalog/*` holds catalogs with faults, and beside each what an operator gets to read.
//! Set `UPDATE_EXPECTED=1` to write the answers anew, then read them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::compile;
use crate::catalog::load::SourceFile;
use crate::diagnostic::{Diagnostic, codes, render};

/// Codes of diagnostics that no catalog's text can cause, or that are tested beside the code that makes them.
const ELSEWHERE: &[&str] = &[
    // The settings' tests.
    "bad-address",
    "bad-source",
    "empty-directory",
    "learns-nothing",
    "limits-disagree",
    "no-feedback",
    "no-model-source",
    "no-session-source",
    "not-available",
    "random-secret",
    "rejects-nothing",
    "same-namespace",
    "shared-sessions",
    "unknown-variable",
    "untrusted-tenant",
    "unused-setting",
    // Those of `load`, `document` and the command line.
    "file-not-read",
    "no-catalog-files",
    "not-utf8",
    "special-file",
    "too-big",
    "too-deep",
    "unreachable",
    "unreadable",
    "unreadable-secret",
    // Running a catalog's tests and invariants.
    "failing-test",
    "tenant-without-cluster",
    "violated-invariant",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/catalog")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries.retain(|path| path.extension().is_none_or(|extension| extension != "txt"));
    entries
}

fn files(case: &Path) -> Vec<SourceFile> {
    let read =
        |path: &Path| SourceFile::new(&path.file_name().unwrap().display().to_string(), &fs::read_to_string(path).unwrap());
    if case.is_dir() { entries(case).iter().map(|path| read(path)).collect() } else { vec![read(case)] }
}

fn findings(files: &[SourceFile]) -> Vec<Diagnostic> {
    match compile(files) {
        Ok(accepted) => accepted.warnings,
        Err(found) => found,
    }
}

#[test]
fn every_fault_is_reported_with_its_place_its_code_and_a_hint() {
    let mut seen = BTreeSet::new();
    for case in entries(&root()) {
        let files = files(&case);
        let found = findings(&files);
        assert!(!found.is_empty(), "{}: nothing was found", case.display());
        let without_hint: Vec<&Diagnostic> = found.iter().filter(|fault| fault.hint.is_none()).collect();
        assert!(without_hint.is_empty(), "{}: {without_hint:#?}", case.display());
        seen.extend(found.iter().map(|fault| fault.code));
        let text = |name: &str| files.iter().find(|file| &*file.name == name).map(|file| &*file.text);
        let shown = render::text(&found, text, false, None);
        for secret in ["sk-live", "9f86d081", "9F86D081"] {
            assert!(!shown.contains(secret), "{}: a key is shown", case.display());
        }
        let path = case.with_file_name(format!("{}.txt", case.file_name().unwrap().display()));
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            fs::write(&path, &shown).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert!(shown == expected, "{}:\n{shown}", path.display());
    }
    let known: BTreeSet<&str> = codes::CODES.iter().map(|(code, _)| *code).filter(|code| !ELSEWHERE.contains(code)).collect();
    assert_eq!(known.difference(&seen).collect::<Vec<_>>(), Vec::<&&str>::new(), "codes without a case");
    assert_eq!(seen.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new(), "codes that are not listed");
}

#[test]
fn codes_are_sorted_and_explained() {
    assert!(codes::CODES.is_sorted());
    assert!(codes::CODES.iter().all(|(code, meaning)| code.len() > 2 && meaning.len() > 10));
}
