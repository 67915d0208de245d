//! Measures whose windows go one by one through all pairs: time warping, coherence, correlation at several lags, and places
//! near for a time. A device finds the pairs, and the host keeps those that the network asks for, as on the CPU.

use std::sync::Arc;

use betz_base::progress::check;
use betz_base::{Error, ErrorKind, Progress, Result};
use betz_device::cuda::{Buffer, Context, Kernel};
use betz_kernels::network as kernels;
use betz_kernels::network::{NetworkCoherence, NetworkLagMoments, NetworkLagged, NetworkNear};
use rayon::prelude::*;

use super::lags::{self, LagFinder};
use super::on_each;
use super::shape::int;
use super::warps::Warper;
use crate::chunk::ChunkResult;
use crate::coherence::{Coherence, EdgeLimit, Spectra, least_value};
use crate::place::Nearness;
use crate::plan::Plan;
use crate::scan::{ExactWindow, Keep};
use crate::signal::Signal;
use crate::spec::{Measure, NetworkSpec};
use crate::warp::{TimeWarp, most_squares};
use crate::window::{Chunk, Window};

/// Pairs of a launch, at most: there is room for all of them.
const MOST_PAIRS: usize = 1 << 26;

/// Products of a fast device in a second, roughly: a request to stop is heard after a launch.
const RATE: f64 = 4e12;

pub(super) const THREADS: u32 = 256;

/// Blocks on a multiprocessor at once.
const RESIDENT: u32 = 2;

/// Nodes of a block of any of the kernels.
pub(super) const SIDE: usize = kernels::COHERENCE_SIDE;
const _: () = assert!(
    SIDE == kernels::NEAR_SIDE && SIDE == kernels::LAGGED_SIDE && SIDE == crate::coherence::SIDE
);

/// The kernel of a measure on one device.
pub(super) enum PairFinder {
    Warp(Warper),
    Coherence(TileFinder),
    Lags(LagFinder),
    Near(TileFinder),
}

/// A kernel that goes through tiles of pairs.
pub(super) struct TileFinder {
    pub(super) context: Arc<Context>,
    pub(super) kernel: Kernel,
    /// The device's number of how many.
    pub(super) share: (usize, usize),
}

/// Launches of a window: blocks of nodes at a time, and all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Launches {
    pub(super) at_once: usize,
    blocks: usize,
}

impl Launches {
    /// For so many nodes: as many blocks as there are bytes for besides `fixed`, with `pair` bytes and `products` per pair.
    fn new(nodes: usize, room: u64, (fixed, pair): (u64, usize), products: f64) -> Self {
        let row = (SIDE * nodes * pair) as u64;
        let by_room = (room - room / 16).saturating_sub(fixed) / row.max(1);
        let by_time = (RATE / ((SIDE * nodes) as f64 * products).max(1.0)) as usize;
        let blocks = nodes.div_ceil(SIDE);
        let at_once = (MOST_PAIRS / (SIDE * nodes).max(1))
            .min(usize::try_from(by_room).unwrap_or(usize::MAX))
            .min(by_time)
            .clamp(1, blocks.max(1));
        Self { at_once, blocks }
    }

    /// The launches of one of several devices: blocks from one to before another.
    pub(super) fn of(self, (at, of): (usize, usize)) -> impl Iterator<Item = (usize, usize)> {
        (0..self.blocks)
            .step_by(self.at_once)
            .skip(at)
            .step_by(of.max(1))
            .map(move |first| (first, (first + self.at_once).min(self.blocks)))
    }
}

impl TileFinder {
    /// Launches that fit into the device's memory.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`] where there is no room for one block of nodes.
    pub(super) fn launches(
        &self,
        nodes: usize,
        fixed: u64,
        pair: usize,
        products: f64,
    ) -> Result<Launches> {
        let room = self.context.available_memory()?;
        let least = fixed + (SIDE * nodes * pair) as u64 + (1 << 20);
        if least + least / 16 > room {
            return Err(Error::new(
                ErrorKind::DeviceMemory,
                format!(
                    "pairs on cuda:{}: expected room for {} bytes, got {room}",
                    self.context.number(),
                    least + least / 16
                ),
            )
            .with_needed_bytes(least + least / 16)
            .with_available_bytes(room));
        }
        Ok(Launches::new(nodes, room, (fixed, pair), products))
    }

    pub(super) fn blocks(&self) -> (u32, u32, u32) {
        (self.context.info().multiprocessors.max(1) * RESIDENT, 1, 1)
    }

    /// The first `kept` pairs.
    fn fetch(&self, pairs: &Buffer<u32>, kept: usize) -> Result<Vec<(u32, u32)>> {
        let own = self.context.download(pairs, 2 * kept)?;
        Ok(own
            .as_chunks::<2>()
            .0
            .iter()
            .map(|p| (p[0], p[1]))
            .collect())
    }

    pub(super) fn kept(&self, tally: &Buffer<u64>) -> Result<usize> {
        let counted = self.context.download(tally, kernels::PAIR_TALLY)?;
        Ok(usize::try_from(counted[kernels::PAIR_KEPT]).unwrap_or(usize::MAX))
    }

