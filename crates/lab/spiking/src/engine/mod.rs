//! The simulator: fixed-point rings of delayed input, spikes exchanged once in a shortest delay.
//!
//! A step is: input and update, spikes, delivery. Input sums are integers, so the order in which
//! spikes are delivered does not count; each neuron's update is a function of its own state; random
//! numbers depend on step and neuron. One, two or seven threads and a CUDA device give the same spikes.

mod barrier;
mod build;
mod conductance;
mod deliver;
mod device;
mod drives;
mod follow;
mod histogram;
mod integrate;
mod learn;
mod part;
mod ranks;
mod report;
mod threads;
mod update;

use std::fmt;
use std::ops::Range;
use std::time::Instant;

use betz_base::team::Team;
use betz_base::{Error, ErrorKind, Progress, Result};
use betz_device::{Device, Placement, Ran, Work};

use crate::drive::Drive;
use crate::model_population::ModelPopulation;
use crate::neuron::Constants;
use crate::plan::Plan;
use crate::random::Normal;
use crate::spec::{ListedSynapse, Network, Neuron, Projection, Synapse};
use build::BuildReport;
use device::OnDevice;
use drives::Drives;
use threads::Threads;

pub(crate) use part::start_potential;
pub use report::{Phases, Report, Spike, write_counts};

/// Options of building a network and of recording.
#[derive(Debug, Clone)]
pub struct Options {
    /// The device that runs the network. [`Device::auto`] takes a CUDA device for large networks, if there is one.
    pub device: Device,
    /// Threads that share the neurons; the spikes do not depend on it. More than there are free
    /// processors make every step wait. A device has its own.
    pub threads: usize,
    /// Most bytes the network may take on the CPU; `None`: what the system says is available. For a
    /// device see [`Device::with_memory_cap`].
    pub memory_limit: Option<u64>,
    /// Most spikes that are recorded, the first ones; counts and hash take in all.
    pub record_spikes: usize,
    /// Neurons whose membrane potential is recorded at every step.
    pub record_potentials: Vec<u32>,
    /// Measure the parts of a step: about 0.1 µs per step.
    pub time_phases: bool,
}

