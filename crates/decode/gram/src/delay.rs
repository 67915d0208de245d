//! The delay between movement and responses, by cross-correlation.
//!
//! The paper's pipeline filters responses with a low-pass and then adjusts them for delay before decoding (Galbraith
//! 2010, §5.1): the filters and the low-pass delay a(t), and neurons lead or lag the movement. For every lag l, an FFT
//! per segment gives the correlation ρ_jo(l) of feature j with output o at l steps earlier. The delay is the lag with
//! the largest Σ_j Σ_o ρ_jo(l)². A CUDA device computes the same with cuFFT (`gram::cuda::lags`).

use betz_fourier::{Complex64, ComplexToReal, Real, RealToComplex};
use rayon::prelude::*;
use std::sync::Arc;

use crate::gram::cuda::lags;
use crate::psc::{Block, Responses};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress};
use betz_device::cost::{Calibration, CostModel};
use betz_device::cuda::has_transforms;
use betz_device::{Device, Placement, Ran, Work};
use betz_recording::{DatasetView, check_segments};
use betz_runtime::psc::{FilterBank, LowPass};

/// Smallest number of steps per chunk for each step of lag; longer chunks waste less on overlap.
const CHUNK_LAGS: usize = 4;

/// Responses: one per step and feature. Transforms: steps of transforms per binary logarithm of their length. One thread's
/// seconds. The defaults are estimates; the program `delays` of `benches/programs` measures both sides.
const DELAY_CPU: CostModel = CostModel {
    name: "delay.cpu",
    terms: &["responses", "transforms"],
    defaults: &[5e-9, 1e-9],
};

/// The same on a CUDA device, which sends spikes first. Plans of cuFFT take a few milliseconds.
const DELAY_CUDA: CostModel = CostModel {
    name: "delay.cuda",
    terms: &["1", "spikes", "responses", "transforms"],
    defaults: &[5e-3, 0.45e-9, 20e-12, 0.7e-12],
};

/// The reason for which a delay is searched on the CPU though a CUDA device was named.
const NO_TRANSFORMS: &str = "cuFFT, which the search for a delay needs, cannot be loaded";

/// Correlation of the responses with the behaviour of `l` steps before, for each lag l, and the lag with the largest
/// one.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayEstimate {
    /// Lag with the largest correlation: a decoder's `delay_steps`.
    pub delay_steps: i64,
    /// First lag of `correlation`.
    pub first_lag: i64,
    /// Mean over features and outputs of ρ², one entry per lag. Constant features and outputs count as uncorrelated.
    pub correlation: Vec<f64>,
    /// Device that computed it, and the reason if it was not another.
    pub ran: Ran,
}

/// Estimates the delay of `data`'s responses to `bank` (and `low_pass`) between −`most` and `most` steps. A positive
/// delay means that responses follow the behaviour. Ties go to the smallest delay, so uncorrelated data have none.
///
/// Lags are taken inside segments. Near a segment's ends there are fewer pairs, so `most` should be well below the
/// length of a segment. Takes three transforms of about 6 × `most` steps per feature and per chunk of 4 × `most` steps;
/// allocates one spectrum per feature and output.
///
/// # Errors
/// [`ErrorKind::InsufficientData`] without behaviour, channels or steps; `OutOfMemory` for spectra that no memory holds;
/// the errors of [`Responses::new`];
/// [`ErrorKind::Interrupted`] if `progress` cancels.
pub fn estimate_delay<'d>(
    data: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    most: usize,
    progress: &dyn Progress,
) -> Result<DelayEstimate> {
    let data = &data.into();
    let most = check(data, bank, most)?;
    let (features, outputs) = (data.channels() * bank.len(), data.outputs.len());
    let steps = data.steps_in_segments();
    let chunk = chunk_of(most, longest(data));
    let correlator = Correlator::new(chunk, most);
    betz_base::memory::plan(
        format_args!("the delay of {features} features over lags of up to {most} steps"),
        16 * correlator.bins() as u128 * outputs as u128 * features as u128,
    )?;
    let behavior = CentredBehavior::new(data);
    let mut walk = Responses::new(data, bank, low_pass)?;
    let mut totals = vec![Totals::default(); features];
    let mut products = vec![vec![Complex64::default(); correlator.bins() * outputs]; features];
    // Sums of the behaviour at each lag's partners would differ by the ends alone; it is centred
    // once, and the features' means drop out against it but for these ends.
    let mut block = Block::<f64>::default();
    let mut done = 0;
    while walk.next_block(chunk, &mut block) {
        progress::check(progress, "delay")?;
        let columns = block.steps.len();
        let runs = runs(data, &block.steps);
        for (first, len, segment) in runs {
            let window = correlator.window(&behavior, &data.segments[segment], block.steps[first]);
            totals
                .par_iter_mut()
                .zip(&mut products)
                .zip(block.values.par_chunks_exact(columns))
                .for_each_init(
                    || correlator.scratch(),
                    |scratch, ((totals, product), row)| {
                        let row = &row[first..first + len];
                        totals.add(row);
                        correlator.add(row, &window, product, scratch);
                    },
                );
        }
        done += columns;
        progress.update("delay", done as u64, steps as u64);
    }
    let means = mean_correlations(&totals, &products, &correlator, &behavior, steps);
    Ok(DelayEstimate::new(means, Ran::default()))
}

