//! Γ, Υ and the sums of responses that are on the device already, in f32, however they were made.

use std::sync::Arc;

use super::dense::{self, Task};
use super::source::GivenResponses;
use super::timeline::Reach;
use super::{DeviceSums, SampledError};
use crate::gram::{NormalEquations, paired_steps};
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};
use betz_device::Precision;
use betz_device::cuda::{Buffer, Context};
use betz_recording::{Segment, check_segments};

/// Responses of every feature to every step on one device, with the behaviour: where another way to
/// filter (an FFT, a low-pass) hands over to the dense path.
#[derive(Clone, Copy)]
pub struct DeviceResponses<'a> {
    /// `[feature][step]` on the device that is computed on; a feature is channel · filters + filter.
    /// What lies outside segments is not read. Whatever wrote them is done
    /// ([`Context::synchronize`]), or was asked of the same context before.
    pub responses: &'a Buffer<f32>,
    /// Number of features.
    pub features: usize,
    /// Values from one feature to the next, at least `steps`.
    pub length: usize,
    /// Number of steps.
    pub steps: usize,
    /// Segments to sum over, in steps `[start, stop)`.
    pub segments: &'a [Segment],
    /// Steps × outputs, row-major, in host memory.
    pub behavior: &'a [f32],
    /// Number of outputs.
    pub outputs: usize,
}

/// Γ, Υ and the sums of given responses by the dense path, and how far Γ is from full precision where
/// a lower one is asked for. a(t) is paired with x(t − delay).
///
/// # Errors
/// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when sizes do not fit together;
/// [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory), naming the smallest that works, when
/// the memory cap is too small; those of the device;
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for responses on another device.
pub fn normal_equations_of_responses(
    context: &Arc<Context>,
    given: &DeviceResponses<'_>,
    delay_steps: i64,
    precision: Precision,
    progress: &dyn Progress,
) -> Result<(NormalEquations, Option<SampledError>)> {
    match device_sums_of_responses(context, given, delay_steps, precision, progress)? {
        Some(sums) => Ok((sums.download(context)?, sums.sampled)),
        None => Ok((NormalEquations::zeros(given.features, given.outputs), None)),
    }
}

/// The same sums left on the device (Γ in host memory where it does not fit); `None` when there is
/// nothing to sum. Does not wait for them.
///
/// # Errors
/// As [`normal_equations_of_responses`].
pub fn device_sums_of_responses(
    context: &Arc<Context>,
    given: &DeviceResponses<'_>,
    delay_steps: i64,
    precision: Precision,
    progress: &dyn Progress,
) -> Result<Option<DeviceSums>> {
    progress::check(progress, "gram")?;
    let values = given.steps * given.outputs;
    if given.behavior.len() != values {
        return Err(Error::mismatch(format!(
            "behavior: expected {values} values ({} steps of {} outputs), got {}",
            given.steps,
            given.outputs,
            given.behavior.len()
        )));
    }
    let number = given.responses.ordinal();
    if number != context.number() {
        return Err(Error::argument(format!(
            "responses on cuda:{number}: expected to compute on that device, got {context:?}"
        )));
    }
    check_segments(given.segments, given.steps as i64)?;
    let paired = |s| paired_steps(s, delay_steps).is_some();
    if given.features == 0 || !given.segments.iter().any(paired) {
        return Ok(None);
    }
    let task = Task {
        segments: given.segments,
        steps: given.steps,
        behavior: given.behavior,
        outputs: given.outputs,
        delay_steps,
        precision,
        reach: Reach::default(),
    };
    let (buffer, features) = (given.responses, given.features);
    let sums = dense::sums(
        std::slice::from_ref(context),
        &task,
        &|_| {
            let source = GivenResponses::new(buffer, features, given.steps, given.length)?;
            Ok(Box::new(source))
        },
        progress,
    )?;
    Ok(Some(sums))
}
