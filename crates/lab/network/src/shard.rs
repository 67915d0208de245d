//! A share of a network's windows, computed by itself: with the other shares it is the network, to the last bit.

#[cfg(feature = "npz")]
use std::ops::Range;

use betz_base::team::Shard;

use crate::plan::Plan;
use crate::window::Chunk;

impl Plan {
    /// The numbers of the windows of `shard`.
    #[cfg(feature = "npz")]
    pub(crate) fn windows_of(&self, shard: Shard) -> Range<usize> {
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
            measure if measure.by_window() => 1,
            _ => self.chunk_windows,
        }
    }

    fn runs(&self) -> Vec<Chunk> {
        self.grid.chunks(self.run_windows())
    }

    pub(crate) fn chunks_of(&self, shard: Shard) -> Vec<Chunk> {
        let runs = self.runs();
        let own = &runs[shard.among(runs.len())];
        if !self.spec.measure.by_window() {
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
