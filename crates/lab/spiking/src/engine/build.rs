//! Synapses into the parts: rows are made in parallel, each once, and appended in the sources' order.

use betz_base::{Error, Progress, Result, progress};
use rayon::prelude::*;

use super::learn::Synapse;
use super::part::{Matrix, Part};
use crate::connect::{Edge, Wiring, synapse_hash, zeros};
use crate::plan::{CHUNK, LANE_BITS, Layout, Plan};
use crate::random::Normal;
use crate::spec::{Network, Rule};

/// Sources whose rows are made at a time by one task.
const SOURCES: usize = 128;

/// The parts that are built, among those of all ranks.
pub(super) struct Place<'a> {
    pub(super) plan: &'a Plan,
    pub(super) layout: &'a Layout,
    /// Number of the first part.
    pub(super) first: usize,
}

/// Facts about the build, besides the parts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BuildReport {
    /// Synapses of the whole network, and their hash.
    pub(crate) synapses: u64,
    pub(super) hash: u64,
    /// Largest sum of a target's weights, in units.
    pub(super) largest_sum: u64,
}

/// Rows of some sources, for each part.
#[derive(Debug, Default)]
struct Batch {
    parts: Vec<Rows>,
    synapses: u64,
    hash: u64,
}

#[derive(Debug, Default)]
struct Rows {
    lengths: Vec<u32>,
    keys: Vec<u32>,
    weights: Vec<i16>,
    /// (matrix, place, weight).
    dense: Vec<(u32, usize, i16)>,
    /// Synapses of each source that learn.
    learning: Vec<Vec<Synapse>>,
}

/// Fills the parts' rows and matrices.
pub(super) fn synapses(
    network: &Network,
    place: &Place<'_>,
    parts: &mut [Part],
    normal: &Normal,
    listener: &dyn Progress,
) -> Result<BuildReport> {
    let (plan, layout) = (place.plan, place.layout);
    let wirings = (0..network.projections.len())
        .into_par_iter()
        .map(|i| Wiring::new(network, i, plan.weight_unit))
        .collect::<Result<Vec<_>>>()?;
    let mut rules = 0..;
    let maker = Maker {
        layout,
        first: place.first,
        lanes: parts.iter().map(|part| part.chunks * CHUNK).collect(),
        learns: network.projections.iter().any(|p| p.plasticity.is_some()),
        rules: (network.projections.iter())
            .map(|p| p.plasticity.and_then(|_| rules.next()))
            .collect(),
        unit: plan.weight_unit as f32,
        wirings: &wirings,
        // Matrices of each part stand in the order of their projections.
        matrix: matrices(network, place, &wirings, parts)?,
        targets: (network.projections.iter())
            .map(|p| network.population(&p.target))
            .collect::<Result<_>>()?,
        normal,
    };
    reserve(network, plan, &wirings, &maker.matrix, parts)?;
    let neurons = network.neurons() as usize;
    let stage = "building synapses";
    let mut built = BuildReport::default();
    let at_once = SOURCES * 4 * rayon::current_num_threads().max(1);
    for begin in (0..neurons).step_by(at_once) {
        progress::check(listener, stage)?;
        listener.update(stage, begin as u64, neurons as u64);
        let end = (begin + at_once).min(neurons);
        let starts: Vec<usize> = (begin..end).step_by(SOURCES).collect();
        let batches: Vec<Batch> = (starts.into_par_iter())
            .map(|start| maker.batch(start..(start + SOURCES).min(end)))
            .collect();
        for batch in batches {
            built.synapses += batch.synapses;
            built.hash = built.hash.wrapping_add(batch.hash);
            for (part, rows) in parts.iter_mut().zip(batch.parts) {
                append(part, rows)?;
            }
        }
    }
    listener.update(stage, neurons as u64, neurons as u64);
    parts.iter_mut().for_each(|part| part.learning.index());
    built.largest_sum = largest_sum(parts)?;
    Ok(built)
}

struct Maker<'a> {
    layout: &'a Layout,
    /// Number of the first part.
    first: usize,
    wirings: &'a [Wiring],
    /// Number of each projection's matrix, if it has one.
    matrix: Vec<Option<u32>>,
    /// Target population of each projection.
    targets: Vec<usize>,
    /// Number of each projection among those that learn.
    rules: Vec<Option<u16>>,
    learns: bool,
    /// Lanes of each part.
    lanes: Vec<usize>,
    unit: f32,
    normal: &'a Normal,
}

