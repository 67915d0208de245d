//! Variance of estimates: a log-variance readout beside a lift's or experts' own.
//!
//! The residuals come from folds: the head's readout is solved without the trials whose residuals e are taken. Those of a
//! blend are of what it did not see when its weights were chosen; the features are its first member's. ln(e² +
//! 5 % of their mean) is regressed on the same features, at the ridge that predicts it best on held-out trials, and
//! scaled so that the mean of e²/v is 1. (The engine before the head is that of all trials: its many features have
//! slightly smaller errors on the data that they were trained on.)

use crate::blank::CleanData;
use crate::experts::Gate;
use crate::folds::folds;
use crate::lift::Cosines;
use crate::readout::{Basis, KAPPAS, Pass, Walk, Weights, best_of, ridge_readout};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_base::progress::Progress;
use betz_gram::NormalEquations;
use betz_gram::decode::decode;
use betz_gram::gram::paired_steps;
use betz_recording::{DatasetView, OutputInfo};
use betz_runtime::model::{Decoder, FilteredReadout, Head, LogVariance};
use betz_runtime::stream::{PreparedModel, Session, SessionConfig};

/// Parts that residuals are taken from, each decoded by what the others gave.
const FOLDS: usize = 5;

/// Added to squared residuals, of their mean: the logarithm of a residual of nearly 0 says nothing.
const FLOOR: f64 = 0.05;

/// 95 % of a normal distribution lie below so many standard deviations.
const WITHIN_90: f64 = 1.644_853_6;

/// The head whose features tell the variance: the decoder's, or that of a blend's first member.
fn telling(decoder: &Decoder) -> &Head {
    match decoder.head() {
        Head::ModelBlend(blend) => &blend.own,
        head => head,
    }
}

/// True if the outputs of `decoder` may have variances ([`with_variance`]).
pub(crate) fn tells_variance(decoder: &Decoder) -> bool {
    match telling(decoder) {
        Head::Lift(_) => true,
        Head::Experts(experts) => experts.readout.tau_seconds.is_some(),
        _ => false,
    }
}

/// `decoder`, trained on `data`, with a readout of the variances of its outputs
/// ([`LogVariance`]; [`Session::variances`](betz_runtime::stream::Session::variances)). Its estimates stay as they
/// are, to rounding; a step costs as much more as the head's own readout. `held_out`: estimates of steps that it was not
/// trained on, (steps, outputs), NaN elsewhere; `None`: its readout is solved without them, which a blend's cannot be.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a decoder that is neither a lift nor experts, nor a blend that begins with one of
/// them; [`ErrorKind::InsufficientData`] where residuals cannot be held apart; as [`decode`].
pub(crate) fn with_variance<'d>(
    decoder: &Decoder,
    data: impl Into<DatasetView<'d>>,
    held_out: Option<Vec<f32>>,
    progress: &dyn Progress,
) -> Result<Decoder> {
    let data = &data.into();
    let cleaned = CleanData::for_decoder(data, decoder)?;
    let data = &cleaned.view(data);
    let latents = decoder.latents();
    let (radius, own, basis): (f64, &FilteredReadout, Box<dyn Basis>) = match telling(decoder) {
        Head::Lift(lift) => {
            let cosines = &lift.cosines;
            let units = cosines.phases.len();
            let basis = Cosines {
                latents,
                omega: transposed(&cosines.frequencies, units),
                phase: cosines.phases.clone(),
            };
            (cosines.radius, &lift.readout, Box::new(basis))
        }
        Head::Experts(head) if head.readout.tau_seconds.is_some() => {
            let experts = head.gate.bias.len();
            let basis = Gate {
                latents,
                experts,
                tau_seconds: head.readout.tau_seconds.unwrap_or_default(),
                weights: transposed(&head.gate.weights, experts),
                bias: head.gate.bias.clone(),
            };
            (head.gate.radius, &head.readout, Box::new(basis))
        }
        _ => {
            return Err(Error::argument(format!(
                "variance: expected a lift or filtered experts, or a blend that begins with one of them, got {}",
                decoder.kind()
            )));
        }
    };
    let z = latents_of(decoder, data)?;
    let walk = Walk {
        data: *data,
        latents,
        row: latents,
        z: &z,
        delay_steps: decoder.delay_steps(),
        radius,
        placement: None,
    };
    let filters: Vec<f64> = own.tau_seconds.into_iter().collect();
    let fold_of = match &held_out {
        Some(held_out) => fold_of_known(held_out, decoder.outputs().len()),
        None => fold_of(decoder, data)?,
    };
    let found = Fit {
        walk,
        basis: &*basis,
        mean: &own.centre,
        filters: &filters,
        fold_of,
        progress,
    }
    .log_variance(held_out)?;
    let (direct, filtered) = found
        .weights
        .split_at(own.centre.len() * found.intercept.len());
    let variance = LogVariance {
        readout: FilteredReadout {
            tau_seconds: own.tau_seconds,
            centre: own.centre.clone(),
            direct: direct.to_vec(),
            filtered: filtered.to_vec(),
            intercept: found.intercept.clone(),
        },
    };
    let mut parts = decoder.clone().into_parts();
    parts.attachments.retain(|a| a.tag != LogVariance::TAG);
    parts.attachments.push(variance.attachment());
    let made = Decoder::new(parts)?;
    // Refuses here everything that a session would refuse.
    PreparedModel::new(&made, None).map_err(|e| e.of_kind(ErrorKind::NonFinite).at("variance"))?;
    Ok(made)
}

