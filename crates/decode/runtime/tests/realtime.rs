//! No step allocates or frees, whatever it is given and whatever happens beside it.
//!
//! Nor does one lock or call the system: a step holds no mutex, and the only clock it reads is the
//! time-stamp counter, or where there is none that can be trusted, the monotonic clock, which Linux
//! answers in user space (vDSO).

#![allow(clippy::unwrap_used)] // tests stop where something fails

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use assert_no_alloc::{AllocDisabler, assert_no_alloc};
use betz_runtime::model::{
    Blend, BlendMember, Classes, Cosines, Decoder, DecoderParts, EventRule, Experts,
    FilteredReadout, Gate, Head, Lift, LowPass, Markov, ModelBlend, Recurrent, RecurrentLayer,
    RecurrentMember, VelocityGate,
};
use betz_runtime::stream::{
    Clamp, ClassEvent, Hold, LateSpikes, Replay, Session, SessionConfig, Spike, Step, SwapOptions,
    SwapState, Tap, UnknownChannels, spike_queue,
};
use common::{counts, decoder, rng, sampled, spikes, with_sampled};
use rand::RngExt;

/// Ends the process when something inside `assert_no_alloc` allocates or frees.
#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

const BANK: &[(f64, u32)] = &[(0.02, 0), (0.05, 1), (0.1, 2), (0.2, 3), (0.4, 4)];

fn config(outputs: usize) -> SessionConfig {
    let clamp = Clamp {
        low: -10.0,
        high: 10.0,
    };
    SessionConfig {
        clamp: Some(vec![clamp; outputs]),
        channel_mask: Some(vec![true; 50]),
        unknown_channels: UnknownChannels::Ignore,
        statistics: true,
        deadline: Some(Duration::from_nanos(1)),
        hold: Some(Hold::default()),
        slew: Some(vec![0.5; outputs]),
        max_spikes: Some(60),
    }
}

#[test]
fn steps_do_not_allocate() {
    let rng = &mut rng(0);
    let low_pass = LowPass {
        order: 5,
        cutoff_hz: 10.0,
    };
    for (outputs, bank, low_pass) in [
        (2, &BANK[1..2], None),
        (2, BANK, Some(low_pass)),
        (7, BANK, None),
    ] {
        let mut decoder = decoder(rng, 50, outputs, bank, low_pass);
        if outputs == 7 {
            // Long enough for blocks.
            let filters = vec![sampled(rng, 5, 2), sampled(rng, 900, 0)];
            decoder = with_sampled(rng, decoder, filters);
        }
        let counts = counts(rng, 300, 50);
        let lists: Vec<Vec<u32>> = (counts.chunks(50))
            .map(|tick| {
                let mut list = spikes(tick);
                list.extend([50, 1000, u32::MAX]);
                list
            })
            .collect();
        let mut out = vec![0.0; outputs];
        let mut session = Session::open(&decoder, config(outputs)).unwrap();
        let mut bytes = vec![0; session.checkpoint_len()];
        assert_no_alloc(|| {
            for (counts, list) in counts.chunks(50).zip(&lists) {
                session.step_counts(counts, &mut out).unwrap();
                session.warm();
                session.step_spikes(list, &mut out).unwrap();
                session.checkpoint_into(&mut bytes).unwrap();
                session.restore(&bytes).unwrap();
            }
            for _ in 0..10_000 {
                session.step_spikes(&[], &mut out).unwrap();
            }
            session.step_counts(&counts[..50], &mut out).unwrap();
            session.reset();
        });
        let stats = assert_no_alloc(|| session.stats());
        assert_eq!(stats.ticks, 10_601);
        assert_eq!(stats.unknown_channel_spikes, 900);
        assert_no_alloc(|| session.clear_stats());
    }
}

