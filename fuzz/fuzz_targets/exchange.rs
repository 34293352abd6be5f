#![no_main]

#[path = "../../tests/integration/corpus/exchange.rs"]
mod exchange;
#[path = "../../tests/integration/corpus/input.rs"]
mod input;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exchange::check(data));
