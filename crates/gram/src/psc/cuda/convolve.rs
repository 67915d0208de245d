//! PSC filtering on a device by cuFFT: overlap-save with transforms much shorter than a recording.
//!
//! A channel is cut into chunks that share the filters' length with the one before; each is one row
//! of a batched real transform. One pass multiplies it with the spectra of every filter of the bank
//! (scaled by 1/length, made in f64), and the inverse transforms leave the responses. cuFFT takes one
//! pass over memory for a short transform, so short ones win although chunks overlap.

use std::sync::{Arc, Mutex, PoisonError};

use super::Stretch;
use super::recursive::Rows;
use crate::psc::Sample;
use betz_base::error::{Error, Result};
use betz_device::cuda::{Buffer, Context, RealFft};
use betz_kernels::psc::{ConvolveLoad, ConvolveMultiply, ConvolveStore};
use betz_kernels::{Chunk, Complex, InPlace, Sample as KernelSample};
use betz_recording::Segment;
use betz_runtime::psc::FilterBank;

/// Samples that one block copies.
const COPIED: usize = 1024;

/// Rows that one block multiplies.
const MULTIPLIED: usize = 8;

/// What chunks' places are a multiple of, in samples.
const ALIGNED: usize = 32;

/// Largest transform, 2²⁷ samples.
const LONGEST: usize = 1 << 27;

/// Filters as spectra, for segments of up to a planned length.
pub(crate) struct Convolver<'a> {
    context: &'a Context,
    filters: usize,
    /// Samples of the longest filter that count.
    pub(crate) taps: usize,
    length: usize,
    /// filters × bins.
    spectra: Buffer<Complex>,
    /// What rows, products and working memory may take; what is available, where nothing is said.
    pub(crate) room: Option<u64>,
    /// The last run's plan, and for how many rows.
    planned: Mutex<Option<(usize, Arc<RealFft>)>>,
}

impl<'a> Convolver<'a> {
    /// Plans for segments of up to `longest` steps, cut where 1e-8 of a filter's sum is left; by
    /// transforms of `length` samples, where that is given, or of the length that looks cheapest.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory) when the filters want a transform of more than 2²⁷ samples;
    /// those of the device.
    pub(crate) fn new(
        context: &'a Context,
        bank: &FilterBank,
        step_seconds: f64,
        longest: usize,
        length: Option<usize>,
    ) -> Result<Self> {
        let filters = bank.filters().iter();
        let taps = filters.map(|f| f.taps(step_seconds, f32::TAIL)).max();
        let taps = taps.unwrap_or(1).clamp(1, longest.max(1));
        let asked = length
            .map(|l| l.max(taps).next_multiple_of(2))
            .filter(|&l| l <= LONGEST);
        let length = asked.or_else(|| cheapest_length(taps, longest.max(1)));
        let length = length.ok_or_else(|| {
            Error::device_limit(format!(
                "filters on a device: expected at most {} taps, got {taps}",
                LONGEST / 2
            ))
        })?;
        Ok(Self {
            context,
            filters: bank.len(),
            taps,
            length,
            spectra: context.upload(&spectra(bank, step_seconds, taps, length))?,
            room: None,
            planned: Mutex::default(),
        })
    }

