//! `/metrics`: the counters in Prometheus' format.

use std::fmt::Write as _;

use crate::hub::{BOUNDS_NS, HubState};

/// Counters of the server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServerCounts {
    pub(crate) viewers: usize,
    pub(crate) frames_skipped: u64,
}

/// Text of the metrics: `# HELP`, `# TYPE`, samples.
pub(crate) fn text(seen: &HubState, served: ServerCounts, checksum: &str) -> String {
    let mut out = String::with_capacity(4096);
    singles(&mut out, seen, served);
    labelled(&mut out, seen, checksum);
    step_seconds(&mut out, seen);
    out
}

/// Begins a metric: its help and its type.
fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Metrics of one value each.
fn singles(out: &mut String, seen: &HubState, served: ServerCounts) {
    let totals = &seen.totals;
    #[rustfmt::skip]
    let all = [
        ("betz_steps_total", "counter", "Steps taken.", totals.steps),
        ("betz_spikes_total", "counter", "Spikes taken.", totals.spikes),
        ("betz_deadline_misses_total", "counter", "Steps over the deadline.", totals.misses),
        ("betz_model_swaps_total", "counter", "Models that have taken over.", totals.swaps),
        ("betz_trials_total", "counter", "Trials begun.", seen.trials),
        ("betz_monitor_steps_not_shown_total", "counter", "Steps that never reached the page.", totals.steps_not_shown),
        ("betz_monitor_frames_skipped_total", "counter", "Frames that a viewer was too slow for.", served.frames_skipped),
        ("betz_monitor_viewers", "gauge", "Pages that watch.", served.viewers as u64),
        ("betz_monitor_history_bytes", "gauge", "Bytes of the last minute's frames, at most 256 MiB.", seen.history.bytes() as u64),
        ("betz_monitor_session_bytes", "gauge", "Bytes of the session's history by second and minute.", seen.session.bytes() as u64),
        ("betz_monitor_moments_bytes", "gauge", "Bytes of the frames around missed deadlines, at most 64 MiB.", seen.moments.bytes() as u64),
    ];
    for (name, kind, help, value) in all {
        head(out, name, kind, help);
        let _ = writeln!(out, "{name} {value}");
    }
}

/// Metrics of one value per label.
fn labelled(out: &mut String, seen: &HubState, checksum: &str) {
    let totals = &seen.totals;
    let silent = seen.rates.iter().filter(|&&r| r == 0.0).count();
    let states = [("active", seen.rates.len() - silent), ("silent", silent)];
    let help = "Channels with and without a spike in the last second.";
    head(out, "betz_channel_state", "gauge", help);
    for (state, n) in states {
        let _ = writeln!(out, "betz_channel_state{{state=\"{state}\"}} {n}");
    }
    let help = "Spikes that the decoder did not see in time, by reason.";
    head(out, "betz_spikes_dropped_total", "counter", help);
    for (why, n) in [
        ("queue", totals.dropped),
        ("late", totals.late),
        ("unknown_channel", totals.unknown),
    ] {
        let _ = writeln!(out, "betz_spikes_dropped_total{{why=\"{why}\"}} {n}");
    }
    let help = "The model that gives the estimates.";
    head(out, "betz_model_info", "gauge", help);
    let _ = writeln!(out, "betz_model_info{{checksum=\"{checksum}\"}} 1");
}

/// The histogram of the steps' latencies.
fn step_seconds(out: &mut String, seen: &HubState) {
    const NAME: &str = "betz_step_seconds";
    head(out, NAME, "histogram", "How long a step takes.");
    let mut steps = 0;
    for (&bound, n) in BOUNDS_NS.iter().zip(seen.latency) {
        steps += n;
        let seconds = f64::from(bound) / 1e9;
        let _ = writeln!(out, "{NAME}_bucket{{le=\"{seconds:e}\"}} {steps}");
    }
    steps += seen.latency[BOUNDS_NS.len()];
    let sum = seen.latency_sum_ns as f64 * 1e-9;
    let _ = writeln!(
        out,
        "{NAME}_bucket{{le=\"+Inf\"}} {steps}\n{NAME}_sum {sum:e}\n{NAME}_count {steps}"
    );
}

/// Largest number of episodes with counts in the metrics, because each label is a time series of its own.
const EPISODES: usize = 100;

/// Writes the counts of the first [`EPISODES`] episodes of a session's list.
pub(crate) fn episodes(out: &mut String, counts: &[u64]) {
    let help = "Occurrences of an episode, by its place in the list.";
    head(out, "betz_episode_count", "counter", help);
    for (id, n) in counts.iter().take(EPISODES).enumerate() {
        let _ = writeln!(out, "betz_episode_count{{id=\"{id}\"}} {n}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_a_hundred_episodes_are_told() {
        let mut text = String::new();
        episodes(&mut text, &(0..1000).collect::<Vec<_>>());
        assert_eq!(text.lines().filter(|l| !l.starts_with('#')).count(), 100);
        assert!(text.ends_with("betz_episode_count{id=\"99\"} 99\n"));
    }

    #[test]
    fn buckets_are_cumulative_and_every_sample_has_a_type() {
        let mut seen = HubState::new(4, 100, 10);
        seen.latency[0] = 3;
        seen.latency[5] = 2;
        seen.latency[16] = 1;
        seen.latency_sum_ns = 12_345;
        seen.rates[1] = 4.0;
        seen.totals.late = 9;
        let text = text(
            &seen,
            ServerCounts {
                viewers: 2,
                frames_skipped: 5,
            },
            "ab",
        );
        for line in [
            "betz_step_seconds_bucket{le=\"1e-7\"} 3",
            "betz_step_seconds_bucket{le=\"1e-2\"} 5",
            "betz_step_seconds_bucket{le=\"+Inf\"} 6",
            "betz_step_seconds_count 6",
            "betz_spikes_dropped_total{why=\"late\"} 9",
            "betz_channel_state{state=\"silent\"} 3",
            "betz_monitor_viewers 2",
            "betz_monitor_frames_skipped_total 5",
            "betz_model_info{checksum=\"ab\"} 1",
        ] {
            assert!(
                text.lines().any(|l| l == line),
                "{line} is missing in\n{text}"
            );
        }
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|s| name.strip_suffix(s));
            let typed = |n: &str| text.contains(&format!("# TYPE {n} "));
            assert!(typed(name) || family.is_some_and(typed), "{line}");
        }
    }
}
