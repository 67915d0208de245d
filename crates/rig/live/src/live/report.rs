//! Counts, latencies and limits of a session.

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::bus::Counts;
use hdrhistogram::Histogram;

use super::Live;
use crate::health::{SessionReport, SinkHealth};
use crate::learn::Learner;
use crate::notes::{NoteCounts, Notes};
use crate::recalibrate::Recalibrator;
use crate::record::Recorder;
use crate::shared_line::SharedLineWatch;

/// Longest latency that is told apart, in nanoseconds.
const LONGEST: u64 = 10_000_000_000;

/// Time from the arrival of a step's last data to the hand-over of its outputs, over some steps, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LatencySpan {
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// The longest, exactly.
    pub max_us: f64,
}

/// Steps by that time.
pub(super) struct LatencyHistogram {
    counts: Histogram<u64>,
    longest_ns: u64,
}

impl LatencyHistogram {
    fn new() -> Result<Self> {
        let counts = Histogram::new_with_bounds(1, LONGEST, 3);
        Ok(Self {
            counts: counts
                .map_err(|e| Error::new(ErrorKind::Internal, format!("histogram: {e}")))?,
            longest_ns: 0,
        })
    }

    fn record(&mut self, nanoseconds: u64) {
        self.counts.saturating_record(nanoseconds);
        self.longest_ns = self.longest_ns.max(nanoseconds);
    }

    /// `None` without steps.
    fn span(&self) -> Option<LatencySpan> {
        let us = |q: f64| self.counts.value_at_quantile(q).min(self.longest_ns) as f64 / 1e3;
        (!self.counts.is_empty()).then(|| LatencySpan {
            p50_us: us(0.5),
            p99_us: us(0.99),
            max_us: self.longest_ns as f64 / 1e3,
        })
    }
}

/// The start of a session: its pipeline and its recording are opened, and then the steps are made whose data have waited for that.
/// They are no part of the latencies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StartUp {
    /// Time that opening took, and when it was over.
    opening_ns: i64,
    opened_ns: i64,
    /// True while data may wait that arrived before the loop had caught up.
    lasts: bool,
    steps: u64,
    longest_ns: u64,
}

impl StartUp {
    /// The start-up of a session that was opened between two host times.
    pub(super) fn new(started_ns: i64, opened_ns: i64) -> Self {
        Self {
            opening_ns: opened_ns - started_ns,
            opened_ns,
            lasts: true,
            ..Self::default()
        }
    }

    /// Ends it: nothing waits for the loop any more.
    pub(super) fn end(&mut self) {
        self.lasts = false;
    }

    /// True for a step whose last data arrived before the loop had caught up. A loop that has not after as much time as the opening
    /// took is slow, and its latencies count.
    pub(super) fn is_of(&self, arrived_ns: i64) -> bool {
        arrived_ns < self.opened_ns
            || (self.lasts && arrived_ns < self.opened_ns.saturating_add(self.opening_ns))
    }

    pub(super) fn record(&mut self, nanoseconds: u64) {
        self.steps += 1;
        self.longest_ns = self.longest_ns.max(nanoseconds);
    }
}

/// Latencies of the whole session, and of the steps since they were last taken.
pub(super) struct LatencyCounts {
    whole: LatencyHistogram,
    recent: LatencyHistogram,
}

impl LatencyCounts {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            whole: LatencyHistogram::new()?,
            recent: LatencyHistogram::new()?,
        })
    }

    pub(super) fn record(&mut self, nanoseconds: u64) {
        self.whole.record(nanoseconds);
        self.recent.record(nanoseconds);
    }
}

