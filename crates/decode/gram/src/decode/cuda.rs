//! Batch decoding on a CUDA device, in slices of time: while the device works on one, the next is
//! packed and the last one's estimates are copied out, through pinned memory.
//!
//! As on the CPU the filters run on the weighted trains, one for each filter and output, in f64; a
//! slice goes on from the states that the one before left. Spikes of one step are added in the
//! recording's order.

use std::ops::Range;

use rayon::prelude::*;

use crate::psc::cuda::{
    DeviceBank, DeviceLayout, Layout, LowPassScan, THREADS, TILE, grid, tile_bytes,
};
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::Room;
use betz_device::cuda::{Buffer, Context, PinnedBuffer};
use betz_kernels::decode::{DecodeCarry, DecodeEstimates, DecodeSum, DecodeTileEnds, DecodeWeigh};
use betz_recording::DatasetView;
use betz_runtime::model::{Decoder, OutputRange};

/// Steps whose spikes one block of threads weighs.
const BLOCK_STEPS: usize = 256;

/// Rows of weighted trains that a thread sums at a time.
const ROWS_AT_ONCE: usize = 4;

/// Most steps of a slice: few enough for packing and copying to run beside the device's work.
const MOST_SLICE_STEPS: usize = 64 * TILE;

/// Blocks of steps that one thread packs at a time.
const PIECE_BLOCKS: usize = 64;

/// A spike's channel shares 32 bits with its step within a block.
const MOST_CHANNELS: usize = 1 << 24;

/// Host memory that copies go through, kept between calls: one set is filled while the other is
/// copied.
#[derive(Default)]
struct DecodeStaging {
    spikes: [Option<PinnedBuffer<u32>>; 2],
    starts: [Option<PinnedBuffer<u32>>; 2],
    weights: [Option<PinnedBuffer<f32>>; 2],
}

/// The estimates of decoded slices, kept between calls.
#[derive(Default)]
struct OutputBuffers([Option<PinnedBuffer<f32>>; 2]);

/// A decoder's weights and states on the device.
struct DeviceDecoder<'a> {
    context: &'a Context,
    bank: DeviceBank,
    outputs: usize,
    /// (channel of the dataset, filter, output).
    weights: Buffer<f64>,
    /// (3, output): intercept, lowest and highest value.
    last: Buffer<f64>,
    /// In place of what spikes count for where that is one each; never read.
    unweighted: Buffer<f32>,
    /// (order + 1) × rows.
    carry: Buffer<f64>,
    low_pass: Option<LowPassScan<'a>>,
}

/// [`decode`](super::decode) on `context`'s device: the same estimates, to f32's rounding of the
/// last step.
///
/// # Errors
/// As [`decode`](super::decode), and those of the device; [`ErrorKind::DeviceMemory`] when not even
/// 4,096 steps fit, with how much would.
pub(crate) fn decode(
    context: &Context,
    decoder: &Decoder,
    data: &DatasetView<'_>,
) -> Result<Vec<f32>> {
    decode_within(Room::of(context)?, decoder, data)
}

fn decode_within(room: Room<'_>, decoder: &Decoder, data: &DatasetView<'_>) -> Result<Vec<f32>> {
    let context = room.context;
    let width = decoder.outputs().len();
    let mut estimates = vec![0.0; data.steps * width];
    let mut outgoing = context.take_slot::<OutputBuffers>();
    let mut rest = estimates.as_mut_slice();
    // Steps of the slice that is still on its way, and which buffer it goes to.
    let mut under_way: Option<(usize, usize)> = None;
    let mut take = |pinned: &[Option<PinnedBuffer<f32>>; 2], which: usize, steps: usize| {
        let (target, later) = std::mem::take(&mut rest).split_at_mut(steps * width);
        rest = later;
        let Some(from) = &pinned[which] else {
            return Err(Error::new(ErrorKind::Internal, "estimates were not staged"));
        };
        let from = &from.as_slice()?[..target.len()];
        target
            .par_chunks_mut(1 << 15)
            .zip(from.par_chunks(1 << 15))
            .for_each(|(to, from)| to.copy_from_slice(from));
        Ok(())
    };
    let mut number = 0;
    walk(room, 0, decoder, data, |steps, slice| {
        let which = number % 2;
        number += 1;
        let len = steps.len() * width;
        let pinned = context.pinned_at_least(&mut outgoing.0[which], len)?;
        context.download_pinned(slice, len, pinned)?;
        if let Some((which, steps)) = under_way.replace((which, steps.len())) {
            take(&outgoing.0, which, steps)?;
        }
        Ok(())
    })?;
    if let Some((which, steps)) = under_way {
        take(&outgoing.0, which, steps)?;
    }
    context.put_slot(outgoing);
    Ok(estimates)
}

