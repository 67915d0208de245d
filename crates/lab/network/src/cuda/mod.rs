//! The walk on CUDA devices: which work it takes, how it is cut to a device's memory and dealt to
//! several, and how what they find becomes the edges of a chunk.
//!
//! ```text
//! samples ─► moments ─► scales ─► panels ─► walk ─► recheck ─► slots ─► order ─► join ─► edges, by (i, j)
//! ```
//!
//! `kernels/network_prepare.cu`, `network_walk.cu` and `network_order.cu` say how. Rank measures are exact and need no
//! recheck: samples ─► ranks or signs ─► walk, in `network_rank_prepare.cu` and `network_rank_walk.cu`. Time warping goes
//! through a window's pairs one by one, in `network_warp.cu`; coherence, whose spectra the host makes, in
//! `network_coherence.cu`; correlation at several lags, in `network_lagged.cu`; places that are near for a time, in `network_near.cu`. Distances of signals, covariances and phase locking are made of f64 sums, in
//! `network_sums.cu`. Every device has all samples of a
//! chunk and a share of its tiles; a tile's sums do not depend on who walks it.

mod correlations;
mod join;
mod lags;
pub(crate) mod limits;
mod order;
#[cfg(test)]
mod pair_tests;
mod pairs;
#[cfg(test)]
mod rank_tests;
mod ranks;
mod shape;
mod strongest;
#[cfg(test)]
mod strongest_tests;
#[cfg(test)]
mod sum_tests;
pub(crate) mod sums;
pub(crate) mod surrogates;
#[cfg(test)]
mod tests;
mod walker;
#[cfg(test)]
mod warp_tests;
mod warps;

use betz_base::{Error, ErrorKind, Progress, Result};
use betz_kernels::{Sample, network as kernels};

use crate::block::SampleTransform;
use crate::chunk::{ChunkResult, informations};
use crate::engine::{Cut, extreme_pairs};
use crate::oracle::{self, UndefinedReason, reaches};
use crate::plan::Plan;
use crate::scan::Keep;
use crate::signal::{Signal, SignalData};
use crate::spec::{Measure, Sign};
use crate::window::Chunk;

use limits::Limits;
use pairs::PairFinder;
use walker::{WalkRequest, WalkResult, Walker};

/// Counts and times of [`Plan::count_on_device`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct DeviceCount {
    /// Edges of all windows, with pairs in doubt; those of nodes that f32 sums cannot hold are left out.
    pub edges: u64,
    /// Pairs within 10⁻⁹ of the threshold, which the host decides when the edges are brought to it.
    pub doubtful: u64,
    /// Pairs that were decided in f64.
    pub rechecked: u64,
    /// Tiles that began anew in a window.
    pub rebuilt: u64,
    /// Launches of the walk.
    pub walks: u64,
    /// Seconds until the samples were there.
    pub upload: f64,
    /// Seconds for moments, scales and panels.
    pub prepare: f64,
    /// Seconds for the walk.
    pub walk: f64,
    /// Seconds for the decisions in f64.
    pub recheck: f64,
}

impl DeviceCount {
    fn add(&mut self, other: &Self) {
        self.edges += other.edges;
        self.doubtful += other.doubtful;
        self.rechecked += other.rechecked;
        self.rebuilt += other.rebuilt;
        self.walks += other.walks;
        self.upload += other.upload;
        self.prepare += other.prepare;
        self.walk += other.walk;
        self.recheck += other.recheck;
    }
}

/// A walker, or a finder of pairs, on each device of a plan.
pub(crate) struct Walkers {
    each: Vec<Walker>,
    finders: Vec<PairFinder>,
    windows: usize,
}

/// Runs `$body` with `$samples`, those of `$signal` in whatever type they are.
macro_rules! with_samples {
    ($signal:expr, $samples:ident => $body:expr) => {
        match $signal.data() {
            SignalData::F32($samples) => $body,
            SignalData::F64($samples) => $body,
            SignalData::I16($samples) => $body,
            SignalData::U16($samples) => $body,
            SignalData::U8($samples) => $body,
        }
    };
}

impl Walkers {
    /// Loads the kernels on every device of `plan`, and plans how many windows fit.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`] when not even one window fits; those of the devices.
    pub(crate) fn open(plan: &Plan, signal: &Signal<'_>, limits: Limits) -> Result<Self> {
        fn open<T: Sample>(
            plan: &Plan,
            limits: Limits,
            _: &[T],
            nodes: usize,
        ) -> Result<(Vec<Walker>, usize)> {
            let contexts = plan.placement().contexts();
            let mut each = Vec::new();
            let mut windows = limits.windows;
            for (at, context) in contexts.iter().enumerate() {
                let share = (at, contexts.len());
                let mut walker = Walker::open::<T>(context, plan.spec(), nodes, share, limits)?;
                windows = walker.windows::<T>(plan.spec().window, windows)?;
                windows = windows.min(strongest::most_windows(plan));
                each.push(walker);
            }
            Ok((each, windows))
        }
        if pairs::finds(plan.spec().measure) {
            let contexts = plan.placement().contexts();
            let open = |(at, context)| PairFinder::open(context, plan.spec(), (at, contexts.len()));
            let finders = contexts.iter().enumerate().map(open);
            let finders: Vec<PairFinder> = finders.collect::<Result<_>>()?;
            let windows = finders.iter().try_fold(limits.windows, |least, finder| {
                let own = finder.windows(plan.spec().window, signal.nodes())?;
                Ok::<_, Error>(least.min(own))
            })?;
            return Ok(Self {
                each: Vec::new(),
                finders,
                windows,
            });
        }
        let (each, windows) =
            with_samples!(signal, samples => open(plan, limits, samples, signal.nodes()))?;
        Ok(Self {
            each,
            finders: Vec::new(),
            windows,
        })
    }

