//! Random small cases that every counting path is tested against: few symbols, so that they repeat;
//! few ticks, so that they tie; low bounds of zero; events at tick 0; episodes of one symbol and two.

#![allow(clippy::unwrap_used, missing_docs)]

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use betz_base::error::Result;
use betz_device::Device;
use betz_device::cuda::Context;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::alphabet::Alphabet;
use crate::clock::Clock;
use crate::count::{CountJob, Strategy, count};
use crate::csv::Order;
use crate::events::Events;
use crate::events::max_tick;
use crate::online::ReminingOptions;
use crate::oracle;
use crate::pattern::{Interval, Pattern, read_patterns};
use betz_recording::{Recording, Segment, SpikeForm, Spikes};

/// A recording and some episodes to count in it.
pub struct Case {
    pub events: Events,
    pub patterns: Vec<Pattern>,
}

impl Case {
    /// The count of each pattern by the oracle.
    pub fn oracle_counts(&self) -> Vec<u64> {
        let patterns = self.patterns.iter();
        patterns.map(|p| oracle::count(&self.events, p)).collect()
    }
}

/// Symbols `a`, `b`, `c`, … on a clock of one millisecond.
pub fn alphabet(symbols: usize) -> Alphabet {
    let labels = (0..symbols).map(|i| format!("{}", (b'a' + i as u8) as char));
    Alphabet::new(labels.collect(), Clock::from_tick_seconds(1e-3).unwrap()).unwrap()
}

/// Events of (tick, symbol) pairs in any order.
pub fn events(symbols: usize, mut pairs: Vec<(i64, u32)>) -> Events {
    pairs.sort_by_key(|p| p.0);
    let (ticks, names): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
    Events::new(alphabet(symbols), &ticks, &names).unwrap()
}

/// A recording of `events` that goes on for two ticks after the last.
pub fn recording(events: &Events, segments: Vec<Segment>) -> Recording {
    let (ticks, channels): (Vec<i64>, Vec<u32>) = events.iter().unzip();
    Recording {
        tick_seconds: 1e-3,
        ticks: events.last_tick() + 3,
        spikes: Spikes::new(ticks, channels),
        channel_names: alphabet(events.symbols()).labels().to_vec(),
        behavior: None,
        segments,
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    }
}

/// Reads the spikes of a recording in chunks, as its file would be.
pub fn reader(recording: &Recording) -> impl FnMut(i64, i64) -> Result<Spikes> + Send + 'static {
    let spikes = recording.spikes.clone();
    move |start, stop| {
        let within = spikes.range(start, stop);
        Ok(Spikes::new(
            spikes.ticks[within.clone()].to_vec(),
            spikes.channels[within].to_vec(),
        ))
    }
}

/// Events of a recording of `length` milliseconds whose trials are the half-open `segments`.
pub fn trials(
    symbols: usize,
    length: i64,
    segments: &[(i64, i64)],
    ticks: Vec<i64>,
    channels: Vec<u32>,
) -> Events {
    let recording = Recording {
        tick_seconds: 1e-3,
        ticks: length,
        spikes: Spikes::new(ticks, channels),
        channel_names: alphabet(symbols).labels().to_vec(),
        behavior: None,
        segments: (segments.iter())
            .map(|&(start, stop)| Segment { start, stop })
            .collect(),
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    };
    Events::from_recording(&recording).unwrap()
}

/// The mining papers' 64-neuron set and the reference counts of some episodes in it; `None`, with a
/// word, when it is not here.
pub fn reference() -> Option<(Case, Vec<u64>)> {
    let root = std::env::var_os("BETZ_SHARED").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../../../shared/data"
            ))
        },
        PathBuf::from,
    );
    let csv = root.join("sim64/sim-64-size20.csv");
    if !csv.exists() {
        eprintln!("skipped: {} is not here", csv.display());
        return None;
    }
    let events = Events::read_csv(&csv, Order::Required).unwrap();
    assert_eq!((events.len(), events.symbols()), (65_428, 64));
    let interval = Interval::from_seconds(0.004, 0.006, events.clock()).unwrap();
    let list = csv.with_file_name("episodes.txt");
    let patterns = read_patterns(&list, events.alphabet(), Some(interval)).unwrap();
    let table = std::fs::read_to_string(csv.with_file_name("counts.csv")).unwrap();
    let counts: Vec<u64> = table
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(counts.len(), 30);
    Some((Case { events, patterns }, counts))
}

