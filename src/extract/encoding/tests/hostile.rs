//! Bodies that were made to be slow: much goes in, nothing comes out, or every few bytes bring tables of their own.

use proptest::prelude::*;

use super::*;

/// Bytes of the coding that come to nothing, as often as they are wanted, in front of `{"model":"m"}`.
fn empty_pieces(kind: usize, count: usize) -> (&'static str, Vec<u8>) {
    let text = document(0);
    match kind {
        // Fixed tables, nothing but the end of the block: ten bits.
        0 => {
            let mut bits = Bits::default();
            (0..count).for_each(|_| bits.put(0b010, 10));
            // An empty stored block ends at a byte.
            bits.put(0, 3);
            bits.align();
            bits.bytes.extend([0, 0, 0xFF, 0xFF]);
            ("deflate", [bits.bytes, bare(&text)].concat())
        }
        // Stored, of no length.
        1 => ("deflate", [[0, 0, 0, 0xFF, 0xFF].repeat(count), bare(&text)].concat()),
        // Tables of its own, nothing but the end of the block.
        2 => {
            let mut bits = Bits::default();
            (0..count).for_each(|_| empty_dynamic_block(&mut bits));
            bits.put(0, 3);
            bits.align();
            bits.bytes.extend([0, 0, 0xFF, 0xFF]);
            ("deflate", [bits.bytes, bare(&text)].concat())
        }
        3 => ("gzip", [gzip(b"").repeat(count), gzip(&text)].concat()),
        4 => ("zstd", [zstd_of(b"").repeat(count), zstd_of(&text)].concat()),
        // Frames that are to be skipped.
        5 => ("zstd", [[0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0].repeat(count), zstd_of(&text)].concat()),
        // One frame of raw blocks without bytes.
        6 => {
            let frame = [&[0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58][..], &[0, 0, 0].repeat(count), &[1, 0, 0]].concat();
            ("zstd", [frame, zstd_of(&text)].concat())
        }
        // Metadata of no length: one byte each.
        _ => {
            let whole = brotli(&text);
            // The window's bit and one block of metadata, then more of them; the rest of the stream has its own first bit cut off.
            let rest = aligned_brotli(&text);
            assert!(whole.len() >= rest.len());
            ("br", [&[0x0C][..], &[0x06].repeat(count), &rest].concat())
        }
    }
}

/// The blocks of a brotli stream without its first bit, from a byte's border on.
fn aligned_brotli(text: &[u8]) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0, 1);
    bits.put(0, 2);
    bits.put(u32::try_from(text.len() - 1).unwrap(), 16);
    bits.put(1, 1);
    bits.align();
    bits.bytes.extend_from_slice(text);
    bits.put(3, 2);
    bits.align();
    bits.bytes
}

/// 257 lengths of literals, all zero but the end of the block's, and one unused distance.
fn empty_dynamic_block(bits: &mut Bits) {
    bits.put(0b100, 3);
    bits.put(0, 5); // HLIT: 257
    bits.put(0, 5); // HDIST: 1
    bits.put(14, 4); // HCLEN: 18, as far as the length of symbol 1
    // The order is 16 17 18 0 8 7 9 6 10 5 11 4 12 3 13 2 14 1: symbols 18 and 1 have one bit each.
    for position in 0..18 {
        bits.put(u32::from(position == 2 || position == 17), 3);
    }
    // Codes of one bit: symbol 1 is 0, symbol 18 is 1, and 7 bits say how many zeros beyond 11.
    for zeros in [138, 118] {
        bits.put(1, 1);
        bits.put(zeros - 11, 7);
    }
    bits.put(0, 1); // the end of the block: one bit
    bits.put(0, 1); // the one distance: one bit
    bits.put(0, 1); // the end of the block
}

const KINDS: usize = 8;

/// What was read until it was refused, the work, and how it ended.
fn work(encoding: &str, body: &[u8], cut: usize) -> (u64, u64, Result<(), Failure>) {
    let mut decoder = decoder(encoding, LIMIT).unwrap();
    let mut read = 0;
    for chunk in body.chunks(cut) {
        let mut rest = chunk;
        loop {
            let before = decoder.units();
            match decoder.take(rest) {
                Err(failure) => return (read, decoder.units(), Err(failure)),
                Ok(slice) => {
                    assert!(decoder.units() - before < SLICE_UNITS + 2 * BUFFER as u64 + 1_000, "a slice is little work");
                    let Slice::Part(length) = slice else {
                        read += rest.len() as u64;
                        break;
                    };
                    read += length as u64;
                    rest = &rest[length..];
                }
            }
        }
    }
    let end = decoder.finish();
    (read, decoder.units(), end)
}

