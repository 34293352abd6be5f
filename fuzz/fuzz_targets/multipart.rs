#![no_main]

#[path = "../../tests/integration/corpus/input.rs"]
mod input;
#[path = "../../tests/integration/corpus/multipart.rs"]
mod multipart;

libfuzzer_sys::fuzz_target!(|data: &[u8]| multipart::check(data));
