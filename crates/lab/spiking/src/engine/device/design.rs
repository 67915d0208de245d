//! Which kernel runs a network, with how many blocks, and the memory it takes.

use betz_base::{Error, ErrorKind, Result};
use betz_device::cuda::{Context, Kernel};
use betz_kernels::spiking::{self, SpikingResident, SpikingSpread};

use super::super::Options;
use super::super::part::Group;
use super::learn::learning_bytes;
use super::stream::{Demand, LISTED_BYTES, TargetBlocks};
use crate::connect::Wiring;
use crate::plan::{Plan, available_bytes};
use crate::spec::Network;
use crate::streaming::{SYNAPSE_BYTES, StreamCost};

/// Neurons of a block, from which on another block pays for the messages it sends.
const NEURONS_A_BLOCK: u64 = 8;
/// Synapses of a neuron from which on messages between blocks are cheaper than rings in memory.
const LONG_ROWS: f64 = 48.0;
/// Neurons that a block of the spread design has by itself.
const ONE_BLOCK: u64 = (spiking::SPREAD_THREADS * spiking::SPREAD_EACH) as u64;
/// Neurons from which on threads have several.
const FEW_EACH: u64 = 100_000;
/// Synapses that a thread of the spread design takes one after another.
const TAKEN: f64 = 4.0;

/// Spikes that one launch has room to record.
pub(super) const ROOM: usize = 1 << 26;
/// Steps of one launch whose potentials are recorded.
pub(super) const TRACE_STEPS: u64 = 1 << 12;

/// Layout of a network on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Design {
    /// Rings in shared memory.
    Resident {
        /// Blocks; neuron i is of block i modulo their number.
        blocks: u32,
        /// Slots of a ring.
        slots: usize,
        /// Quads of one-step synapses a (source, block): known once synapses are counted.
        deep: u32,
        /// Bytes of a block's rings, and of its list of spikes.
        rings: usize,
        lists: usize,
    },
    /// Rings in the device's memory.
    Spread {
        /// Blocks: known once the kernel is loaded.
        blocks: u32,
        /// Slots of a ring, more than the longest delay.
        slots: usize,
        /// Threads that share a row.
        team: u32,
        /// Neurons that a thread looks at together.
        each: u32,
        /// Devices that share the neurons.
        parts: u32,
        /// Blocks of targets, some of which lie on the host; `None`: all synapses are on the devices.
        target_blocks: Option<TargetBlocks>,
        /// Synapses learn.
        learns: bool,
    },
}

/// Options that the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) receptors: usize,
    pub(super) chain: usize,
    past: bool,
    /// Neurons are integrated, or fire at random.
    models: bool,
    /// Numbers of a neuron besides its potential and silence.
    pub(super) state: usize,
}

impl Shape {
    pub(super) fn of(groups: &[Group]) -> Self {
        let constants = || groups.iter().filter_map(|g| g.constants.as_ref());
        let models = || groups.iter().filter_map(|g| g.model.as_ref());
        let linear = constants().map(|c| c.receptors.len());
        let receptors = linear.chain(models().map(|m| m.receptors.len()));
        let receptors = receptors.max().unwrap_or(1);
        let chain = constants().map(|c| c.chain()).max().unwrap_or(1).max(1);
        // Of a model: what its sum has lost, the other states, two traces per receptor.
        let integrated = models().map(|m| m.model.states.len() + 2 * receptors);
        Self {
            receptors,
            chain,
            past: groups.iter().any(|g| g.filter > 0),
            models: groups
                .iter()
                .any(|g| g.model.is_some() || g.random.is_some()),
            state: integrated.max().unwrap_or(0).max(receptors * chain),
        }
    }

    fn options(self, timed: bool) -> Vec<String> {
        vec![
            format!("-DRECEPTORS={}", self.receptors),
            format!("-DCHAIN={}", self.chain),
            format!("-DPAST={}", u8::from(self.past)),
            format!("-DPHASES={}", u8::from(timed)),
        ]
    }
}

impl Shape {
    /// Options for networks with models; none for others.
    fn model_options(self) -> Vec<String> {
        match self.models {
            true => vec![
                "-DMODELS=1".to_owned(),
                format!("-DSTATE={}", self.state),
                // Each operation is rounded as on the CPU.
                "-fmad=false".to_owned(),
            ],
            false => Vec::new(),
        }
    }
}

/// Synapses that do not learn.
fn static_synapses(network: &Network, plan: &Plan) -> f64 {
    let learns = network.projections.iter().map(|p| p.plasticity.is_some());
    let each = plan.each.iter().zip(learns);
    each.filter(|(_, learns)| !learns).map(|(s, _)| s).sum()
}

fn static_bytes(synapses: f64) -> u64 {
    synapses as u64 * SYNAPSE_BYTES
}

/// Static synapses that the host draws.
fn listed(network: &Network, plan: &Plan) -> Result<f64> {
    let mut listed = 0.0;
    for (p, projection) in network.projections.iter().enumerate() {
        if projection.plasticity.is_none() && Wiring::drawn(network, p, plan.weight_unit)?.is_none()
        {
            listed += plan.each[p];
        }
    }
    Ok(listed)
}

