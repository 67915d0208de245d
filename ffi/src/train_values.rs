//! Training on features of any sign.

use betz::Error;
use betz::memory;
use betz::recording::Spikes;

use crate::barrier;
use crate::failure::Result;
use crate::model::betz_model;
use crate::status::betz_status;
use crate::train::{betz_train_config, fit_rows};

/// Most values other than 0.
const MOST_VALUES: usize = 1 << 30;

/// Trains a model from features of any sign, such as the power in a band, for `betz_session_step_values`. The caller
/// frees it with `betz_model_free`.
///
/// `values` is (steps, config->channels) row-major. Each is finite and at most 10^15 in magnitude, at most 2^30 differ
/// from 0 (`BETZ_ERROR_INVALID_RECORDING`), and those take 16 bytes of host memory each. Everything else is the same as
/// in `betz_train_counts`.
///
/// Thread-safe: yes. Realtime-safe: no (seconds; uses all processors, or a device). Allocates: yes.
///
/// # Safety
/// `config` is NULL or a configuration whose arrays are as its fields say; `values` points to
/// `steps` * `config->channels` values and `behavior` to `steps` * `outputs`; `out` is NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_train_values(
    config: *const betz_train_config,
    values: *const f32,
    behavior: *const f32,
    steps: usize,
    outputs: usize,
    out: *mut *mut betz_model,
) -> betz_status {
    let (shape, rows) = ((steps, outputs), ("values", values));
    barrier::run(|| {
        // SAFETY: the caller's promise.
        unsafe { fit_rows(config, shape, rows, behavior, out, entries) }
    })
}

/// One entry for each value that is not 0.
fn entries(values: &[f32], channels: usize) -> Result<Spikes> {
    let place = |i: usize| (i / channels, i % channels);
    let mut total = 0;
    for (i, value) in values.iter().enumerate() {
        total += usize::from(*value != 0.0);
        // NaN is not below 1e15 either.
        let is_believed = value.abs() <= 1e15;
        if !is_believed || total > MOST_VALUES {
            let (step, channel) = place(i);
            let text = format!(
                "values: step {step}, channel {channel}: expected a finite number of at most 1e15, and at most 2^30 \
                 values other than 0, got {value} as number {total}"
            );
            return Err(Error::recording(text).into());
        }
    }
    let mut spikes = Spikes {
        ticks: memory::room("values", total)?,
        channels: memory::room("values", total)?,
        weights: memory::room("values", total)?,
    };
    for (i, value) in values
        .iter()
        .enumerate()
        .filter(|(_, value)| **value != 0.0)
    {
        let (step, channel) = place(i);
        spikes.ticks.push(step as i64);
        spikes.channels.push(channel as u32);
        spikes.weights.push(*value);
    }
    Ok(spikes)
}
