//! Layout of a network on threads and the memory it takes, known before any is taken.

use std::fmt;

use betz_base::{Error, ErrorKind, Result};

use crate::connect::{
    RoundedWeights, delay_range, has_two_receptors, rounded_weights, weight_unit,
};
use crate::model_population::ModelPopulation;
use crate::neuron::Constants;
use crate::spec::{Draw, Network, Neuron, Rule};
use crate::streaming::StreamCost;

/// Neurons that are updated together; each population is a whole number of such chunks in memory.
pub(crate) const CHUNK: usize = 64;

/// Bits of a synapse's word for the lane of its target; the rest are the delay.
pub(crate) const LANE_BITS: u32 = 24;

/// Bytes of a synapse that learns, with its place among those of its target.
const LEARNING_BYTES: f64 = 40.0;

/// Most threads.
pub const MAX_THREADS: usize = 256;

/// Memory and threads of a network, known before it is built.
///
/// ```
/// use betz_spiking::{Plan, models};
///
/// let plan = Plan::new(&models::pd14(1.0, 1)?, 2)?;
/// assert_eq!(plan.neurons, 77_169);
/// assert!(plan.bytes() > 1_800_000_000 && plan.bytes() < 2_400_000_000);
/// println!("{plan}");
/// # Ok::<(), betz_spiking::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// Neurons.
    pub neurons: u64,
    /// Synapses, as many as are expected where the rule draws how many.
    pub synapses: f64,
    /// Threads that share the neurons.
    pub threads: usize,
    /// Unit of the fixed point in which weights are summed, a power of two.
    pub weight_unit: f64,
    /// Steps from a spike to its first possible effect: threads meet once in so many.
    pub shortest_delay: u32,
    /// Longest delay in steps.
    pub longest_delay: u32,
    /// Bytes of membranes, currents, counters and spike lists.
    pub state_bytes: u64,
    /// Bytes of the rings of delayed input, and of past input where PSCs are truncated.
    pub ring_bytes: u64,
    /// Bytes of the synapses.
    pub synapse_bytes: u64,
    /// Bytes needed besides while the network is built.
    pub building_bytes: u64,
    /// Cost of synapses that a device has no room for and the host's memory has.
    pub streaming: Option<StreamCost>,
    /// Projections of which some listed weights round to 0.
    pub rounded_weights: Vec<RoundedWeights>,
    /// Slots of a ring.
    pub(crate) slots: usize,
    /// Rings a neuron: one a receptor.
    pub(crate) receptors: usize,
    /// Synapses of each projection, as many as are expected.
    pub(crate) each: Vec<f64>,
    /// Projections stored as a matrix.
    pub(crate) dense: Vec<bool>,
    /// Chunks of neurons in all.
    pub(crate) chunks: usize,
}