#[test]
fn a_few_empty_pieces_are_read_over() {
    for kind in 0..KINDS {
        let (encoding, body) = empty_pieces(kind, 100);
        for cut in [1, 13, usize::MAX] {
            assert_eq!(read(encoding, &body, cut), Ok(Slot::Text("m".to_owned())), "{kind} in steps of {cut}");
        }
    }
}

#[test]
fn a_body_of_empty_pieces_is_too_large_before_much_of_it_is_read() {
    for kind in 0..KINDS {
        let (encoding, body) = empty_pieces(kind, 1_000_000);
        let (read, units, end) = work(encoding, &body, usize::MAX);
        assert_eq!(end, Err(Failure::TooLarge), "{kind}");
        assert!(read < 300_000 && units < 1_000_000, "{kind}: {read} bytes, {units} units of {}", body.len());
    }
}

#[test]
fn empty_pieces_between_much_that_comes_out_are_counted_all_the_same() {
    let spaces = " ".repeat(300_000).into_bytes();
    let members = [gzip(b"").repeat(200), gzip(&spaces)].concat();
    let frames = [zstd_of(b"").repeat(200), zstd_of(&spaces)].concat();
    for (encoding, piece) in [("gzip", members), ("zstd", frames)] {
        let body = piece.repeat(1_000);
        let mut decoder = decoder(encoding, 1 << 40).unwrap();
        let mut read = 0;
        let end = body.chunks(1024).find_map(|chunk| {
            read += chunk.len();
            decoder.push(chunk).err()
        });
        assert_eq!(end, Some(Failure::TooLarge), "{encoding}");
        assert!(read < 300_000, "{encoding}: {read}");
    }
}

#[test]
fn a_writer_that_flushes_after_every_line_is_no_attacker() {
    let text = document(40_000);
    let mut deflated = ZlibEncoder::new(Vec::new(), Compression::fast());
    let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
    let mut packed = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    for line in text.chunks(40) {
        written(&mut deflated, line);
        written(&mut zipped, line);
        written(&mut packed, line);
    }
    for (encoding, body) in
        [("deflate", deflated.finish().unwrap()), ("gzip", zipped.finish().unwrap()), ("zstd", packed.finish().unwrap())]
    {
        assert_eq!(read(encoding, &body, 100), Ok(Slot::Text("m".to_owned())), "{encoding}");
    }
}

#[test]
fn decoders_say_how_much_memory_they_take() {
    let text = document(3_000_000);
    for (encoding, body, most) in [
        ("gzip", gzip(&text), 128 * 1024),
        ("zstd", zstd_of(&text), 4_000_000),
        ("br", brotli(&text), 4_000_000),
        ("identity", text.clone(), 0),
    ] {
        let mut decoder = decoder(encoding, LIMIT).unwrap();
        decoder.push(&body).unwrap();
        assert!(decoder.memory() <= most, "{encoding}: {}", decoder.memory());
    }
}

/// Pieces of every kind, with what comes to nothing, to little and to much, one after the other.
fn any_stream() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let piece = prop_oneof![
        (0..KINDS, 0..3_000_usize).prop_map(|(kind, count)| empty_pieces(kind, count).1),
        (0..3_usize, 0..200_000_usize).prop_map(|(coding, length)| {
            let text = vec![b' '; length];
            match coding {
                0 => gzip(&text),
                1 => zstd_of(&text),
                _ => zlib(&text),
            }
        }),
        proptest::collection::vec(any::<u8>(), 0..50),
    ];
    let encoding = prop_oneof![Just("gzip"), Just("deflate"), Just("zstd"), Just("br"), Just("gzip, gzip"), Just("zstd, gzip")];
    (encoding, proptest::collection::vec((piece, 1..20_usize), 0..6))
        .prop_map(|(encoding, pieces)| (encoding, pieces.into_iter().flat_map(|(piece, count)| piece.repeat(count)).collect()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_work_is_bounded_by_what_goes_in((encoding, body) in any_stream(), cut in 1..5_000_usize) {
        let (_, units, _) = work(encoding, &body, cut);
        // A layer: what goes in, 200 times that and a megabyte come out, and a block for 64 bytes, which counts as much.
        let layer = |went_in: u64| 202 * went_in + 2 * 1024 * 1024;
        let most = if encoding.contains(',') { layer(body.len() as u64) + layer(LIMIT) } else { layer(body.len() as u64) };
        prop_assert!(units <= most, "{encoding}: {units} units for {} bytes", body.len());
    }
}
