//! Spiking networks with embedded chains: the simulated data of the episode-mining papers.
//!
//! From the papers (Feng et al.; Patnaik et al., §V-A and table II; Cao et al.): neurons fire as
//! inhomogeneous Poisson processes at a basal rate of 20 Hz; a chain of neurons is embedded by
//! raising the connection strength between its successive neurons. Data sets 1 to 8 have 64 neurons
//! and four 9-node chains and last 4,000, 2,000, 1,000, 500, 200, 100, 50 and 20 s (12,840,684 to
//! 65,428 events); Sym26 has 26 neurons, one short and one long chain, 60 s and about 50,000
//! events.
//!
//! Chosen here, because those papers do not say:
//! - the connection: a spike of a chain's node makes the next node fire once within the delay window
//!   (low, high] with probability [`NetworkConfig::connection`], at a uniformly distributed moment;
//!   so the next node's conditional rate is raised during the window. 0.95 by default, which gives
//!   event counts near the published ones;
//! - delays of (4, 6] ms, as in the public 64-neuron data set of the OpenDwarfs suite;
//! - an absolute refractory period of 1 ms;
//! - Sym26's chains: 4 and 6 nodes, which gives about 50,000 events; and which neurons a chain
//!   visits: drawn at random, no neuron in two chains.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Exp1};
use rayon::prelude::*;

use super::{NEURON_STREAMS, Stream, generator, merge};
use betz_base::error::{Error, Result};
use betz_base::memory;
use betz_recording::{Recording, Segment, SpikeForm};

/// Lengths of data sets 1 to 8 in seconds (Patnaik et al., table II).
pub(crate) const DATA_SET_SECONDS: [f64; 8] =
    [4000.0, 2000.0, 1000.0, 500.0, 200.0, 100.0, 50.0, 20.0];

/// The network: everything but the seed.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkConfig {
    /// Number of neurons.
    pub neurons: usize,
    /// Length in seconds.
    pub seconds: f64,
    /// Length of a tick in seconds.
    pub tick_seconds: f64,
    /// Rate in Hz at which every neuron fires by itself.
    pub basal_hz: f64,
    /// Absolute refractory period in seconds.
    pub refractory_seconds: f64,
    /// Number of nodes of each chain. Chains share no neuron.
    pub chain_lengths: Vec<usize>,
    /// Probability that a spike of a node makes the next node fire.
    pub connection: f64,
    /// Delay of such a spike in seconds, the window (low, high].
    pub delay_seconds: (f64, f64),
}

impl NetworkConfig {
    /// 64 neurons and four 9-node chains for `seconds`.
    pub fn sym64(seconds: f64) -> Self {
        Self {
            neurons: 64,
            seconds,
            tick_seconds: 1e-5,
            basal_hz: 20.0,
            refractory_seconds: 0.001,
            chain_lengths: vec![9; 4],
            connection: 0.95,
            delay_seconds: (0.004, 0.006),
        }
    }

    /// Data set `number`, 1 to 8, of the mining papers.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) for another number.
    pub fn data_set(number: usize) -> Result<Self> {
        number
            .checked_sub(1)
            .and_then(|i| DATA_SET_SECONDS.get(i))
            .map(|&seconds| Self::sym64(seconds))
            .ok_or_else(|| Error::argument(format!("expected a data set of 1 to 8, got {number}")))
    }

    /// Sym26: 26 neurons, 60 s, one short and one long chain.
    pub fn sym26() -> Self {
        Self {
            neurons: 26,
            chain_lengths: vec![4, 6],
            ..Self::sym64(60.0)
        }
    }
}

/// A chain that was embedded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Its neurons (channels of the recording) in firing order.
    pub nodes: Vec<u32>,
    /// Delay of every edge in ticks, the window (low, high].
    pub delay_ticks: (i64, i64),
}

/// Simulated spikes and what is hidden in them.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkRecording {
    /// The spikes, one channel per neuron, named by [`label`]; no behaviour.
    pub recording: Recording,
    /// The embedded chains.
    pub chains: Vec<Chain>,
}

/// The mining papers' label of neuron `index`: in networks of up to 26 neurons `A` to `Z`, in larger
/// ones eight to a letter, `a1` … `a8`, `b1` … `h8`, …, `z8`, `aa1` …
///
/// ```
/// use betz_simulate::network::label;
///
/// assert_eq!((label(0, 26), label(8, 64)), ("A".into(), "b1".into()));
/// ```
pub fn label(index: usize, neurons: usize) -> String {
    if neurons <= 26 {
        return char::from(b'A' + (index % 26) as u8).to_string();
    }
    let mut letters = Vec::new();
    let mut n = index / 8 + 1;
    while n > 0 {
        letters.push(b'a' + ((n - 1) % 26) as u8);
        n = (n - 1) / 26;
    }
    letters.reverse();
    format!("{}{}", String::from_utf8_lossy(&letters), index % 8 + 1)
}

