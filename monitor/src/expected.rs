//! What a mask would cost: the steps that are held run once more through the model, with the channels and without.
//!
//! The live session is not asked and not touched: what runs here are two sessions of their own, fed with what the frames
//! of the last minute show. So a session whose own clamp, slew limit or mask was set elsewhere is judged without them.

use betz_base::error::{Error, ErrorKind, Result};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{PreparedModel, Session, SessionConfig};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::frame::{Frame, Section};

/// Fewest steps that anything is said of.
const FEWEST_STEPS: u64 = 100;

/// Sums for an R² of one output: what is left of the reference, and how far it lies around its mean.
#[derive(Debug, Default, Clone, Copy)]
struct Fit {
    rows: u64,
    mean: f64,
    /// Σ (reference − mean)², by Welford.
    around: f64,
    /// Σ (reference − estimate)².
    left: f64,
}

impl Fit {
    fn add(&mut self, reference: f32, estimate: f32) {
        let (reference, estimate) = (f64::from(reference), f64::from(estimate));
        self.rows += 1;
        let off = reference - self.mean;
        self.mean += off / self.rows as f64;
        self.around += off * (reference - self.mean);
        self.left += (reference - estimate).powi(2);
    }

    /// `None` where the reference does not move.
    fn r2(&self) -> Option<f64> {
        let r2 = 1.0 - self.left / self.around;
        (self.around > 0.0 && r2.is_finite()).then_some(r2)
    }
}

/// Of one output.
#[derive(Debug, Default, Clone, Copy)]
struct Fits {
    /// Estimates of all channels against the truth.
    now: Fit,
    /// Estimates with the mask against the truth, over the same rows.
    masked: Fit,
    /// Estimates with the mask against those of all channels.
    apart: Fit,
}

/// A step of the held frames.
struct FrameStep<'a> {
    tick: i64,
    trial_begins: bool,
    spikes: &'a [u32],
    /// Empty where nobody says.
    truth: &'a [f32],
}

/// R² of each output as `decoder` says it of the steps in `frames`, the oldest first, with the channels that are `off`
/// and without them: against the truth where there is one, against the estimates of all channels otherwise. `None` once
/// `cancelled` says that nobody waits for it.
///
/// # Errors
/// `InvalidArgument` for channels that the model has not; `Mismatch` for frames of another session's shape, or of
/// counts in place of spikes; `InsufficientData` where too few steps, or no spikes, are held.
pub(crate) fn of_mask(
    decoder: &Decoder,
    off: &[usize],
    frames: &[Bytes],
    cancelled: impl Fn() -> bool,
) -> Result<Option<Value>> {
    let mask = mask(decoder, off)?;
    let all = PreparedModel::new(decoder, None)?;
    let memory = all.memory_steps();
    let width = decoder.outputs().len();
    let config = || SessionConfig {
        statistics: false,
        ..SessionConfig::default()
    };
    let mut with = Session::open_prepared(all.into(), config())?;
    let masked = PreparedModel::new(decoder, Some(&mask))?;
    let mut without = Session::open_prepared(masked.into(), config())?;

    let frames: Vec<Frame<'_>> = (frames.iter())
        .map(|bytes| Ok(Frame::read(bytes)?.0))
        .collect::<Result<_>>()?;
    let held: u64 = frames.iter().map(|f| u64::from(f.ticks)).sum();
    // What came before is not known: the first steps count as soon as it is forgotten, or half of them are over.
    let mut unknown = memory.min(held / 2);
    let (mut fits, mut steps, mut spikes) = (vec![Fits::default(); width], 0u64, 0u64);
    let (mut now, mut then) = (vec![0.0f32; width], vec![0.0f32; width]);
    let mut before: Option<i64> = None;
    let warm_up = unknown;
    for frame in &frames {
        if cancelled() {
            return Ok(None);
        }
        each_step(frame, width, |step| {
            spikes += step.spikes.len() as u64;
            let gap = before.map_or(0, |b| step.tick.saturating_sub(b).saturating_sub(1));
            before = Some(step.tick);
            if step.trial_begins {
                with.reset();
                without.reset();
                unknown = 0;
            } else if let Ok(gap @ 1..) = u64::try_from(gap) {
                with.skip(gap);
                without.skip(gap);
            }
            with.step_spikes(step.spikes, &mut now)?;
            without.step_spikes(step.spikes, &mut then)?;
            if unknown > 0 {
                unknown -= 1;
                return Ok(());
            }
            steps += 1;
            for (o, fit) in fits.iter_mut().enumerate() {
                let (now, then) = (now[o], then[o]);
                if !(now.is_finite() && then.is_finite()) {
                    continue;
                }
                fit.apart.add(now, then);
                if let Some(&truth) = step.truth.get(o).filter(|t| t.is_finite()) {
                    fit.now.add(truth, now);
                    fit.masked.add(truth, then);
                }
            }
            Ok(())
        })?;
    }
    if steps < FEWEST_STEPS || spikes == 0 {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "what a mask would cost: expected {FEWEST_STEPS} steps with spikes after the {warm_up} that the model \
                 takes to forget what is not held, got {steps} steps and {spikes} spikes"
            ),
        ));
    }
    let truth = fits.iter().any(|f| f.now.rows > 0);
    let outputs = decoder.outputs().iter().zip(&fits);
    let outputs: Vec<Value> = outputs
        .map(|(output, fit)| match truth {
            true => json!({
                "name": output.name, "rows": fit.now.rows, "now": fit.now.r2(), "masked": fit.masked.r2(),
            }),
            false => json!({
                "name": output.name, "rows": fit.apart.rows, "now": null, "masked": fit.apart.r2(),
            }),
        })
        .collect();
    Ok(Some(json!({
        "against": if truth { "truth" } else { "estimate" },
        "channels": mask.iter().filter(|&&m| !m).count(),
        "steps": steps,
        "seconds": steps as f64 * decoder.step_seconds(),
        "warm_up_steps": warm_up,
        "outputs": outputs,
    })))
}