/// Decodes `data` slice by slice and hands each one's steps and estimates, row-major (steps, outputs)
/// on the device, to `each`, in order. Does not wait for the last. `extra` is what `each` takes of
/// the device's memory a step, in bytes.
///
/// # Errors
/// As [`decode`], and what `each` returns.
pub(crate) fn walk(
    Room { context, memory }: Room<'_>,
    extra: usize,
    decoder: &Decoder,
    data: &DatasetView<'_>,
    mut each: impl FnMut(Range<usize>, &Buffer<f32>) -> Result<()>,
) -> Result<()> {
    super::check_shape(decoder, data)?;
    let order = super::channel_order(decoder, data)?;
    if data.channels() > MOST_CHANNELS {
        return Err(Error::device_limit(format!(
            "decoding on a device: expected at most {MOST_CHANNELS} channels, got {}",
            data.channels()
        )));
    }
    let mut decoding = DeviceDecoder::new(context, decoder, &order)?;
    let slice_steps = decoding.slice_steps(memory, extra, data)?;
    let mut staging = context.take_slot::<DecodeStaging>();
    for (number, from) in (0..data.steps).step_by(slice_steps).enumerate() {
        let steps = from..data.steps.min(from + slice_steps);
        let which = number % 2;
        let range = data.spikes.range(steps.start as i64, steps.end as i64);
        let blocks = steps.len().div_ceil(BLOCK_STEPS);
        let spikes = context.pinned_at_least(&mut staging.spikes[which], range.len())?;
        let starts = context.pinned_at_least(&mut staging.starts[which], blocks + 1)?;
        pack(
            data,
            &steps,
            range.clone(),
            &mut spikes.as_mut_slice()?[..range.len()],
            &mut starts.as_mut_slice()?[..=blocks],
        )?;
        let events = context.upload_pinned(spikes, range.len())?;
        let weights = match data.spikes.is_weighted() {
            true => {
                let pinned = context.pinned_at_least(&mut staging.weights[which], range.len())?;
                pinned.as_mut_slice()?[..range.len()]
                    .copy_from_slice(&data.spikes.weights[range.clone()]);
                Some(context.upload_pinned(pinned, range.len())?)
            }
            false => None,
        };
        let starts = context.upload_pinned(starts, blocks + 1)?;
        let layout = Layout::new(data.segments, steps.start as i64, steps.end as i64);
        let estimates = decoding.slice(
            (&events, weights.as_ref()),
            &starts,
            &layout.upload(context)?,
        )?;
        each(steps, &estimates)?;
    }
    context.put_slot(staging);
    Ok(())
}

impl<'a> DeviceDecoder<'a> {
    fn new(context: &'a Context, decoder: &Decoder, order: &[usize]) -> Result<Self> {
        let bank = DeviceBank::new(context, decoder.bank(), decoder.step_seconds())?;
        let outputs = decoder.outputs().len();
        let rows = bank.filters * outputs;
        let weights: Vec<f64> = order
            .iter()
            .flat_map(|&channel| &decoder.weights()[channel * rows..(channel + 1) * rows])
            .copied()
            .collect();
        let low_pass = decoder
            .low_pass()
            .map(|l| LowPassScan::new(context, l, decoder.step_seconds(), outputs))
            .transpose()?;
        Ok(Self {
            context,
            outputs,
            weights: context.upload(&weights)?,
            last: context.upload(&last(decoder))?,
            unweighted: context.zeros(1)?,
            carry: context.zeros((bank.order + 1) * rows)?,
            low_pass,
            bank,
        })
    }

    /// Rows of weighted trains.
    fn rows(&self) -> usize {
        self.bank.filters * self.outputs
    }

    /// Steps of a slice, a multiple of a tile, so that every slice fits in `memory` bytes.
    fn slice_steps(&self, memory: u64, extra: usize, data: &DatasetView<'_>) -> Result<usize> {
        // Those of the low-pass, at most eight, and of the filters are not there at once.
        let states =
            8 * ((self.bank.order + 1) * self.rows()).max(8 * self.outputs) * (1 + THREADS);
        // Trains; sums and estimates; states and masks; spikes' starts.
        let a_tile = TILE * (8 * self.rows() + 12 * self.outputs + extra + 1) + states + 2048;
        let bytes = |steps: usize| {
            let most = (0..data.steps)
                .step_by(steps)
                .map(|from| data.spikes.range(from as i64, (from + steps) as i64).len())
                .max();
            // The pool may hold the last slice's spikes beside this one's.
            let each = if data.spikes.is_weighted() { 16 } else { 8 };
            (steps / TILE * a_tile + each * most.unwrap_or(0)) as u64
        };
        let mut steps = MOST_SLICE_STEPS.min(data.steps.next_multiple_of(TILE).max(TILE));
        while bytes(steps) > memory && steps > TILE {
            steps = (steps / TILE).div_ceil(2) * TILE;
        }
        let needed = bytes(steps);
        if needed > memory {
            return Err(Error::device_memory("decoding on a device", needed, memory));
        }
        Ok(steps)
    }