    /// Responses of `channels` rows to the steps of `stretch` that `segments` divide. Sample 0 of
    /// `input` is at step `origin`, at most `from` − (taps − 1) where a segment began so early; step
    /// `from` is sample 0 of `output`, whose row is channel × filters + filter. Steps outside
    /// segments become zero. Does not wait.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory) when not even one row fits; those of the device.
    pub(crate) fn run<T: KernelSample>(
        &self,
        input: Rows<'_, T>,
        segments: &[Segment],
        stretch: Stretch,
        channels: usize,
        output: &mut Buffer<f32>,
        output_stride: usize,
    ) -> Result<()> {
        let context = self.context;
        let Stretch { from, to, .. } = stretch;
        let chunks = self.chunks(segments, stretch);
        let count = chunks.len();
        let items = channels * count;
        let inside = |s: &Segment| (s.stop.min(to) - s.start.max(from)).max(0);
        if segments.iter().map(inside).sum::<i64>() < to - from {
            context.clear(output)?;
        }
        if items == 0 {
            return Ok(());
        }
        let chunk = context.upload(&chunks)?;
        let plan = self.plan(items)?;
        let (batch, pitch) = (plan.batch, plan.pitch);
        let mut rows: Buffer<f32> = context.alloc(batch * pitch)?;
        let mut products: Option<Buffer<f32>> = (self.filters > 1)
            .then(|| context.alloc(batch * pitch * self.filters))
            .transpose()?;
        let mut work: Buffer<u8> = context.alloc(plan.work_bytes)?;
        let options = [format!("-DINPUT={}", T::VALUE)];
        let load = context.load::<ConvolveLoad<T>>(&options, 0)?;
        let multiply = context.load::<ConvolveMultiply>(&options, 0)?;
        let store = context.load::<ConvolveStore>(&options, 0)?;
        let bins = self.length / 2 + 1;
        for first in (0..items).step_by(batch) {
            let parts = pitch.div_ceil(COPIED);
            let arguments = ConvolveLoad {
                input: input.values,
                stride: input.stride as u64,
                chunk: chunk.read(),
                chunks: count as i32,
                first_item: first as i64,
                items: items as i64,
                parts: parts as i32,
                length: self.length as i32,
                pitch: pitch as i32,
                rows: rows.write(),
            };
            load.launch(((batch * parts) as u32, 1, 1), 256, arguments)?;
            plan.forward(context, &mut rows, &mut work)?;
            let blocks = (
                bins.div_ceil(256) as u32,
                batch.div_ceil(MULTIPLIED) as u32,
                1,
            );
            let (from, to) = match &mut products {
                Some(products) => (InPlace::from(rows.read()), products.update()),
                None => {
                    let rows = rows.update();
                    (rows.in_place(), rows)
                }
            };
            let arguments = ConvolveMultiply {
                rows: from,
                spectra: self.spectra.read(),
                filters: self.filters as i32,
                batch: batch as i32,
                bins: bins as i32,
                pitch: pitch as i32,
                products: to,
            };
            multiply.launch(blocks, 256, arguments)?;
            let responses = products.as_mut().unwrap_or(&mut rows);
            for f in 0..self.filters {
                plan.inverse(context, responses, f * batch * pitch, &mut work)?;
            }
            let parts = self.length.div_ceil(COPIED);
            let arguments = ConvolveStore {
                products: responses.read(),
                chunk: chunk.read(),
                chunks: count as i32,
                first_item: first as i64,
                items: items as i64,
                parts: parts as i32,
                filters: self.filters as i32,
                batch: batch as i32,
                pitch: pitch as i32,
                output: output.update(),
                output_stride: output_stride as u64,
            };
            let blocks = ((self.filters * batch * parts) as u32, 1, 1);
            store.launch(blocks, 256, arguments)?;
        }
        Ok(())
    }

    /// The chunks of a channel.
    fn chunks(&self, segments: &[Segment], stretch: Stretch) -> Vec<Chunk> {
        let Stretch { origin, from, to } = stretch;
        // Where the transform has room for it, chunks begin at multiples of 32 samples.
        let aligned = (self.taps - 1).next_multiple_of(ALIGNED);
        let (reach, most) = match (self.length.saturating_sub(aligned)) / ALIGNED * ALIGNED {
            0 => (self.taps as i64 - 1, (self.length + 1 - self.taps) as i64),
            fresh => (aligned as i64, fresh as i64),
        };
        let mut chunks = Vec::new();
        for segment in segments.iter().filter(|s| s.start < to && s.stop > from) {
            let (mut at, stop) = (segment.start.max(from), segment.stop.min(to));
            while at < stop {
                let history = reach.min(at - segment.start).min(at - origin);
                // Where there is less history than the filters reach back to, zeros wrap round.
                let fresh = most.min(stop - at);
                chunks.push(Chunk {
                    first: (at - history - origin) as i32,
                    count: (history + fresh) as i32,
                    skip: history as i32,
                    to: (at - from) as i32,
                });
                at += fresh;
            }
        }
        chunks
    }

    /// A plan for `items` rows: that of the run before, if it was for as many.
    fn plan(&self, items: usize) -> Result<Arc<RealFft>> {
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        match &*planned {
            Some((rows, plan)) if *rows == items => Ok(Arc::clone(plan)),
            _ => {
                let plan = self.fitting_plan(items)?;
                *planned = Some((items, Arc::clone(&plan)));
                Ok(plan)
            }
        }
    }

