//! Where a catalog comes from: a file, a directory or a URL, read into texts. It tells a source that cannot be *reached* (wait,
//! it may come) from one that was reached; what the texts mean is `load`'s work, when to read again is `watch`'s.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::load::{self, Files, LoadError, SourceFile};
use super::remote::{Fetched, Remote};
use crate::diagnostic::Diagnostic;
use crate::diagnostic::mask::is_address;

/// What to do about a source that cannot be reached.
pub const HOW_TO_NAME: &str = "name a file, a directory or an http(s) URL with --catalog, CASCADE_CATALOG__SOURCE or \
                               catalog.source; a relative path starts at the working directory";

/// What `catalog.source` names.
#[derive(Debug)]
pub enum Origin {
    Path(PathBuf),
    Url(Remote),
}

/// What one look at the source gave.
#[derive(Debug)]
pub enum Reading {
    /// Texts, or what is wrong with the source before anyone asks what the texts mean (not UTF-8, too large).
    Found(Texts, ContentHash),
    /// The server says that nothing changed since the texts it gave last.
    NotModified,
    /// Missing, refused, timed out: no judgement on the catalog.
    Away(String),
}

pub type Texts = Result<Files, Vec<Diagnostic>>;

/// Equal for equal file names and texts. Modification times say nothing: they survive a swap of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    #[must_use]
    pub fn of(texts: &Texts) -> Self {
        let mut hash = Sha256::new();
        let mut add = |part: &str| {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        match texts {
            Ok(files) => files.texts.iter().for_each(|file| {
                add(&file.name);
                add(&file.text);
            }),
            Err(found) => found.iter().for_each(|diagnostic| {
                add(&diagnostic.place.to_string());
                add(&diagnostic.message);
            }),
        }
        Self(hash.finalize().into())
    }
}

impl From<Texts> for Reading {
    fn from(texts: Texts) -> Self {
        let hash = ContentHash::of(&texts);
        Self::Found(texts, hash)
    }
}

/// A `catalog.source` that is no path and no usable URL.
#[derive(Debug)]
pub struct BadSource(pub String);

impl fmt::Display for BadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Origin {
    /// Takes a path or an `http://` or `https://` URL.
    ///
    /// # Errors
    /// The URL cannot be parsed, or no HTTP client can be made.
    pub fn parse(source: &str) -> Result<Self, BadSource> {
        if source.starts_with("http://") || source.starts_with("https://") {
            return Remote::new(source).map(Self::Url).map_err(BadSource);
        }
        if !is_address(source) {
            return Ok(Self::Path(PathBuf::from(source)));
        }
        let is_plain = |scheme: &&str| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let scheme = source.split_once("://").map(|(scheme, _)| scheme).filter(is_plain);
        let not = scheme.map_or_else(|| "another address".to_owned(), |scheme| format!("`{scheme}://…`"));
        Err(BadSource(format!("the catalog source must be a file, a directory or an http(s) URL, not {not}")))
    }

    /// How the source is called in logs and answers: a URL without user, password and query, which may be secret.
    #[must_use]
    pub fn shown(&self) -> Arc<str> {
        match self {
            Self::Path(path) => Arc::from(path.display().to_string()),
            Self::Url(remote) => remote.shown(),
        }
    }

    /// Reads the source. Files are read on a thread that may block.
    pub async fn read(&mut self) -> Reading {
        match self {
            Self::Path(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || read_path(&path))
                    .await
                    .unwrap_or_else(|error| Reading::Away(format!("reading the catalog failed: {error}")))
            }
            Self::Url(remote) => match remote.fetch().await {
                Ok(Fetched::Text(text)) => {
                    let texts = vec![SourceFile::new(&remote.shown(), &text)];
                    Reading::from(Ok(Files { texts, ..Files::default() }))
                }
                Ok(Fetched::NotModified) => Reading::NotModified,
                Err(error) => Reading::Away(error),
            },
        }
    }

    /// Makes the next reading of a URL unconditional.
    pub fn forget(&mut self) {
        if let Self::Url(remote) = self {
            remote.forget();
        }
    }
}

/// Reads a path. Blocks, on a dead mount for ever.
#[must_use]
pub fn read_path(path: &Path) -> Reading {
    match load::read(path) {
        Ok(files) => Reading::from(Ok(files)),
        Err(LoadError::Invalid(found)) => Reading::from(Err(found)),
        Err(LoadError::Unreachable(why)) => Reading::Away(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_is_refused_is_not_shown() {
        for (source, told) in [
            ("ftp://user:secret@h", "`ftp://…`"),
            ("user:secret@h:80", "another address"),
            ("user:secret@h/x://y", "another address"),
            ("h:80?token=secret", "another address"),
        ] {
            let fault = Origin::parse(source).unwrap_err().to_string();
            assert!(fault.ends_with(told) && !fault.contains("secret"), "{fault}");
        }
    }
}