#[test]
fn steps_through_a_queue_do_not_allocate() {
    let rng = &mut rng(1);
    let decoder = decoder(rng, 50, 2, BANK, None);
    let mut session = Session::open(&decoder, config(2)).unwrap();
    let (mut producer, mut consumer) = spike_queue(64, LateSpikes::Take).unwrap();
    let mut out = [0.0; 2];
    assert_no_alloc(|| {
        for tick in 0..1000 {
            for channel in 0..(tick % 100) as u32 {
                let late = i64::from(channel % 7 == 0);
                producer.push(&[Spike {
                    tick: tick - late,
                    channel,
                }]);
            }
            producer.mark(tick);
            assert!(consumer.is_ready() && consumer.newest_age().is_some());
            consumer.warm(&mut session);
            consumer.step(&mut session, &mut out).unwrap();
        }
    });
    // Nor does a step that is refused.
    let refusing = SessionConfig {
        unknown_channels: UnknownChannels::Refuse,
        ..config(2)
    };
    let mut refusing = Session::open(&decoder, refusing).unwrap();
    let unknown = Spike {
        tick: 2000,
        channel: 50,
    };
    assert_no_alloc(|| {
        consumer.set_tick(2000).unwrap();
        consumer.try_step(&mut session, &mut out).unwrap();
        producer.push(&[Spike {
            tick: 2001,
            ..unknown
        }]);
        assert!(consumer.try_step(&mut refusing, &mut out).is_err());
        assert!(consumer.try_step(&mut refusing, &mut []).is_err());
    });
    let stats = session.stats();
    assert!(stats.dropped > 0 && stats.late > 0 && stats.unknown_channel_spikes > 0);
    assert!(stats.capped > 0);
}

#[test]
fn a_model_swap_does_not_allocate_or_free_in_a_step() {
    let rng = &mut rng(2);
    let first = decoder(rng, 50, 2, BANK, None);
    let second = decoder(rng, 50, 2, &BANK[1..2], None);
    let mut session = Session::open(&first, config(2)).unwrap();
    let mut swapper = session.swapper().unwrap();
    let mut out = [0.0; 2];
    let mut steps = |n: u64| {
        assert_no_alloc(|| {
            for _ in 0..n {
                session.step_spikes(&[1, 2, 60], &mut out).unwrap();
            }
        });
        session.stats().model_swaps
    };
    swapper.swap(&second).unwrap();
    assert_eq!(steps(1), 0);
    assert_eq!(swapper.state(), SwapState::WarmingUp);
    assert_eq!(steps(10_000), 1);
    assert_eq!(swapper.state(), SwapState::TakenOver);
    swapper.roll_back().unwrap();
    assert_eq!(steps(1), 2);
    assert_eq!((swapper.state(), swapper.reclaim()), (SwapState::Idle, 1));
    swapper.swap(&second).unwrap();
    steps(1);
    swapper.swap(&first).unwrap(); // supersedes the one that was warming up
    assert_eq!(steps(10_000), 3);
    assert_eq!(swapper.reclaim(), 1);
    swapper.release().unwrap();
    steps(1);
    assert_eq!((swapper.state(), swapper.reclaim()), (SwapState::Idle, 1));
}

/// Counts what it is handed.
struct Counter(Arc<AtomicU64>);

impl Tap for Counter {
    fn take(&mut self, step: &Step<'_>) {
        self.0
            .fetch_add(step.estimates.len() as u64, Ordering::Relaxed);
    }
}

/// Pages that the system has handed to this thread so far, without reading them from a disk.
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(7).unwrap().parse().unwrap()
}

#[test]
fn a_lap_of_a_queue_needs_no_new_page() {
    const CAPACITY: usize = 1 << 16;
    let mut session = Session::open(&decoder(&mut rng(1), 50, 2, BANK, None), config(2)).unwrap();
    let (mut producer, mut consumer) = spike_queue(CAPACITY, LateSpikes::Take).unwrap();
    let mut out = [0.0; 2];
    let mut lap = |ticks: std::ops::Range<i64>| {
        let before = page_faults();
        for tick in ticks {
            assert_eq!(producer.push(&[Spike { tick, channel: 3 }]), 1);
            producer.mark(tick);
            consumer.step(&mut session, &mut out).unwrap();
        }
        page_faults() - before
    };
    // Code and stack come with the first steps.
    lap(0..100);
    let faults = lap(100..100 + 2 * CAPACITY as i64);
    assert!(faults < 16, "{faults} pages of the queue's 1.3 MB");
}

