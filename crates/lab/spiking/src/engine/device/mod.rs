//! A network on CUDA devices, spike for spike as on threads.
//!
//! ```text
//! Design (resident | spread | streamed) ─► Share: wire (count, lay out, place), state ─► run: launches of many steps ─► Host
//! ```
//!
//! Where all rings of input fit into the shared memory of a device's multiprocessors, neurons are *resident*: one
//! launch runs thousands of steps and blocks write each other messages (`kernels/spiking_resident.cu`). Otherwise,
//! where rows are short, and on several devices, rings lie in the devices' memory and neurons are *spread* over all
//! threads (`kernels/spiking_spread.cu`). Where a device has no room for all synapses, they lie in blocks of targets, some of
//! them in the host's memory, and rows are read across the bus (`stream.rs`). Synapses that learn lie beside the others and
//! change on the device (`kernels/spiking_learn.cuh`). Synapses are drawn on the device where the rule allows it
//! (`kernels/spiking_wire.cu`); a device has those onto its own neurons.

mod design;
mod job;
mod learn;
mod models;
mod run;
mod share;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

use std::ops::Range;
use std::sync::Arc;

use betz_base::{Error, ErrorKind, Progress, Result, progress};
use betz_device::Placement;
use betz_device::cuda::Context;
use betz_kernels::spiking;

use super::build::BuildReport;
use super::part::Group;
use super::{Machine, Options, Phases};
use crate::plan::{Plan, available_bytes};
use crate::random::Normal;
use crate::spec::{ListedSynapse, Network};
use design::Design;
use job::{Job, Part};
use share::{Share, introduce, longest_filter};

/// A network on devices.
#[derive(Debug)]
pub(super) struct OnDevice {
    shares: Vec<Share>,
    built: BuildReport,
    /// Synapses of each neuron.
    degrees: Vec<u32>,
    seed: u64,
    populations: usize,
    /// First neuron of each population, and the end.
    firsts: Vec<u64>,
    /// Steps between two spikes of a neuron, at least.
    silence: u64,
    /// The shortest delay in steps.
    shortest: u32,
    /// Steps of filters that end, the longest.
    longest_filter: usize,
    options: Options,
    /// Names of the populations.
    names: Vec<String>,
    host: Host,
    emitting: Vec<u32>,
}

/// Results downloaded from the device.
#[derive(Debug, Default)]
struct Host {
    counts: Vec<u32>,
    spikes: u64,
    hash: u64,
    recorded: Vec<u64>,
    /// Potentials by recorded neuron, with its resting potential.
    traces: Vec<(u32, f32, Vec<f32>)>,
}

impl OnDevice {
    /// Chooses a design, refuses what does not fit, then builds; `plan` becomes that of a device.
    ///
    /// # Errors
    /// `DeviceMemory` with the plan when a device has no room; `InvalidArgument` when inputs of a neuron
    /// could overflow the fixed point; those of the devices.
    pub(super) fn build(
        placement: &Placement,
        network: &Network,
        plan: &mut Plan,
        options: &Options,
        listener: &dyn Progress,
    ) -> Result<Self> {
        progress::check(listener, "building a network")?;
        let (contexts, groups) = (contexts(placement, network, plan)?, groups(network, plan)?);
        let design = design(contexts, network, &groups, plan, options)?;
        Self::with(contexts, design, &groups, network, plan, options, listener)
    }

    /// Makes `plan` that of a device; the name of the design.
    ///
    /// # Errors
    /// As [`OnDevice::build`], as far as that is known before synapses are drawn.
    pub(super) fn plan(
        placement: &Placement,
        network: &Network,
        plan: &mut Plan,
        options: &Options,
    ) -> Result<&'static str> {
        let (contexts, groups) = (contexts(placement, network, plan)?, groups(network, plan)?);
        let design = design(contexts, network, &groups, plan, options)?;
        for context in contexts {
            design.fit(context, network, &groups, plan, options)?;
        }
        Ok(design.name())
    }

    /// As [`OnDevice::build`], by a chosen design.
    fn with(
        contexts: &[Arc<Context>],
        design: Design,
        groups: &[Group],
        network: &Network,
        plan: &mut Plan,
        options: &Options,
        listener: &dyn Progress,
    ) -> Result<Self> {
        let normal = Normal::new();
        let job = Job {
            network,
            groups,
            options,
            normal: &normal,
            listener,
        };
        let mut shares = Vec::new();
        for (number, context) in (0..).zip(contexts) {
            let part = Part {
                number,
                of: contexts.len() as u32,
            };
            design.fit(context, network, groups, plan, options)?;
            shares.push(Share::build(context, job, plan, design, part)?);
        }
        introduce(&mut shares, plan)?;
        let mut built = BuildReport::default();
        let mut degrees = vec![0; plan.neurons as usize];
        for share in &shares {
            let own = share.wired.built;
            built.synapses += own.synapses;
            built.hash = built.hash.wrapping_add(own.hash);
            built.largest_sum = built.largest_sum.max(own.largest_sum);
            for (degree, own) in degrees.iter_mut().zip(&share.wired.degrees) {
                *degree += own;
            }
        }
        plan.synapses = built.synapses as f64;
        let traces = (options.record_potentials.iter())
            .map(|&neuron| Ok((neuron, super::rest_of(network, neuron)?, Vec::new())))
            .collect::<Result<Vec<_>>>()?;
        // Models and random sources may fire in every step.
        let silence = groups.iter().filter_map(|g| match &g.constants {
            Some(constants) => Some(constants.refractory as u64 + 1),
            None => (g.model.is_some() || g.random.is_some()).then_some(1),
        });
        Ok(Self {
            shares,
            built,
            degrees,
            seed: network.seed,
            populations: network.populations.len(),
            firsts: network.firsts(),
            silence: silence.min().unwrap_or(1),
            shortest: plan.shortest_delay,
            longest_filter: longest_filter(groups),
            options: options.clone(),
            names: network.populations.iter().map(|p| p.name.clone()).collect(),
            host: Host {
                counts: vec![0; plan.neurons as usize],
                traces,
                ..Host::default()
            },
            emitting: Vec::new(),
        })
    }

    /// The name of its design.
    pub(super) fn path(&self) -> &'static str {
        self.shares.first().map_or("", |share| share.design.name())
    }
}

