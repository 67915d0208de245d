//! Sampled filters on a device: kernels gathered at spikes, or overlap-save by cuFFT.
//!
//! Both write complete responses of a round, in f32, to rows channel × filters + filter. Segments lie so far apart in
//! padded time that no filter reaches from one into another.

use crate::gram::cuda::plan::CHUNK_STEPS;
use crate::gram::cuda::store;
use crate::gram::cuda::timeline::Reach;
use betz_base::error::Result;
use betz_device::TransformShape;
use betz_device::cuda::{BlockTransforms, Buffer, Context};
use betz_kernels::gram::{MultiplySpectra, PlaceBlocks, ResponsesGathered};
use betz_recording::Segment;
use betz_runtime::psc::{FilterBank, SampledFilter};

/// Bytes of spectra that are worked on at once: they stay in the cache from one transform to the next.
const SPECTRA_BYTES: usize = 32 << 20;

/// Shortest and longest transforms, unless a filter needs longer ones.
const LENGTHS: std::ops::RangeInclusive<usize> = 1024..=65_536;

/// Samples of a filter in shared memory at a time.
const PIECE: usize = 8192;

/// Channels of a block of threads that gathers, and its threads; as in the kernel.
const CHANNELS: usize = 32;
const THREADS: u32 = 256;

/// Threads of a block that goes over spectra or steps.
const ROW_THREADS: u32 = 256;

/// A way to compute responses to sampled filters on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampledWay {
    /// A filter's samples are added at every spike.
    Gather,
    /// Overlap-save with transforms by cuFFT.
    Transform,
}

impl SampledWay {
    /// `gather` or `transform`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gather => "gather",
            Self::Transform => "transform",
        }
    }
}

/// Sampled filters of a bank, as far as they matter for segments of some length.
#[derive(Debug, Clone)]
pub(crate) struct Samples {
    filters: Vec<SampledFilter>,
    /// Fewest and most steps from a spike to a sample.
    low: i64,
    high: i64,
}

impl Samples {
    /// `None` for a bank without sampled filters.
    pub(in crate::gram::cuda) fn new(bank: &FilterBank, segments: &[Segment]) -> Option<Self> {
        let filters = bank.sampled().to_vec();
        let longest = segments.iter().map(Segment::len).max().unwrap_or(0);
        let most = longest.saturating_sub(1) as i64;
        let high = filters.iter().map(|f| f.stop() - 1).max()?.min(most);
        let low = filters.iter().map(SampledFilter::start).min()?;
        Some(Self {
            filters,
            low: low.clamp(-most, high.max(-most)),
            high: high.max(-most),
        })
    }

    /// Steps back, and ahead, that a response depends on.
    pub(in crate::gram::cuda) fn reach(&self) -> Reach {
        Reach {
            // Blocks of transforms begin at a multiple of four steps.
            back: self.highest().max(0) as usize,
            ahead: (-self.low).max(0) as usize,
        }
    }

    /// `high`, as a multiple of four.
    fn highest(&self) -> i64 {
        (self.high + 3).div_euclid(4) * 4
    }

    /// Samples of the filters together, zeros between them included.
    fn span(&self) -> usize {
        (self.highest() - self.low + 1) as usize
    }

    fn values(&self, filter: &SampledFilter) -> (Vec<f32>, i64) {
        let (first, last) = (filter.start().max(self.low), filter.stop() - 1);
        let values: Vec<f32> = (first..=last.min(self.high))
            .map(|m| filter.at(m) as f32)
            .collect();
        match values.is_empty() {
            // Later than any segment lasts.
            true => (vec![0.0], 0),
            false => (values, first),
        }
    }

    /// Bytes of device memory that the filters take in any round.
    pub(super) fn fixed_bytes(&self, way: SampledWay) -> u64 {
        match way {
            SampledWay::Gather => 4 * (self.span() * self.filters.len()) as u64,
            SampledWay::Transform => {
                let own = 4 * (self.longest_length() + 2) * self.filters.len();
                // Spectra and the library's work area; the filters' own spectra, and these before they are transformed.
                (2 * own.max(SPECTRA_BYTES) + 3 * own) as u64
            }
        }
    }

