//! Cost of a call through libbetz.so, compared with the same step in Rust: same process, core, model
//! and spikes, with blocks of each in turn.
//!
//! `cargo build --release -p betz-library && cargo bench -p betz-ffi --bench call --profile release`

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::ptr;
use std::time::Instant;

use betz::model::{Decoder, DecoderParts};
use betz::psc::{Filter, FilterBank};
use betz::recording::OutputInfo;
use betz::stream::{Session, SessionConfig};
use betz_ffi::*;
use libloading::Library;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CHANNELS: usize = 1024;
const OUTPUTS: usize = 2;
const PATTERNS: usize = 512;
const BLOCK: usize = 20_000;
const BLOCKS: usize = 60;

fn decoder() -> Decoder {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.1,
        order: 0,
    }])
    .unwrap();
    let names = (0..CHANNELS).map(|i| i.to_string()).collect();
    let outputs = (0..OUTPUTS).map(|i| OutputInfo::from(format!("x{i}").as_str()));
    Decoder::new(DecoderParts {
        weights: (0..CHANNELS * OUTPUTS)
            .map(|_| random.random_range(-1.0..1.0))
            .collect(),
        intercept: vec![0.5; OUTPUTS],
        ..DecoderParts::linear(0.00025, bank, names, outputs.collect())
    })
    .unwrap()
}

type StepSpikes = unsafe extern "C" fn(*mut c_void, *const u32, usize, *mut f32, usize) -> i32;
type StepCounts = unsafe extern "C" fn(*mut c_void, *const u16, usize, *mut f32, usize) -> i32;

/// Nanoseconds per step, for each block.
fn blocks(mut step: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    for i in 0..BLOCK {
        step(i % PATTERNS);
    }
    start.elapsed().as_nanos() as f64 / BLOCK as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let path = std::env::var_os("BETZ_LIBRARY").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/release/libbetz.so"),
        PathBuf::from,
    );
    let bytes = decoder().to_bytes().unwrap();
    // SAFETY: libbetz.so has the functions of betz.h with these types (handles are opaque), and
    // every pointer is to live values of the length that is said.
    unsafe {
        let library = Library::new(&path).unwrap();
        let load: libloading::Symbol<
            unsafe extern "C" fn(*const u8, usize, *mut *mut c_void) -> i32,
        > = library.get(b"betz_model_load_bytes").unwrap();
        let default: libloading::Symbol<
            unsafe extern "C" fn(*mut betz_session_config, usize) -> i32,
        > = library.get(b"betz_session_config_default").unwrap();
        let open: libloading::Symbol<
            unsafe extern "C" fn(*mut c_void, *const betz_session_config, *mut *mut c_void) -> i32,
        > = library.get(b"betz_session_open").unwrap();
        let step_spikes = *library
            .get::<StepSpikes>(b"betz_session_step_spikes")
            .unwrap();
        let step_counts = *library
            .get::<StepCounts>(b"betz_session_step_counts")
            .unwrap();

        let (mut model, mut handle) = (ptr::null_mut(), ptr::null_mut());
        let mut config = MaybeUninit::uninit();
        assert_eq!(load(bytes.as_ptr(), bytes.len(), &mut model), 0);
        assert_eq!(default(config.as_mut_ptr(), size_of_val(&config)), 0);
        let start = Instant::now();
        assert_eq!(open(model, config.as_ptr(), &mut handle), 0);
        println!(
            "open a session of {CHANNELS} channels: {:.2} ms",
            start.elapsed().as_secs_f64() * 1e3
        );
        let mut session = Session::open(
            &Decoder::from_bytes(&bytes).unwrap(),
            SessionConfig::default(),
        )
        .unwrap();

        // 20 Hz at 0.25 ms: 0.5 % of the channels per tick.
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let lists: Vec<Vec<u32>> = (0..PATTERNS)
            .map(|_| {
                (0..CHANNELS as u32)
                    .filter(|_| random.random_bool(0.005))
                    .collect()
            })
            .collect();
        let counts: Vec<Vec<u16>> = (lists.iter())
            .map(|list| {
                let mut row = vec![0; CHANNELS];
                list.iter().for_each(|&c| row[c as usize] += 1);
                row
            })
            .collect();
        let mut out = [0.0f32; OUTPUTS];
        for (name, list) in [("list of spikes", true), ("counts", false)] {
            let (mut rust, mut c) = (Vec::new(), Vec::new());
            for _ in 0..BLOCKS {
                rust.push(blocks(|i| {
                    let done = if list {
                        session.step_spikes(&lists[i], &mut out)
                    } else {
                        session.step_counts(&counts[i], &mut out)
                    };
                    done.unwrap();
                }));
                c.push(blocks(|i| {
                    let out = out.as_mut_ptr();
                    let status = if list {
                        step_spikes(handle, lists[i].as_ptr(), lists[i].len(), out, OUTPUTS)
                    } else {
                        step_counts(handle, counts[i].as_ptr(), CHANNELS, out, OUTPUTS)
                    };
                    assert_eq!(status, 0);
                }));
            }
            let (rust, c) = (median(rust), median(c));
            println!(
                "{name}, {CHANNELS} channels -> {OUTPUTS} outputs: Rust {rust:.1} ns, C {c:.1} ns, call {:+.1} ns (medians of {BLOCKS} blocks of {BLOCK})",
                c - rust
            );
        }
    }
}