/// Simulates the network. The same configuration and seed give the same recording, bit for bit, on
/// any number of threads.
///
/// Exact in its model, without time steps: a neuron's spikes are its basal Poisson process and those
/// that its predecessor's spikes cause, less those inside the refractory period; a chain is followed
/// from its first node to its last. Chains and lone neurons run in parallel. Allocates the recording
/// (12 bytes per spike) and as much again while it runs.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) when a parameter is out
/// of range or the chains need more neurons than there are.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use betz_simulate::network::{NetworkConfig, simulate};
///
/// let network = simulate(&NetworkConfig { seconds: 1.0, ..NetworkConfig::sym26() }, 1)?;
/// assert_eq!(network.recording.channels(), 26);
/// assert_eq!(network.chains.iter().map(|c| c.nodes.len()).collect::<Vec<_>>(), [4, 6]);
/// # Ok(())
/// # }
/// ```
pub fn simulate(config: &NetworkConfig, seed: u64) -> Result<NetworkRecording> {
    let clock = Clock::new(config)?;
    let spikes = config.neurons as f64 * (config.basal_hz + 1.0) * config.seconds;
    memory::plan(
        format_args!(
            "a network of {} neurons for {} s",
            config.neurons, config.seconds
        ),
        (spikes * 40.0 + config.neurons as f64 * 200.0) as u128,
    )?;
    let mut order: Vec<u32> = (0..config.neurons as u32).collect();
    order.shuffle(&mut generator(seed, Stream::Chains as u64));
    let mut rest = &order[..];
    let mut chains = Vec::new();
    for &length in &config.chain_lengths {
        let (nodes, others) = rest.split_at(length);
        chains.push(Chain {
            nodes: nodes.to_vec(),
            delay_ticks: clock.delay,
        });
        rest = others;
    }
    // A lone neuron is a chain of one node.
    let mut paths: Vec<&[u32]> = chains.iter().map(|c| &c.nodes[..]).collect();
    paths.extend(rest.chunks(1));
    let simulated: Vec<(u32, Vec<u32>)> = paths
        .par_iter()
        .flat_map_iter(|path| {
            let mut previous: Vec<u32> = Vec::new();
            let mut trains = Vec::with_capacity(path.len());
            for &neuron in *path {
                previous = spike_train(config, &clock, &previous, neuron, seed);
                trains.push((neuron, previous.clone()));
            }
            trains
        })
        .collect();
    let mut trains = vec![Vec::new(); config.neurons];
    for (neuron, train) in simulated {
        trains[neuron as usize] = train;
    }
    let recording = Recording {
        tick_seconds: config.tick_seconds,
        ticks: i64::from(clock.ticks),
        spikes: merge(&trains),
        channel_names: (0..config.neurons)
            .map(|i| label(i, config.neurons))
            .collect(),
        behavior: None,
        segments: vec![Segment {
            start: 0,
            stop: i64::from(clock.ticks),
        }],
        electrode_um: None,
        form: SpikeForm::Events,
        meta: Some(describe(config, &chains, seed)),
    };
    Ok(NetworkRecording { recording, chains })
}

/// The configuration in ticks, checked.
struct Clock {
    ticks: u32,
    delay: (i64, i64),
    refractory: u32,
    /// Mean number of ticks between basal spikes.
    interval: f64,
}

