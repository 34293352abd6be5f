//! The files of a catalog as texts: one file, or those of one directory. It bounds what it reads and knows nothing of what is in
//! them; that a source cannot be reached is told apart from a source that is wrong.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Place};
use crate::document::MAX_BYTES;

/// A text and what it is called in diagnostics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    pub name: Arc<str>,
    pub text: Arc<str>,
}

impl SourceFile {
    #[must_use]
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: Arc::from(name), text: Arc::from(text) }
    }
}

/// Why there are no texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// Not there, or not readable: it may be later.
    Unreachable(String),
    /// There, and no catalog.
    Invalid(Vec<Diagnostic>),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(reason) => f.write_str(reason),
            Self::Invalid(found) => {
                for (at, fault) in found.iter().enumerate() {
                    let separator = if at == 0 { "" } else { "; " };
                    write!(f, "{separator}{}: {}", fault.place, fault.message)?;
                }
                Ok(())
            }
        }
    }
}

/// Reads a file, or the `*.yaml`, `*.yml` and `*.json` files of a directory: not those of directories inside it, none whose name
/// starts with a dot, links followed, in the order of their names.
///
/// # Errors
/// The source cannot be reached, or it cannot be a catalog: too large, not UTF-8, a directory without such files.
pub fn read(source: &Path) -> Result<Vec<SourceFile>, LoadError> {
    let unreachable = |path: &Path, error: &io::Error| LoadError::Unreachable(format!("{}: {error}", path.display()));
    let metadata = fs::metadata(source).map_err(|error| unreachable(source, &error))?;
    let paths = if metadata.is_dir() {
        files_of(source).map_err(|(path, error)| unreachable(&path, &error))?
    } else {
        vec![(source.display().to_string(), source.to_owned())]
    };
    if paths.is_empty() {
        let message = "the directory holds no *.yaml, *.yml or *.json file";
        let fault = Diagnostic::error("no-catalog-files", &Place::whole(&source.display().to_string()), message);
        return Err(LoadError::Invalid(vec![
            fault.hint("files of directories inside it, and names that start with a dot, do not count"),
        ]));
    }
    let (mut files, mut found, mut room) = (Vec::new(), Vec::new(), MAX_BYTES as u64);
    for (name, path) in paths {
        let bytes = read_at_most(&path, room + 1).map_err(|error| unreachable(&path, &error))?;
        match room.checked_sub(bytes.len() as u64) {
            Some(left) => room = left,
            None => return Err(LoadError::Invalid(vec![too_big(&name)])),
        }
        match String::from_utf8(bytes) {
            Ok(text) => files.push(SourceFile { name: Arc::from(name), text: Arc::from(text) }),
            Err(error) => found.push(not_utf8(&name, error.as_bytes(), error.utf8_error().valid_up_to())),
        }
    }
    if found.is_empty() { Ok(files) } else { Err(LoadError::Invalid(found)) }
}

/// The names to show and the paths to read. In a mounted ConfigMap every file is a link to `..data/<name>`, and `..data` is a link
/// that is swapped: it is resolved once, so that all files come from one state of the mount. An error names what it is about: one
/// link that leads nowhere holds up the whole directory, and has to be found.
fn files_of(directory: &Path) -> Result<Vec<(String, PathBuf)>, (PathBuf, io::Error)> {
    let here = |error| (directory.to_owned(), error);
    let data = fs::canonicalize(directory.join("..data")).ok();
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(here)? {
        let entry = entry.map_err(here)?;
        let name = entry.file_name();
        let Some(text) = name.to_str() else { continue };
        if text.starts_with('.') || ![".yaml", ".yml", ".json"].iter().any(|ending| text.ends_with(ending)) {
            continue;
        }
        let path = entry.path();
        let target = fs::read_link(&path).ok().filter(|target| target.starts_with("..data"));
        let path = match (&data, target.as_ref().and_then(|target| target.strip_prefix("..data").ok())) {
            (Some(data), Some(rest)) => data.join(rest),
            _ => path,
        };
        if fs::metadata(&path).map_err(|error| (entry.path(), error))?.is_file() {
            files.push((directory.join(text).display().to_string(), path));
        }
    }
    files.sort();
    Ok(files)
}

fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn too_big(name: &str) -> Diagnostic {
    let message = format!("with this file the catalog is larger than {} MiB", MAX_BYTES / 1024 / 1024);
    Diagnostic::error("too-big", &Place::whole(name), message).hint("10,000 tenants take about 3 MB: is this the right file?")
}

fn not_utf8(name: &str, bytes: &[u8], valid: usize) -> Diagnostic {
    let before = String::from_utf8_lossy(&bytes[..valid]);
    let line = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let place = Place { source: Arc::from(name), line: number(line), column: number(column) };
    Diagnostic::error("not-utf8", &place, "is no UTF-8 text from here on").hint("save the file as UTF-8")
}

#[cfg(test)]
mod tests;