#[test]
fn what_another_thread_changes_does_not_allocate_or_free_in_a_step() {
    let rng = &mut rng(3);
    let first = decoder(rng, 50, 2, BANK, None);
    let second = decoder(rng, 50, 2, &BANK[1..2], None);
    let mut session = Session::open(&first, config(2)).unwrap();
    let mut swapper = session.swapper().unwrap();
    let reader = session.health();
    let heard = Arc::new(AtomicU64::new(0));
    let mut out = [0.0; 2];
    let mut steps = |n: u64| {
        assert_no_alloc(|| {
            for _ in 0..n {
                session.step_spikes(&[1, 2, 60], &mut out).unwrap();
                session.warm();
                session.step_stale(&mut out).unwrap();
                session.skip(3);
            }
            session.skip(1_000_000);
            session.take_requests();
            session.status()
        })
    };
    // A tap, a mask, bounds and a checkpoint at once: as many requests as wait for a step.
    let tap = Counter(Arc::clone(&heard));
    swapper.attach(Box::new(tap), Some(7)).unwrap();
    let mut mask = vec![true; 50];
    mask[1] = false;
    swapper.set_mask(&first, Some(&mask)).unwrap();
    let clamp = Clamp {
        low: -0.5,
        high: 0.5,
    };
    swapper.set_clamp(Some(vec![clamp; 2])).unwrap();
    swapper.request_checkpoint().unwrap();
    steps(10);
    assert_eq!(heard.load(Ordering::Relaxed), 40);
    assert!(swapper.take_checkpoint().is_some());
    swapper.set_clamp(None).unwrap();
    swapper.set_mask(&first, None).unwrap();
    steps(10);
    // A model warmed up by replay that fades in, and back.
    let spikes = [(0, 1), (5, 3), (9, 49)].map(|(tick, channel)| Spike { tick, channel });
    let options = SwapOptions {
        warm_up_steps: Some(5),
        cross_fade_steps: 20,
        replay: Some(Replay {
            spikes: &spikes,
            end_tick: 10,
        }),
        ..SwapOptions::default()
    };
    swapper.swap_with(&second, &options).unwrap();
    steps(2);
    assert_eq!(swapper.state(), SwapState::TakenOver);
    swapper.roll_back().unwrap();
    swapper.detach().unwrap();
    let status = steps(1);
    assert!(swapper.take_tap().is_some());
    assert_eq!(assert_no_alloc(|| reader.read()).status, status);
}

/// A chain with every sort of layer, of four latents and two outputs.
#[cfg(feature = "layers")]
fn chain_of_layers() -> Head {
    use betz_runtime::model::{Activation, Cell, Layer, Layers};
    let gated = |cell: Cell, inputs: usize| Layer::Gated {
        cell,
        layer: RecurrentLayer {
            input_weights: vec![0.1; inputs * cell.gates() * 4],
            input_bias: vec![0.1; cell.gates() * 4],
            state_weights: vec![0.1; 4 * cell.gates() * 4],
            state_bias: vec![0.1; cell.gates() * 4],
        },
        initial: Vec::new(),
    };
    Head::Layers(Layers {
        inputs: 4,
        layers: vec![
            Layer::Norm {
                scale: vec![1.0; 4],
                shift: vec![0.0; 4],
                epsilon: 1e-5,
            },
            Layer::Window {
                length: 3,
                apart: 1,
                stride: 2,
                first: 3,
            },
            gated(Cell::Gru, 12),
            Layer::Activation(Activation::Gelu),
            gated(Cell::Lstm, 4),
            Layer::Linear {
                weights: vec![0.1; 8],
                bias: vec![0.0; 2],
            },
        ],
        memory_steps: 30,
    })
}

const LATENTS: usize = 5;
const OUTPUTS: usize = 2;
const UNITS: usize = 16;

fn filtered_readout(features: usize) -> FilteredReadout {
    FilteredReadout {
        tau_seconds: Some(0.1),
        centre: vec![0.1; features],
        direct: vec![0.2; features * OUTPUTS],
        filtered: vec![0.3; features * OUTPUTS],
        intercept: vec![0.0; OUTPUTS],
    }
}

/// Networks without and with a blend.
fn recurrent_heads() -> [Head; 2] {
    let member = RecurrentMember {
        layers: vec![RecurrentLayer {
            state_weights: vec![0.1; UNITS * 3 * UNITS],
            state_bias: vec![0.1; 3 * UNITS],
            ..RecurrentLayer::default()
        }],
        readout: vec![0.1; OUTPUTS * UNITS],
    };
    let recurrent = Recurrent {
        units: vec![UNITS],
        members: vec![member.clone()],
        bias: vec![0.0; OUTPUTS],
        memory_steps: 30,
        ..Recurrent::default()
    };
    let blended = Recurrent {
        members: vec![member.clone(), member],
        blend: Some(Blend {
            usual: 1,
            share: 0.1,
            apart: 1.0,
            kept: 0.5,
            deviations: vec![1.0; OUTPUTS],
            bias: vec![0.5; OUTPUTS],
        }),
        ..recurrent.clone()
    };
    [recurrent, blended].map(Head::Recurrent)
}