    /// Estimates of the next steps, those of `layout`, from their packed spikes. Does not wait.
    fn slice(
        &mut self,
        (spikes, counts): (&Buffer<u32>, Option<&Buffer<f32>>),
        starts: &Buffer<u32>,
        layout: &DeviceLayout,
    ) -> Result<Buffer<f32>> {
        let context = self.context;
        let (outputs, steps) = (self.outputs, layout.steps);
        let mut estimates: Buffer<f32> = context.alloc(steps * outputs)?;
        if outputs == 0 || steps == 0 {
            return Ok(estimates);
        }
        let trains = self.weigh(spikes, counts, starts, steps)?;
        let mut sums = self.filter(&trains, layout)?;
        if let Some(low_pass) = &mut self.low_pass {
            low_pass.run(&mut sums, steps, layout)?;
        }
        let last = DecodeEstimates {
            sums: sums.read(),
            stride: steps as u64,
            steps: steps as i32,
            mask: layout.mask.read(),
            last: self.last.read(),
            outputs: outputs as i32,
            estimates: estimates.write(),
        };
        context
            .load::<DecodeEstimates>(&self.bank.options, 0)?
            .launch(((steps * outputs).div_ceil(256) as u32, 1, 1), 256, last)?;
        Ok(estimates)
    }

    /// The weighted trains of `steps` steps, (filter × outputs + output, step).
    fn weigh(
        &self,
        spikes: &Buffer<u32>,
        counts: Option<&Buffer<f32>>,
        starts: &Buffer<u32>,
        steps: usize,
    ) -> Result<Buffer<f64>> {
        let (context, rows) = (self.context, self.rows());
        let mut trains: Buffer<f64> = context.alloc(rows * steps)?;
        let groups = u32::try_from(rows.div_ceil(ROWS_AT_ONCE)).ok();
        let Some(groups) = groups.filter(|&g| g < 1 << 16) else {
            return Err(Error::device_limit(format!(
                "decoding on a device: expected fewer filters × outputs than {}, got {rows}",
                ROWS_AT_ONCE << 16
            )));
        };
        let weigh = DecodeWeigh {
            spike: spikes.read(),
            weight: counts.unwrap_or(&self.unweighted).read(),
            starts: starts.read(),
            weights: self.weights.read(),
            rows: rows as i32,
            steps: steps as i32,
            trains: trains.write(),
            stride: steps as u64,
        };
        let mut options = self.bank.options.clone();
        if counts.is_some() {
            options.push("-DWEIGHTED".to_owned());
        }
        context.load::<DecodeWeigh>(&options, 0)?.launch(
            (steps.div_ceil(BLOCK_STEPS) as u32, groups, 1),
            BLOCK_STEPS as u32,
            weigh,
        )?;
        Ok(trains)
    }

    /// Σ over filters of the filtered `trains`, (output, step); filters go on from slice to slice.
    fn filter(&mut self, trains: &Buffer<f64>, layout: &DeviceLayout) -> Result<Buffer<f64>> {
        let (context, rows, outputs) = (self.context, self.rows(), self.outputs);
        let (bank, options) = (&self.bank, &self.bank.options);
        let steps = layout.steps;
        let (row_count, step_count, stride) = (rows as i32, steps as i32, steps as u64);
        let (output_count, tiles) = (outputs as i32, layout.tiles as i32);
        let states = layout.tiles * (bank.order + 1) * rows;
        let mut ends: Buffer<f64> = context.alloc(states)?;
        let mut words: Buffer<f64> = context.alloc(states * THREADS)?;
        let shared = tile_bytes(8);
        let tile_ends = DecodeTileEnds {
            trains: trains.read(),
            stride,
            steps: step_count,
            mask: layout.mask.read(),
            filter: bank.filter.read(),
            outputs: output_count,
            rows: row_count,
            tiles,
            at: ends.write(),
            words: words.write(),
        };
        context.load::<DecodeTileEnds>(options, shared)?.launch(
            grid(rows, layout.tiles)?,
            THREADS as u32,
            tile_ends,
        )?;
        let carry = DecodeCarry {
            at: ends.update(),
            words: words.read(),
            steps: step_count,
            uncut: layout.uncut.read(),
            tiles,
            filter: bank.filter.read(),
            outputs: output_count,
            rows: row_count,
            carry: self.carry.update(),
        };
        context.load::<DecodeCarry>(options, 0)?.launch(
            (rows.div_ceil(32) as u32, 1, 1),
            32,
            carry,
        )?;
        let mut sums: Buffer<f64> = context.alloc(outputs * steps)?;
        let sum = DecodeSum {
            trains: trains.read(),
            stride,
            steps: step_count,
            mask: layout.mask.read(),
            uncut: layout.uncut.read(),
            filter: bank.filter.read(),
            filters: bank.filters as i32,
            outputs: output_count,
            tiles,
            at: ends.read(),
            words: words.read(),
            sums: sums.write(),
        };
        context.load::<DecodeSum>(options, 2 * shared)?.launch(
            grid(outputs, layout.tiles)?,
            THREADS as u32,
            sum,
        )?;
        Ok(sums)
    }
}

