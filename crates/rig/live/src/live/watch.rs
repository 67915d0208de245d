//! Events of a session that only its counts tell, for the log of its recording.

use betz_rigs::rig::host_ns;

use super::Live;
use super::sources::LiveSource;
use crate::learn::{LearnReport, Learner};
use crate::plan::Plan;
use crate::recalibrate::{RecalibrateReport, Recalibrator};
use crate::record::LogEvent;
use crate::shared_line::SharedLineWatch;

/// Time between two looks.
const EVERY: i64 = 100_000_000;
/// A source that has sent nothing for this long is silent.
const SILENT: i64 = 1_000_000_000;
/// Least time between two lines on the outputs that one sink could not send.
const UNSENT_EVERY: i64 = 10_000_000_000;
/// Share of the recorder's ring from which on the disk is slow.
const SLOW_DISK: f64 = 0.25;

/// The newest counts that were looked at.
#[derive(Default)]
pub(super) struct Watch {
    due: i64,
    /// The last look has been taken.
    is_over: bool,
    sources: Vec<WatchedSource>,
    sinks: Vec<WatchedSink>,
    labels: [u64; 3],
    learn: LearnReport,
    recalibrate: RecalibrateReport,
    is_slow: bool,
    is_apart: bool,
}

/// Unsent outputs of a sink that were told, and when more may be.
#[derive(Clone, Copy, Default)]
struct WatchedSink {
    unsent: u64,
    due: i64,
}

#[derive(Clone, Copy, Default)]
struct WatchedSource {
    is_silent: bool,
    has_failed: bool,
    is_off_pace: bool,
    counts: [u64; 3],
}

impl WatchedSource {
    fn look(
        &mut self,
        heard: &LiveSource,
        name: &str,
        now: i64,
        tell: &mut dyn FnMut(LogEvent<'_>),
    ) {
        let is_silent = heard
            .heard_ns
            .is_some_and(|at| now.saturating_sub(at) > SILENT);
        if is_silent != self.is_silent {
            self.is_silent = is_silent;
            tell(match is_silent {
                true => LogEvent::Silent { source: name },
                false => LogEvent::Back { source: name },
            });
        }
        if let (false, Some(error)) = (self.has_failed, &heard.failed) {
            self.has_failed = true;
            tell(LogEvent::Failed {
                source: name,
                error: error.message(),
            });
        }
        let measured = heard.measured_rate();
        if let (false, Some(measured)) = (self.is_off_pace, measured) {
            tell(LogEvent::Rate {
                source: name,
                declared: heard.ear.rate(),
                measured,
            });
        }
        self.is_off_pace = measured.is_some();
        let of = heard.ear.counts();
        let counts = [of.malformed, of.dropped_by_host, of.reconnects];
        if counts != self.counts {
            self.counts = counts;
            tell(LogEvent::Source {
                source: name,
                malformed: of.malformed,
                dropped_by_host: of.dropped_by_host,
                reconnects: of.reconnects,
            });
        }
    }
}

impl Watch {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            sources: vec![WatchedSource::default(); plan.source.len()],
            ..Self::default()
        }
    }

    fn look_at_trainer(&mut self, now: &LearnReport, tell: &mut dyn FnMut(LogEvent<'_>)) {
        let facts = |l: &LearnReport| (l.accepted, l.refused, l.rolled_back, l.unstored, l.dead);
        if facts(now) != facts(&self.learn) {
            tell(LogEvent::Trainer {
                accepted: now.accepted,
                refused: now.refused,
                rolled_back: now.rolled_back,
                unstored: now.unstored,
                dead: now.dead,
            });
        }
        self.learn = *now;
    }

    fn look_at_recalibration(
        &mut self,
        now: &RecalibrateReport,
        tell: &mut dyn FnMut(LogEvent<'_>),
    ) {
        let facts = |r: &RecalibrateReport| (r.suggested, r.applied, r.roll_back, r.dead);
        if facts(now) != facts(&self.recalibrate) {
            tell(LogEvent::Recalibration {
                suggested: now.suggested,
                applied: now.applied,
                roll_back: now.roll_back,
                dead: now.dead,
            });
        }
        self.recalibrate = *now;
    }
}

impl Live {
    /// Logs what has changed since the last look, due or not: at the end nobody looks again.
    pub(super) fn look_last(&mut self) {
        if !std::mem::replace(&mut self.watch.is_over, true) {
            self.watch.due = i64::MIN;
            self.look();
        }
    }

    /// Logs what has changed since the last look, if the session records and a look is due.
    pub(super) fn look(&mut self) {
        let now = host_ns();
        if now < self.watch.due || self.recorder.is_none() {
            return;
        }
        self.watch.due = now.saturating_add(EVERY);
        let step = self.open_step();
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let fill = recorder.fill();
        let mut tell = |event: LogEvent<'_>| recorder.event(step, &event, now);
        let watch = &mut self.watch;
        let heard = std::iter::once(&self.first).chain(&self.others);
        for ((of, heard), plan) in (watch.sources.iter_mut().zip(heard)).zip(&self.plan.source) {
            of.look(heard, &plan.name, now, &mut tell);
        }
        let learn = self.learner.as_ref().map(Learner::report);
        let (late, outliers) = learn.map_or((0, 0), |learn| (learn.late_labels, learn.outliers));
        let labels = [self.note_counts.odd_labels, late, outliers];
        if labels != watch.labels {
            watch.labels = labels;
            let [odd, late, outliers] = labels;
            tell(LogEvent::Labels {
                odd,
                late,
                outliers,
            });
        }
        if let Some(learn) = &learn {
            watch.look_at_trainer(learn, &mut tell);
        }
        if let Some(report) = self.recalibrator.as_ref().map(Recalibrator::report) {
            watch.look_at_recalibration(&report, &mut tell);
        }
        watch.sinks.resize(self.sinks.len(), WatchedSink::default());
        for (number, (sink, of)) in self.sinks.iter().zip(&mut watch.sinks).enumerate() {
            let unsent = sink.counts().unsent;
            if unsent != of.unsent && now >= of.due {
                *of = WatchedSink {
                    unsent,
                    due: now.saturating_add(UNSENT_EVERY),
                };
                let to = self.plan.outputs.to.get(number);
                tell(LogEvent::Unsent {
                    to: to.map_or("added by the program", String::as_str),
                    outputs: unsent,
                });
            }
        }
        if let Some(now) = self.shared_line.as_ref().map(SharedLineWatch::report)
            && now.is_beyond != watch.is_apart
        {
            watch.is_apart = now.is_beyond;
            tell(LogEvent::SharedLine {
                offset_us: now.offset_us.unwrap_or(0.0),
                error_us: now.error_us.unwrap_or(0.0),
                is_beyond: now.is_beyond,
            });
        }
        let is_slow = fill >= SLOW_DISK;
        if is_slow != watch.is_slow {
            watch.is_slow = is_slow;
            tell(LogEvent::SlowDisk { fill });
        }
    }
}