impl Design {
    /// The faster of the two that the network can have, on `parts` devices.
    pub(super) fn choose(
        context: &Context,
        parts: u32,
        network: &Network,
        plan: &Plan,
        groups: &[Group],
    ) -> Self {
        let degree = plan.synapses / plan.neurons as f64;
        let learning = !network.rules().is_empty();
        if parts == 1
            && !learning
            && degree >= LONG_ROWS
            && let Some(resident) = Self::resident(context, network, plan, groups)
        {
            return resident;
        }
        Self::spread_of(network, plan, groups, parts)
    }

    /// Rings in the memory of `parts` devices, as the network's neurons and synapses want it.
    fn spread_of(network: &Network, plan: &Plan, groups: &[Group], parts: u32) -> Self {
        let mut spread = Self::spread(plan, parts);
        if let Self::Spread { each, learns, .. } = &mut spread {
            *learns = !network.rules().is_empty();
            // A model's neuron fills the registers of its thread, and so does a synapse that learns.
            if Shape::of(groups).models || *learns {
                *each = 1;
            }
        }
        spread
    }

    /// Chooses a design with synapses in the host's memory, for a network that exceeds the device's.
    ///
    /// # Errors
    /// `DeviceMemory` if neither memory suffices.
    pub(super) fn streamed(
        context: &Context,
        network: &Network,
        groups: &[Group],
        plan: &mut Plan,
        options: &Options,
    ) -> Result<Self> {
        let mut spread = Self::spread_of(network, plan, groups, 1);
        spread.size(network, groups, plan, options)?;
        let available = context.available_memory()?;
        if plan.bytes() <= available {
            return Ok(spread);
        }
        let listed = listed(network, plan)?;
        // Of the synapses that the host draws, it has a table of targets, and the rows of a block; there are two blocks at least.
        let drawn_bytes = 4 * listed as u64 + LISTED_BYTES * (listed / 2.0) as u64;
        let demand = Demand {
            neurons: plan.neurons,
            synapses: static_synapses(network, plan),
            listed,
            device_bytes: plan.bytes()
                - static_bytes(static_synapses(network, plan))
                - LISTED_BYTES * listed as u64
                - 4 * plan.neurons,
            host_bytes: options.record_spikes.min(ROOM) as u64 * 8 + (64 << 20) + drawn_bytes,
        };
        let host = options.memory_limit.or_else(available_bytes);
        let chosen = TargetBlocks::choose(&demand, available, host.unwrap_or(u64::MAX))?;
        if let Self::Spread {
            target_blocks,
            team,
            ..
        } = &mut spread
        {
            *target_blocks = Some(chosen);
            // A team takes the row of one block.
            *team = (*team / chosen.all.next_power_of_two()).max(1);
        }
        Ok(spread)
    }

    /// Rings in shared memory, where they fit.
    pub(super) fn resident(
        context: &Context,
        network: &Network,
        plan: &Plan,
        groups: &[Group],
    ) -> Option<Self> {
        let shape = Shape::of(groups);
        if shape.models {
            return None;
        }
        let slots = plan.longest_delay.next_power_of_two() as usize;
        let most = context.info().multiprocessors.min(spiking::RESIDENT_BLOCKS);
        let blocks = plan.neurons.div_ceil(NEURONS_A_BLOCK);
        let blocks = (blocks.min(u64::from(most)) as u32).max(1);
        let per_block = plan.neurons.div_ceil(u64::from(blocks));
        let places = per_block * shape.receptors as u64;
        let rings = slots * places as usize * 4;
        let left = context
            .shared_bytes()
            .saturating_sub(rings + spiking::RESIDENT_SHARED);
        // All neurons may fire in a step, and hardly do.
        let lists = 8
            * (plan.neurons as usize)
                .max(spiking::RESIDENT_LIST)
                .min(left / 8);
        let fits = per_block <= u64::from(spiking::RESIDENT_THREADS)
            && places <= u64::from(spiking::RESIDENT_PLACES)
            && plan.longest_delay <= spiking::RESIDENT_DELAY
            && network.populations.len() <= spiking::RESIDENT_POPULATIONS
            && left >= 8 * spiking::RESIDENT_LIST;
        fits.then_some(Self::Resident {
            blocks,
            slots,
            deep: 0,
            rings,
            lists,
        })
    }

    /// Rings in the memory of `parts` devices.
    pub(super) fn spread(plan: &Plan, parts: u32) -> Self {
        let own = plan.neurons.div_ceil(u64::from(parts));
        // Synapses of a row with targets on one device.
        let degree = plan.synapses / plan.neurons as f64 / f64::from(parts);
        let team = (degree / TAKEN).max(1.0).log2().floor().exp2() as u32;
        Self::Spread {
            blocks: 0,
            slots: (plan.longest_delay + 1).next_power_of_two() as usize,
            team: team.clamp(1, spiking::SPREAD_THREADS),
            each: match own {
                // One block has no others to wait for.
                0..=ONE_BLOCK | FEW_EACH.. => spiking::SPREAD_EACH,
                _ => 1,
            },
            parts,
            target_blocks: None,
            learns: false,
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Resident { .. } => "resident",
            Self::Spread {
                target_blocks: Some(_),
                ..
            } => "streamed",
            Self::Spread { .. } => "spread",
        }
    }

