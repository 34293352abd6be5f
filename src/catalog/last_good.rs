//! `catalog.last_good`: the texts of the last accepted catalog on disk, so that a restart while the source is bad or away does
//! not leave Cascade empty-handed. One file, replaced by rename: it is either the whole old one or the whole new one. It does
//! not judge: what it gives back is compiled like any other source.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::load::SourceFile;

/// No ending of a catalog file: it may lie in the very directory that is the source.
const FILE: &str = "last-good.bundle";

/// The directory.
#[derive(Debug, Clone)]
pub struct LastGood {
    directory: PathBuf,
}

/// What was saved.
#[derive(Debug, PartialEq, Eq)]
pub struct Saved {
    pub source: String,
    pub accepted_at: SystemTime,
    pub texts: Vec<SourceFile>,
}

impl LastGood {
    #[must_use]
    pub fn new(directory: &str) -> Self {
        Self { directory: PathBuf::from(directory) }
    }

    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Replaces what was saved; makes the directory if need be. Blocks.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn save(&self, source: &str, accepted_at: SystemTime, texts: &[SourceFile]) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let temporary = self.directory.join(format!(".{FILE}.{}", std::process::id()));
        let written = write_private(&temporary, |file| write(file, source, accepted_at, texts))
            .and_then(|()| fs::rename(&temporary, self.path()));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        // The rename itself must survive a power cut too; a file system that cannot sync a directory has done what it can.
        let _ = File::open(&self.directory).and_then(|directory| directory.sync_all());
        Ok(())
    }

    /// Puts what was saved out of the way of [`LastGood::load`]; where it is now, if anything was there. Blocks.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn set_aside(&self) -> io::Result<Option<PathBuf>> {
        let aside = self.directory.join(format!("{FILE}.stale"));
        match fs::rename(self.path(), &aside) {
            Ok(()) => Ok(Some(aside)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What was saved last; `None` if nothing ever was. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or is not one of ours.
    pub fn load(&self) -> io::Result<Option<Saved>> {
        let text = match fs::read_to_string(self.path()) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        parse(&text).map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a file that Cascade saved"))
    }
}

/// API keys are in a catalog as hashes; even so, only the owner may read the copy.
fn write_private(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = BufWriter::new(options.open(path)?);
    write(&mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Text by text: the whole bundle in memory would be a second catalog, and a third.
fn write(out: &mut impl Write, source: &str, accepted_at: SystemTime, texts: &[SourceFile]) -> io::Result<()> {
    let seconds = accepted_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    write!(out, "{{\"format\":1,\"source\":{},\"accepted_at\":{seconds},\"files\":[", json!(source))?;
    for (at, file) in texts.iter().enumerate() {
        out.write_all(if at == 0 { b"{\"name\":" } else { b",{\"name\":" })?;
        serde_json::to_writer(&mut *out, &*file.name)?;
        out.write_all(b",\"text\":")?;
        serde_json::to_writer(&mut *out, &*file.text)?;
        out.write_all(b"}")?;
    }
    out.write_all(b"]}")
}

fn parse(text: &str) -> Option<Saved> {
    let bundle: Value = serde_json::from_str(text).ok()?;
    if bundle.get("format")?.as_u64()? != 1 {
        return None;
    }
    let texts = bundle
        .get("files")?
        .as_array()?
        .iter()
        .map(|file| Some(SourceFile::new(file.get("name")?.as_str()?, file.get("text")?.as_str()?)));
    Some(Saved {
        source: bundle.get("source")?.as_str()?.to_owned(),
        accepted_at: UNIX_EPOCH + Duration::from_secs(bundle.get("accepted_at")?.as_u64()?),
        texts: texts.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_comes_back_whole() {
        let directory = tempfile::tempdir().unwrap();
        let last_good = LastGood::new(directory.path().join("made").to_str().unwrap());
        assert_eq!(last_good.load().unwrap(), None);
        let texts = vec![SourceFile::new("a.yaml", "version: 1\n\"ä\"")];
        let at = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        last_good.save("a", at, &[]).unwrap();
        last_good.save("a", at, &texts).unwrap();
        assert_eq!(last_good.load().unwrap(), Some(Saved { source: "a".to_owned(), accepted_at: at, texts }));
        let names: Vec<_> =
            fs::read_dir(directory.path().join("made")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [FILE], "no temporary file stays behind");
    }

    #[test]
    fn what_is_set_aside_is_not_found_and_not_lost() {
        let directory = tempfile::tempdir().unwrap();
        let last_good = LastGood::new(directory.path().to_str().unwrap());
        assert_eq!(last_good.set_aside().unwrap(), None);
        let texts = [SourceFile::new("a.yaml", "x"), SourceFile::new("b \"quoted\".yaml", "y\n\u{1}")];
        last_good.save("a", UNIX_EPOCH, &texts).unwrap();
        assert_eq!(last_good.load().unwrap().unwrap().texts, texts);
        let aside = last_good.set_aside().unwrap().unwrap();
        assert_eq!(last_good.load().unwrap(), None);
        assert!(fs::read_to_string(aside).unwrap().contains("quoted"));
    }

    #[test]
    fn a_file_that_is_not_ours_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let last_good = LastGood::new(directory.path().to_str().unwrap());
        for text in ["", "{}", "{\"format\":2}", "version: 1"] {
            fs::write(last_good.path(), text).unwrap();
            assert!(last_good.load().is_err(), "{text}");
        }
    }
}