impl Maker<'_> {
    fn batch(&self, sources: std::ops::Range<usize>) -> Batch {
        let threads = self.lanes.len();
        let mut batch = Batch::default();
        batch.parts.resize_with(threads, Rows::default);
        let mut edges: Vec<Edge> = Vec::new();
        let mut rows: Vec<Vec<u64>> = vec![Vec::new(); threads];
        let mut learning: Vec<Vec<Synapse>> = vec![Vec::new(); threads];
        for source in sources {
            for (p, wiring) in self.wirings.iter().enumerate() {
                let Some(own) = (source as u32).checked_sub(wiring.source_first) else {
                    continue;
                };
                if own >= wiring.sources {
                    continue;
                }
                edges.clear();
                wiring.row(own, self.normal, &mut edges);
                batch.synapses += edges.len() as u64;
                for edge in &edges {
                    let hash = synapse_hash(source as u32, edge);
                    batch.hash = batch.hash.wrapping_add(hash);
                    let target = (edge.target - wiring.target_first) as usize;
                    let (owner, lane) = self.layout.place(self.targets[p], target);
                    // Other ranks have the synapses onto their neurons.
                    let Some(part) = owner.checked_sub(self.first).filter(|p| *p < threads) else {
                        continue;
                    };
                    match self.matrix[p] {
                        Some(matrix) => {
                            let first = self.layout.chunks(owner, self.targets[p]);
                            let place =
                                own as usize * first.len() * CHUNK + (lane - first.start * CHUNK);
                            batch.parts[part].dense.push((matrix, place, edge.weight));
                        }
                        None => {
                            // Receptors follow one another in a slot, each as long as the part.
                            let place = usize::from(edge.receptor) * self.lanes[part] + lane;
                            match self.rules[p] {
                                Some(rule) => learning[part].push(Synapse {
                                    place: place as u32,
                                    rule,
                                    delay: edge.delay,
                                    weight: f32::from(edge.weight) * self.unit,
                                    fast: 0.0,
                                    slow: 0.0,
                                    eligibility: 0.0,
                                    seen: 0,
                                }),
                                None => {
                                    let key = u64::from(edge.delay) << LANE_BITS | place as u64;
                                    rows[part].push(key << 16 | u64::from(edge.weight as u16));
                                }
                            }
                        }
                    }
                }
            }
            for (part, row) in batch.parts.iter_mut().zip(&mut rows) {
                // By delay, then by target: what lies together is written together.
                row.sort_unstable();
                part.lengths.push(row.len() as u32);
                part.weights.extend(row.iter().map(|r| *r as u16 as i16));
                part.keys.extend(row.iter().map(|r| (r >> 16) as u32));
                row.clear();
            }
            if self.learns {
                for (part, row) in batch.parts.iter_mut().zip(&mut learning) {
                    part.learning.push(std::mem::take(row));
                }
            }
        }
        batch
    }
}

/// Makes room for the matrices; gives each projection's number among them.
fn matrices(
    network: &Network,
    place: &Place<'_>,
    wirings: &[Wiring],
    parts: &mut [Part],
) -> Result<Vec<Option<u32>>> {
    let mut numbers = vec![None; wirings.len()];
    let mut next = 0;
    for (p, wiring) in wirings.iter().enumerate() {
        let (Some(delay), Some(receptor), true, true) = (
            wiring.constant_delay(),
            wiring.constant_receptor(),
            wiring.pairs_once(),
            place.plan.dense[p],
        ) else {
            continue;
        };
        let target = network.population(&network.projections[p].target)?;
        for (thread, part) in parts.iter_mut().enumerate() {
            let chunks = place.layout.chunks(place.first + thread, target);
            part.matrices.push(Matrix {
                source_first: wiring.source_first,
                sources: wiring.sources,
                delay: usize::from(delay),
                chunk_first: usize::from(receptor) * part.chunks + chunks.start,
                chunks: chunks.len(),
                weights: zeros(
                    "a matrix of weights",
                    wiring.sources as usize * chunks.len() * CHUNK,
                )?,
            });
        }
        numbers[p] = Some(next);
        next += 1;
    }
    Ok(numbers)
}

