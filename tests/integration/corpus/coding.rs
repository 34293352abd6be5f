//! Content codings: where a compressed body is cut never matters, what comes out is what went in, and no more of it than is allowed.

use std::io::{Read, Write};

use cascade::extract::body::Scanner;
use cascade::extract::encoding::{Allowance, Decoder, Failure};
use cascade::extract::json;
use cascade::extract::source::{OnDuplicateKey, Pointer};
use flate2::Compression;

use super::input::Input;

const CODINGS: [&str; 5] = ["gzip", "deflate", "br", "zstd", "gzip, zstd"];
/// Below the size at which the ratio counts: that depends on how much has come when it is judged.
const LIMIT: u64 = 64 * 1024;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let coding = *input.one_of(&CODINGS);
    let is_plain = input.flag();
    let pieces = input.pieces();
    let body = pieces.concat();
    if is_plain && coding != "br" {
        round_trip(coding, &body, &pieces);
        return;
    }
    let whole = read(coding, &[&body]);
    let cut = read(coding, &pieces);
    assert_eq!(whole.is_ok(), cut.is_ok(), "{coding}: {whole:?} is {cut:?} when cut");
    if let (Ok(whole), Ok(cut)) = (whole, cut) {
        assert_eq!(whole, cut);
        let text = decode(coding, &body);
        assert!(text.len() as u64 <= LIMIT, "{coding}: {} bytes came out", text.len());
        assert_eq!(plain(&text), Ok(whole), "{coding}: another text was read");
    }
}

/// A body as a client would compress it, cut in as many pieces as were chosen.
fn round_trip(coding: &str, text: &[u8], pieces: &[&[u8]]) {
    let body = coding.split(", ").fold(text.to_vec(), |text, coding| encode(coding, &text));
    let size = body.len().div_ceil(pieces.len());
    let read = read(coding, &body.chunks(size).collect::<Vec<_>>());
    match read {
        Err(Failure::TooLarge) => assert!(text.len() as u64 > LIMIT),
        read => assert_eq!(read.is_ok().then(|| read.unwrap_or_default()), plain(text).ok(), "{coding}"),
    }
}

fn scanner() -> Scanner {
    Scanner::Json(Box::new(json::Scanner::new([&Pointer::to_key("model")], 128, OnDuplicateKey::Last)))
}

fn plain(text: &[u8]) -> Result<json::Slot, Failure> {
    let mut scanner = scanner();
    scanner.push(text)?;
    scanner.finish()?;
    Ok(scanner.slot(0).0.clone())
}

fn read(coding: &str, pieces: &[&[u8]]) -> Result<json::Slot, Failure> {
    let mut decoder =
        Decoder::new(coding, scanner(), Allowance { max_decompressed: LIMIT, max_codings: 2 }).expect("a known coding");
    for piece in pieces {
        decoder.push(piece)?;
    }
    decoder.finish()?;
    Ok(decoder.scanner().slot(0).0.clone())
}

fn encode(coding: &str, text: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory takes all")
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory takes all")
        }
        _ => zstd::stream::encode_all(text, 1).expect("memory takes all"),
    }
}

/// What other decoders make of a body that was accepted.
fn decode(coding: &str, body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let result = match coding {
        "gzip" => flate2::read::MultiGzDecoder::new(body).read_to_end(&mut text),
        "deflate" if body.first().is_some_and(|first| first & 0x0F == 8) => {
            flate2::read::ZlibDecoder::new(body).read_to_end(&mut text)
        }
        "deflate" => flate2::read::DeflateDecoder::new(body).read_to_end(&mut text),
        "br" => brotli_decompressor::Decompressor::new(body, 4096).read_to_end(&mut text),
        "zstd" => zstd::stream::read::Decoder::new(body).and_then(|mut decoder| decoder.read_to_end(&mut text)),
        _ => return decode("gzip", &decode("zstd", body)),
    };
    result.unwrap_or_else(|error| panic!("{coding}: {error} in what was accepted"));
    text
}
