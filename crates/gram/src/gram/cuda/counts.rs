//! Γ, Υ and the sums of binned counts, which travel as they are and are filtered on the device.

use std::sync::Arc;

use super::dense::{self, Task};
use super::source::{Count, CountSource, Place, ResponseSource};
use super::{DeviceSums, SampledError};
use crate::gram::{NormalEquations, paired_steps};
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};
use betz_device::Precision;
use betz_device::cuda::{Buffer, Context};
use betz_recording::{Segment, check_segments};
use betz_runtime::psc::FilterBank;

/// Spike counts, steps × channels, row-major.
#[derive(Clone, Copy)]
pub enum Counts<'a> {
    /// In host memory.
    U8(&'a [u8]),
    /// In host memory.
    U16(&'a [u16]),
    /// On the one device that is computed on ([`Context::upload`]).
    DeviceU8(&'a Buffer<u8>),
    /// On the one device that is computed on.
    DeviceU16(&'a Buffer<u16>),
}

impl Counts<'_> {
    /// Number of counts, and the device they are on.
    fn place(&self) -> (usize, Option<usize>) {
        match self {
            Self::U8(counts) => (counts.len(), None),
            Self::U16(counts) => (counts.len(), None),
            Self::DeviceU8(counts) => (counts.len(), Some(counts.ordinal())),
            Self::DeviceU16(counts) => (counts.len(), Some(counts.ordinal())),
        }
    }
}

/// A recording as counts per step, with its behaviour.
#[derive(Clone, Copy)]
pub struct CountRecording<'a> {
    /// Steps × channels.
    pub counts: Counts<'a>,
    /// Number of channels.
    pub channels: usize,
    /// Number of steps.
    pub steps: usize,
    /// Length of a step.
    pub step_seconds: f64,
    /// What is summed, in steps `[start, stop)`; filters are at rest at each segment's start.
    pub segments: &'a [Segment],
    /// Steps × outputs, row-major, in host memory.
    pub behavior: &'a [f32],
    /// Number of outputs.
    pub outputs: usize,
}

impl CountRecording<'_> {
    fn check(&self, contexts: &[Arc<Context>]) -> Result<()> {
        let (len, device) = self.counts.place();
        let (expected, values) = (self.steps * self.channels, self.steps * self.outputs);
        if len != expected {
            return Err(Error::mismatch(format!(
                "counts: expected {expected} ({} steps of {} channels), got {len}",
                self.steps, self.channels
            )));
        }
        if self.behavior.len() != values {
            return Err(Error::mismatch(format!(
                "behavior: expected {values} values ({} steps of {} outputs), got {}",
                self.steps,
                self.outputs,
                self.behavior.len()
            )));
        }
        if let Some(number) = device
            && !matches!(contexts, [one] if one.number() == number)
        {
            return Err(Error::argument(format!(
                "counts on cuda:{number}: expected to compute on that device alone, got {contexts:?}"
            )));
        }
        check_segments(self.segments, self.steps as i64)
    }
}

/// Γ, Υ and the sums of binned counts by the dense path on `contexts`, which share the time between
/// them, and how far Γ is from full precision where a lower one is asked for.
///
/// a(t) is paired with x(t − delay) as in [`normal_equations`](super::super::normal_equations). Host
/// memory is read once for each block of Γ that fits the device (once if Γ does).
///
/// # Errors
/// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when sizes do not fit together;
/// [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory), naming the smallest that works, when
/// the memory cap is too small; those of the device.
pub fn normal_equations_of_counts(
    contexts: &[Arc<Context>],
    recording: &CountRecording<'_>,
    bank: &FilterBank,
    delay_steps: i64,
    precision: Precision,
    progress: &dyn Progress,
) -> Result<(NormalEquations, Option<SampledError>)> {
    let sums = device_sums_of_counts(contexts, recording, bank, delay_steps, precision, progress)?;
    match (sums, contexts.first()) {
        (Some(sums), Some(context)) => Ok((sums.download(context)?, sums.sampled)),
        _ => {
            let features = recording.channels * bank.len();
            Ok((NormalEquations::zeros(features, recording.outputs), None))
        }
    }
}

/// The same sums left on the first of `contexts` (Γ in host memory where it does not fit); `None`
/// when there is nothing to sum. Does not wait for them.
///
/// # Errors
/// As [`normal_equations_of_counts`].
pub fn device_sums_of_counts(
    contexts: &[Arc<Context>],
    recording: &CountRecording<'_>,
    bank: &FilterBank,
    delay_steps: i64,
    precision: Precision,
    progress: &dyn Progress,
) -> Result<Option<DeviceSums>> {
    progress::check(progress, "gram")?;
    recording.check(contexts)?;
    let paired = |s| paired_steps(s, delay_steps).is_some();
    if recording.channels == 0 || !recording.segments.iter().any(paired) {
        return Ok(None);
    }
    let task = Task {
        segments: recording.segments,
        steps: recording.steps,
        behavior: recording.behavior,
        outputs: recording.outputs,
        delay_steps,
        precision,
    };
    let make = |context| -> Result<Box<dyn ResponseSource + '_>> {
        Ok(match recording.counts {
            Counts::U8(counts) => source(context, Place::Host(counts), recording, bank)?,
            Counts::U16(counts) => source(context, Place::Host(counts), recording, bank)?,
            Counts::DeviceU8(counts) => source(context, Place::Device(counts), recording, bank)?,
            Counts::DeviceU16(counts) => source(context, Place::Device(counts), recording, bank)?,
        })
    };
    dense::sums(contexts, &task, &make, progress).map(Some)
}

fn source<'a, C: Count>(
    context: &'a Context,
    counts: Place<'a, C>,
    recording: &CountRecording<'_>,
    bank: &FilterBank,
) -> Result<Box<dyn ResponseSource + 'a>> {
    let (channels, step) = (recording.channels, recording.step_seconds);
    let source = CountSource::new(context, counts, channels, bank, step)?;
    Ok(Box::new(source))
}
