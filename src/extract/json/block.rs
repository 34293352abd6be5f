//! Sixteen bytes at a time: how far a string needs no attention, and how far there are only blanks. It knows nothing of what
//! stands before or behind.

use wide::u8x16;

/// The start of a string's rest that is neither quote, backslash nor control character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) length: usize,
    pub(super) is_ascii: bool,
}

const SIZE: usize = 16;

/// Most strings are short: only the first block is looked at in place.
#[inline(always)]
pub(super) fn plain_run(bytes: &[u8]) -> Run {
    match bytes.first_chunk::<SIZE>().map(|block| u8x16::new(*block)) {
        Some(block) if special(block) != 0 => run_to(0, block.to_bitmask(), special(block)),
        _ => long_run(bytes),
    }
}

fn long_run(bytes: &[u8]) -> Run {
    let (blocks, tail) = bytes.as_chunks::<SIZE>();
    let mut length = 0;
    let mut high = 0;
    for block in blocks {
        let block = u8x16::new(*block);
        let found = special(block);
        if found != 0 {
            let end = run_to(length, block.to_bitmask(), found);
            return Run { is_ascii: end.is_ascii && high == 0, ..end };
        }
        high |= block.to_bitmask();
        length += SIZE;
    }
    let rest = tail.iter().take_while(|byte| !is_special(**byte)).count();
    Run { length: length + rest, is_ascii: high == 0 && tail[..rest].is_ascii() }
}

/// The end of a run: the block behind `before` bytes has these bytes over 127 and these that end it.
#[inline(always)]
const fn run_to(before: usize, high: u32, special: u32) -> Run {
    let first = special & special.wrapping_neg();
    Run { length: before + special.trailing_zeros() as usize, is_ascii: high & (first - 1) == 0 }
}

#[inline]
pub(super) fn blank_length(bytes: &[u8]) -> usize {
    let (blocks, tail) = bytes.as_chunks::<SIZE>();
    let mut length = 0;
    for block in blocks {
        let found = not_blank(u8x16::new(*block));
        if found != 0 {
            return length + found.trailing_zeros() as usize;
        }
        length += SIZE;
    }
    length + tail.iter().take_while(|byte| is_blank(**byte)).count()
}

/// How many bytes are digits.
#[inline]
pub(super) fn digits_length(bytes: &[u8]) -> usize {
    let (blocks, tail) = bytes.as_chunks::<SIZE>();
    let mut length = 0;
    for block in blocks {
        let found = not_digit(u8x16::new(*block));
        if found != 0 {
            return length + found.trailing_zeros() as usize;
        }
        length += SIZE;
    }
    length + tail.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

const fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..=0x1F)
}

pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn equal(bytes: u8x16, byte: u8) -> u8x16 {
    bytes.simd_eq(u8x16::splat(byte))
}

/// One bit a byte: quotes, backslashes, control characters.
fn special(bytes: u8x16) -> u32 {
    let control = bytes.min(u8x16::splat(0x1F)).simd_eq(bytes);
    (equal(bytes, b'"') | equal(bytes, b'\\') | control).to_bitmask()
}

fn not_blank(bytes: u8x16) -> u32 {
    let blank = equal(bytes, b' ') | equal(bytes, b'\t') | equal(bytes, b'\n') | equal(bytes, b'\r');
    blank.to_bitmask() ^ 0xFFFF
}

fn not_digit(bytes: u8x16) -> u32 {
    let value = bytes - u8x16::splat(b'0');
    value.min(u8x16::splat(9)).simd_eq(value).to_bitmask() ^ 0xFFFF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_judged_alike_in_a_block_and_behind_it() {
        for byte in 0..=255 {
            let mut bytes = [0xFF; 40];
            bytes[20] = byte;
            let length = if is_special(byte) { 20 } else { 40 };
            assert_eq!(plain_run(&bytes).length, length, "{byte}");
            assert_eq!(plain_run(&bytes[15..25]).length, length.min(25) - 15, "{byte}");
            let mut bytes = [b' '; 40];
            bytes[20] = byte;
            let length = if is_blank(byte) { 40 } else { 20 };
            assert_eq!(blank_length(&bytes), length, "{byte}");
            assert_eq!(blank_length(&bytes[15..25]), length.min(25) - 15, "{byte}");
        }
    }

    #[test]
    fn a_run_ends_before_the_first_special_byte_wherever_it_is() {
        for length in 0..100_usize {
            for special in [b'"', b'\\', 0, 0x1F] {
                for (high, is_ascii) in [(None, true), (length.checked_sub(1), length == 0), (Some(length + 1), true)] {
                    let mut bytes = vec![b'x'; 120];
                    bytes[length] = special;
                    if let Some(high) = high {
                        bytes[high] = 0xC3;
                    }
                    assert_eq!(plain_run(&bytes), Run { length, is_ascii }, "{special} at {length}, high at {high:?}");
                    assert_eq!(plain_run(&bytes[..length]), Run { length, is_ascii });
                }
            }
        }
    }

    #[test]
    fn blanks_end_before_the_first_other_byte() {
        for length in 0..50 {
            for other in [b'x', 0, 0x0B, 0x0C, 0xA0] {
                let mut bytes: Vec<u8> = b" \t\n\r".iter().copied().cycle().take(60).collect();
                bytes[length] = other;
                assert_eq!(blank_length(&bytes), length);
                assert_eq!(blank_length(&bytes[..length]), length);
            }
        }
    }
}