/// The engine's latents at every step of segments, (step, latent).
fn latents_of(decoder: &Decoder, data: &DatasetView<'_>) -> Result<Vec<f32>> {
    let mut parts = decoder.clone().into_parts();
    parts.head = Head::Linear;
    parts.limits.ranges.clear();
    parts.attachments.clear();
    parts.outputs = (0..parts.latents())
        .map(|i| OutputInfo::from(format!("z{i}").as_str()))
        .collect();
    decode(&Decoder::new(parts)?, *data)
}

/// The fold of each step; `u16::MAX` for those of none.
fn fold_of(decoder: &Decoder, data: &DatasetView<'_>) -> Result<Vec<u16>> {
    let memory = PreparedModel::new(decoder, None)?.memory_steps();
    let memory = usize::try_from(memory).unwrap_or(usize::MAX);
    let split = folds(data.segments, FOLDS, memory, memory)?;
    let mut fold_of = vec![u16::MAX; data.steps];
    for (k, parts) in (0..).zip(&split.folds) {
        for part in parts {
            let segment = part.segment;
            fold_of[segment.start as usize..segment.stop as usize].fill(k);
        }
    }
    Ok(fold_of)
}

/// Folds of equal size of the steps that have an estimate in `held_out`; `u16::MAX` for the others.
fn fold_of_known(held_out: &[f32], outputs: usize) -> Vec<u16> {
    let rows = held_out.chunks_exact(outputs);
    let known: Vec<bool> = rows.map(|row| row.iter().all(|e| e.is_finite())).collect();
    let count = known.iter().filter(|known| **known).count();
    let mut before = 0;
    let mut fold = |known: bool| match known {
        false => u16::MAX,
        true => {
            before += 1;
            ((before - 1) * FOLDS / count) as u16
        }
    };
    known.into_iter().map(&mut fold).collect()
}

struct Fit<'a> {
    walk: Walk<'a>,
    basis: &'a dyn Basis,
    mean: &'a [f64],
    filters: &'a [f64],
    fold_of: Vec<u16>,
    progress: &'a dyn Progress,
}