/// Makes room for the rows: what is expected and five standard deviations more.
fn reserve(
    network: &Network,
    plan: &Plan,
    wirings: &[Wiring],
    matrix: &[Option<u32>],
    parts: &mut [Part],
) -> Result<()> {
    // Static synapses, and those that learn.
    let mut expected = [0.0; 2];
    for (p, wiring) in wirings.iter().enumerate() {
        if matrix[p].is_none() {
            let probability = match network.projections[p].rule {
                Rule::Pairwise { probability } => probability,
                _ => 0.0,
            };
            let degrees = (0..wiring.sources).map(|s| wiring.expected_degree(s, probability));
            let learns = usize::from(network.projections[p].plasticity.is_some());
            expected[learns] += degrees.sum::<f64>();
        }
    }
    for part in parts {
        let share = part.chunks as f64 / plan.chunks as f64;
        let [room, learning] = expected.map(|expected| {
            let share = expected * share * 1.02 + 5.0 * (expected * share).sqrt() + 64.0;
            share.min(expected + 64.0) as usize
        });
        if expected[1] > 0.0 {
            part.learning.reserve(learning)?;
        }
        let no_memory = |_| Error::no_memory("synapses", room.saturating_mul(6));
        part.keys.try_reserve_exact(room).map_err(no_memory)?;
        part.weights.try_reserve_exact(room).map_err(no_memory)?;
        let offsets = network.neurons() as usize + 1;
        (part.offsets.try_reserve_exact(offsets))
            .map_err(|_| Error::no_memory("offsets of rows", offsets * 4))?;
        part.offsets.push(0);
    }
    Ok(())
}

fn append(part: &mut Part, rows: Rows) -> Result<()> {
    let total = part.keys.len() + rows.keys.len();
    if u32::try_from(total).is_err() {
        return Err(Error::argument(format!(
            "expected at most {} synapses per thread, got more: use more threads",
            u32::MAX
        )));
    }
    (part.keys.try_reserve(rows.keys.len()))
        .and_then(|()| part.weights.try_reserve(rows.weights.len()))
        .map_err(|_| Error::no_memory("synapses", total.saturating_mul(6)))?;
    let mut next = part.keys.len() as u32;
    for length in rows.lengths {
        next += length;
        part.offsets.push(next);
    }
    part.keys.extend(rows.keys);
    part.weights.extend(rows.weights);
    for (matrix, place, weight) in rows.dense {
        part.matrices[matrix as usize].weights[place] += weight;
    }
    for mut row in rows.learning {
        part.learning.push_row(&mut row);
    }
    Ok(())
}

/// Largest sum of what one target can be sent in one step, in units.
///
/// # Errors
/// `InvalidArgument` when the fixed point could overflow.
fn largest_sum(parts: &[Part]) -> Result<u64> {
    let sums = parts.par_iter().map(|part| {
        let mut sums: Vec<u64> = zeros("sums of weights", part.receptors * part.chunks * CHUNK)?;
        for (key, weight) in part.keys.iter().zip(&part.weights) {
            let lane = (key & ((1 << LANE_BITS) - 1)) as usize;
            sums[lane] += u64::from(weight.unsigned_abs());
        }
        part.learning.add_largest(&mut sums);
        for matrix in &part.matrices {
            let first = matrix.chunk_first * CHUNK;
            let width = (matrix.chunks * CHUNK).max(1);
            for row in matrix.weights.chunks_exact(width) {
                for (sum, weight) in sums[first..].iter_mut().zip(row) {
                    *sum += u64::from(weight.unsigned_abs());
                }
            }
        }
        for group in &part.groups {
            if let Some(poisson) = &group.poisson {
                let most = poisson.thresholds.len() as u64;
                let most = most * u64::from(poisson.weight.unsigned_abs());
                let first = poisson.receptor * part.chunks;
                let lanes =
                    (first + group.chunks.start) * CHUNK..(first + group.chunks.end) * CHUNK;
                sums[lanes].iter_mut().for_each(|s| *s += most);
            }
        }
        Ok(sums.into_iter().max().unwrap_or(0))
    });
    let largest = sums.try_reduce(|| 0, |a, b| Ok(a.max(b)))?;
    check_sum(largest)?;
    Ok(largest)
}

/// Refuses sums that the fixed point cannot hold.
pub(super) fn check_sum(largest: u64) -> Result<()> {
    if largest > i32::MAX as u64 {
        return Err(Error::argument(format!(
            "weights: the inputs of one neuron can sum to {largest} units of the fixed point, expected at most {}: its sum would saturate",
            i32::MAX
        )));
    }
    Ok(())
}
