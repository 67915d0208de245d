//! A dataset as the event kernel wants it: only what is summed, every segment at a multiple of 32.

use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};
use crate::recording::Dataset;
use crate::train::gram::paired_steps;

/// Steps of one block: one bit pattern of a warp.
pub(super) const BLOCK_STEPS: i64 = 32;

/// Blocks that one thread packs at a time.
const PIECE_BLOCKS: usize = 256;

/// Values of one block in [`Timeline::blocks`].
pub(super) const BLOCK_FIELDS: usize = 4;

/// Padded time: the paired steps of every segment and the history before them.
pub(super) struct Timeline {
    spans: Vec<Span>,
    /// Number of blocks, a multiple of the chunk's.
    pub(super) block_count: usize,
    /// `since, left, before, origin` of every block and of one more, as `struct Block` of the
    /// kernel has them.
    pub(super) blocks: Vec<i32>,
    /// Spikes inside.
    pub(super) events: usize,
    /// Paired steps.
    pub(super) steps: u64,
    /// Longest distance from a step inside to the end of its sums.
    pub(super) longest: usize,
}

/// One segment in padded time.
struct Span {
    first_block: usize,
    block_count: usize,
    /// Its steps: from the segment's start to where the sums end.
    start: i64,
    stop: i64,
}