impl Fit<'_> {
    fn pass<'b>(&'b self, behavior: &'b [f32]) -> Pass<'b> {
        let data = DatasetView {
            behavior,
            ..self.walk.data
        };
        let walk = Walk { data, ..self.walk };
        Pass::new(walk, self.basis, self.mean, self.filters)
    }

    /// The sums of each fold, with `behavior` for labels.
    fn sums(&self, behavior: &[f32]) -> Result<Vec<NormalEquations>> {
        let pass = self.pass(behavior);
        let count = (self.fold_of.iter().filter(|k| **k != u16::MAX).max()).map_or(0, |k| k + 1);
        (0..count)
            .map(|k| pass.sums(&|step| self.fold_of[step] == k, self.progress))
            .collect()
    }

    /// Estimates of each fold by the readout that the others give.
    fn estimates(&self) -> Result<Vec<f32>> {
        let data = &self.walk.data;
        let sums = self.sums(data.behavior)?;
        let kappa = kappa_of(&sums)?;
        let pass = self.pass(data.behavior);
        let all: Vec<usize> = (0..pass.features()).collect();
        let mut estimates = vec![0.0; data.steps * data.outputs.len()];
        for k in 0..sums.len() {
            let found = ridge_readout(&rest(&sums, k)?, &all, kappa)?;
            pass.estimate(
                (&found.weights, &found.intercept),
                &|step| usize::from(self.fold_of[step]) == k,
                &mut estimates,
                self.progress,
            )?;
        }
        Ok(estimates)
    }

    fn log_variance(&self, held_out: Option<Vec<f32>>) -> Result<Weights> {
        let data = &self.walk.data;
        let outputs = data.outputs.len();
        let estimates = held_out.map_or_else(|| self.estimates(), Ok)?;
        let all: Vec<usize> = (0..self.pass(data.behavior).features()).collect();
        let steps = self.steps();
        let square = |step: usize, truth: usize, o: usize| {
            let error = estimates[step * outputs + o] - data.behavior[truth * outputs + o];
            f64::from(error).powi(2)
        };
        let mut logs = vec![0.0_f32; data.behavior.len()];
        for o in 0..outputs {
            let total: f64 = steps.iter().map(|&(s, t)| square(s, t, o)).sum();
            let floor = FLOOR * total / steps.len().max(1) as f64;
            if floor.is_nan() || floor <= 0.0 {
                return Err(Error::new(
                    ErrorKind::InsufficientData,
                    format!(
                        "variance: expected residuals of '{}' other than 0, got a sum of squares of {total}",
                        data.outputs[o].name
                    ),
                ));
            }
            for &(step, truth) in &steps {
                logs[truth * outputs + o] = float::ln(square(step, truth, o) + floor) as f32;
            }
        }
        let of_logs = self.sums(&logs)?;
        let kappa = kappa_of(&of_logs)?;
        let mut total = of_logs[0].clone();
        for more in &of_logs[1..] {
            total.add(more)?;
        }
        let mut found = ridge_readout(&total, &all, kappa)?;
        let mut told = vec![0.0; data.steps * outputs];
        let pass = self.pass(&logs);
        pass.estimate(
            (&found.weights, &found.intercept),
            &|step| self.fold_of[step] != u16::MAX,
            &mut told,
            self.progress,
        )?;
        for (o, intercept) in found.intercept.iter_mut().enumerate() {
            let ratio = |&(step, truth): &(usize, usize)| {
                square(step, truth, o) / float::exp(f64::from(told[step * outputs + o]))
            };
            *intercept += float::ln(steps.iter().map(ratio).sum::<f64>() / steps.len() as f64);
        }
        Ok(found)
    }

    /// Steps of folds, each with the one whose label it estimates.
    fn steps(&self) -> Vec<(usize, usize)> {
        let delay = self.walk.delay_steps;
        let paired = self.walk.data.segments.iter();
        let paired = paired.filter_map(|s| paired_steps(s, delay));
        let steps = paired.flat_map(|(first, stop)| first..stop);
        steps
            .map(|step| (step as usize, (step - delay) as usize))
            .filter(|(step, _)| self.fold_of[*step] != u16::MAX)
            .collect()
    }
}

/// All of `sums` but number `k`.
fn rest(sums: &[NormalEquations], k: usize) -> Result<NormalEquations> {
    let mut rest = NormalEquations::zeros(sums[k].features, sums[k].outputs);
    for (_, more) in sums.iter().enumerate().filter(|(i, _)| *i != k) {
        rest.add(more)?;
    }
    Ok(rest)
}

