//! Synapses on a device: counted, laid out, placed.

use betz_base::{Error, ErrorKind, Result, progress};
use betz_device::cuda::{Buffer, Context, PinnedBuffer};
use betz_kernels::spiking::{
    self, SpikingCount, SpikingCountListed, SpikingDegrees, SpikingPlace, SpikingPlaceListed,
    SpikingRowLengths,
};
use betz_kernels::{Blocks, Wires};
use rayon::prelude::*;

use super::super::build::{BuildReport, check_sum};
use super::super::part::Group;
use super::design::Design;
use super::job::{Job, Part};
use super::learn::{LearningSums, learning_bytes};
use super::stream::TargetBlocks;
use crate::connect::Wiring;
use crate::plan::Plan;
use crate::random::Normal;
use crate::spec::Network;

/// Sources whose rows one task makes on the host.
const SOURCES: u32 = 256;

/// Name of the work in progress reports.
const STAGE: &str = "building synapses";

/// A network's synapses on a device.
#[derive(Debug)]
pub(super) struct DeviceSynapses {
    /// Beginnings of the rows, by source and block.
    pub(super) offsets: Buffer<u32>,
    /// Quads and rows, or pairs of words.
    pub(super) words: Buffer<u32>,
    /// Addresses of the beginnings and the words of each block of targets.
    pub(super) streams: Buffer<u64>,
    /// Memory behind these addresses.
    _blocks: Vec<TargetBlock>,
    pub(super) built: BuildReport,
    /// Synapses of each neuron, with targets on this device.
    pub(super) degrees: Vec<u32>,
}

/// Synapses onto a part of the neurons.
#[derive(Debug)]
struct PartSynapses {
    offsets: Buffer<u32>,
    words: Buffer<u32>,
    built: BuildReport,
    degrees: Vec<u32>,
}

/// A block of targets.
#[derive(Debug)]
struct TargetBlock {
    _offsets: Buffer<u32>,
    _words: BlockWords,
}

/// Memory of a block's synapses.
#[derive(Debug)]
enum BlockWords {
    Near { _words: Buffer<u32> },
    Far { _words: PinnedBuffer<u32> },
}

/// A projection as the device gets it.
enum DeviceProjection {
    Drawn {
        wires: Buffer<Wires>,
        degrees: Buffer<u32>,
        sources: u32,
    },
    Listed {
        ends: Buffer<u32>,
        strengths: Buffer<u32>,
        many: u64,
    },
}

/// Tables of where the rows of synapses lie; both passes over the synapses write them.
struct RowTables {
    blocks: i32,
    neurons: i32,
    part: Part,
    /// Targets keep their numbers in the network.
    whole: bool,
    offsets: Buffer<u32>,
    quads: Buffer<u32>,
}

impl RowTables {
    /// Counts the synapses of each row, the sums of each neuron's input, and what `found` lists.
    fn count(
        &mut self,
        context: &Context,
        job: &Job<'_>,
        projections: &[DeviceProjection],
        table: &Buffer<f32>,
        sums: &mut Buffer<u64>,
        found: &mut Buffer<u64>,
    ) -> Result<()> {
        let count = context.load::<SpikingCount<'_>>(&[], 0)?;
        let count_listed = context.load::<SpikingCountListed<'_>>(&[], 0)?;
        for (p, projection) in projections.iter().enumerate() {
            job.listener.update(STAGE, p as u64, passes(job.network));
            match projection {
                DeviceProjection::Drawn {
                    wires,
                    degrees,
                    sources,
                } => count.launch(
                    grid(context, u64::from(*sources) * 32),
                    spiking::WIRE_THREADS,
                    SpikingCount {
                        wires: wires.read(),
                        normal: table.read(),
                        seed: job.network.seed,
                        degrees: degrees.read(),
                        blocks: self.blocks,
                        neurons: self.neurons,
                        parts: self.part.of,
                        part: self.part.number,
                        offsets: self.offsets.update(),
                        quads: self.quads.update(),
                        sums: sums.update(),
                        found: found.update(),
                    },
                )?,
                DeviceProjection::Listed {
                    ends,
                    strengths,
                    many,
                } => count_listed.launch(
                    grid(context, *many),
                    spiking::WIRE_THREADS,
                    SpikingCountListed {
                        ends: ends.read(),
                        strengths: strengths.read(),
                        many: *many,
                        blocks: self.blocks,
                        neurons: self.neurons,
                        parts: self.part.of,
                        part: self.part.number,
                        offsets: self.offsets.update(),
                        quads: self.quads.update(),
                        sums: sums.update(),
                        found: found.update(),
                    },
                )?,
            }
        }
        Ok(())
    }

