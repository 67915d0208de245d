//! Cost of a call through libbetz.so, compared with the same step in Rust: same process, core, model
//! and spikes, with blocks of each in turn.
//!
//! `cargo build --release -p betz-library && cargo bench -p betz-ffi --bench call --profile release`

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
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

type LoadBytes = unsafe extern "C" fn(*const u8, usize, *mut *mut c_void) -> i32;
type SessionDefault = unsafe extern "C" fn(*mut betz_session_config, usize) -> i32;
type SessionOpen =
    unsafe extern "C" fn(*mut c_void, *const betz_session_config, *mut *mut c_void) -> i32;
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

/// A session behind libbetz.so.
struct CSession {
    handle: *mut c_void,
    step_spikes: StepSpikes,
    step_counts: StepCounts,
    _library: Library,
}

impl CSession {
    /// Opens a session of the model in `bytes`, and prints the time it takes.
    fn open(path: &Path, bytes: &[u8]) -> Self {
        // SAFETY: libbetz.so has the functions of betz.h with these types (handles are opaque), and
        // every pointer is to live values of the length that is said.
        unsafe {
            let library = Library::new(path).unwrap();
            let load = *library.get::<LoadBytes>(b"betz_model_load_bytes").unwrap();
            let default = *library
                .get::<SessionDefault>(b"betz_session_config_default")
                .unwrap();
            let open = *library.get::<SessionOpen>(b"betz_session_open").unwrap();
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
            Self {
                handle,
                step_spikes: *library.get(b"betz_session_step_spikes").unwrap(),
                step_counts: *library.get(b"betz_session_step_counts").unwrap(),
                _library: library,
            }
        }
    }

    fn step_spikes(&self, spikes: &[u32], out: &mut [f32]) {
        let (spikes, n) = (spikes.as_ptr(), spikes.len());
        // SAFETY: the handle is open, and the arrays are as long as is said.
        let status =
            unsafe { (self.step_spikes)(self.handle, spikes, n, out.as_mut_ptr(), out.len()) };
        assert_eq!(status, 0);
    }

    fn step_counts(&self, counts: &[u16], out: &mut [f32]) {
        let (counts, n) = (counts.as_ptr(), counts.len());
        // SAFETY: the handle is open, and the arrays are as long as is said.
        let status =
            unsafe { (self.step_counts)(self.handle, counts, n, out.as_mut_ptr(), out.len()) };
        assert_eq!(status, 0);
    }
}

/// Runs blocks in turn, and prints the medians of both.
fn compare(name: &str, mut rust_step: impl FnMut(usize), mut c_step: impl FnMut(usize)) {
    let (mut rust, mut c) = (Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        rust.push(blocks(&mut rust_step));
        c.push(blocks(&mut c_step));
    }
    let (rust, c) = (median(rust), median(c));
    println!(
        "{name}, {CHANNELS} channels -> {OUTPUTS} outputs: Rust {rust:.1} ns, C {c:.1} ns, call {:+.1} ns (medians of {BLOCKS} blocks of {BLOCK})",
        c - rust
    );
}

fn main() {
    let path = std::env::var_os("BETZ_LIBRARY").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/release/libbetz.so"),
        PathBuf::from,
    );
    let decoder = decoder();
    let c = CSession::open(&path, &decoder.to_bytes().unwrap());
    let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
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
    let (mut out, mut c_out) = ([0.0f32; OUTPUTS], [0.0f32; OUTPUTS]);
    compare(
        "list of spikes",
        |i| session.step_spikes(&lists[i], &mut out).unwrap(),
        |i| c.step_spikes(&lists[i], &mut c_out),
    );
    compare(
        "counts",
        |i| session.step_counts(&counts[i], &mut out).unwrap(),
        |i| c.step_counts(&counts[i], &mut c_out),
    );
}
