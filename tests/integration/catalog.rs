//! Catalogs to serve: small, told apart by their label.

use std::path::PathBuf;

/// A good catalog: model `m` with alias `alias`, tenants `acme` (open) and `eu` (restricted), one group of two clusters.
pub fn good(label: &str) -> String {
    format!(
        "version: 1
label: {label}
clusters:
  left: {{provider: p, tags: [eu]}}
  right: {{provider: p, drained: true}}
priority_groups:
  both: {{clusters: [{{cluster_name: left, weight: 80}}, {{cluster_name: right, weight: 20}}]}}
  backup: {{clusters: [{{cluster_name: spare, weight: 1}}]}}
models:
  m: {{aliases: [alias], chain: [both, backup]}}
tenants:
  acme: {{api_keys: [\"sha256:{key}\"]}}
  eu: {{require_tags: [eu]}}
defaults: {{missing_tenant: anonymous}}
",
        key = "5ec4e7".repeat(11).split_at(64).0
    )
}

/// A directory for a catalog and what a test needs besides.
pub struct Home(tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With a good catalog in `catalog.yaml`.
    pub fn with_catalog(label: &str) -> Self {
        let home = Self::new();
        home.write("catalog.yaml", &good(label));
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes in place: truncates, then writes.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Replaces by rename, as careful writers do.
    pub fn replace(&self, name: &str, text: &str) {
        self.write(".new", text);
        std::fs::rename(self.path(".new"), self.path(name)).unwrap();
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.path(name)).unwrap();
    }
}
