//! Labels, marks, targets and trials that a session receives, for its page.

use betz::Result;
use betz_live::{Live, NoteContent};
use betz_monitor::{Label, Monitor};
use serde_json::json;

/// First word of a mark that moves the target.
const TARGET: &str = "target";

/// The place of a mark such as `target 0.3 -0.2`; empty for `target` alone, `None` for any other text.
fn target_of(text: &str) -> Option<Vec<f32>> {
    let mut words = text.split_whitespace();
    (words.next()? == TARGET).then_some(())?;
    words.map(|word| word.parse().ok()).collect()
}

/// The tick of the newest step: steps are counted from the session's start, ticks by its clock.
pub(super) fn newest_tick(live: &mut Live) -> Option<i64> {
    let pipeline = live.pipeline_mut()?;
    Some(pipeline.session_mut().tick() - 1)
}

/// Shows the notes that arrived since the last call; `newest` is the number of the newest step. Labels are left out if
/// the page already has the truth.
pub(super) fn show(live: &mut Live, page: &Monitor, newest: u64, has_truth: bool) -> Result<()> {
    let notes = live.take_notes_to_show();
    let delay = live.model().delay_steps().max(0);
    let Some(begin) = newest_tick(live).map(|tick| tick - newest as i64) else {
        return Ok(());
    };
    let mut labels = Vec::new();
    for (step, content) in notes {
        let tick = begin + step as i64;
        match content {
            NoteContent::Label(values) => labels.push(Label {
                tick: tick + delay,
                values,
            }),
            NoteContent::Mark(text) => match target_of(&text) {
                // A target of another number of outputs is no target: the page shows its text.
                Some(values) if page.target(Some(tick), &values).is_ok() => {}
                _ => page.event("control", json!({"what": "mark", "text": text, "at": tick})),
            },
            NoteContent::TrialBegin => page.event("trial", json!({"at": tick})),
            NoteContent::TrialEnd | NoteContent::TrialReject => {}
        }
    }
    if !has_truth {
        page.labels(&labels)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_moves_the_target_if_it_says_where_to() {
        assert_eq!(target_of("target 0.3 -2"), Some(vec![0.3, -2.0]));
        assert_eq!(target_of(" target\t1e-2"), Some(vec![0.01]));
        assert_eq!(target_of("target"), Some(Vec::new()));
        for other in ["", "half", "targets 1 2", "target left", "the target 1 2"] {
            assert_eq!(target_of(other), None, "{other}");
        }
    }
}
