//! Correlations at several lags on a device: it finds the strongest lag of every pair in f64, with the bits of plain loops,
//! and the host keeps the pairs that the network asks for.

use betz_base::progress::check;
use betz_base::{Progress, Result};
use betz_device::cuda::{Buffer, Kernel};
use betz_kernels::network as kernels;
use betz_kernels::network::{NetworkLagMoments, NetworkLagged};
use rayon::prelude::*;

use super::on_each;
use super::pairs::{PairFinder, SIDE, THREADS, TileFinder, no_kernel};
use super::shape::int;
use crate::chunk::ChunkResult;
use crate::engine::{Counts, too_many};
use crate::oracle::UndefinedReason;
use crate::plan::Plan;
use crate::scan::{self, ExactPairs, Keep};
use crate::signal::{Signal, SignalData};
use crate::spec::Sign;
use crate::window::{Chunk, Window};

/// Most windows of a chunk.
const MOST_WINDOWS: usize = 16;

/// Bytes of a pair that is found: two nodes, the step of its lag, a value.
const PAIR: usize = 3 * 4 + 8;

/// The kernels of one device.
pub(super) struct LagFinder {
    pub(super) tiles: TileFinder,
    pub(super) moments: Kernel,
    pub(super) lags: usize,
    pub(super) sign: Sign,
}

/// One device's share of a window: its pairs, and the roots of all nodes' sums of squares.
struct WindowShare {
    pairs: ExactPairs,
    roots: Vec<f64>,
}

/// The samples of a chunk and its `lags` on both sides, (instant, node).
fn samples(signal: &Signal<'_>, chunk: &Chunk, lags: usize) -> Vec<f64> {
    fn of<T: Copy + Sync + Into<f64>>(all: &[T]) -> Vec<f64> {
        all.par_iter().map(|value| (*value).into()).collect()
    }
    let nodes = signal.nodes();
    let range = (chunk.start - lags) * nodes..(chunk.start + chunk.samples() + lags) * nodes;
    match signal.data() {
        SignalData::F32(all) => of(&all[range]),
        SignalData::F64(all) => of(&all[range]),
        SignalData::I16(all) => of(&all[range]),
        SignalData::U16(all) => of(&all[range]),
        SignalData::U8(all) => of(&all[range]),
    }
}

/// The lag of a step: 0, −1, 1, −2, 2 and so on.
fn lag_of(step: u32) -> i16 {
    let size = step.div_ceil(2) as i16;
    if step % 2 == 1 { -size } else { size }
}

impl LagFinder {
    /// Windows of a chunk whose samples take up to a quarter of the device's memory.
    pub(super) fn windows(&self, window: Window, nodes: usize) -> Result<usize> {
        let row = 8 * nodes.max(1) as u64;
        let rows = self.tiles.context.available_memory()? / 4 / row;
        let first = (window.length + 2 * self.lags) as u64;
        let more = rows.saturating_sub(first) / window.step.max(1) as u64;
        Ok(usize::try_from(more).map_or(MOST_WINDOWS, |more| (1 + more).min(MOST_WINDOWS)))
    }

