//! The simulator: fixed-point rings of delayed input, spikes exchanged once in a shortest delay.
//!
//! A step is: input and update, spikes, delivery. Input sums are integers, so the order in which
//! spikes are delivered does not count; each neuron's update is a function of its own state; random
//! numbers depend on step and neuron. One, two or seven threads give the same spikes.

mod barrier;
mod build;
mod deliver;
mod part;
mod report;
mod run;
mod update;

use std::sync::RwLock;

use betz_base::{Error, Progress, Result, progress};
use rayon::prelude::*;

use crate::plan::{Layout, Plan, available_bytes};
use crate::random::Normal;
use crate::spec::{Network, Neuron};
use part::{Part, Trace};

pub(crate) use part::start_potential;
pub use report::{Phases, Report, Spike, write_counts};

/// How a network is built and what is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Threads that share the neurons; the spikes do not depend on it. More than there are free
    /// processors make every step wait.
    pub threads: usize,
    /// Most bytes the network may take; `None`: what the system says is available.
    pub memory_limit: Option<u64>,
    /// Most spikes that are recorded, the first ones; counts and hash take in all.
    pub record_spikes: usize,
    /// Neurons whose membrane potential is recorded at every step.
    pub record_potentials: Vec<u32>,
    /// Measure the parts of a step: about 0.1 µs a step.
    pub time_phases: bool,
}

impl Default for Options {
    /// One thread, the system's memory, counts and hash only.
    fn default() -> Self {
        Self {
            threads: 1,
            memory_limit: None,
            record_spikes: 0,
            record_potentials: Vec::new(),
            time_phases: false,
        }
    }
}

/// A built network at some step.
///
/// ```
/// use betz_spiking::{Engine, Options, models};
///
/// // The paper's ring: 100 neurons, each spike received is passed on, 10 s at 0.25 ms.
/// let network = models::galbraith::ring(100, 0)?;
/// let mut engine = Engine::build(&network, &Options::default(), &())?;
/// let report = engine.run(40_000, &())?;
/// assert_eq!(report.spikes, 443_928);
/// assert_eq!(engine.counts()[..4], [4445, 4445, 4445, 4444]);
/// # Ok::<(), betz_spiking::Error>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    network: Network,
    plan: Plan,
    layout: Layout,
    parts: Vec<Part>,
    /// Spikes by (step modulo their number, thread).
    lists: Vec<Vec<RwLock<Vec<u32>>>>,
    step: u64,
    synapses: u64,
    synapse_hash: u64,
    largest_sum: u64,
    build_seconds: f64,
    options: Options,
}

impl Engine {
    /// Plans, refuses what does not fit, then builds.
    ///
    /// Synapses are made on rayon's current pool. Allocates what [`Plan`] says.
    ///
    /// # Errors
    /// As [`Plan::new`]; `Io` when the plan exceeds the memory there is, with the plan;
    /// `InvalidArgument` when the inputs of a neuron could overflow the fixed point, or a recorded
    /// neuron does not exist; `Interrupted` when `listener` cancels.
    pub fn build(network: &Network, options: &Options, listener: &dyn Progress) -> Result<Self> {
        let begun = std::time::Instant::now();
        let plan = Plan::new(network, options.threads)?;
        if let Some(limit) = options.memory_limit.or_else(available_bytes) {
            let recorded = 8 * options.record_spikes as u64 / 2;
            plan.fit(limit.saturating_sub(recorded.min(limit / 2)))?;
        }
        progress::check(listener, "building a network")?;
        let layout = Layout::new(network, plan.threads);
        let normal = Normal::new();
        let mut parts = (0..plan.threads)
            .into_par_iter()
            .map(|thread| Part::new(network, &plan, &layout, thread, &normal))
            .collect::<Result<Vec<_>>>()?;
        let built = build::synapses(network, &plan, &layout, &mut parts, &normal, listener)?;
        for &neuron in &options.record_potentials {
            let (part, trace) = trace(network, &layout, neuron)?;
            parts[part].traces.push(trace);
        }
        // Lists of a block of steps, and of the block before it, which slower threads may still read.
        let kept = 2 * plan.shortest_delay as usize;
        let lists = (0..kept)
            .map(|_| (0..plan.threads).map(|_| RwLock::default()).collect())
            .collect();
        Ok(Self {
            network: network.clone(),
            plan,
            layout,
            parts,
            lists,
            step: 0,
            synapses: built.synapses,
            synapse_hash: built.hash,
            largest_sum: built.largest_sum,
            build_seconds: begun.elapsed().as_secs_f64(),
            options: options.clone(),
        })
    }

    /// Simulates `steps` steps on the engine's threads.
    ///
    /// The report is of this call, except for `spikes`, `hash` and `rates_hz` where the engine had
    /// run before: those are of all its steps.
    ///
    /// # Errors
    /// `Interrupted` when `listener` cancels; the engine then stands at the end of some step and
    /// goes on from there.
    pub fn run(&mut self, steps: u64, listener: &dyn Progress) -> Result<Report> {
        run::run(self, steps, listener)
    }

