//! Runs a session between a source and a sink.

use std::time::{Duration, Instant};

use betz_base::{Error, ErrorKind, Result};
use betz_runtime::stream::Session;
use hdrhistogram::Histogram;

use crate::clock::host_ns;

use super::{Content, Counts, Estimate, Frame, Reception, Sink, Source};

/// Longest latency that is measured, in nanoseconds; longer ones count as this.
const LONGEST: u64 = 10_000_000_000;

/// Conditions that end a pump.
#[derive(Clone, Copy)]
pub struct Until<'a> {
    /// Largest number of steps to decode.
    pub steps: Option<u64>,
    /// Ends after this time without input; never if absent.
    pub silence: Option<Duration>,
    /// Interval between calls of `stop` while nothing arrives.
    pub patience: Duration,
    /// Returns true once the pump is to stop.
    pub stop: &'a dyn Fn() -> bool,
}

/// Counts and latencies of a pump's run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PumpReport {
    /// Steps decoded.
    pub steps: u64,
    /// Steps that never arrived and were treated as silent.
    pub skipped: u64,
    /// Number of times that the session started from rest because the source restarted.
    pub restarts: u64,
    /// Median time from a frame's arrival to the hand-over of its output, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of that time.
    pub p99_us: f64,
    /// Longest such time.
    pub max_us: f64,
    /// Counts of the source.
    pub source: Counts,
    /// Counts of the sink.
    pub sink: Counts,
}

/// Decodes the steps of `source` into `sink` until `until` says so or the source has ended. Allocates only before the
/// first step.
///
/// # Errors
/// The errors of source and sink; `Mismatch` for a frame that does not fit the session.
pub fn pump(
    session: &mut Session,
    source: &mut dyn Source,
    sink: &mut dyn Sink,
    until: &Until<'_>,
) -> Result<PumpReport> {
    let mut frame = Frame::new(session.channels());
    let mut values = vec![0.0; session.outputs()];
    let mut times = Histogram::<u64>::new_with_bounds(1, LONGEST, 3)
        .map_err(|e| Error::new(ErrorKind::Internal, format!("histogram: {e}")))?;
    let mut pumped = PumpReport::default();
    let mut heard = Instant::now();
    while until.steps.is_none_or(|most| pumped.steps < most) && !(until.stop)() {
        match source.take(&mut frame, until.patience)? {
            Reception::Ended => break,
            Reception::Nothing if until.silence.is_some_and(|most| heard.elapsed() >= most) => {
                break;
            }
            Reception::Nothing => continue,
            Reception::Step => {}
        }
        heard = frame.received;
        if frame.restart {
            session.reset();
            pumped.restarts += 1;
        } else if frame.skipped > 0 {
            session.skip(frame.skipped);
            pumped.skipped += frame.skipped;
        }
        match frame.content {
            Content::Counts => session.step_counts(&frame.counts, &mut values)?,
            Content::Features => session.step_values(&frame.features, &mut values)?,
            Content::Spikes => session.step_spikes(&frame.spikes, &mut values)?,
        }
        sink.give(&Estimate {
            sequence: frame.sequence,
            device: frame.sequence,
            sent: Some(frame.sent),
            host_ns: host_ns() - frame.received.elapsed().as_nanos() as i64,
            status: session.status().bits(),
            values: &values,
        })?;
        pumped.steps += 1;
        times.saturating_record(frame.received.elapsed().as_nanos() as u64);
    }
    let microseconds = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    if pumped.steps > 0 {
        pumped.p50_us = microseconds(0.5);
        pumped.p99_us = microseconds(0.99);
        pumped.max_us = microseconds(1.0);
    }
    pumped.source = source.counts();
    pumped.sink = sink.counts();
    Ok(pumped)
}