impl Clock {
    fn new(config: &NetworkConfig) -> Result<Self> {
        let positive = |name: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(Error::argument(format!(
                    "network: expected a finite {name} > 0, got {value}"
                )))
            }
        };
        positive("length (s)", config.seconds)?;
        positive("tick (s)", config.tick_seconds)?;
        positive("basal rate (Hz)", config.basal_hz)?;
        let a_tick = config.basal_hz * config.tick_seconds;
        if a_tick > 1.0 {
            return Err(Error::argument(format!(
                "network: a basal rate of {} Hz is {a_tick} spikes in a tick of {} s: expected at most 1",
                config.basal_hz, config.tick_seconds
            )));
        }
        if config.neurons == 0 || config.neurons > 1 << 24 {
            return Err(Error::argument(format!(
                "network: expected 1 to {} neurons, got {}",
                1 << 24,
                config.neurons
            )));
        }
        let needed = config
            .chain_lengths
            .iter()
            .fold(0_usize, |n, &l| n.saturating_add(l));
        if needed > config.neurons || config.chain_lengths.contains(&0) {
            return Err(Error::argument(format!(
                "network: expected chains of at least one node and at most {} nodes in all, one per neuron, got lengths {:?}",
                config.neurons, config.chain_lengths
            )));
        }
        if !(0.0..=1.0).contains(&config.connection) {
            return Err(Error::argument(format!(
                "network: expected a connection probability of 0 to 1, got {}",
                config.connection
            )));
        }
        let in_ticks = |seconds: f64| (seconds / config.tick_seconds).round();
        let ticks = in_ticks(config.seconds);
        if !(1.0..=f64::from(1_u32 << 31)).contains(&ticks) {
            return Err(Error::argument(format!(
                "network: expected 1 to 2^31 ticks, got {ticks}: choose a longer tick"
            )));
        }
        let (low, high) = config.delay_seconds;
        let delay = (in_ticks(low) as i64, in_ticks(high) as i64);
        if !(low.is_finite() && high.is_finite() && 0 <= delay.0 && delay.0 < delay.1) {
            return Err(Error::argument(format!(
                "network: expected a delay window (low, high] of at least one tick from 0 s, got ({low}, {high}] s"
            )));
        }
        let refractory = in_ticks(config.refractory_seconds);
        if !(0.0..=ticks).contains(&refractory) {
            return Err(Error::argument(format!(
                "network: expected a refractory period of 0 s to the length, got {} s",
                config.refractory_seconds
            )));
        }
        Ok(Self {
            ticks: ticks as u32,
            delay,
            refractory: refractory as u32,
            interval: 1.0 / (config.basal_hz * config.tick_seconds),
        })
    }
}

/// The spikes of `neuron`, given those of the node before it in its chain.
fn spike_train(
    config: &NetworkConfig,
    clock: &Clock,
    previous: &[u32],
    neuron: u32,
    seed: u64,
) -> Vec<u32> {
    let mut rng = generator(seed, NEURON_STREAMS + u64::from(neuron));
    let mut train = Vec::new();
    let mut time = 0.0;
    loop {
        let wait: f64 = Exp1.sample(&mut rng);
        time += wait * clock.interval;
        if time >= f64::from(clock.ticks) {
            break;
        }
        train.push(time as u32);
    }
    for &cause in previous {
        if rng.random_bool(config.connection) {
            let delay = rng.random_range(clock.delay.0 + 1..=clock.delay.1);
            let at = i64::from(cause) + delay;
            if at < i64::from(clock.ticks) {
                train.push(at as u32);
            }
        }
    }
    train.sort_unstable();
    // At most one spike per tick, and none within the refractory period of the last.
    let mut last: Option<u32> = None;
    train.retain(|&t| {
        let free = last.is_none_or(|l| t - l >= clock.refractory.max(1));
        if free {
            last = Some(t);
        }
        free
    });
    train
}

fn describe(config: &NetworkConfig, chains: &[Chain], seed: u64) -> String {
    let chains: Vec<String> = chains
        .iter()
        .map(|c| {
            let labels: Vec<String> = c
                .nodes
                .iter()
                .map(|&n| format!("\"{}\"", label(n as usize, config.neurons)))
                .collect();
            format!("[{}]", labels.join(", "))
        })
        .collect();
    format!(
        "{{\"source\": \"betz network simulation\", \"seed\": {seed}, \"neurons\": {}, \
         \"basal_hz\": {}, \"refractory_seconds\": {}, \"connection\": {}, \
         \"delay_seconds\": [{}, {}], \"chains\": [{}]}}",
        config.neurons,
        config.basal_hz,
        config.refractory_seconds,
        config.connection,
        config.delay_seconds.0,
        config.delay_seconds.1,
        chains.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_the_papers() {
        assert_eq!(label(0, 26), "A");
        assert_eq!(label(25, 26), "Z");
        assert_eq!(label(0, 64), "a1");
        assert_eq!(label(63, 64), "h8");
        assert_eq!(label(26 * 8 - 1, 1000), "z8");
        assert_eq!(label(26 * 8, 1000), "aa1");
        let all: std::collections::HashSet<String> = (0..9000).map(|i| label(i, 9000)).collect();
        assert_eq!(all.len(), 9000);
    }
}