impl Timeline {
    /// Lays `data` out in chunks of `chunk_blocks` blocks.
    pub(super) fn new(data: &Dataset, delay_steps: i64, chunk_blocks: usize) -> Result<Self> {
        let mut spans = Vec::with_capacity(data.segments.len());
        let (mut block_count, mut events, mut steps, mut longest) = (0, 0, 0, 0);
        for segment in &data.segments {
            let Some((first, last)) = paired_steps(segment, delay_steps) else {
                continue;
            };
            let length = (last - segment.start) as usize;
            let blocks = length.div_ceil(BLOCK_STEPS as usize);
            spans.push(Span {
                first_block: block_count,
                block_count: blocks,
                start: segment.start,
                stop: last,
            });
            block_count += blocks;
            events += data.spikes.range(segment.start, last).len();
            steps += (last - first) as u64;
            longest = longest.max(length);
        }
        block_count = block_count.max(1).next_multiple_of(chunk_blocks);
        if block_count as u64 * BLOCK_STEPS as u64 > i32::MAX as u64 / 2
            || events as u64 > u64::from(u32::MAX)
            || data.steps > i32::MAX as usize
        {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "event path on a device: expected at most 2^30 steps and 2^32 spikes, got {} steps, {events} spikes",
                    data.steps
                ),
            ));
        }
        let mut timeline = Self {
            spans,
            block_count,
            blocks: vec![0; (block_count + 1) * BLOCK_FIELDS],
            events,
            steps,
            longest,
        };
        timeline.describe_blocks(delay_steps);
        Ok(timeline)
    }

    /// Blocks behind the last span stay zero: no segment, nothing to sum.
    fn describe_blocks(&mut self, delay_steps: i64) {
        for span in &self.spans {
            let begin = span.start + delay_steps.max(0);
            let blocks = &mut self.blocks[span.first_block * BLOCK_FIELDS..];
            for (i, block) in blocks
                .chunks_exact_mut(BLOCK_FIELDS)
                .take(span.block_count)
                .enumerate()
            {
                let since = i as i64 * BLOCK_STEPS;
                let first = span.start + since;
                block[0] = since as i32;
                block[1] = (span.stop - first) as i32;
                block[2] = (begin - first).max(0) as i32;
                block[3] =
                    (first - delay_steps).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
            }
        }
    }

    /// Writes every spike's channel and step within its block, in time order, and where each
    /// block's spikes begin (one entry more than blocks). On rayon's pool.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for a spike of an unknown channel or out of time order.
    pub(super) fn pack(
        &self,
        data: &Dataset,
        mut channels: &mut [u16],
        mut ticks: &mut [u8],
        block_events: &mut [u32],
    ) -> Result<()> {
        let (mut starts, end) = block_events.split_at_mut(self.block_count);
        end[0] = self.events as u32;
        let mut pieces = Vec::with_capacity(self.spans.len() + self.block_count / PIECE_BLOCKS);
        let mut offset = 0;
        for span in &self.spans {
            let mut done = 0;
            while done < span.block_count {
                let blocks = PIECE_BLOCKS.min(span.block_count - done);
                let start = span.start + done as i64 * BLOCK_STEPS;
                let stop = span.stop.min(start + blocks as i64 * BLOCK_STEPS);
                let range = data.spikes.range(start, stop);
                // `split_off_mut` cannot fail: the slices have the timeline's own lengths.
                let (Some(channels), Some(ticks), Some(starts)) = (
                    channels.split_off_mut(..range.len()),
                    ticks.split_off_mut(..range.len()),
                    starts.split_off_mut(..blocks),
                ) else {
                    return Err(unordered());
                };
                pieces.push((start, stop, range.clone(), offset, channels, ticks, starts));
                offset += range.len();
                done += blocks;
            }
        }
        starts.fill(self.events as u32);
        if offset != self.events {
            return Err(unordered());
        }
        let known = data.channels();
        pieces.into_par_iter().try_for_each(
            |(start, stop, range, offset, channels, ticks, starts)| {
                let mut next = 0;
                let source = data.spikes.ticks[range.clone()]
                    .iter()
                    .zip(&data.spikes.channels[range]);
                let target = channels.iter_mut().zip(ticks);
                for (i, ((&tick, &channel), (c, t))) in source.zip(target).enumerate() {
                    if channel as usize >= known {
                        return Err(Error::mismatch(format!(
                            "spike at step {tick}: expected a channel below {known}, got {channel}"
                        )));
                    }
                    if tick < start || tick >= stop {
                        return Err(unordered());
                    }
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

fn unordered() -> Error {
    Error::mismatch("spikes: expected ticks in ascending order")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::cases;

    /// Every spike that any sum sees is there once, at its place, and blocks say how far it is to
    /// the ends.
    #[test]
    fn padded_time_holds_every_case() {
        for case in cases::all() {
            let (data, delay) = (&case.data, case.delay_steps);
            for chunk in [1, 8, 20] {
                let timeline = Timeline::new(data, delay, chunk).unwrap();
                assert_eq!(timeline.block_count % chunk, 0);
                let mut channels = vec![0; timeline.events];
                let mut ticks = vec![0; timeline.events];
                let mut starts = vec![0; timeline.block_count + 1];
                timeline
                    .pack(data, &mut channels, &mut ticks, &mut starts)
                    .unwrap();
                assert_eq!(starts[0], 0);
                assert_eq!(starts[timeline.block_count] as usize, timeline.events);
                let mut expected = data.segments.iter().flat_map(|segment| {
                    let (first, last) =
                        paired_steps(segment, delay).unwrap_or((segment.start, segment.start));
                    data.spikes
                        .range(segment.start, last)
                        .map(move |e| (segment, first, last, e))
                });
                for block in 0..timeline.block_count {
                    let at = &timeline.blocks[BLOCK_FIELDS * block..][..BLOCK_FIELDS];
                    for e in starts[block] as usize..starts[block + 1] as usize {
                        let (segment, first, last, spike) = expected.next().unwrap();
                        let tick = data.spikes.ticks[spike];
                        let step = i64::from(ticks[e]);
                        assert_eq!(u32::from(channels[e]), data.spikes.channels[spike]);
                        assert_eq!(i64::from(at[0]) + step, tick - segment.start);
                        assert_eq!(i64::from(at[1]) - step, last - tick);
                        assert_eq!(
                            i64::from(at[2]),
                            (first - segment.start - i64::from(at[0])).max(0)
                        );
                        assert_eq!(i64::from(at[3]) + step, tick - delay);
                    }
                }
                assert!(expected.next().is_none(), "{}", case.name);
            }
        }
    }

    #[test]
    fn an_unknown_channel_is_named() {
        let mut data = cases::all().remove(0).data;
        data.spikes.channels[3] = 99;
        let timeline = Timeline::new(&data, 0, 1).unwrap();
        let mut starts = vec![0; timeline.block_count + 1];
        let (mut channels, mut ticks) = (vec![0; timeline.events], vec![0; timeline.events]);
        let error = timeline
            .pack(&data, &mut channels, &mut ticks, &mut starts)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.message().contains("99"), "{error}");
    }
}