fn classes(cosines: Cosines) -> Classes {
    let event = EventRule {
        on: 0.5,
        off: 0.5,
        dwell: 1,
        refractory_seconds: 0.0,
    };
    Classes {
        cosines,
        tau_seconds: Some(0.1),
        weights: vec![0.1; (2 * LATENTS + UNITS) * OUTPUTS],
        bias: vec![0.0; OUTPUTS],
        priors: vec![0.5; OUTPUTS],
        markov: Some(Markov {
            kappa: 0.5,
            transitions: vec![0.5; OUTPUTS * OUTPUTS],
            start: vec![0.5; OUTPUTS],
        }),
        events: vec![Some(event); OUTPUTS],
    }
}

/// Heads of every kind, each with its number of latents.
fn heads_and_latents() -> Vec<(Head, usize)> {
    let rng = &mut rng(4);
    let mut random =
        |n: usize| -> Vec<f32> { (0..n).map(|_| rng.random_range(-0.5..0.5)).collect() };
    let cosines = Cosines {
        radius: 6.0,
        frequencies: random(LATENTS * UNITS),
        phases: random(UNITS),
    };
    let lift = Head::Lift(Lift {
        cosines: cosines.clone(),
        readout: filtered_readout(LATENTS + UNITS),
        seed: 1,
    });
    let experts = Head::Experts(Experts {
        gate: Gate {
            radius: 6.0,
            weights: random(2 * LATENTS * UNITS),
            bias: cosines.phases.clone(),
        },
        readout: filtered_readout(LATENTS + UNITS + UNITS * LATENTS),
        seed: 2,
    });
    let [recurrent, blended] = recurrent_heads();
    let member = |head: Head, latents: usize| {
        let parts = common::decoder(&mut common::rng(6), 50, latents, BANK, None).into_parts();
        let outputs = ["x", "y"].map(Into::into).to_vec();
        BlendMember {
            weight: 0.25,
            decoder: Decoder::new(DecoderParts {
                outputs,
                head,
                ..parts
            })
            .unwrap(),
        }
    };
    let blend = Head::ModelBlend(ModelBlend {
        own: Box::new(lift.clone()),
        weight: 0.5,
        members: vec![
            member(Head::Linear, OUTPUTS),
            member(recurrent.clone(), 3 * UNITS),
        ],
    });
    let classes = classes(cosines);
    let gate = Head::VelocityGate(VelocityGate {
        classes: classes.clone(),
        names: ["rest", "go"].map(String::from).to_vec(),
        class: 1,
        closed: 0.1,
        slope: 0.9,
        gated: vec![true; OUTPUTS],
    });
    vec![
        (lift, LATENTS),
        (experts, LATENTS),
        (recurrent, 3 * UNITS),
        (blended, 2 * 3 * UNITS),
        (blend, LATENTS),
        (Head::Classes(classes), LATENTS),
        (gate, OUTPUTS + LATENTS),
        #[cfg(feature = "layers")]
        (chain_of_layers(), 4),
    ]
}

#[test]
fn heads_do_not_allocate() {
    for (head, latents) in heads_and_latents() {
        let rng = &mut common::rng(5);
        let mut linear = decoder(rng, 50, latents, BANK, None).into_parts();
        // Lists of spikes are tallied where counts are capped.
        linear.limits.count_caps = vec![3.0; 50];
        let with_names = |parts| DecoderParts {
            outputs: ["x", "y"].map(Into::into).to_vec(),
            ..parts
        };
        let decoder = Decoder::new(with_names(DecoderParts { head, ..linear })).unwrap();
        let plain = common::decoder(rng, 50, OUTPUTS, BANK, None).into_parts();
        let plain = Decoder::new(with_names(plain)).unwrap();
        let counts = counts(rng, 300, 50);
        let mut session = Session::open(&decoder, config(OUTPUTS)).unwrap();
        let mut swapper = session.swapper().unwrap();
        let mut out = [0.0; 2];
        let mut events = [ClassEvent::default(); 8];
        let mut steps = || {
            assert_no_alloc(|| {
                for counts in counts.chunks(50) {
                    session.step_counts(counts, &mut out).unwrap();
                    session.step_spikes(&[3, 3, 49, 3, 3], &mut out).unwrap();
                    session.warm();
                    session.skip(2);
                    session.events(&mut events);
                    let _ = session.try_classes(&mut [0.0; 2]);
                }
                session.skip(1 << 40);
                session.reset();
            });
        };
        steps();
        swapper.swap(&plain).unwrap();
        steps();
        swapper.roll_back().unwrap();
        steps();
        assert_eq!(swapper.reclaim(), 1);
    }
}