/// [`estimate_delay`] on `device` where the user named it; [`Device::auto`] runs where this host's calibration expects less
/// time. A CUDA device computes in f32: each `correlation` is within 5e-5 of the CPU's. The delay is the same unless
/// two lags are that close. A feature is constant for it if it varies by less than 1e-5 of its root mean square. Of several
/// devices the first takes part.
///
/// # Errors
/// The errors of [`estimate_delay`]; [`ErrorKind::DeviceMemory`] if one channel does not fit a device that the user named; those
/// of the device.
pub fn estimate_delay_on<'d>(
    device: &Device,
    data: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    most: usize,
    progress: &dyn Progress,
) -> Result<DelayEstimate> {
    let data = &data.into();
    let longest_lag = check(data, bank, most)?;
    let placement = choose_device(device, data, bank, longest_lag);
    if let Some(context) = placement.contexts().first() {
        let behavior = CentredBehavior::new(data);
        let centred: Vec<f32> = behavior.values.iter().map(|x| *x as f32).collect();
        let search = lags::LagSearch {
            data,
            bank,
            low_pass,
            most: longest_lag,
            behavior: &centred,
            squares: &behavior.squares,
        };
        let found = lags::mean_correlations(context, &search, progress);
        if let Some(means) = placement.or_cpu(found)? {
            return Ok(DelayEstimate::new(means, placement.ran("")));
        }
    }
    Ok(DelayEstimate {
        ran: placement.ran(""),
        ..estimate_delay(data, bank, low_pass, most, progress)?
    })
}

/// The device for lags of up to `most` steps.
fn choose_device(
    device: &Device,
    data: &DatasetView<'_>,
    bank: &FilterBank,
    most: usize,
) -> Placement {
    let steps = data.steps_in_segments() as f64;
    let responses = steps * (data.channels() * bank.len()) as f64;
    // Each chunk of a feature has a transform of this length.
    let chunk = chunk_of(most, longest(data));
    let length = (chunk + 2 * most).next_power_of_two() as f64;
    let transforms = responses / chunk as f64 * length * length.log2().max(1.0);
    let threads = rayon::current_num_threads().max(1) as f64;
    let calibration = Calibration::current();
    let spikes = data.events_in_segments() as f64;
    let work = Work::Seconds {
        cpu: calibration.seconds(&DELAY_CPU, &[responses / threads, transforms / threads]),
        cuda: calibration.seconds(&DELAY_CUDA, &[1.0, spikes, responses, transforms]),
    };
    let placement = Placement::decide(device, work);
    match placement.is_cpu() || has_transforms() {
        true => placement,
        false => Placement::cpu_instead(device, NO_TRANSFORMS),
    }
}