    /// Places the synapses in `words`, where each source has `deep` quads per block.
    fn place(
        &mut self,
        context: &Context,
        job: &Job<'_>,
        projections: &[DeviceProjection],
        table: &Buffer<f32>,
        (deep, words): (u32, &mut Buffer<u32>),
    ) -> Result<()> {
        let place = context.load::<SpikingPlace<'_>>(&[], 0)?;
        let place_listed = context.load::<SpikingPlaceListed<'_>>(&[], 0)?;
        for (p, projection) in projections.iter().enumerate() {
            progress::check(job.listener, STAGE)?;
            job.listener
                .update(STAGE, (projections.len() + p) as u64, passes(job.network));
            match projection {
                DeviceProjection::Drawn {
                    wires,
                    degrees,
                    sources,
                } => place.launch(
                    grid(context, u64::from(*sources) * 32),
                    spiking::WIRE_THREADS,
                    SpikingPlace {
                        wires: wires.read(),
                        normal: table.read(),
                        seed: job.network.seed,
                        degrees: degrees.read(),
                        blocks: self.blocks,
                        neurons: self.neurons,
                        parts: self.part.of,
                        part: self.part.number,
                        offsets: self.offsets.update(),
                        quads: self.quads.update(),
                        deep: deep as i32,
                        whole: u32::from(self.whole),
                        words: words.update(),
                    },
                )?,
                DeviceProjection::Listed {
                    ends,
                    strengths,
                    many,
                } => place_listed.launch(
                    grid(context, *many),
                    spiking::WIRE_THREADS,
                    SpikingPlaceListed {
                        ends: ends.read(),
                        strengths: strengths.read(),
                        many: *many,
                        blocks: self.blocks,
                        neurons: self.neurons,
                        parts: self.part.of,
                        part: self.part.number,
                        offsets: self.offsets.update(),
                        quads: self.quads.update(),
                        deep: deep as i32,
                        whole: u32::from(self.whole),
                        words: words.update(),
                    },
                )?,
            }
        }
        Ok(())
    }
}

/// Steps of progress: each projection is counted and placed.
fn passes(network: &Network) -> u64 {
    2 * network.projections.len() as u64
}

impl DeviceSynapses {
    /// Makes the synapses onto a device's neurons; facts about those that learn come from `learning`.
    pub(super) fn make(
        context: &Context,
        job: Job<'_>,
        plan: &mut Plan,
        design: &mut Design,
        part: Part,
        learning: &LearningSums,
    ) -> Result<Self> {
        let bytes = learning_bytes(job.network, plan);
        let mut made = match *design {
            Design::Spread {
                target_blocks: Some(blocks),
                ..
            } => Self::in_blocks(context, job, plan, design, blocks, learning)?,
            _ => {
                let one = PartSynapses::make(context, job, plan, design, part, learning, false)?;
                Self {
                    offsets: one.offsets,
                    words: one.words,
                    streams: context.zeros(1)?,
                    _blocks: Vec::new(),
                    built: one.built,
                    degrees: one.degrees,
                }
            }
        };
        plan.synapse_bytes += bytes;
        made.built.synapses += learning.synapses;
        made.built.hash = made.built.hash.wrapping_add(learning.hash);
        for (degree, learns) in made.degrees.iter_mut().zip(&learning.degrees) {
            *degree += learns;
        }
        Ok(made)
    }

    /// Makes the synapses block by block of targets, and takes those to the host that have no room here. Those go first: one
    /// block has room beside nothing else.
    fn in_blocks(
        context: &Context,
        job: Job<'_>,
        plan: &mut Plan,
        design: &mut Design,
        blocks: TargetBlocks,
        learning: &LearningSums,
    ) -> Result<Self> {
        let mut built = BuildReport::default();
        let mut degrees = vec![0; plan.neurons as usize];
        let mut bytes = 0;
        let (mut made, mut addresses) = (Vec::new(), vec![0; 2 * blocks.all as usize]);
        for number in (0..blocks.all).rev() {
            let of = blocks.all;
            let part = Part { number, of };
            let one = PartSynapses::make(context, job, plan, design, part, learning, true)?;
            built.synapses += one.built.synapses;
            built.hash = built.hash.wrapping_add(one.built.hash);
            built.largest_sum = built.largest_sum.max(one.built.largest_sum);
            for (degree, own) in degrees.iter_mut().zip(&one.degrees) {
                *degree += own;
            }
            let place = 2 * number as usize;
            addresses[place] = context.address_here(&one.offsets);
            bytes += 4 * one.offsets.len() as u64;
            let words = if number < blocks.near {
                bytes += 4 * one.words.len() as u64;
                addresses[place + 1] = context.address_here(&one.words);
                BlockWords::Near { _words: one.words }
            } else {
                let len = 2 * one.built.synapses as usize;
                let mut words = context.pinned(len)?;
                context.download_pinned(&one.words, len, &mut words)?;
                addresses[place + 1] = words.address()?;
                BlockWords::Far { _words: words }
            };
            made.push(TargetBlock {
                _offsets: one.offsets,
                _words: words,
            });
        }
        plan.synapse_bytes = bytes;
        Ok(Self {
            offsets: context.zeros(1)?,
            words: context.zeros(1)?,
            streams: context.upload(&addresses)?,
            _blocks: made,
            built,
            degrees,
        })
    }
}

