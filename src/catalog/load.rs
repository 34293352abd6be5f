//! The files of a catalog as texts: one file, or those of one directory. It bounds what it reads and knows nothing of what is in
//! them; that a source cannot be reached is distinguished from a source that is wrong.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

mod listing;

use self::listing::Listed;
pub use self::listing::is_catalog_file;
use crate::diagnostic::{Diagnostic, Place};
use crate::document::MAX_BYTES;

/// How often a directory that changes while it is read is listed again.
const LISTINGS: u32 = 4;

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

/// What a source holds.
#[derive(Debug, Clone, Default)]
pub struct Files {
    pub texts: Vec<SourceFile>,
    /// What lies there and is not read, though its name looks as if it should be.
    pub warnings: Vec<Diagnostic>,
    /// When a file or a directory of them was changed last, by the clock of the file system. Renaming counts, copied times do not.
    pub changed: Option<SystemTime>,
    /// Where the links of the source lead.
    pub resolved: Option<PathBuf>,
}

/// Reads a file, or the `*.yaml`, `*.yml` and `*.json` files of a directory: not those of directories inside it, none whose name
/// starts with a dot, links followed, in the order of their names.
///
/// # Errors
/// The source cannot be reached, or it cannot be a catalog: too large, not UTF-8, no regular file, a directory without such files.
pub fn read(source: &Path) -> Result<Files, LoadError> {
    let resolved = fs::canonicalize(source).ok();
    Ok(Files { resolved, ..read_as_named(source)? })
}

fn read_as_named(source: &Path) -> Result<Files, LoadError> {
    let metadata = fs::metadata(source).map_err(|error| unreachable(source, &error))?;
    if !metadata.is_dir() {
        let file = Listed { name: source.display().to_string(), path: source.to_owned() };
        return texts(&[file], Vec::new(), changed(&metadata));
    }
    let (mut listed, mut tries) = (listing::of(source)?, LISTINGS);
    loop {
        let files = texts(&listed.files, listed.warnings.clone(), listed.changed)?;
        // A file that came or went while the others were read: what was read may be of two states.
        let again = listing::of(source)?;
        tries -= 1;
        if again == listed || tries == 0 {
            return if listed.files.is_empty() { Err(nothing(source, listed.warnings)) } else { Ok(files) };
        }
        listed = again;
    }
}

fn unreachable(path: &Path, error: &io::Error) -> LoadError {
    LoadError::Unreachable(format!("{}: {error}", path.display()))
}

fn nothing(source: &Path, mut found: Vec<Diagnostic>) -> LoadError {
    let message = "the directory holds no *.yaml, *.yml or *.json file";
    let fault = Diagnostic::error("no-catalog-files", &Place::whole(&source.display().to_string()), message);
    found.push(fault.hint("files of directories inside it, and names that start with a dot, do not count"));
    LoadError::Invalid(found)
}

fn texts(listed: &[Listed], warnings: Vec<Diagnostic>, mut newest: Option<SystemTime>) -> Result<Files, LoadError> {
    let (mut files, mut found, mut room) = (Vec::new(), Vec::new(), MAX_BYTES as u64);
    for Listed { name, path } in listed {
        let metadata = fs::metadata(path).map_err(|error| unreachable(path, &error))?;
        if !metadata.is_file() {
            // Opening it could wait for ever, for a writer that never comes.
            found.push(special(name));
            continue;
        }
        newest = newest.max(changed(&metadata));
        let bytes = read_at_most(path, room + 1).map_err(|error| unreachable(path, &error))?;
        match room.checked_sub(bytes.len() as u64) {
            Some(left) => room = left,
            None => return Err(LoadError::Invalid(vec![too_big(name)])),
        }
        match String::from_utf8(bytes) {
            Ok(text) => files.push(SourceFile { name: Arc::from(name.as_str()), text: Arc::from(text) }),
            Err(error) => found.push(not_utf8(name, error.as_bytes(), error.utf8_error().valid_up_to())),
        }
    }
    if found.is_empty() {
        Ok(Files { texts: files, warnings, changed: newest, resolved: None })
    } else {
        Err(LoadError::Invalid(found))
    }
}

/// The time of the last change of the file itself, which a writer cannot choose (`cp -p` and `rsync -t` set the other one).
#[cfg(unix)]
fn changed(metadata: &fs::Metadata) -> Option<SystemTime> {
    use std::os::unix::fs::MetadataExt;
    let seconds = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
    UNIX_EPOCH.checked_add(seconds + Duration::from_nanos(u64::try_from(metadata.ctime_nsec()).ok()?))
}

#[cfg(not(unix))]
fn changed(metadata: &fs::Metadata) -> Option<SystemTime> {
    metadata.modified().ok()
}

fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn special(name: &str) -> Diagnostic {
    let message = "is neither a file nor a directory: a pipe, a socket or a device could keep its reader waiting for ever";
    Diagnostic::error("special-file", &Place::whole(name), message).hint("write the catalog to a file")
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
    Diagnostic::error("not-utf8", &place, "is not UTF-8 text from here on").hint("save the file as UTF-8")
}

#[cfg(test)]
mod tests;
