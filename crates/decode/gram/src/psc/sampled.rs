//! Responses to sampled filters, chunk by chunk: kernels added at spikes where they are sparse, overlap-save where the
//! signal is dense.
//!
//! A chunk of a segment is computed for one channel at a time. A channel with c inputs that are not zero costs c times
//! the filters' lengths when their samples are added, and n·log n with transforms of n steps; the model of cost
//! ([`SAMPLED_CPU`]) chooses, chunk by chunk. Behind a low-pass every step is an input. Sums are in f64 either way.

use rayon::prelude::*;

use super::Sample;
use super::responses::Trains;
use betz_base::error::Result;
use betz_device::cost::{Calibration, CostModel};
use betz_fourier::{Complex64, ComplexToReal, Real, RealToComplex};
use betz_recording::{DatasetView, Segment};
use betz_runtime::psc::{FilterBank, LowPassFilter, SampledFilter};
use std::sync::Arc;

/// Seconds of a sample that is added, and of a step of a transform per binary logarithm of its length.
pub const SAMPLED_CPU: CostModel = CostModel {
    name: "psc.sampled.cpu",
    terms: &["additions", "transforms"],
    defaults: &[0.25e-9, 0.45e-9],
};

/// Reason for which responses to sampled filters that a device would have to transform are computed on the CPU.
pub const TRANSFORMED_ON_CPU: &str = "expected cuFFT (a part of the CUDA toolkit) for sampled filters of a signal, of counts, or behind a low-pass, got none";

/// Reason for which decoding with sampled filters runs on the CPU.
pub const SAMPLED_ON_CPU: &str = "expected filters of the form t^n e^(-t/tau) for CUDA, got sampled ones, which run on the CPU alone";

/// Long filters may be transformed: left out of libraries that are to stay small.
pub(crate) const HAS_TRANSFORMS: bool = cfg!(feature = "transforms");

/// Bytes that responses computed ahead take at most, and fewest steps of a chunk.
const MOST_AHEAD: usize = 256 << 20;
const FEWEST_STEPS: usize = 2048;

/// Sampled filters at work on all channels of a dataset.
#[derive(Debug)]
pub(super) struct SampledResponses {
    filters: Vec<SampledFilter>,
    /// Steps back, and ahead, that a response depends on.
    reach: usize,
    ahead: usize,
    /// Most steps of a chunk.
    steps: usize,
    transforms: Option<Transforms>,
    calibration: Arc<Calibration>,
    channels: Vec<Channel>,
    /// The chunk there is: steps of one segment.
    segment: usize,
    from: usize,
    to: usize,
}

/// A channel's part of a chunk, and its input behind a low-pass.
#[derive(Debug)]
struct Channel {
    /// (filter, steps) row-major.
    values: Vec<f64>,
    low_pass: Option<LowPassFilter>,
    /// Low-passed input from `first` on.
    input: Vec<f64>,
    first: usize,
}

/// Overlap-save with transforms of one length.
struct Transforms {
    length: usize,
    forward: Arc<dyn RealToComplex<f64>>,
    inverse: Arc<dyn ComplexToReal<f64>>,
    /// Of every filter, scaled by 1 / length.
    spectra: Vec<Vec<Complex64>>,
}

impl std::fmt::Debug for Transforms {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Transforms")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// Buffers of one thread.
struct Scratch {
    signal: Vec<f64>,
    spectrum: Vec<Complex64>,
    product: Vec<Complex64>,
}

impl SampledResponses {
    /// `None` for a bank without sampled filters.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for filters on another step.
    pub(super) fn new(
        data: &DatasetView<'_>,
        bank: &FilterBank,
        low_pass: Option<&LowPassFilter>,
    ) -> Result<Option<Self>> {
        bank.check_step(data.step_seconds)?;
        let filters = bank.sampled().to_vec();
        if filters.is_empty() {
            return Ok(None);
        }
        let longest = data.segments.iter().map(Segment::len).max().unwrap_or(0);
        let most = longest.saturating_sub(1);
        let last = |f: &SampledFilter| (f.stop() - 1).max(0) as usize;
        let reach = filters.iter().map(last).max().unwrap_or(0).min(most);
        let ahead = bank.ahead().min(most);
        let calibration = Calibration::current();
        let room = MOST_AHEAD / (8 * data.channels() * filters.len()).max(1);
        let room = room.max(FEWEST_STEPS).min(longest.max(1));
        let span = reach + ahead + 1;
        let shape = Shape {
            filters: &filters,
            reach,
            ahead,
        };
        // Dense input is the dearest to add; if transforms do not pay for it, they never do.
        let length = (room + span)
            .min(4 * span.max(FEWEST_STEPS))
            .next_power_of_two();
        let steps = (length - (span - 1)).min(room);
        let dense = shape.additions(steps + span, steps);
        // Transforms add in the order of the processor's vectors.
        let pays = HAS_TRANSFORMS
            && !betz_linear::has_one_order()
            && calibration.seconds(&SAMPLED_CPU, &[0.0, shape.transforms(length)])
                < calibration.seconds(&SAMPLED_CPU, &[dense, 0.0]);
        let transforms = pays.then(|| Transforms::new(&shape, length));
        let channel = || Channel {
            values: Vec::new(),
            low_pass: low_pass.cloned(),
            input: Vec::new(),
            first: 0,
        };
        Ok(Some(Self {
            steps: if pays { steps } else { room.min(FEWEST_STEPS) },
            channels: (0..data.channels()).map(|_| channel()).collect(),
            filters,
            reach,
            ahead,
            transforms,
            calibration,
            segment: usize::MAX,
            from: 0,
            to: 0,
        }))
    }

