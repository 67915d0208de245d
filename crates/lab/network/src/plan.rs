//! From a specification and a signal's shape to a network.

use std::sync::Arc;

use betz_base::{Error, Result, memory};
use betz_device::{Device, Placement, Ran, Work};

use crate::block::{Rules, direct};
use crate::coherence::{self, Coherence};
use crate::cuda::limits::{self, Limits};
use crate::cuda::sums;
use crate::network::Meta;
use crate::panel;
use crate::partial;
use crate::place;
use crate::rank::{self, RankMeasure};
use crate::scan;
use crate::signal::Signal;
use crate::spec::{Measure, NetworkSpec, Taper, Threshold};
use crate::tile::Arch;
use crate::warp;
use crate::window::{Chunk, WindowGrid};

/// Most windows that are worked on at once.
fn chunk_windows(spec: &NetworkSpec, nodes: usize) -> usize {
    let (w, s) = (spec.window.length, spec.window.step);
    let windows = match spec.measure {
        // Every window from zero.
        _ if spec.taper != Taper::Rectangular => panel::chunk_windows(w, w),
        Measure::Spearman => rank::chunk_windows(RankMeasure::Spearman, w, s),
        Measure::Kendall => rank::chunk_windows(RankMeasure::Kendall, w, s),
        // Panels for each lag at once.
        Measure::Lagged { lags } => (panel::chunk_windows(w, s) * 8 / (lags + 8)).max(1),
        // A matrix of all pairs for each window at work.
        Measure::Partial => 4 * rayon::current_num_threads(),
        // One after the other: each takes long.
        Measure::Warping { .. } | Measure::Coherence { .. } => 1,
        // Lists of a window's pairs.
        Measure::Distance { .. } => 8 * rayon::current_num_threads(),
        _ => panel::chunk_windows(w, s),
    };
    // Lists that are kept until a chunk is done: 2 × 48 bytes per pair kept, up to a GiB.
    let lists = match spec.threshold {
        Threshold::TopPerNode(count) => {
            nodes.saturating_mul(count.saturating_mul(2).saturating_add(64))
        }
        Threshold::Top(count) => count.saturating_mul(2),
        _ => 0,
    };
    windows.min(((1 << 30) / 48 / lists.max(1)).max(1))
}

/// The cost of a plan, before anything is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Number of windows.
    pub windows: usize,
    /// Pairs of nodes.
    pub pairs: u64,
    /// Pairs times windows.
    pub pair_windows: f64,
    /// Samples of segments that lie in no window.
    pub trailing: usize,
    /// Bytes of host memory beside the signal and the edges: panels and each thread's room.
    pub bytes: u64,
    /// Seconds on the threads of rayon's current pool, or on the plan's CUDA devices, edges aside; of the
    /// right order.
    pub seconds: f64,
}

/// A network to be made of signals of one shape.
///
/// ```
/// use betz_network::{NetworkSpec, Plan, Signal, Threshold, Window};
///
/// // Three nodes; the third is the first one upside down.
/// let samples: Vec<f32> = (0..500_u32)
///     .flat_map(|t| {
///         let wave = (f64::from(t) / 7.0).sin() as f32;
///         let other = (f64::from(t * t % 101)) as f32;
///         [wave, other, -wave]
///     })
///     .collect();
/// let signal = Signal::new(&samples, 3)?;
/// let spec = NetworkSpec::pearson(Window { length: 100, step: 10 }).threshold(Threshold::Absolute(0.9));
/// let network = Plan::new(&spec, &signal)?.run(&signal, &())?;
/// assert_eq!(network.len(), 41);
/// let last = network.window(40).unwrap();
/// assert_eq!((last.i, last.j), (&[0][..], &[2][..]));
/// assert!((last.r[0] + 1.0).abs() < 1e-5);
/// # Ok::<(), betz_network::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) spec: NetworkSpec,
    pub(crate) grid: WindowGrid,
    samples: usize,
    pub(crate) nodes: usize,
    pub(crate) arch: Arch,
    pub(crate) rules: Rules,
    pub(crate) chunk_windows: usize,
    /// Limit of [`Plan::with_memory`].
    memory: Option<u64>,
    placement: Arc<Placement>,
    pub(crate) limits: Limits,
}