    /// Most bytes that a last block reads behind the windows, beside `around` steps.
    pub(super) fn tail_bytes(&self, around: usize) -> u64 {
        4 * (self.longest_length() + around) as u64
    }

    fn longest_length(&self) -> usize {
        self.shortest_length().max(*LENGTHS.end())
    }

    fn shortest_length(&self) -> usize {
        (2 * self.span()).max(*LENGTHS.start()).next_power_of_two()
    }

    /// Blocks for windows of `steps` steps: the quickest of some lengths.
    pub(super) fn blocks(&self, steps: usize) -> WindowBlocks {
        let span = self.span();
        let cut = |length: usize| {
            let most = (length - span + 1) / 4 * 4;
            let each = steps.div_ceil(most).max(1);
            WindowBlocks {
                length,
                hop: steps.div_ceil(each).next_multiple_of(4),
                each,
            }
        };
        // Passes over memory take about as long as half the transforms.
        let cost = |blocks: &WindowBlocks| {
            (blocks.each * blocks.length) as f64 * ((blocks.length as f64).log2() + 8.0)
        };
        let mut best = cut(self.shortest_length());
        while best.length < *LENGTHS.end() && best.each > 1 {
            let next = cut(2 * best.length);
            if cost(&next) >= cost(&best) {
                break;
            }
            best = next;
        }
        best
    }
}

/// Overlapping blocks of a channel's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WindowBlocks {
    /// Steps that are transformed.
    pub(super) length: usize,
    /// Steps from one block to the next, a multiple of four.
    pub(super) hop: usize,
    /// Blocks of a channel.
    pub(super) each: usize,
}

impl WindowBlocks {
    /// Steps from one channel's window to the next.
    pub(super) const fn stride(&self) -> usize {
        self.hop * self.each
    }

    /// Values of `rows` windows, and of what the last block reads; `around` steps of a window lie outside its round.
    pub(super) const fn values(&self, rows: usize, around: usize) -> usize {
        rows * self.stride() + around + self.length
    }
}

/// Filters that gather, on the device.
pub(super) struct Gather {
    /// Samples, and steps from a spike to the first.
    filters: Vec<(Buffer<f32>, usize, i64)>,
    reach: Reach,
}

/// Spikes of chunks, sorted by channel.
pub(super) struct SortedChunks<'a> {
    /// Steps within their chunks.
    pub(super) ticks: &'a Buffer<u16>,
    /// First spike of each channel in each chunk.
    pub(super) offsets: &'a Buffer<u32>,
    pub(super) chunks: usize,
    pub(super) channels: usize,
    /// The round's first chunk among these.
    pub(super) first: usize,
    /// Chunks of the round.
    pub(super) round: usize,
}

/// Rows of responses of some channels.
pub(super) struct ResponseMatrix<'a> {
    pub(super) channels: std::ops::Range<usize>,
    /// Rows of a channel, and the first of a sampled filter among them.
    pub(super) width: usize,
    pub(super) first: usize,
    /// Steps from row to row.
    pub(super) stride: usize,
    pub(super) values: &'a mut Buffer<f32>,
}

impl Gather {
    pub(super) fn new(context: &Context, samples: &Samples) -> Result<Self> {
        let filter = |filter| {
            let (values, start) = samples.values(filter);
            Ok((context.upload(&values)?, values.len(), start))
        };
        Ok(Self {
            filters: samples.filters.iter().map(filter).collect::<Result<_>>()?,
            reach: samples.reach(),
        })
    }