/// Parameters of the last kernel, (3, output): intercept, lowest and highest value.
fn last(decoder: &Decoder) -> Vec<f64> {
    let outputs = decoder.outputs().len();
    let ranges = &decoder.limits().ranges;
    let bound = |of: fn(&OutputRange) -> f32, none: f64| {
        (0..outputs).map(move |o| ranges.get(o).map_or(none, |range| f64::from(of(range))))
    };
    let lowest = bound(|range| range.low, f64::NEG_INFINITY);
    let highest = bound(|range| range.high, f64::INFINITY);
    let intercept = decoder.intercept().iter().copied();
    intercept.chain(lowest).chain(highest).collect()
}

/// Writes the spikes of `steps`, numbers `range` of the dataset, as `decode_weigh` takes them, and
/// where each block's begin (one entry more than blocks). On rayon's pool.
///
/// # Errors
/// [`ErrorKind::InvalidRecording`] for a spike of an unknown channel or out of time order.
fn pack(
    data: &DatasetView<'_>,
    steps: &Range<usize>,
    range: Range<usize>,
    mut spikes: &mut [u32],
    starts: &mut [u32],
) -> Result<()> {
    let Some((last, mut starts)) = starts.split_last_mut() else {
        return Err(Error::new(
            ErrorKind::Internal,
            "no room for spikes' starts",
        ));
    };
    *last = range.len() as u32;
    let mut pieces = Vec::with_capacity(starts.len() / PIECE_BLOCKS + 1);
    let mut at = range.start;
    for from in steps.clone().step_by(PIECE_BLOCKS * BLOCK_STEPS) {
        let to = steps.end.min(from + PIECE_BLOCKS * BLOCK_STEPS);
        let end = at + data.spikes.ticks[at..range.end].partition_point(|&t| t < to as i64);
        // `split_off_mut` cannot fail: the slices have the range's own lengths.
        let (Some(spikes), Some(starts)) = (
            spikes.split_off_mut(..end - at),
            starts.split_off_mut(..(to - from).div_ceil(BLOCK_STEPS)),
        ) else {
            return Err(Error::new(ErrorKind::Internal, "spikes' pieces do not fit"));
        };
        pieces.push((from as i64, to as i64, at..end, spikes, starts));
        at = end;
    }
    let known = data.channels();
    pieces
        .into_par_iter()
        .try_for_each(|(from, to, own, spikes, starts)| {
            let mut next = 0;
            let mut latest = from;
            let source = data.spikes.ticks[own.clone()]
                .iter()
                .zip(&data.spikes.channels[own.clone()]);
            for (i, ((&tick, &channel), spike)) in source.zip(spikes).enumerate() {
                if channel as usize >= known {
                    return Err(Error::recording(format!(
                        "spike {}: expected a channel below {known}, got {channel}",
                        own.start + i
                    )));
                }
                if tick < latest || tick >= to {
                    return Err(Error::recording(format!(
                        "spike {}: expected ticks in ascending order",
                        own.start + i
                    )));
                }
                latest = tick;
                let step = (tick - from) as usize;
                let place = (own.start - range.start + i) as u32;
                while next <= step / BLOCK_STEPS {
                    starts[next] = place;
                    next += 1;
                }
                *spike = channel << 8 | (step % BLOCK_STEPS) as u32;
            }
            starts[next..].fill((own.end - range.start) as u32);
            Ok(())
        })
}

#[cfg(test)]
mod tests;