/// Checks that there is something to correlate; the largest lag of at most `most` steps that a segment has.
fn check(data: &DatasetView<'_>, bank: &FilterBank, most: usize) -> Result<usize> {
    data.spikes.check(data.steps as i64, data.channels())?;
    check_segments(data.segments, data.steps as i64)?;
    let (features, outputs) = (data.channels() * bank.len(), data.outputs.len());
    let steps = data.steps_in_segments();
    if features == 0 || outputs == 0 || steps == 0 || data.behavior.len() != data.steps * outputs {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "delay: expected channels, steps in segments and behaviour at every step, got {features} features, {steps} steps, {} values of {outputs} outputs",
                data.behavior.len()
            ),
        ));
    }
    Ok(most.min(longest(data) - 1))
}

/// Steps of the longest segment.
fn longest(data: &DatasetView<'_>) -> usize {
    data.segments.iter().map(|s| s.len()).max().unwrap_or(0)
}

/// Steps of a chunk for lags of up to `most` steps.
fn chunk_of(most: usize, longest: usize) -> usize {
    (CHUNK_LAGS * most).max(256).min(longest)
}

impl DelayEstimate {
    /// The lag with the largest of `means`, which are in the order of lags and as many on both sides of 0.
    fn new(means: Vec<f64>, ran: Ran) -> Self {
        let most = (means.len() / 2) as i64;
        let lag = |i: usize| i as i64 - most;
        let best = (0..means.len()).reduce(|a, b| {
            let (x, y) = (means[a], means[b]);
            if y > x || (y == x && lag(b).abs() < lag(a).abs()) {
                b
            } else {
                a
            }
        });
        Self {
            delay_steps: best.map_or(0, lag),
            first_lag: -most,
            correlation: means,
            ran,
        }
    }
}

/// Squared correlation of features and outputs by lag, averaged over all pairs.
fn mean_correlations(
    totals: &[Totals],
    products: &[Vec<Complex64>],
    correlator: &Correlator,
    behavior: &CentredBehavior,
    steps: usize,
) -> Vec<f64> {
    let outputs = behavior.outputs;
    let mut correlation = vec![0.0; 2 * correlator.most + 1];
    for (total, product) in totals.iter().zip(products) {
        let spread = total.square - total.sum * total.sum / steps as f64;
        if spread <= 1e-12 * total.square {
            continue;
        }
        for (o, product) in product.chunks_exact(correlator.bins()).enumerate() {
            if behavior.squares[o] > 0.0 {
                let sums = correlator.lags(product);
                for (c, sum) in correlation.iter_mut().zip(sums) {
                    *c += sum * sum / (spread * behavior.squares[o]);
                }
            }
        }
    }
    correlation
        .iter_mut()
        .for_each(|c| *c /= (totals.len() * outputs) as f64);
    correlation
}

/// Behaviour minus its mean, and the sum of squares of each output.
pub(crate) struct CentredBehavior {
    /// (steps, outputs) row-major.
    pub(crate) values: Vec<f64>,
    pub(crate) squares: Vec<f64>,
    outputs: usize,
}