    /// Writes the responses at steps `start` to `stop` of segment number `number` to `rows`, (channel, filter,
    /// `columns`), of which the last filters of each channel are these; from column `column` on.
    pub(super) fn write<T: Sample>(
        &mut self,
        data: &DatasetView<'_>,
        trains: &Trains,
        number: usize,
        (start, stop): (usize, usize),
        rows: &mut [T],
        (columns, column): (usize, usize),
    ) {
        let mut at = start;
        while at < stop {
            if number != self.segment || at < self.from || at >= self.to {
                self.compute(data, trains, number, at);
            }
            let until = stop.min(self.to);
            let (chunk, skip) = (self.to - self.from, at - self.from);
            let of_channel = rows.len() / self.channels.len().max(1);
            let filters = self.filters.len();
            let column = column + at - start;
            rows.par_chunks_mut(of_channel.max(1))
                .zip(&self.channels)
                .for_each(|(rows, channel)| {
                    let own = rows.len() - filters * columns;
                    let rows = rows[own..].chunks_exact_mut(columns);
                    for (row, values) in rows.zip(channel.values.chunks_exact(chunk)) {
                        let values = &values[skip..skip + until - at];
                        for (to, value) in row[column..].iter_mut().zip(values) {
                            *to = T::rounded(*value);
                        }
                    }
                });
            at = until;
        }
    }

    /// Computes the chunk of segment `number` that begins at step `from`.
    fn compute(&mut self, data: &DatasetView<'_>, trains: &Trains, number: usize, from: usize) {
        let segment = &data.segments[number];
        let fresh = number != self.segment || from < self.from;
        let (begin, end) = (segment.start.max(0) as usize, segment.stop.max(0) as usize);
        let to = (from + self.steps).min(end);
        (self.segment, self.from, self.to) = (number, from, to);
        let window = from.saturating_sub(self.reach).max(begin)..(to + self.ahead).min(end);
        let shape = Shape {
            filters: &self.filters,
            reach: self.reach,
            ahead: self.ahead,
        };
        let (transforms, calibration) = (self.transforms.as_ref(), &*self.calibration);
        let chunk = Chunk { from, to, window };
        self.channels.par_iter_mut().enumerate().for_each_init(
            || transforms.map(Transforms::scratch),
            |scratch, (number, channel)| {
                let input = channel.input(trains, number, begin, fresh, &chunk);
                channel.values.clear();
                channel
                    .values
                    .resize(shape.filters.len() * (to - from), 0.0);
                let by_transform = transforms.zip(scratch.as_mut()).filter(|(transforms, _)| {
                    let additions = shape.additions(input.len(), to - from);
                    let transformed = shape.transforms(transforms.length);
                    calibration.seconds(&SAMPLED_CPU, &[0.0, transformed])
                        < calibration.seconds(&SAMPLED_CPU, &[additions, 0.0])
                });
                match by_transform {
                    Some((transforms, scratch)) => {
                        transforms.run(&shape, &chunk, &input, scratch, &mut channel.values);
                    }
                    None => shape.add(&chunk, &input, &mut channel.values),
                }
            },
        );
    }
}

/// Steps of a chunk, and of the inputs that it depends on.
struct Chunk {
    from: usize,
    to: usize,
    window: std::ops::Range<usize>,
}

impl Channel {
    /// The inputs that are not zero in the chunk's window, as (step, value).
    fn input(
        &mut self,
        trains: &Trains,
        number: usize,
        begin: usize,
        fresh: bool,
        chunk: &Chunk,
    ) -> Vec<(usize, f64)> {
        let train = trains.of(number);
        let counts = |from: usize, to: usize| {
            let first = train.partition_point(|&s| (s as usize) < from);
            let late = train[first..].iter().enumerate();
            late.take_while(move |(_, s)| (**s as usize) < to)
                .map(move |(i, &s)| (s as usize, trains.weight(number, first + i)))
        };
        let Some(low_pass) = &mut self.low_pass else {
            return counts(chunk.window.start, chunk.window.end).collect();
        };
        if fresh {
            low_pass.reset();
            self.input.clear();
            self.first = begin;
        }
        let done = self.first + self.input.len();
        if chunk.window.end > done {
            let kept = self.input.len();
            self.input.resize(kept + chunk.window.end - done, 0.0);
            for (step, count) in counts(done, chunk.window.end) {
                self.input[step - self.first] += count;
            }
            for value in &mut self.input[kept..] {
                low_pass.step(std::slice::from_mut(value));
            }
        }
        let old = chunk.window.start.saturating_sub(self.first);
        self.input.drain(..old.min(self.input.len()));
        self.first = self.first.max(chunk.window.start);
        let steps = self.first..;
        let within = steps.zip(&self.input).map(|(t, x)| (t, *x));
        within.take_while(|(t, _)| *t < chunk.window.end).collect()
    }
}

/// The filters, and how far a response depends on its neighbours.
struct Shape<'a> {
    filters: &'a [SampledFilter],
    reach: usize,
    ahead: usize,
}

