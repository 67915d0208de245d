//! A dataset laid out for the event kernel: only steps that are summed, every segment at a multiple of 32.

use std::ops::Range;

use rayon::prelude::*;

use crate::gram::paired_steps;
use crate::psc::cuda::{Layout, Run};
use betz_base::error::{Error, Result};
use betz_kernels::Block;
use betz_recording::{Segment, SpikesView};

/// Steps of one block: one bit pattern of a warp.
pub(super) const BLOCK_STEPS: i64 = 32;

/// Blocks that one thread packs at a time.
const PIECE_BLOCKS: usize = 256;

/// Padded time: the paired steps of every segment and the history before them.
pub(super) struct Timeline {
    spans: Vec<Span>,
    /// Number of blocks, a multiple of the chunk's.
    pub(super) block_count: usize,
    /// Every block and one more.
    pub(super) blocks: Vec<Block>,
    /// Paired steps.
    pub(super) steps: u64,
    /// Longest distance from a step inside to the end of its sums.
    pub(super) longest: usize,
}

/// One segment in padded time.
struct Span {
    first_block: usize,
    block_count: usize,
    /// Its steps: from the segment's start to the last that a sum depends on.
    start: i64,
    stop: i64,
    /// The end of the sums.
    last: i64,
}

/// Steps back, and ahead, that a response depends on beside its own, if the kernels do not look for a segment's ends: what
/// lies between segments in padded time is longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reach {
    pub(super) back: usize,
    pub(super) ahead: usize,
}

impl Reach {
    /// Padding between segments of at most `longest` steps, in blocks.
    fn gap(&self, longest: usize) -> usize {
        let reach = self.back.max(self.ahead).min(longest);
        reach.div_ceil(BLOCK_STEPS as usize)
    }
}

/// Destination of spikes in time order: channels, steps within their blocks, and the first spike of each block (one
/// entry more than blocks).
pub(super) struct PackedEvents<'a> {
    pub(super) channels: &'a mut [u16],
    pub(super) ticks: &'a mut [u8],
    pub(super) starts: &'a mut [u32],
}

impl Timeline {
    /// Lays `segments` of a recording of `steps` steps out in chunks of `chunk_blocks` blocks, with room between them for
    /// `reach`.
    pub(super) fn new(
        segments: &[Segment],
        steps: usize,
        delay_steps: i64,
        chunk_blocks: usize,
        reach: Reach,
    ) -> Result<Self> {
        let gap = reach.gap(segments.iter().map(Segment::len).max().unwrap_or(0));
        let mut spans = Vec::with_capacity(segments.len());
        let (mut block_count, mut paired, mut longest) = (0, 0, 0);
        for segment in segments {
            let Some((first, last)) = paired_steps(segment, delay_steps) else {
                continue;
            };
            let stop = last.saturating_add(reach.ahead as i64).min(segment.stop);
            let length = (stop - segment.start) as usize;
            let blocks = length.div_ceil(BLOCK_STEPS as usize);
            if block_count > 0 {
                block_count += gap;
            }
            spans.push(Span {
                first_block: block_count,
                block_count: blocks,
                start: segment.start,
                stop,
                last,
            });
            block_count += blocks;
            paired += (last - first) as u64;
            longest = longest.max(length);
        }
        block_count = block_count.max(1).next_multiple_of(chunk_blocks);
        let padded = block_count as u64 * BLOCK_STEPS as u64;
        if padded > i32::MAX as u64 / 2 || steps > i32::MAX as usize {
            return Err(Error::device_limit(format!(
                "gram on a device: expected at most 2^30 steps with what lies between {} segments, got {padded} of a \
                 recording of {steps}",
                segments.len()
            )));
        }
        let mut timeline = Self {
            spans,
            block_count,
            blocks: vec![Block::default(); block_count + 1],
            steps: paired,
            longest,
        };
        timeline.describe_blocks(delay_steps);
        Ok(timeline)
    }

    /// The parts of spans inside `blocks`: (first block, number of blocks, steps).
    fn spans_in(&self, blocks: Range<usize>) -> impl Iterator<Item = (usize, usize, Range<i64>)> {
        let from = self
            .spans
            .partition_point(|s| s.first_block + s.block_count <= blocks.start);
        self.spans[from..]
            .iter()
            .take_while(move |s| s.first_block < blocks.end)
            .map(move |s| {
                let first = s.first_block.max(blocks.start);
                let last = (s.first_block + s.block_count).min(blocks.end);
                let start = s.start + (first - s.first_block) as i64 * BLOCK_STEPS;
                let stop = s.stop.min(start + (last - first) as i64 * BLOCK_STEPS);
                (first, last - first, start..stop)
            })
    }

