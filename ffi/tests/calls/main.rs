//! Calls of the C functions from Rust: the same bits, hostile bytes, fuzz inputs.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fuzz_corpus;
mod hostile;
mod same_bits;

#[path = "../../fuzz/harness/calls.rs"]
mod calls;
#[path = "../../fuzz/harness/input.rs"]
mod input;
#[path = "../../fuzz/harness/miner.rs"]
mod miner;
#[path = "../../fuzz/harness/model_load_bytes.rs"]
mod model_load_bytes;
#[path = "../../fuzz/harness/trained.rs"]
mod trained;
