//! One thread's share of a network: its neurons' state, their rings of input, and the synapses onto
//! them by source.

use betz_base::Result;

use crate::connect::zeros;
use crate::neuron::Constants;
use crate::plan::{CHUNK, Layout, Plan};
use crate::random::{Normal, Purpose, Words, poisson_thresholds, unit};
use crate::spec::{Draw, Network, Neuron, Population};

/// A population's chunks in one part.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Chunks of this part.
    pub(crate) chunks: std::ops::Range<usize>,
    /// `None`: a source.
    pub(crate) constants: Option<Constants>,
    /// Chain arrays of its first chunk.
    pub(crate) chain_first: usize,
    /// Chain arrays of a chunk.
    pub(crate) per_chunk: usize,
    /// Factor from fixed point to M_0, for each receptor.
    pub(crate) gains: Vec<f32>,
    /// The same where truncated filters end, for each M_k.
    pub(crate) tails: Vec<f32>,
    /// Length of truncated filters, or 0.
    pub(crate) filter: u64,
    /// Past input of its first chunk: (step modulo filter, chunk).
    pub(crate) past_first: usize,
    /// True if its potentials do not change without input, so that chunks can be passed over.
    pub(crate) rests: bool,
    /// Poisson input.
    pub(crate) poisson: Option<PoissonInput>,
}

impl Group {
    /// Of a population with weights in units of `unit`; it has no chunks yet.
    pub(crate) fn of(network: &Network, population: usize, unit: f64) -> Result<Self> {
        let constants = Constants::of(network, population)?;
        let per_chunk = constants.as_ref().map_or(0, |c| {
            c.receptors.len() * c.receptors.first().map_or(0, |r| r.onto.len())
        });
        let tails = (constants.iter())
            .flat_map(|c| c.receptors[0].tail.iter())
            .map(|t| (t * unit) as f32)
            .collect();
        let gains = (constants.iter())
            .flat_map(|c| c.receptors.iter())
            .map(|r| (r.gain * unit) as f32)
            .collect();
        let poisson = network.populations[population]
            .poisson
            .map(|poisson| PoissonInput {
                thresholds: poisson_thresholds(poisson.rate_hz * network.step_ms * 1e-3),
                weight: (poisson.weight / unit).round_ties_even() as i32,
                receptor: usize::from(
                    poisson.weight < 0.0
                        && constants.as_ref().is_some_and(|c| c.receptors.len() > 1),
                ),
                words: Words::new(network.seed, Purpose::Poisson),
            });
        let resting = |c: &Constants| c.constant == 0.0 && c.threshold > 0.0;
        Ok(Self {
            chunks: 0..0,
            rests: poisson.is_none() && constants.as_ref().is_none_or(resting),
            constants,
            chain_first: 0,
            per_chunk,
            gains,
            tails,
            filter: network.filter_length(population)?,
            past_first: 0,
            poisson,
        })
    }
}

/// Poisson input of a group.
#[derive(Debug, Clone)]
pub(crate) struct PoissonInput {
    pub(crate) thresholds: Vec<u32>,
    pub(crate) weight: i32,
    pub(crate) receptor: usize,
    pub(crate) words: Words,
}

/// The neurons of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first: u32,
    pub(crate) len: u32,
}

/// A projection whose synapses onto this part are a matrix of weights, (sources, lanes).
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) source_first: u32,
    pub(crate) sources: u32,
    pub(crate) delay: usize,
    /// First chunk of the slot it adds to, receptor included.
    pub(crate) chunk_first: usize,
    pub(crate) chunks: usize,
    pub(crate) weights: Vec<i16>,
}

/// A membrane potential that is recorded.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) neuron: u32,
    pub(crate) lane: usize,
    pub(crate) rest: f32,
    pub(crate) values: Vec<f32>,
}

/// One thread's share.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) groups: Vec<Group>,
    pub(crate) spans: Vec<Span>,
    pub(crate) chunks: usize,
    /// V − E_L.
    pub(crate) v: Vec<f32>,
    /// Steps of silence left.
    pub(crate) silent: Vec<i32>,
    /// Current by call and stimulus, times what it adds to V.
    pub(crate) current: Vec<f32>,
    pub(crate) chain: Vec<f32>,
    pub(crate) poisson: Vec<u16>,
    /// (slot, receptor, lane).
    pub(crate) ring: Vec<i32>,
    pub(crate) slots: usize,
    pub(crate) receptors: usize,
    /// Input of as many steps as truncated filters are long.
    pub(crate) past: Vec<i32>,
    /// Step of each chunk's last input, where its filters end.
    pub(crate) last_input: Vec<u64>,
    /// True if chunks may be passed over: input must then wake them.
    pub(crate) rests: bool,
    pub(crate) awake: Vec<u64>,
    /// (slot, word).
    pub(crate) wake: Vec<u64>,
    /// Row of each source: `keys[offsets[s]..offsets[s + 1]]`.
    pub(crate) offsets: Vec<u32>,
    /// delay << 24 | lane (receptor included).
    pub(crate) keys: Vec<u32>,
    pub(crate) weights: Vec<i16>,
    pub(crate) matrices: Vec<Matrix>,
    pub(crate) rows: Vec<u32>,
    /// Spikes of each lane.
    pub(crate) counts: Vec<u32>,
    pub(crate) hash: u64,
    pub(crate) spikes: u64,
    pub(crate) events: u64,
    pub(crate) traces: Vec<Trace>,
    /// Recorded spikes, step << 32 | neuron.
    pub(crate) recorded: Vec<u64>,
    /// Neurons of source groups that fire in the next step, by call.
    pub(crate) emitted: Vec<u32>,
    pub(crate) phases: super::Phases,
}