pub(crate) fn random_interval(rng: &mut impl Rng, longest: i64) -> Interval {
    let low = if rng.random_bool(0.4) {
        0
    } else {
        rng.random_range(0..longest)
    };
    Interval::new(low, low + rng.random_range(1..=longest)).unwrap()
}

pub fn random_pattern(rng: &mut impl Rng, symbols: u32, size: usize) -> Pattern {
    let names = (0..size).map(|_| rng.random_range(0..symbols)).collect();
    let intervals = (1..size).map(|_| random_interval(rng, 4)).collect();
    Pattern::new(names, intervals).unwrap()
}

/// A case of `number` events, of which three in ten come in bursts, and 40 episodes of up to 7 symbols with delays up to
/// `longest`: dense, with many chains.
pub fn bursts(rng: &mut impl Rng, number: Range<usize>, longest: i64) -> Case {
    let symbols = rng.random_range(1..=6_u32);
    let n = rng.random_range(number);
    let ticks = n as i64 * rng.random_range(1..=6) / 3 + 1;
    let pairs = (0..n)
        .map(|_| {
            let t = rng.random_range(0..ticks);
            let t = if rng.random_bool(0.3) { t / 16 } else { t };
            (t, rng.random_range(0..symbols))
        })
        .collect();
    let patterns = (0..40)
        .map(|_| {
            let size = rng.random_range(1..=7);
            let names = (0..size).map(|_| rng.random_range(0..symbols)).collect();
            let edges = (1..size).map(|_| random_interval(rng, longest)).collect();
            Pattern::new(names, edges).unwrap()
        })
        .collect();
    Case {
        events: events(symbols as usize, pairs),
        patterns,
    }
}

/// Ticks spread by `factor`, from far beyond the origin on, of 3,000 events of `symbols` symbols.
pub fn far_events(rng: &mut impl Rng, symbols: u32, factor: i64) -> Events {
    let mut ticks: Vec<i64> = (0..3_000).map(|_| rng.random_range(0..4_000)).collect();
    ticks.sort_unstable();
    let ticks: Vec<i64> = ticks.iter().map(|t| (t + 1_000_000) * factor).collect();
    let names: Vec<u32> = (0..3_000).map(|_| rng.random_range(0..symbols)).collect();
    Events::new(alphabet(symbols as usize), &ticks, &names).unwrap()
}

/// The `seed`-th case: 1 to `largest` events.
pub fn random_case(seed: u64, largest: usize, patterns: usize) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let symbols = rng.random_range(1..=4_u32);
    let n = rng.random_range(1..=largest);
    let ticks = rng.random_range(1..=(n as i64 * 3));
    let regular = rng.random_bool(0.1);
    let pairs = (0..n)
        .map(|i| {
            let tick = if regular {
                i as i64
            } else {
                rng.random_range(0..ticks)
            };
            let symbol = if regular {
                i as u32 % symbols
            } else {
                rng.random_range(0..symbols)
            };
            (tick, symbol)
        })
        .collect();
    let patterns = (0..patterns)
        .map(|_| {
            let size = rng.random_range(1..=5);
            random_pattern(&mut rng, symbols, size)
        })
        .collect();
    Case {
        events: events(symbols as usize, pairs),
        patterns,
    }
}

