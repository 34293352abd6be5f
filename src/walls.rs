//! Holds the source to the direction of flow: which module may import which. A module that is not listed is a fault, so that a
//! new one has to say where it stands.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const CORE: [&str; 13] = [
    "catalog",
    "diagnostic",
    "document",
    "expectations",
    "explain",
    "extract",
    "health",
    "metadata",
    "names",
    "outcome",
    "resolve",
    "session",
    "walls",
];

/// Files (the longest matching prefix counts) and the modules that they may import, besides their own.
const WALLS: &[(&str, &[&str])] = &[
    ("names", &[]),
    ("metadata", &[]),
    ("outcome", &[]),
    ("diagnostic", &["document"]),
    ("document", &["diagnostic", "names"]),
    // Bytes become facts without a catalog.
    ("extract", &["document"]),
    // A catalog is compiled without a request.
    ("catalog", &["diagnostic", "document", "metadata", "names", "outcome"]),
    // Cooldowns know no catalog and no clock.
    ("health", &[]),
    // A decision knows no bytes and no protobuf.
    // A directory's answer is data; nobody is asked for it.
    ("session", &["metadata"]),
    ("resolve", &["catalog", "diagnostic", "extract", "health", "names", "outcome", "session"]),
    ("resolve/tests", &["catalog", "document", "explain", "extract", "health", "outcome", "session", "settings"]),
    ("resolve/affinity/tests", &["catalog", "explain", "extract", "health", "outcome", "session"]),
    ("resolve/sticky/tests", &["catalog", "explain", "extract", "health", "session"]),
    ("resolve/properties", &["catalog", "explain", "extract", "health", "outcome", "session"]),
    ("explain", &["catalog", "diagnostic", "extract", "health", "outcome", "resolve", "session"]),
    ("expectations", &["catalog", "diagnostic", "explain", "extract", "health", "names", "outcome", "resolve", "session"]),
    // Tests that hold what is shipped, and what is said, to what is done.
    ("documented", &["extract", "outcome"]),
    ("shipped", &["catalog", "document", "expectations", "explain"]),
    // Envoy's vocabulary: it writes down what was decided.
    ("proto", &[]),
    ("encode", &["catalog", "diagnostic", "extract", "outcome", "proto", "resolve", "settings"]),
    // A stream does not know what a model is.
    ("extproc/exchange", &["encode", "proto"]),
    ("extproc/codec", &["encode", "proto"]),
    ("extproc/intake", &["extract", "proto"]),
    ("extproc/arriving", &["pipeline"]),
    ("extproc/service", &["encode", "pipeline", "proto"]),
    ("extproc/upstream", &["encode", "extract", "pipeline", "proto"]),
    ("extproc", &[]),
    ("secret", &[]),
    ("settings", &["catalog", "diagnostic", "document", "explain", "extract", "health", "outcome", "resolve", "session"]),
    ("telemetry", &["catalog", "names", "outcome", "session", "settings", "diagnostic"]),
    // The shell of sessions: whom to ask, how long an answer holds.
    // Bytes to and from Redis, whatever they mean.
    ("line", &[]),
    ("directory", &["line", "session", "settings", "telemetry"]),
    ("directory/tests", &["lab", "line", "session", "settings", "telemetry"]),
    // What Envoy tells of attempts becomes health, and sessions that come back to what served them.
    ("feedback", &["catalog", "health", "line", "proto", "secret", "settings", "telemetry"]),
    ("feedback/learn", &["catalog", "directory", "proto", "resolve", "telemetry"]),
    ("feedback/reader", &["catalog", "directory", "health", "proto", "secret", "settings", "telemetry"]),
    ("feedback/service", &["catalog", "directory", "health", "proto", "secret", "settings", "telemetry"]),
    // The shell of the catalog: files, URLs, time.
    ("catalog/store", &["telemetry"]),
    ("catalog/watch", &["catalog", "diagnostic", "expectations", "explain", "settings", "telemetry"]),
    ("catalog/origin", &["catalog", "diagnostic"]),
    ("catalog/remote", &["catalog", "document"]),
    ("catalog/last_good", &["catalog"]),
    (
        "pipeline",
        &[
            "catalog",
            "directory",
            "encode",
            "explain",
            "extproc",
            "extract",
            "feedback",
            "health",
            "outcome",
            "proto",
            "resolve",
            "secret",
            "session",
            "settings",
            "telemetry",
        ],
    ),
    (
        "admin",
        &[
            "catalog",
            "document",
            "explain",
            "extract",
            "feedback",
            "health",
            "outcome",
            "pipeline",
            "secret",
            "server",
            "settings",
            "telemetry",
        ],
    ),
    ("server", &["admin", "catalog", "feedback", "pipeline", "secret", "settings", "telemetry"]),
];

/// May import everything: they put the parts together.
const TOP: [&str; 5] = ["cli", "demo", "lab", "main", "lib"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules after `crate::`, in `use` lines and in paths, tests apart.
fn imports(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let names = code.split("crate::").skip(1).map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
    names.filter(|name: &String| !name.is_empty()).collect()
}

#[test]
fn imports_follow_the_direction_of_flow() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 30, "the sources are missing");
    let mut faults = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap().with_extension("").display().to_string();
        let module = name.split('/').next().unwrap_or_default();
        if TOP.contains(&module) || module == "walls" {
            continue;
        }
        let rule = WALLS
            .iter()
            .filter(|(prefix, _)| name == *prefix || name.starts_with(&format!("{prefix}/")))
            .max_by_key(|(prefix, _)| prefix.len());
        let Some((_, allowed)) = rule else {
            faults.push(format!("{name} has no place in walls.rs"));
            continue;
        };
        for import in imports(&fs::read_to_string(&file).unwrap()) {
            if import != module && !allowed.contains(&import.as_str()) {
                faults.push(format!("{name} imports {import}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_core_imports_nothing_of_the_shell() {
    for (prefix, allowed) in WALLS {
        // Cases may bring settings of their own; the test reads them, the core does not.
        let is_test = prefix.ends_with("/tests");
        let is_shell = is_test || prefix.starts_with("catalog/") || !CORE.contains(&prefix.split('/').next().unwrap_or_default());
        assert!(is_shell || allowed.iter().all(|module| CORE.contains(module)), "{prefix}");
    }
}
