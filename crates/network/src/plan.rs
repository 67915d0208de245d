//! From a specification and a signal's shape to a network.

use betz_base::progress::check;
use betz_base::{Error, Progress, Result};

use crate::engine::{ChunkEdges, Counts, Cut, correlate, too_many};
use crate::network::{Meta, Network, WindowEdges, Windows};
use crate::oracle::Undefined;
use crate::panel::{self, Panels, Rules};
use crate::signal::Signal;
use crate::spec::{Measure, NetworkSpec, Threshold};
use crate::tile::Arch;
use crate::window::{Chunk, WindowGrid};

/// What a plan will take, before anything is computed.
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
    /// Bytes beside the signal and the edges: panels and each thread's room.
    pub bytes: u64,
    /// Seconds on the threads of rayon's current pool, edges aside; of the right order.
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
    spec: NetworkSpec,
    grid: WindowGrid,
    samples: usize,
    nodes: usize,
    arch: Arch,
    pub(crate) rules: Rules,
    pub(crate) chunk_windows: usize,
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
        let margin = match spec.measure {
            Measure::Lagged { lags } => lags,
            _ => 0,
        };
        let grid = WindowGrid::with_margin(signal, spec.window, margin)?;
        Ok(Self {
            spec: *spec,
            grid,
            samples: signal.samples(),
            nodes: signal.nodes(),
            arch: Arch::best(),
            rules: Rules::default(),
            chunk_windows: panel::chunk_windows(spec.window.length, spec.window.step),
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

    /// The windows.
    pub fn windows(&self) -> &WindowGrid {
        &self.grid
    }

    /// The registers it will run on.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// What was asked for.
    pub fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    fn chunks(&self) -> Vec<Chunk> {
        self.grid.chunks(self.chunk_windows)
    }

    /// What it will take.
    pub fn estimate(&self) -> Estimate {
        let nodes = self.nodes as u64;
        let pairs = nodes * nodes.saturating_sub(1) / 2;
        let windows = self.grid.len();
        let pair_windows = pairs as f64 * windows as f64;
        let threads = rayon::current_num_threads();
        let (w, s) = (self.spec.window.length as f64, self.spec.window.step as f64);
        let chunks = self.chunks();
        let largest = chunks
            .iter()
            .map(|c| panel::bytes(c, self.nodes))
            .max()
            .unwrap_or(0);
        let longest = chunks.iter().map(|c| c.windows).max().unwrap_or(1);
        let room = threads as u128 * (longest * crate::tile::MAX_PAIRS * 8) as u128;
        // Steps a pair: one window from zero in every chunk, then the steps of the others; two steps
        // and the filter are what the rate was measured with.
        let steps: f64 = (chunks.iter())
            .map(|c| {
                let further = if panel::direct(c) { w } else { 2.0 * s };
                w + (c.windows - 1) as f64 * further + c.windows as f64
            })
            .sum();
        Estimate {
            windows,
            pairs,
            pair_windows,
            trailing: self.grid.trailing(),
            bytes: u64::try_from(largest + room).unwrap_or(u64::MAX),
            seconds: pairs as f64 * steps / 3.0 / self.arch.rate() / threads as f64,
        }
    }

    fn same_shape(&self, signal: &Signal<'_>) -> Result<()> {
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
            device: format!("cpu {}", self.arch.name()),
        }
    }

    /// The whole network in memory: 12 bytes an edge.
    ///
    /// # Errors
    /// As for [`Plan::stream`].
    pub fn run(&self, signal: &Signal<'_>, progress: &dyn Progress) -> Result<Network> {
        let mut network = Network::empty(self.meta(signal));
        let meta = self.each_chunk(signal, progress, &mut |chunk| {
            network.absorb(chunk);
            Ok(())
        })?;
        network.meta = meta;
        Ok(network)
    }

    /// Hands every window's edges to `take`, in order, as soon as its chunk is done: memory is that of
    /// [`Plan::estimate`] and one chunk's edges. The same edges in the same order, and the same bits,
    /// for any number of threads.
    ///
    /// # Errors
    /// [`Mismatch`](betz_base::ErrorKind::Mismatch) for a signal of another shape than planned,
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for more edges than
    /// [`NetworkSpec::max_edges`], [`Interrupted`](betz_base::ErrorKind::Interrupted) once `progress`
    /// asks to stop, and what `take` returns.
    pub fn stream(
        &self,
        signal: &Signal<'_>,
        progress: &dyn Progress,
        mut take: impl FnMut(&WindowEdges<'_>) -> Result<()>,
    ) -> Result<Meta> {
        self.each_chunk(signal, progress, &mut |chunk| {
            for q in 0..chunk.len() {
                take(&chunk.window(q))?;
            }
            Ok(())
        })
    }

    fn each_chunk(
        &self,
        signal: &Signal<'_>,
        progress: &dyn Progress,
        take: &mut dyn FnMut(Windows) -> Result<()>,
    ) -> Result<Meta> {
        self.same_shape(signal)?;
        let mut meta = self.meta(signal);
        let chunks = self.chunks();
        let mut left = self.spec.max_edges;
        for (done, chunk) in chunks.iter().enumerate() {
            check(progress, "network")?;
            progress.update("network", done as u64, chunks.len() as u64);
            let (edges, undefined, extreme) = self.chunk(signal, *chunk, left, progress)?;
            left = (left.checked_sub(edges.r.len() as u64))
                .ok_or_else(|| too_many(self.spec.max_edges))?;
            let Counts {
                rechecked, rebuilt, ..
            } = edges.counts;
            meta.rechecked += rechecked;
            meta.rebuilt += rebuilt;
            meta.extreme += extreme;
            take(Windows::new(chunk, edges, &undefined))?;
        }
        progress.update("network", chunks.len() as u64, chunks.len() as u64);
        Ok(meta)
    }

    fn chunk(
        &self,
        signal: &Signal<'_>,
        chunk: Chunk,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<(ChunkEdges, Vec<(u32, u32, Undefined)>, u64)> {
        let negative = self.spec.sign == crate::spec::Sign::Negative;
        let panels = Panels::new(signal, chunk, self.arch, self.rules, negative);
        let Threshold::Absolute(threshold) = self.spec.threshold else {
            return Err(Error::argument("not yet"));
        };
        let cut = Cut {
            thresholds: vec![threshold; chunk.windows],
            sign: self.spec.sign,
            strict: self.spec.strict,
            most,
        };
        let edges = correlate(signal, &panels, &cut, self.rules, progress)?;
        let extreme = panels.extreme.len() as u64;
        Ok((edges, panels.undefined, extreme))
    }
}
