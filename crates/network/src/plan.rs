//! From a specification and a signal's shape to a network.

use betz_base::progress::check;
use betz_base::{Error, ErrorKind, Progress, Result};

use rayon::prelude::*;

use crate::block::{Making, Rules, direct};
use crate::engine::{ChunkEdges, Counts, Cut, correlate, exact, too_many};
use crate::network::{Meta, Network, WindowEdges, Windows};
use crate::oracle::Undefined;
use crate::pairs::{Correlation, Lagged, Moments};
use crate::panel::{self, Panels};
use crate::partial;
use crate::phase::Phases;
use crate::scan::{self, Keep};
use crate::signal::Signal;
use crate::spec::{Measure, NetworkSpec, Sign, Threshold};
use crate::tile::Arch;
use crate::window::{Chunk, WindowGrid};

/// Most windows that are worked on at once.
fn chunk_windows(spec: &NetworkSpec, nodes: usize) -> usize {
    let (w, s) = (spec.window.length, spec.window.step);
    let windows = match spec.measure {
        // Every window from zero.
        Measure::Spearman => panel::chunk_windows(w, w),
        // Panels for each lag at once.
        Measure::Lagged { lags } => (panel::chunk_windows(w, s) * 8 / (lags + 8)).max(1),
        // A matrix of all pairs for each window at work.
        Measure::Partial => 4 * rayon::current_num_threads(),
        _ => panel::chunk_windows(w, s),
    };
    // Lists that are kept until a chunk is done: 2 × 48 bytes a pair kept, up to a GiB.
    let lists = match spec.threshold {
        Threshold::TopPerNode(count) => {
            nodes.saturating_mul(count.saturating_mul(2).saturating_add(64))
        }
        Threshold::Top(count) => count.saturating_mul(2),
        _ => 0,
    };
    windows.min(((1 << 30) / 48 / lists.max(1)).max(1))
}

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
        if spec.measure == Measure::Partial {
            scan::at_most(signal.nodes(), partial::MOST_NODES, "partial correlation")?;
        }
        Ok(Self {
            spec: *spec,
            grid,
            samples: signal.samples(),
            nodes: signal.nodes(),
            arch: Arch::best(),
            rules: Rules::default(),
            chunk_windows: chunk_windows(spec, signal.nodes()),
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
            .map(|c| panel::bytes(c, self.nodes, self.making().ranked))
            .max()
            .unwrap_or(0);
        let longest = chunks.iter().map(|c| c.windows).max().unwrap_or(1);
        let room = threads as u128 * (longest * crate::tile::MAX_PAIRS * 8) as u128;
        // Steps a pair: one window from zero in every chunk, then the steps of the others; two steps
        // and the filter are what the rate was measured with.
        let steps: f64 = (chunks.iter())
            .map(|c| {
                let further = if direct(c) { w } else { 2.0 * s };
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
        let mut meta = self.meta(signal);
        self.each_chunk(signal, progress, &mut meta, &mut |chunk| {
            network.absorb(chunk);
            Ok(())
        })?;
        network.meta = meta;
        Ok(network)
    }

    /// [`Plan::run`], but a request to stop leaves the windows that are done: the network has them
    /// whole, and fewer of them than [`Plan::windows`].
    ///
    /// # Errors
    /// As for [`Plan::stream`]; [`Interrupted`](betz_base::ErrorKind::Interrupted) only before the first
    /// window is done.
    pub fn run_until_stopped(
        &self,
        signal: &Signal<'_>,
        progress: &dyn Progress,
    ) -> Result<Network> {
        let mut network = Network::empty(self.meta(signal));
        let mut meta = self.meta(signal);
        let done = self.each_chunk(signal, progress, &mut meta, &mut |chunk| {
            network.absorb(chunk);
            Ok(())
        });
        match done {
            Err(e) if e.kind() != ErrorKind::Interrupted || network.is_empty() => return Err(e),
            _ => network.meta = meta,
        }
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
        let mut meta = self.meta(signal);
        self.each_chunk(signal, progress, &mut meta, &mut |chunk| {
            for q in 0..chunk.len() {
                take(&chunk.window(q))?;
            }
            Ok(())
        })?;
        Ok(meta)
    }

    fn each_chunk(
        &self,
        signal: &Signal<'_>,
        progress: &dyn Progress,
        meta: &mut Meta,
        take: &mut dyn FnMut(Windows) -> Result<()>,
    ) -> Result<()> {
        self.same_shape(signal)?;
        let chunks = self.chunks();
        let mut left = self.spec.max_edges;
        let mut hold = match self.spec.measure {
            Measure::Distance { hold } if hold > 1 => {
                let step = self.spec.window.step;
                Some(Hold {
                    windows: hold,
                    step,
                    start: None,
                    near: Vec::new(),
                })
            }
            _ => None,
        };
        for (done, chunk) in chunks.iter().enumerate() {
            check(progress, "network")?;
            progress.update("network", done as u64, chunks.len() as u64);
            let Done {
                mut edges,
                undefined,
                extreme,
            } = self.chunk(signal, *chunk, left, progress)?;
            if let Some(hold) = &mut hold {
                hold.filter(chunk, &mut edges);
            }
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
        Ok(())
    }

    /// How many pairs and windows have a size (magnitude, or value of the sign asked for) in each of
    /// `bins` equal parts of 0 to 1; sizes below 0 are left out. Pearson and Spearman correlations only.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for another measure or no bin; as for
    /// [`Plan::stream`].
    pub fn histogram(
        &self,
        signal: &Signal<'_>,
        bins: usize,
        progress: &dyn Progress,
    ) -> Result<Vec<u64>> {
        self.same_shape(signal)?;
        if !matches!(self.spec.measure, Measure::Pearson | Measure::Spearman) {
            return Err(Error::argument(format!(
                "histogram: expected pearson or spearman, got {}",
                self.spec.measure.name()
            )));
        }
        if bins == 0 {
            return Err(Error::argument("histogram: expected at least 1 bin, got 0"));
        }
        let mut counts = vec![0; bins];
        // Sizes are looked up by sign here: rows keep theirs.
        let making = Making {
            negative: false,
            ..self.making()
        };
        for chunk in self.chunks() {
            check(progress, "histogram")?;
            let panels = Panels::new(signal, chunk, making);
            let of = crate::pairs::histogram(signal, &panels, self.spec.sign, bins);
            counts.iter_mut().zip(of).for_each(|(a, b)| *a += b);
        }
        Ok(counts)
    }

    fn keep(&self) -> Keep {
        match self.spec.threshold {
            Threshold::Absolute(value) => {
                let threshold = match self.spec.measure {
                    Measure::Distance { .. } => -value,
                    // I = −½ ln(1 − r²)
                    Measure::GaussianInformation => (-(-2.0 * value).exp_m1()).sqrt(),
                    _ => value,
                };
                Keep::Reaching {
                    threshold,
                    strict: self.spec.strict,
                }
            }
            Threshold::Density(share) => {
                let pairs = self.nodes as f64 * (self.nodes as f64 - 1.0) / 2.0;
                Keep::Strongest((share * pairs).round() as usize)
            }
            Threshold::Top(count) => {
                Keep::Strongest(count.min(self.nodes.saturating_mul(self.nodes)))
            }
            Threshold::TopPerNode(count) => Keep::StrongestPerNode(count),
        }
    }

    fn making(&self) -> Making {
        let measure = self.spec.measure;
        Making {
            arch: self.arch,
            rules: self.rules,
            // Large sums are then what a tile looks for.
            negative: self.spec.sign == Sign::Negative
                && matches!(measure, Measure::Pearson | Measure::Spearman),
            moments: matches!(measure, Measure::Covariance | Measure::Distance { .. }),
            ranked: measure == Measure::Spearman,
        }
    }

    fn chunk(
        &self,
        signal: &Signal<'_>,
        chunk: Chunk,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<Done> {
        let (keep, sign, rules) = (self.keep(), self.spec.sign, self.rules);
        let panels = |chunk: Chunk| Panels::new(signal, chunk, self.making());
        match self.spec.measure {
            Measure::Pearson | Measure::GaussianInformation | Measure::Spearman => {
                let panels = panels(chunk);
                let mut edges = if let Keep::Reaching { threshold, strict } = keep {
                    let cut = Cut {
                        thresholds: vec![threshold; chunk.windows],
                        sign,
                        strict,
                        most,
                    };
                    correlate(signal, &panels, &cut, rules, progress)?
                } else {
                    scan::scan(
                        &Correlation {
                            signal,
                            panels: &panels,
                            rules,
                            sign,
                        },
                        keep,
                        most,
                        progress,
                    )?
                };
                if self.spec.measure == Measure::GaussianInformation {
                    informations(signal, &panels, &mut edges);
                }
                let extreme = panels.extreme.len() as u64;
                Ok(Done {
                    edges,
                    undefined: panels.undefined,
                    extreme,
                })
            }
            Measure::Covariance | Measure::Distance { .. } => {
                let panels = panels(chunk);
                let distance = self.spec.measure != Measure::Covariance;
                let pairs = Moments {
                    signal,
                    panels: &panels,
                    rules,
                    sign,
                    distance,
                };
                let edges = scan::scan(&pairs, keep, most, progress)?;
                let extreme = panels.extreme.len() as u64;
                // A constant node has a covariance (0) and distances.
                let undefined = (panels.undefined.into_iter())
                    .filter(|(_, _, why)| *why == Undefined::NonFinite)
                    .collect();
                Ok(Done {
                    edges,
                    undefined,
                    extreme,
                })
            }
            Measure::Lagged { lags } => {
                let rows = panels(chunk);
                let shifted: Vec<Panels> = (0..=2 * lags)
                    .map(|shift| {
                        panels(Chunk {
                            start: chunk.start + shift - lags,
                            ..chunk
                        })
                    })
                    .collect();
                let pairs = Lagged {
                    signal,
                    rows: &rows,
                    shifted: &shifted,
                    rules,
                    sign,
                };
                let edges = scan::scan(&pairs, keep, most, progress)?;
                let extreme = rows.extreme.len() as u64;
                Ok(Done {
                    edges,
                    undefined: rows.undefined,
                    extreme,
                })
            }
            Measure::PhaseLocking | Measure::ImaginaryPhaseLocking | Measure::PhaseConsistency => {
                let phases = Phases::new(signal, chunk, self.arch, self.spec.measure, rules.margin);
                let edges = scan::scan(&phases, keep, most, progress)?;
                Ok(Done {
                    edges,
                    undefined: phases.undefined,
                    extreme: 0,
                })
            }
            Measure::Partial => {
                let windows: Vec<_> = (0..chunk.windows)
                    .into_par_iter()
                    .map(|q| {
                        check(progress, "partial correlation")?;
                        partial::window(signal, chunk.start_of(q), chunk.window.length)
                    })
                    .collect::<Result<_>>()?;
                let (mut lists, mut undefined) = (Vec::new(), Vec::new());
                for (q, (list, left_out)) in windows.into_iter().enumerate() {
                    lists.push(list);
                    undefined.extend(
                        left_out
                            .into_iter()
                            .map(|(node, why)| (q as u32, node, why)),
                    );
                }
                let edges = scan::keep_exact(lists, self.nodes, keep, |v| sign.size(v), most)?;
                Ok(Done {
                    edges,
                    undefined,
                    extreme: 0,
                })
            }
        }
    }
}

/// A chunk's edges, and what was counted.
struct Done {
    edges: ChunkEdges,
    undefined: Vec<(u32, u32, Undefined)>,
    extreme: u64,
}

/// Makes Gaussian informations of correlations: from f64 where f32 would not do.
fn informations(signal: &Signal<'_>, panels: &Panels, edges: &mut ChunkEdges) {
    let ChunkEdges {
        indptr, i, j, r, ..
    } = edges;
    let mut rest = &mut r[..];
    let mut windows = Vec::new();
    for q in 0..panels.chunk.windows {
        let (now, later) = rest.split_at_mut((indptr[q + 1] - indptr[q]) as usize);
        windows.push(now);
        rest = later;
    }
    windows.into_par_iter().enumerate().for_each(|(q, r)| {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for (e, r) in r.iter_mut().enumerate() {
            let at = indptr[q] as usize + e;
            let mut value = f64::from(*r);
            // dI/dr = r/(1 − r²) carries the error of an f32 correlation beyond 1e-5 from here on.
            if value.abs() > 0.5 {
                value = exact(
                    signal,
                    panels,
                    q,
                    i[at] as usize,
                    j[at] as usize,
                    &mut x,
                    &mut y,
                )
                .unwrap_or(value);
            }
            *r = crate::oracle::gaussian_information(value) as f32;
        }
    });
}

/// Distances that have lasted: the pairs of the window before and for how many windows they were near.
struct Hold {
    windows: usize,
    step: usize,
    start: Option<u64>,
    near: Vec<((u32, u32), usize)>,
}

impl Hold {
    /// Takes out of a chunk's windows what has not lasted.
    fn filter(&mut self, chunk: &Chunk, edges: &mut ChunkEdges) {
        let mut kept = ChunkEdges {
            indptr: vec![0],
            counts: edges.counts,
            ..ChunkEdges::default()
        };
        for q in 0..chunk.windows {
            let start = chunk.start_of(q) as u64;
            if self
                .start
                .is_none_or(|before| before + self.step as u64 != start)
            {
                self.near.clear();
            }
            self.start = Some(start);
            let mut near = Vec::new();
            let mut before = self.near.iter().peekable();
            for e in edges.indptr[q] as usize..edges.indptr[q + 1] as usize {
                let pair = (edges.i[e], edges.j[e]);
                while before.next_if(|(other, _)| *other < pair).is_some() {}
                let lasted = 1 + before
                    .next_if(|(other, _)| *other == pair)
                    .map_or(0, |(_, n)| *n);
                near.push((pair, lasted));
                if lasted >= self.windows {
                    kept.i.push(pair.0);
                    kept.j.push(pair.1);
                    kept.r.push(edges.r[e]);
                }
            }
            self.near = near;
            kept.indptr.push(kept.r.len() as u64);
        }
        *edges = kept;
    }
}
