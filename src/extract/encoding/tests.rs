//! Codings are undone as other encoders made them, and what is made to be slow is found out.

mod hostile;

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;
use crate::extract::json::{self, Slot};
use crate::extract::source::{OnDuplicateKey, Pointer};

const LIMIT: u64 = 8 * 1024 * 1024;

fn written(mut encoder: impl Write, text: &[u8]) {
    encoder.write_all(text).unwrap();
    encoder.flush().unwrap();
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    written(&mut encoder, text);
    encoder.finish().unwrap()
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    written(&mut encoder, text);
    encoder.finish().unwrap()
}

fn bare(text: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    written(&mut encoder, text);
    encoder.finish().unwrap()
}

fn zstd_of(text: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(text, 3).unwrap()
}

/// `brotli` has an encoder that we do not ship: a stream of uncompressed blocks, written by hand (RFC 7932, 9.2).
fn brotli(text: &[u8]) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0, 1); // WBITS: 16
    for block in text.chunks(60_000) {
        bits.put(0, 1); // ISLAST
        bits.put(0, 2); // MNIBBLES: 4
        bits.put(u32::try_from(block.len() - 1).unwrap(), 16);
        bits.put(1, 1); // ISUNCOMPRESSED
        bits.align();
        bits.bytes.extend_from_slice(block);
    }
    bits.put(3, 2); // ISLAST, ISLASTEMPTY
    bits.align();
    bits.bytes
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn put(&mut self, value: u32, count: u32) {
        for bit in 0..count {
            if self.used == 0 {
                self.bytes.push(0);
            }
            let last = self.bytes.len() - 1;
            self.bytes[last] |= u8::try_from((value >> bit) & 1).unwrap() << self.used;
            self.used = (self.used + 1) % 8;
        }
    }

    fn align(&mut self) {
        self.used = 0;
    }
}

fn decoder(encoding: &str, limit: u64) -> Result<Decoder, &'static str> {
    let scanner = json::Scanner::new([&Pointer::to_key("model")], 16, OnDuplicateKey::Reject);
    Decoder::new(encoding, Scanner::Json(Box::new(scanner)), Allowance { max_decompressed: limit, max_codings: 3 })
}

fn read(encoding: &str, body: &[u8], step: usize) -> Result<Slot, Failure> {
    let mut decoder = decoder(encoding, LIMIT).expect("a known encoding");
    for chunk in body.chunks(step) {
        decoder.push(chunk)?;
    }
    decoder.finish()?;
    Ok(decoder.scanner().slot(0).0.clone())
}