impl Plan {
    /// Checks `spec` against `signal` and plans for the fastest registers of this processor.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) naming what is out of range in
    /// `spec`; [`InsufficientData`](betz_base::ErrorKind::InsufficientData) when no segment holds a
    /// window.
    pub fn new(spec: &NetworkSpec, signal: &Signal<'_>) -> Result<Self> {
        spec.check()?;
        if let Measure::SpikeTiling { .. } = spec.measure {
            return Err(spikes_only());
        }
        let margin = match spec.measure {
            Measure::Lagged { lags } => lags,
            _ => 0,
        };
        let grid = WindowGrid::with_margin(signal, spec.window, margin)?;
        if spec.measure == Measure::Partial {
            scan::at_most(signal.nodes(), partial::MOST_NODES, "partial correlation")?;
        }
        place::check(spec, signal)?;
        let absolute = matches!(spec.threshold, Threshold::Absolute(_));
        if matches!(spec.measure, Measure::Warping { .. }) && !absolute {
            scan::at_most(signal.nodes(), warp::MOST_NODES, "nearest pairs by dtw")?;
        }
        if matches!(spec.measure, Measure::Coherence { .. }) && !absolute {
            scan::at_most(
                signal.nodes(),
                coherence::MOST_NODES,
                "strongest pairs by coherence",
            )?;
        }
        Ok(Self {
            spec: *spec,
            grid,
            samples: signal.samples(),
            nodes: signal.nodes(),
            arch: Arch::best(),
            rules: Rules::default(),
            chunk_windows: chunk_windows(spec, signal.nodes()),
            memory: None,
            placement: Arc::new(Placement::cpu()),
            limits: Limits::default(),
        })
    }

    /// The same on other registers.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) when this processor lacks them.
    pub fn with_arch(mut self, arch: Arch) -> Result<Self> {
        if !Arch::available().contains(&arch) {
            return Err(Error::argument(format!(
                "registers: expected one of {:?}, got {arch:?}",
                Arch::available()
            )));
        }
        self.arch = arch;
        Ok(self)
    }

    /// The same in at most `bytes` of host memory beside the signal and the edges: fewer windows at a time,
    /// which takes longer where they are few, and gives the same edges.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) where a single window takes more.
    pub fn with_memory(mut self, bytes: u64) -> Result<Self> {
        self.memory = Some(bytes);
        while self.estimate().bytes > bytes {
            if self.chunk_windows == 1 {
                return Err(Error::argument(format!(
                    "memory: expected at least {} besides the signal and the edges, got {}",
                    memory::size(self.estimate().bytes),
                    memory::size(bytes)
                )));
            }
            self.chunk_windows = (self.chunk_windows / 2).max(1);
        }
        Ok(self)
    }

    /// Plans for another threshold, on the same device and in the same memory: the threshold that surrogates found,
    /// for example.
    ///
    /// # Errors
    /// As for [`Plan::new`], [`Plan::with_memory`] and [`Plan::on`].
    pub fn with_threshold(mut self, threshold: Threshold, strict: bool) -> Result<Self> {
        self.spec = self.spec.threshold(threshold).strict(strict);
        self.spec.check()?;
        if !self.placement.is_cpu() {
            limits::can(&self.spec, self.nodes)?;
        }
        self.chunk_windows = chunk_windows(&self.spec, self.nodes);
        match self.memory {
            Some(bytes) => self.with_memory(bytes),
            None => Ok(self),
        }
    }

    /// The plan of another specification for the same signal, on the CPU, with the same registers and in the same
    /// memory.
    pub(crate) fn with_spec(&self, spec: &NetworkSpec, signal: &Signal<'_>) -> Result<Self> {
        let plan = Self::new(spec, signal)?.with_arch(self.arch)?;
        match self.memory {
            Some(bytes) => plan.with_memory(bytes),
            None => Ok(plan),
        }
    }

    /// Plans for at most `edges` edges, or fewer if the specification says so.
    #[must_use]
    pub fn with_max_edges(mut self, edges: u64) -> Self {
        self.spec.max_edges = self.spec.max_edges.min(edges);
        self
    }

