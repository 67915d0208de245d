//! The suggestions of windows without labels, for people.

use betz_live::{Live, RecalibrateReport, Suggestion};

use crate::report::count;

/// News of the recalibration without labels.
#[derive(Default)]
pub(super) struct RecalibrationNews {
    /// The report of the last call.
    before: RecalibrateReport,
}

impl RecalibrationNews {
    /// Sentences about what happened since the last call.
    pub(super) fn take(&mut self, live: &Live) -> Vec<String> {
        match live.report().recalibrate {
            Some(now) => self.changes(now, live.suggestion().as_ref()),
            None => Vec::new(),
        }
    }

    fn changes(&mut self, now: RecalibrateReport, newest: Option<&Suggestion>) -> Vec<String> {
        let before = std::mem::replace(&mut self.before, now);
        let mut news = Vec::new();
        if now.windows != before.windows
            && let Some(newest) = newest
        {
            news.push(words(newest));
        }
        if now.applied != before.applied {
            news.push(match now.applied {
                true => "recalibration: the session was given the recalibrated model".into(),
                false => {
                    "recalibration: the session went back to the model as it was trained".into()
                }
            });
        }
        news
    }
}

/// A whole window in a sentence.
fn words(newest: &Suggestion) -> String {
    let found = &newest.found;
    if let Some(reason) = &newest.roll_back {
        return format!("recalibration: the model as it was trained is suggested; {reason}");
    }
    match &found.refusal {
        Some(refusal) => format!("recalibration: nothing is suggested; {refusal}"),
        None => format!(
            "recalibration: a recalibrated model is suggested; behaviour explains {:.0} % of the change of rates, {:.0} % are left, {}",
            100.0 * found.explained,
            100.0 * found.unexplained,
            count(found.odd.len() as u128, "odd channel")
        ),
    }
}

/// Counts for the report at the end.
pub(super) fn line(report: &RecalibrateReport) -> String {
    let dead = match report.dead {
        true => "; ITS THREAD HAS ENDED",
        false => "",
    };
    let state = match (report.applied, report.suggested) {
        (true, true) => "the recalibrated model decodes, and another one waits",
        (true, false) => "the recalibrated model decodes",
        (false, true) => "a recalibrated model waits: recalibrate.mode = \"apply\" gives it",
        (false, false) => "the model as it was trained decodes",
    };
    format!(
        "recalibration: {}, {}; {state}; unlike training {:.3} nats; {} not stored, {} lost{dead}",
        count(report.windows, "window"),
        count(report.suggestions, "suggestion"),
        report.unlike_training,
        count(report.unstored, "model"),
        count(report.lost_steps, "step"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_and_each_change_is_told_once() {
        let mut news = RecalibrationNews::default();
        let mut now = RecalibrateReport::default();
        assert!(news.changes(now, None).is_empty());
        now.applied = true;
        let told = news.changes(now, None);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("given the recalibrated model"));
        assert!(news.changes(now, None).is_empty());
        now.applied = false;
        assert!(news.changes(now, None)[0].contains("went back"));
    }

    #[test]
    fn the_report_says_what_decodes_and_what_waits() {
        let mut report = RecalibrateReport {
            windows: 1,
            ..RecalibrateReport::default()
        };
        assert!(line(&report).starts_with(
            "recalibration: 1 window, 0 suggestions; the model as it was trained decodes"
        ));
        report.suggested = true;
        assert!(line(&report).contains("waits"));
        report.dead = true;
        assert!(line(&report).ends_with("ITS THREAD HAS ENDED"));
    }
}
