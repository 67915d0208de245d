//! Windows of a recording that the page mines: each equals mining that window alone.

use betz_episode::{Alphabet, Clock, Events, Interval, MineOptions, MiningResult, mine};
use betz_monitor::frame::{Frame, Section};
use betz_monitor::{DecodedRecording, Monitor, Options, Source, SpikeTimes};
use betz_recording::{Recording, Segment, SpikeForm, Spikes};
use betz_testkit::Random;
use serde_json::Value;

use crate::looking::get;

const TICK: f64 = 1e-4;
const STEP: f64 = 0.001;
const CHANNELS: u32 = 6;
const TICKS: i64 = 105_000;
/// The second begins in a window and ends in another; nothing is kept between them.
const SEGMENTS: [[i64; 2]; 2] = [[5_003, 41_207], [47_009, 100_000]];
const WINDOW: i64 = 30_000;
const EVERY: i64 = 20_000;
const LEAST: u64 = 8;
/// More ticks than any delay, between the segments of a window.
const APART: i64 = 1_000_000;
const QUERY: &str = "window=3&step=2&intervals=0.004,0.006,0.006,0.01&threshold=8&max_size=4";

/// Channels 1, 4 and 2 fire in this order, with 5 and 8 ms between them; all channels fire at random.
pub(crate) fn original() -> Recording {
    let mut random = Random::new(11);
    let mut next = |below: i64| random.below(below as usize) as i64;
    let mut all: Vec<(i64, u32)> = (0..900)
        .map(|_| (next(TICKS), next(i64::from(CHANNELS)) as u32))
        .collect();
    for k in 0..70 {
        let at = k * 1_500 + next(900);
        all.extend([(at, 1), (at + 50, 4), (at + 130, 2)]);
    }
    all.sort_unstable();
    all.dedup();
    let (ticks, channels) = all.into_iter().unzip();
    Recording {
        tick_seconds: TICK,
        ticks: TICKS,
        spikes: Spikes::new(ticks, channels),
        channel_names: (0..CHANNELS).map(|c| format!("ch{c}")).collect(),
        behavior: None,
        segments: (SEGMENTS.map(|[start, stop]| Segment { start, stop })).to_vec(),
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    }
}

/// `times`: spikes keep the recording's ticks, which are finer than its steps.
pub(crate) fn open(recording: &Recording, step: f64, times: bool) -> Monitor {
    let dataset = recording.clone().align(step).unwrap();
    let fine = SpikeTimes::new(
        &dataset,
        &recording.spikes,
        &recording.segments,
        recording.tick_seconds,
    );
    let shown = DecodedRecording {
        source: Source {
            name: "a test".into(),
            channel_names: dataset.channel_names.clone(),
            electrode_um: None,
            outputs: Vec::new(),
            step_seconds: step,
            speed: 1.0,
            deadline: None,
            model: None,
        },
        times: fine.unwrap().filter(|_| times),
        dataset,
        estimates: Vec::new(),
        probabilities: Vec::new(),
        delay_steps: 0,
        left_out: Vec::new(),
    };
    Monitor::open(vec![shown], Options::default()).unwrap()
}

/// The events of a job's answer, in order.
pub(crate) fn events(monitor: &Monitor, path: &str) -> Vec<Value> {
    let (status, answer) = get(monitor, path);
    assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&answer));
    let frames = Frame::read_all(&answer).unwrap();
    let event = |f: &Frame<'_>| serde_json::from_slice(f.section(Section::EVENT, 1)).unwrap();
    frames.iter().map(event).collect()
}

