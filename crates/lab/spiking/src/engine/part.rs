//! One thread's share of a network: its neurons' state, their rings of input, and the synapses onto
//! them by source.

use betz_base::Result;

use super::learn::Learning;
use crate::connect::{has_two_receptors, zeros};
use crate::dynamics;
use crate::model_population::{ModelPopulation, receptor_named};
use crate::neuron::Constants;
use crate::plan::{CHUNK, Layout, Plan};
use crate::random::{Normal, Purpose, Words, poisson_thresholds};
use crate::spec::{Draw, Network, Neuron, Population};

/// A population's chunks in one part.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Chunks of this part.
    pub(crate) chunks: std::ops::Range<usize>,
    /// Propagators; `None` of models and sources.
    pub(crate) constants: Option<Constants>,
    /// A model that is integrated.
    pub(crate) model: Option<ModelPopulation>,
    /// Arrays of drawn parameters of its first chunk.
    pub(crate) drawn_first: usize,
    /// A source that fires at random: thresholds of its first chunk.
    pub(crate) random: Option<Words>,
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
        let model = ModelPopulation::of(network, population)?;
        let of = &network.populations[population];
        let linear = constants.as_ref().map_or(0, |c| {
            c.receptors.len() * c.receptors.first().map_or(0, |r| r.onto.len())
        });
        let per_chunk = model.as_ref().map_or(linear, ModelPopulation::state);
        let tails = (constants.iter())
            .flat_map(|c| c.receptors[0].tail.iter())
            .map(|t| (t * unit) as f32)
            .collect();
        let gains = (constants.iter())
            .flat_map(|c| c.receptors.iter().map(|r| r.gain))
            .chain(
                model
                    .iter()
                    .flat_map(|m| m.receptors.iter().map(|r| r.gain)),
            )
            .map(|gain| (gain * unit) as f32)
            .collect();
        let poisson = match of.poisson {
            Some(poisson) => Some(PoissonInput {
                thresholds: poisson_thresholds(poisson.rate_hz * network.step_ms * 1e-3),
                weight: (poisson.weight / unit).round_ties_even() as i32,
                receptor: match receptor_named(of, of.poisson_receptor.as_deref())? {
                    Some(receptor) => usize::from(receptor),
                    None => usize::from(poisson.weight < 0.0 && has_two_receptors(&of.synapse)),
                },
                words: Words::new(network.seed, Purpose::Poisson),
            }),
            None => None,
        };
        let resting = |c: &Constants| c.constant == 0.0 && c.threshold > 0.0;
        Ok(Self {
            chunks: 0..0,
            rests: poisson.is_none() && model.is_none() && constants.as_ref().is_none_or(resting),
            constants,
            model,
            drawn_first: 0,
            random: matches!(of.neuron, Neuron::Poisson(_))
                .then(|| Words::new(network.seed, Purpose::Source)),
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
    /// Parameters that differ between neurons: (parameter, lane) of each chunk.
    pub(crate) drawn: Vec<f32>,
    /// Words below which random sources fire, by lane; empty without any.
    pub(crate) chances: Vec<u32>,
    /// Spikes of listed sources, by step, and the next of them.
    pub(crate) listed: Vec<(u64, u32)>,
    pub(crate) next_listed: usize,
    /// Synapses that learn.
    pub(super) learning: Learning,
    /// The first neuron whose potential was no number any more, and its step.
    pub(crate) lost: Option<(u64, u32)>,
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
        let (mut chain, mut past, mut drawn) = (0, 0, 0);
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
            group.drawn_first = drawn;
            drawn += group.model.as_ref().map_or(0, ModelPopulation::drawn) * chunks.len();
            group.chunks = chunks;
            groups.push(group);
        }
        let chunks = spans.len();
        let lanes = chunks * CHUNK;
        let words = chunks.div_ceil(64);
        let random = groups.iter().any(|g| g.random.is_some());
        let poisson = random || groups.iter().any(|g| g.poisson.is_some());
        let learning = Learning::new(
            &network.rules(),
            network.step_ms,
            plan.weight_unit,
            plan.slots,
            lanes,
        );
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
            drawn: zeros("drawn parameters", drawn * CHUNK)?,
            chances: zeros("rates of sources", if random { lanes } else { 0 })?,
            listed: Vec::new(),
            next_listed: 0,
            learning,
            lost: None,
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
        part.start_models(network, normal);
        part.start_sources(network, normal)?;
        Ok(part)
    }

    /// Parameters and state at step 0 of neurons that are integrated.
    fn start_models(&mut self, network: &Network, normal: &Normal) {
        for (p, group) in self.groups.iter().enumerate() {
            let Some(model) = &group.model else {
                continue;
            };
            let start = Start::of_model(network, p, normal);
            for (place, chunk) in group.chunks.clone().enumerate() {
                let span = self.spans[chunk];
                let state = group.chain_first + place * group.per_chunk;
                let drawn = group.drawn_first + place * model.drawn();
                // Lanes without a neuron get the first one's numbers, and are never counted.
                for k in 0..CHUNK as u32 {
                    let neuron = span.first + k.min(span.len - 1);
                    let lane = k as usize;
                    let own = neuron - start.first;
                    let mut values = Vec::new();
                    let mut at = drawn;
                    for (i, constant) in model.constants.iter().enumerate() {
                        let value = model.parameter(network, p, i, own, normal);
                        values.push(value);
                        if constant.is_none() {
                            self.drawn[at * CHUNK + lane] = value;
                            at += 1;
                        }
                    }
                    let states = dynamics::start(model.kind, &values, start.potential(neuron));
                    self.v[chunk * CHUNK + lane] = states[0];
                    for (s, value) in states[1..].iter().enumerate() {
                        self.chain[(state + 1 + s) * CHUNK + lane] = *value;
                    }
                    self.silent[chunk * CHUNK + lane] = start.silent;
                    self.current[chunk * CHUNK + lane] = start.current(neuron);
                }
            }
        }
    }

    /// Rates of random sources, and the spikes of listed ones.
    fn start_sources(&mut self, network: &Network, normal: &Normal) -> Result<()> {
        let firsts = network.firsts();
        for (p, population) in network.populations.iter().enumerate() {
            let first = firsts[p] as u32;
            match &population.neuron {
                Neuron::Poisson(source) => {
                    let words = Words::new(network.seed, Purpose::Parameter);
                    for chunk in self.groups[p].chunks.clone() {
                        let span = self.spans[chunk];
                        for k in 0..span.len {
                            let at = [span.first + k - first, p as u32, 0];
                            self.chances[chunk * CHUNK + k as usize] =
                                source.chance(network, words, at, normal);
                        }
                    }
                }
                Neuron::Spikes(trains) => {
                    for (own, train) in (0..).zip(&trains.trains_ms) {
                        if self.lane_of(first + own).is_some() {
                            let steps = train.iter().map(|ms| network.step_at(*ms));
                            self.listed.extend(steps.map(|step| (step, first + own)));
                        }
                    }
                }
                _ => {}
            }
        }
        self.listed.sort_unstable();
        Ok(())
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
        let rest = match network.populations[population].neuron {
            Neuron::Lif(lif) => lif.rest_mv,
            _ => 0.0,
        };
        Self {
            rest,
            scale: constants.current,
            ..Self::of_model(network, population, normal)
        }
    }

    /// Of neurons that are integrated: potentials from 0 mV on, currents in pA.
    pub(crate) fn of_model(network: &'a Network, population: usize, normal: &'a Normal) -> Self {
        let of = &network.populations[population];
        Self {
            network,
            population: of,
            normal,
            first: network.firsts()[population] as u32,
            rest: 0.0,
            scale: 1.0,
            silent: of.start_silent_steps as i32,
        }
    }

    /// V − E_L of a neuron of the network.
    pub(crate) fn potential(&self, neuron: u32) -> f32 {
        let start = start_potential(
            self.network,
            &self.population.start_mv,
            [neuron, neuron - self.first],
            self.normal,
        );
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

/// A neuron's potential at the start in mV, by its numbers in the network and in its population.
pub(crate) fn start_potential(
    network: &Network,
    draw: &Draw,
    [neuron, own]: [u32; 2],
    normal: &Normal,
) -> f64 {
    let words = Words::new(network.seed, Purpose::Start);
    draw.of_neuron(own, |again| words.at([neuron, 0, 0], again)[0], normal)
}