impl Part {
    /// State at the start, without synapses.
    pub(crate) fn new(
        network: &Network,
        plan: &Plan,
        layout: &Layout,
        thread: usize,
        normal: &Normal,
    ) -> Result<Self> {
        let mut groups = Vec::new();
        let mut spans = Vec::new();
        let (mut chain, mut past) = (0, 0);
        for (p, population) in network.populations.iter().enumerate() {
            let chunks = layout.chunks(thread, p);
            for chunk in chunks.clone() {
                let begin = (chunk * layout.threads + thread - layout.chunk_firsts[p]) * CHUNK;
                spans.push(Span {
                    first: (layout.firsts[p] + begin as u64) as u32,
                    len: (population.neurons as usize - begin).min(CHUNK) as u32,
                });
            }
            let mut group = Group::of(network, p, plan.weight_unit)?;
            (group.chain_first, group.past_first) = (chain, past);
            chain += group.per_chunk * chunks.len();
            past += group.filter as usize * chunks.len();
            group.chunks = chunks;
            groups.push(group);
        }
        let chunks = spans.len();
        let lanes = chunks * CHUNK;
        let words = chunks.div_ceil(64);
        let poisson = groups.iter().any(|g| g.poisson.is_some());
        let mut part = Self {
            v: zeros("membrane potentials", lanes)?,
            silent: zeros("refractory counters", lanes)?,
            current: zeros("currents", lanes)?,
            chain: zeros("synaptic currents", chain * CHUNK)?,
            poisson: zeros("Poisson counts", if poisson { 4 * lanes } else { 0 })?,
            ring: zeros("rings of input", plan.slots * plan.receptors * lanes)?,
            slots: plan.slots,
            receptors: plan.receptors,
            past: zeros("past input", past * CHUNK)?,
            last_input: zeros("steps of last input", chunks)?,
            rests: groups.iter().any(|g| g.rests),
            awake: vec![u64::MAX; words],
            wake: zeros("wake bits", words * plan.slots)?,
            offsets: Vec::new(),
            keys: Vec::new(),
            weights: Vec::new(),
            matrices: Vec::new(),
            rows: Vec::new(),
            counts: zeros("counts", lanes)?,
            hash: 0,
            spikes: 0,
            events: 0,
            traces: Vec::new(),
            recorded: Vec::new(),
            emitted: Vec::new(),
            phases: super::Phases::default(),
            groups,
            spans,
            chunks,
        };
        part.start(network, normal);
        Ok(part)
    }

    /// Potentials, stimuli and silence at step 0.
    fn start(&mut self, network: &Network, normal: &Normal) {
        for p in 0..network.populations.len() {
            let group = &self.groups[p];
            let Some(constants) = &group.constants else {
                continue;
            };
            let start = Start::of(network, p, constants, normal);
            for chunk in group.chunks.clone() {
                let span = self.spans[chunk];
                for k in 0..span.len {
                    let lane = chunk * CHUNK + k as usize;
                    self.v[lane] = start.potential(span.first + k);
                    self.silent[lane] = start.silent;
                    self.current[lane] = start.current(span.first + k);
                }
            }
        }
    }
}

/// A population's neurons at step 0.
pub(crate) struct Start<'a> {
    network: &'a Network,
    population: &'a Population,
    normal: &'a Normal,
    first: u32,
    rest: f64,
    /// From pA to what a current adds to V over a step.
    scale: f32,
    /// Steps of silence.
    pub(crate) silent: i32,
}

impl<'a> Start<'a> {
    pub(crate) fn of(
        network: &'a Network,
        population: usize,
        constants: &Constants,
        normal: &'a Normal,
    ) -> Self {
        let of = &network.populations[population];
        let rest = match of.neuron {
            Neuron::Lif(lif) => lif.rest_mv,
            Neuron::Source => 0.0,
        };
        Self {
            network,
            population: of,
            normal,
            first: network.firsts()[population] as u32,
            rest,
            scale: constants.current,
            silent: of.start_silent_steps as i32,
        }
    }

    /// V − E_L of a neuron of the network.
    pub(crate) fn potential(&self, neuron: u32) -> f32 {
        let start = start_potential(self.network, self.population.start_mv, neuron, self.normal);
        (start - self.rest) as f32
    }

    /// Additions of its stimuli to V per step.
    pub(crate) fn current(&self, neuron: u32) -> f32 {
        let own = neuron - self.first;
        let stimulus: f64 = (self.population.stimuli.iter())
            .filter(|s| (s.first..s.first + s.count).contains(&own))
            .map(|s| s.current_pa)
            .sum();
        stimulus as f32 * self.scale
    }
}

/// A neuron's potential at the start in mV.
pub(crate) fn start_potential(network: &Network, draw: Draw, neuron: u32, normal: &Normal) -> f64 {
    let word = Words::new(network.seed, Purpose::Start).at([neuron, 0, 0], 0)[0];
    match draw {
        Draw::Constant(v) => v,
        Draw::Normal { mean, sd } => mean + sd * f64::from(normal.quantile(word)),
        Draw::Uniform { low, high } => low + (high - low) * unit(word),
    }
}