impl PartSynapses {
    /// Makes the synapses onto a part of the neurons, whose targets keep their numbers in the network if `whole`.
    fn make(
        context: &Context,
        job: Job<'_>,
        plan: &mut Plan,
        design: &mut Design,
        part: Part,
        learning: &LearningSums,
        whole: bool,
    ) -> Result<Self> {
        let (network, normal, listener) = (job.network, job.normal, job.listener);
        let blocks = design.row_blocks();
        let neurons = plan.neurons as usize;
        let cells = neurons * blocks.max(1) as usize;
        let table = context.upload(normal.edges())?;
        let mut projections = Vec::new();
        for p in 0..network.projections.len() {
            progress::check(listener, STAGE)?;
            if network.projections[p].plasticity.is_none() {
                let unit = plan.weight_unit;
                projections.push(make_projection(context, network, p, unit, normal, part)?);
            }
        }
        let mut tables = RowTables {
            blocks: blocks as i32,
            neurons: neurons as i32,
            part,
            whole,
            offsets: context.zeros(cells + 1)?,
            quads: context.zeros(if blocks > 0 { cells } else { 1 })?,
        };
        let mut sums: Buffer<u64> = context.zeros(plan.receptors * neurons)?;
        let mut found: Buffer<u64> = context.zeros(spiking::FOUND)?;
        tables.count(context, &job, &projections, &table, &mut sums, &mut found)?;
        let found = context.download(&found, spiking::FOUND)?;
        let synapses = found[spiking::SYNAPSES];
        if u32::try_from(synapses).is_err() {
            return Err(Error::argument(format!(
                "expected at most {} synapses on a device, got {synapses}",
                u32::MAX
            )));
        }
        let mut own_sums = context.download(&sums, sums.len())?;
        for (i, learns) in learning.sums.iter().enumerate() {
            if part.own(i % neurons).is_some() {
                own_sums[i] += learns;
            }
        }
        let largest_sum = largest_sum(&own_sums, network, job.groups)?;
        check_sum(largest_sum)?;
        drop(sums);
        context.exclusive_sums(&mut tables.offsets, cells + 1)?;
        let mut deep = 0;
        if let Design::Resident { deep: own, .. } = design {
            deep = found[spiking::DEEPEST].div_ceil(4) as u32;
            *own = deep;
        }
        let mut words = alloc_words(context, plan, (blocks, cells, deep), synapses)?;
        context.clear(&mut tables.quads)?;
        tables.place(context, &job, &projections, &table, (deep, &mut words))?;
        let passes = passes(network);
        listener.update(STAGE, passes, passes);
        let mut degrees: Buffer<u32> = context.alloc(neurons)?;
        context.load::<SpikingRowLengths<'_>>(&[], 0)?.launch(
            grid(context, neurons as u64),
            spiking::WIRE_THREADS,
            SpikingRowLengths {
                blocks: tables.blocks,
                neurons: tables.neurons,
                offsets: tables.offsets.read(),
                quads: tables.quads.read(),
                degrees: degrees.write(),
            },
        )?;
        Ok(Self {
            degrees: context.download(&degrees, neurons)?,
            offsets: tables.offsets,
            words,
            built: BuildReport {
                synapses,
                hash: found[spiking::WIRE_HASH],
                largest_sum,
            },
        })
    }
}

