//! Segments in the form that kernels take: two bit masks per word of 32 steps.

use std::ops::Range;

use betz_base::error::{Error, Result};
use betz_device::cuda::{Buffer, Context};
use betz_kernels::Mask;
use betz_recording::Segment;

/// Steps per word, the share of one thread.
pub(crate) const WORD: usize = 32;

/// Threads of a tile's block.
pub(crate) const THREADS: usize = 128;

/// Steps of a tile.
pub(crate) const TILE: usize = WORD * THREADS;

/// Values of a word's cells in shared memory.
const PITCH: usize = WORD + 1;

/// Bytes of shared memory that a tile's values take, each of `size` bytes.
pub(crate) const fn tile_bytes(size: usize) -> usize {
    THREADS * PITCH * size
}

/// Steps of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) steps: Range<usize>,
    /// The segment begins with the first of them.
    pub(crate) fresh: bool,
}

/// Segments from some step on, in masks of 32 steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    /// All words of all tiles.
    pub(crate) words: Vec<Mask>,
    /// For each tile, the number of its words up to and including the first in which a segment begins; larger than the
    /// tile's number of words if none begins.
    pub(crate) uncut: Vec<u32>,
    pub(crate) steps: usize,
}

impl Layout {
    /// The steps `from..to` of `segments`; step `from` is bit 0.
    pub(crate) fn new(segments: &[Segment], from: i64, to: i64) -> Self {
        let steps = usize::try_from(to - from).unwrap_or(0);
        let tiles = steps.div_ceil(TILE).max(1);
        let mut layout = Self {
            words: vec![Mask::default(); tiles * THREADS],
            uncut: vec![u32::MAX; tiles],
            steps,
        };
        let first = segments.partition_point(|s| s.stop <= from);
        for segment in segments[first..].iter().take_while(|s| s.start < to) {
            if segment.start >= from {
                layout.begin((segment.start - from) as usize);
            }
            let (start, stop) = (segment.start.max(from), segment.stop.min(to));
            layout.fill((start - from) as usize, (stop - from) as usize);
        }
        layout
    }

    /// `steps` steps of which `runs` lie inside segments, each from a word's first step on; a segment begins with those that
    /// are `fresh`.
    pub(crate) fn of_runs(steps: usize, runs: impl Iterator<Item = Run>) -> Self {
        let tiles = steps.div_ceil(TILE).max(1);
        let mut layout = Self {
            words: vec![Mask::default(); tiles * THREADS],
            uncut: vec![u32::MAX; tiles],
            steps,
        };
        for run in runs {
            if run.fresh {
                layout.begin(run.steps.start);
            }
            layout.fill(run.steps.start, run.steps.end);
        }
        layout
    }

    fn begin(&mut self, step: usize) {
        self.words[step / WORD].fresh |= 1 << (step % WORD);
        let words = (step % TILE / WORD + 1) as u32;
        let uncut = &mut self.uncut[step / TILE];
        *uncut = words.min(*uncut);
    }

    fn fill(&mut self, start: usize, stop: usize) {
        let mut at = start;
        while at < stop {
            let bit = at % WORD;
            let count = (WORD - bit).min(stop - at);
            let ones = u32::MAX >> (WORD - count);
            self.words[at / WORD].inside |= ones << bit;
            at += count;
        }
    }

    /// Copies the layout to the device.
    ///
    /// # Errors
    /// The errors of the device; [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory) for more than 2³⁰
    /// steps.
    pub(crate) fn upload(&self, context: &Context) -> Result<DeviceLayout> {
        if self.steps > 1 << 30 {
            return Err(Error::device_limit(format!(
                "filters on a device: expected at most 2^30 steps at a time, got {}",
                self.steps
            )));
        }
        Ok(DeviceLayout {
            mask: context.upload(&self.words)?,
            uncut: context.upload(&self.uncut)?,
            steps: self.steps,
            tiles: self.uncut.len(),
        })
    }
}

/// A [`Layout`] on the device.
pub(crate) struct DeviceLayout {
    pub(crate) mask: Buffer<Mask>,
    pub(crate) uncut: Buffer<u32>,
    pub(crate) steps: usize,
    pub(crate) tiles: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_say_what_segments_say() {
        let segment = |start, stop| Segment { start, stop };
        let segments = [
            segment(0, 1),
            segment(5, 70),
            segment(70, 71),
            segment(96, 128),
            segment(4000, 9000),
        ];
        for (from, to) in [
            (0, 9000),
            (0, 10_000),
            (1, 69),
            (33, 4096),
            (4100, 8192),
            (9000, 9100),
        ] {
            let layout = Layout::new(&segments, from, to);
            assert_eq!(layout.words.len(), THREADS * layout.uncut.len());
            for step in from..from + (layout.uncut.len() * TILE) as i64 {
                let at = (step - from) as usize;
                let word = layout.words[at / WORD];
                let bit = |bits: u32| bits >> (at % WORD) & 1;
                let inside = step < to && segments.iter().any(|s| s.start <= step && step < s.stop);
                let fresh = step < to && segments.iter().any(|s| s.start == step);
                assert_eq!(bit(word.inside) == 1, inside, "step {step}");
                assert_eq!(bit(word.fresh) == 1, fresh, "step {step}");
                if fresh {
                    assert!(layout.uncut[at / TILE] <= (at % TILE / WORD + 1) as u32);
                }
            }
            for (tile, &uncut) in layout.uncut.iter().enumerate() {
                let mut words = layout.words[tile * THREADS..][..THREADS].iter();
                let first = words.position(|word| word.fresh != 0);
                assert_eq!(uncut, first.map_or(u32::MAX, |w| w as u32 + 1));
            }
        }
        let runs = [(0..50, false), (64..91, true), (96..128, true)];
        let runs = runs.map(|(steps, fresh)| Run { steps, fresh });
        let layout = Layout::of_runs(128, runs.into_iter());
        let equal = [segment(-5, 50), segment(64, 91), segment(96, 128)];
        assert_eq!(layout, Layout::new(&equal, 0, 128));
    }
}
