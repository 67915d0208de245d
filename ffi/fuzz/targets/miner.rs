//! See the harness.

#![no_main]

#[path = "../harness/miner.rs"]
mod harness;
#[path = "../harness/input.rs"]
mod input;
#[path = "../harness/trained.rs"]
mod trained;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