    /// This device's share of the pairs with a coherence of at least `least`.
    fn coherent(
        &self,
        spectra: &Spectra,
        (peak, least): (bool, f64),
        edges: &EdgeLimit,
        progress: &dyn Progress,
    ) -> Result<Vec<(u32, u32, f64)>> {
        let (nodes, context) = (spectra.defined.len(), &self.context);
        let products = (4 * spectra.bins * spectra.segments) as f64;
        let fixed = spectra.values.len() as u64 * 8;
        let launches = self.launches(nodes, fixed, 2 * 4 + 8, products)?;
        let values = context.upload(&spectra.values)?;
        let room = launches.at_once * SIDE * nodes;
        let (mut pairs, mut found) = (context.alloc(2 * room)?, context.alloc(room)?);
        let mut all: Vec<(u32, u32, f64)> = Vec::new();
        for (first, last) in launches.of(self.share) {
            check(progress, "coherence")?;
            let mut tally: Buffer<u64> = context.zeros(kernels::PAIR_TALLY)?;
            self.kernel.launch(
                self.blocks(),
                THREADS,
                NetworkCoherence {
                    spectra: values.read(),
                    nodes: int(nodes)?,
                    bins: int(spectra.bins)?,
                    segments: int(spectra.segments)?,
                    peak: i32::from(peak),
                    least,
                    first: int(first)?,
                    last: int(last)?,
                    pairs: pairs.update(),
                    values: found.update(),
                    tally: tally.update(),
                },
            )?;
            let kept = self.kept(&tally)?;
            let own = self.fetch(&pairs, kept)?.into_iter();
            let values = context.download(&found, kept)?;
            let known = all.len();
            all.extend(own.zip(values).map(|((i, j), value)| (i, j, value)));
            edges.count(&all[known..]);
            edges.check()?;
        }
        Ok(all)
    }

    /// This device's share of the pairs of places that may be near for long enough: within the root of `most`.
    fn near(
        &self,
        places: &[f64],
        nodes: usize,
        (nearness, most): (Nearness, f64),
        progress: &dyn Progress,
    ) -> Result<Vec<(u32, u32)>> {
        let context = &self.context;
        let instants = places.len() / (3 * nodes).max(1);
        let fixed = places.len() as u64 * 8;
        // Three products and as many differences at an instant.
        let launches = self.launches(nodes, fixed, 2 * 4, 6.0 * instants as f64)?;
        let places = context.upload(places)?;
        let mut pairs = context.alloc(2 * launches.at_once * SIDE * nodes)?;
        let mut all = Vec::new();
        for (first, last) in launches.of(self.share) {
            check(progress, "distances")?;
            let mut tally: Buffer<u64> = context.zeros(kernels::PAIR_TALLY)?;
            self.kernel.launch(
                self.blocks(),
                THREADS,
                NetworkNear {
                    places: places.read(),
                    nodes: int(nodes)?,
                    instants: int(instants)?,
                    near: int(nearness.near)?,
                    gap: int(nearness.gap)?,
                    most,
                    first: int(first)?,
                    last: int(last)?,
                    pairs: pairs.update(),
                    tally: tally.update(),
                },
            )?;
            let kept = self.kept(&tally)?;
            all.extend(self.fetch(&pairs, kept)?);
        }
        Ok(all)
    }
}