/// The ridge that leaves least unexplained of the first fold, of the others' solution.
fn kappa_of(sums: &[NormalEquations]) -> Result<f64> {
    let Some(held) = sums.first() else {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            "variance: expected steps to hold apart, got none",
        ));
    };
    let all: Vec<usize> = (0..held.features).collect();
    let candidates = best_of(&rest(sums, 0)?, held, &[all], &KAPPAS)?;
    let totals = held.output_total_squares();
    let share = |residual: &[f64]| -> f64 {
        let parts = residual.iter().zip(&totals).filter(|(_, t)| **t > 0.0);
        parts.map(|(r, t)| r / t).sum()
    };
    let best = (candidates.iter()).min_by(|a, b| share(&a.residual).total_cmp(&share(&b.residual)));
    Ok(best.map_or(KAPPAS[0], |c| c.kappa))
}

/// Rows of `width` as columns.
fn transposed(values: &[f32], width: usize) -> Vec<f32> {
    (0..width)
        .flat_map(|i| values.iter().skip(i).step_by(width.max(1)).copied())
        .collect()
}

/// Scores of the variances that a decoder estimates for one output of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct VarianceScore {
    /// Name of the output.
    pub name: String,
    /// Share of steps whose truth lies within 1.645 standard deviations of the estimate: 0.9 where errors are
    /// normal.
    pub within_90: f64,
    /// Mean of −ln of the normal density of the truth.
    pub negative_log_likelihood: f64,
    /// The same with one variance for all steps, that of these errors.
    pub of_one_variance: f64,
    /// Correlation of standard deviation and size of the error.
    pub correlation: f64,
}

/// Scores the variances that `decoder` tells on `data`, by stepping a session; `None` for a decoder that tells
/// none. Outputs are in order.
///
/// # Errors
/// The same as for [`decode`].
pub fn variance_scores<'d>(
    decoder: &Decoder,
    data: impl Into<DatasetView<'d>>,
) -> Result<Option<Vec<VarianceScore>>> {
    let data = &data.into();
    if LogVariance::of(decoder)?.is_none() {
        return Ok(None);
    }
    let order = betz_gram::decode::channel_order(decoder, *data)?;
    let outputs = decoder.outputs().len();
    let mut session = Session::open(decoder, SessionConfig::default())?;
    let (mut out, mut variances) = (vec![0.0; outputs], vec![0.0; outputs]);
    // (squared error, variance) of every step, output by output.
    let mut pairs: Vec<Vec<(f64, f64)>> = vec![Vec::new(); outputs];
    let mut values = vec![0.0; decoder.channels()];
    for segment in data.segments {
        session.reset();
        for step in segment.start..segment.stop {
            values.fill(0.0);
            for i in data.spikes.range(step, step + 1) {
                values[order[data.spikes.channels[i] as usize]] += data.spikes.weight(i);
            }
            session.step_values(&values, &mut out)?;
            session.variances(&mut variances)?;
            let truth = step - decoder.delay_steps();
            if !(segment.start..segment.stop).contains(&truth) {
                continue;
            }
            let labels = &data.behavior[truth as usize * outputs..][..outputs];
            for (o, pairs) in pairs.iter_mut().enumerate() {
                let error = f64::from(out[o]) - f64::from(labels[o]);
                pairs.push((error * error, f64::from(variances[o])));
            }
        }
    }
    let named = pairs.iter().zip(decoder.outputs());
    Ok(Some(
        named.map(|(pairs, o)| score(&o.name, pairs)).collect(),
    ))
}

fn score(name: &str, pairs: &[(f64, f64)]) -> VarianceScore {
    let n = pairs.len().max(1) as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let log = std::f64::consts::TAU.ln();
    let one = mean(&|(square, _)| *square);
    let (sd, size) = (mean(&|(_, v)| v.sqrt()), mean(&|(e, _)| e.sqrt()));
    let covariance = mean(&|(e, v)| (v.sqrt() - sd) * (e.sqrt() - size));
    let spread =
        mean(&|(_, v)| (v.sqrt() - sd).powi(2)) * mean(&|(e, _)| (e.sqrt() - size).powi(2));
    VarianceScore {
        name: name.to_owned(),
        within_90: mean(&|(e, v)| f64::from(u8::from(*e <= WITHIN_90.powi(2) * v))),
        negative_log_likelihood: mean(&|(e, v)| 0.5 * (log + v.ln() + e / v)),
        of_one_variance: 0.5 * (log + one.ln() + 1.0),
        correlation: covariance / spread.sqrt(),
    }
}

#[cfg(test)]
mod tests;