    /// Responses of a round from its spikes and those around it. Does not wait.
    pub(super) fn run(
        &self,
        context: &Context,
        spikes: &SortedChunks<'_>,
        to: &mut ResponseMatrix<'_>,
    ) -> Result<()> {
        let grid = (
            to.channels.len().div_ceil(CHANNELS) as u32,
            spikes.round as u32,
            1,
        );
        for (i, (samples, length, start)) in self.filters.iter().enumerate() {
            let piece = (*length).min(PIECE);
            let arguments = ResponsesGathered {
                ticks: spikes.ticks.read(),
                offsets: spikes.offsets.read(),
                chunks: spikes.chunks as i32,
                channels: spikes.channels as i32,
                round_chunk: spikes.first as i32,
                back: self.reach.back.div_ceil(CHUNK_STEPS) as i32,
                ahead: self.reach.ahead.div_ceil(CHUNK_STEPS) as i32,
                samples: samples.read(),
                length: *length as i32,
                start: *start as i32,
                piece: piece as i32,
                first_channel: to.channels.start as i32,
                signals: to.channels.len() as i32,
                width: to.width as i32,
                filter: (to.first + i) as i32,
                stride: to.stride as u64,
                responses: to.values.update(),
            };
            let shared = 4 * (piece + 2 * CHUNK_STEPS);
            context
                .load::<ResponsesGathered>(&store::options(), shared)?
                .launch(grid, THREADS, arguments)?;
        }
        Ok(())
    }
}

/// Overlap-save over windows of channels.
pub(super) struct OverlapSave {
    blocks: WindowBlocks,
    transforms: BlockTransforms,
    /// Blocks that are transformed at once.
    count: usize,
    filters: usize,
    /// Spectra of the filters, scaled by 1 / length.
    transfer: Buffer<f32>,
    /// (filter, block): spectra, and blocks of responses in their place.
    spectra: Buffer<f32>,
    /// Step of a window at which its first block begins.
    first: usize,
    /// Steps of a block that others wrapped around into.
    skip: usize,
}

impl OverlapSave {
    /// For windows cut into `blocks`, of at least `channels` channels, with `history` steps before a round's first.
    pub(super) fn new(
        context: &Context,
        samples: &Samples,
        blocks: WindowBlocks,
        channels: usize,
        history: usize,
    ) -> Result<Self> {
        let filters = samples.filters.len();
        let WindowBlocks { length, hop, each } = blocks;
        let (total, most) = (
            channels * each,
            (SPECTRA_BYTES / (4 * (length + 2) * filters)).max(1),
        );
        // As even as they come.
        let count = total.div_ceil(total.div_ceil(most).max(1)).max(1);
        let shape = TransformShape { length, hop, count };
        let transforms = context.block_transforms(shape, filters)?;
        Ok(Self {
            transfer: transfer(context, samples, length)?,
            spectra: context.alloc(count * filters * shape.spectrum())?,
            blocks,
            transforms,
            count,
            filters,
            first: (history as i64 - samples.highest()) as usize,
            skip: samples.span() - 1,
        })
    }

    /// Responses of a round of `steps` steps from `windows`, [`WindowBlocks::stride`] steps apart. Does not wait.
    pub(super) fn run(
        &mut self,
        context: &Context,
        windows: &Buffer<f32>,
        steps: usize,
        to: &mut ResponseMatrix<'_>,
    ) -> Result<()> {
        let WindowBlocks { length, hop, each } = self.blocks;
        let (total, pairs) = (to.channels.len() * each, length / 2 + 1);
        let options = store::options();
        let mut done = 0;
        while done < total {
            // The last ones are as many as the others: some of them once more.
            let from = done.min(total.saturating_sub(self.count));
            done = from + self.count;
            let begin = self.first + from * hop;
            (self.transforms).forward(context, windows, begin, &mut self.spectra)?;
            let product = MultiplySpectra {
                transfer: self.transfer.read(),
                filters: self.filters as i32,
                pairs: pairs as i32,
                blocks: self.count as i32,
                spectra: self.spectra.update(),
            };
            context.load::<MultiplySpectra>(&options, 0)?.launch(
                (
                    pairs.div_ceil(ROW_THREADS as usize) as u32,
                    self.count as u32,
                    1,
                ),
                ROW_THREADS,
                product,
            )?;
            self.transforms.inverse(context, &mut self.spectra)?;
            let place = PlaceBlocks {
                blocks: self.spectra.read(),
                pairs: pairs as i32,
                count: self.count as i32,
                first: from as i32,
                each: each as i32,
                hop: hop as i32,
                skip: self.skip as i32,
                steps: steps as i32,
                width: to.width as i32,
                first_filter: to.first as i32,
                stride: to.stride as u64,
                responses: to.values.update(),
            };
            context.load::<PlaceBlocks>(&options, 0)?.launch(
                (
                    hop.div_ceil(ROW_THREADS as usize) as u32,
                    self.count as u32,
                    self.filters as u32,
                ),
                ROW_THREADS,
                place,
            )?;
        }
        Ok(())
    }
}

