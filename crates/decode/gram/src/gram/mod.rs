//! Γ and Υ: the sums over time that the optimal decoder needs.
//!
//! Three implementations of one definition; [`oracle`] is that definition in plain f64 loops.

pub mod cost;
pub mod cuda;
pub mod dense;
pub mod event;
pub mod oracle;
pub mod product;
#[cfg(test)]
pub(crate) mod tests;

use rayon::prelude::*;

use betz_base::error::{Error, Result};
use betz_base::progress::Progress;
use betz_recording::{DatasetView, Segment};
use betz_runtime::psc::{FilterBank, LowPass};

/// How Γ is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GramPath {
    /// The path that is expected to be faster.
    #[default]
    Auto,
    /// Computes responses of every step and multiplies them block by block.
    Dense,
    /// Computes Γ from the spikes alone, without any response.
    Event,
}

impl GramPath {
    /// `auto`, `dense` or `event`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dense => "dense",
            Self::Event => "event",
        }
    }
}

/// Sums over paired steps of responses a(t) (features) and behaviour x(t − delay) (outputs).
///
/// The sums are additive over segments: those of a training set are those of the whole minus those of the held-out
/// part, so cross-validation filters every spike once. Nothing here is centred; the `centred_*` methods give the sums
/// about the means, from which the intercept drops out.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalEquations {
    /// Number of features, channels × filters, channel-major.
    pub features: usize,
    /// Number of outputs.
    pub outputs: usize,
    /// Number of paired steps T.
    pub steps: u64,
    /// Γ = Σ a aᵀ, features × features, symmetric, row-major, both halves filled.
    pub gram: Vec<f64>,
    /// Υ = Σ a xᵀ, features × outputs, row-major.
    pub upsilon: Vec<f64>,
    /// Σ a.
    pub feature_sum: Vec<f64>,
    /// Σ x.
    pub output_sum: Vec<f64>,
    /// Σ x².
    pub output_sq_sum: Vec<f64>,
}

impl NormalEquations {
    /// Sums over no steps.
    pub fn zeros(features: usize, outputs: usize) -> Self {
        Self {
            features,
            outputs,
            steps: 0,
            gram: vec![0.0; features * features],
            upsilon: vec![0.0; features * outputs],
            feature_sum: vec![0.0; features],
            output_sum: vec![0.0; outputs],
            output_sq_sum: vec![0.0; outputs],
        }
    }

