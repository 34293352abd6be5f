//! `content-encoding` undone for inspection alone: the bytes that are forwarded stay as they came. Decoders write into one another
//! and at last into the scanner, so that memory does not grow with the body; size and ratio of what comes out are bounded, since
//! a small body can stand for a huge one.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};

use super::Slice;
use super::body::Scanner;
use super::json::Malformed;

/// More layers than any client sends; each costs memory.
const MAX_LAYERS: usize = 3;
/// What comes out may be this many times what went in, once it is more than [`RATIO_FREE`] bytes. Text compresses to a tenth, JSON of
/// repeated tool schemas to a fiftieth; bombs go from 1,000 upwards.
const MAX_RATIO: u64 = 200;
const RATIO_FREE: u64 = 1024 * 1024;
/// How much of a plain body is read at once, in bytes: some 15 µs for most JSON, and under a quarter millisecond for the slowest.
const SLICE: usize = 16 * 1024;
/// The same for a compressed body, in bytes as they were sent.
const CODED_SLICE: usize = 1024;
/// A decoder's working buffer, in bytes.
const BUFFER: usize = 4096;
/// The largest window of a zstd stream, as a power of two: 8 MiB, what RFC 8878 asks of everybody.
const ZSTD_WINDOW: u32 = 23;

/// Why a body cannot be inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Malformed(&'static str),
    /// It comes out larger than it may.
    TooLarge,
}

impl From<Malformed> for Failure {
    fn from(Malformed(why): Malformed) -> Self {
        Self::Malformed(why)
    }
}

/// A scanner behind the decoders that a body needs; most need none.
pub struct Decoder {
    layer: Layer,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("scanner", &self.layer.innermost().scanner).finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder for the value of `content-encoding`, the first coding applied first; `None` if one is unknown. `max_decompressed`
    /// bounds what comes out, in bytes.
    #[must_use]
    pub fn new(encoding: &str, scanner: Scanner, max_decompressed: u64) -> Option<Self> {
        let codings: Vec<String> = encoding.split(',').map(|coding| coding.trim().to_ascii_lowercase()).collect();
        let codings: Vec<&str> =
            codings.iter().map(String::as_str).filter(|coding| !coding.is_empty() && *coding != "identity").collect();
        if codings.len() > MAX_LAYERS {
            return None;
        }
        let limit = if codings.is_empty() { u64::MAX } else { max_decompressed };
        let mut layer = Layer::Plain(Box::new(Inspection { scanner, went_in: 0, came_out: 0, limit, failure: None }));
        for coding in codings {
            layer = match coding {
                "gzip" | "x-gzip" => Layer::Gzip(Box::new(MultiGzDecoder::new(layer))),
                "deflate" => Layer::Deflate(Box::new(Deflate { inner: layer, inflate: None, ended: false })),
                "br" => Layer::Brotli(Box::new(DecompressorWriter::new(layer, BUFFER))),
                "zstd" => {
                    let mut decoder = zstd::stream::write::Decoder::new(layer).ok()?;
                    decoder.window_log_max(ZSTD_WINDOW).ok()?;
                    Layer::Zstd(Box::new(decoder))
                }
                _ => return None,
            };
        }
        Some(Self { layer })
    }

    #[must_use]
    pub fn scanner(&self) -> &Scanner {
        &self.layer.innermost().scanner
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
        let most = if matches!(self.layer, Layer::Plain(_)) { SLICE } else { CODED_SLICE };
        let slice = &chunk[..chunk.len().min(most)];
        self.layer.innermost_mut().went_in += slice.len() as u64;
        let written = self.layer.write_all(slice);
        self.outcome(written)?;
        Ok(if slice.len() == chunk.len() { Slice::Whole } else { Slice::Part(slice.len()) })
    }

    /// The body has ended.
    ///
    /// # Errors
    /// It is not whole.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let finished = self.layer.finish();
        self.outcome(finished)?;
        Ok(self.layer.innermost_mut().scanner.finish()?)
    }

    /// The innermost failure is the cause of all others.
    fn outcome(&self, result: io::Result<()>) -> Result<(), Failure> {
        match (self.layer.innermost().failure, result) {
            (Some(failure), _) => Err(failure),
            (None, Ok(())) => Ok(()),
            (None, Err(_)) => Err(Failure::Malformed("the body is not compressed as its content-encoding says")),
        }
    }
}