    /// Number of spikes inside `blocks`.
    pub(super) fn events(&self, spikes: &SpikesView<'_>, blocks: Range<usize>) -> usize {
        self.spans_in(blocks)
            .map(|(_, _, steps)| spikes.range(steps.start, steps.end).len())
            .sum()
    }

    /// Paired steps inside `blocks`.
    pub(super) fn paired_in(&self, blocks: Range<usize>) -> u64 {
        let paired = |block: &Block| {
            let steps = block.left.min(BLOCK_STEPS as i32) - block.before.max(0);
            steps.max(0) as u64
        };
        self.blocks[blocks].iter().map(paired).sum()
    }

    /// Most spikes inside one chunk of `chunk_blocks` blocks.
    pub(super) fn most_events(&self, spikes: &SpikesView<'_>, chunk_blocks: usize) -> usize {
        (0..self.block_count)
            .into_par_iter()
            .step_by(chunk_blocks)
            .map(|block| self.events(spikes, block..block + chunk_blocks))
            .max()
            .unwrap_or(0)
    }

    /// `blocks` as their own recording, of which steps outside segments are padding.
    pub(super) fn layout(&self, blocks: Range<usize>) -> Layout {
        let step = |block: usize| (block - blocks.start) * BLOCK_STEPS as usize;
        let runs = self.spans_in(blocks.clone()).map(|(first, _, steps)| Run {
            steps: step(first)..step(first) + (steps.end - steps.start) as usize,
            fresh: self.blocks[first].since == 0,
        });
        Layout::of_runs(step(blocks.end), runs)
    }

