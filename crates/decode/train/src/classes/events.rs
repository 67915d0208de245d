//! Rules of events: the earliest ones that keep a rate of false alarms.

use super::scores::{EventScores, Predictions};
use betz_base::error::Result;
use betz_runtime::model::EventRule;

/// Largest share of onsets that a rule may miss.
const MISSED: f64 = 0.05;
/// Seconds of latency that missing every onset would be worth.
const SECONDS_PER_MISS: f64 = 2.0;
const REFRACTORY_SECONDS: f64 = 0.5;
const THRESHOLDS: usize = 31;
const DWELLS: u32 = 3;

/// The rule for `class` with the least mean latency among those with at most `false_alarms` per minute and few missed
/// onsets, and its scores; `None` if there is none, or no onset.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
pub(super) fn choose_rule(
    judged: Predictions<'_>,
    class: usize,
    false_alarms: f64,
) -> Result<Option<(EventRule, EventScores)>> {
    let onsets = judged.onsets(class);
    if onsets.len() == 0 {
        return Ok(None);
    }
    let mut best: Option<(f64, EventRule, EventScores)> = None;
    for dwell in 1..=DWELLS {
        for i in 0..THRESHOLDS {
            let on = 0.05 + 0.9 * i as f32 / (THRESHOLDS - 1) as f32;
            let rule = EventRule {
                on,
                off: on / 2.0,
                dwell,
                refractory_seconds: REFRACTORY_SECONDS,
            };
            let scores = judged.event_scores(class, rule, &onsets)?;
            let loss = scores.latency + SECONDS_PER_MISS * scores.missed;
            let keeps = scores.false_alarms_per_minute <= false_alarms && scores.missed <= MISSED;
            if keeps && best.is_none_or(|(least, ..)| loss < least) {
                best = Some((loss, rule, scores));
            }
        }
    }
    Ok(best.map(|(_, rule, scores)| (rule, scores)))
}