    /// Simulates one step on this thread; `fired` gets the neurons that fire, in no order that
    /// means anything. Allocates nothing once its lists have grown.
    pub fn step(&mut self, fired: &mut Vec<u32>) {
        fired.clear();
        run::step(self, fired);
    }

    /// Currents in pA into all neurons of a population from now on, in place of its stimuli.
    ///
    /// # Errors
    /// `InvalidArgument` for a population that does not exist, has no potential, or currents that
    /// are not finite; `Mismatch` unless there is one per neuron.
    pub fn set_currents(&mut self, population: usize, currents_pa: &[f64]) -> Result<()> {
        let Some(of) = self.network.populations.get(population) else {
            return Err(Error::argument(format!(
                "currents: expected a population below {}, got {population}",
                self.network.populations.len()
            )));
        };
        if currents_pa.len() != of.neurons as usize {
            return Err(Error::mismatch(format!(
                "currents of population {:?}: expected {}, got {}",
                of.name,
                of.neurons,
                currents_pa.len()
            )));
        }
        if let Some(i) = currents_pa.iter().position(|c| !c.is_finite()) {
            return Err(Error::argument(format!(
                "currents of population {:?}: expected finite numbers, got {} for neuron {i}",
                of.name, currents_pa[i]
            )));
        }
        for part in &mut self.parts {
            let group = &part.groups[population];
            let Some(constants) = &group.constants else {
                return Err(Error::argument(format!(
                    "population {:?} is a source: it takes no current",
                    of.name
                )));
            };
            let first = self.layout.firsts[population] as usize;
            for chunk in group.chunks.clone() {
                let span = part.spans[chunk];
                let own = span.first as usize - first;
                let lanes = &mut part.current[chunk * crate::plan::CHUNK..];
                let given = &currents_pa[own..own + span.len as usize];
                for (lane, current) in lanes.iter_mut().zip(given) {
                    *lane = *current as f32 * constants.current;
                }
                part.awake[chunk / 64] |= 1 << (chunk % 64);
            }
        }
        Ok(())
    }

    /// Lets neurons of source populations fire in the next step.
    ///
    /// # Errors
    /// `InvalidArgument`, and nothing fires, for a neuron that does not exist, is no source, or is
    /// named twice: a neuron fires once a step, or sums could leave the fixed point.
    pub fn emit(&mut self, neurons: &[u32]) -> Result<()> {
        let mut sorted = neurons.to_vec();
        let waiting = self.parts.iter().flat_map(|p| &p.emitted);
        sorted.extend(waiting);
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            if pair[0] == pair[1] {
                return Err(Error::argument(format!(
                    "spikes by call: expected each neuron once a step, got {} twice",
                    pair[0]
                )));
            }
        }
        for &neuron in neurons {
            if u64::from(neuron) >= self.plan.neurons {
                return Err(Error::argument(format!(
                    "spikes by call: expected neurons below {}, got {neuron}",
                    self.plan.neurons
                )));
            }
            let population = self.layout.population_of(u64::from(neuron));
            if self.network.populations[population].neuron != Neuron::Source {
                return Err(Error::argument(format!(
                    "spikes by call: expected neurons of source populations, got {neuron} of {:?}",
                    self.network.populations[population].name
                )));
            }
        }
        for &neuron in neurons {
            let (part, _) = self.layout.place_of(u64::from(neuron));
            self.parts[part].emitted.push(neuron);
        }
        Ok(())
    }

    /// What was built.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What it was planned to take.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Steps simulated so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Synapses there are.
    pub fn synapses(&self) -> u64 {
        self.synapses
    }

    /// A hash of all synapses: ends, weights and delays, whatever their order.
    pub fn synapse_hash(&self) -> u64 {
        self.synapse_hash
    }

    /// The largest sum that one neuron's inputs of one step can have, as a part of what the fixed
    /// point holds.
    pub fn fixed_point_use(&self) -> f64 {
        self.largest_sum as f64 / f64::from(i32::MAX)
    }

    /// Seconds that building took.
    pub fn build_seconds(&self) -> f64 {
        self.build_seconds
    }
}

/// Where a neuron's potential is to be recorded.
fn trace(network: &Network, layout: &Layout, neuron: u32) -> Result<(usize, Trace)> {
    if u64::from(neuron) >= network.neurons() {
        return Err(Error::argument(format!(
            "recorded potentials: expected neurons below {}, got {neuron}",
            network.neurons()
        )));
    }
    let population = layout.population_of(u64::from(neuron));
    let Neuron::Lif(lif) = network.populations[population].neuron else {
        return Err(Error::argument(format!(
            "recorded potentials: neuron {neuron} is a source and has none"
        )));
    };
    let (part, lane) = layout.place_of(u64::from(neuron));
    let trace = Trace {
        neuron,
        lane,
        rest: lif.rest_mv as f32,
        values: Vec::new(),
    };
    Ok((part, trace))
}