    /// A plan whose rows, products and working memory fit.
    fn fitting_plan(&self, items: usize) -> Result<Arc<RealFft>> {
        let context = self.context;
        let available = match self.room {
            Some(bytes) => bytes,
            None => context.available_memory()?,
        } as usize;
        let rows = if self.filters > 1 {
            1 + self.filters
        } else {
            1
        };
        let bytes = |batch: usize| -> Result<usize> {
            let data = batch * rows * betz_device::cuda::fft_pitch(self.length) * 4;
            Ok(data + context.real_fft_bytes(self.length, batch)?)
        };
        // Blocks are numbered in 31 bits; indices of one batch stay below it as well.
        let widest = (1usize << 30) / (self.length.div_ceil(COPIED) * (1 + self.filters));
        let mut batch = items.min(widest.max(1)).min((1 << 30) / self.length).max(1);
        while batch > 1 && bytes(batch)? > available {
            batch = batch.div_ceil(2);
        }
        let needed = bytes(batch)?;
        if needed > available {
            let what = format_args!(
                "filters on a device: one transform of {} samples",
                self.length
            );
            return Err(Error::device_memory(what, needed as u64, available as u64));
        }
        // Rounds of equal size: a last, short one would transform rows of nothing.
        let rounds = items.div_ceil(batch);
        context.real_fft(self.length, items.div_ceil(rounds))
    }
}

/// Spectra of the filters' first `taps` samples, with the transforms' 1/length: filters × bins.
fn spectra(bank: &FilterBank, step_seconds: f64, taps: usize, length: usize) -> Vec<Complex> {
    let forward = <f64 as betz_fourier::Real>::forward(length);
    let mut spectrum = forward.make_output_vec();
    let norm = 1.0 / length as f64;
    let mut all = Vec::with_capacity(bank.len() * spectrum.len());
    for filter in bank.filters() {
        let mut impulse = filter.impulse(step_seconds, taps);
        impulse.resize(length, 0.0);
        // Fails only on wrong lengths, and these are the plan's own.
        let made = forward.process(&mut impulse, &mut spectrum);
        debug_assert!(made.is_ok());
        all.extend(spectrum.iter().map(|z| Complex {
            re: (z.re * norm) as f32,
            im: (z.im * norm) as f32,
        }));
    }
    all
}

/// The even length of the form 2^a·3^b·5^c·7^d with the least traffic for a signal of `longest`
/// samples; `None` when `taps` are too many.
fn cheapest_length(taps: usize, longest: usize) -> Option<usize> {
    let padded = (longest + taps - 1).next_multiple_of(2);
    if taps > LONGEST / 2 {
        return None;
    }
    let mut best = None;
    let mut least = f64::INFINITY;
    for a in 1..=27u32 {
        for b in 0..=4 {
            for c in 0..=2 {
                for d in 0..=1 {
                    let length = (1usize << a) * 3usize.pow(b) * 5usize.pow(c) * 7usize.pow(d);
                    if length < taps || length > LONGEST || length > 2 * padded.max(8) {
                        continue;
                    }
                    let chunks = longest.div_ceil(length + 1 - taps) as f64;
                    // What a transform takes, in passes over memory such as load, product and
                    // store are (measured on an H200; see benches/record/gpu.md).
                    let passes = match length {
                        0..=2048 => 1.9,
                        2049..=4096 => 2.1,
                        4097..=8192 => 2.9,
                        8193..=16_384 => 4.0,
                        _ => 5.2,
                    };
                    let odd = if b + c + d > 0 { 1.2 } else { 1.0 };
                    let cost = chunks * length as f64 * (3.0 + 2.0 * passes * odd);
                    if cost < least {
                        (best, least) = (Some(length), cost);
                    }
                }
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_hold_the_filters_and_are_smooth() {
        for taps in [1, 2, 7, 900, 5000, 100_000, 3_000_000] {
            for longest in [1, 2, 50, 3000, 400_000, 40_000_000] {
                let taps = taps.min(longest);
                let length = cheapest_length(taps, longest).unwrap();
                assert!(
                    length >= taps && length.is_multiple_of(2),
                    "{taps} {longest}: {length}"
                );
                let mut rest = length;
                for prime in [2, 3, 5, 7] {
                    while rest.is_multiple_of(prime) {
                        rest /= prime;
                    }
                }
                assert_eq!(rest, 1);
            }
        }
        assert!(cheapest_length(LONGEST, LONGEST).is_none());
        // A long recording and a short filter: many short transforms.
        assert!(cheapest_length(900, 1 << 19).unwrap() <= 1 << 14);
    }
}