impl CentredBehavior {
    pub(crate) fn new(data: &DatasetView<'_>) -> Self {
        let n = data.outputs.len();
        let inside = || {
            let steps = data.segments.iter().flat_map(|s| s.start..s.stop);
            steps.map(|t| t as usize * n)
        };
        let mut mean = vec![0.0; n];
        for row in inside() {
            for (m, x) in mean.iter_mut().zip(&data.behavior[row..]) {
                *m += f64::from(*x);
            }
        }
        let steps = data.steps_in_segments() as f64;
        mean.iter_mut().for_each(|m| *m /= steps);
        let mut values = vec![0.0; data.behavior.len()];
        let mut squares = vec![0.0; n];
        for row in inside() {
            for o in 0..n {
                let x = f64::from(data.behavior[row + o]) - mean[o];
                values[row + o] = x;
                squares[o] += x * x;
            }
        }
        for (square, mean) in squares.iter_mut().zip(&mean) {
            if *square <= 1e-12 * mean * mean * steps {
                *square = 0.0;
            }
        }
        Self {
            values,
            squares,
            outputs: n,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    sum: f64,
    square: f64,
}

impl Totals {
    fn add(&mut self, row: &[f64]) {
        self.sum += row.iter().sum::<f64>();
        self.square += row.iter().map(|v| v * v).sum::<f64>();
    }
}

/// Sums Σ_t a(t)·x(t − l) for |l| ≤ most over chunks, in the frequency domain.
struct Correlator {
    forward: Arc<dyn RealToComplex<f64>>,
    inverse: Arc<dyn ComplexToReal<f64>>,
    most: usize,
    chunk: usize,
}

impl Correlator {
    fn new(chunk: usize, most: usize) -> Self {
        let length = (chunk + 2 * most).next_power_of_two().max(2);
        Self {
            forward: f64::forward(length),
            inverse: f64::inverse(length),
            most,
            chunk,
        }
    }

    fn bins(&self) -> usize {
        self.forward.complex_len()
    }

    fn scratch(&self) -> (Vec<f64>, Vec<Complex64>, Vec<Complex64>) {
        let scratch = self.forward.make_scratch_vec();
        (
            self.forward.make_input_vec(),
            self.forward.make_output_vec(),
            scratch,
        )
    }

    /// Spectra of the behaviour from `most` steps before `step` to `most` after the chunk, within
    /// `segment`; (outputs, bins).
    fn window(
        &self,
        behavior: &CentredBehavior,
        segment: &betz_recording::Segment,
        step: usize,
    ) -> Vec<Complex64> {
        let mut spectra = Vec::with_capacity(behavior.outputs * self.bins());
        let (mut signal, mut spectrum, mut scratch) = self.scratch();
        for o in 0..behavior.outputs {
            signal.fill(0.0);
            for (i, value) in signal[..self.chunk + 2 * self.most].iter_mut().enumerate() {
                let t = (step + i) as i64 - self.most as i64;
                if segment.start <= t && t < segment.stop {
                    *value = behavior.values[t as usize * behavior.outputs + o];
                }
            }
            // Fails only on wrong lengths, and these come from the plan itself.
            let made =
                (self.forward).process_with_scratch(&mut signal, &mut spectrum, &mut scratch);
            debug_assert!(made.is_ok());
            spectra.extend_from_slice(&spectrum);
        }
        spectra
    }

    /// Adds conj(A)·X of one chunk of a feature to its products.
    fn add(
        &self,
        row: &[f64],
        window: &[Complex64],
        product: &mut [Complex64],
        (signal, spectrum, scratch): &mut (Vec<f64>, Vec<Complex64>, Vec<Complex64>),
    ) {
        signal[..row.len()].copy_from_slice(row);
        signal[row.len()..].fill(0.0);
        let made = self.forward.process_with_scratch(signal, spectrum, scratch);
        debug_assert!(made.is_ok());
        let outputs = product.chunks_exact_mut(spectrum.len());
        for (product, window) in outputs.zip(window.chunks_exact(spectrum.len())) {
            for ((p, a), x) in product.iter_mut().zip(&*spectrum).zip(window) {
                *p += a.conj() * x;
            }
        }
    }

    /// The sums at lags −most to most.
    fn lags(&self, product: &[Complex64]) -> Vec<f64> {
        let mut product = product.to_vec();
        for end in [0, product.len() - 1] {
            product[end].im = 0.0;
        }
        let mut sums = self.inverse.make_output_vec();
        let made = self.inverse.process(&mut product, &mut sums);
        debug_assert!(made.is_ok());
        // Place i of the correlation pairs a(t) with x(t + i − most), which is lag most − i.
        let norm = 1.0 / sums.len() as f64;
        (0..=2 * self.most).rev().map(|i| sums[i] * norm).collect()
    }
}

/// Runs of columns inside one segment: first column, length, segment.
fn runs(data: &DatasetView<'_>, steps: &[usize]) -> Vec<(usize, usize, usize)> {
    let mut runs = Vec::new();
    let mut first = 0;
    while first < steps.len() {
        let step = steps[first] as i64;
        let segment = data.segments.partition_point(|s| s.stop <= step);
        let inside = |s: &&usize| (**s as i64) < data.segments[segment].stop;
        let len = steps[first..].iter().take_while(inside).count();
        runs.push((first, len, segment));
        first += len;
    }
    runs
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cases;
    use crate::psc::oracle;
    use betz_recording::Dataset;

    /// Mean of ρ_jo(l)² by plain loops.
    pub(crate) fn plain(
        data: &Dataset,
        bank: &FilterBank,
        low_pass: Option<LowPass>,
        most: i64,
    ) -> Vec<f64> {
        let a = oracle::responses(data, bank, low_pass).unwrap();
        let (features, outputs) = (data.channels() * bank.len(), data.outputs.len());
        let steps = data.steps_in_segments();
        let centred = CentredBehavior::new(&data.view());
        let mut correlation = vec![];
        for lag in -most..=most {
            let mut sum = 0.0;
            for row in a.chunks(steps) {
                let mean = row.iter().sum::<f64>() / steps as f64;
                let spread: f64 = row.iter().map(|v| (v - mean).powi(2)).sum();
                for o in 0..outputs {
                    let mut product = 0.0;
                    let mut column = 0;
                    for s in &data.segments {
                        for t in s.start..s.stop {
                            if (s.start..s.stop).contains(&(t - lag)) {
                                let x = centred.values[(t - lag) as usize * outputs + o];
                                product += row[column] * x;
                            }
                            column += 1;
                        }
                    }
                    if spread > 0.0 && centred.squares[o] > 0.0 {
                        sum += product * product / (spread * centred.squares[o]);
                    }
                }
            }
            correlation.push(sum / (features * outputs) as f64);
        }
        correlation
    }

    #[test]
    fn equals_plain_correlation() {
        for case in cases::all() {
            if case.data.outputs.is_empty() || case.data.steps > 1000 || case.data.channels() > 20 {
                continue;
            }
            let longest = case.data.segments.iter().map(|s| s.len()).max().unwrap();
            for most in [0, 3, 40] {
                let got = estimate_delay(&case.data, &case.bank, None, most, &()).unwrap();
                let expected = plain(&case.data, &case.bank, None, most.min(longest - 1) as i64);
                assert_eq!(got.correlation.len(), expected.len());
                for (g, e) in got.correlation.iter().zip(&expected) {
                    assert!((g - e).abs() < 1e-10, "{}: {g} against {e}", case.name);
                }
            }
        }
    }

    #[test]
    fn finds_a_delay_that_was_put_in() {
        // Short enough that one step more or less shows above chance.
        let bank = cases::bank(&[(3.0, 0)]);
        let spikes = cases::random_spikes(7, 8, 4000, 3000);
        for delay in [-30i64, 0, 25] {
            let mut data = cases::dataset(
                8,
                &[(0, 1500), (1500, 1900), (1950, 4000)],
                spikes.clone(),
                1,
            );
            let a = oracle::responses(&data, &bank, None).unwrap();
            let columns = data.steps_in_segments();
            let mut column = 0;
            for s in data.segments.clone() {
                for t in s.start..s.stop {
                    // x(t − delay) is what the responses at t say.
                    if (s.start..s.stop).contains(&(t - delay)) {
                        let sum: f64 = (0..8)
                            .map(|f| (f as f64 - 2.0) * a[f * columns + column])
                            .sum();
                        data.behavior[(t - delay) as usize] = sum as f32;
                    }
                    column += 1;
                }
            }
            let found = estimate_delay(&data, &bank, None, 60, &()).unwrap();
            assert_eq!(found.delay_steps, delay);
            assert_eq!(found.first_lag, -60);
        }
    }

    #[test]
    fn nothing_to_find_is_no_delay_and_nothing_to_look_at_an_error() {
        let bank = cases::bank(&[(20.0, 1)]);
        let mut data = cases::dataset(2, &[(0, 100)], vec![(3, 0)], 1);
        data.behavior.fill(4.0);
        assert_eq!(
            estimate_delay(&data, &bank, None, 10, &())
                .unwrap()
                .delay_steps,
            0
        );
        data.outputs.clear();
        let error = estimate_delay(&data, &bank, None, 10, &()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InsufficientData);
        let cpu = Device::cpu();
        let error = estimate_delay_on(&cpu, &data, &bank, None, 10, &()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InsufficientData);
    }
}
