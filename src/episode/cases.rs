//! Random small cases that every counting path is tested against: few symbols, so that they repeat;
//! few ticks, so that they tie; low bounds of zero; events at tick 0; episodes of one symbol and two.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Alphabet, Clock, Events, Interval, Pattern};

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
