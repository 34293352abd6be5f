//! The inputs that fuzzing found worth keeping, run through the same checks as the fuzz targets (`fuzz/Cargo.toml` says how those
//! are run): one directory of `tests/corpus` a check.

mod coding;
mod exchange;
mod input;
mod multipart;
mod scanner;

use std::fs;
use std::path::Path;

/// Runs the check over every file; an input that fails is named.
fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let input = fs::read(&path).unwrap();
        let checked = std::panic::catch_unwind(|| check(&input));
        assert!(checked.is_ok(), "{} fails the check of `{target}`", path.display());
        count += 1;
    }
    assert!(count >= 10, "{} holds {count} inputs", folder.display());
}

#[test]
fn the_scanner_agrees_with_serde_json() {
    replay("scanner", scanner::check);
}

#[test]
fn multipart_bodies_are_read_alike_wherever_they_are_cut() {
    replay("multipart", multipart::check);
}

#[test]
fn codings_are_undone_wherever_they_are_cut() {
    replay("coding", coding::check);
}

#[test]
fn exchanges_answer_whatever_comes() {
    replay("exchange", exchange::check);
}
