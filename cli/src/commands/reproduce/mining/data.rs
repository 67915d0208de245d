//! Data sets, and the episodes that are counted in them.

use std::collections::HashMap;

use betz::Result;
use betz::episode::{Alphabet, Clock, Events, Interval, MineOptions, Pattern, mine};
use betz::progress::Progress;
use betz::simulate::network::{NetworkConfig, simulate};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A data set of the papers: its events and the chains in it.
pub(super) struct DataSet {
    pub(super) events: Events,
    pub(super) chains: Vec<Vec<u32>>,
}

impl DataSet {
    /// 64 neurons with four chains of nine, for `seconds`.
    pub(super) fn new(seconds: f64) -> Result<Self> {
        Self::of(&NetworkConfig::sym64(seconds))
    }

    /// The events and chains of a simulated network.
    pub(super) fn of(config: &NetworkConfig) -> Result<Self> {
        let network = simulate(config, 1)?;
        Ok(Self {
            events: Events::from_recording(&network.recording)?,
            chains: network
                .chains
                .into_iter()
                .map(|chain| chain.nodes)
                .collect(),
        })
    }

    /// Delays of (4, 6] ms.
    pub(super) fn delays(&self) -> Result<Interval> {
        Interval::from_seconds(0.004, 0.006, self.events.clock())
    }

    /// The embedded chains and random ones: `count` episodes of nine symbols.
    pub(super) fn episodes(&self, count: usize) -> Result<Vec<Pattern>> {
        let mut rng = ChaCha8Rng::seed_from_u64(30);
        let mut list = self.chains.clone();
        while list.len() < count {
            list.push((0..9).map(|_| rng.random_range(0..64)).collect());
        }
        list.truncate(count);
        let delays = self.delays()?;
        let patterns = list
            .into_iter()
            .map(|symbols| Pattern::uniform(symbols, delays));
        patterns.collect()
    }

    /// The first `size` symbols of the first chain.
    pub(super) fn beginning(&self, size: usize) -> Result<Vec<Pattern>> {
        let symbols = self.chains.first().map(|chain| chain[..size].to_vec());
        Ok(vec![Pattern::uniform(
            symbols.unwrap_or_default(),
            self.delays()?,
        )?])
    }

    /// Single episodes of three symbols whose frequencies differ: parts of the chains, whose rates grow from node to
    /// node, and random ones.
    pub(super) fn by_frequency(&self) -> Result<Vec<Pattern>> {
        let mut rng = ChaCha8Rng::seed_from_u64(12);
        let parts = self.chains.iter().flat_map(|chain| chain.windows(3));
        let mut list: Vec<Vec<u32>> = parts.map(<[u32]>::to_vec).collect();
        list.extend((0..8).map(|_| (0..3).map(|_| rng.random_range(0..64)).collect()));
        let delays = self.delays()?;
        let patterns = list
            .into_iter()
            .map(|symbols| Pattern::uniform(symbols, delays));
        patterns.collect()
    }
}

/// A culture of 58 channels that bursts every ten seconds or so: about 570 events per second.
pub(super) fn culture(seconds: f64, seed: u64) -> Result<Events> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut gap = |rate: f64| -> f64 { -(1.0 - rng.random::<f64>()).ln() / rate };
    let mut spikes: Vec<(i64, u32)> = Vec::new();
    let tick = |t: f64| (t * 1e6) as i64;
    for channel in 0..58 {
        let mut t = gap(2.2);
        while t < seconds {
            spikes.push((tick(t), channel));
            t += gap(2.2);
        }
    }
    let mut burst = gap(0.1);
    while burst < seconds - 1.5 {
        for channel in 0..58 {
            // Each channel joins a little later than the last, and fires ever more slowly.
            let mut t = 0.002 * f64::from(channel);
            while t < 1.5 {
                t += gap(200.0 * (-t / 0.45).exp());
                if t < 1.5 {
                    spikes.push((tick(burst + t), channel));
                }
            }
        }
        burst += gap(0.1);
    }
    spikes.sort_unstable();
    let (ticks, symbols): (Vec<i64>, Vec<u32>) = spikes.into_iter().unzip();
    let labels = (0..58).map(|i| format!("n{i}")).collect();
    let alphabet = Alphabet::new(labels, Clock::from_tick_seconds(1e-6)?)?;
    Events::new(alphabet, &ticks, &symbols)
}

/// Candidates of sizes 2, 3 and 4 of a culture: joins of its strongest pairs, at most `most` of size 4.
pub(super) fn candidates(
    events: &Events,
    most: usize,
    progress: &dyn Progress,
) -> Result<[Vec<Pattern>; 3]> {
    let clock = events.clock();
    let intervals = [(0.0, 0.005), (0.005, 0.01), (0.01, 0.015)];
    let intervals = intervals
        .iter()
        .map(|&(low, high)| Interval::from_seconds(low, high, clock));
    let mut options = MineOptions::new(intervals.collect::<Result<_>>()?, 1);
    options.max_size = Some(2);
    let mut pairs = mine(events, &options, progress)?.episodes;
    pairs.retain(|e| e.pattern.size() == 2);
    pairs.sort_by_key(|e| std::cmp::Reverse(e.count));
    let mut sizes = [Vec::new(), Vec::new(), Vec::new()];
    for strongest in (50..=pairs.len()).step_by(10) {
        let strong = pairs[..strongest].iter().map(|e| e.pattern.clone());
        let mut strong: Vec<Pattern> = strong.collect();
        strong.sort_by(|a, b| a.prefix_key().cmp(b.prefix_key()));
        let three = joins(&strong)?;
        let four = joins(&three)?;
        let enough = four.len() >= most;
        sizes = [strong, three, four];
        if enough {
            break;
        }
    }
    sizes[2].truncate(most);
    Ok(sizes)
}

/// All joins of episodes of one size, in the order of their prefixes.
fn joins(frequent: &[Pattern]) -> Result<Vec<Pattern>> {
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
            list.push(Pattern::new(symbols, intervals)?);
        }
    }
    Ok(list)
}
