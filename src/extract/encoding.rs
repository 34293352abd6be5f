//! `content-encoding` undone for inspection alone: the bytes that are forwarded stay as they came. It works in slices: each takes
//! little of the body and is little work, so that nobody waits for a body that was made to be slow. Layers hand their bytes on
//! through small buffers, so that memory does not grow with the body; each has a budget of its own.

mod brotli;
mod budget;
mod coding;

use self::budget::Budget;
use self::coding::Coding;
use super::body::Scanner;
use super::head::Head;
use super::json::Malformed;
use super::{Slice, Trouble};

/// How much of a plain body is read at once, in bytes: some 10 µs for most JSON, and under a quarter millisecond for the slowest.
const SLICE: usize = 8 * 1024;
/// The same for a compressed body, in bytes as they were sent, and the work after which a slice ends, in [`Budget::units`].
const CODED_SLICE: usize = 1024;
const SLICE_UNITS: u64 = 16 * 1024;
/// What a layer keeps of what came out of it, in bytes.
const BUFFER: usize = 8 * 1024;

const NOT_AS_SAID: Failure = Failure::Malformed("the body is not compressed as its content-encoding says");
const TOO_MANY: &str = "the body has more codings than limits.max_codings allows";
const UNKNOWN: &str = "the body has a content-encoding that is not known here";

/// Why a body cannot be inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Malformed(&'static str),
    /// It comes out larger than it may, or takes more work than it may.
    TooLarge,
}

impl Failure {
    /// What it means for the request.
    #[must_use]
    pub fn trouble(self) -> Trouble {
        match self {
            Self::Malformed(why) => Trouble::Malformed(why),
            Self::TooLarge => Trouble::TooLarge,
        }
    }
}

impl From<Malformed> for Failure {
    fn from(Malformed(why): Malformed) -> Self {
        Self::Malformed(why)
    }
}

/// How much a decoder may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// What may come out of every layer, in bytes.
    pub max_decompressed: u64,
    /// How many layers there may be.
    pub max_codings: usize,
}

/// A scanner behind the decoders that a body needs; most need none.
pub struct Decoder {
    scanner: Scanner,
    /// The outermost first.
    layers: Vec<Layer>,
    max_decompressed: u64,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("scanner", &self.scanner).finish_non_exhaustive()
    }
}

struct Layer {
    coding: Coding,
    budget: Budget,
    /// What came out, and how far the next layer has taken it.
    out: Box<[u8; BUFFER]>,
    start: usize,
    end: usize,
    /// The last step filled the buffer: more may come without more input.
    is_full: bool,
}

impl Layer {
    fn new(coding: Coding) -> Self {
        Self { coding, budget: Budget::default(), out: Box::new([0; BUFFER]), start: 0, end: 0, is_full: false }
    }

    fn pending(&self) -> &[u8] {
        &self.out[self.start..self.end]
    }
}

/// The value of `content-encoding`: of several headers it is one list, in their order. `None`: one is no text.
#[must_use]
pub fn named(head: &impl Head) -> Option<String> {
    let values: Option<Vec<&str>> = head.header("content-encoding").map(|value| std::str::from_utf8(value).ok()).collect();
    values.map(|values| values.join(","))
}

/// The names in `content-encoding`, in lower case, without those that change nothing.
fn codings(encoding: &str) -> impl Iterator<Item = String> {
    let names = encoding.split(',').map(|coding| coding.trim_matches([' ', '\t']).to_ascii_lowercase());
    names.filter(|coding| !coding.is_empty() && coding != "identity")
}

/// True if the value of `content-encoding` leaves a body as it is.
#[must_use]
pub fn is_plain(encoding: &str) -> bool {
    codings(encoding).next().is_none()
}

impl Decoder {
    /// A decoder for the value of `content-encoding`, where the coding that was applied first comes first.
    ///
    /// # Errors
    /// A coding is unknown, or there are too many.
    pub fn new(encoding: &str, scanner: Scanner, allowed: Allowance) -> Result<Self, &'static str> {
        let names: Vec<String> = codings(encoding).take(allowed.max_codings + 1).collect();
        if names.len() > allowed.max_codings {
            return Err(TOO_MANY);
        }
        let layers = names.iter().rev().map(|name| Coding::called(name).map(Layer::new).ok_or(UNKNOWN));
        Ok(Self { scanner, layers: layers.collect::<Result<_, _>>()?, max_decompressed: allowed.max_decompressed })
    }

    #[must_use]
    pub fn scanner(&self) -> &Scanner {
        &self.scanner
    }

    /// Reads the next bytes as they were sent, to their end.
    ///
    /// # Errors
    /// The body is not what it claims to be, or comes out too large.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        let mut rest = chunk;
        while let Slice::Part(read) = self.take(rest)? {
            rest = rest.get(read..).unwrap_or_default();
        }
        Ok(())
    }

    /// Reads one slice of the next bytes as they were sent.
    ///
    /// # Errors
    /// The body is not what it claims to be, or comes out too large.
    pub fn take(&mut self, chunk: &[u8]) -> Result<Slice, Failure> {
        if self.layers.is_empty() {
            let slice = &chunk[..chunk.len().min(SLICE)];
            self.scanner.push(slice)?;
            return Ok(if slice.len() == chunk.len() { Slice::Whole } else { Slice::Part(slice.len()) });
        }
        let slice = &chunk[..chunk.len().min(CODED_SLICE)];
        let (mut read, end) = (0, self.units() + SLICE_UNITS);
        while let Some(took) = self.step(&slice[read..])? {
            read += took;
            if self.units() >= end {
                return Ok(Slice::Part(read));
            }
        }
        // A decoder that takes nothing of what is there, and gives nothing, would do so for ever.
        if read < slice.len() {
            return Err(NOT_AS_SAID);
        }
        Ok(if read == chunk.len() { Slice::Whole } else { Slice::Part(read) })
    }

    /// One step of the innermost layer that can make one; how many bytes of the input it took. `None`: there is nothing to be done.
    fn step(&mut self, input: &[u8]) -> Result<Option<usize>, Failure> {
        for at in (0..self.layers.len()).rev() {
            let (outer, inner) = self.layers.split_at_mut(at);
            let Some(layer) = inner.first_mut() else { continue };
            let source = outer.last().map_or(input, Layer::pending);
            if source.is_empty() && !layer.is_full {
                continue;
            }
            let step = layer.coding.step(source, &mut layer.out[..])?;
            (layer.start, layer.end, layer.is_full) = (0, step.gave, step.gave == BUFFER);
            layer.budget.spend(step, self.max_decompressed)?;
            if let Some(outer) = outer.last_mut() {
                outer.start += step.took;
            }
            if inner.len() == 1 {
                self.scanner.push(inner[0].pending())?;
            }
            if !step.is_nothing() {
                return Ok(Some(if at == 0 { step.took } else { 0 }));
            }
        }
        Ok(None)
    }

    /// The body has ended.
    ///
    /// # Errors
    /// It is not whole.
    pub fn finish(&mut self) -> Result<(), Failure> {
        if self.layers.iter_mut().any(|layer| !layer.coding.may_end()) {
            return Err(Failure::Malformed("the compressed body ends too early"));
        }
        Ok(self.scanner.finish()?)
    }

    /// The work that the codings were, in units of about one byte.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.layers.iter().map(|layer| layer.budget.units()).sum()
    }

    /// How much memory the decoders take, in bytes: at most about this much.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.layers.iter().map(|layer| layer.coding.memory(layer.budget.came_out()) + BUFFER as u64).sum()
    }
}

#[cfg(test)]
mod tests;