/// The design of the network on these devices: where the fastest one does not fit on one device, another that does.
fn design(
    contexts: &[Arc<Context>],
    network: &Network,
    groups: &[Group],
    plan: &mut Plan,
    options: &Options,
) -> Result<Design> {
    let first = &contexts[0];
    learn::check_host(network, plan, options.memory_limit.or_else(available_bytes))?;
    let design = Design::choose(first, contexts.len() as u32, network, plan, groups);
    match design.fit(first, network, groups, plan, options) {
        Err(e) if e.kind() == ErrorKind::DeviceMemory && contexts.len() == 1 => {
            Design::streamed(first, network, groups, plan, options).map_err(|other| {
                let message = format!("{}; {}", e.message(), other.message());
                e.in_words(message)
            })
        }
        Err(e) => Err(e),
        Ok(()) => Ok(design),
    }
}

/// The devices that take part: no more than there are neurons, and one if synapses learn.
fn contexts<'a>(
    placement: &'a Placement,
    network: &Network,
    plan: &Plan,
) -> Result<&'a [Arc<Context>]> {
    let all = placement.contexts();
    let most = match network.rules().is_empty() {
        true => spiking::MOST_PARTS.min(plan.neurons as usize),
        false => 1,
    };
    match all.len().min(most) {
        0 => Err(Error::new(
            ErrorKind::DeviceUnavailable,
            "simulating: expected a device, got none",
        )),
        some => Ok(&all[..some]),
    }
}

fn groups(network: &Network, plan: &Plan) -> Result<Vec<Group>> {
    (0..network.populations.len())
        .map(|p| Group::of(network, p, plan.weight_unit))
        .collect()
}

impl Machine for OnDevice {
    fn built(&self) -> BuildReport {
        self.built
    }

    fn threads(&self) -> usize {
        1
    }

    fn run(&mut self, span: Range<u64>, listener: &dyn Progress) -> Result<(u64, Phases)> {
        self.steps(span, listener)
    }

    fn step(&mut self, step: u64, fired: &mut Vec<u32>) -> Result<()> {
        self.one_step(step, fired)
    }

    fn set_currents(&mut self, population: usize, currents: &[f32]) -> Result<()> {
        let first = self.firsts[population] as usize;
        for share in &mut self.shares {
            let own = share.part.range(first, first + currents.len());
            let values: Vec<f32> = own
                .clone()
                .map(|i| currents[share.part.neuron(i) - first])
                .collect();
            let at = share.neurons + own.start;
            if !values.is_empty() {
                (share.context).upload_into(&values, &mut share.state.membranes, at)?;
            }
        }
        Ok(())
    }

    fn emit(&mut self, neurons: &[u32]) {
        self.emitting.extend_from_slice(neurons);
    }

    fn emitting(&self) -> Vec<u32> {
        self.emitting.clone()
    }

    fn weights(&self, rule: u16, step: u64) -> Result<Vec<ListedSynapse>> {
        match self.shares.first() {
            Some(share) => share.learners.weights(&share.context, rule, step),
            None => Ok(Vec::new()),
        }
    }

    fn reward(&mut self, step: u64, amount: f32) -> Result<()> {
        (self.shares.iter_mut())
            .try_for_each(|share| share.learners.reward(&share.context, step, amount))
    }

    fn spikes(&self) -> u64 {
        self.host.spikes
    }

    fn events(&self) -> u64 {
        (self.host.counts.iter().zip(&self.degrees))
            .map(|(count, degree)| u64::from(*count) * u64::from(*degree))
            .sum()
    }

    fn hash(&self) -> u64 {
        self.host.hash
    }

    fn counts(&self) -> Vec<u32> {
        self.host.counts.clone()
    }

    fn recorded(&self) -> Vec<u64> {
        self.host.recorded.clone()
    }

    fn potential(&self, neuron: u32) -> Result<f32> {
        let neuron = neuron as usize;
        for share in &self.shares {
            if let Some(own) = share.part.own(neuron) {
                let value = (share.context).download_range(&share.state.membranes, own..own + 1)?;
                return Ok(value.first().copied().unwrap_or_default());
            }
        }
        Ok(0.0)
    }

    fn potentials(&self, neuron: u32) -> Option<&[f32]> {
        let (_, _, values) = self.host.traces.iter().find(|(n, _, _)| *n == neuron)?;
        Some(values)
    }
}
