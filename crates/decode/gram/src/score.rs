//! Scores of estimates: R², RMSE and NRMSE of each output.
//!
//! A row counts when both truth and estimate of every output are there (not NaN). An output whose
//! truth never changes has an RMSE but nothing to relate it to: its R² and NRMSEs are NaN.

mod cuda;
mod place;

pub use place::{PlaceError, place_error, while_moving};

use crate::decode::{choose_device, decode};
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::{Device, Placement, Ran, Work};
use betz_recording::{DatasetView, OutputInfo};
use betz_runtime::model::{Decoder, OutputScore};

/// Message when no row counts.
const NO_ROW: &str = "scores: expected at least one row with truth and estimate, got none";

/// Scores of a decoder on a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// One score per output, in the decoder's order.
    pub outputs: Vec<OutputScore>,
    /// Steps scored.
    pub steps: u64,
    /// Segments they lie in.
    pub segments: u64,
    /// Device that computed them, and the reason if it was not another.
    pub ran: Ran,
}

/// Scores of `estimate` against `truth`, both row-major (rows, outputs).
///
/// R² = 1 − Σ(x − x̂)² / Σ(x − x̄)²; NRMSE is RMSE over the range, or over the (population) standard
/// deviation, of the truth. ScoreSums in f64.
///
/// # Errors
/// [`ErrorKind::Mismatch`] when the shapes differ; [`ErrorKind::InsufficientData`] without a row
/// that counts; [`ErrorKind::NonFinite`] for an infinite value.
pub fn scores(outputs: &[OutputInfo], truth: &[f32], estimate: &[f32]) -> Result<Vec<OutputScore>> {
    let n = outputs.len();
    if n == 0 || truth.len() != estimate.len() || !truth.len().is_multiple_of(n) {
        return Err(Error::mismatch(format!(
            "scores: expected as many estimates as values of truth, in rows of {n}, got {} and {}",
            estimate.len(),
            truth.len()
        )));
    }
    let sums = sums_of(n, truth, estimate);
    if sums.iter().all(|s| s.count == 0.0) {
        return Err(Error::new(ErrorKind::InsufficientData, NO_ROW));
    }
    let scored = outputs.iter().zip(sums);
    scored.map(|(info, sums)| sums.score(info)).collect()
}

/// Of the rows that count, one per output; both lists are in rows of `n`.
pub fn sums_of(n: usize, truth: &[f32], estimate: &[f32]) -> Vec<ScoreSums> {
    let rows: Vec<(&[f32], &[f32])> = truth
        .chunks_exact(n)
        .zip(estimate.chunks_exact(n))
        .filter(|(x, e)| !x.iter().chain(*e).any(|v| v.is_nan()))
        .collect();
    let of = |o: usize| ScoreSums::of(rows.iter().map(move |(x, e)| (x[o], e[o])));
    (0..n).map(of).collect()
}

/// Sums from which the scores of one output follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreSums {
    /// Rows that count.
    count: f64,
    /// Σx.
    sum: f64,
    /// Σ(x − x̄)².
    squares: f64,
    /// Σ(x − x̂)².
    residual: f64,
    low: f64,
    high: f64,
}

impl Default for ScoreSums {
    /// Over no row.
    fn default() -> Self {
        Self {
            count: 0.0,
            sum: 0.0,
            squares: 0.0,
            residual: 0.0,
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
        }
    }
}

impl ScoreSums {
    /// Over pairs of truth and estimate.
    fn of(pairs: impl ExactSizeIterator<Item = (f32, f32)> + Clone) -> Self {
        let mut sums = Self {
            count: pairs.len() as f64,
            ..Self::default()
        };
        for (x, e) in pairs.clone() {
            let (x, e) = (f64::from(x), f64::from(e));
            sums.sum += x;
            sums.residual += (x - e) * (x - e);
            sums.low = sums.low.min(x);
            sums.high = sums.high.max(x);
        }
        let mean = sums.sum / sums.count.max(1.0);
        sums.squares = pairs.map(|(x, _)| (f64::from(x) - mean).powi(2)).sum();
        sums
    }

    /// The six numbers, to be sent.
    pub fn to_array(self) -> [f64; 6] {
        let Self {
            count,
            sum,
            squares,
            residual,
            low,
            high,
        } = self;
        [count, sum, squares, residual, low, high]
    }

    /// The inverse of [`to_array`](Self::to_array).
    pub fn from_array([count, sum, squares, residual, low, high]: [f64; 6]) -> Self {
        Self {
            count,
            sum,
            squares,
            residual,
            low,
            high,
        }
    }

    /// Takes in the sums over other rows; Σ(x − x̄)² moves to the common mean (Chan, Golub & LeVeque
    /// 1983).
    pub fn join(&mut self, other: &Self) {
        if other.count == 0.0 {
            return;
        }
        if self.count > 0.0 {
            let off = other.sum / other.count - self.sum / self.count;
            let weight = self.count * other.count / (self.count + other.count);
            self.squares += off * off * weight;
        }
        self.squares += other.squares;
        self.count += other.count;
        self.sum += other.sum;
        self.residual += other.residual;
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }

