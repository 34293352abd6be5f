//! Which files of a directory belong to a catalog, and which only look as if they did. It reads no file.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{LoadError, changed, unreachable};
use crate::diagnostic::{Diagnostic, Place};
use crate::document::suggest::nearest;

const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// A file to read, and what to call it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) files: Vec<Listed>,
    pub(super) warnings: Vec<Diagnostic>,
    /// When an entry of the directory was added, renamed or removed last.
    pub(super) changed: Option<SystemTime>,
}

/// The names to show and the paths to read. In a mounted ConfigMap every file is a link to `..data/<name>`, and `..data` is a link
/// that is swapped: it is resolved once, so that all files come from one state of the mount. An error names what it is about: one
/// link that leads nowhere holds up the whole directory, and has to be found.
pub(super) fn of(directory: &Path) -> Result<Listing, LoadError> {
    let here = |error: io::Error| unreachable(directory, &error);
    let data = fs::canonicalize(directory.join("..data")).ok();
    let (mut files, mut warnings) = (Vec::new(), Vec::new());
    let changed = changed(&fs::metadata(directory).map_err(here)?);
    for entry in fs::read_dir(directory).map_err(here)? {
        let path = entry.map_err(here)?.path();
        let name = path.file_name().unwrap_or_default();
        if !is_catalog_file(name) {
            if let Some(why) = looks_like_one(name).filter(|_| path.is_file()) {
                warnings.push(not_read(&path, &why));
            }
            continue;
        }
        let name = path.display().to_string();
        let target = fs::read_link(&path).ok().filter(|target| target.starts_with("..data"));
        let inside = match (&data, target.as_ref().and_then(|target| target.strip_prefix("..data").ok())) {
            (Some(data), Some(rest)) => data.join(rest),
            _ => path.clone(),
        };
        // Named as in the directory, whatever the link leads to.
        if fs::metadata(&inside).map_err(|error| unreachable(&path, &error))?.is_dir() {
            continue;
        }
        files.push(Listed { name, path: inside });
    }
    files.sort();
    warnings.sort_by(|a, b| a.place.cmp(&b.place));
    Ok(Listing { files, warnings, changed })
}

/// True for `*.yaml`, `*.yml` and `*.json` that do not start with a dot.
#[must_use]
pub fn is_catalog_file(name: &OsStr) -> bool {
    let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { return false };
    name.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

/// Why a file is not read whose author may think that it is. Backups and swap files of editors are left alone.
fn looks_like_one(name: &OsStr) -> Option<String> {
    let lossy = name.to_string_lossy();
    if lossy.starts_with(['.', '#']) || lossy.ends_with(['~', '#']) {
        return None;
    }
    let trimmed = lossy.trim();
    let trimmed = trimmed.strip_suffix(".txt").unwrap_or(trimmed).trim_end_matches('.');
    let ending = trimmed.rsplit_once('.')?.1.to_lowercase();
    if !ENDINGS.contains(&ending.as_str()) && !["jsonc", "json5"].contains(&ending.as_str()) {
        nearest(&ending, ENDINGS)?;
    }
    Some(if name.to_str().is_none() {
        "its name is not UTF-8".to_owned()
    } else {
        "its name does not end in `.yaml`, `.yml` or `.json`, in small letters".to_owned()
    })
}

fn not_read(path: &Path, why: &str) -> Diagnostic {
    let message = format!("this file is not read: {why}");
    let hint = "rename it if it belongs to the catalog, or move it out of the directory";
    Diagnostic::warning("file-not-read", &Place::whole(&path.display().to_string()), message).hint(hint)
}