    /// The same on `device`, which works on Pearson correlations (and the information made of them), rank correlations,
    /// Euclidean distances, covariances and phase locking with every [`Threshold`] but [`Threshold::TopPerNode`], on time
    /// warping, coherence and correlation at several lags with all, and on places with [`Threshold::Absolute`]. It does not
    /// work on partial correlations. A CUDA device that the user named ([`Device::is_explicit`]) does it
    /// however little there is to do; [`Device::auto`] leaves to the CPU's threads what they do about as
    /// fast as CUDA starts, what CUDA has no kernel for, and the rest of the work where the device falls
    /// short of memory. The edges are the same. Pearson's values are within 10⁻⁵ of f64's, not bit for bit
    /// the CPU's; those of rank correlations, time warping, coherence and places are. Values at
    /// several lags are f64's, and edges and lags those of the CPU.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) where the user named a CUDA device that
    /// has no kernel for what is asked for.
    pub fn on(self, device: &Device) -> Result<Self> {
        self.on_for(device, 1.0)
    }

    /// [`on`](Self::on) `device` for so many `runs`.
    pub(crate) fn on_for(mut self, device: &Device, runs: f64) -> Result<Self> {
        let can = limits::can(&self.spec, self.nodes);
        if let (Err(e), true) = (&can, device.is_explicit() && !device.is_cpu()) {
            return Err(e.clone());
        }
        let work = match can {
            // Its kernel is compared with plain loops on a CPU alone so far: only who names a GPU gets it.
            _ if matches!(self.spec.measure, Measure::Lagged { .. }) => Work::Gains(false),
            Err(_) => Work::Gains(false),
            Ok(()) => Work::Amount {
                amount: self.estimate().seconds * runs,
                gains_from: if device.is_started() { 0.03 } else { 1.0 },
            },
        };
        self.placement = Arc::new(Placement::decide(device, work));
        Ok(self)
    }

    /// The place of the run; after a run also the memory that the device lacked, if it did.
    pub fn ran(&self) -> Ran {
        self.placement.ran("walk")
    }

    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The windows.
    pub fn windows(&self) -> &WindowGrid {
        &self.grid
    }

    /// The registers it will run on.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The specification.
    pub fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    pub(crate) fn chunks(&self) -> Vec<Chunk> {
        self.grid.chunks(self.chunk_windows)
    }

    /// Time and memory of a run.
    pub fn estimate(&self) -> Estimate {
        let nodes = self.nodes as u64;
        let pairs = nodes * nodes.saturating_sub(1) / 2;
        let windows = self.grid.len();
        let pair_windows = pairs as f64 * windows as f64;
        let threads = rayon::current_num_threads();
        let chunks = self.chunks();
        let largest = chunks
            .iter()
            .map(|c| self.chunk_bytes(c))
            .max()
            .unwrap_or(0);
        let longest = chunks.iter().map(|c| c.windows).max().unwrap_or(1);
        let room = threads as u128 * (longest * crate::tile::MAX_PAIRS * 8) as u128;
        let steps: f64 = chunks.iter().map(|c| self.steps_of(c)).sum();
        Estimate {
            windows,
            pairs,
            pair_windows,
            trailing: self.grid.trailing(),
            bytes: u64::try_from(largest + room).unwrap_or(u64::MAX),
            seconds: pairs as f64 * steps / 3.0 / self.rate(threads),
        }
    }

    /// Bytes that the samples of a chunk take once they are prepared.
    fn chunk_bytes(&self, chunk: &Chunk) -> u128 {
        match RankMeasure::of(self.spec.measure) {
            Some(measure) => rank::cost(measure, chunk, self.nodes).1,
            None if matches!(self.spec.measure, Measure::Distance { .. }) => {
                // A thread's grid of places, and its lists of pairs until they are sorted.
                let grid = self.nodes as u128 * 128 + (1 << 26);
                grid * chunk.windows.min(rayon::current_num_threads()) as u128
            }
            None if matches!(self.spec.measure, Measure::Warping { .. }) => {
                warp::bytes(self.nodes, chunk.window.length)
            }
            None => match Coherence::of(self.spec.measure) {
                Some(coherence) => coherence.bytes(self.nodes, chunk.window.length),
                None => panel::bytes(chunk, self.nodes, self.panel_options().of),
            },
        }
    }

