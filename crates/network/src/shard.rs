//! A share of a network's windows, computed by itself: with the other shares it is the network, to the last bit.

use std::ops::Range;

use betz_base::team::Shard;
use betz_base::{Progress, Result};

use crate::network::Network;
use crate::plan::Plan;
use crate::signal::Signal;
use crate::spec::Measure;
use crate::window::Chunk;

impl Plan {
    /// The windows of one shard: those of [`Plan::run`], to the last bit on the CPU, for shards are made of the runs of
    /// windows whose sums slide. Where there are more shards than runs some have no window. On a device, whose runs
    /// follow from its memory, edges are the same and values within rounding.
    ///
    /// ```
    /// use betz_base::team::Shard;
    /// use betz_network::{NetworkSpec, Plan, Signal, Threshold, Window};
    ///
    /// let samples: Vec<f32> = (0..1200_u32).map(|t| (t * t % 83) as f32).collect();
    /// let signal = Signal::new(&samples, 3)?;
    /// let spec = NetworkSpec::pearson(Window { length: 50, step: 1 }).threshold(Threshold::Top(1));
    /// let plan = Plan::new(&spec, &signal)?;
    /// let (first, second) = (Shard::new(1, 2)?, Shard::new(2, 2)?);
    /// let windows = [first, second].map(|shard| plan.run_shard(shard, &signal, &()).map(|n| n.len()));
    /// assert_eq!(windows.into_iter().sum::<Result<usize, _>>()?, plan.windows().len());
    /// # Ok::<(), betz_network::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Plan::stream`]; [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for distances that have to last,
    /// which go from window to window.
    pub fn run_shard(
        &self,
        shard: Shard,
        signal: &Signal<'_>,
        progress: &dyn Progress,
    ) -> Result<Network> {
        self.check_apart("shards")?;
        let mut network = Network::empty(self.meta(signal));
        let mut meta = self.meta(signal);
        let own = self.chunks_of(shard);
        self.each_of(&own, signal, progress, &mut meta, &mut |chunk| {
            network.absorb(chunk);
            Ok(())
        })?;
        network.meta = meta;
        Ok(network)
    }

    /// The numbers of the windows of `shard`.
    pub fn windows_of(&self, shard: Shard) -> Range<usize> {
        let own = self.chunks_of(shard);
        let before: usize = match own.first() {
            Some(chunk) => chunk.first,
            // After the last of those before.
            None => (self.runs()[..shard.among(self.runs().len()).start].last())
                .map_or(0, |chunk| chunk.first + chunk.windows),
        };
        before..before + own.iter().map(|chunk| chunk.windows).sum::<usize>()
    }

    /// Most windows of a run; where shards begin follows from it.
    pub(crate) fn run_windows(&self) -> usize {
        match self.spec.measure {
            // Each by itself, and as many at once as there are threads for.
            Measure::Partial => 1,
            _ => self.chunk_windows,
        }
    }

    fn runs(&self) -> Vec<Chunk> {
        self.grid.chunks(self.run_windows())
    }

    fn chunks_of(&self, shard: Shard) -> Vec<Chunk> {
        let runs = self.runs();
        let own = &runs[shard.among(runs.len())];
        if self.spec.measure != Measure::Partial {
            return own.to_vec();
        }
        let mut chunks: Vec<Chunk> = Vec::new();
        for run in own {
            match chunks.last_mut() {
                Some(last) if last.start_of(last.windows) == run.start => {
                    last.windows += run.windows;
                }
                _ => chunks.push(*run),
            }
        }
        chunks
    }
}