impl Plan {
    /// Plans without building; takes no memory to speak of.
    ///
    /// # Errors
    /// As [`Network::check`], and `InvalidArgument` when weights cannot share one fixed point or a
    /// thread's share exceeds what a synapse's word can name.
    pub fn new(network: &Network, threads: usize) -> Result<Self> {
        network.check()?;
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(Error::argument(format!(
                "threads: expected 1 to {MAX_THREADS}, got {threads}"
            )));
        }
        let chunks: u64 = (network.populations.iter())
            .map(|p| u64::from(p.neurons).div_ceil(CHUNK as u64))
            .sum();
        // A thread without neurons would only wait.
        let threads = threads.min(chunks as usize).max(1);
        let lanes = chunks.div_ceil(threads as u64) * CHUNK as u64;
        let mut receptors = 1;
        let mut chain = 0;
        for i in 0..network.populations.len() {
            if let Some(constants) = Constants::of(network, i)? {
                receptors = receptors.max(constants.receptors.len());
                chain = chain.max(constants.receptors.len() * constants.chain());
            }
            if let Some(model) = ModelPopulation::of(network, i)? {
                receptors = receptors.max(model.receptors.len());
                chain = chain.max(model.state() + model.drawn());
            }
        }
        if lanes * receptors as u64 > 1 << LANE_BITS {
            return Err(Error::argument(format!(
                "expected at most {} neurons per thread, got {lanes}: use more threads",
                (1u64 << LANE_BITS) / receptors as u64
            )));
        }
        let mut past = 0u64;
        for (i, population) in network.populations.iter().enumerate() {
            let chunks = u64::from(population.neurons).div_ceil(CHUNK as u64);
            let bytes = network.filter_length(i)? * chunks * 4 * CHUNK as u64;
            past = past.saturating_add(bytes);
        }
        let (shortest, longest) = delay_range(network).unwrap_or((1, 1));
        let slots = longest.next_power_of_two();
        let lanes = lanes * threads as u64;
        let poisson = (network.populations.iter())
            .any(|p| p.poisson.is_some() || matches!(p.neuron, Neuron::Poisson(_)));
        let per_lane = 16 + 4 * chain as u64 + if poisson { 8 } else { 0 };
        let lists = u64::from(2 * shortest).min(4);
        let unit = weight_unit(network)?;
        let mut plan = Self {
            neurons: network.neurons(),
            synapses: 0.0,
            threads,
            weight_unit: unit,
            rounded_weights: rounded_weights(network, unit)?,
            shortest_delay: shortest,
            longest_delay: longest,
            // Every neuron may fire in a step, but hardly in each of a block.
            state_bytes: lanes * per_lane + network.neurons() * 4 * lists,
            ring_bytes: (lanes * 4 * u64::from(slots) * receptors as u64).saturating_add(past),
            synapse_bytes: (network.neurons() + 1) * 4 * threads as u64,
            building_bytes: lanes * 8 * receptors as u64 + 64 * 1024 * 1024,
            streaming: None,
            slots: slots as usize,
            receptors,
            each: Vec::new(),
            dense: Vec::new(),
            chunks: chunks as usize,
        };
        for projection in &network.projections {
            plan.take(network, projection)?;
        }
        Ok(plan)
    }

    /// Mean synapses onto a neuron, and from one, of each population of the `network` that was planned.
    pub fn degrees(&self, network: &Network) -> Vec<[f64; 2]> {
        let mut degrees = vec![[0.0; 2]; network.populations.len()];
        for (projection, count) in network.projections.iter().zip(&self.each) {
            for (end, name) in [&projection.target, &projection.source].iter().enumerate() {
                let found = network.populations.iter().position(|p| p.name == **name);
                if let Some(p) = found {
                    degrees[p][end] += count / f64::from(network.populations[p].neurons.max(1));
                }
            }
        }
        degrees
    }

    fn take(&mut self, network: &Network, projection: &crate::spec::Projection) -> Result<()> {
        let source = &network.populations[network.population(&projection.source)?];
        let target = &network.populations[network.population(&projection.target)?];
        let (n, m) = (f64::from(source.neurons), f64::from(target.neurons));
        let (count, once, table) = match &projection.rule {
            Rule::Ring | Rule::OneToOne => (n, false, 0.0),
            Rule::All => (n * m, true, 0.0),
            Rule::FixedTotal { count, distinct } => {
                let count = *count as f64;
                (count, *distinct, if *distinct { 4.0 * count } else { 0.0 })
            }
            Rule::FixedIn { count, distinct } => {
                let count = m * f64::from(*count);
                (count, *distinct, 4.0 * count)
            }
            Rule::FixedOut { count, distinct } => (n * f64::from(*count), *distinct, 0.0),
            Rule::Pairwise { probability } => (n * m * probability, true, 0.0),
            Rule::List { synapses } => (synapses.len() as f64, false, 16.0 * synapses.len() as f64),
        };
        let constant_delay = matches!(projection.delay_ms, Draw::Constant(_));
        let two_receptors = has_two_receptors(&target.synapse);
        let one_sign = match projection.weight {
            Draw::Normal { mean, .. } => mean != 0.0,
            Draw::Constant(_) => true,
            _ => false,
        };
        // A row of a matrix is added sixteen numbers at a time; a list, one at a time.
        let dense = once
            && projection.plasticity.is_none()
            && constant_delay
            && (one_sign || !two_receptors)
            && m >= CHUNK as f64
            && count >= n * m / 12.0;
        self.dense.push(dense);
        self.each.push(count);
        self.synapses += count;
        let padded = (m / CHUNK as f64).ceil() * CHUNK as f64;
        let bytes = match dense {
            true => 2.0 * n * padded,
            false if projection.plasticity.is_some() => LEARNING_BYTES * count,
            false => 6.0 * count,
        };
        self.synapse_bytes = self.synapse_bytes.saturating_add(bytes as u64);
        self.building_bytes = self.building_bytes.saturating_add(table as u64);
        Ok(())
    }

    /// All of it.
    pub fn bytes(&self) -> u64 {
        [
            self.state_bytes,
            self.ring_bytes,
            self.synapse_bytes,
            self.building_bytes,
        ]
        .iter()
        .fold(0, |sum, b| sum.saturating_add(*b))
    }

    /// Bytes of the share of so many of its threads, as one rank of a team has it.
    pub fn share_bytes(&self, threads: usize) -> u64 {
        let all = [self.state_bytes, self.ring_bytes, self.synapse_bytes];
        let all: u128 = all.iter().map(|bytes| u128::from(*bytes)).sum();
        let own = all * threads as u128 / self.threads.max(1) as u128;
        // Tables are made whole by every rank, and each counts all neurons' spikes.
        let whole = u128::from(self.building_bytes) + 4 * u128::from(self.neurons);
        u64::try_from(own + whole).unwrap_or(u64::MAX)
    }

    /// Refuses a rank's share of so many threads that takes more than `limit` bytes.
    pub(crate) fn fit_share(&self, threads: usize, limit: u64) -> Result<()> {
        let bytes = self.share_bytes(threads);
        if bytes > limit {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!(
                    "expected a share of at most {limit} bytes of memory, got {bytes}: {threads} of the {} threads of {self}",
                    self.threads
                ),
            )
            .with_needed_bytes(bytes)
            .with_available_bytes(limit));
        }
        Ok(())
    }

    /// Refuses what takes more than `limit` bytes.
    ///
    /// # Errors
    /// `OutOfMemory`, with the plan and the limit.
    pub fn fit(&self, limit: u64) -> Result<()> {
        if self.bytes() > limit {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("expected a network of at most {limit} bytes of memory, got {self}"),
            )
            .with_needed_bytes(self.bytes())
            .with_available_bytes(limit));
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        write!(
            f,
            "{} neurons, {:.0} synapses: {:.1} MB (state {:.1}, rings {:.1}, synapses {:.1}, while building {:.1})",
            self.neurons,
            self.synapses,
            mb(self.bytes()),
            mb(self.state_bytes),
            mb(self.ring_bytes),
            mb(self.synapse_bytes),
            mb(self.building_bytes)
        )?;
        match &self.streaming {
            Some(streaming) => write!(f, "; {streaming}"),
            None => Ok(()),
        }
    }
}