    /// # Errors
    /// [`ErrorKind::NonFinite`] for an infinite value.
    pub fn score(&self, info: &OutputInfo) -> Result<OutputScore> {
        if !(self.sum + self.residual).is_finite() {
            return Err(Error::new(
                ErrorKind::NonFinite,
                format!(
                    "scores: output '{}': expected finite truth and estimates",
                    info.name
                ),
            ));
        }
        let rmse = (self.residual / self.count).sqrt();
        let unless_constant = |value: f64| {
            if self.high > self.low {
                value
            } else {
                f64::NAN
            }
        };
        Ok(OutputScore {
            name: info.name.clone(),
            unit: info.unit.clone(),
            r2: unless_constant(1.0 - self.residual / self.squares),
            rmse,
            nrmse_range: unless_constant(rmse / (self.high - self.low)),
            nrmse_std: unless_constant(rmse / (self.squares / self.count).sqrt()),
        })
    }
}

/// Mean R² of the outputs that change; NaN when none does.
pub fn mean_r2(scores: &[OutputScore]) -> f64 {
    let known: Vec<f64> = scores
        .iter()
        .map(|s| s.r2)
        .filter(|r| !r.is_nan())
        .collect();
    known.iter().sum::<f64>() / known.len() as f64
}

/// Scores estimates of `data`'s behaviour, row-major (steps, outputs), where row t estimates step
/// t − `delay_steps` (as [`decode`] and a session give them). Pairs whose ends lie in different
/// segments, or outside all of them, do not count.
///
/// # Errors
/// As [`scores`]; [`ErrorKind::InsufficientData`] when `data` has no behaviour.
pub fn score_estimates<'d>(
    data: impl Into<DatasetView<'d>>,
    estimates: &[f32],
    delay_steps: i64,
) -> Result<Evaluation> {
    let data = &data.into();
    check_behavior(data)?;
    check_estimates(data, estimates)?;
    let n = data.outputs.len();
    let (mut truth, mut paired) = (Vec::new(), Vec::new());
    let mut segments = 0;
    for segment in data.segments {
        let Some((first, stop)) = super::gram::paired_steps(segment, delay_steps) else {
            continue;
        };
        segments += 1;
        let rows = |from: i64, to: i64| from as usize * n..to as usize * n;
        paired.extend_from_slice(&estimates[rows(first, stop)]);
        truth.extend_from_slice(&data.behavior[rows(first - delay_steps, stop - delay_steps)]);
    }
    Ok(Evaluation {
        outputs: scores(data.outputs, &truth, &paired)?,
        steps: (truth.len() / n) as u64,
        segments,
        ran: Ran::default(),
    })
}

/// [`score_estimates`] on `device`; [`Device::auto`] stays on the CPU: the estimates would have to go
/// up first.
///
/// # Errors
/// As [`score_estimates`], and those of the device.
pub fn score_estimates_on<'d>(
    device: &Device,
    data: impl Into<DatasetView<'d>>,
    estimates: &[f32],
    delay_steps: i64,
) -> Result<Evaluation> {
    let data = &data.into();
    let placement = Placement::decide(device, Work::Gains(false));
    let scored = || {
        if let Some(context) = placement.contexts().first() {
            return cuda::score_estimates(context, data, estimates, delay_steps);
        }
        score_estimates(data, estimates, delay_steps)
    };
    Ok(Evaluation {
        ran: placement.ran(""),
        ..scored()?
    })
}

fn check_behavior(data: &DatasetView<'_>) -> Result<()> {
    let n = data.outputs.len();
    if n == 0 {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            "scores: expected a recording with behaviour, got none",
        ));
    }
    if data.behavior.len() != data.steps * n {
        return Err(Error::mismatch(format!(
            "scores: expected {} values of behaviour ({} steps of {n} outputs), got {}",
            data.steps * n,
            data.steps,
            data.behavior.len()
        )));
    }
    Ok(())
}

fn check_estimates(data: &DatasetView<'_>, estimates: &[f32]) -> Result<()> {
    let n = data.outputs.len();
    if estimates.len() == data.steps * n {
        return Ok(());
    }
    Err(Error::mismatch(format!(
        "scores: expected {} estimates ({} steps of {n} outputs), got {}",
        data.steps * n,
        data.steps,
        estimates.len()
    )))
}

/// Decodes `data` in batch and scores the estimates.
///
/// # Errors
/// As [`decode`] and [`score_estimates`]; [`ErrorKind::Mismatch`] when the recording's outputs are
/// not the model's, by name and order.
pub fn evaluate<'d>(decoder: &Decoder, data: impl Into<DatasetView<'d>>) -> Result<Evaluation> {
    let data = &data.into();
    check_outputs(decoder, data)?;
    score_estimates(data, &decode(decoder, data)?, decoder.delay_steps())
}

