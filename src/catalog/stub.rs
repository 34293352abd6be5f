//! STUB, not for the final tree: stands in for `catalog::load` until it lands. Understands only `label: x` and `models: [a, b]`
//! one-liners, and `broken` as an error.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::snapshot::{Defaults, Revision, Snapshot, StrangerPolicy, UnknownModelPolicy};
use crate::diagnostic::{Diagnostic, Place};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    pub name: Arc<str>,
    pub text: Arc<str>,
}

impl SourceFile {
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: Arc::from(name), text: Arc::from(text) }
    }
}

pub enum LoadError {
    Unreachable(String),
    Invalid(Vec<Diagnostic>),
}

pub fn compile(texts: &[SourceFile]) -> (Option<Snapshot>, Vec<Diagnostic>) {
    let mut hash = Sha256::new();
    let mut label = None;
    for text in texts {
        let place = Place { source: text.name.clone(), line: 1, column: 1 };
        if text.text.trim().is_empty() || !text.text.contains("version: 1") {
            return (None, vec![Diagnostic::error("empty-catalog", &place, "the catalog is empty")]);
        }
        if text.text.contains("broken") {
            return (None, vec![Diagnostic::error("unknown-field", &place, "unknown field `broken`").hint("remove it")]);
        }
        hash.update(text.text.as_bytes());
        if let Some(line) = text.text.lines().find_map(|line| line.strip_prefix("label: ")) {
            label = Some(Arc::from(line));
        }
    }
    let revision: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let snapshot = Snapshot {
        revision: Revision(Arc::from(revision)),
        label,
        clusters: Vec::new(),
        groups: Vec::new(),
        models: Vec::new(),
        tenants: Vec::new(),
        providers: Vec::new(),
        tags: Vec::new(),
        cluster_ids: HashMap::new(),
        group_ids: HashMap::new(),
        model_ids: HashMap::new(),
        model_patterns: Vec::new(),
        tenant_ids: HashMap::new(),
        api_keys: HashMap::new(),
        defaults: Defaults {
            missing_tenant: StrangerPolicy::Anonymous,
            unknown_tenant: StrangerPolicy::Reject,
            unknown_model: UnknownModelPolicy::PassThrough,
            fail_closed: false,
            max_attempts: 8,
        },
        expectations: super::expectations::Expectations::default(),
    };
    (Some(snapshot), Vec::new())
}

/// Files of a path; `Err` if it cannot be reached.
pub fn read(path: &std::path::Path) -> Result<Vec<SourceFile>, LoadError> {
    read_io(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => {
            LoadError::Invalid(vec![Diagnostic::error("not-utf8", &Place::whole("catalog"), "not text")])
        }
        _ => LoadError::Unreachable(format!("{}: {error}", path.display())),
    })
}

fn read_io(path: &std::path::Path) -> Result<Vec<SourceFile>, std::io::Error> {
    let mut paths = if path.is_dir() {
        std::fs::read_dir(path)?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                !name.starts_with('.') && [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end))
            })
            .collect()
    } else {
        vec![path.to_path_buf()]
    };
    paths.sort();
    paths.into_iter().map(|path| Ok(SourceFile::new(&path.display().to_string(), &std::fs::read_to_string(&path)?))).collect()
}