    /// Most windows of a chunk.
    pub(crate) fn windows(&self) -> usize {
        self.windows
    }

    /// The edges of a chunk.
    ///
    /// # Errors
    /// As for the CPU, and those of the devices.
    pub(crate) fn chunk(
        &mut self,
        plan: &Plan,
        signal: &Signal<'_>,
        chunk: &Chunk,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<ChunkResult> {
        if pairs::finds(plan.spec().measure) {
            return pairs::chunk(&self.finders, (plan, signal), chunk, most, progress);
        }
        let mut result = match Keep::new(plan.spec(), plan.nodes) {
            Keep::Reaching { .. } => {
                let cut = cut(plan, chunk, most)?;
                self.reaching(plan, signal, chunk, &cut, usize::MAX, progress)?
                    .0
            }
            Keep::Strongest(count) => {
                self.strongest(plan, signal, chunk, (count, most), progress)?
            }
            Keep::StrongestPerNode(_) => return Err(no_threshold(plan)),
        };
        if plan.spec().measure == Measure::GaussianInformation {
            informations(signal, chunk, SampleTransform::Samples, &mut result.edges);
        }
        Ok(result)
    }

    /// The edges of a chunk that reach the thresholds of `cut`, in `most_tiles` of a device's tiles at most; and the
    /// number of pairs of these.
    fn reaching(
        &mut self,
        plan: &Plan,
        signal: &Signal<'_>,
        chunk: &Chunk,
        cut: &Cut,
        most_tiles: usize,
        progress: &dyn Progress,
    ) -> Result<(ChunkResult, u64)> {
        let margin = plan.rules.margin();
        let found = self.find(signal, chunk, cut, margin, (true, most_tiles), progress)?;
        let mut undefined = Vec::new();
        let mut extreme = Vec::new();
        // Every device has seen all nodes.
        let states = found.first().map_or(&[][..], |f| &f.states);
        for &(q, node, state) in states {
            match state {
                kernels::CONSTANT => undefined.push((q, node, UndefinedReason::Constant)),
                kernels::NOT_FINITE => undefined.push((q, node, UndefinedReason::NonFinite)),
                _ => extreme.push((q, node)),
            }
        }
        let pairs = found.iter().map(|f| f.pairs).sum();
        // A sample of tiles does without.
        let extra = match most_tiles {
            usize::MAX => {
                let of = (chunk, SampleTransform::Samples);
                extreme_pairs(signal, of, &extreme, cut, progress)?
            }
            _ => Vec::new(),
        };
        let measure = plan.spec().measure;
        let decide = |pair: (usize, usize, usize), x: &mut Vec<f64>, y: &mut Vec<f64>| {
            let value = exact_value(measure, (signal, chunk), pair, x, y)?;
            reaches(
                size_of(measure, cut.sign, value),
                cut.thresholds[pair.0],
                cut.strict,
            )
            .then_some(value)
        };
        let result = ChunkResult {
            edges: join::join(signal.nodes(), chunk, (cut.most, &decide), found, extra)?,
            undefined,
            extreme: extreme.len() as u64,
        };
        Ok((result, pairs))
    }

    /// Results of each device for its share of a chunk, of `most_tiles` of its tiles at most; copied to the host if
    /// `fetch`.
    fn find(
        &mut self,
        signal: &Signal<'_>,
        chunk: &Chunk,
        cut: &Cut,
        margin: f64,
        (fetch, most_tiles): (bool, usize),
        progress: &dyn Progress,
    ) -> Result<Vec<WalkResult>> {
        let asked = WalkRequest {
            chunk: *chunk,
            thresholds: cut.thresholds.clone(),
            margin,
            strict: cut.strict,
            sign: match cut.sign {
                Sign::Both => 0,
                Sign::Positive => 1,
                Sign::Negative => -1,
            },
            most: cut.most,
            fetch,
            most_tiles,
        };
        let nodes = signal.nodes();
        let range = chunk.start * nodes..(chunk.start + chunk.samples()) * nodes;
        on_each(&mut self.each, &|walker| {
            with_samples!(signal, samples => {
                walker.find(&samples[range.clone()], &asked, progress)
            })
        })
    }
}

/// The results of `find` for each of the devices, in a thread of its own for all but the first.
fn on_each<W: Send, R: Send>(
    each: &mut [W],
    find: &(dyn Fn(&mut W) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let Some((first, others)) = each.split_first_mut() else {
        return Ok(Vec::new());
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (others.iter_mut())
            .map(|worker| scope.spawn(move || find(worker)))
            .collect();
        let mut found = vec![find(first)];
        for thread in threads {
            found.push(thread.join().unwrap_or_else(|_| {
                Err(Error::new(
                    ErrorKind::Internal,
                    "network on a CUDA device: a thread ended early",
                ))
            }));
        }
        found.into_iter().collect()
    })
}

/// The size of a value, which is compared with the threshold.
fn size_of(measure: Measure, sign: Sign, value: f64) -> f64 {
    match measure {
        Measure::Euclidean { .. } => -value,
        // Below 0 for fewer than chance gives, which is no strength.
        Measure::PhaseConsistency => value,
        _ => sign.size(value),
    }
}

/// The value of a pair (window, i, j) in f64, by plain loops.
fn exact_value(
    measure: Measure,
    (signal, chunk): (&Signal<'_>, &Chunk),
    pair: (usize, usize, usize),
    x: &mut Vec<f64>,
    y: &mut Vec<f64>,
) -> Option<f64> {
    let of: fn(&[f64], &[f64]) -> Option<f64> = match measure {
        Measure::Spearman => oracle::spearman,
        Measure::Kendall => oracle::kendall,
        Measure::Euclidean { .. } => oracle::distance,
        Measure::Covariance => oracle::covariance,
        Measure::PhaseLocking => oracle::phase_locking,
        Measure::ImaginaryPhaseLocking => oracle::imaginary_phase_locking,
        Measure::PhaseConsistency => oracle::phase_consistency,
        _ => oracle::pearson,
    };
    for (node, samples) in [(pair.1, &mut *x), (pair.2, &mut *y)] {
        samples.resize(chunk.window.length, 0.0);
        signal.column(node, chunk.start_of(pair.0), samples);
    }
    of(x, y)
}

fn cut(plan: &Plan, chunk: &Chunk, most: u64) -> Result<Cut> {
    let Keep::Reaching { threshold, strict } = Keep::new(plan.spec(), plan.nodes) else {
        return Err(no_threshold(plan));
    };
    Ok(Cut {
        thresholds: vec![threshold; chunk.windows],
        sign: plan.spec().sign,
        strict,
        most,
    })
}

fn no_threshold(plan: &Plan) -> Error {
    Error::argument(format!(
        "network on a CUDA device: expected a threshold, got {:?}",
        plan.spec().threshold
    ))
}

impl Plan {
    /// Finds and decides all edges on the plan's first CUDA device ([`Plan::on`]) and leaves them there: what
    /// the work costs where what follows runs on the device as well. Memory of a run before is used
    /// again, so that the second call of a process tells.
    ///
    /// # Errors
    /// [`DeviceUnavailable`](ErrorKind::DeviceUnavailable) for a plan on the CPU;
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a plan without a threshold, or of time warping, coherence, lags or places; as for [`Plan::stream`].
    pub fn count_on_device(
        &self,
        signal: &Signal<'_>,
        progress: &dyn Progress,
    ) -> Result<DeviceCount> {
        self.same_shape(signal)?;
        if self.placement().is_cpu() {
            return Err(Error::new(
                ErrorKind::DeviceUnavailable,
                "network on a CUDA device: expected a plan on one, got one on the CPU",
            ));
        }
        let measure = self.spec().measure;
        if pairs::finds(measure) {
            return Err(Error::argument(format!(
                "network on a CUDA device: expected a correlation without lags, whose edges are counted there, got {}",
                measure.name()
            )));
        }
        // Nothing is brought to the host: as much room as there is.
        let limits = Limits {
            slots: 1 << 30,
            most_slots: usize::MAX,
            ..self.limits
        };
        let mut walkers = Walkers::open(self, signal, limits)?;
        let mut count = DeviceCount::default();
        for chunk in self.windows().chunks(walkers.windows()) {
            let cut = cut(self, &chunk, self.spec().max_edges)?;
            let margin = self.rules.margin();
            let found =
                walkers.find(signal, &chunk, &cut, margin, (false, usize::MAX), progress)?;
            // The slowest device of several tells.
            let slowest = (found.iter().map(|f| f.count))
                .max_by(|a, b| (a.walk + a.recheck).total_cmp(&(b.walk + b.recheck)));
            if let Some(mut slowest) = slowest {
                slowest.edges = found.iter().map(|f| f.count.edges).sum();
                slowest.rechecked = found.iter().map(|f| f.count.rechecked).sum();
                slowest.rebuilt = found.iter().map(|f| f.count.rebuilt).sum();
                count.add(&slowest);
            }
        }
        Ok(count)
    }
}
