//! See the harness.

#![no_main]

#[path = "../harness/calls.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
