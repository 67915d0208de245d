//! A plan at work: chunk after chunk, on the CPU or a device, to edges in order.

use betz_base::progress::check;
use betz_base::team::{Shard, Team};
use betz_base::{Error, ErrorKind, Progress, Result};

use crate::block::PanelOptions;
use crate::chunk::ChunkResult;
use crate::cuda::Walkers;
use crate::engine::{Counts, too_many};
use crate::hold::Hold;
use crate::network::{Meta, Network, WindowEdges, Windows};
use crate::panel::Panels;
use crate::plan::Plan;
use crate::rank::{RankMeasure, RankPanels};
use crate::signal::Signal;
use crate::spec::Measure;
use crate::window::Chunk;

/// Options of a run: which windows it computes, who takes part, and what an interruption leaves.
/// The default computes every window in this process.
#[derive(Clone, Copy, Default)]
pub struct Run<'a> {
    /// Computes one of several shares of the windows: those of the whole network, to the last bit on the CPU,
    /// because shards are made of the runs of windows whose sums slide. If there are more shards than runs, some
    /// have no window. On a device, whose runs follow from its memory, edges are the same and values agree within
    /// rounding.
    pub shard: Option<Shard>,
    /// Shares the work with other processes, each of which has the whole signal; the first gets the network. With
    /// [`Threshold::Absolute`](crate::Threshold::Absolute) on CPUs, except for partial correlations, the pairs of a
    /// window are shared out, too, and edges and values are those of one process to the last bit. Otherwise windows
    /// are shared out in runs of their own: edges and values are the same for any team.
    pub team: Option<&'a dyn Team>,
    /// Keeps the windows that are done if progress asks to stop: the network then has fewer than
    /// [`Plan::windows`], each of them whole.
    pub keep_finished: bool,
}

impl Plan {
    /// Computes the whole network in memory: 12 bytes per edge.
    ///
    /// # Errors
    /// The errors of [`Plan::stream`].
    pub fn run(&self, signal: &Signal<'_>, progress: &dyn Progress) -> Result<Network> {
        let mut network = Network::empty(self.meta(signal));
        let all = self.grid.chunks(usize::MAX);
        self.collect(&all, signal, progress, &mut network)?;
        Ok(network)
    }

    /// Computes the network as `run` says; `None` in every process of a team but the first.
    ///
    /// ```
    /// use betz_base::team::Shard;
    /// use betz_network::{NetworkSpec, Plan, Run, Signal, Threshold, Window};
    ///
    /// let samples: Vec<f32> = (0..1200_u32).map(|t| (t * t % 83) as f32).collect();
    /// let signal = Signal::new(&samples, 3)?;
    /// let spec = NetworkSpec::pearson(Window { length: 50, step: 1 }).threshold(Threshold::Top(1));
    /// let plan = Plan::new(&spec, &signal)?;
    /// let mut windows = 0;
    /// for shard in [Shard::new(1, 2)?, Shard::new(2, 2)?] {
    ///     let run = Run { shard: Some(shard), ..Run::default() };
    ///     windows += plan.run_with(run, &signal, &())?.map_or(0, |network| network.len());
    /// }
    /// assert_eq!(windows, plan.windows().len());
    /// # Ok::<(), betz_network::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Plan::stream`]; [`InvalidArgument`](ErrorKind::InvalidArgument) for a shard in a team, and for a
    /// shard or team where distances have to last, which go from window to window; errors of the team. With
    /// `keep_finished`, [`Interrupted`](ErrorKind::Interrupted) only before the first window is done.
    pub fn run_with(
        &self,
        run: Run<'_>,
        signal: &Signal<'_>,
        progress: &dyn Progress,
    ) -> Result<Option<Network>> {
        let mut network = Network::empty(self.meta(signal));
        let own = match (run.shard, run.team) {
            (None, None) => self.grid.chunks(usize::MAX),
            (Some(shard), None) => {
                self.check_apart("shards")?;
                self.chunks_of(shard)
            }
            (None, Some(team)) => {
                self.check_apart("a team")?;
                return self.run_in(team, signal, progress);
            }
            (Some(shard), Some(_)) => {
                return Err(Error::argument(format!(
                    "shard: expected none in a team, whose processes share out windows, got {shard}"
                )));
            }
        };
        match self.collect(&own, signal, progress, &mut network) {
            Err(e) if e.kind() != ErrorKind::Interrupted => Err(e),
            Err(e) if !run.keep_finished || network.is_empty() => Err(e),
            _ => Ok(Some(network)),
        }
    }