impl PairFinder {
    /// Compiles the kernel of `spec`. `share`: the device's number of how many.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a measure without one; those of the device.
    pub(super) fn open(
        context: &Arc<Context>,
        spec: &NetworkSpec,
        share: (usize, usize),
    ) -> Result<Self> {
        let tiles = |kernel| TileFinder {
            context: Arc::clone(context),
            kernel,
            share,
        };
        Ok(match spec.measure {
            Measure::Warping { band, .. } => {
                Self::Warp(Warper::open(context, (band, spec.window.length), share)?)
            }
            Measure::Coherence { .. } => {
                Self::Coherence(tiles(context.load::<NetworkCoherence<'_>>(&[], 0)?))
            }
            Measure::Lagged { lags } => Self::Lags(LagFinder {
                tiles: tiles(context.load::<NetworkLagged<'_>>(&[], 0)?),
                moments: context.load::<NetworkLagMoments<'_>>(&[], 0)?,
                lags,
                sign: spec.sign,
            }),
            Measure::Distance { .. } => Self::Near(tiles(context.load::<NetworkNear<'_>>(&[], 0)?)),
            other => return Err(no_kernel(other)),
        })
    }
}

pub(super) fn no_kernel(measure: Measure) -> Error {
    Error::argument(format!(
        "network on a CUDA device: expected dtw, coherence, lagged or distance, got {}",
        measure.name()
    ))
}

/// True for the measures whose pairs a [`PairFinder`] finds.
pub(super) fn finds(measure: Measure) -> bool {
    measure.by_window() || matches!(measure, Measure::Lagged { .. })
}

impl PairFinder {
    /// Most windows of a chunk.
    ///
    /// # Errors
    /// Errors of the device.
    pub(super) fn windows(&self, window: Window, nodes: usize) -> Result<usize> {
        match self {
            Self::Lags(finder) => finder.windows(window, nodes),
            // One after the other: each takes long.
            _ => Ok(1),
        }
    }
}

/// The edges of a chunk, window by window.
///
/// # Errors
/// As for the CPU, and those of the devices.
pub(super) fn chunk(
    finders: &[PairFinder],
    (plan, signal): (&Plan, &Signal<'_>),
    chunk: &Chunk,
    most: u64,
    progress: &dyn Progress,
) -> Result<ChunkResult> {
    if let Measure::Lagged { lags } = plan.spec().measure {
        return lags::chunk(finders, (plan, signal), (chunk, lags), most, progress);
    }
    let (mut windows, mut aligned) = (Vec::new(), 0);
    let edges = EdgeLimit::new(Keep::new(plan.spec(), plan.nodes), most);
    for q in 0..chunk.windows {
        check(progress, "network")?;
        let of = (chunk.start_of(q), chunk.window.length);
        let (window, count) = find(finders, (plan, signal), of, &edges, progress)?;
        windows.push(window);
        aligned += count;
    }
    let mut result = ChunkResult::exact(windows, plan.spec(), plan.nodes, most)?;
    result.edges.counts.rechecked = aligned;
    Ok(result)
}

/// The pairs of the window of `length` samples from `start`, and the number of those that were aligned.
fn find(
    finders: &[PairFinder],
    (plan, signal): (&Plan, &Signal<'_>),
    (start, length): (usize, usize),
    edges: &EdgeLimit,
    progress: &dyn Progress,
) -> Result<(ExactWindow, u64)> {
    let (measure, keep) = (plan.spec().measure, Keep::new(plan.spec(), plan.nodes));
    let mut each: Vec<&PairFinder> = finders.iter().collect();
    if let Measure::Warping { band, normalised } = measure {
        let warp = TimeWarp { band, normalised };
        let (samples, undefined) = warp.prepare(signal, start, length);
        let samples = samples.without_undefined();
        let squares = most_squares(keep);
        let found = on_each(&mut each, &|finder| match finder {
            PairFinder::Warp(warper) => warper.pairs(&samples, band, squares, progress),
            _ => Err(no_kernel(measure)),
        })?;
        let (mut pairs, mut aligned) = (Vec::new(), 0);
        for found in found {
            aligned += found.aligned;
            pairs.extend(found.pairs.iter().map(|(i, j, sum)| (*i, *j, sum.sqrt())));
        }
        return Ok(((pairs, undefined), aligned));
    }
    if let Some(coherence) = Coherence::of(measure) {
        let (spectra, undefined) = coherence.prepare(signal, start, length)?;
        let of = (coherence.peak, least_value(keep));
        let found = on_each(&mut each, &|finder| match finder {
            PairFinder::Coherence(tiles) => tiles.coherent(&spectra, of, edges, progress),
            _ => Err(no_kernel(measure)),
        })?;
        let defined = |node: &u32| spectra.defined[*node as usize];
        let mut pairs = found.concat();
        pairs.retain(|(i, j, _)| defined(i) && defined(j));
        return Ok(((pairs, undefined), 0));
    }
    let (Measure::Distance { near, gap, earth }, Keep::Reaching { threshold, .. }) =
        (measure, keep)
    else {
        return Err(no_kernel(measure));
    };
    let nearness = Nearness { near, gap, earth };
    let points = nearness.points(signal, (start, length));
    let of = (nearness, nearness.most_squares(-threshold));
    let found = on_each(&mut each, &|finder| match finder {
        PairFinder::Near(tiles) => tiles.near(&points, signal.nodes(), of, progress),
        _ => Err(no_kernel(measure)),
    })?;
    let pairs = (found.concat().par_chunks(256))
        .flat_map_iter(|pairs| nearness.decide(signal, (start, length), keep, pairs))
        .collect();
    Ok(((pairs, nearness.missing(signal, (start, length))), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_of_nodes_is_launched_once() {
        for (nodes, room, products) in [
            (1, 1 << 30, 100.0),
            (64, 1 << 20, 1e3),
            (1_000, 1 << 30, 1e7),
            (22_360, 140 << 30, 700.0),
            (100_000, 1 << 30, 360.0),
        ] {
            let launches = Launches::new(nodes, room, (1 << 16, 16), products);
            assert!(
                launches.at_once >= 1
                    && launches.at_once * SIDE * nodes <= MOST_PAIRS.max(SIDE * nodes)
            );
            for of in [1, 2, 3] {
                let mut all: Vec<(usize, usize)> =
                    (0..of).flat_map(|at| launches.of((at, of))).collect();
                all.sort_unstable();
                let mut next = 0;
                for (first, last) in all {
                    assert_eq!(first, next);
                    assert!(last > first);
                    next = last;
                }
                assert_eq!(next, nodes.div_ceil(SIDE));
            }
        }
    }
}
