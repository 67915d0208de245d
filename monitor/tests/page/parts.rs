//! Numbers of a range, overviews and trials: answers agree with plain loops over the original recording.

use betz_monitor::frame::{Frame, Section};
use betz_monitor::{Contents, DecodedRecording, Monitor, Options, Source, SpikeTimes};
use betz_recording::labels::LabelledInterval;
use betz_recording::{OutputInfo, Recording, Segment, SpikeForm, Spikes};
use betz_testkit::Random;
use serde_json::Value;

use crate::common::bytes;

const TICK: f64 = 1e-5;
const STEP: f64 = 0.005;
const PER_STEP: i64 = 500;
const CHANNELS: usize = 3;
const SEGMENTS: [[i64; 2]; 3] = [[70_123, 330_077], [400_011, 690_000], [700_333, 990_000]];
const DELAY: i64 = 2;
/// The first is too close to the beginning for a window of half a second.
const LABELS: [(f64, &str); 4] = [
    (0.2, "go"),
    (2.000_01, "rest"),
    (5.5, "go"),
    (8.123_45, "go"),
];
/// Steps between the first two segments.
const LEFT_OUT: std::ops::Range<i64> = 661..800;

/// Ten seconds in ticks of 10 µs.
fn original() -> Recording {
    let mut random = Random::new(7);
    let mut all: Vec<(i64, u32)> = (0..3_000)
        .map(|_| {
            (
                random.below(1_000_000) as i64,
                random.below(CHANNELS) as u32,
            )
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    // The recording has no spikes in the part that is left out.
    all.retain(|(t, _)| !LEFT_OUT.contains(&(t / PER_STEP)));
    let (ticks, channels) = all.into_iter().unzip();
    Recording {
        tick_seconds: TICK,
        ticks: 1_000_000,
        spikes: Spikes::new(ticks, channels),
        channel_names: (0..CHANNELS).map(|c| format!("ch{c}")).collect(),
        behavior: None,
        segments: SEGMENTS
            .map(|[start, stop]| Segment { start, stop })
            .to_vec(),
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    }
}

fn truth(step: i64) -> f32 {
    (step as f32 * 0.01).sin()
}

fn estimate(step: i64) -> f32 {
    truth(step - DELAY) + 0.3 * (step as f32 * 1.7).cos()
}

/// The recording in steps of 5 ms, with an output; 0.7 s between two segments are left out.
fn open() -> (Recording, Monitor, Vec<Segment>) {
    let recording = original();
    let mut dataset = recording.clone().align(STEP).unwrap();
    let steps = dataset.steps as i64;
    dataset.outputs = vec![OutputInfo::from("x")];
    dataset.behavior = (0..steps).map(truth).collect();
    let times = SpikeTimes::new(&dataset, &recording.spikes, &recording.segments, TICK).unwrap();
    let segments = dataset.segments.clone();
    let decoded = DecodedRecording {
        source: Source {
            name: "a test".into(),
            channel_names: dataset.channel_names.clone(),
            electrode_um: None,
            outputs: dataset.outputs.clone(),
            step_seconds: STEP,
            speed: 1.0,
            deadline: None,
            model: None,
        },
        estimates: (0..steps).map(estimate).collect(),
        probabilities: Vec::new(),
        delay_steps: DELAY,
        times,
        left_out: vec![Segment {
            start: LEFT_OUT.start,
            stop: LEFT_OUT.end,
        }],
        dataset,
    };
    let label = |(start, name): (f64, &str)| LabelledInterval {
        start,
        stop: start + 0.1,
        name: name.into(),
    };
    let shown = Contents {
        recordings: vec![decoded],
        labels: LABELS.map(label).to_vec(),
        ..Contents::default()
    };
    let monitor = Monitor::open(shown, Options::default()).unwrap();
    (recording, monitor, segments)
}

fn json(monitor: &Monitor, path: &str) -> Value {
    serde_json::from_slice(&bytes(monitor, path).unwrap()).unwrap()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

/// True if the truth of a step is known: it lies in a segment.
fn known(segments: &[Segment], step: i64) -> bool {
    let meant = step - DELAY;
    segments.iter().any(|s| (s.start..s.stop).contains(&meant))
}

/// 1 − residual / total over (estimate, truth), in two passes.
fn r2(rows: &[(f64, f64)]) -> f64 {
    let mean = rows.iter().map(|r| r.1).sum::<f64>() / rows.len() as f64;
    let left: f64 = rows.iter().map(|(e, t)| (e - t).powi(2)).sum();
    let around: f64 = rows.iter().map(|r| (r.1 - mean).powi(2)).sum();
    1.0 - left / around
}

#[test]
fn a_range_has_the_rates_fano_factors_and_accuracy_of_plain_loops() {
    let (recording, monitor, segments) = open();
    for (from, to) in [(0.0, 10.0), (1.234_56, 4.5), (3.0, 3.25), (4.1, 9.999)] {
        let found = json(&monitor, &format!("/api/range?from={from}&to={to}"));
        let ticks: Vec<i64> = (0..recording.ticks)
            .filter(|t| *t as f64 * TICK >= from - 1e-9 && (*t as f64 * TICK) < to - 1e-9)
            .collect();
        let known_ticks = ticks
            .iter()
            .filter(|t| !LEFT_OUT.contains(&(**t / PER_STEP)));
        let seconds = known_ticks.count() as f64 * TICK;
        assert!(near(found["seconds"].as_f64().unwrap(), seconds), "{found}");
        let inside = |t: i64| t >= ticks[0] && t <= ticks[ticks.len() - 1];
        for channel in 0..CHANNELS {
            let all = recording
                .spikes
                .ticks
                .iter()
                .zip(&recording.spikes.channels);
            let own: Vec<i64> = all
                .filter(|(t, c)| **c as usize == channel && inside(**t))
                .map(|(t, _)| *t)
                .collect();
            assert_eq!(found["spikes"][channel].as_f64().unwrap(), own.len() as f64);
            let rate = found["rate"][channel].as_f64().unwrap();
            assert!(near(rate, own.len() as f64 / seconds));
            // Windows of 0.1 s that follow each other in the part of each segment that is in the range.
            let mut counts = Vec::new();
            for [start, stop] in SEGMENTS {
                let mut at = start.max(ticks[0]);
                while at + 10_000 <= stop.min(ticks[ticks.len() - 1] + 1) {
                    counts.push(
                        own.iter()
                            .filter(|t| (at..at + 10_000).contains(*t))
                            .count() as f64,
                    );
                    at += 10_000;
                }
            }
            let n = counts.len() as f64;
            let mean = counts.iter().sum::<f64>() / n;
            let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / n;
            let fano = found["fano"][channel].as_f64().unwrap_or(f64::NAN);
            assert!(near(fano, variance / mean), "{fano} {}", variance / mean);
        }
        let rows: Vec<(f64, f64)> = (0..2_000)
            .filter(|k| {
                let at = *k as f64 * STEP;
                at >= from - 1e-9 && at < to - 1e-9 && known(&segments, *k)
            })
            .map(|k| (f64::from(estimate(k)), f64::from(truth(k - DELAY))))
            .collect();
        let output = &found["outputs"][0];
        assert_eq!(output["steps"], rows.len());
        assert!(near(output["r2"].as_f64().unwrap(), r2(&rows)));
        let square: f64 = rows.iter().map(|(e, t)| (e - t).powi(2)).sum();
        assert!(near(
            output["rmse"].as_f64().unwrap(),
            (square / rows.len() as f64).sqrt()
        ));
    }
    assert_eq!(bytes(&monitor, "/api/range?from=5&to=5"), None);
    assert_eq!(bytes(&monitor, "/api/range?from=NaN&to=5"), None);
    assert_eq!(bytes(&monitor, "/api/range?source=1&from=0&to=5"), None);
}

#[test]
fn an_overview_counts_every_spike_in_its_cell() {
    let (recording, monitor, segments) = open();
    for (from, to, cell, first, last, rows) in [
        (0, 2_000, 10, 0, 3, 3),
        (333, 1_500, 7, 1, 3, 1),
        (0, 2_000, 400, 0, 9, 2),
    ] {
        let path = format!(
            "/api/overview?from={from}&to={to}&cell={cell}&first={first}&last={last}&rows={rows}"
        );
        let body = bytes(&monitor, &path).unwrap();
        let (frame, _) = Frame::read(&body).unwrap();
        let density: Vec<u32> = frame.u32(Section::DENSITY).collect();
        let (head, counts) = density.split_at(5);
        let last = last.min(CHANNELS as i64);
        let begin = from / cell * cell;
        let columns = (to - begin + cell - 1) / cell;
        assert_eq!(
            head,
            [
                first as u32,
                last as u32,
                rows as u32,
                columns as u32,
                cell as u32
            ]
        );
        let mut expected = vec![0; (columns * rows) as usize];
        for (t, c) in recording
            .spikes
            .ticks
            .iter()
            .zip(&recording.spikes.channels)
        {
            let (step, channel) = (t / PER_STEP, i64::from(*c));
            if step >= begin && step < begin + columns * cell && channel >= first && channel < last
            {
                expected[((step - begin) / cell * rows + (channel - first) * rows / (last - first))
                    as usize] += 1;
            }
        }
        assert_eq!(counts, expected);
        let estimates: Vec<f32> = frame.f32(Section::ESTIMATE).collect();
        let truths: Vec<f32> = frame.f32(Section::TRUTH).collect();
        for column in 0..columns {
            let at: Vec<i64> = (begin + column * cell..begin + (column + 1) * cell)
                .filter(|k| *k < 2_000)
                .collect();
            let low = at.iter().map(|k| estimate(*k)).fold(f32::NAN, f32::min);
            let high = at.iter().map(|k| estimate(*k)).fold(f32::NAN, f32::max);
            assert_eq!(estimates[2 * column as usize..][..2], [low, high]);
            let own = at
                .iter()
                .filter(|k| known(&segments, **k))
                .map(|k| truth(*k - DELAY));
            let high = own.fold(f32::NAN, f32::max);
            assert_eq!(truths[2 * column as usize + 1].to_bits(), high.to_bits());
        }
    }
    for wrong in ["cell=0&rows=3", "cell=-1&rows=3", "cell=5&rows=0"] {
        let path = format!("/api/overview?from=0&to=100&first=0&last=3&{wrong}");
        assert_eq!(bytes(&monitor, &path), None, "{wrong}");
    }
}

#[test]
fn trials_are_those_of_plain_loops_at_true_times() {
    let (recording, monitor, segments) = open();
    for (align, events) in [
        ("starts", SEGMENTS.map(|s| s[0])),
        ("stops", SEGMENTS.map(|s| s[1])),
    ] {
        let path =
            format!("/api/trials?align={align}&from=-0.5&to=0.5&bin=0.05&channel=1&output=0");
        let body = bytes(&monitor, &path).unwrap();
        let (frame, _) = Frame::read(&body).unwrap();
        let event = frame.section(Section::EVENT, 1);
        let told: Value = serde_json::from_slice(event).unwrap();
        // The last stop is 0.1 s before the end: its window reaches beyond the recording.
        let used: Vec<(i64, [i64; 2])> = events
            .into_iter()
            .zip(SEGMENTS)
            .filter(|(t, _)| t + 50_000 <= 1_000_000)
            .collect();
        assert_eq!(told["trials"].as_array().unwrap().len(), used.len());
        assert_eq!(told["left_out"], 3 - used.len());
        assert_spikes_of_trials(&recording, &frame, &told, &used);
        assert_outputs_of_trials(&segments, &frame, &told, &used);
    }
    for wrong in [
        "align=cues",
        "align=marks",
        "align=starts&channel=3",
        "align=starts&output=1",
        "align=labels&label=2",
    ] {
        let path = format!("/api/trials?from=-0.5&to=0.5&bin=0.05&{wrong}");
        assert_eq!(bytes(&monitor, &path), None, "{wrong}");
    }
}

/// Channel 1 of windows of half a second on both sides of each event, inside the event's own trial.
fn assert_spikes_of_trials(
    recording: &Recording,
    frame: &Frame<'_>,
    told: &Value,
    events: &[(i64, [i64; 2])],
) {
    let spikes = &recording.spikes;
    let counted = |from: i64, to: i64| {
        let all = spikes.ticks.iter().zip(&spikes.channels);
        let own = all.filter(|(at, c)| **c == 1 && (from..to).contains(*at));
        own.map(|(at, _)| *at).collect::<Vec<i64>>()
    };
    let rows: Vec<u32> = frame.u32(Section::EVENT_ROW).collect();
    let seconds: Vec<f32> = frame.f32(Section::EVENT_SECONDS).collect();
    let mut expected = Vec::new();
    for (k, (t, own)) in events.iter().enumerate() {
        let trial = &told["trials"][k];
        assert!(near(trial["seconds"].as_f64().unwrap(), *t as f64 * TICK));
        let (from, to) = ((t - 50_000).max(own[0]), (t + 50_000).min(own[1]));
        for (edge, tick) in [from, to].into_iter().enumerate() {
            let at = trial["inside"][edge].as_f64().unwrap();
            assert!((at - (tick - t) as f64 * TICK).abs() < 1e-9, "{at}");
        }
        let inside = counted(from, to);
        assert_eq!(trial["spikes"], inside.len() as f64);
        let after = inside.iter().map(|at| ((at - t) as f64 * TICK) as f32);
        expected.extend(after.map(|after| (k as u32, after)));
    }
    let found: Vec<(u32, f32)> = rows.into_iter().zip(seconds).collect();
    assert_eq!(found, expected);
    // A bin has the events whose trial covers all of it.
    let mut common: Vec<usize> = Vec::new();
    for bin in 0..20 {
        let edges = |t: i64| (t - 50_000 + bin * 5_000, t - 45_000 + bin * 5_000);
        let whole = |e: &&(i64, [i64; 2])| edges(e.0).0 >= e.1[0] && edges(e.0).1 <= e.1[1];
        let with: Vec<_> = events.iter().filter(whole).collect();
        assert_eq!(told["events"][bin as usize], with.len());
        if with.len() == events.len() {
            common.push(bin as usize);
        }
        let n: usize = with
            .iter()
            .map(|e| counted(edges(e.0).0, edges(e.0).1).len())
            .sum();
        match told["mean"][bin as usize].as_f64() {
            Some(mean) => assert!(near(mean, n as f64 / (with.len() as f64 * 0.05))),
            None => assert!(with.is_empty()),
        }
    }
    let (first, end) = (common[0], common[common.len() - 1] + 1);
    assert_eq!(told["fano_bins"], serde_json::json!([first, end]));
    let window = |t: i64, bin: usize| t - 50_000 + bin as i64 * 5_000;
    let counts = events
        .iter()
        .map(|(t, _)| counted(window(*t, first), window(*t, end)).len() as f64);
    let counts: Vec<f64> = counts.collect();
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / counts.len() as f64;
    let fano = told["fano"].as_f64().unwrap();
    assert!(
        (fano - variance / mean).abs() < 1e-9,
        "{fano} {}",
        variance / mean
    );
}

/// Output 0 of the same windows: 200 steps, from the step nearest to the event on; none outside the event's own trial.
fn assert_outputs_of_trials(
    segments: &[Segment],
    frame: &Frame<'_>,
    told: &Value,
    events: &[(i64, [i64; 2])],
) {
    let estimates: Vec<f32> = frame.f32(Section::ESTIMATE).collect();
    let truths: Vec<f32> = frame.f32(Section::TRUTH).collect();
    assert_eq!(
        (estimates.len(), truths.len()),
        (200 * events.len(), 200 * events.len())
    );
    let nearest = |tick: i64| (tick as f64 / PER_STEP as f64).round() as i64;
    for (k, (t, own)) in events.iter().enumerate() {
        let first = nearest(*t) - 100;
        let begin = told["trials"][k]["begin"].as_f64().unwrap();
        assert!(near(begin, first as f64 * STEP - *t as f64 * TICK));
        let mut fit = Vec::new();
        for j in 0..200 {
            let (at, step) = (200 * k + j as usize, first + j);
            let inside = (nearest(own[0])..nearest(own[1])).contains(&step);
            let of = match inside && known(segments, step) {
                true => truth(step - DELAY),
                false => f32::NAN,
            };
            let decoded = if inside { estimate(step) } else { f32::NAN };
            assert_eq!(estimates[at].to_bits(), decoded.to_bits());
            assert_eq!(truths[at].to_bits(), of.to_bits());
            if !of.is_nan() {
                fit.push((f64::from(estimate(step)), f64::from(of)));
            }
        }
        let found = told["trials"][k]["r2"].as_f64().unwrap();
        assert!(near(found, r2(&fit)), "{found} {}", r2(&fit));
    }
}

/// Numbers of one channel over the whole recording, by loops over its spikes and steps.
#[test]
fn a_unit_over_the_whole_recording_is_that_of_plain_loops() {
    let (recording, monitor, segments) = open();
    let told = json(&monitor, "/api/unit?channel=1");
    let spikes = &recording.spikes;
    let own = spikes
        .ticks
        .iter()
        .zip(&spikes.channels)
        .filter(|(_, c)| **c == 1);
    let times: Vec<i64> = own.map(|(t, _)| *t).collect();
    assert_eq!(told["spikes"], times.len());
    // The part that was left out, and the end, end what is known.
    let hidden = LEFT_OUT.start * PER_STEP..LEFT_OUT.end * PER_STEP;
    let end_of = |t: i64| {
        if t < hidden.start {
            hidden.start
        } else {
            1_000_000
        }
    };
    // Bars of half a millisecond are 50 ticks.
    let (mut bars, mut beyond) = (vec![0; 100], 0);
    for two in times.windows(2).filter(|two| two[1] < end_of(two[0])) {
        match bars.get_mut(((two[1] - two[0]) / 50) as usize) {
            Some(bar) => *bar += 1,
            None => beyond += 1,
        }
    }
    assert_eq!(told["intervals"], serde_json::json!(bars));
    assert_eq!(told["beyond"], beyond);
    for bar in 0..100 {
        let (low, high) = (bar * 50, (bar + 1) * 50);
        let from: Vec<&i64> = times.iter().filter(|t| **t + high <= end_of(**t)).collect();
        let after = |t: i64| {
            times
                .iter()
                .filter(|u| **u > t && (low..high).contains(&(**u - t)))
                .count()
        };
        let pairs: usize = from.iter().map(|t| after(**t)).sum();
        let expected = pairs as f64 / from.len() as f64 / 0.0005;
        let found = told["autocorrelogram"][bar as usize].as_f64().unwrap();
        assert!(
            (found - expected).abs() < 1e-6,
            "{bar}: {found} for {expected}"
        );
    }
    let edge = |bar: usize| (bar as f64 * 1_000_000.0 / 60.0).round() as i64;
    for bar in 0..60 {
        let (from, to) = (edge(bar), edge(bar + 1));
        let known = (from..to).filter(|t| !hidden.contains(t)).count();
        let n = times.iter().filter(|t| (from..to).contains(*t)).count();
        match told["rate"][bar].as_f64() {
            Some(rate) => assert!((rate - n as f64 / (known as f64 * TICK)).abs() < 1e-6),
            None => assert_eq!(known, 0),
        }
    }
    assert!(told["tuning"].is_null(), "one output has no direction");
    assert!(segments.len() == 3);
    for wrong in ["channel=3", "channel=0&source=1", "x=0"] {
        assert_eq!(
            bytes(&monitor, &format!("/api/unit?{wrong}")),
            None,
            "{wrong}"
        );
    }
}

#[test]
fn labels_are_events_with_names() {
    let (recording, monitor, _) = open();
    assert_eq!(
        json(&monitor, "/api/state")["labels"],
        serde_json::json!(["go", "rest"])
    );
    for (label, expected) in [
        ("", vec![(2.000_01, "rest"), (5.5, "go"), (8.123_45, "go")]),
        ("&label=0", vec![(5.5, "go"), (8.123_45, "go")]),
        ("&label=1", vec![(2.000_01, "rest")]),
    ] {
        let path = format!("/api/trials?align=labels&from=-0.5&to=0.5&bin=0.1&channel=2{label}");
        let body = bytes(&monitor, &path).unwrap();
        let (frame, _) = Frame::read(&body).unwrap();
        let told: Value = serde_json::from_slice(frame.section(Section::EVENT, 1)).unwrap();
        assert_eq!(told["trials"].as_array().unwrap().len(), expected.len());
        for (k, (seconds, name)) in expected.into_iter().enumerate() {
            let trial = &told["trials"][k];
            assert!(near(trial["seconds"].as_f64().unwrap(), seconds));
            assert_eq!(trial["label"], name);
            let event = (seconds / TICK).round() as i64;
            let all = recording
                .spikes
                .ticks
                .iter()
                .zip(&recording.spikes.channels);
            let own =
                all.filter(|(t, c)| **c == 2 && (event - 50_000..event + 50_000).contains(*t));
            assert_eq!(trial["spikes"], own.count() as f64);
        }
    }
}