    /// Adds the sums of other segments of the same recording.
    ///
    /// # Errors
    /// `Mismatch` when features or outputs differ.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        self.same_shape(other)?;
        self.steps += other.steps;
        self.combine(other, |a, b| *a += b);
        Ok(())
    }

    /// Subtracts the sums of segments that were added before (or are part of the whole).
    ///
    /// # Errors
    /// `Mismatch` if features or outputs differ, or if `other` has more steps.
    pub fn subtract(&mut self, other: &Self) -> Result<()> {
        self.same_shape(other)?;
        self.steps = self.steps.checked_sub(other.steps).ok_or_else(|| {
            Error::mismatch(format!(
                "normal equations: expected at most {} steps to take away, got {}",
                self.steps, other.steps
            ))
        })?;
        self.combine(other, |a, b| *a -= b);
        Ok(())
    }

    /// Mean response of each feature, μ; zeros if there are no steps.
    pub fn feature_mean(&self) -> Vec<f64> {
        mean(&self.feature_sum, self.steps)
    }

    /// Mean of each output, x̄; zeros if there are no steps.
    pub fn output_mean(&self) -> Vec<f64> {
        mean(&self.output_sum, self.steps)
    }

    /// Mean of Γ_c's diagonal: the scale that relative ridges are given in.
    pub fn mean_variance_sum(&self) -> f64 {
        let (n, mean) = (self.features, self.feature_mean());
        // A variance that rounding made negative counts as 0.
        let own = |i: usize| (self.gram[i * n + i] - self.feature_sum[i] * mean[i]).max(0.0);
        (0..n).map(own).sum::<f64>() / n as f64
    }

    /// Υ_c = Σ (a − μ)(x − x̄)ᵀ = Υ − T·μx̄ᵀ, features × outputs, row-major. Allocates it.
    pub fn centred_upsilon(&self) -> Vec<f64> {
        let mean = self.output_mean();
        let mut upsilon = self.upsilon.clone();
        if self.outputs > 0 {
            for (row, sum) in upsilon
                .chunks_exact_mut(self.outputs)
                .zip(&self.feature_sum)
            {
                for (u, m) in row.iter_mut().zip(&mean) {
                    *u -= sum * m;
                }
            }
        }
        upsilon
    }

    /// Σ (x − x̄)² of each output: the total sum of squares that R² divides by.
    pub fn output_total_squares(&self) -> Vec<f64> {
        let mean = self.output_mean();
        (0..self.outputs)
            .map(|o| (self.output_sq_sum[o] - self.output_sum[o] * mean[o]).max(0.0))
            .collect()
    }

    /// Σ (x − φᵀa − c)² of each output for given weights (features × outputs, row-major) and
    /// intercept: what a decoder would leave unexplained on these steps, without decoding them.
    ///
    /// Small residuals of large sums lose digits (about 10⁻⁶ of Σx² where Γ came from f32
    /// products): use it to compare ridges, not to report a score.
    pub fn residual_squares(&self, weights: &[f64], intercept: &[f64]) -> Vec<f64> {
        let m = self.outputs;
        let product = self.gram_times(weights, m);
        self.residuals_of(weights, intercept, |f, o| product[f * m + o])
    }

    /// Γ times `weights`, features × `columns`, row-major.
    pub fn gram_times(&self, weights: &[f64], columns: usize) -> Vec<f64> {
        let mut product = vec![0.0; self.features * columns];
        if !product.is_empty() {
            let rows = self.gram.par_chunks_exact(self.features);
            let out = product.par_chunks_exact_mut(columns).zip(rows);
            out.with_min_len(16).for_each(|(out, row)| {
                for (g, weights) in row.iter().zip(weights.chunks_exact(columns)) {
                    for (sum, w) in out.iter_mut().zip(weights) {
                        *sum += g * w;
                    }
                }
            });
        }
        product
    }

    /// [`residual_squares`](Self::residual_squares) if Γφ is already known for each feature and output.
    pub fn residuals_of(
        &self,
        weights: &[f64],
        intercept: &[f64],
        gram_weight: impl Fn(usize, usize) -> f64,
    ) -> Vec<f64> {
        let (n, m, t) = (self.features, self.outputs, self.steps as f64);
        (0..m)
            .map(|o| {
                let c = intercept[o];
                let mut s = self.output_sq_sum[o] - 2.0 * c * self.output_sum[o] + c * c * t;
                for f in 0..n {
                    let w = weights[f * m + o];
                    s += w
                        * (gram_weight(f, o) - 2.0 * self.upsilon[f * m + o]
                            + 2.0 * c * self.feature_sum[f]);
                }
                s.max(0.0)
            })
            .collect()
    }

    fn same_shape(&self, other: &Self) -> Result<()> {
        if (self.features, self.outputs) == (other.features, other.outputs) {
            return Ok(());
        }
        Err(Error::mismatch(format!(
            "normal equations: expected {} features and {} outputs, got {} and {}",
            self.features, self.outputs, other.features, other.outputs
        )))
    }

    fn combine(&mut self, other: &Self, op: impl Fn(&mut f64, f64) + Copy + Sync) {
        let gram = self.gram.par_iter_mut().zip(&other.gram);
        gram.with_min_len(1 << 16).for_each(|(a, b)| op(a, *b));
        let pairs = [
            (&mut self.upsilon, &other.upsilon),
            (&mut self.feature_sum, &other.feature_sum),
            (&mut self.output_sum, &other.output_sum),
            (&mut self.output_sq_sum, &other.output_sq_sum),
        ];
        for (mine, theirs) in pairs {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| op(a, *b));
        }
    }
}

/// Errors of elements of Γ at a lower precision against full precision, on a sample: all pairs of some consecutive
/// features. Errors are relative to √(Γ_ii Γ_jj).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampledError {
    /// Number of elements compared.
    pub elements: usize,
    /// Largest error.
    pub largest: f64,
    /// Root of the mean squared error.
    pub rms: f64,
}

impl SampledError {
    /// Combines the errors of two samples.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (mine, theirs) = (self.elements as f64, other.elements as f64);
        let squares = mine * self.rms * self.rms + theirs * other.rms * other.rms;
        Self {
            elements: self.elements + other.elements,
            largest: self.largest.max(other.largest),
            rms: (squares / (mine + theirs).max(1.0)).sqrt(),
        }
    }
}