/// Mines the spikes of a window alone: each segment's part lies far from the others.
fn alone(recording: &Recording, from: i64) -> Option<MiningResult> {
    let spikes = &recording.spikes;
    let (mut ticks, mut channels) = (Vec::new(), Vec::new());
    for (i, (&tick, &channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
        let inside = |s: &Segment| (s.start..s.stop).contains(&tick);
        if !(from..from + WINDOW).contains(&tick) {
            continue;
        }
        if let Some(segment) = recording.segments.iter().position(inside) {
            for _ in 0..spikes.weight(i) as usize {
                ticks.push(tick - from + segment as i64 * APART);
                channels.push(channel);
            }
        }
    }
    let clock = Clock::from_tick_seconds(recording.tick_seconds).unwrap();
    let alphabet = Alphabet::new(recording.channel_names.clone(), clock).unwrap();
    let events = Events::new(alphabet, &ticks, &channels).ok()?;
    let intervals = [[0.004, 0.006], [0.006, 0.01]];
    let intervals = intervals.map(|[low, high]| Interval::from_seconds(low, high, clock).unwrap());
    let mut options = MineOptions::new(intervals.to_vec(), LEAST);
    options.max_size = Some(4);
    Some(mine(&events, &options, &()).unwrap())
}

fn numbers(list: &Value) -> Vec<u64> {
    (list.as_array().unwrap().iter())
        .map(|v| v.as_u64().unwrap())
        .collect()
}

#[test]
fn each_window_equals_mining_it_alone() {
    let recording = original();
    let monitor = open(&recording, STEP, true);
    let told = events(&monitor, &format!("/api/windows?{QUERY}&from=0&count=64"));
    // The last window ends with the recording.
    let starts: Vec<i64> = vec![0, EVERY, 2 * EVERY, 3 * EVERY, TICKS - WINDOW];
    assert_eq!(told.len(), starts.len() + 1);
    assert_eq!(told.last().unwrap()["done"], true);
    let mut chains = 0;
    for (k, (&from, window)) in starts.iter().zip(&told).enumerate() {
        assert_eq!(
            (window["window"].as_u64(), window["of"].as_u64()),
            (Some(k as u64), Some(5))
        );
        assert_eq!(window["from"].as_f64(), Some(from as f64 * TICK));
        let mined = alone(&recording, from).unwrap();
        let mut meant: Vec<(Vec<u64>, Vec<u64>, u64)> = (mined.episodes.iter())
            .filter(|e| e.pattern.size() >= 2)
            .map(|e| {
                let symbols = e.pattern.symbols().iter().map(|s| u64::from(*s)).collect();
                let edges = e.pattern.intervals().iter();
                (
                    symbols,
                    edges.map(|i| u64::from(i.low > 40)).collect(),
                    e.count,
                )
            })
            .collect();
        assert_eq!(window["frequent"], meant.len());
        let listed = window["episodes"].as_array().unwrap();
        let sizes: Vec<_> = listed
            .iter()
            .map(|e| numbers(&e["channels"]).len())
            .collect();
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
        let mut found: Vec<_> = (listed.iter())
            .map(|e| {
                (
                    numbers(&e["channels"]),
                    numbers(&e["edges"]),
                    e["count"].as_u64().unwrap(),
                )
            })
            .collect();
        meant.sort();
        found.sort();
        assert_eq!(found, meant, "window {k}");
        chains += usize::from(
            found
                .iter()
                .any(|(c, e, _)| *c == [1, 4, 2] && *e == [0, 1]),
        );
    }
    assert_eq!(chains, 5);
    // A window is the same whichever windows are mined before it.
    let only = events(&monitor, &format!("/api/windows?{QUERY}&from=3&count=1"));
    assert_eq!(only[0], told[3]);
}

#[test]
fn occurrences_lie_in_their_window_and_are_as_many_as_the_count() {
    let recording = original();
    let monitor = open(&recording, STEP, true);
    let window = &events(&monitor, &format!("/api/windows?{QUERY}&from=2&count=1"))[0];
    let chain = (window["episodes"].as_array().unwrap().iter())
        .find(|e| numbers(&e["channels"]) == [1, 4, 2])
        .unwrap();
    let path = format!("/api/windows/occurrences?{QUERY}&from=2&symbols=1,4,2&edges=0,1");
    let found: Value = serde_json::from_slice(&get(&monitor, &path).1).unwrap();
    assert_eq!(found["total"], chain["count"]);
    for times in found["times"].as_array().unwrap() {
        let ticks: Vec<i64> = (times.as_array().unwrap().iter())
            .map(|t| (t.as_f64().unwrap() / TICK).round() as i64)
            .collect();
        assert!(
            ticks[0] >= 2 * EVERY && ticks[2] < 2 * EVERY + WINDOW,
            "{ticks:?}"
        );
        for (tick, channel) in ticks.iter().zip([1, 4, 2]) {
            let all = recording
                .spikes
                .ticks
                .iter()
                .zip(&recording.spikes.channels);
            assert!(
                all.clone().any(|(t, c)| t == tick && *c == channel),
                "{tick} {channel}"
            );
        }
        let inside = |s: &&Segment| (s.start..s.stop).contains(&ticks[0]);
        let segment = recording.segments.iter().find(inside).unwrap();
        assert!(ticks[2] < segment.stop);
    }
}

#[test]
fn counts_in_bins_are_mined_as_so_many_spikes() {
    let mut recording = original();
    recording.form = SpikeForm::Counts;
    recording.spikes.weights = (0..recording.spikes.len())
        .map(|i| 1.0 + (i % 2) as f32)
        .collect();
    recording.segments = vec![Segment {
        start: 0,
        stop: TICKS,
    }];
    let monitor = open(&recording, TICK, false);
    let told = events(&monitor, &format!("/api/windows?{QUERY}&from=1&count=1"));
    let mined = alone(&recording, EVERY).unwrap();
    let longer = mined.episodes.iter().filter(|e| e.pattern.size() >= 2);
    assert_eq!(told[0]["frequent"], longer.count());
    assert!(told[0]["frequent"].as_u64() > Some(0));
    let inside = recording.spikes.range(EVERY, EVERY + WINDOW);
    let total: f64 = inside.map(|i| f64::from(recording.spikes.weight(i))).sum();
    assert_eq!(told[0]["spikes"].as_f64(), Some(total));
}

#[test]
fn a_wrong_request_is_refused_in_words() {
    let monitor = open(&original(), STEP, true);
    let last = |query: &str| {
        events(&monitor, &format!("/api/windows?{query}"))
            .pop()
            .unwrap()
    };
    let refused = |query: &str, words: &str| {
        let told = last(query);
        assert!(
            told["error"].as_str().unwrap().contains(words),
            "{query}: {told}"
        );
    };
    refused(&format!("{QUERY}&from=5"), "one of 5 windows, got number 5");
    refused(&format!("{QUERY}&from=-1"), "got number -1");
    let of = |window: &str, intervals: &str, least: u64, size: u64| {
        format!(
            "window={window}&step=1&intervals={intervals}&threshold={least}&max_size={size}&from=0"
        )
    };
    refused(
        &of("0", "0,0.01", 5, 3),
        "window: expected at least one tick",
    );
    refused(
        &of("NaN", "0,0.01", 5, 3),
        "window: expected at least one tick",
    );
    refused(&of("1", "0,0.01,0.02", 5, 3), "pairs LOW,HIGH");
    refused(&of("1", "0,x", 5, 3), "got \"x\"");
    refused(&of("1", "0.01,0.004", 5, 3), "low < high");
    refused(&of("1", "0,0.01", 0, 3), "threshold");
    refused(&of("1", "0,0.01", 5, 33), "at most 32 spikes");
    refused(&of("0.01", "0,0.01", 5, 3), "a longer window");
    assert_eq!(
        get(&monitor, &format!("/api/windows?{QUERY}&from=0&source=1")).0,
        404
    );
    let path = format!("/api/windows/occurrences?{QUERY}&from=0&symbols=1,4&edges=7");
    assert_eq!(get(&monitor, &path).0, 400);
}
