//! The codings of `content-encoding` behind one face: a step takes some bytes and gives some, and says how many blocks it went
//! through. What a step may take and give is bounded by its buffers; no coding decides whether that was too much.

use zlib_rs::{Inflate, InflateFlush, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use super::brotli::Brotli;
use super::{Failure, NOT_AS_SAID};

/// The window of deflate, as a power of two, and the same with a gzip header around it, as zlib counts it.
const DEFLATE_WINDOW: u8 = 15;
const GZIP_WINDOW: u8 = 16 + DEFLATE_WINDOW;
/// What a gzip member costs before its first block, in blocks: it starts with a decoder of its own.
const MEMBER: u64 = 4;
/// The largest window of a zstd stream, as a power of two: 8 MiB, what RFC 8878 asks of everybody and RFC 9659 allows here.
const ZSTD_WINDOW: u32 = 23;
/// What a zstd decoder wants to see first: the magic number and what follows it.
const ZSTD_START: usize = 5;

/// What one step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Step {
    /// Bytes of the input that are done with.
    pub(super) took: usize,
    /// Bytes that came out.
    pub(super) gave: usize,
    /// Blocks, members and frames that ended.
    pub(super) blocks: u64,
}

impl Step {
    pub(super) const fn is_nothing(self) -> bool {
        self.took == 0 && self.gave == 0
    }
}

pub(super) enum Coding {
    Deflate { inflate: Option<Inflate>, is_at_end: bool },
    Gzip { inflate: Inflate, is_at_end: bool },
    Brotli(Box<Brotli>),
    Zstd { decoder: ZstdDecoder<'static>, wants: usize },
}

impl Coding {
    /// The coding of this name, in lower case; `None` if there is none.
    pub(super) fn called(name: &str) -> Option<Self> {
        Some(match name {
            "gzip" | "x-gzip" => Self::Gzip { inflate: Inflate::new(true, GZIP_WINDOW), is_at_end: false },
            "deflate" => Self::Deflate { inflate: None, is_at_end: false },
            "br" => Self::Brotli(Box::default()),
            "zstd" => {
                let mut decoder = ZstdDecoder::new().ok()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW)).ok()?;
                Self::Zstd { decoder, wants: ZSTD_START }
            }
            _ => return None,
        })
    }

    /// True if the bytes may end here.
    pub(super) fn may_end(&mut self) -> bool {
        match self {
            // Behind its last block a bare stream has nothing that could be taken: it has to be asked.
            Self::Deflate { inflate: Some(inflate), is_at_end: false } => {
                inflated(inflate, &[], &mut [0]).is_ok_and(|(step, ended)| ended && step.is_nothing())
            }
            Self::Deflate { is_at_end, .. } | Self::Gzip { is_at_end, .. } => *is_at_end,
            Self::Brotli(brotli) => brotli.is_at_end(),
            Self::Zstd { wants, .. } => *wants == 0,
        }
    }

    /// How much the decoder keeps in memory at most once this many bytes have come out.
    pub(super) fn memory(&self, came_out: u64) -> u64 {
        const DEFLATE: u64 = 64 * 1024;
        let window = match self {
            Self::Deflate { .. } | Self::Gzip { .. } => return DEFLATE,
            Self::Brotli(_) => 1 << super::brotli::WINDOW,
            Self::Zstd { .. } => 1 << ZSTD_WINDOW,
        };
        // A window holds what has come out, and is touched no further.
        4 * DEFLATE + came_out.min(window)
    }

    /// Takes what it can. A step that does nothing needs more input, or more room.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Failure> {
        match self {
            Self::Deflate { inflate, is_at_end } => {
                if *is_at_end {
                    return behind_the_end(input);
                }
                let Some(first) = input.first() else {
                    return inflate
                        .as_mut()
                        .map_or(Ok(Step::default()), |inflate| inflated(inflate, input, output).map(|(step, _)| step));
                };
                // CM = 8 in the low half of a zlib stream's first byte; a bare stream begins with its block type there.
                let inflate = inflate.get_or_insert_with(|| Inflate::new(first & 0x0F == 8, DEFLATE_WINDOW));
                let (step, ended) = inflated(inflate, input, output)?;
                *is_at_end = ended;
                Ok(step)
            }
            Self::Gzip { inflate, is_at_end } => {
                let mut started = 0;
                if *is_at_end {
                    if input.is_empty() {
                        return Ok(Step::default());
                    }
                    // Another member, or something that is none.
                    *inflate = Inflate::new(true, GZIP_WINDOW);
                    *is_at_end = false;
                    started = MEMBER;
                }
                let (step, ended) = inflated(inflate, input, output)?;
                *is_at_end = ended;
                Ok(Step { blocks: step.blocks + started, ..step })
            }
            Self::Brotli(brotli) if brotli.is_at_end() => behind_the_end(input),
            Self::Brotli(brotli) => brotli.step(input, output),
            Self::Zstd { decoder, wants } => {
                // Of what it asks for it makes one block: so steps stay small, and blocks can be counted.
                let asked = if *wants == 0 { ZSTD_START } else { *wants };
                let status = decoder.run_on_buffers(&input[..input.len().min(asked)], output).map_err(|_| NOT_AS_SAID)?;
                let (took, gave) = (status.bytes_read, status.bytes_written);
                if took > 0 || gave > 0 {
                    *wants = status.remaining;
                }
                Ok(Step { took, gave, blocks: u64::from(took == asked || (took > 0 && status.remaining == 0)) })
            }
        }
    }
}

fn behind_the_end(input: &[u8]) -> Result<Step, Failure> {
    if input.is_empty() {
        Ok(Step::default())
    } else {
        Err(Failure::Malformed("something follows the end of the compressed body"))
    }
}

/// One block of deflate at most, and whether the stream ended with it.
fn inflated(inflate: &mut Inflate, input: &[u8], output: &mut [u8]) -> Result<(Step, bool), Failure> {
    let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
    let status = inflate.decompress(input, output, InflateFlush::Block).map_err(|_| NOT_AS_SAID)?;
    let took = usize::try_from(inflate.total_in() - before_in).unwrap_or(input.len());
    let gave = usize::try_from(inflate.total_out() - before_out).unwrap_or(output.len());
    let ended = status == Status::StreamEnd;
    // It stops early only where a block ends.
    let at_a_border = took > 0 && took < input.len() && gave < output.len();
    Ok((Step { took, gave, blocks: u64::from(ended || at_a_border) }, ended))
}