/// The end of all layers: counts, and hands over to the scanner.
struct Inspection {
    scanner: Scanner,
    went_in: u64,
    came_out: u64,
    limit: u64,
    failure: Option<Failure>,
}

impl Inspection {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.came_out += bytes.len() as u64;
        let is_bomb = self.limit != u64::MAX && self.came_out > RATIO_FREE && self.came_out / MAX_RATIO > self.went_in;
        if self.came_out > self.limit || is_bomb {
            return Err(Failure::TooLarge);
        }
        Ok(self.scanner.push(bytes)?)
    }
}

impl Write for Inspection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failure.is_none() {
            self.failure = self.take(bytes).err();
        }
        // The decoders stop; what stopped them is kept here.
        if self.failure.is_some() { Err(io::Error::other("inspection is over")) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Layer {
    Plain(Box<Inspection>),
    Gzip(Box<MultiGzDecoder<Layer>>),
    Deflate(Box<Deflate>),
    Brotli(Box<DecompressorWriter<Layer>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Layer>>),
}

/// `deflate` means a zlib stream, and some clients send the bare one: the first byte tells.
struct Deflate {
    inner: Layer,
    inflate: Option<Decompress>,
    ended: bool,
}

impl Write for Deflate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(first) = bytes.first() else { return Ok(0) };
        // CM = 8 in the low half of a zlib stream's first byte; a bare stream begins with its block type there.
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(first & 0x0F == 8));
        let mut buffer = [0; BUFFER];
        let mut rest = bytes;
        // What follows the end of the stream is nobody's.
        while !self.ended {
            let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress(rest, &mut buffer, FlushDecompress::None)?;
            let (took, gave) = (inflate.total_in() - before_in, inflate.total_out() - before_out);
            rest = rest.get(usize::try_from(took).unwrap_or(usize::MAX)..).unwrap_or_default();
            let gave = usize::try_from(gave).unwrap_or(BUFFER);
            self.inner.write_all(&buffer[..gave])?;
            self.ended = status == Status::StreamEnd;
            if rest.is_empty() && gave < BUFFER {
                break;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Layer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(inspection) => inspection.write(bytes),
            Self::Gzip(decoder) => decoder.write(bytes),
            Self::Deflate(decoder) => decoder.write(bytes),
            Self::Brotli(decoder) => decoder.write(bytes),
            Self::Zstd(decoder) => decoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(inspection) => inspection.flush(),
            Self::Gzip(decoder) => decoder.flush(),
            Self::Deflate(decoder) => decoder.flush(),
            Self::Brotli(decoder) => decoder.flush(),
            Self::Zstd(decoder) => decoder.flush(),
        }
    }
}

impl Layer {
    fn innermost(&self) -> &Inspection {
        match self {
            Self::Plain(inspection) => inspection,
            Self::Gzip(decoder) => decoder.get_ref().innermost(),
            Self::Deflate(decoder) => decoder.inner.innermost(),
            Self::Brotli(decoder) => decoder.get_ref().innermost(),
            Self::Zstd(decoder) => decoder.get_ref().innermost(),
        }
    }

    fn innermost_mut(&mut self) -> &mut Inspection {
        match self {
            Self::Plain(inspection) => inspection,
            Self::Gzip(decoder) => decoder.get_mut().innermost_mut(),
            Self::Deflate(decoder) => decoder.inner.innermost_mut(),
            Self::Brotli(decoder) => decoder.get_mut().innermost_mut(),
            Self::Zstd(decoder) => decoder.get_mut().innermost_mut(),
        }
    }

    /// What is still held back comes out, outermost layer first; a layer that is not at its end is an error.
    fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                decoder.get_mut().finish()
            }
            Self::Deflate(decoder) if !decoder.ended => Err(io::ErrorKind::UnexpectedEof.into()),
            Self::Deflate(decoder) => decoder.inner.finish(),
            Self::Brotli(decoder) => {
                decoder.close()?;
                decoder.get_mut().finish()
            }
            Self::Zstd(decoder) => {
                decoder.flush()?;
                decoder.get_mut().finish()
            }
        }
    }
}

#[cfg(test)]
mod tests;