/// Room for the words of all synapses, where each (source, block) cell has `deep` quads; lists if there is no block.
fn alloc_words(
    context: &Context,
    plan: &mut Plan,
    (blocks, cells, deep): (u32, usize, u32),
    synapses: u64,
) -> Result<Buffer<u32>> {
    let words = match blocks {
        0 => 2 * synapses as usize,
        // Rows hold those of more than one step; how many is known within a transfer of all offsets.
        _ => cells * deep as usize * 4 + synapses as usize,
    };
    plan.synapse_bytes = 4 * (words + cells + 1) as u64;
    let room = context.available_memory()?;
    if 4 * words as u64 > room {
        return Err(Error::new(
            ErrorKind::DeviceMemory,
            format!(
                "cuda:{}: expected synapses of at most {room} bytes, got {plan}",
                context.number()
            ),
        ));
    }
    match deep {
        0 => context.alloc(words.max(1)),
        // Quads end with an empty place.
        _ => context.zeros(words.max(1)),
    }
}

/// Blocks for `threads` threads, as many as are worth starting.
fn grid(context: &Context, threads: u64) -> Blocks {
    let most = u64::from(context.info().multiprocessors.max(1)) * 16;
    let blocks = threads.div_ceil(u64::from(spiking::WIRE_THREADS));
    (blocks.clamp(1, most) as u32, 1, 1)
}

fn make_projection(
    context: &Context,
    network: &Network,
    index: usize,
    unit: f64,
    normal: &Normal,
    part: Part,
) -> Result<DeviceProjection> {
    let Some((wires, total)) = Wiring::drawn(network, index, unit)? else {
        let wiring = Wiring::new(network, index, unit)?;
        return make_rows(context, &wiring, normal, part);
    };
    let mut degrees: Buffer<u32> = context.zeros(wires.sources.max(1) as usize)?;
    if let Some(total) = total {
        context.load::<SpikingDegrees<'_>>(&[], 0)?.launch(
            grid(context, total.div_ceil(4)),
            spiking::WIRE_THREADS,
            SpikingDegrees {
                seed: network.seed,
                index: wires.index,
                sources: wires.sources,
                total,
                degrees: degrees.update(),
            },
        )?;
    }
    Ok(DeviceProjection::Drawn {
        wires: context.upload(&[wires])?,
        degrees,
        sources: wires.sources,
    })
}

/// Rows made on the host: what is onto the part's neurons.
fn make_rows(
    context: &Context,
    wiring: &Wiring,
    normal: &Normal,
    part: Part,
) -> Result<DeviceProjection> {
    let starts: Vec<u32> = (0..wiring.sources).step_by(SOURCES as usize).collect();
    let batches: Vec<(Vec<u32>, Vec<u32>)> = (starts.into_par_iter())
        .map(|start| {
            let (mut row, mut ends, mut strengths) = (Vec::new(), Vec::new(), Vec::new());
            for source in start..start.saturating_add(SOURCES).min(wiring.sources) {
                row.clear();
                wiring.row(source, normal, &mut row);
                for edge in row.iter().filter(|e| part.own(e.target as usize).is_some()) {
                    ends.extend([wiring.source_first + source, edge.target]);
                    strengths.push(
                        u32::from(edge.receptor) << 24
                            | u32::from(edge.delay) << 16
                            | u32::from(edge.weight as u16),
                    );
                }
            }
            (ends, strengths)
        })
        .collect();
    let many: usize = batches.iter().map(|(_, strengths)| strengths.len()).sum();
    let mut ends: Buffer<u32> = context.alloc((2 * many).max(1))?;
    let mut strengths: Buffer<u32> = context.alloc(many.max(1))?;
    let mut at = 0;
    for (own_ends, own_strengths) in &batches {
        context.upload_into(own_ends, &mut ends, 2 * at)?;
        context.upload_into(own_strengths, &mut strengths, at)?;
        at += own_strengths.len();
    }
    Ok(DeviceProjection::Listed {
        ends,
        strengths,
        many: many as u64,
    })
}

/// The largest sum of what one neuron can be sent in one step, in units.
fn largest_sum(sums: &[u64], network: &Network, groups: &[Group]) -> Result<u64> {
    let neurons = network.neurons() as usize;
    let firsts = network.firsts();
    let mut largest = sums.iter().copied().max().unwrap_or(0);
    for (p, group) in groups.iter().enumerate() {
        if let Some(poisson) = &group.poisson {
            let most = poisson.thresholds.len() as u64 * u64::from(poisson.weight.unsigned_abs());
            let own = poisson.receptor * neurons;
            let own = &sums[own + firsts[p] as usize..own + firsts[p + 1] as usize];
            largest = largest.max(own.iter().copied().max().unwrap_or(0) + most);
        }
    }
    Ok(largest)
}