impl Shape<'_> {
    /// Samples to add for `inputs` inputs to a chunk of `steps`.
    fn additions(&self, inputs: usize, steps: usize) -> f64 {
        let samples = (self.filters.iter()).map(|f| f.samples().len().min(steps));
        inputs as f64 * samples.sum::<usize>() as f64
    }

    /// n·log n of the transforms of a chunk: one there, and one back per filter.
    fn transforms(&self, length: usize) -> f64 {
        let n = length as f64;
        (1 + self.filters.len()) as f64 * n * n.log2()
    }

    /// Adds every filter's samples at every input.
    fn add(&self, chunk: &Chunk, input: &[(usize, f64)], values: &mut [f64]) {
        let arch = pulp::Arch::new();
        for (filter, row) in self
            .filters
            .iter()
            .zip(values.chunks_exact_mut(chunk.to - chunk.from))
        {
            arch.dispatch(|| {
                for &(step, x) in input {
                    // Sample i comes at step + start + i.
                    let first = step as i64 + filter.start() - chunk.from as i64;
                    let skip = (-first).max(0) as usize;
                    let samples = filter.samples().get(skip..).unwrap_or(&[]);
                    let at = first.max(0) as usize;
                    for (y, h) in row.get_mut(at..).unwrap_or(&mut []).iter_mut().zip(samples) {
                        *y += x * h;
                    }
                }
            });
        }
    }
}

impl Transforms {
    fn new(shape: &Shape<'_>, length: usize) -> Self {
        let forward = f64::forward(length);
        let spectrum = |filter: &SampledFilter| {
            let mut signal = forward.make_input_vec();
            for m in -(shape.ahead as i64)..=shape.reach as i64 {
                signal[(m + shape.ahead as i64) as usize] = filter.at(m) / length as f64;
            }
            let mut spectrum = forward.make_output_vec();
            // Lengths are the plan's own.
            let _ = forward.process(&mut signal, &mut spectrum);
            spectrum
        };
        Self {
            length,
            spectra: shape.filters.iter().map(spectrum).collect(),
            inverse: f64::inverse(length),
            forward,
        }
    }

    fn scratch(&self) -> Scratch {
        Scratch {
            signal: self.forward.make_input_vec(),
            spectrum: self.forward.make_output_vec(),
            product: self.forward.make_output_vec(),
        }
    }