/// Spectra of the filters over blocks of `length` steps, scaled by 1 / length.
fn transfer(context: &Context, samples: &Samples, length: usize) -> Result<Buffer<f32>> {
    let filters = samples.filters.len();
    let shape = TransformShape {
        length,
        hop: length,
        count: filters,
    };
    let mut values = vec![0.0; filters * length];
    for (filter, row) in samples.filters.iter().zip(values.chunks_exact_mut(length)) {
        for (m, value) in (samples.low..=samples.high).zip(row) {
            *value = (filter.at(m) / length as f64) as f32;
        }
    }
    let values = context.upload(&values)?;
    let mut transfer = context.alloc(filters * shape.spectrum())?;
    (context.block_transforms(shape, 1)?).forward(context, &values, 0, &mut transfer)?;
    Ok(transfer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(length: usize, start: i64) -> SampledFilter {
        SampledFilter::new("h", vec![1.0; length], 1e-3, start).unwrap()
    }

    /// Every step of a window is in one block's part that counts, whatever the filters.
    #[test]
    fn blocks_cover_windows_of_any_length() {
        let segments = [Segment {
            start: 0,
            stop: 50_000,
        }];
        for filters in [
            vec![filter(1, 0)],
            vec![filter(400, 3), filter(7, -900)],
            vec![filter(4000, 0)],
            vec![filter(5, -20)],
            vec![filter(80_000, 100)],
        ] {
            let bank = FilterBank::with_sampled(vec![], filters).unwrap();
            let samples = Samples::new(&bank, &segments).unwrap();
            let reach = samples.reach();
            assert!(reach.back < 50_004 && reach.ahead < 50_000);
            for steps in [256, 4096, 70_000, 1_000_000] {
                let window = steps
                    + (reach.back.div_ceil(CHUNK_STEPS) + reach.ahead.div_ceil(CHUNK_STEPS))
                        * CHUNK_STEPS;
                let blocks = samples.blocks(window);
                assert!(blocks.stride() >= window && blocks.stride() <= window + window / 100 + 8);
                assert!(blocks.hop + samples.span() - 1 <= blocks.length);
                assert_eq!(blocks.hop % 4, 0);
                let bytes = 4 * (blocks.length + 2);
                assert!(samples.fixed_bytes(SampledWay::Transform) > bytes as u64);
            }
        }
    }

    /// A filter that comes later than any segment lasts has no response, and one sample that says so.
    #[test]
    fn samples_beyond_a_segment_are_left_out() {
        let segments = [Segment {
            start: 10,
            stop: 60,
        }];
        let filters = vec![filter(20, 70), filter(100, -90), filter(4, 2)];
        let bank = FilterBank::with_sampled(vec![], filters).unwrap();
        let samples = Samples::new(&bank, &segments).unwrap();
        assert_eq!((samples.low, samples.high), (-49, 49));
        let of = |i: usize| samples.values(&samples.filters[i]);
        assert_eq!(of(0), (vec![0.0], 0));
        assert_eq!(of(1), (vec![1.0; 59], -49));
        assert_eq!(of(2), (vec![1.0; 4], 2));
    }
}
