//! Compressed bodies: the model is found inside, and the provider gets the bytes as the client sent them.

use std::io::Write;

use cascade::lab::{BodyMode, Request};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::town::Town;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_compressed_body_is_read_and_forwarded_untouched_in_both_modes() {
    let turns: String = (0..3_000).map(|turn| format!(r#"{{"role":"user","content":"{turn} {}"}},"#, turn * 7919)).collect();
    let text = format!(r#"{{"messages":[{}],"model":"m"}}"#, turns.trim_end_matches(','));
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed] {
        let town = Town::found("", |setup| setup.body_mode = mode).await;
        for (encoding, body) in [("gzip", gzip(&text)), ("zstd", zstd::stream::encode_all(text.as_bytes(), 3).unwrap())] {
            let request = Request::post("/v1/chat/completions", body.clone()).header("content-encoding", encoding);
            let (status, trail) = town.send(request).await;
            assert_eq!((status, trail.to_string().as_str()), (200, "a(200)"), "{encoding} in {mode:?}");
            let seen = town.provider("a").seen();
            assert!(seen.last().unwrap().body == body, "{encoding} in {mode:?} arrived changed");
        }
        let (_, trail) = town.send(Request::post("/v1/chat/completions", "no gzip").header("content-encoding", "gzip")).await;
        assert_eq!((trail.to_string().as_str(), &trail.decision["reason"]), ("fixed(200)", &"malformed_body".into()));
    }
}
