//! See the harness.

#![no_main]

#[path = "../harness/model_load_bytes.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