fn document(length: usize) -> Vec<u8> {
    let turns: String =
        (0..length / 40).map(|turn| format!(r#"{{"role":"user","content":"{turn} {}"}},"#, turn * 7919)).collect();
    format!(r#"{{"messages":[{}],"model":"m"}}"#, turns.trim_end_matches(',')).into_bytes()
}

#[test]
fn every_encoding_is_read_wherever_it_is_cut() {
    for length in [0, 5_000, 200_000] {
        let text = document(length);
        for (encoding, body) in [
            ("", text.clone()),
            ("identity", text.clone()),
            ("gzip", gzip(&text)),
            ("X-GZIP", gzip(&text)),
            ("deflate", zlib(&text)),
            ("deflate", bare(&text)),
            ("br", brotli(&text)),
            ("zstd", zstd_of(&text)),
            ("gzip, zstd", zstd_of(&gzip(&text))),
            ("deflate,br , gzip", gzip(&brotli(&zlib(&text)))),
        ] {
            for step in [1, 7, 1000, usize::MAX] {
                if step == 1 && length > 5_000 {
                    continue;
                }
                assert_eq!(
                    read(encoding, &body, step),
                    Ok(Slot::Text("m".to_owned())),
                    "{encoding} of {length} in steps of {step}"
                );
            }
        }
    }
}

#[test]
fn members_of_one_gzip_stream_are_one_body() {
    let text = document(1_000);
    let (start, end) = text.split_at(300);
    let body = [gzip(start), gzip(end)].concat();
    assert_eq!(read("gzip", &body, 11), Ok(Slot::Text("m".to_owned())));
}

#[test]
fn what_is_not_compressed_as_it_says_is_malformed() {
    let text = document(1_000);
    for (encoding, body) in [
        ("gzip", text.clone()),
        ("gzip", zlib(&text)),
        ("zstd", gzip(&text)),
        ("br", vec![0xFF; 100]),
        ("deflate", vec![0xFF; 100]),
        ("gzip", gzip(b"{\"model\":")),
    ] {
        assert!(matches!(read(encoding, &body, 64), Err(Failure::Malformed(_))), "{encoding}");
    }
    for (encoding, whole) in [("gzip", gzip(&text)), ("deflate", zlib(&text)), ("br", brotli(&text)), ("zstd", zstd_of(&text))] {
        let cut = &whole[..whole.len() / 2];
        assert!(matches!(read(encoding, cut, 64), Err(Failure::Malformed(_))), "half of {encoding}");
    }
}

#[test]
fn an_unknown_encoding_or_too_many_are_not_guessed_at() {
    for encoding in ["compress", "gzip, aes128gcm", "gzip, gzip, gzip, gzip"] {
        assert!(decoder(encoding, LIMIT).is_err(), "{encoding}");
    }
}

#[test]
fn a_bomb_is_too_large_long_before_it_has_come_out() {
    let bomb = format!(r#"{{"x":"{}","model":"m"}}"#, " ".repeat(32 * 1024 * 1024));
    for (encoding, body) in
        [("gzip", gzip(bomb.as_bytes())), ("zstd", zstd_of(bomb.as_bytes())), ("gzip, gzip", gzip(&gzip(bomb.as_bytes())))]
    {
        let mut decoder = decoder(encoding, 1 << 40).unwrap();
        assert_eq!(decoder.push(&body).and_then(|()| decoder.finish()), Err(Failure::TooLarge), "{encoding}");
        assert!(decoder.units() < 16 * 1024 * 1024, "{encoding}: it was let out");
    }
    let large = document(2_000_000);
    let mut small_limit = decoder("gzip", 1_000_000).unwrap();
    assert_eq!(small_limit.push(&gzip(&large)), Err(Failure::TooLarge));
}

#[test]
fn one_coding_is_allowed_unless_the_operator_says_more() {
    let with = |encoding: &str, max_codings: usize| {
        let scanner = json::Scanner::new([&Pointer::to_key("model")], 16, OnDuplicateKey::Reject);
        Decoder::new(encoding, Scanner::Json(Box::new(scanner)), Allowance { max_decompressed: LIMIT, max_codings }).is_ok()
    };
    for (encoding, layers) in [
        ("", 0),
        ("identity", 0),
        (" , identity,,\tIdentity ", 0),
        ("gzip", 1),
        ("X-GZip", 1),
        (",GZIP, ,identity", 1),
        ("identity, br", 1),
        ("gzip, gzip", 2),
        ("zstd,deflate", 2),
        ("gzip,gzip,gzip", 3),
    ] {
        for most in 0..4 {
            assert_eq!(with(encoding, most), layers <= most, "{encoding} where {most} may be");
        }
        assert_eq!(is_plain(encoding), layers == 0, "{encoding}");
    }
    for unknown in ["compress", "gzip;q=1", "gzip br", "aws-chunked", "x-deflate", "\u{a0}gzip"] {
        assert!(!with(unknown, 3), "{unknown}");
    }
}

#[test]
fn several_headers_are_one_list() {
    for (values, encoding) in [
        (&[][..], Some("")),
        (&["gzip"], Some("gzip")),
        (&["gzip", "gzip"], Some("gzip,gzip")),
        (&["identity", "", "br"], Some("identity,,br")),
    ] {
        let mut request = crate::extract::request::Request::new("/v1/responses");
        values.iter().for_each(|value| request.add_header("Content-Encoding", value));
        assert_eq!(named(&request).as_deref(), encoding, "{values:?}");
    }
}

#[test]
fn bytes_behind_the_end_of_a_coding_are_not_skipped() {
    let text = document(1_000);
    for (encoding, body) in [
        ("gzip", gzip(&text)),
        ("deflate", zlib(&text)),
        ("deflate", bare(&text)),
        ("br", brotli(&text)),
        ("zstd", zstd_of(&text)),
        ("gzip, gzip", gzip(&gzip(&text))),
    ] {
        for behind in [&b"{\"model\":\"other\"}"[..], b"\0", b"\n"] {
            let body = [&body[..], behind].concat();
            for step in [1, 64, usize::MAX] {
                assert!(matches!(read(encoding, &body, step), Err(Failure::Malformed(_))), "{encoding} in steps of {step}");
            }
        }
    }
}