    /// Runs of the recording's steps in `target` (`width` values per step of `blocks`' padded time), each with its
    /// destination. The rest of `target` is padding.
    pub(super) fn runs<'t, T>(
        &self,
        blocks: Range<usize>,
        mut target: &'t mut [T],
        width: usize,
    ) -> Vec<(Range<usize>, &'t mut [T])> {
        const MOST_VALUES: usize = 1 << 16;
        let most_steps = (MOST_VALUES / width.max(1)).max(1);
        let mut runs = Vec::new();
        let mut at = blocks.start * BLOCK_STEPS as usize;
        for (first, _, steps) in self.spans_in(blocks) {
            let begin = first * BLOCK_STEPS as usize;
            // Slices have the blocks' own lengths: `split_at_mut` cannot fail.
            target = std::mem::take(&mut target)
                .split_at_mut((begin - at) * width)
                .1;
            at = begin;
            let mut steps = steps.start as usize..steps.end as usize;
            while !steps.is_empty() {
                let here = steps.start..steps.end.min(steps.start + most_steps);
                let (part, rest) = std::mem::take(&mut target).split_at_mut(here.len() * width);
                target = rest;
                at += here.len();
                steps.start = here.end;
                runs.push((here, part));
            }
        }
        runs
    }

    /// Writes the behaviour that is paired with each step of `blocks`' padded time, step by step; zeros if nothing is
    /// summed.
    pub(super) fn pack_behavior(
        &self,
        behavior: &[f32],
        outputs: usize,
        delay_steps: i64,
        blocks: Range<usize>,
        target: &mut [f32],
    ) {
        target.fill(0.0);
        if outputs == 0 {
            return;
        }
        let at: Vec<_> = self.spans_in(blocks.clone()).collect();
        for (first, _, steps) in at {
            // The span begins with history that has no partner yet.
            let span = &self.spans[self
                .spans
                .partition_point(|s| s.first_block + s.block_count <= first)];
            let begin = steps.start.max(span.start + delay_steps.max(0));
            let end = steps.end.min(span.last);
            if begin >= end {
                continue;
            }
            let skipped = (first - blocks.start) as i64 * BLOCK_STEPS + begin - steps.start;
            let rows = (begin - delay_steps) as usize..(end - delay_steps) as usize;
            target[skipped as usize * outputs..][..rows.len() * outputs]
                .copy_from_slice(&behavior[rows.start * outputs..rows.end * outputs]);
        }
    }

    /// Blocks behind the last span stay zero: no segment, nothing to sum.
    fn describe_blocks(&mut self, delay_steps: i64) {
        for span in &self.spans {
            let begin = span.start + delay_steps.max(0);
            let blocks = &mut self.blocks[span.first_block..];
            for (i, block) in blocks.iter_mut().take(span.block_count).enumerate() {
                let since = i as i64 * BLOCK_STEPS;
                let first = span.start + since;
                *block = Block {
                    since: since as i32,
                    left: (span.last - first) as i32,
                    before: (begin - first).max(0) as i32,
                    origin: (first - delay_steps).clamp(i64::from(i32::MIN), i64::from(i32::MAX))
                        as i32,
                };
            }
        }
    }

    /// Writes the weight of each spike of `blocks`, in the order of [`Timeline::pack`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording) if ticks do not ascend.
    pub(super) fn pack_weights(
        &self,
        spikes: &SpikesView<'_>,
        blocks: Range<usize>,
        mut target: &mut [f32],
    ) -> Result<()> {
        for (_, _, steps) in self.spans_in(blocks) {
            let own = &spikes.weights[spikes.range(steps.start, steps.end)];
            let Some(part) = target.split_off_mut(..own.len()) else {
                return Err(unordered());
            };
            part.copy_from_slice(own);
        }
        Ok(())
    }

    /// Writes the channel and step within its block of every spike in `blocks`, in time order, and the first spike of
    /// each block (one entry more than blocks). `channels` is the number of existing channels. Runs on rayon's pool.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`] for a spike of an unknown channel or out of time order.
    pub(super) fn pack(
        &self,
        spikes: &SpikesView<'_>,
        known: usize,
        blocks: Range<usize>,
        target: PackedEvents<'_>,
    ) -> Result<()> {
        let PackedEvents {
            mut channels,
            mut ticks,
            starts: block_events,
        } = target;
        let events = channels.len();
        let (mut starts, end) = block_events.split_at_mut(blocks.len());
        end[0] = events as u32;
        let mut pieces = Vec::new();
        let (mut offset, mut next) = (0, blocks.start);
        for (first, count, steps) in self.spans_in(blocks) {
            // Blocks between spans: the padding of a last chunk.
            next += skip(&mut starts, first - next, offset as u32);
            let mut done = 0;
            while done < count {
                let here = PIECE_BLOCKS.min(count - done);
                let start = steps.start + done as i64 * BLOCK_STEPS;
                let stop = steps.end.min(start + here as i64 * BLOCK_STEPS);
                let range = spikes.range(start, stop);
                // `split_off_mut` cannot fail: the slices have the timeline's own lengths.
                let (Some(channels), Some(ticks), Some(starts)) = (
                    channels.split_off_mut(..range.len()),
                    ticks.split_off_mut(..range.len()),
                    starts.split_off_mut(..here),
                ) else {
                    return Err(unordered());
                };
                pieces.push((start, stop, range.clone(), offset, channels, ticks, starts));
                offset += range.len();
                done += here;
            }
            next += count;
        }
        starts.fill(events as u32);
        if offset != events {
            return Err(unordered());
        }
        pieces.into_par_iter().try_for_each(
            |(start, stop, range, offset, channels, ticks, starts)| {
                let mut next = 0;
                let source = spikes.ticks[range.clone()]
                    .iter()
                    .zip(&spikes.channels[range]);
                let target = channels.iter_mut().zip(ticks);
                let mut latest = start;
                for (i, ((&tick, &channel), (c, t))) in source.zip(target).enumerate() {
                    if channel as usize >= known {
                        return Err(Error::recording(format!(
                            "spike at step {tick}: expected a channel below {known}, got {channel}"
                        )));
                    }
                    if tick < latest || tick >= stop {
                        return Err(unordered());
                    }
                    latest = tick;
                    let step = tick - start;
                    let block = (step / BLOCK_STEPS) as usize;
                    while next <= block {
                        starts[next] = (offset + i) as u32;
                        next += 1;
                    }
                    *c = channel as u16;
                    *t = (step % BLOCK_STEPS) as u8;
                }
                starts[next..].fill((offset + channels.len()) as u32);
                Ok(())
            },
        )
    }
}

/// Writes `value` to the first `count` of `starts` and takes them off; returns `count`.
fn skip(starts: &mut &mut [u32], count: usize, value: u32) -> usize {
    if let Some(gap) = starts.split_off_mut(..count) {
        gap.fill(value);
    }
    count
}