impl Default for Options {
    /// The CPU, one thread, the system's memory, counts and hash only.
    fn default() -> Self {
        Self {
            device: Device::cpu(),
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
    step: u64,
    build_seconds: f64,
    options: Options,
    ran: Ran,
    machine: Box<dyn Machine>,
    drives: Drives,
}

/// A machine that steps a network: threads, or a device.
trait Machine: fmt::Debug + Send {
    /// The synapses it has.
    fn built(&self) -> BuildReport;
    /// Threads it uses.
    fn threads(&self) -> usize;
    /// Runs the steps of `span`, or fewer when `listener` cancels; the step it ended at.
    fn run(&mut self, span: Range<u64>, listener: &dyn Progress) -> Result<(u64, Phases)>;
    /// Runs one step and appends the neurons that fire.
    fn step(&mut self, step: u64, fired: &mut Vec<u32>) -> Result<()>;
    /// Sets the additions to V per step by currents into a population's neurons.
    fn set_currents(&mut self, population: usize, currents: &[f32]) -> Result<()>;
    /// Lets sources fire in the next step.
    fn emit(&mut self, neurons: &[u32]);
    /// Sources that fire in the next step.
    fn emitting(&self) -> Vec<u32>;
    /// Synapses of the projection that is number `rule` among those that learn, as they are at `step`: neurons of the network.
    fn weights(&self, rule: u16, step: u64) -> Result<Vec<ListedSynapse>>;
    /// Exchanges the results of a run with other ranks.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
    /// Adds dopamine at `step`.
    fn reward(&mut self, step: u64, amount: f32) -> Result<()>;
    /// Spikes so far.
    fn spikes(&self) -> u64;
    /// Synapses that spikes went through.
    fn events(&self) -> u64;
    /// Hash of all spikes.
    fn hash(&self) -> u64;
    /// Spikes of each neuron.
    fn counts(&self) -> Vec<u32>;
    /// Recorded spikes, step << 32 | neuron, in any order; among them the first of all.
    fn recorded(&self) -> Vec<u64>;
    /// V − E_L of a neuron now.
    fn potential(&self, neuron: u32) -> Result<f32>;
    /// Conductances of a neuron's channels in nS, where they are at hand.
    fn conductances(&self, neuron: u32) -> Vec<f32> {
        let _ = neuron;
        Vec::new()
    }
    /// A recorded neuron's potentials.
    fn potentials(&self, neuron: u32) -> Option<&[f32]>;
}

/// Neurons, and synapses, from which on a device is faster than a thread (`benches/record/spiking.md`).
const GAINS: (u64, f64) = (5_000, 1e6);

/// Reason why ranks use no device.
const IN_A_TEAM: &str = "ranks of a team run on CPUs";

impl Engine {
    /// Plans, refuses what does not fit, then builds.
    ///
    /// Synapses are made on rayon's current pool, or on the device. Allocates what [`Plan`] says.
    ///
    /// # Errors
    /// As [`Plan::new`]; `OutOfMemory` when the plan exceeds the memory there is, with the plan;
    /// `InvalidArgument` when the inputs of a neuron could overflow the fixed point, or a recorded
    /// neuron does not exist; `Interrupted` when `listener` cancels; those of a device that was named.
    pub fn build(network: &Network, options: &Options, listener: &dyn Progress) -> Result<Self> {
        let begun = Instant::now();
        let mut plan = Plan::new(network, options.threads)?;
        for &neuron in &options.record_potentials {
            rest_of(network, neuron)?;
        }
        let placement = place(network, &plan, options);
        let (machine, path): (Box<dyn Machine>, _) = if placement.is_cpu() {
            let threads = Threads::build(network, &plan, options, None, listener)?;
            (Box::new(threads), "threads")
        } else {
            let built = OnDevice::build(&placement, network, &mut plan, options, listener);
            match placement.or_cpu(built)? {
                Some(device) => {
                    let path = device.path();
                    (Box::new(device), path)
                }
                None => {
                    plan = Plan::new(network, options.threads)?;
                    let threads = Threads::build(network, &plan, options, None, listener)?;
                    (Box::new(threads), "threads")
                }
            }
        };
        Ok(Self {
            network: network.clone(),
            plan,
            step: 0,
            build_seconds: begun.elapsed().as_secs_f64(),
            options: options.clone(),
            ran: placement.ran(path),
            machine,
            drives: Drives::default(),
        })
    }

    /// Builds one rank's share of a network: the neurons of `options.threads` threads, and the synapses onto them. All ranks
    /// of the team build the same network and then call the same methods in the same order. Each sends its spikes to the
    /// others once in a shortest delay. Every rank has the counts, spikes and hash of the whole network, which are those of
    /// [`Engine::build`] for any number of ranks. The memory limit is a rank's.
    ///
    /// Ranks run on CPUs. Every rank holds four bytes per synapse for a while where a rule needs a table (fixed in-degrees,
    /// distinct pairs, lists).
    ///
    /// # Errors
    /// As [`Engine::build`], and those of the team.
    pub fn build_in(
        team: &'static dyn Team,
        network: &Network,
        options: &Options,
        listener: &dyn Progress,
    ) -> Result<Self> {
        let begun = Instant::now();
        let plan = plan_of_team(team, network, options)?;
        for &neuron in &options.record_potentials {
            rest_of(network, neuron)?;
        }
        let placement = Placement::cpu_instead(&options.device, IN_A_TEAM);
        let threads = Threads::build(network, &plan, options, Some(team), listener)?;
        Ok(Self {
            network: network.clone(),
            plan,
            step: 0,
            build_seconds: begun.elapsed().as_secs_f64(),
            options: options.clone(),
            ran: placement.ran("threads"),
            machine: Box::new(threads),
            drives: Drives::default(),
        })
    }

    /// Plans as [`Engine::build_in`] would. Builds nothing.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn plan_in(team: &dyn Team, network: &Network, options: &Options) -> Result<(Plan, Ran)> {
        let plan = plan_of_team(team, network, options)?;
        let placement = Placement::cpu_instead(&options.device, IN_A_TEAM);
        Ok((plan, placement.ran("threads")))
    }

    /// Plans as [`Engine::build`] would, on the device that it would take. Builds nothing.
    ///
    /// # Errors
    /// As [`Plan::new`]; those of a device that was named, among them that the network does not fit.
    pub fn plan_for(network: &Network, options: &Options) -> Result<(Plan, Ran)> {
        let mut plan = Plan::new(network, options.threads)?;
        let placement = place(network, &plan, options);
        if placement.is_cpu() {
            return Ok((plan, placement.ran("threads")));
        }
        let fits = OnDevice::plan(&placement, network, &mut plan, options);
        match placement.or_cpu(fits)? {
            Some(path) => Ok((plan, placement.ran(path))),
            None => Ok((
                Plan::new(network, options.threads)?,
                placement.ran("threads"),
            )),
        }
    }

    /// Simulates `steps` steps on the engine's threads.
    ///
    /// The report is of this call, except for `spikes`, `hash` and `rates_hz` where the engine had
    /// run before: those are of all its steps.
    ///
    /// # Errors
    /// `Interrupted` when `listener` cancels; the engine then stands at the end of some step and
    /// goes on from there. Those of a device, after which it is of no use.
    pub fn run(&mut self, steps: u64, listener: &dyn Progress) -> Result<Report> {
        let (begin, before) = (self.step, self.synaptic_events());
        let end = begin.saturating_add(steps);
        let started = Instant::now();
        let mut phases = Phases::default();
        while self.step < end {
            let until = self.drives.apply(self.step, &mut *self.machine)?.min(end);
            let (done, own) = self.machine.run(self.step..until, listener)?;
            phases.add(own);
            self.step = done;
            if done < until {
                self.machine.settle()?;
                return Err(Error::new(
                    ErrorKind::Interrupted,
                    format!("simulating: stopped on request at step {done}"),
                ));
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        self.machine.settle()?;
        let events = self.synaptic_events() - before;
        Ok(self.report(steps, events, seconds, phases))
    }

    /// Simulates one step; `fired` gets the neurons that fire, in no order that means anything. On the
    /// CPU it runs on this thread and allocates nothing once its lists have grown; a device takes tens of
    /// microseconds to be asked for one step.
    ///
    /// # Errors
    /// The errors of a device.
    pub fn step(&mut self, fired: &mut Vec<u32>) -> Result<()> {
        fired.clear();
        self.drives.apply(self.step, &mut *self.machine)?;
        self.machine.step(self.step, fired)?;
        self.step += 1;
        Ok(())
    }

    /// Currents in pA into all neurons of a population from now on, in place of its stimuli.
    ///
    /// # Errors
    /// `InvalidArgument` for a population that does not exist, has no potential, or currents that
    /// are beyond 1e30 pA; `Mismatch` unless there is one per neuron.
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
        let scale = current_scale(&self.network, population)?;
        let scaled = drives::scaled(currents_pa, scale)
            .map_err(|e| e.at(format!("population {:?}", of.name)))?;
        self.machine.set_currents(population, &scaled)
    }

    /// Lets `drive` give the currents of a population from the next step on, beside its stimuli; it replaces an earlier one,
    /// and currents that were set.
    ///
    /// # Errors
    /// `InvalidArgument` for a population that does not exist or is a source.
    pub fn drive(&mut self, population: usize, drive: Box<dyn Drive>) -> Result<()> {
        if population >= self.network.populations.len() {
            return Err(Error::argument(format!(
                "drive: expected a population below {}, got {population}",
                self.network.populations.len()
            )));
        }
        let scale = current_scale(&self.network, population)?;
        self.drives.set(&self.network, population, scale, drive);
        Ok(())
    }

    /// Synapses of a projection with their weights now, learned or not: neurons are counted within their populations.
    ///
    /// # Errors
    /// `InvalidArgument` for a projection that does not exist.
    pub fn weights(&self, projection: usize) -> Result<Vec<ListedSynapse>> {
        let Some(of) = self.network.projections.get(projection) else {
            return Err(Error::argument(format!(
                "weights: expected a projection below {}, got {projection}",
                self.network.projections.len()
            )));
        };
        if of.plasticity.is_none() {
            return crate::connect::synapses(&self.network, projection, self.plan.weight_unit);
        }
        let before = &self.network.projections[..projection];
        let rule = before.iter().filter(|p| p.plasticity.is_some()).count();
        let firsts = self.network.firsts();
        let (source, target) = (
            firsts[self.network.population(&of.source)?] as u32,
            firsts[self.network.population(&of.target)?] as u32,
        );
        let mut list = self.machine.weights(rule as u16, self.step)?;
        for synapse in &mut list {
            synapse.source -= source;
            synapse.target -= target;
        }
        // Two of the same ends and delay stand by weight: how threads and ranks share them makes no difference.
        list.sort_by(|a, b| {
            let place = |s: &ListedSynapse| (s.source, s.target, s.delay_steps);
            (place(a).cmp(&place(b))).then(a.weight.total_cmp(&b.weight))
        });
        Ok(list)
    }

    /// A parameter of each neuron of a population, as it was drawn; a refractory time in steps.
    ///
    /// # Errors
    /// `InvalidArgument` for a population that does not exist or is not integrated (alike `lif` neurons are not), and for a
    /// parameter that its model does not have.
    pub fn parameters(&self, population: usize, name: &str) -> Result<Vec<f32>> {
        let model = match self.network.populations.get(population) {
            Some(_) => ModelPopulation::of(&self.network, population)?,
            None => None,
        };
        let place = model.as_ref().and_then(|m| Some((m, m.model.place(name)?)));
        let Some((model, place)) = place else {
            return Err(Error::argument(format!(
                "parameters: expected a population of a model with the parameter {name:?}, got population {population}"
            )));
        };
        let normal = Normal::new();
        let neurons = self.network.populations[population].neurons;
        Ok((0..neurons)
            .map(|own| model.parameter(&self.network, population, place, own, &normal))
            .collect())
    }

    /// Adds dopamine, which turns the eligibility of synapses that learn by [`Reward`](crate::Reward) into weight.
    ///
    /// # Errors
    /// `InvalidArgument` for an amount that is not finite, or a network without such synapses; those of a device.
    pub fn reward(&mut self, amount: f64) -> Result<()> {
        let learns = |p: &Projection| p.plasticity.is_some_and(|p| p.reward.is_some());
        if !self.network.projections.iter().any(learns) {
            return Err(Error::argument(
                "reward: expected a projection whose plasticity has a reward, got none",
            ));
        }
        if !amount.is_finite() {
            return Err(Error::argument(format!(
                "reward: expected a finite amount, got {amount}"
            )));
        }
        self.machine.reward(self.step, amount as f32)
    }

    /// A neuron's membrane potential after the last step, in mV. From a device it takes tens of microseconds.
    ///
    /// # Errors
    /// `InvalidArgument` for a neuron that does not exist or has none; those of a device.
    pub fn potential(&self, neuron: u32) -> Result<f32> {
        let rest = rest_of(&self.network, neuron)?;
        Ok(self.machine.potential(neuron)? + rest)
    }

    /// Lets neurons of source populations fire in the next step.
    ///
    /// # Errors
    /// `InvalidArgument`, and nothing fires, for a neuron that does not exist, is no source, or is
    /// named twice: a neuron fires once per step, or sums could leave the fixed point.
    pub fn emit(&mut self, neurons: &[u32]) -> Result<()> {
        let mut sorted = neurons.to_vec();
        sorted.extend(self.machine.emitting());
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            if pair[0] == pair[1] {
                return Err(Error::argument(format!(
                    "spikes by call: expected each neuron once per step, got {} twice",
                    pair[0]
                )));
            }
        }
        let firsts = self.network.firsts();
        for &neuron in neurons {
            if u64::from(neuron) >= self.plan.neurons {
                return Err(Error::argument(format!(
                    "spikes by call: expected neurons below {}, got {neuron}",
                    self.plan.neurons
                )));
            }
            let population = firsts.partition_point(|f| *f <= u64::from(neuron)) - 1;
            if self.network.populations[population].neuron != Neuron::Source {
                return Err(Error::argument(format!(
                    "spikes by call: expected neurons of source populations, got {neuron} of {:?}",
                    self.network.populations[population].name
                )));
            }
        }
        self.machine.emit(neurons);
        Ok(())
    }

    /// The network that was built.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The plan that it was built by.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The device that it runs on, and why it is not another.
    pub fn ran(&self) -> &Ran {
        &self.ran
    }

    /// Steps simulated so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Synapses there are.
    pub fn synapses(&self) -> u64 {
        self.machine.built().synapses
    }

    /// A hash of all synapses: ends, weights and delays, whatever their order.
    pub fn synapse_hash(&self) -> u64 {
        self.machine.built().hash
    }

    /// The largest sum that one neuron's inputs of one step can have, as a part of what the fixed
    /// point holds.
    pub fn fixed_point_use(&self) -> f64 {
        self.machine.built().largest_sum as f64 / f64::from(i32::MAX)
    }

    /// Seconds that building took.
    pub fn build_seconds(&self) -> f64 {
        self.build_seconds
    }
}

/// The error of a potential that is no number any more; `lost` is step << 32 | neuron.
fn lost_potential(names: &[String], firsts: &[u64], lost: u64) -> Error {
    let neuron = lost & u64::from(u32::MAX);
    let population = firsts.partition_point(|f| *f <= neuron) - 1;
    Error::argument(format!(
        "population {:?}: the potential of neuron {neuron} left the numbers at step {}: expected parameters and input that it can be integrated with; take shorter steps or less input",
        names[population],
        lost >> 32
    ))
}

/// Addition of a current of one pA to V per step; 1 if neurons are integrated.
fn current_scale(network: &Network, population: usize) -> Result<f32> {
    match Constants::of(network, population)? {
        Some(constants) => Ok(constants.current),
        None if ModelPopulation::of(network, population)?.is_some() => Ok(1.0),
        None => Err(Error::argument(format!(
            "population {:?} is a source: it takes no current",
            network.populations[population].name
        ))),
    }
}

/// Plan of a network whose neurons the threads of all ranks share.
fn plan_of_team(team: &dyn Team, network: &Network, options: &Options) -> Result<Plan> {
    let (ranks, threads) = (team.size(), options.threads);
    Plan::new(network, threads.saturating_mul(ranks)).map_err(|e| match ranks {
        1 => e,
        _ => e.at(format!("{ranks} ranks of {threads} threads")),
    })
}

/// The place where a network of that plan runs.
fn place(network: &Network, plan: &Plan, options: &Options) -> Placement {
    if let Some(reason) = network.only_on_cpu() {
        return Placement::cpu_instead(&options.device, reason);
    }
    let gains = plan.neurons >= GAINS.0 && plan.synapses >= GAINS.1;
    Placement::decide(&options.device, Work::Gains(gains))
}

fn integrated(network: &Network, population: usize) -> bool {
    matches!(
        network.populations[population].synapse,
        Synapse::Conductance { .. }
    )
}

/// Resting potential of a neuron whose potential is to be recorded.
fn rest_of(network: &Network, neuron: u32) -> Result<f32> {
    if u64::from(neuron) >= network.neurons() {
        return Err(Error::argument(format!(
            "potentials: expected neurons below {}, got {neuron}",
            network.neurons()
        )));
    }
    let firsts = network.firsts();
    let population = firsts.partition_point(|f| *f <= u64::from(neuron)) - 1;
    match network.populations[population].neuron {
        // Those that are integrated count from 0 mV.
        Neuron::Model(_) => Ok(0.0),
        Neuron::Lif(_) if integrated(network, population) => Ok(0.0),
        Neuron::Lif(lif) => Ok(lif.rest_mv as f32),
        Neuron::Source | Neuron::Poisson(_) | Neuron::Spikes(_) => Err(Error::argument(format!(
            "potentials: neuron {neuron} is a source and has none"
        ))),
    }
}
