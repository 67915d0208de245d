//! A plan at work: chunk after chunk, on the CPU or a device, to edges in order.

use betz_base::progress::check;
use betz_base::{Error, ErrorKind, Progress, Result};

use crate::block::Making;
use crate::chunk::Done;
use crate::cuda::Walkers;
use crate::engine::{Counts, too_many};
use crate::hold::Hold;
use crate::network::{Meta, Network, WindowEdges, Windows};
use crate::panel::Panels;
use crate::plan::Plan;
use crate::signal::Signal;
use crate::spec::Measure;
use crate::window::Chunk;

impl Plan {
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
    /// [`NetworkSpec::max_edges`](crate::NetworkSpec::max_edges), [`Interrupted`](betz_base::ErrorKind::Interrupted) once `progress`
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
        let mut device = self.walkers(signal)?;
        let limit = (device.as_ref()).map_or(self.chunk_windows, Walkers::windows);
        self.each_by(
            &mut device,
            &self.grid.chunks(limit),
            (signal, progress),
            meta,
            take,
        )
    }

    /// The windows of `chunks`, in order.
    pub(crate) fn each_of(
        &self,
        chunks: &[Chunk],
        signal: &Signal<'_>,
        progress: &dyn Progress,
        meta: &mut Meta,
        take: &mut dyn FnMut(Windows) -> Result<()>,
    ) -> Result<()> {
        self.same_shape(signal)?;
        let mut device = self.walkers(signal)?;
        // A device takes so many windows at once; where runs begin does not follow from it.
        let limit = device.as_ref().map_or(usize::MAX, Walkers::windows);
        let chunks: Vec<Chunk> = chunks
            .iter()
            .flat_map(|chunk| chunk.pieces(limit))
            .collect();
        self.each_by(&mut device, &chunks, (signal, progress), meta, take)
    }

    /// What walks on the plan's devices; none where the CPU does all.
    fn walkers(&self, signal: &Signal<'_>) -> Result<Option<Walkers>> {
        if self.placement().is_cpu() {
            return Ok(None);
        }
        self.placement()
            .or_cpu(Walkers::open(self, signal, self.limits))
    }

    fn each_by(
        &self,
        device: &mut Option<Walkers>,
        chunks: &[Chunk],
        (signal, progress): (&Signal<'_>, &dyn Progress),
        meta: &mut Meta,
        take: &mut dyn FnMut(Windows) -> Result<()>,
    ) -> Result<()> {
        let mut left = self.spec.max_edges;
        let mut hold = Hold::of(&self.spec);
        let (mut windows, all) = (0, chunks.iter().map(|c| c.windows as u64).sum());
        let mut give = |chunk: &Chunk, done: Done, meta: &mut Meta, left: &mut u64| {
            let Done {
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
        for &chunk in chunks {
            check(progress, "network")?;
            let done = match &mut *device {
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
            *device = None;
            for piece in chunk.pieces(self.chunk_windows) {
                check(progress, "network")?;
                let done = self.chunk(signal, piece, left, progress)?;
                give(&piece, done, meta, &mut left)?;
            }
        }
        meta.device = self.device();
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
}
