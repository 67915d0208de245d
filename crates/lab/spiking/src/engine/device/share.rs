//! One device's share of a network: what lies in its memory, and the addresses of what others write there.

use std::sync::Arc;

use betz_base::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, Kernel};
use betz_kernels::{Cells, ModelCells, spiking};

use super::super::part::{Group, Start};
use super::design::{Design, Shape};
use super::job::{Job, Part};
use super::learn::Learners;
use super::models::{ModelTables, start_models};
use super::wire::DeviceSynapses;
use crate::plan::Plan;
use crate::spec::Population;

/// A device's neurons and the synapses onto them.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) context: Arc<Context>,
    pub(super) kernel: Kernel,
    pub(super) design: Design,
    pub(super) part: Part,
    pub(super) neurons: usize,
    pub(super) state: State,
    pub(super) wired: DeviceSynapses,
    pub(super) learners: Learners,
    /// Blocks that have arrived at the barrier.
    pub(super) arrived: u32,
}

/// Memory on a device besides synapses.
#[derive(Debug)]
pub(super) struct State {
    pub(super) cells: Buffer<Cells>,
    pub(super) models: Buffer<ModelCells>,
    /// Parameters of the models.
    pub(super) values: Buffer<f32>,
    pub(super) thresholds: Buffer<u32>,
    pub(super) starts: Buffer<u16>,
    /// V, current, chains, each of all neurons.
    pub(super) membranes: Buffer<f32>,
    pub(super) silent: Buffer<i32>,
    pub(super) ring: Buffer<i32>,
    pub(super) past: Buffer<i32>,
    pub(super) counts: Buffer<u32>,
    pub(super) tally: Buffer<u64>,
    pub(super) marks: Buffer<u32>,
    /// Messages between blocks.
    pub(super) mail: Buffer<u64>,
    pub(super) barrier: Buffer<u32>,
    /// The devices' numbers, and the memory in which they write to each other.
    pub(super) share: Buffer<u64>,
    pub(super) post: Buffer<u64>,
}

impl Share {
    pub(super) fn build(
        context: &Arc<Context>,
        job: Job<'_>,
        plan: &mut Plan,
        mut design: Design,
        part: Part,
    ) -> Result<Self> {
        let (learners, learning) = Learners::make(context, job, plan)?;
        let wired = DeviceSynapses::make(context, job, plan, &mut design, part, &learning)?;
        let kernel = design.load(context, job.groups, job.options)?;
        let state = State::new(context, job, &design, part)?;
        Ok(Self {
            context: Arc::clone(context),
            kernel,
            design,
            part,
            neurons: part.neurons(job.network.neurons() as usize),
            state,
            wired,
            learners,
            arrived: 0,
        })
    }
}

/// Tells devices that share a network where the others' memory lies.
///
/// # Errors
/// `DeviceUnavailable` where two are not linked.
pub(super) fn introduce(shares: &mut [Share], plan: &Plan) -> Result<()> {
    let mut posts = vec![0u64; shares.len()];
    for own in 0..shares.len() {
        let mut told = vec![
            shares.len() as u64,
            own as u64,
            u64::from(plan.shortest_delay),
            shares[0].neurons as u64,
        ];
        for (other, post) in posts.iter_mut().enumerate() {
            if other != own {
                let (context, peer) = (&shares[other].context, &shares[own].context);
                let address = context.address_for(peer, &shares[other].state.post)?;
                *post = address.ok_or_else(|| {
                    Error::new(
                        ErrorKind::DeviceUnavailable,
                        format!(
                            "a network on several devices: cuda:{} and cuda:{} cannot write to each other's memory; expected one device, such as cuda:{}",
                            context.number(),
                            peer.number(),
                            shares[0].context.number()
                        ),
                    )
                })?;
            }
        }
        told.extend(&posts);
        let share = &mut shares[own];
        share.state.share = share.context.upload(&told)?;
    }
    shares
        .iter()
        .try_for_each(|share| share.context.synchronize())
}

