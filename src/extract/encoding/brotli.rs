//! Brotli, decoded step by step. Its decoder does not say where blocks end; but each one takes memory for its own use, so that what
//! it asks its allocator for counts them.

use brotli_decompressor::{Allocator, BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::coding::Step;
use super::{Failure, NOT_AS_SAID};

/// The largest window of a brotli stream, as a power of two: 16 MiB. The large windows of another format are refused.
pub(super) const WINDOW: u32 = 24;

pub(super) struct Brotli {
    state: BrotliState<Counting, Counting, Counting>,
    is_at_end: bool,
}

impl Default for Brotli {
    fn default() -> Self {
        let counting = Counting::default;
        Self { state: BrotliState::new_strict(counting(), counting(), counting()), is_at_end: false }
    }
}

impl Brotli {
    pub(super) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Failure> {
        let (mut left, mut took) = (input.len(), 0);
        let (mut room, mut gave, mut total) = (output.len(), 0, 0);
        let asked = self.asked();
        let result =
            BrotliDecompressStream(&mut left, &mut took, input, &mut room, &mut gave, output, &mut total, &mut self.state);
        match result {
            BrotliResult::ResultSuccess => self.is_at_end = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => return Err(NOT_AS_SAID),
        }
        Ok(Step { took, gave, blocks: self.asked() - asked })
    }

    fn asked(&self) -> u64 {
        self.state.alloc_u8.asked + self.state.alloc_u32.asked + self.state.alloc_hc.asked
    }
}

/// The usual memory, and how often it was asked for.
#[derive(Default)]
struct Counting {
    memory: StandardAlloc,
    asked: u64,
}

impl<T> Allocator<T> for Counting
where
    StandardAlloc: Allocator<T>,
{
    type AllocatedMemory = <StandardAlloc as Allocator<T>>::AllocatedMemory;

    fn alloc_cell(&mut self, length: usize) -> Self::AllocatedMemory {
        self.asked += 1;
        self.memory.alloc_cell(length)
    }

    fn free_cell(&mut self, memory: Self::AllocatedMemory) {
        self.memory.free_cell(memory);
    }
}