impl Live {
    /// Latencies of the steps since the last call; `None` if there were none.
    pub fn take_latency(&mut self) -> Option<LatencySpan> {
        let recent = &mut self.latency.recent;
        let span = recent.span();
        recent.counts.reset();
        recent.longest_ns = 0;
        span
    }

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
        let unsent = (self.sink_health().into_iter())
            .map(|sink| (share(sink.unsent, sink.sent + sink.unsent), sink.to))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((got, to)) = unsent
            && got > limits.unsent
        {
            let most = limits.unsent;
            crossed.push(format!(
                "limits.unsent: expected a share of at most {most}, got {got:.6} to {to}"
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

    /// Counts of each sink: those of the plan in their order, and those that were added.
    pub fn sink_health(&self) -> Vec<SinkHealth> {
        let to = &self.plan.outputs.to;
        (self.sinks.iter().enumerate())
            .map(|(number, sink)| {
                let counts = sink.counts();
                SinkHealth {
                    to: (to.get(number).cloned()).unwrap_or_else(|| format!("sink {number}")),
                    sent: counts.steps,
                    unsent: counts.unsent,
                    reconnects: counts.reconnects,
                }
            })
            .collect()
    }

    /// R² of each output against the labels that were received for its steps; empty before two of them differ.
    pub fn label_r2(&self) -> Vec<f64> {
        self.score.r2()
    }

    /// Counts and latencies so far.
    pub fn report(&self) -> SessionReport {
        let latency = self.latency.whole.span().unwrap_or_default();
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
            shared_line: self.shared_line.as_ref().map(SharedLineWatch::report),
            learn: self.learner.as_ref().map(Learner::report),
            recalibrate: self.recalibrator.as_ref().map(Recalibrator::report),
            swapped: self.swapped,
            rolled_back: self.rolled_back,
            resumed: self.resumed,
            recorder: self.recorder.as_ref().map(Recorder::counts),
            unsent: (self.sinks.iter().map(|sink| sink.counts().unsent))
                .max()
                .unwrap_or(0),
            startup_ms: self.startup.opening_ns as f64 / 1e6,
            startup_steps: self.startup.steps,
            startup_max_us: self.startup.longest_ns as f64 / 1e3,
            p50_us: latency.p50_us,
            p99_us: latency.p99_us,
            max_us: latency.max_us,
            source_late: source.late,
            source_duplicates: source.duplicates,
            source_malformed: source.malformed,
            source_dropped: source.dropped_by_host,
            source_reconnects: source.reconnects,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_start_up_lasts_until_the_loop_has_caught_up_and_no_longer_than_twice_the_opening() {
        let none = StartUp::default();
        assert!(!none.is_of(0) && !none.is_of(5));
        let mut startup = StartUp::new(1_000, 1_400);
        for (arrived, is_of, is_of_caught_up) in [
            (1_000, true, true),
            (1_399, true, true),
            (1_400, true, false),
            (1_799, true, false),
            (1_800, false, false),
        ] {
            assert_eq!(startup.is_of(arrived), is_of, "{arrived}");
            let mut caught_up = startup;
            caught_up.end();
            assert_eq!(caught_up.is_of(arrived), is_of_caught_up, "{arrived}");
        }
        startup.record(300);
        startup.record(200);
        assert_eq!((startup.steps, startup.longest_ns), (2, 300));
    }

    #[test]
    fn the_latency_of_a_part_is_that_of_its_steps_and_the_longest_is_exact() {
        let mut counts = LatencyCounts::new().unwrap();
        assert_eq!(counts.recent.span(), None);
        (1..=1_000).for_each(|k| counts.record(k * 1_000));
        counts.record(7_654_321);
        let first = counts.recent.span().unwrap();
        assert_eq!(first.max_us, 7_654.321);
        assert!(
            (first.p50_us - 501.0).abs() < 1.0 && (first.p99_us - 991.0).abs() < 1.5,
            "{first:?}"
        );
        counts.recent = LatencyHistogram::new().unwrap();
        counts.record(5_000);
        assert_eq!(counts.recent.span().unwrap().max_us, 5.0);
        assert_eq!(counts.whole.span().unwrap().max_us, 7_654.321);
    }
}