    /// Blocks of targets that rows are divided into; 0: none.
    pub(super) fn row_blocks(&self) -> u32 {
        match *self {
            Self::Resident { blocks, .. } => blocks,
            Self::Spread { .. } => 0,
        }
    }

    /// Numbers in the rings of `neurons`.
    pub(super) fn ring_values(&self, neurons: usize, receptors: usize) -> usize {
        match *self {
            Self::Resident { blocks, rings, .. } => blocks as usize * rings / 4,
            Self::Spread { slots, .. } => slots * receptors * neurons,
        }
    }

    /// Words of messages, with room for ids that do not fit into a word.
    pub(super) fn mail_words(&self, neurons: usize) -> usize {
        match *self {
            Self::Resident { blocks, .. } => {
                let per_block = neurons.div_ceil(blocks as usize);
                spiking::MAIL + (2 * blocks as usize * per_block).div_ceil(4)
            }
            Self::Spread { .. } => 1,
        }
    }

    /// Says in `plan` what the network takes on the device, and refuses what it has no room for.
    pub(super) fn fit(
        &self,
        context: &Context,
        network: &Network,
        groups: &[Group],
        plan: &mut Plan,
        options: &Options,
    ) -> Result<()> {
        self.size(network, groups, plan, options)?;
        let available = context.available_memory()?;
        if plan.bytes() > available {
            return Err(Error::new(
                ErrorKind::DeviceMemory,
                format!(
                    "cuda:{}: expected a network of at most {available} bytes, got {plan}",
                    context.number()
                ),
            ));
        }
        Ok(())
    }

    /// Says in `plan` what the network takes on the device.
    pub(super) fn size(
        &self,
        network: &Network,
        groups: &[Group],
        plan: &mut Plan,
        options: &Options,
    ) -> Result<()> {
        let neurons = plan.neurons;
        let shape = Shape::of(groups);
        // V, current, chains; silence, counts, marks.
        let state = 4 * (2 + shape.state + 3) as u64;
        let past = groups.iter().map(|g| g.filter).max().unwrap_or(0);
        // Synapses that the host draws lie on the device until they are placed.
        let listed = listed(network, plan)?;
        let cells = neurons * u64::from(self.row_blocks().max(1));
        let traces = options.record_potentials.len() as u64;
        let learning = learning_bytes(network, plan);
        let synapses = static_synapses(network, plan);
        plan.threads = 1;
        plan.ring_bytes =
            4 * self.ring_values(neurons as usize, plan.receptors) as u64 + 4 * past * neurons;
        plan.state_bytes = state * neurons + 4 * ROOM as u64 + traces * 4 * TRACE_STEPS;
        plan.building_bytes = cells * 4 + neurons * 16 + LISTED_BYTES * listed as u64;
        plan.streaming = None;
        plan.synapse_bytes = learning
            + match self {
                // Offsets, a quad of each (source, block), and the others.
                Self::Resident { .. } => cells * 20 + synapses as u64 * 4,
                Self::Spread {
                    target_blocks: Some(blocks),
                    ..
                } => {
                    let demand = Demand {
                        neurons,
                        synapses,
                        listed,
                        device_bytes: 0,
                        host_bytes: 0,
                    };
                    plan.building_bytes = neurons * 16;
                    let (device, host) = demand.bytes(*blocks);
                    plan.streaming = Some(StreamCost::new(
                        (blocks.all, blocks.near),
                        host,
                        synapses,
                        network.step_ms,
                    ));
                    device
                }
                Self::Spread { parts, .. } => {
                    cells * 4 + static_bytes(synapses) / u64::from(*parts)
                }
            };
        Ok(())
    }

    /// The kernel; sets how many blocks there are where that depends on it.
    pub(super) fn load(
        &mut self,
        context: &Context,
        groups: &[Group],
        options: &Options,
    ) -> Result<Kernel> {
        let mut compiled = Shape::of(groups).options(options.time_phases);
        match self {
            Self::Resident { rings, lists, .. } => {
                context.load::<SpikingResident<'_>>(&compiled, *rings + *lists)
            }
            Self::Spread {
                blocks,
                each,
                parts,
                target_blocks,
                learns,
                ..
            } => {
                compiled.push(format!("-DEACH={each}"));
                compiled.push(format!("-DSEVERAL={}", u8::from(*parts > 1)));
                compiled.extend(Shape::of(groups).model_options());
                if *learns {
                    compiled.push("-DLEARNS=1".to_owned());
                    let exact = "-fmad=false".to_owned();
                    if !compiled.contains(&exact) {
                        compiled.push(exact);
                    }
                }
                if target_blocks.is_some() {
                    compiled.push("-DSTREAMED=1".to_owned());
                }
                let kernel = context.load::<SpikingSpread<'_>>(&compiled, 0)?;
                *blocks = kernel.resident_blocks(spiking::SPREAD_THREADS)?.max(1);
                Ok(kernel)
            }
        }
    }
}