/// One entry a channel, `false` for those that are to take no part.
///
/// # Errors
/// `InvalidArgument` for a channel that the model has not.
pub(crate) fn mask(decoder: &Decoder, off: &[usize]) -> Result<Vec<bool>> {
    let mut mask = vec![true; decoder.channels()];
    for &channel in off {
        *mask.get_mut(channel).ok_or_else(|| {
            let last = decoder.channels() - 1;
            Error::argument(format!(
                "mask: expected channels 0 to {last}, got {channel}"
            ))
        })? = false;
    }
    Ok(mask)
}

/// The steps of a frame, one after the other.
fn each_step(
    frame: &Frame<'_>,
    width: usize,
    mut work: impl FnMut(FrameStep<'_>) -> Result<()>,
) -> Result<()> {
    let has = |id| frame.sections.iter().any(|s| s.0 == id);
    if has(Section::CELLS) {
        return Err(Error::mismatch(
            "what a mask would cost: expected every spike to be held, got counts: this session has too many of them",
        ));
    }
    let rows: Vec<u16> = match has(Section::ROW_TICK) {
        true => frame.u16(Section::ROW_TICK).collect(),
        false => (0..frame.ticks as u16).collect(),
    };
    let estimates = frame.section(Section::ESTIMATE, 4).len() / 4;
    if estimates != rows.len() * width {
        return Err(Error::mismatch(format!(
            "what a mask would cost: expected {} estimates of {width} outputs in a frame, got {estimates}",
            rows.len() * width
        )));
    }
    let truth: Vec<f32> = frame.f32(Section::TRUTH).collect();
    let trials: Vec<u16> = frame.u16(Section::TRIALS).collect();
    let ticks: Vec<u16> = frame.u16(Section::SPIKE_TICK).collect();
    let channels = frame.spike_channels();
    let mut next = 0;
    for (row, &offset) in rows.iter().enumerate() {
        let from = next;
        while next < ticks.len().min(channels.len()) && ticks[next] <= offset {
            next += 1;
        }
        work(FrameStep {
            tick: frame.first.saturating_add(i64::from(offset)),
            trial_begins: trials.contains(&offset),
            spikes: &channels[from..next],
            truth: truth.get(row * width..(row + 1) * width).unwrap_or(&[]),
        })?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "expected_tests.rs"]
mod tests;
