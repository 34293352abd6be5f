//! What decoding one layer of a body may come to: not only what comes out of it, also the work on the way, which a body can ask for
//! without giving anything. It counts bytes and blocks, never time, so that the same body always ends the same way.

use super::Failure;
use super::coding::Step;

/// What comes out may be this many times what went in, once it is more than [`RATIO_FREE`] bytes. Text compresses to a tenth, JSON of
/// repeated tool schemas to a fiftieth; bombs go from 1,000 upwards.
const MAX_RATIO: u64 = 200;
const RATIO_FREE: u64 = 1024 * 1024;
/// A block brings tables of its own, which cost as much as hundreds of bytes. Encoders write one for thousands of bytes; one that is
/// flushed after every line writes two for each. So: one block for this many bytes that went in, and some for nothing.
const BYTES_PER_BLOCK: u64 = 64;
const BLOCKS_FREE: u64 = 4096;
/// How many bytes in a row may come to less than half as many: the largest block of zstd, which comes out at once, twice. Encoders
/// never make a body much longer than it was.
const DRY: u64 = 256 * 1024;
/// What a block costs beside its bytes, for [`Budget::units`].
const BLOCK_UNITS: u64 = 64;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Budget {
    went_in: u64,
    came_out: u64,
    blocks: u64,
    /// Bytes that went in and came to nothing.
    dry: u64,
}

impl Budget {
    /// Counts a step; `most` bounds what comes out in all.
    ///
    /// # Errors
    /// It was one too many.
    pub(super) fn spend(&mut self, step: Step, most: u64) -> Result<(), Failure> {
        let (took, gave) = (step.took as u64, step.gave as u64);
        self.went_in += took;
        self.came_out += gave;
        self.blocks += step.blocks;
        self.dry = (self.dry + took).saturating_sub(2 * gave);
        let is_bomb = self.came_out > RATIO_FREE && self.came_out / MAX_RATIO > self.went_in;
        let is_idle = self.dry > DRY || self.blocks > BLOCKS_FREE + self.went_in / BYTES_PER_BLOCK;
        if self.came_out > most || is_bomb || is_idle { Err(Failure::TooLarge) } else { Ok(()) }
    }

    pub(super) const fn came_out(&self) -> u64 {
        self.came_out
    }

    /// The work so far: a unit is about what reading one byte costs.
    pub(super) const fn units(&self) -> u64 {
        self.went_in + self.came_out + self.blocks * BLOCK_UNITS
    }
}
