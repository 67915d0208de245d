//! A recording, fed step by step to a real-time session.

use std::time::Duration;

use betz::recording::Dataset;
use betz::stream::{Session, Stats};
use betz::text::count;
use betz::{Error, Progress, Result};
use serde::Serialize;

/// Latencies as the contract names them.
#[derive(Serialize)]
pub(crate) struct LatencyUs {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p99_9: f64,
    pub(crate) max: f64,
    pub(crate) steps: u64,
}

impl LatencyUs {
    pub(crate) fn of(stats: &Stats) -> Self {
        let l = &stats.latency;
        Self {
            p50: l.p50_us,
            p99: l.p99_us,
            p99_9: l.p99_9_us,
            max: l.max_us,
            steps: l.steps,
        }
    }

    /// A latency for a table.
    pub(crate) fn microseconds(&self, value: f64) -> String {
        if value < 10.0 {
            format!("{value:.2} µs")
        } else {
            format!("{value:.0} µs")
        }
    }

    pub(crate) fn sentence(&self) -> String {
        format!(
            "step latency: p50 {:.3} µs, p99 {:.3} µs, p99.9 {:.3} µs, max {:.1} µs over {}",
            self.p50,
            self.p99,
            self.p99_9,
            self.max,
            count(self.steps, "step")
        )
    }
}

/// The option `--deadline` as a duration.
pub(crate) fn deadline(microseconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(microseconds * 1e-6)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| {
            Error::argument(format!(
                "--deadline: expected microseconds > 0, got {microseconds}"
            ))
        })
}

/// Feeds `dataset` tick by tick; (steps, outputs) row-major, NaN outside segments. The session is
/// reset at each segment's start, as training and batch decoding do.
pub(crate) fn replay(
    session: &mut Session,
    dataset: &Dataset,
    progress: &dyn Progress,
) -> Result<Vec<f32>> {
    let width = session.outputs();
    let values = dataset.steps.saturating_mul(width);
    betz::memory::plan("the decoded outputs", values as u128 * 4)?;
    let mut decoded = betz::memory::filled("the decoded outputs", f32::NAN, values)?;
    let mut counts = betz::memory::filled("a tick", 0u16, session.channels())?;
    // A signal, and counts beyond 65,535, go in as they are.
    let weights = &dataset.spikes.weights;
    let as_counts = |w: &f32| w.fract() == 0.0 && (0.0..=65_535.0).contains(w);
    let signal = !weights.iter().all(as_counts);
    let row = if signal { session.channels() } else { 0 };
    let mut values = betz::memory::filled("a tick", 0.0_f32, row)?;
    let (mut done, total) = (0u64, dataset.steps_in_segments() as u64);
    for segment in &dataset.segments {
        session.reset();
        let mut next = dataset.spikes.range(segment.start, segment.stop).start;
        for step in segment.start..segment.stop {
            let ticks = &dataset.spikes.ticks[next..];
            let now = next..next + ticks.iter().take_while(|&&t| t == step).count();
            next = now.end;
            let spikes = &dataset.spikes.channels[now.clone()];
            let row = step as usize * width;
            let out = &mut decoded[row..row + width];
            if signal {
                for i in now {
                    values[dataset.spikes.channels[i] as usize] += dataset.spikes.weights[i];
                }
                session.step_values(&values, out)?;
                spikes.iter().for_each(|&c| values[c as usize] = 0.0);
            } else if !weights.is_empty() {
                counts.fill(0);
                for i in now {
                    let count = &mut counts[dataset.spikes.channels[i] as usize];
                    *count = count.saturating_add(dataset.spikes.weight(i) as u16);
                }
                session.step_counts(&counts, out)?;
            } else {
                session.step_spikes(spikes, out)?;
            }
            done += 1;
            if done.is_multiple_of(4096) {
                progress.update("streaming", done, total);
            }
        }
    }
    Ok(decoded)
}
