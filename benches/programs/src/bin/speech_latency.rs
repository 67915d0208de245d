//! Prints the processor time of a patch of the published network for speech (Card et al. 2024), with random weights: 512
//! features per 20 ms, an input layer of the day with softsign, patches of 14 steps every 4, five GRU layers of 768 units,
//! 41 classes.
//!
//! ```sh
//! cargo run --release -p betz-programs --bin speech_latency        # 400 patches with f32, bfloat16 and int8 weights
//! cargo run --release -p betz-programs --bin speech_latency -- 50  # fewer
//! ```
//!
//! A patch is due every 80 ms. It costs one step that hands a window on and three that do not.

use std::hint::black_box;

use betz_runtime::model::{
    Activation, Cell, Decoder, DecoderParts, Head, Layer, Layers, RecurrentLayer,
};
use betz_runtime::psc::{Filter, FilterBank};
use betz_runtime::stream::{Session, SessionConfig};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::time::{ClockId, clock_gettime};

const FEATURES: usize = 512;
const PATCH: usize = 14;
const STRIDE: usize = 4;
const UNITS: usize = 768;
const LAYERS: usize = 5;
const CLASSES: usize = 41;
const STEP_SECONDS: f64 = 0.02;

/// Numbers of weights.
#[derive(Clone, Copy)]
enum Precision {
    F32,
    Bf16,
    Int8,
}

/// Numbers of the size that PyTorch begins with.
fn weights(rng: &mut ChaCha8Rng, count: usize, precision: Precision) -> Vec<f32> {
    let bound = 1.0 / (UNITS as f32).sqrt();
    // Of 16 bits, so that products with whole numbers are exact. The first row has the largest of each column.
    let scale = f32::from_bits((bound / 127.0).to_bits() & !0xFF);
    let number = |i: usize, v: f32| match precision {
        Precision::F32 => v,
        Precision::Bf16 => f32::from_bits(v.to_bits() & 0xFFFF_0000),
        Precision::Int8 if i < 3 * UNITS => 127.0 * scale,
        Precision::Int8 => (v / scale).round().clamp(-127.0, 127.0) * scale,
    };
    (0..count)
        .map(|i| number(i, rng.random_range(-bound..bound)))
        .collect()
}

fn decoder(precision: Precision) -> betz_base::Result<Decoder> {
    let rng = &mut ChaCha8Rng::seed_from_u64(36);
    let mut layers = vec![
        Layer::Activation(Activation::Softsign),
        Layer::Window {
            length: PATCH,
            apart: 1,
            stride: STRIDE,
            first: PATCH,
        },
    ];
    for layer in 0..LAYERS {
        let inputs = if layer == 0 { PATCH * FEATURES } else { UNITS };
        layers.push(Layer::Gated {
            cell: Cell::Gru,
            layer: RecurrentLayer {
                input_weights: weights(rng, inputs * 3 * UNITS, precision),
                input_bias: weights(rng, 3 * UNITS, Precision::F32),
                state_weights: weights(rng, UNITS * 3 * UNITS, precision),
                state_bias: weights(rng, 3 * UNITS, Precision::F32),
            },
            initial: Vec::new(),
        });
    }
    layers.push(Layer::Linear {
        weights: weights(rng, UNITS * CLASSES, precision),
        bias: weights(rng, CLASSES, Precision::F32),
    });
    let names = (0..FEATURES).map(|c| c.to_string()).collect();
    let outputs = (0..CLASSES)
        .map(|o| o.to_string().as_str().into())
        .collect();
    // Hands on the values of the step.
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: STEP_SECONDS / 40.0,
        order: 0,
    }])?;
    let day = weights(rng, FEATURES * FEATURES, Precision::F32);
    Decoder::new(DecoderParts {
        weights: day.into_iter().map(f64::from).collect(),
        intercept: vec![0.0; FEATURES],
        head: Head::Layers(Layers {
            inputs: FEATURES,
            layers,
            memory_steps: 100,
        }),
        ..DecoderParts::linear(STEP_SECONDS, bank, names, outputs)
    })
}

/// Processor time of this thread, in ms.
fn now_ms() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 * 1e-6
}

fn main() -> betz_base::Result<()> {
    let patches = match std::env::args().nth(1).map(|n| n.parse::<usize>()) {
        None => 400,
        Some(Ok(patches)) if patches > 0 => patches,
        Some(_) => {
            return Err(betz_base::Error::argument(
                "expected a number of patches above 0",
            ));
        }
    };
    println!("{patches} patches of {STRIDE} steps; ms of the processor per patch");
    println!();
    println!("| weights | least | p50 | p99 |");
    println!("|---|---|---|---|");
    for (name, precision) in [
        ("f32", Precision::F32),
        ("bfloat16", Precision::Bf16),
        ("int8", Precision::Int8),
    ] {
        let mut session = Session::open(&decoder(precision)?, SessionConfig::default())?;
        let rng = &mut ChaCha8Rng::seed_from_u64(1);
        let values: Vec<f32> = (0..64 * FEATURES)
            .map(|_| rng.random_range(-1.0..1.0))
            .collect();
        let mut rows = values.chunks_exact(FEATURES).cycle();
        let mut out = [0.0; CLASSES];
        let mut times: Vec<f64> = Vec::new();
        // The first patches only fill the window.
        for _ in 0..patches + PATCH {
            let start = now_ms();
            for row in rows.by_ref().take(STRIDE) {
                session.step_values(row, &mut out)?;
            }
            times.push(now_ms() - start);
            black_box(&mut out);
        }
        let times = &mut times[PATCH..];
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        println!("| {name} | {:.2} | {:.2} | {:.2} |", at(0), at(50), at(99));
    }
    Ok(())
}
