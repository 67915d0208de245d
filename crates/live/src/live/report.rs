//! Counts, latencies and limits of a session.

use betz_interop::bus::Counts;

use super::Live;
use crate::health::SessionReport;
use crate::learn::Learner;
use crate::notes::{NoteCounts, Notes};
use crate::recalibrate::Recalibrator;
use crate::record::Recorder;

impl Live {
    /// The limits of the plan that are crossed, in words.
    pub fn crossed(&self) -> Vec<String> {
        let (limits, counts) = (&self.plan.limits, self.report().input);
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        // The noise has to be measured; that is no failure, unless the session was over before.
        let calibrating = match counts.calibrating == counts.steps {
            true => 0,
            false => counts.calibrating,
        };
        let late = counts.stale - calibrating + counts.skipped + counts.partial;
        let rows = share(counts.lost, counts.lost + counts.rows);
        let steps = share(late, counts.steps - calibrating + counts.skipped);
        let mut crossed = Vec::new();
        if rows > limits.lost {
            let most = limits.lost;
            crossed.push(format!(
                "limits.lost: expected a share of at most {most}, got {rows:.6}"
            ));
        }
        if steps > limits.late_steps {
            let most = limits.late_steps;
            crossed.push(format!(
                "limits.late_steps: expected a share of at most {most}, got {steps:.6}"
            ));
        }
        let missing = self.recorder.as_ref().map_or(0, |r| r.counts().unrecorded);
        if missing > limits.unrecorded {
            let most = limits.unrecorded;
            crossed.push(format!(
                "limits.unrecorded: expected at most {most} frames, got {missing}"
            ));
        }
        crossed
    }

    /// Counts of all sinks.
    pub fn sent(&self) -> Counts {
        let counts = self.sinks.iter().map(|sink| sink.counts());
        counts.fold(Counts::default(), Counts::plus)
    }

    /// Counts and latencies so far.
    pub fn report(&self) -> SessionReport {
        let microseconds = |q: f64| match self.latency.is_empty() {
            true => 0.0,
            false => self.latency.value_at_quantile(q) as f64 / 1e3,
        };
        let mut source = self.first.ear.counts();
        for other in &self.others {
            let of = other.ear.counts();
            source.late += of.late;
            source.duplicates += of.duplicates;
            source.malformed += of.malformed;
            source.dropped_by_host += of.dropped_by_host;
            source.reconnects += of.reconnects;
        }
        SessionReport {
            input: (self.pipeline.as_ref())
                .map(|p| p.binner().counts())
                .unwrap_or_default(),
            notes: NoteCounts {
                malformed: self.notes.as_ref().map_or(0, Notes::malformed),
                ..self.note_counts
            },
            clock: self.clock(),
            learn: self.learner.as_ref().map(Learner::report),
            recalibrate: self.recalibrator.as_ref().map(Recalibrator::report),
            swapped: self.swapped,
            rolled_back: self.rolled_back,
            resumed: self.resumed,
            recorder: self.recorder.as_ref().map(Recorder::counts),
            unsent: self.sent().unsent,
            p50_us: microseconds(0.5),
            p99_us: microseconds(0.99),
            max_us: microseconds(1.0),
            source_late: source.late,
            source_duplicates: source.duplicates,
            source_malformed: source.malformed,
            source_dropped: source.dropped_by_host,
            source_reconnects: source.reconnects,
        }
    }
}