impl State {
    fn new(context: &Context, job: Job<'_>, design: &Design, part: Part) -> Result<Self> {
        let Job {
            network,
            groups,
            options,
            normal,
            ..
        } = job;
        let all = network.neurons() as usize;
        let neurons = part.neurons(all);
        let firsts = network.firsts();
        let shape = Shape::of(groups);
        let (mut cells, mut thresholds, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let mut membranes = vec![0f32; neurons * (2 + shape.state)];
        let tables = ModelTables::new(network, groups, normal);
        let mut silent = vec![0i32; neurons];
        for (p, group) in groups.iter().enumerate() {
            let (first, end) = (firsts[p] as usize, firsts[p + 1] as usize);
            cells.push(cells_of(
                group,
                first,
                &network.populations[p],
                thresholds.len(),
            ));
            let own = group.poisson.as_ref().map_or(&[][..], |p| &p.thresholds);
            thresholds.extend_from_slice(own);
            starts.extend((0..spiking::BUCKETS as u32).map(|bucket| {
                let least = bucket << 24;
                own.partition_point(|t| *t <= least) as u16
            }));
            if let Some(constants) = &group.constants {
                let start = Start::of(network, p, constants, normal);
                for i in part.range(first, end) {
                    let neuron = part.neuron(i) as u32;
                    membranes[i] = start.potential(neuron);
                    membranes[neurons + i] = start.current(neuron);
                    silent[i] = start.silent;
                }
            }
        }
        start_models(job, part, &mut membranes, &mut silent);
        // A word behind the last threshold, which is looked at and never reached.
        thresholds.push(u32::MAX);
        let mut marks = vec![0u32; neurons];
        for (number, &neuron) in (1..).zip(&options.record_potentials) {
            if let Some(own) = part.own(neuron as usize) {
                marks[own] = number;
            }
        }
        let longest = longest_filter(groups);
        // Two lists of spikes from every device.
        let lists = match part.of {
            1 => 0,
            of => of as usize * part_zero(of).neurons(all),
        };
        Ok(Self {
            cells: context.upload(&cells)?,
            models: context.upload(&tables.models)?,
            values: context.upload(&tables.values)?,
            thresholds: context.upload(&thresholds)?,
            starts: context.upload(&starts)?,
            membranes: context.upload(&membranes)?,
            silent: context.upload(&silent)?,
            ring: context.zeros(design.ring_values(neurons, shape.receptors))?,
            past: context.zeros((longest * neurons).max(1))?,
            counts: context.zeros(neurons)?,
            tally: context.zeros(spiking::TALLY)?,
            marks: context.upload(&marks)?,
            mail: context.upload(&vec![u64::MAX; design.mail_words(neurons)])?,
            barrier: context.zeros(spiking::BARRIER)?,
            share: context.zeros(spiking::POSTS)?,
            post: context.zeros(spiking::SENT + lists)?,
        })
    }
}

/// The largest part of several.
fn part_zero(of: u32) -> Part {
    Part { number: 0, of }
}

/// Steps of the longest filter that ends.
pub(super) fn longest_filter(groups: &[Group]) -> usize {
    let filters = groups.iter().map(|g| g.filter as usize);
    filters.max().unwrap_or(0)
}

/// A group's constants as the kernels have them.
fn cells_of(group: &Group, first: usize, population: &Population, thresholds: usize) -> Cells {
    let mut cells = Cells {
        first: first as u32,
        count: population.neurons,
        filter: group.filter as u32,
        thresholds: thresholds as u32,
        ..Cells::default()
    };
    if let Some(poisson) = &group.poisson {
        cells.poisson = poisson.thresholds.len() as u32;
        cells.poisson_weight = poisson.weight;
        cells.poisson_receptor = poisson.receptor as u32;
    }
    if let Some(model) = &group.model {
        cells.receptors = model.receptors.len() as u32;
    }
    if let Some(c) = &group.constants {
        (cells.leak, cells.constant) = (c.leak, c.constant);
        (cells.threshold, cells.reset) = (c.threshold, c.reset);
        cells.refractory = c.refractory;
        cells.receptors = c.receptors.len() as u32;
        cells.chain = c.chain() as u32;
        cells.early = u32::from(c.early);
        for (r, receptor) in c.receptors.iter().enumerate() {
            cells.decay[r] = receptor.decay;
            cells.gain[r] = group.gains[r];
            for (k, onto) in receptor.onto.iter().enumerate() {
                cells.onto[4 * r + k] = *onto;
            }
        }
        for (tail, of) in cells.tail.iter_mut().zip(&group.tails) {
            *tail = *of;
        }
    }
    cells
}