    /// Hands every window's edges to `take`, in order, as soon as its chunk is done: memory is that of
    /// [`Plan::estimate`] and one chunk's edges. Edges, their order and their bits are the same for any number of
    /// threads.
    ///
    /// # Errors
    /// [`Mismatch`](ErrorKind::Mismatch) for a signal of another shape than planned,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for more edges than
    /// [`NetworkSpec::max_edges`](crate::NetworkSpec::max_edges), [`Interrupted`](ErrorKind::Interrupted) once
    /// `progress` asks to stop, and errors of `take`.
    pub fn stream(
        &self,
        signal: &Signal<'_>,
        progress: &dyn Progress,
        mut take: impl FnMut(&WindowEdges<'_>) -> Result<()>,
    ) -> Result<Meta> {
        let mut meta = self.meta(signal);
        let all = self.grid.chunks(usize::MAX);
        self.walk(&all, signal, progress, &mut meta, &mut |chunk| {
            (0..chunk.len()).try_for_each(|q| take(&chunk.window(q)))
        })?;
        Ok(meta)
    }

    /// Appends the windows of `chunks` to `network`, and what was counted on the way; also those before an error.
    pub(crate) fn collect(
        &self,
        chunks: &[Chunk],
        signal: &Signal<'_>,
        progress: &dyn Progress,
        network: &mut Network,
    ) -> Result<()> {
        let mut meta = network.meta.clone();
        let walked = self.walk(chunks, signal, progress, &mut meta, &mut |chunk| {
            network.absorb(chunk);
            Ok(())
        });
        network.meta = meta;
        walked
    }

    /// Walkers on the plan's devices; `None` if the CPU does all.
    fn walkers(&self, signal: &Signal<'_>) -> Result<Option<Walkers>> {
        if self.placement().is_cpu() {
            return Ok(None);
        }
        self.placement()
            .or_cpu(Walkers::open(self, signal, self.limits))
    }

    /// Hands the windows of `chunks` to `take`, in order.
    fn walk(
        &self,
        chunks: &[Chunk],
        signal: &Signal<'_>,
        progress: &dyn Progress,
        meta: &mut Meta,
        take: &mut dyn FnMut(Windows) -> Result<()>,
    ) -> Result<()> {
        self.same_shape(signal)?;
        let mut device = self.walkers(signal)?;
        // A device takes so many windows at once; where chunks begin does not follow from it.
        let limit = device.as_ref().map_or(usize::MAX, Walkers::windows);
        let mut left = self.spec.max_edges;
        let mut hold = Hold::of(&self.spec);
        let (mut windows, all) = (0, chunks.iter().map(|c| c.windows as u64).sum());
        let mut give = |chunk: &Chunk, done: ChunkResult, meta: &mut Meta, left: &mut u64| {
            let ChunkResult {
                mut edges,
                mut undefined,
                mut extreme,
            } = done;
            if chunk.rows.from > 0 {
                // Said with the first rows.
                (undefined, extreme) = (Vec::new(), 0);
            }
            if let Some(hold) = &mut hold {
                hold.filter(chunk, &mut edges);
            }
            *left = (left.checked_sub(edges.r.len() as u64))
                .ok_or_else(|| too_many(self.spec.max_edges))?;
            let Counts {
                rechecked, rebuilt, ..
            } = edges.counts;
            meta.rechecked += rechecked;
            meta.rebuilt += rebuilt;
            meta.extreme += extreme;
            windows += chunk.windows as u64;
            take(Windows::new(chunk, edges, &undefined))?;
            progress.update("network", windows, all);
            Ok::<_, Error>(())
        };
        progress.update("network", 0, all);
        for chunk in chunks.iter().flat_map(|chunk| chunk.pieces(limit)) {
            check(progress, "network")?;
            let done = match &mut device {
                Some(walkers) => {
                    let done = walkers.chunk(self, signal, &chunk, left, progress);
                    self.placement().or_cpu(done)?
                }
                None => None,
            };
            if let Some(done) = done {
                give(&chunk, done, meta, &mut left)?;
                continue;
            }
            device = None;
            for piece in chunk.pieces(self.chunk_windows) {
                check(progress, "network")?;
                let done = self.chunk(signal, piece, left, progress)?;
                give(&piece, done, meta, &mut left)?;
            }
        }
        meta.device = self.device();
        Ok(())
    }

    /// Numbers of pairs and windows whose size (magnitude, or value of the requested sign) lies in each of
    /// `bins` equal parts of 0 to 1; sizes below 0 are left out. Pearson, Spearman and Kendall
    /// correlations only.
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
        let ranks = RankMeasure::of(self.spec.measure);
        if self.spec.measure != Measure::Pearson && ranks.is_none() {
            return Err(Error::argument(format!(
                "histogram: expected pearson, spearman or kendall, got {}",
                self.spec.measure.name()
            )));
        }
        if bins == 0 {
            return Err(Error::argument("histogram: expected at least 1 bin, got 0"));
        }
        let mut counts = vec![0; bins];
        // Sizes are looked up by sign here: rows keep theirs.
        let making = PanelOptions {
            negative: false,
            ..self.panel_options()
        };
        for chunk in self.chunks() {
            check(progress, "histogram")?;
            let of = match ranks {
                Some(measure) => {
                    let way = (self.arch, self.spec.sign);
                    RankPanels::new(signal, chunk, measure, way).histogram(bins)
                }
                None => {
                    let panels = Panels::new(signal, chunk, making);
                    crate::pairs::histogram(signal, &panels, self.spec.sign, bins)
                }
            };
            counts.iter_mut().zip(of).for_each(|(a, b)| *a += b);
        }
        Ok(counts)
    }
}
