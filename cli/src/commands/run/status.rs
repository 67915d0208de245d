//! State of a session for the page's status band.

use betz_live::record::Disk;
use betz_live::{Live, SessionReport, SourceHealth};
use betz_monitor::{
    ArrivalToOutput, LearningStatus, NoteStatus, RecalibrationStatus, RecordingStatus,
    SessionStatus, SourceStatus,
};

/// Returns the state of the session.
pub(super) fn of(live: &mut Live) -> SessionStatus {
    let lately = live.take_latency().map(|of| ArrivalToOutput {
        p50_us: of.p50_us,
        p99_us: of.p99_us,
        max_us: of.max_us,
    });
    let now = live.report();
    let folder = live.folder().map(|f| f.display().to_string());
    SessionStatus {
        recording: recording(folder, &now),
        learning: learning(&now),
        unlike_training: unlike_training(&now),
        recalibration: recalibration(&now),
        notes: (live.plan().labels.from.is_some()).then(|| notes(&now)),
        arrival_to_output: arrival_to_output(&now),
        arrival_lately: lately,
        without_data: now.input.stale,
        behind: now.input.behind,
        sources: live.sources().iter().map(source).collect(),
    }
}

fn arrival_to_output(now: &SessionReport) -> Option<ArrivalToOutput> {
    (now.max_us > 0.0).then_some(ArrivalToOutput {
        p50_us: now.p50_us,
        p99_us: now.p99_us,
        max_us: now.max_us,
    })
}

fn recording(folder: Option<String>, now: &SessionReport) -> Option<RecordingStatus> {
    let counts = now.recorder?;
    Some(RecordingStatus {
        folder: folder?,
        bytes: counts.written,
        unrecorded: counts.unrecorded,
        fill: counts.fill,
        full: counts.disk != Disk::Room,
    })
}

fn learning(now: &SessionReport) -> Option<LearningStatus> {
    now.learn.map(|l| LearningStatus {
        trials: l.trials,
        accepted: l.accepted,
        refused: l.refused,
        rolled_back: l.rolled_back,
        unstored: l.unstored,
        proposed: l.proposed,
        dead: l.dead,
    })
}

/// `None` before the first window is full.
fn unlike_training(now: &SessionReport) -> Option<f64> {
    let nats = now.recalibrate?.unlike_training;
    (nats != 0.0).then_some(nats)
}

fn recalibration(now: &SessionReport) -> Option<RecalibrationStatus> {
    now.recalibrate.map(|r| RecalibrationStatus {
        windows: r.windows,
        suggested: r.suggested,
        applied: r.applied,
        roll_back: r.roll_back,
        dead: r.dead,
    })
}

fn notes(now: &SessionReport) -> NoteStatus {
    let n = now.notes;
    NoteStatus {
        labels: n.labels,
        marks: n.marks,
        trials: n.trials,
        refused: n.odd_labels + n.malformed,
    }
}

fn source(health: &SourceHealth) -> SourceStatus {
    SourceStatus {
        name: health.name.clone(),
        lost: health.lost,
        at_least: health.at_least,
        bound_us: health.silent_ms.map(|_| health.bound_us),
        silent_ms: health.silent_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_recorded_or_learned_unless_the_session_counts_it() {
        let mut now = SessionReport::default();
        assert_eq!(recording(None, &now), None);
        assert_eq!(learning(&now), None);
        assert_eq!(recalibration(&now), None);
        assert_eq!(arrival_to_output(&now), None);
        (now.p50_us, now.p99_us, now.max_us) = (180.0, 260.0, 900.0);
        assert_eq!(arrival_to_output(&now).map(|t| t.p99_us), Some(260.0));
        now.recalibrate.insert(Default::default()).suggested = true;
        assert!(recalibration(&now).unwrap().suggested);
        assert_eq!(unlike_training(&now), None);
        now.recalibrate.insert(Default::default()).unlike_training = 0.25;
        assert_eq!(unlike_training(&now), Some(0.25));
        let counts = now.recorder.insert(Default::default());
        (counts.written, counts.unrecorded) = (12, 3);
        (counts.fill, counts.disk) = (0.5, Disk::KeepsSmall);
        let told = recording(Some("a".into()), &now).unwrap();
        assert_eq!((told.bytes, told.unrecorded), (12, 3));
        assert!(told.fill == 0.5 && told.full);
        now.learn.insert(Default::default()).dead = true;
        assert!(learning(&now).is_some_and(|l| l.dead));
        now.notes.labels = 7;
        (now.notes.odd_labels, now.notes.malformed) = (1, 2);
        assert_eq!((notes(&now).labels, notes(&now).refused), (7, 3));
    }

    #[test]
    fn the_clock_of_a_source_is_not_known_before_its_first_block() {
        let mut health = SourceHealth {
            name: "array".into(),
            lost: 5,
            at_least: true,
            lost_share: 0.1,
            stale: 0,
            failed: None,
            measured_rate: None,
            drift_ppm: 0.0,
            edges: 0,
            edges_lost: 0,
            bound_us: 0.0,
            path_us: None,
            epochs: 0,
            silent_ms: None,
            reconnects: 0,
            malformed: 0,
            dropped_by_host: 0,
        };
        assert_eq!(source(&health).bound_us, None);
        (health.bound_us, health.silent_ms) = (40.0, Some(2.0));
        let told = source(&health);
        assert_eq!((told.bound_us, told.silent_ms), (Some(40.0), Some(2.0)));
        assert_eq!((told.lost, told.at_least), (5, true));
    }
}
