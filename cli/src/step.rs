//! The step of a recording of spike times, which has no bins, if none is asked for.

use std::borrow::Cow;

use betz::device::Device;
use betz::psc::FilterBank;
use betz::recording::{Recording, SpikeForm};
use betz::train::Training;
use betz::{ErrorKind, Result};

use crate::common_args::Part;
use crate::data;
use crate::report;

/// Steps that are tried besides the interval between samples of behaviour.
const STEPS_SECONDS: [f64; 3] = [0.02, 0.05, 0.1];

/// The shortest interval between samples of behaviour that is tried.
const SHORTEST_SECONDS: f64 = 0.005;

/// Steps that differ by less than this factor count as one.
const SAME: f64 = 1.25;

/// The steps that are tried on `recording`, ascending.
fn candidates(recording: &Recording) -> Vec<f64> {
    let interval = recording.behavior_interval();
    let shortest = SHORTEST_SECONDS.max(recording.tick_seconds);
    let mut steps: Vec<f64> = interval
        // Times in files are sums of intervals: what rounding added to them is no part of a step.
        .map(|seconds| (seconds * 1e9).round() / 1e9)
        .map(|seconds| seconds.max(shortest))
        .into_iter()
        .collect();
    for step in STEPS_SECONDS {
        let differs = |&other: &f64| step / other > SAME || other / step > SAME;
        if step >= shortest && steps.iter().all(differs) {
            steps.push(step);
        }
    }
    steps.sort_by(f64::total_cmp);
    steps
}

/// The step at which a linear decoder with the `bank` of that step, or with the best one, decodes held-out parts of
/// `recording` best, among the interval between samples of behaviour, 20, 50 and 100 ms; says so on standard error. The bin of a binned recording, and the usual step without
/// behaviour.
///
/// # Errors
/// Returns the errors of putting the recording on a step, and an interrupt.
pub(crate) fn choose(
    recording: &Recording,
    part: &Part,
    folds: u32,
    bank: impl Fn(f64) -> Result<Option<FilterBank>>,
) -> Result<f64> {
    let usual = data::default_step(recording);
    if recording.form != SpikeForm::Events || recording.behavior.is_none() || folds < 2 {
        return Ok(usual);
    }
    let mut best: Option<(f64, f64)> = None;
    let mut tried = Vec::new();
    for step in candidates(recording) {
        let (dataset, _) = data::aligned(Cow::Borrowed(recording), step, part)?;
        // The training that follows says what is wrong.
        let Ok(bank) = bank(step) else { continue };
        let training = Training {
            bank,
            folds: folds as usize,
            ..Training::default()
        };
        let outcome = match training.run_linear(&dataset, &Device::cpu(), &()) {
            Err(e) if e.kind() == ErrorKind::Interrupted => return Err(e),
            // The training that follows says what is wrong.
            Err(_) => continue,
            Ok(outcome) => outcome,
        };
        report::check_interrupt("training")?;
        let scores = &outcome.decoder.training().scores;
        let known: Vec<f64> = scores
            .iter()
            .map(|s| s.r2)
            .filter(|r2| !r2.is_nan())
            .collect();
        if known.is_empty() {
            continue;
        }
        let r2 = known.iter().sum::<f64>() / known.len() as f64;
        tried.push(format!("{} s R² {r2:.3}", report::number(step)));
        if best.is_none_or(|(most, _)| r2 > most) {
            best = Some((r2, step));
        }
    }
    let Some((_, step)) = best else {
        return Ok(usual);
    };
    eprintln!(
        "step: {} s, at which a linear decoder decodes held-out data best ({}); --step sets another",
        report::number(step),
        tried.join(", ")
    );
    Ok(step)
}
