//! Random small cases that every counting path is tested against: few symbols, so that they repeat;
//! few ticks, so that they tie; low bounds of zero; events at tick 0; episodes of one symbol and two.

use std::ops::Range;
use std::path::PathBuf;

use betz_base::error::Result;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Alphabet, Clock, Events, Interval, Order, Pattern, read_patterns};
use betz_recording::{Recording, Segment, SpikeForm, Spikes};

/// A recording and some episodes to count in it.
pub(crate) struct Case {
    pub(crate) events: Events,
    pub(crate) patterns: Vec<Pattern>,
}

/// Symbols `a`, `b`, `c`, … on a clock of one millisecond.
pub(crate) fn alphabet(symbols: usize) -> Alphabet {
    let labels = (0..symbols).map(|i| format!("{}", (b'a' + i as u8) as char));
    Alphabet::new(labels.collect(), Clock::from_tick_seconds(1e-3).unwrap()).unwrap()
}

/// Events of (tick, symbol) pairs in any order.
pub(crate) fn events(symbols: usize, mut pairs: Vec<(i64, u32)>) -> Events {
    pairs.sort_by_key(|p| p.0);
    let (ticks, names): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
    Events::new(alphabet(symbols), &ticks, &names).unwrap()
}

/// A recording of `events` that goes on for two ticks after the last.
pub(crate) fn recording(events: &Events, segments: Vec<Segment>) -> Recording {
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

/// Reads the spikes of a recording in stretches, as its file would be.
pub(crate) fn reader(
    recording: &Recording,
) -> impl FnMut(i64, i64) -> Result<Spikes> + Send + 'static {
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
pub(crate) fn trials(
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
pub(crate) fn reference() -> Option<(Case, Vec<u64>)> {
    let root = std::env::var_os("BETZ_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data")),
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

pub(crate) fn random_pattern(rng: &mut impl Rng, symbols: u32, size: usize) -> Pattern {
    let names = (0..size).map(|_| rng.random_range(0..symbols)).collect();
    let intervals = (1..size).map(|_| random_interval(rng, 4)).collect();
    Pattern::new(names, intervals).unwrap()
}

/// So many events, of which three in ten come in bursts, and 40 episodes of up to 7 symbols with delays up to
/// `longest`: dense, with many chains.
pub(crate) fn bursts(rng: &mut impl Rng, number: Range<usize>, longest: i64) -> Case {
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
pub(crate) fn far_events(rng: &mut impl Rng, symbols: u32, factor: i64) -> Events {
    let mut ticks: Vec<i64> = (0..3_000).map(|_| rng.random_range(0..4_000)).collect();
    ticks.sort_unstable();
    let ticks: Vec<i64> = ticks.iter().map(|t| (t + 1_000_000) * factor).collect();
    let names: Vec<u32> = (0..3_000).map(|_| rng.random_range(0..symbols)).collect();
    Events::new(alphabet(symbols as usize), &ticks, &names).unwrap()
}

/// The `seed`-th case: 1 to `largest` events.
pub(crate) fn random_case(seed: u64, largest: usize, patterns: usize) -> Case {
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
