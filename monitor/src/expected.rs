//! Expected cost of a mask: decodes the stored steps once more, with and without the masked channels.
//!
//! This does not touch the running session. Two separate sessions decode the spikes of the last minute's frames.
//! They know nothing of a clamp, slew limit or mask that was set on the running session in another way.

use betz_base::error::{Error, ErrorKind, Result};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{PreparedModel, Session, SessionConfig};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::frame::{Frame, Section};

/// Smallest number of steps for which an R² is computed.
const FEWEST_STEPS: u64 = 100;

/// Sums for the R² of one output: squared errors, and squared deviations of the reference from its mean.
#[derive(Debug, Default, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) struct Fit {
    pub(crate) rows: u64,
    mean: f64,
    /// Σ (reference − mean)², computed by Welford's method.
    around: f64,
    /// Σ (reference − estimate)².
    left: f64,
}

impl Fit {
    pub(crate) fn add(&mut self, reference: f32, estimate: f32) {
        let (reference, estimate) = (f64::from(reference), f64::from(estimate));
        self.rows += 1;
        let off = reference - self.mean;
        self.mean += off / self.rows as f64;
        self.around += off * (reference - self.mean);
        self.left += (reference - estimate).powi(2);
    }

    /// Adds the rows of another sum (Chan's method).
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.rows == 0 {
            return;
        }
        let (own, more) = (self.rows as f64, other.rows as f64);
        let off = other.mean - self.mean;
        self.rows += other.rows;
        let all = self.rows as f64;
        self.mean += off * more / all;
        self.around += other.around + off * off * own * more / all;
        self.left += other.left;
    }

    /// R²; `None` if the reference is constant.
    pub(crate) fn r2(&self) -> Option<f64> {
        let r2 = 1.0 - self.left / self.around;
        (self.around > 0.0 && r2.is_finite()).then_some(r2)
    }

    /// Root of the mean squared error; `None` without rows.
    pub(crate) fn rmse(&self) -> Option<f64> {
        (self.rows > 0).then(|| (self.left / self.rows as f64).sqrt())
    }
}

/// Sums of one output.
#[derive(Debug, Default, Clone, Copy)]
struct Fits {
    /// All channels against the truth.
    now: Fit,
    /// Masked estimates against the truth, over the same rows.
    masked: Fit,
    /// Masked estimates against those of all channels.
    apart: Fit,
}

/// A step of the stored frames.
struct FrameStep<'a> {
    tick: i64,
    trial_begins: bool,
    spikes: &'a [u32],
    /// Intended outputs; empty if unknown.
    truth: &'a [f32],
}

/// Computes the R² of each output over the steps in `frames` (oldest first), with and without the channels in `off`.
/// The reference is the truth if it is known, else the estimates of all channels. Returns `None` as soon as `cancelled`
/// reports that nobody waits for the result.
///
/// # Errors
/// `InvalidArgument` for channels that the model does not have. `Mismatch` if the frames have another session's shape,
/// or counts in place of spikes. `InsufficientData` if too few steps or no spikes are stored.
pub(crate) fn of_mask(
    decoder: &Decoder,
    off: &[usize],
    frames: &[Bytes],
    cancelled: impl Fn() -> bool,
) -> Result<Option<Value>> {
    let mask = mask(decoder, off)?;
    let frames: Vec<Frame<'_>> = (frames.iter())
        .map(|bytes| Ok(Frame::read(bytes)?.0))
        .collect::<Result<_>>()?;
    let held = frames.iter().map(|f| u64::from(f.ticks)).sum();
    let mut compared = Comparison::new(decoder, &mask, held)?;
    for frame in &frames {
        if cancelled() {
            return Ok(None);
        }
        each_step(frame, decoder.outputs().len(), |step| compared.add(&step))?;
    }
    let Comparison {
        warm_up,
        steps,
        spikes,
        fits,
        ..
    } = compared;
    if steps < FEWEST_STEPS || spikes == 0 {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "what a mask would cost: expected {FEWEST_STEPS} steps with spikes after the {warm_up} that the model \
                 takes to forget what is not held, got {steps} steps and {spikes} spikes"
            ),
        ));
    }
    let (against, outputs) = cost(decoder, &fits);
    Ok(Some(json!({
        "against": against,
        "channels": mask.iter().filter(|&&m| !m).count(),
        "steps": steps,
        "seconds": steps as f64 * decoder.step_seconds(),
        "warm_up_steps": warm_up,
        "outputs": outputs,
    })))
}