    /// This device's share of every window of `chunk`; `samples`: those of the chunk and its lags.
    fn find(
        &self,
        (samples, nodes): (&[f64], usize),
        chunk: &Chunk,
        (keep, most): (Keep, u64),
        progress: &dyn Progress,
    ) -> Result<Vec<WindowShare>> {
        let (context, length) = (&self.tiles.context, chunk.window.length);
        let instants = samples.len() / nodes.max(1);
        let steps = 2 * self.lags + 1;
        let fixed = (samples.len() + 2 * steps * nodes) as u64 * 8;
        let products = 2.0 * (steps * length) as f64;
        let launches = self.tiles.launches(nodes, fixed, PAIR, products)?;
        let samples = context.upload(samples)?;
        let mut means: Buffer<f64> = context.alloc(steps * nodes)?;
        let mut roots: Buffer<f64> = context.alloc(steps * nodes)?;
        let room = launches.at_once * SIDE * nodes;
        let (mut pairs, mut values) = (context.alloc(3 * room)?, context.alloc(room)?);
        let (mut all, mut total) = (Vec::new(), 0_u64);
        for q in 0..chunk.windows {
            let start = self.lags + q * chunk.window.step;
            self.moments.launch(
                (
                    nodes.div_ceil(THREADS as usize).max(1) as u32,
                    steps as u32,
                    1,
                ),
                THREADS,
                NetworkLagMoments {
                    samples: samples.read(),
                    instants: int(instants)?,
                    nodes: int(nodes)?,
                    start: int(start)?,
                    length: int(length)?,
                    means: means.write(),
                    roots: roots.write(),
                },
            )?;
            let mut found = ExactPairs::new(keep, nodes);
            for (first, last) in launches.of(self.tiles.share) {
                check(progress, "lagged correlation")?;
                let mut tally: Buffer<u64> = context.zeros(kernels::PAIR_TALLY)?;
                self.tiles.kernel.launch(
                    self.tiles.blocks(),
                    THREADS,
                    NetworkLagged {
                        samples: samples.read(),
                        means: means.read(),
                        roots: roots.read(),
                        instants: int(instants)?,
                        nodes: int(nodes)?,
                        start: int(start)?,
                        length: int(length)?,
                        lags: int(self.lags)?,
                        sign: match self.sign {
                            Sign::Both => 0,
                            Sign::Positive => 1,
                            Sign::Negative => -1,
                        },
                        least: found.least(),
                        first: int(first)?,
                        last: int(last)?,
                        pairs: pairs.update(),
                        values: values.update(),
                        tally: tally.update(),
                    },
                )?;
                let kept = self.tiles.kept(&tally)?;
                let nodes_and_steps = context.download(&pairs, 3 * kept)?;
                let values = context.download(&values, kept)?;
                for ([i, j, step], value) in nodes_and_steps.as_chunks::<3>().0.iter().zip(values) {
                    let size = self.sign.size(value);
                    total += u64::from(found.push((*i, *j), (value, size), lag_of(*step)));
                }
                if matches!(keep, Keep::Reaching { .. }) && total > most {
                    return Err(too_many(most));
                }
            }
            all.push(WindowShare {
                pairs: found,
                roots: context.download(&roots, nodes)?,
            });
        }
        Ok(all)
    }
}

/// The edges of a chunk.
///
/// # Errors
/// As for the CPU, and those of the devices.
pub(super) fn chunk(
    finders: &[PairFinder],
    (plan, signal): (&Plan, &Signal<'_>),
    (chunk, lags): (&Chunk, usize),
    most: u64,
    progress: &dyn Progress,
) -> Result<ChunkResult> {
    let nodes = signal.nodes();
    let keep = Keep::new(plan.spec(), nodes);
    let samples = samples(signal, chunk, lags);
    let mut each: Vec<&PairFinder> = finders.iter().collect();
    let found = on_each(&mut each, &|finder| match finder {
        PairFinder::Lags(finder) => finder.find((&samples, nodes), chunk, (keep, most), progress),
        _ => Err(no_kernel(plan.spec().measure)),
    })?;
    let mut undefined = Vec::new();
    let mut windows: Vec<ExactPairs> = Vec::new();
    for found in found {
        let is_first = windows.is_empty();
        for (q, found) in found.into_iter().enumerate() {
            if !is_first {
                windows[q].merge(found.pairs);
                continue;
            }
            windows.push(found.pairs);
            // Every device has seen all nodes.
            for (node, root) in (0..).zip(found.roots).filter(|(_, root)| *root <= 0.0) {
                let why = match root {
                    0.0 => UndefinedReason::Constant,
                    _ => UndefinedReason::NonFinite,
                };
                undefined.push((q as u32, node, why));
            }
        }
    }
    let lists = windows.into_par_iter().map(ExactPairs::finish).collect();
    Ok(ChunkResult {
        edges: scan::gather(lists, true, most, Counts::default())?,
        undefined,
        extreme: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_lags_from_the_smallest_on() {
        let lags: Vec<i16> = (0..7).map(lag_of).collect();
        assert_eq!(lags, [0, -1, 1, -2, 2, -3, 3]);
        assert_eq!(lag_of(2 * 32_767), 32_767);
        assert_eq!(lag_of(2 * 32_767 - 1), -32_767);
    }
}