/// Asserts that each strategy counts what the oracle does, on random cases.
pub fn check_random_cases(strategies: &[Box<dyn Strategy>]) {
    let cases: u64 = if std::env::var_os("BETZ_EXHAUSTIVE").is_some() {
        1_000_000
    } else {
        100_000
    };
    let mut counted = 0;
    for seed in 0..cases / 4 {
        let case = random_case(seed, 14, 4);
        let expected = case.oracle_counts();
        for strategy in strategies {
            let counts = strategy
                .count(&CountJob::new(&case.events, &case.patterns))
                .unwrap();
            assert_eq!(
                counts,
                expected,
                "{} on case {seed}: {:?} in {:?}",
                strategy.name(),
                case.patterns,
                case.events.iter().collect::<Vec<_>>()
            );
        }
        counted += case.patterns.len();
    }
    assert!(counted >= 100_000);
}

/// Asserts that a threshold never changes a count at or above it.
pub fn check_thresholds(strategies: &[Box<dyn Strategy>]) {
    for seed in 0..2_000 {
        let case = random_case(seed, 30, 6);
        let expected = count(&case.events, &case.patterns).unwrap();
        for strategy in strategies {
            for threshold in [1, 2, 3] {
                let mut job = CountJob::new(&case.events, &case.patterns);
                job.threshold = Some(threshold);
                for (got, want) in strategy.count(&job).unwrap().into_iter().zip(&expected) {
                    assert!(
                        got == *want || (got < threshold && *want < threshold),
                        "{} on case {seed}: {got} for {want} at threshold {threshold}",
                        strategy.name()
                    );
                }
            }
        }
    }
}

/// Asserts that counts near the largest tick are those near tick 0: a window's upper bound lies beyond what packs.
pub fn check_largest_ticks(strategies: &[Box<dyn Strategy>]) {
    let symbols = 64_u32;
    let ceiling = max_tick(symbols as usize);
    let edge = Interval::new(0, 20).unwrap();
    let patterns: Vec<Pattern> = (0..symbols)
        .map(|s| Pattern::uniform(vec![0, s], edge).unwrap())
        .collect();
    let pairs: Vec<(i64, u32)> = (0..400).map(|i| (i, (i * i % 64) as u32)).collect();
    let shifted = |by: i64| {
        let labels = (0..symbols).map(|s| s.to_string()).collect();
        let alphabet = Alphabet::new(labels, Clock::from_tick_seconds(1e-3).unwrap()).unwrap();
        let pairs: Vec<(i64, u32)> = pairs.iter().map(|&(t, s)| (t + by, s)).collect();
        Events::from_pairs(alphabet, pairs.into_iter(), 0).unwrap()
    };
    let (near, far) = (shifted(0), shifted(ceiling - 399));
    assert_eq!(far.last_tick(), ceiling);
    let expected = count(&near, &patterns).unwrap();
    assert!(expected.iter().sum::<u64>() > 50);
    for strategy in strategies {
        let counts = strategy.count(&CountJob::new(&far, &patterns)).unwrap();
        assert_eq!(counts, expected, "{}", strategy.name());
    }
}

/// Asserts counts that are known: the papers' example, and ties.
pub fn check_known_counts(strategies: &[Box<dyn Strategy>]) {
    // The papers' example: A -(5,10]-> B -(10,15]-> C, Fig. 3 of Patnaik et al.
    let (a, b, c) = (0, 1, 2);
    let pairs = vec![
        (1, a),
        (2, a),
        (8, b),
        (10, a),
        (13, a),
        (15, a),
        (18, b),
        (20, c),
    ];
    let paper = Pattern::new(
        vec![a, b, c],
        vec![
            Interval::new(5, 10).unwrap(),
            Interval::new(10, 15).unwrap(),
        ],
    )
    .unwrap();
    // One symbol: tied events are one tick, and one tick holds one occurrence.
    let single = Pattern::new(vec![a], vec![]).unwrap();
    let case = events(3, pairs);
    let tied = events(1, vec![(0, a), (0, a), (0, a), (1, a)]);
    let pair = Pattern::uniform(vec![a, a], Interval::new(0, 5).unwrap()).unwrap();
    for s in strategies {
        let n = |e, p: &Pattern| s.count(&CountJob::new(e, std::slice::from_ref(p))).unwrap()[0];
        assert_eq!(n(&case, &paper), 1, "{}", s.name());
        assert_eq!(n(&case, &single), 5, "{}", s.name());
        assert_eq!(n(&tied, &single), 2, "{}", s.name());
        assert_eq!(n(&tied, &pair), 1, "{}", s.name());
    }
}