/// Two sessions on the same steps, with and without a mask.
struct Comparison {
    with: Session,
    without: Session,
    fits: Vec<Fits>,
    /// Estimates of the newest step, with all channels and masked.
    now: Vec<f32>,
    masked: Vec<f32>,
    /// Steps that are left out at the start, because the spikes before the first frame are unknown.
    warm_up: u64,
    /// Steps that are still to be left out.
    unknown: u64,
    /// Number of steps that were compared.
    steps: u64,
    spikes: u64,
    /// Tick of the step before.
    before: Option<i64>,
}

impl Comparison {
    /// `held`: number of steps that will be added.
    fn new(decoder: &Decoder, mask: &[bool], held: u64) -> Result<Self> {
        let all = PreparedModel::new(decoder, None)?;
        // Skip steps until the decoder has forgotten the unknown spikes, but at most half.
        let warm_up = all.memory_steps().min(held / 2);
        let config = || SessionConfig {
            statistics: false,
            ..SessionConfig::default()
        };
        let masked = PreparedModel::new(decoder, Some(mask))?;
        let width = decoder.outputs().len();
        Ok(Self {
            with: Session::open_prepared(all.into(), config())?,
            without: Session::open_prepared(masked.into(), config())?,
            fits: vec![Fits::default(); width],
            now: vec![0.0; width],
            masked: vec![0.0; width],
            warm_up,
            unknown: warm_up,
            steps: 0,
            spikes: 0,
            before: None,
        })
    }

    /// Decodes the next step twice, and compares the estimates.
    fn add(&mut self, step: &FrameStep<'_>) -> Result<()> {
        self.spikes += step.spikes.len() as u64;
        let before = self.before.replace(step.tick);
        let gap = before.map_or(0, |b| step.tick.saturating_sub(b).saturating_sub(1));
        if step.trial_begins {
            self.with.reset();
            self.without.reset();
            self.unknown = 0;
        } else if let Ok(gap @ 1..) = u64::try_from(gap) {
            self.with.skip(gap);
            self.without.skip(gap);
        }
        self.with.step_spikes(step.spikes, &mut self.now)?;
        self.without.step_spikes(step.spikes, &mut self.masked)?;
        if self.unknown > 0 {
            self.unknown -= 1;
            return Ok(());
        }
        self.steps += 1;
        for (o, fit) in self.fits.iter_mut().enumerate() {
            let (now, masked) = (self.now[o], self.masked[o]);
            if !(now.is_finite() && masked.is_finite()) {
                continue;
            }
            fit.apart.add(now, masked);
            if let Some(&truth) = step.truth.get(o).filter(|t| t.is_finite()) {
                fit.now.add(truth, now);
                fit.masked.add(truth, masked);
            }
        }
        Ok(())
    }
}

/// The mask's cost by output: against the truth if there is any, else against the estimate of all channels.
fn cost(decoder: &Decoder, fits: &[Fits]) -> (&'static str, Vec<Value>) {
    let truth = fits.iter().any(|f| f.now.rows > 0);
    let outputs = decoder.outputs().iter().zip(fits);
    let outputs = outputs.map(|(output, fit)| match truth {
        true => json!({
            "name": output.name, "rows": fit.now.rows, "now": fit.now.r2(), "masked": fit.masked.r2(),
        }),
        false => json!({
            "name": output.name, "rows": fit.apart.rows, "now": null, "masked": fit.apart.r2(),
        }),
    });
    (if truth { "truth" } else { "estimate" }, outputs.collect())
}

/// Builds a mask with one entry per channel: `false` for the channels in `off`.
///
/// # Errors
/// `InvalidArgument` for a channel that the model does not have.
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

/// Calls `work` for every step of a frame, in order.
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
