//! The wanted pointers, and how far the current position of a document is on the way to each. It is told which keys and items are
//! entered and left; it knows no bytes.

use std::sync::Arc;

use super::Slot;
use crate::extract::source::{OnDuplicateKey, Pointer};
use crate::extract::spelling::{self, Seen};

#[derive(Debug)]
struct Target {
    segments: Arc<[String]>,
    /// How many leading segments the current position matches.
    matched: usize,
    /// How many leading segments have been seen at least once.
    seen: usize,
    slot: Slot,
    /// Where the opening quote of the text stands that was found last.
    start: usize,
    /// Closed: the object that holds the last segment has ended, nothing can change the slot.
    closed: bool,
    /// Other spellings of its keys count, and which segments have one: a bit each.
    is_guarded: bool,
    spelled_otherwise: u16,
    /// A segment has two spellings.
    spelled_twice: bool,
    /// Its value is neither a text nor `null`.
    is_odd: bool,
    /// Its value is `true`.
    is_true: bool,
    /// It decides no route: twice is no fault, and the last one counts.
    is_lenient: bool,
}

/// A depth is the number of containers around a position.
#[derive(Debug)]
pub(super) struct Targets {
    list: Vec<Target>,
    on_duplicate: OnDuplicateKey,
    duplicate: bool,
}

impl Targets {
    pub(super) fn new<'a>(pointers: impl IntoIterator<Item = &'a Pointer>, on_duplicate: OnDuplicateKey) -> Self {
        let targets = pointers.into_iter().map(|pointer| Target {
            segments: pointer.segments().clone(),
            matched: 0,
            seen: 0,
            slot: Slot::Absent,
            start: 0,
            closed: false,
            is_guarded: false,
            spelled_otherwise: 0,
            spelled_twice: false,
            is_odd: false,
            is_true: false,
            is_lenient: false,
        });
        Self { list: targets.collect(), on_duplicate, duplicate: false }
    }

    /// From now on other spellings of the keys on the way to this target are noted.
    pub(super) fn guard(&mut self, index: usize) {
        self.list[index].is_guarded = true;
    }

    /// Another spelling of a guarded key was seen, or two.
    pub(super) fn spellings(&self) -> Seen {
        self.list.iter().fold(Seen::default(), |sum, target| Seen {
            other: sum.other || target.spelled_otherwise != 0,
            twice: sum.twice || target.spelled_twice,
            ..sum
        })
    }

    /// A key that appears twice on the way to this target refuses nothing.
    pub(super) fn be_lenient(&mut self, index: usize) {
        self.list[index].is_lenient = true;
    }

    pub(super) fn is_true(&self, index: usize) -> bool {
        self.list[index].is_true
    }

    pub(super) fn is_odd(&self, index: usize) -> bool {
        self.list[index].is_odd
    }

    pub(super) fn slot(&self, index: usize) -> &Slot {
        &self.list[index].slot
    }

    pub(super) fn starts_at(&self, index: usize) -> usize {
        self.list[index].start
    }

    pub(super) fn is_settled(&self, index: usize) -> bool {
        let target = &self.list[index];
        target.closed || (target.slot != Slot::Absent && self.on_duplicate == OnDuplicateKey::Reject)
    }

    pub(super) fn has_duplicate(&self) -> bool {
        self.duplicate
    }

    /// The document has ended.
    pub(super) fn finish(&mut self) {
        self.list.iter_mut().for_each(|target| target.closed = true);
    }

    /// Notes that a value starts here; true if a target wants its text.
    pub(super) fn start_value(&mut self, depth: usize, first: u8, at: usize) -> bool {
        let is_text = first == b'"';
        let mut wanted = false;
        for target in self.list.iter_mut().filter(|target| target.is_here(depth)) {
            wanted = true;
            target.is_true = first == b't';
            if is_text {
                target.start = at;
            } else {
                target.slot = Slot::NotText;
                target.is_odd = first != b'n';
            }
        }
        wanted && is_text
    }

    /// The text of the value that started here.
    pub(super) fn end_text(&mut self, depth: usize, slot: &Slot) {
        self.list.iter_mut().filter(|target| target.is_here(depth)).for_each(|target| target.slot = slot.clone());
    }

    /// True if a container that opens here may hold what is wanted.
    pub(super) fn lead_below(&self, depth: usize) -> bool {
        self.list.iter().any(|target| target.matched == depth && target.segments.len() > depth)
    }

    /// The length of the longest key that means something in the innermost container, in any spelling, and of one in ASCII. Only a wanted
    /// key beyond ASCII has an ASCII spelling of another length.
    pub(super) fn longest_key(&self, depth: usize) -> (usize, usize) {
        let (mut longest, mut in_ascii) = (0, 0);
        for target in self.list.iter().filter(|target| target.matched + 1 >= depth) {
            let Some(wanted) = target.segments.get(depth - 1) else { continue };
            longest = longest.max(if target.is_guarded { spelling::longest_variant(wanted.len()) } else { wanted.len() });
            in_ascii = in_ascii.max(wanted.len());
        }
        (longest, in_ascii)
    }

    /// The position is now below this key or index of the innermost container; `None` for one that is not wanted.
    pub(super) fn enter(&mut self, depth: usize, segment: Option<&str>) {
        for target in &mut self.list {
            target.matched = target.matched.min(depth - 1);
            let (true, Some(segment), Some(wanted)) = (target.matched + 1 == depth, segment, target.segments.get(depth - 1))
            else {
                continue;
            };
            if segment != wanted.as_str() {
                if target.is_guarded && spelling::is_case_variant(segment, wanted) {
                    target.spelled_otherwise(depth);
                }
                continue;
            }
            target.spelled_twice |= target.spelled_otherwise & (1 << (depth - 1)) != 0;
            target.matched = depth;
            if target.seen >= depth {
                self.duplicate |= self.on_duplicate == OnDuplicateKey::Reject && !target.is_lenient;
                // With `Last` all that stood below the first one is forgotten, as a map would.
                target.slot = Slot::Absent;
                target.is_odd = false;
                target.is_true = false;
                target.closed = false;
            }
            target.seen = depth;
        }
    }

    /// The innermost container ends.
    pub(super) fn leave(&mut self, depth: usize) {
        for target in &mut self.list {
            // `matched` may still count the last key of the container that ends here.
            if depth <= target.segments.len() && target.matched + 1 >= depth {
                // A parent further up may come again under `Last`: only its own end makes that impossible.
                target.closed = depth == 1 || self.on_duplicate == OnDuplicateKey::Reject;
            }
            target.matched = target.matched.min(depth.saturating_sub(1));
        }
    }
}

impl Target {
    /// A pointer has 16 segments at most.
    fn spelled_otherwise(&mut self, depth: usize) {
        let bit = 1 << (depth - 1);
        self.spelled_twice |= self.seen >= depth || self.spelled_otherwise & bit != 0;
        self.spelled_otherwise |= bit;
    }

    fn is_here(&self, depth: usize) -> bool {
        depth > 0 && self.matched == depth && self.segments.len() == depth
    }
}
