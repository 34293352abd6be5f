#![no_main]

#[path = "../../tests/integration/corpus/input.rs"]
mod input;
#[path = "../../tests/integration/corpus/scanner.rs"]
mod scanner;

libfuzzer_sys::fuzz_target!(|data: &[u8]| scanner::check(data));