/// Computes Γ, Υ and the sums of `data`, and reports the path that computed them.
///
/// a(t) is paired with x(t − delay); a pair with either part outside the segment is left out of every sum. Filters are
/// at rest at each segment's start. Runs on rayon's current pool; the result does not depend on the number of threads.
///
/// # Errors
/// `Mismatch` or `InvalidRecording` if the dataset's arrays do not fit together; `InvalidArgument` for a bad low-pass;
/// `Interrupted` if `progress` cancels.
pub fn normal_equations<'d>(
    data: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    delay_steps: i64,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<(NormalEquations, GramPath)> {
    let data = &data.into();
    check(data)?;
    let path = match path {
        GramPath::Auto => cost::cheaper(data, bank, low_pass, cost::Processor::Cpu),
        GramPath::Event if low_pass.is_some() => {
            return Err(Error::argument(
                "gram: expected dense or auto with a low-pass, got event, which computes responses of PSC filters only",
            ));
        }
        GramPath::Event if !bank.sampled().is_empty() => {
            return Err(Error::argument(
                "gram: expected dense or auto with sampled filters, got event, which knows filters of the form t^n e^(-t/tau) only",
            ));
        }
        path => path,
    };
    let sums = match path {
        GramPath::Event => event::normal_equations(data, bank, delay_steps, progress)?,
        _ => dense::normal_equations(data, bank, low_pass, delay_steps, progress)?,
    };
    Ok((sums, path))
}

/// Checks the assumptions that all paths share.
fn check(data: &DatasetView<'_>) -> Result<()> {
    check_shape(data)?;
    data.spikes.check(data.steps as i64, data.channels())
}

/// Does the checks of [`check`] that need no look at every spike.
fn check_shape(data: &DatasetView<'_>) -> Result<()> {
    let expected = data.steps * data.outputs.len();
    if data.behavior.len() != expected {
        return Err(Error::mismatch(format!(
            "behavior: expected {expected} values ({} steps of {} outputs), got {}",
            data.steps,
            data.outputs.len(),
            data.behavior.len()
        )));
    }
    if data.spikes.ticks.len() != data.spikes.channels.len() {
        return Err(Error::mismatch(format!(
            "spikes: expected one channel per tick, got {} ticks and {} channels",
            data.spikes.ticks.len(),
            data.spikes.channels.len()
        )));
    }
    betz_recording::check_segments(data.segments, data.steps as i64)
}

fn mean(sum: &[f64], steps: u64) -> Vec<f64> {
    let t = steps.max(1) as f64;
    sum.iter().map(|s| s / t).collect()
}

/// The steps `[first, last)` of `segment` whose response has a partner: a(t) goes with
/// x(t − delay), and both must lie inside the segment. `None` when no step does.
pub fn paired_steps(segment: &Segment, delay_steps: i64) -> Option<(i64, i64)> {
    let first = segment.start.saturating_add(delay_steps.max(0));
    let last = segment.stop.saturating_add(delay_steps.min(0));
    (first < last).then_some((first, last))
}

/// Adds Σx, Σx² and the number of paired steps of every segment to `sums`.
pub(crate) fn add_output_sums(
    data: &DatasetView<'_>,
    delay_steps: i64,
    sums: &mut NormalEquations,
) {
    let m = sums.outputs;
    let totals = output_totals(data.segments, data.behavior, m, delay_steps);
    for (o, (sum, squares)) in totals[..m].iter().zip(&totals[m..]).enumerate() {
        sums.output_sum[o] += sum;
        sums.output_sq_sum[o] += squares;
    }
    let paired = data.segments.iter();
    let paired = paired.filter_map(|s| paired_steps(s, delay_steps));
    sums.steps += paired
        .map(|(first, last)| (last - first) as u64)
        .sum::<u64>();
}

/// Σx of each of `outputs` outputs, then Σx², over the paired steps of `segments`.
fn output_totals(
    segments: &[Segment],
    behavior: &[f32],
    outputs: usize,
    delay_steps: i64,
) -> Vec<f64> {
    let mut totals = vec![0.0; 2 * outputs];
    for segment in segments {
        let Some((first, last)) = paired_steps(segment, delay_steps) else {
            continue;
        };
        let row = |t: i64| (t - delay_steps) as usize * outputs;
        for row in behavior[row(first)..row(last)].chunks_exact(outputs.max(1)) {
            for (o, &x) in row.iter().enumerate() {
                let x = f64::from(x);
                totals[o] += x;
                totals[outputs + o] += x * x;
            }
        }
    }
    totals
}
