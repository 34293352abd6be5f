//! Compressed bodies: the model is found inside, wherever the body is split on its way, and the provider gets the bytes as the
//! client sent them.

use std::io::Write;

use cascade::lab::{BodyMode, Request};
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use crate::gateway::ok;
use crate::town::Town;

/// What the reference encoder of Brotli (quality 11, with its dictionary) makes of [`text`]`(60)`: there is none among our crates.
const BROTLI: &str = "1bbb17209c05762c9b4e1a0e4cabd53e6b913dbcad6039376ec66fef00c6c5c4d661e9ea9b22206f08b8f340b196442d086a81b4\
    04124c104f18413b6f371ae4fba2a4a027a7cd92db40f74b5a3db87f3d2e28f24b0df1c791a500d7f04a09a435d6f97effa9c39fdfc70ba30f1dbaf4d04b\
    5ff44d3ff4cb9fb9ce4fe1c18b0fbef885dff843bf78263d0f1e3c78f0e0c183070f5ebc78f1e2c58b172f5ebcf8e0830f3ef8e0830f3ef8e0832fbef8e2\
    8b2fbef8e28bafd0b9ecf257aacd01";

fn brotli() -> Vec<u8> {
    let digits: Vec<u8> = BROTLI.bytes().map(|digit| if digit < b'a' { digit - b'0' } else { digit - b'a' + 10 }).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn text(turns: usize) -> String {
    let turn = |turn| {
        format!(r#"{{"role":"user","content":"It is a long way to the next line, and the quick brown fox is number {turn}."}}"#)
    };
    format!(r#"{{"messages":[{}],"model":"m"}}"#, (0..turns).map(turn).collect::<Vec<_>>().join(","))
}

/// The text under every encoding that is understood.
fn encoded(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let text = text.as_bytes();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(text).unwrap();
    zlib.write_all(text).unwrap();
    bare.write_all(text).unwrap();
    let zstd = |bytes: &[u8]| zstd::stream::encode_all(bytes, 3).unwrap();
    let gzip = gzip.finish().unwrap();
    vec![
        ("zstd", zstd(text)),
        ("gzip", gzip),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", bare.finish().unwrap()),
        ("br", brotli()),
    ]
}

#[tokio::test]
async fn a_compressed_body_is_read_and_forwarded_untouched_in_both_modes() {
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed] {
        let town = Town::found("", |setup| setup.body_mode = mode).await;
        for (encoding, body) in encoded(&text(3_000)) {
            let request = Request::post("/v1/chat/completions", body.clone()).header("content-encoding", encoding);
            let (status, trail) = town.send(request).await;
            assert_eq!((status, trail.to_string().as_str()), (200, "a(200)"), "{encoding} in {mode}");
            let seen = town.provider("a").seen();
            assert!(seen.last().unwrap().body == body, "{encoding} in {mode} arrived changed");
        }
        for (encoding, body) in [("gzip", "no gzip"), ("rot13", r#"{"model":"m"}"#), ("gzip, gzip", "one is allowed")] {
            let (_, trail) = town.send(Request::post("/v1/chat/completions", body).header("content-encoding", encoding)).await;
            assert_eq!((trail.to_string().as_str(), &trail.decision["reason"]), ("fixed(200)", &"malformed_body".into()));
        }
    }
}

/// Each piece is a chunk of its own on the client's connection; how many messages Envoy makes of them is its own business.
#[tokio::test]
async fn a_compressed_body_may_come_in_pieces_of_any_size() {
    let town = Town::found("", |setup| setup.body_mode = BodyMode::FullDuplexStreamed).await;
    for (encoding, body) in encoded(&text(60)) {
        for size in [1, 7, 100] {
            let request = Request::post("/v1/chat/completions", "").header("content-encoding", encoding);
            let (_, mut sending) = ok(town.envoy.begin(request, None).await);
            for piece in body.chunks(size) {
                sending.write(piece).await;
            }
            assert_eq!(ok(sending.response().await).header("x-served-by"), Some("a"), "{encoding} by {size}");
            assert!(town.provider("a").seen().pop().unwrap().body == body, "{encoding} by {size} arrived changed");
        }
    }
}

/// Two megabytes of deflate that come to nothing: empty blocks with fixed tables.
fn empty_blocks() -> Vec<u8> {
    // Ten bits, least significant first: five bytes hold four of them.
    let mut bits = 0_u64;
    (0..4).for_each(|block| bits |= 0b010 << (10 * block));
    bits.to_le_bytes()[..5].repeat(400_000)
}

#[tokio::test]
async fn a_body_that_was_made_to_be_slow_costs_the_neighbours_nothing() {
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed] {
        let town = Town::found("", |setup| setup.body_mode = mode).await;
        let hostile = Request::post("/v1/chat/completions", empty_blocks()).header("content-encoding", "deflate");
        let neighbour = || Request::post("/v1/chat/completions", r#"{"model":"m"}"#);
        let (hostile, first, second) = tokio::join!(town.send(hostile), town.send(neighbour()), town.send(neighbour()));
        let (_, trail) = hostile;
        assert_eq!((trail.to_string().as_str(), &trail.decision["reason"]), ("fixed(200)", &"body_too_large".into()), "{mode}");
        for (_, trail) in [first, second] {
            assert_eq!(trail.to_string(), "a(200)", "{mode}");
        }
    }
}