    /// Steps per pair: one window from zero, then the steps of the others; two steps and the filter are what the rate
    /// was measured with.
    pub(crate) fn steps_of(&self, chunk: &Chunk) -> f64 {
        if let Some(measure) = RankMeasure::of(self.spec.measure) {
            // A word takes about two steps: its products, or its bits' counts.
            return 2.0 * rank::cost(measure, chunk, self.nodes).0;
        }
        if let Measure::Distance { near, gap, .. } = self.spec.measure {
            // A node's cells take about as long as 300 steps, at some of the instants.
            let share = ((gap + 1) as f64 / (near - gap) as f64).min(1.0);
            let instants = self.spec.window.length as f64 * chunk.windows as f64 * share;
            return 600.0 * instants / self.nodes.max(1) as f64;
        }
        if let Measure::Warping { band, .. } = self.spec.measure {
            // A cell takes about eight steps; bounds may leave most pairs out.
            let length = self.spec.window.length as f64;
            let cells = length * (2.0 * band as f64 + 1.0).min(length);
            return 8.0 * cells * chunk.windows as f64;
        }
        if let Some(coherence) = Coherence::of(self.spec.measure) {
            // Four products of f64 for each of a segment's frequencies.
            let products = coherence.bins() * coherence.segments(self.spec.window.length);
            return 8.0 * products as f64 * chunk.windows as f64;
        }
        let (w, s) = (self.spec.window.length as f64, self.spec.window.step as f64);
        let on_device =
            matches!(self.spec.measure, Measure::Lagged { .. }) && !self.placement.is_cpu();
        let further = if on_device || direct(chunk) || self.panel_options().of.starts_from_zero() {
            w
        } else {
            2.0 * s
        };
        let walks = match self.spec.measure {
            Measure::Lagged { lags } => 2.0 * lags as f64 + 1.0,
            _ => 1.0,
        };
        walks * (w + (chunk.windows - 1) as f64 * further + chunk.windows as f64)
    }

    /// Pairs times windows per second, of two steps each.
    fn rate(&self, threads: usize) -> f64 {
        /// Of a multiprocessor: a sketch of the walk reached 5.5e12 on the 132 of an H200.
        const MULTIPROCESSOR: f64 = 4e10;
        /// Time warping in f64, whose sums wait for each other.
        const WARPING: f64 = 4e9;
        /// Sums in f64.
        const SUMS: f64 = 1e10;
        let multiprocessor = match self.spec.measure {
            Measure::Warping { .. } => WARPING,
            Measure::Coherence { .. } | Measure::Lagged { .. } => SUMS,
            _ if sums::kind(self.spec.measure).is_some() => SUMS,
            _ => MULTIPROCESSOR,
        };
        match self.placement.contexts() {
            [] => self.arch.rate() * threads as f64,
            contexts => {
                let all = contexts.iter().map(|c| c.info().multiprocessors);
                f64::from(all.sum::<u32>().max(1)) * multiprocessor
            }
        }
    }

    pub(crate) fn same_shape(&self, signal: &Signal<'_>) -> Result<()> {
        if (signal.samples(), signal.nodes()) != (self.samples, self.nodes) {
            return Err(Error::mismatch(format!(
                "signal: expected ({}, {}) samples and nodes as planned, got ({}, {})",
                self.samples,
                self.nodes,
                signal.samples(),
                signal.nodes()
            )));
        }
        Ok(())
    }

    pub(crate) fn meta(&self, signal: &Signal<'_>) -> Meta {
        Meta {
            spec: self.spec,
            nodes: self.nodes,
            samples: self.samples,
            sample_seconds: signal.sample_seconds(),
            trailing: self.grid.trailing(),
            rechecked: 0,
            rebuilt: 0,
            extreme: 0,
            device: self.device(),
        }
    }

    /// The place of the run: `cpu` and the kind of registers, or `cuda:N`, or `cuda:all`.
    pub fn device(&self) -> String {
        if self.placement.is_cpu() {
            return format!("cpu {}", self.arch.name());
        }
        self.ran().device
    }
}

/// A measure of spike times is asked of a signal.
pub(crate) fn spikes_only() -> Error {
    Error::argument("sttc: expected spike times (`SpikeTrains::tiling_network`), got a signal")
}