/// Bytes that the system says a program may still take; `None` where it does not say.
pub fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Distribution of neurons over threads: chunk c of the network is chunk c / T of thread c mod T.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) threads: usize,
    /// First neuron of each population, and the end.
    pub(crate) firsts: Vec<u64>,
    /// First chunk of each population, and the end.
    pub(crate) chunk_firsts: Vec<usize>,
}

impl Layout {
    pub(crate) fn new(network: &Network, threads: usize) -> Self {
        let mut next = 0;
        let mut chunk_firsts = vec![0];
        for population in &network.populations {
            next += (population.neurons as usize).div_ceil(CHUNK);
            chunk_firsts.push(next);
        }
        Self {
            threads,
            firsts: network.firsts(),
            chunk_firsts,
        }
    }

    /// Thread and lane of neuron `i` of a population.
    #[inline(always)]
    pub(crate) fn place(&self, population: usize, i: usize) -> (usize, usize) {
        let chunk = self.chunk_firsts[population] + i / CHUNK;
        let lane = chunk / self.threads * CHUNK + i % CHUNK;
        (chunk % self.threads, lane)
    }

    /// Population of a neuron.
    pub(crate) fn population_of(&self, neuron: u64) -> usize {
        self.firsts.partition_point(|f| *f <= neuron) - 1
    }

    /// Thread and lane of a neuron of the network.
    pub(crate) fn place_of(&self, neuron: u64) -> (usize, usize) {
        let population = self.population_of(neuron);
        self.place(population, (neuron - self.firsts[population]) as usize)
    }

    /// A thread's chunks of a population, as its own chunk numbers.
    pub(crate) fn chunks(&self, thread: usize, population: usize) -> std::ops::Range<usize> {
        let own = |c: usize| (c + self.threads - 1 - thread) / self.threads;
        own(self.chunk_firsts[population])..own(self.chunk_firsts[population + 1])
    }
}