fn unordered() -> Error {
    Error::recording("spikes: expected ticks in ascending order")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use betz_base::error::ErrorKind;
    use betz_recording::Dataset;

    /// For any cut of time, every spike that enters a sum appears exactly once, at its place, and blocks give the right
    /// distance to the ends.
    #[test]
    fn padded_time_holds_every_case() {
        for case in cases::all() {
            let (data, delay) = (&case.data, case.delay_steps);
            for (chunk, cut) in [(1, 1), (8, 3), (20, 1000)] {
                let timeline =
                    Timeline::new(&data.segments, data.steps, delay, chunk, Reach::default())
                        .unwrap();
                assert_eq!(timeline.block_count % chunk, 0);
                let mut expected = data.segments.iter().flat_map(|segment| {
                    let (first, last) =
                        paired_steps(segment, delay).unwrap_or((segment.start, segment.start));
                    data.spikes
                        .range(segment.start, last)
                        .map(move |e| (segment, first, last, e))
                });
                let mut paired = 0;
                for from in (0..timeline.block_count).step_by(cut) {
                    let blocks = from..timeline.block_count.min(from + cut);
                    paired += timeline.paired_in(blocks.clone());
                    let events = timeline.events(&data.spikes.view(), blocks.clone());
                    assert!(events <= blocks.len() * timeline.most_events(&data.spikes.view(), 1));
                    let mut channels = vec![0; events];
                    let mut ticks = vec![0; events];
                    let mut starts = vec![99; blocks.len() + 1];
                    let target = PackedEvents {
                        channels: &mut channels,
                        ticks: &mut ticks,
                        starts: &mut starts,
                    };
                    timeline
                        .pack(&data.spikes.view(), data.channels(), blocks.clone(), target)
                        .unwrap();
                    assert_eq!(starts[0], 0);
                    assert_eq!(starts[blocks.len()] as usize, events);
                    for (i, block) in blocks.enumerate() {
                        let at = &timeline.blocks[block];
                        for e in starts[i] as usize..starts[i + 1] as usize {
                            let (segment, first, last, spike) = expected.next().unwrap();
                            let tick = data.spikes.ticks[spike];
                            let step = i64::from(ticks[e]);
                            assert_eq!(u32::from(channels[e]), data.spikes.channels[spike]);
                            assert_eq!(i64::from(at.since) + step, tick - segment.start);
                            assert_eq!(i64::from(at.left) - step, last - tick);
                            assert_eq!(
                                i64::from(at.before),
                                (first - segment.start - i64::from(at.since)).max(0)
                            );
                            assert_eq!(i64::from(at.origin) + step, tick - delay);
                        }
                    }
                }
                assert!(expected.next().is_none(), "{}", case.name);
                assert_eq!(paired, timeline.steps, "{}", case.name);
            }
        }
    }

    /// With room for filters, segments lie too far apart to mix, spikes ahead of the last sum are there, and the same steps
    /// are summed.
    #[test]
    fn padded_time_has_room_for_filters_between_segments() {
        for case in cases::all() {
            let (data, delay) = (&case.data, case.delay_steps);
            let longest = data.segments.iter().map(Segment::len).max().unwrap_or(0);
            let plain = Timeline::new(&data.segments, data.steps, delay, 8, Reach::default());
            for (back, ahead) in [(40, 0), (3, 33), (100_000, 7)] {
                let reach = Reach { back, ahead };
                let timeline = Timeline::new(&data.segments, data.steps, delay, 8, reach).unwrap();
                assert_eq!(timeline.steps, plain.as_ref().unwrap().steps);
                let all = 0..timeline.block_count;
                assert_eq!(timeline.paired_in(all.clone()), timeline.steps);
                let room = back.max(ahead).min(longest) as i64;
                let step = |block: usize| block as i64 * BLOCK_STEPS;
                for pair in timeline.spans.windows(2) {
                    let end = step(pair[0].first_block) + pair[0].stop - pair[0].start;
                    assert!(step(pair[1].first_block) - end >= room, "{}", case.name);
                }
                let expected = data.segments.iter().filter_map(|segment| {
                    let (_, last) = paired_steps(segment, delay)?;
                    let stop = segment.stop.min(last + ahead as i64);
                    Some(data.spikes.range(segment.start, stop).len())
                });
                let found = timeline.events(&data.spikes.view(), all);
                assert_eq!(found, expected.sum::<usize>(), "{}", case.name);
            }
        }
    }

    /// A few steps in segments that lie far apart: the refusal names what lies between.
    #[test]
    fn padded_time_beyond_a_device_names_its_steps() {
        let long = Segment {
            start: 0,
            stop: 1 << 24,
        };
        let short = (0..100).map(|i| (1 << 24) + 10 * i).map(|start| Segment {
            start,
            stop: start + 10,
        });
        let segments: Vec<Segment> = std::iter::once(long).chain(short).collect();
        let reach = Reach {
            back: 1 << 24,
            ahead: 0,
        };
        let steps = (1 << 24) + 1000;
        assert!(Timeline::new(&segments, steps, 0, 8, Reach::default()).is_ok());
        let refused = Timeline::new(&segments, steps, 0, 8, reach).err().unwrap();
        let padded = ((1_u64 << 24) * 101 + 100 * 32).next_multiple_of(8 * 32);
        let expected = format!("between 101 segments, got {padded} of a recording of {steps}");
        assert!(refused.message().ends_with(&expected), "{refused}");
    }

    /// Rows and behaviour of every case land on the padded steps that blocks describe.
    #[test]
    fn rows_and_behaviour_land_on_their_steps() {
        for case in cases::all() {
            let (data, delay, m) = (&case.data, case.delay_steps, case.data.outputs.len());
            let timeline =
                Timeline::new(&data.segments, data.steps, delay, 8, Reach::default()).unwrap();
            for cut in [8, 24, 1 << 20] {
                let mut seen = 0;
                for from in (0..timeline.block_count).step_by(cut) {
                    let blocks = from..timeline.block_count.min(from + cut);
                    let steps = blocks.len() * BLOCK_STEPS as usize;
                    let mut rows = vec![-1i64; 2 * steps];
                    for (run, part) in timeline.runs(blocks.clone(), &mut rows, 2) {
                        for (step, part) in run.zip(part.chunks_exact_mut(2)) {
                            part.fill(step as i64);
                        }
                    }
                    let mut paired = vec![7.0; m * steps];
                    timeline.pack_behavior(&data.behavior, m, delay, blocks.clone(), &mut paired);
                    for (i, block) in blocks.enumerate() {
                        let at = &timeline.blocks[block];
                        for s in 0..BLOCK_STEPS {
                            let step = i * BLOCK_STEPS as usize + s as usize;
                            let inside = i64::from(at.left) > s;
                            let summed = inside && i64::from(at.before) <= s;
                            let row = i64::from(at.origin) + s;
                            let expected = if inside { row + delay } else { -1 };
                            assert_eq!(rows[2 * step..][..2], [expected; 2], "{}", case.name);
                            for o in 0..m {
                                let x = if summed {
                                    data.behavior[row as usize * m + o]
                                } else {
                                    0.0
                                };
                                assert_eq!(paired[step * m + o], x, "{}", case.name);
                            }
                            seen += u64::from(summed);
                        }
                    }
                }
                assert_eq!(seen, timeline.steps, "{}", case.name);
            }
        }
    }

    /// Error of packing all of `data`.
    fn refusal(data: &Dataset) -> Error {
        let timeline = Timeline::new(&data.segments, data.steps, 0, 1, Reach::default()).unwrap();
        let blocks = 0..timeline.block_count;
        let events = timeline.events(&data.spikes.view(), blocks.clone());
        let mut starts = vec![0; timeline.block_count + 1];
        let (mut channels, mut ticks) = (vec![0; events], vec![0; events]);
        let target = PackedEvents {
            channels: &mut channels,
            ticks: &mut ticks,
            starts: &mut starts,
        };
        timeline
            .pack(&data.spikes.view(), data.channels(), blocks, target)
            .unwrap_err()
    }

    #[test]
    fn an_unknown_channel_is_named() {
        let mut data = cases::all().remove(0).data;
        data.spikes.channels[3] = 99;
        let error = refusal(&data);
        assert_eq!(error.kind(), ErrorKind::InvalidRecording);
        assert!(error.message().contains("99"), "{error}");
    }

    #[test]
    fn spikes_out_of_order_are_refused_wherever_they_are() {
        for ticks in [[40, 10], [11, 10], [8200, 40]] {
            let mut data = cases::dataset(2, &[(0, 10_000)], vec![(1, 0), (2, 1)], 1);
            data.spikes.ticks = ticks.to_vec();
            let error = refusal(&data);
            assert_eq!(error.kind(), ErrorKind::InvalidRecording);
            assert!(error.message().contains("ascending"), "{error}");
        }
    }
}