    /// Overlap-save: the signal begins `reach` steps before the chunk, and the first reach + ahead of a circular
    /// convolution's results are not used.
    fn run(
        &self,
        shape: &Shape<'_>,
        chunk: &Chunk,
        input: &[(usize, f64)],
        scratch: &mut Scratch,
        values: &mut [f64],
    ) {
        let Scratch {
            signal,
            spectrum,
            product,
        } = scratch;
        signal.fill(0.0);
        for &(step, x) in input {
            signal[step + shape.reach - chunk.from] += x;
        }
        // Lengths are the plan's own, and a product of spectra of real signals is one.
        let _ = self.forward.process(signal, spectrum);
        let steps = chunk.to - chunk.from;
        for (own, row) in self.spectra.iter().zip(values.chunks_exact_mut(steps)) {
            for ((p, x), h) in product.iter_mut().zip(&*spectrum).zip(own) {
                *p = x * h;
            }
            // Rounding leaves imaginary parts where a real signal has none.
            if let [first, .., last] = product.as_mut_slice() {
                (first.im, last.im) = (0.0, 0.0);
            }
            let _ = self.inverse.process(product, signal);
            row.copy_from_slice(&signal[shape.reach + shape.ahead..][..steps]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dataset, worst};
    use super::super::{Block, Responses, oracle};
    use super::*;
    use betz_base::ErrorKind;
    use betz_recording::Dataset;
    use betz_runtime::psc::{Filter, LowPass};

    fn filter(name: &str, length: usize, start: i64) -> SampledFilter {
        let h = |i: usize| ((i * i + 3 * i) % 19) as f64 / 19.0 - 0.3;
        SampledFilter::new(name, (0..length).map(h).collect(), 0.002, start).unwrap()
    }

    fn data(every: i64) -> Dataset {
        let segments = [(0, 700), (700, 701), (720, 9000), (9005, 9100)];
        let segments = segments.map(|(start, stop)| Segment { start, stop });
        let spikes = (0..9100 / every).map(|i| (i * every, (i % 3) as u32));
        dataset(0.002, 3, segments.to_vec(), 9100, spikes.collect())
    }

    /// Sparse and dense spikes, causal and acausal filters, short and long, with and without a low-pass.
    #[test]
    fn every_way_equals_the_oracle() {
        let recursive = Filter {
            tau_seconds: 0.02,
            order: 1,
        };
        let banks = [
            FilterBank::with_sampled(vec![], vec![filter("short", 9, 0)]),
            FilterBank::with_sampled(vec![recursive], vec![filter("late", 300, 40)]),
            FilterBank::with_sampled(
                vec![recursive],
                vec![filter("ahead", 500, -250), filter("past", 60, -90)],
            ),
            FilterBank::with_sampled(vec![], vec![filter("long", 20_000, 0), filter("a", 1, -1)]),
        ];
        let low_pass = LowPass {
            order: 2,
            cutoff_hz: 30.0,
        };
        for bank in banks.map(Result::unwrap) {
            for (every, low_pass) in [(97, None), (1, None), (13, Some(low_pass))] {
                let data = data(every);
                let expected = oracle::responses(&data, &bank, low_pass).unwrap();
                let all = data.steps_in_segments();
                for columns in [all, 777] {
                    let mut walk = Responses::new(&data, &bank, low_pass).unwrap();
                    let mut block = Block::<f64>::default();
                    let mut done = 0;
                    while walk.next_block(columns, &mut block) {
                        let width = block.steps.len();
                        let part: Vec<f64> = (expected.chunks(all))
                            .flat_map(|row| row[done..done + width].to_vec())
                            .collect();
                        let values = block.values.iter().copied();
                        let off = worst(&part, values, width, &[1e-2]);
                        let names: Vec<&str> = bank.sampled().iter().map(|f| f.name()).collect();
                        assert!(off < 1e-10, "{names:?}, every {every}: {off:e}");
                        done += width;
                    }
                    assert_eq!(done, all);
                }
            }
        }
    }

    /// The choice by cost takes both ways, and they agree.
    #[test]
    fn dense_signals_are_transformed_and_sparse_ones_are_not() {
        let bank = FilterBank::with_sampled(vec![], vec![filter("long", 3000, 0)]).unwrap();
        let (sparse, dense) = (data(900), data(1));
        let walk = |data: &Dataset| {
            let view = DatasetView::from(data);
            SampledResponses::new(&view, &bank, None).unwrap().unwrap()
        };
        assert!(walk(&dense).transforms.is_some());
        let shape = Shape {
            filters: bank.sampled(),
            reach: 2999,
            ahead: 0,
        };
        let seconds = |terms: &[f64]| Calibration::default().seconds(&SAMPLED_CPU, terms);
        let transformed = seconds(&[0.0, shape.transforms(16_384)]);
        let steps = walk(&sparse).steps;
        assert!(seconds(&[shape.additions(10, steps), 0.0]) < transformed);
        assert!(seconds(&[shape.additions(4000, steps), 0.0]) > transformed);
    }

    #[test]
    fn a_filter_on_another_step_is_refused_by_name() {
        let other = SampledFilter::new("k.csv", vec![1.0], 0.001, 0).unwrap();
        let bank = FilterBank::with_sampled(vec![], vec![other]).unwrap();
        let error = Responses::new(&data(50), &bank, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.message().contains("k.csv"), "{error}");
    }
}