/// Asserts that a pattern with a symbol that the events lack is refused.
pub fn check_unknown_symbols(strategies: &[Box<dyn Strategy>]) {
    let case = events(2, vec![(0, 0), (1, 1)]);
    let pattern = Pattern::new(vec![2], vec![]).unwrap();
    for s in strategies {
        let error = s
            .count(&CountJob::new(&case, std::slice::from_ref(&pattern)))
            .unwrap_err();
        assert_eq!(error.kind(), betz_base::ErrorKind::Mismatch);
    }
}

/// Asserts the reference counts of the 64-neuron set.
pub fn check_reference(strategies: &[Box<dyn Strategy>]) {
    let Some((case, expected)) = reference() else {
        return;
    };
    for strategy in strategies {
        let job = CountJob::new(&case.events, &case.patterns);
        assert_eq!(
            strategy.count(&job).unwrap(),
            expected,
            "{}",
            strategy.name()
        );
    }
}

/// Ticks from 0 to `ticks` at which a recording is cut, more or fewer of them.
#[cfg(test)]
pub(crate) fn random_cuts(rng: &mut impl Rng, ticks: i64) -> Vec<i64> {
    let often = rng.random_range(0.0..1.0);
    let mut cuts = vec![0];
    cuts.extend((1..ticks).filter(|_| rng.random_bool(often)));
    cuts.push(ticks);
    cuts
}

/// Segments within `ticks` of random `lengths`, after random `gaps`.
#[cfg(test)]
pub(crate) fn random_segments(
    rng: &mut impl Rng,
    ticks: i64,
    gaps: Range<i64>,
    lengths: Range<i64>,
) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut at = 0;
    while at < ticks {
        let start = at + rng.random_range(gaps.clone());
        let stop = (start + rng.random_range(lengths.clone())).min(ticks);
        if start < stop {
            segments.push(Segment { start, stop });
        }
        at = stop.max(start);
    }
    segments
}

/// Options that mine a window of `window_ticks` every half of it for chains of two and three over `edge`.
pub fn remining(window_ticks: i64, edge: Interval) -> ReminingOptions {
    ReminingOptions {
        window_ticks,
        window_events: 10_000,
        every_ticks: window_ticks / 2,
        intervals: vec![edge],
        threshold: 8,
        min_size: 2,
        max_size: 3,
        max_episodes: 10,
    }
}

/// The first CUDA device and its context; `None`, with a message, without one.
pub fn device() -> Option<(Device, Arc<Context>)> {
    match Device::cuda(0) {
        Ok(device) => {
            let context = Arc::clone(&device.contexts()[0]);
            Some((device, context))
        }
        Err(error) => {
            eprintln!("skipped: {}", error.message());
            None
        }
    }
}

/// Number of cases to count on a device: fewer under a slow checker.
pub fn cuda_cases(number: u64) -> u64 {
    match std::env::var("BETZ_CUDA_CASES") {
        Ok(n) => n.parse::<u64>().unwrap().min(number),
        Err(_) => number,
    }
}

/// Asserts that all cases together met their purpose `least` times; fewer cases may not.
pub fn assert_met(what: &str, number: impl Into<u64>, least: u64) {
    let number = number.into();
    assert!(
        number >= least || std::env::var_os("BETZ_CUDA_CASES").is_some(),
        "{what}: {number}"
    );
}
