//! Checks that all functions share.

use betz_base::{Error, Result};
use betz_recording::{Recording, SpikeForm};

/// Most bins of one result (channels × bins).
const MOST_VALUES: usize = 1 << 26;
/// Bytes that a function takes for each of them, at most.
const BYTES_OF_VALUE: u128 = 32;

/// Refuses a signal, and channels that the recording does not have.
pub(crate) fn spikes_of(recording: &Recording, channels: &[usize]) -> Result<()> {
    recording.check()?;
    if recording.form == SpikeForm::Signal {
        return Err(Error::argument(
            "expected spikes or binned counts, got a signal: it has no spikes to count",
        ));
    }
    check_channels(channels, recording.channels())
}

pub(crate) fn check_channels(channels: &[usize], of: usize) -> Result<()> {
    if let Some(channel) = channels.iter().find(|c| **c >= of) {
        return Err(Error::argument(format!(
            "expected channels below {of}, got channel {channel}"
        )));
    }
    match channels.is_empty() {
        true => Err(Error::argument("expected at least one channel, got none")),
        false => Ok(()),
    }
}

/// Refuses a time that is not finite and positive.
pub(crate) fn positive(name: &str, seconds: f64) -> Result<()> {
    if seconds.is_finite() && seconds > 0.0 {
        return Ok(());
    }
    Err(Error::argument(format!(
        "{name}: expected a finite time above 0 s, got {seconds} s"
    )))
}

/// Number of values of a result; refuses results that are too large, or that no memory holds.
pub(crate) fn values(what: &str, rows: usize, columns: usize) -> Result<usize> {
    match rows.checked_mul(columns) {
        Some(n) if n <= MOST_VALUES => {
            betz_base::memory::plan(what, n as u128 * BYTES_OF_VALUE)?;
            Ok(n)
        }
        _ => Err(Error::argument(format!(
            "{what}: expected at most {MOST_VALUES} values, got {rows} × {columns}; choose wider bins or fewer channels"
        ))),
    }
}

/// Position of each channel of the recording in `channels`.
pub(crate) fn positions(channels: &[usize], of: usize) -> Vec<Vec<usize>> {
    let mut at = vec![Vec::new(); of];
    for (position, &channel) in channels.iter().enumerate() {
        at[channel].push(position);
    }
    at
}
