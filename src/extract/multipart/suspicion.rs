//! What another parser of multipart bodies may read in another way than this one: parts outside the delimiters, delimiters after other
//! line breaks, headers that are not plain, names that are nearly the wanted one. Rare in honest bodies, and each is read differently
//! by at least one parser that providers use.

use memchr::memmem::Finder;

use super::disposition::Part;
use crate::extract::Trouble;
use crate::extract::spelling::{Seen, is_form_variant};

const OUTSIDE: &str = "the multipart body holds something before its first or behind its last delimiter";
const HEADERS: &str = "the headers of a multipart part can be read in two ways";
const DELIMITER: &str = "the multipart body holds its boundary where no delimiter is";
const FILENAME: &str = "the part has a filename, and it is empty";
const ENCODED: &str = "the part is encoded, or not in UTF-8";
const SPELLING: &str = "the name of a part is spelled in another way than the wanted one";

#[derive(Debug)]
pub(super) struct Suspicion {
    /// `--boundary`, which belongs to no content.
    boundary: Finder<'static>,
    /// The end of the content read so far, shorter than the boundary.
    tail: Vec<u8>,
    /// The wanted names that count, each with the spellings seen of it.
    guarded: Vec<(String, Seen)>,
    unclear: Option<&'static str>,
}

impl Suspicion {
    pub(super) fn new(boundary: &str) -> Self {
        let boundary = Finder::new(format!("--{boundary}").as_bytes()).into_owned();
        Self { boundary, tail: Vec::new(), guarded: Vec::new(), unclear: None }
    }

    pub(super) fn guard(&mut self, name: &str) {
        self.guarded.push((name.to_owned(), Seen::default()));
    }

    pub(super) fn doubt(&self) -> Option<Trouble> {
        if self.guarded.iter().any(|(_, seen)| seen.twice) {
            return Some(Trouble::DuplicateKey);
        }
        let spelling = self.guarded.iter().any(|(_, seen)| seen.other).then_some(SPELLING);
        self.unclear.filter(|_| !self.guarded.is_empty()).or(spelling).map(Trouble::Malformed)
    }

    fn note(&mut self, why: &'static str) {
        self.unclear.get_or_insert(why);
    }

    /// Bytes that belong to no part; line breaks and blanks are nothing.
    pub(super) fn outside(&mut self, bytes: &[u8]) {
        if self.unclear.is_none() && !bytes.trim_ascii().is_empty() {
            self.note(OUTSIDE);
        }
    }

    /// Content of a part, or what comes before the first one.
    pub(super) fn content(&mut self, bytes: &[u8]) {
        if self.unclear.is_some() || self.guarded.is_empty() || bytes.is_empty() {
            return;
        }
        let keep = self.boundary.needle().len() - 1;
        let seam = bytes.len().min(keep);
        self.tail.extend_from_slice(&bytes[..seam]);
        if self.boundary.find(&self.tail).is_some() || self.boundary.find(bytes).is_some() {
            self.note(DELIMITER);
        }
        if bytes.len() > keep {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - keep..]);
        } else {
            self.tail.drain(..self.tail.len().saturating_sub(keep));
        }
    }

    pub(super) fn end_content(&mut self) {
        self.tail.clear();
    }

    pub(super) fn part(&mut self, part: &Part) {
        if !part.is_plain {
            self.note(HEADERS);
        }
        let Some(name) = &part.name else { return };
        let is_file = part.filename.as_deref().is_some_and(|filename| !filename.is_empty());
        let Some((wanted, seen)) = self.guarded.iter_mut().find(|(wanted, _)| wanted == name || is_form_variant(name, wanted))
        else {
            return;
        };
        match (wanted == name, is_file) {
            (true, false) => seen.note_exact(),
            (false, false) => seen.note_other(),
            (_, true) => return,
        }
        if part.filename.is_some() {
            self.note(FILENAME);
        }
        if !part.is_plain_text {
            self.note(ENCODED);
        }
    }
}
