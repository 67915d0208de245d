//! The recordings that every function is tested on.

use betz_recording::{Behavior, OutputInfo, Recording, Segment, SpikeForm, Spikes};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) recording: Recording,
}

fn segments(of: &[[i64; 2]]) -> Vec<Segment> {
    let segment = |&[start, stop]: &[i64; 2]| Segment { start, stop };
    of.iter().map(segment).collect()
}

/// Spikes at random, rarely several in a tick; a walk as behaviour.
fn random(
    seed: u64,
    ticks: i64,
    tick_seconds: f64,
    form: SpikeForm,
    within: &[[i64; 2]],
) -> Recording {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut at, mut channels, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for tick in 0..ticks {
        for channel in 0..4 {
            // Channel 3 is silent; channel 0 fires twice as often as channel 1.
            if channel < 3 && random.random::<f64>() < [0.1, 0.05, 0.02][channel] {
                at.push(tick);
                channels.push(channel as u32);
                weights.push(if random.random::<f64>() < 0.3 {
                    2.0
                } else {
                    1.0
                });
            }
        }
    }
    let mut place = [0.0_f32; 2];
    let mut values = Vec::new();
    for _ in 0..ticks {
        for axis in &mut place {
            *axis += random.random::<f32>() - 0.5;
            values.push(*axis);
        }
    }
    let output = |name: &str| OutputInfo {
        name: name.into(),
        unit: "mm".into(),
    };
    Recording {
        tick_seconds,
        ticks,
        spikes: Spikes {
            ticks: at,
            channels,
            weights: if form == SpikeForm::Counts {
                weights
            } else {
                Vec::new()
            },
        },
        channel_names: (0..4).map(|c| format!("unit {c}")).collect(),
        behavior: Some(Behavior {
            outputs: vec![output("x"), output("y")],
            values,
            times: None,
        }),
        segments: segments(within),
        electrode_um: None,
        form,
        meta: None,
    }
}

pub(crate) fn all() -> Vec<Case> {
    let case = |name, recording| Case { name, recording };
    let trials: &[[i64; 2]] = &[[0, 500], [500, 900], [1_000, 1_003], [1_400, 2_000]];
    vec![
        case(
            "one segment",
            random(1, 2_000, 0.001, SpikeForm::Events, &[[0, 2_000]]),
        ),
        case(
            "trials and gaps",
            random(2, 2_000, 0.001, SpikeForm::Events, trials),
        ),
        case(
            "fine ticks",
            random(3, 3_000, 1.0 / 30_000.0, SpikeForm::Events, &[[7, 2_900]]),
        ),
        case(
            "counts of 1 ms",
            random(4, 2_000, 0.001, SpikeForm::Counts, trials),
        ),
        case(
            "counts of 20 ms",
            random(5, 1_000, 0.02, SpikeForm::Counts, &[[0, 300], [301, 1_000]]),
        ),
        case(
            "one tick",
            random(6, 1, 0.001, SpikeForm::Events, &[[0, 1]]),
        ),
    ]
}
