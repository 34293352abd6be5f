//! Holds what ships in `catalogs/` to what is said of it: every catalog is accepted without a warning and passes its own tests, its
//! files fit the schema that they name, and the schema is the one that this version prints.

use std::fs;
use std::path::{Path, PathBuf};

use crate::catalog::{document as catalog_document, load};
use crate::document::{Format, parse};
use crate::expectations::accept;
use crate::explain::Rules;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogs")
}

fn catalogs() -> Vec<PathBuf> {
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let mut catalogs: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    catalogs.sort();
    catalogs
}

#[test]
fn every_shipped_catalog_is_accepted_without_a_warning() {
    let names: Vec<String> = catalogs().iter().map(|path| path.file_name().unwrap().display().to_string()).collect();
    assert_eq!(
        names,
        ["enterprise", "fallback-80-20", "onprem-overflow", "quickstart", "sessions", "tenant-chains", "two-attempts"]
    );
    for catalog in catalogs() {
        let accepted = accept(&load::read(&catalog).unwrap().texts, &Rules::default()).unwrap();
        assert_eq!(accepted.warnings, [], "{}", catalog.display());
        assert!(!accepted.snapshot.expectations.tests.is_empty(), "{} has no tests", catalog.display());
    }
}

#[test]
fn every_shipped_catalog_names_the_schema_and_fits_it() {
    let schema = jsonschema::validator_for(&catalog_document::json_schema()).unwrap();
    for file in catalogs().iter().flat_map(|catalog| load::read(catalog).unwrap().texts) {
        let first = file.text.lines().next().unwrap();
        assert_eq!(first, "# yaml-language-server: $schema=../catalog.schema.json", "{}", file.name);
        let (node, found) = parse(&file.name, &file.text, Format::of(&file.name));
        assert_eq!(found, []);
        let json = node.unwrap().to_json().unwrap();
        let faults: Vec<String> =
            schema.iter_errors(&json).map(|fault| format!("{fault} at {}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{}: {faults:#?}", file.name);
    }
}

/// Set `UPDATE_EXPECTED=1` to write the schema anew.
#[test]
fn the_committed_schema_is_the_one_that_is_printed() {
    let path = root().join("catalog.schema.json");
    let current = format!("{:#}\n", catalog_document::json_schema());
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&path, &current).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    assert!(committed == current, "run `cascade schema catalog > catalogs/catalog.schema.json`");
}

#[test]
fn what_the_schema_refuses_the_compiler_refuses_too() {
    let schema = jsonschema::validator_for(&catalog_document::json_schema()).unwrap();
    for text in [
        "versoin: 1",
        "version: 2",
        "clusters: {a: {tags: eu}}",
        "clusters: {a: {models: 3}}",
        "priority_groups: {g: {clusters: [{cluster_name: a, weight: -1}]}}",
        "priority_groups: {g: {clusters: [{cluster_name: a}]}}",
        "models: {m: {}}",
        "models: {m: {chain: [1]}}",
        "tenants: {t: {api_keys: [key]}}",
        "tenants: {\"\": {}}",
        "tiers: {t: {api_keys: []}}",
        "defaults: {max_attempts: 0}",
        "defaults: {unknown_model: sometimes}",
        "tests: [{request: {}}]",
        "invariants: [{never: [timeout]}]",
    ] {
        let (node, _) = parse("a.yaml", text, Format::Yaml);
        assert!(!schema.is_valid(&node.unwrap().to_json().unwrap()), "{text}");
        assert!(accept(&[load::SourceFile::new("a.yaml", text)], &Rules::default()).is_err(), "{text}");
    }
}
