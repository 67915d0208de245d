//! The sets the tables are made on, and the episodes counted in them.

use std::collections::HashMap;

use betz::episode::{Alphabet, Clock, Events, Interval, Pattern};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) const PER_SECOND: f64 = 1e12;

/// 64 Poisson neurons with four embedded chains of nine.
struct Network {
    seconds: f64,
    /// Total rate of each neuron, chains included, in spikes per second.
    rate: f64,
    seed: u64,
}

/// The four chains: nine different neurons each.
pub(crate) fn chains() -> Vec<Vec<u32>> {
    let mut rng = ChaCha8Rng::seed_from_u64(64);
    (0..4)
        .map(|_| {
            let mut neurons: Vec<u32> = (0..64).collect();
            for i in 0..9 {
                let j = rng.random_range(i..64);
                neurons.swap(i, j);
            }
            neurons.truncate(9);
            neurons
        })
        .collect()
}

impl Network {
    fn events(&self) -> Events {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let chains = chains();
        // Each chain starts 5 times per second and passes on each spike with probability 0.97.
        let (start, pass) = (5.0, 0.97);
        let mut embedded = vec![0.0; 64];
        for chain in &chains {
            for (k, &n) in chain.iter().enumerate() {
                embedded[n as usize] += start * f64::powi(pass, k as i32);
            }
        }
        let gap =
            |rate: f64, rng: &mut ChaCha8Rng| -> f64 { -(1.0 - rng.random::<f64>()).ln() / rate };
        let mut pairs: Vec<(i64, u32)> = Vec::new();
        for n in 0..64_u32 {
            let rate = self.rate - embedded[n as usize];
            let mut t = gap(rate, &mut rng);
            while t < self.seconds {
                pairs.push(((t * PER_SECOND) as i64, n));
                t += gap(rate, &mut rng);
            }
        }
        for chain in &chains {
            let mut begin = gap(start, &mut rng);
            while begin < self.seconds {
                let mut t = begin;
                for &n in chain {
                    pairs.push(((t * PER_SECOND) as i64, n));
                    if !rng.random_bool(pass) {
                        break;
                    }
                    t += rng.random_range(0.0042..0.0058);
                }
                begin += gap(start, &mut rng);
            }
        }
        pairs.sort_unstable();
        let (ticks, symbols): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
        Events::new(alphabet(64), &ticks, &symbols).unwrap()
    }
}

fn alphabet(symbols: usize) -> Alphabet {
    let labels = (0..symbols).map(|i| format!("n{i}")).collect();
    Alphabet::new(labels, Clock::from_tick_seconds(1e-12).unwrap()).unwrap()
}

pub(crate) fn interval(low: f64, high: f64) -> Interval {
    Interval::from_seconds(low, high, Clock::from_tick_seconds(1e-12).unwrap()).unwrap()
}

/// The four embedded chains and random ones: `count` episodes of `size` symbols.
pub(crate) fn episodes(count: usize, size: usize) -> Vec<Pattern> {
    let mut rng = ChaCha8Rng::seed_from_u64(30);
    let edge = interval(0.004, 0.006);
    let mut list = chains();
    while list.len() < count {
        list.push((0..size.max(9)).map(|_| rng.random_range(0..64)).collect());
    }
    list.truncate(count);
    list.into_iter()
        .map(|mut symbols| {
            symbols.truncate(size);
            Pattern::uniform(symbols, edge).unwrap()
        })
        .collect()
}

/// The papers' sets: 64 neurons; `seconds` long.
pub(crate) fn dataset(seconds: f64, rate: f64) -> Events {
    Network {
        seconds,
        rate,
        seed: 1,
    }
    .events()
}

/// A culture of 58 channels for 910 s that bursts every ten seconds or so: about 500,000 events.
pub(crate) fn culture() -> Events {
    let mut rng = ChaCha8Rng::seed_from_u64(28);
    let mut gap = |rate: f64| -> f64 { -(1.0 - rng.random::<f64>()).ln() / rate };
    let mut pairs: Vec<(i64, u32)> = Vec::new();
    for n in 0..58 {
        let mut t = gap(2.2);
        while t < 910.0 {
            pairs.push(((t * PER_SECOND) as i64, n));
            t += gap(2.2);
        }
    }
    let mut burst = gap(0.1);
    while burst < 900.0 {
        for n in 0..58 {
            // Each channel joins a little later than the last, and fires ever more slowly.
            let mut t = 0.002 * f64::from(n);
            while t < 1.5 {
                t += gap(200.0 * (-t / 0.45).exp());
                if t < 1.5 {
                    pairs.push((((burst + t) * PER_SECOND) as i64, n));
                }
            }
        }
        burst += gap(0.1);
    }
    pairs.sort_unstable();
    let (ticks, symbols): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
    Events::new(alphabet(58), &ticks, &symbols).unwrap()
}

/// All joins of the frequent episodes of one size, in the order of their prefixes.
pub(crate) fn joins(frequent: &[Pattern]) -> Vec<Pattern> {
    let mut by_prefix: HashMap<Option<Pattern>, Vec<&Pattern>> = HashMap::new();
    for tail in frequent {
        by_prefix.entry(tail.without_last()).or_default().push(tail);
    }
    let mut list = Vec::new();
    for head in frequent {
        for tail in by_prefix.get(&head.without_first()).into_iter().flatten() {
            let mut symbols = head.symbols().to_vec();
            let mut intervals = head.intervals().to_vec();
            symbols.extend(tail.symbols().last());
            intervals.extend(tail.intervals().last());
            list.push(Pattern::new(symbols, intervals).unwrap());
        }
    }
    list
}
