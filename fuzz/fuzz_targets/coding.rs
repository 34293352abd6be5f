#![no_main]

#[path = "../../tests/integration/corpus/coding.rs"]
mod coding;
#[path = "../../tests/integration/corpus/input.rs"]
mod input;

libfuzzer_sys::fuzz_target!(|data: &[u8]| coding::check(data));