/// [`evaluate`] on `device`: spikes and behaviour go up, sums come down.
/// [`Device::auto`] is settled as for decoding.
///
/// # Errors
/// As [`evaluate`], and those of the device.
pub fn evaluate_on<'d>(
    device: &Device,
    decoder: &Decoder,
    data: impl Into<DatasetView<'d>>,
) -> Result<Evaluation> {
    let data = &data.into();
    check_outputs(decoder, data)?;
    let placement = choose_device(device, decoder, data);
    if let Some(context) = placement.contexts().first()
        && let Some(scores) = placement.or_cpu(cuda::evaluate(context, decoder, data))?
    {
        return Ok(Evaluation {
            ran: placement.ran(""),
            ..scores
        });
    }
    Ok(Evaluation {
        ran: placement.ran(""),
        ..evaluate(decoder, data)?
    })
}

/// Checks that the outputs of `data` are those of `decoder`, by name and order.
///
/// # Errors
/// [`ErrorKind::Mismatch`] otherwise; [`ErrorKind::InsufficientData`] when `data` has none.
pub fn check_outputs<'d>(decoder: &Decoder, data: impl Into<DatasetView<'d>>) -> Result<()> {
    let data = &data.into();
    let names = |outputs: &[OutputInfo]| {
        let names: Vec<&str> = outputs.iter().map(|o| o.name.as_str()).collect();
        names.join(", ")
    };
    if data.outputs.is_empty() {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            "evaluation: expected a recording with behaviour, got none",
        ));
    }
    let (model, recording) = (names(decoder.outputs()), names(data.outputs));
    if model != recording {
        return Err(Error::mismatch(format!(
            "recording: expected the model's outputs ({model}), got ({recording})"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(n: usize) -> Vec<OutputInfo> {
        let info = |o| OutputInfo {
            name: format!("x{o}"),
            unit: "mm".into(),
        };
        (0..n).map(info).collect()
    }

    #[test]
    fn by_hand() {
        // Residuals 1, 0, −1, 0 on 1, 2, 3, 4: mean 2.5, total 5, residual 2.
        let truth = [1.0, 2.0, 3.0, 4.0];
        let score = &scores(&outputs(1), &truth, &[0.0, 2.0, 4.0, 4.0]).unwrap()[0];
        assert!((score.r2 - 0.6).abs() < 1e-15);
        assert!((score.rmse - 0.5f64.sqrt()).abs() < 1e-15);
        assert!((score.nrmse_range - 0.5f64.sqrt() / 3.0).abs() < 1e-15);
        assert!((score.nrmse_std - (0.5f64 / 1.25).sqrt()).abs() < 1e-15);
        let perfect = &scores(&outputs(1), &truth, &truth).unwrap()[0];
        assert_eq!((perfect.r2, perfect.rmse), (1.0, 0.0));
        let mean = &scores(&outputs(1), &truth, &[2.5; 4]).unwrap()[0];
        assert_eq!((mean.r2, mean.nrmse_std), (0.0, 1.0));
    }

    #[test]
    fn a_constant_output_has_only_an_rmse() {
        let truth = [7.0, 1.0, 7.0, 3.0];
        let estimate = [8.0, 1.0, 7.0, 3.0];
        let both = scores(&outputs(2), &truth, &estimate).unwrap();
        assert!(both[0].r2.is_nan() && both[0].nrmse_range.is_nan() && both[0].nrmse_std.is_nan());
        assert!((both[0].rmse - 0.5f64.sqrt()).abs() < 1e-15);
        assert_eq!(mean_r2(&both), 1.0);
        assert!(mean_r2(&both[..1]).is_nan());
    }

    #[test]
    fn rows_without_estimate_do_not_count() {
        let nan = f32::NAN;
        let score = scores(&outputs(1), &[1.0, 50.0, 2.0], &[1.0, nan, 2.0]).unwrap();
        assert_eq!(score[0].r2, 1.0);
        let none = scores(&outputs(1), &[1.0], &[nan]).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InsufficientData);
        let infinite = scores(&outputs(1), &[1.0], &[f32::INFINITY]).unwrap_err();
        assert_eq!(infinite.kind(), ErrorKind::NonFinite);
        let shapes = scores(&outputs(2), &[1.0; 4], &[1.0; 2]).unwrap_err();
        assert_eq!(shapes.kind(), ErrorKind::Mismatch);
    }

    #[test]
    fn a_delay_pairs_inside_segments_only() {
        let mut data = crate::cases::dataset(1, &[(0, 4), (4, 5), (6, 12)], vec![], 1);
        data.behavior = (0..12).map(|t| t as f32).collect();
        for delay in [-2i64, 0, 2] {
            let estimates: Vec<f32> = (0..12).map(|t| (t - delay) as f32).collect();
            let scored = score_estimates(&data, &estimates, delay).unwrap();
            assert_eq!(scored.outputs[0].rmse, 0.0);
            let expected = if delay == 0 { (11, 3) } else { (6, 2) };
            assert_eq!((scored.steps, scored.segments), expected);
        }
    }
}
