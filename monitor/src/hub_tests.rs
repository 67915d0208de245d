//! From a session to frames, with only the ring in between.

use super::*;
use crate::feed::{Feed, feed, truth};
use crate::frame::Frame;
use crate::session_history::SessionHistory;
use betz_runtime::stream::SwapState;
use betz_runtime::stream::{Input, Step, StepStatus, Tap};

const SHAPE: Shape = Shape {
    channels: 8,
    outputs: 2,
    ticks_a_second: 1_000.0,
    deadline_ns: Some(5_000),
};

struct Rig {
    feed: Feed,
    truth: crate::Truth,
    hub: Hub,
    seen: Mutex<HubState>,
    sent: Vec<Bytes>,
    /// Estimates of a second model.
    beside: Vec<f64>,
    seconds: Vec<Value>,
}

fn rig(words: usize) -> Rig {
    let (feed, reader) = feed(SHAPE.outputs, None, words).unwrap();
    let (truth, truth_reader) = truth(SHAPE.outputs).unwrap();
    Rig {
        feed,
        truth,
        hub: Hub::new(reader, truth_reader, SHAPE),
        seen: Mutex::new(HubState::new(8, 60_000, 500)),
        sent: Vec::new(),
        beside: Vec::new(),
        seconds: Vec::new(),
    }
}

impl Rig {
    fn step(&mut self, tick: i64, spikes: &[u32], ns: u32) {
        self.give(tick, Input::Spikes(spikes), ns);
    }

    fn give(&mut self, tick: i64, input: Input<'_>, ns: u32) {
        self.feed.take(&Step {
            tick,
            input,
            estimates: &[tick as f32, -1.0],
            beside: &self.beside,
            classes: &[],
            status: StepStatus::default(),
            previous_latency_ns: ns,
            swap: SwapState::Idle,
        });
    }

    /// Frames of a turn, without the seconds that ended in it: these are in `seconds`.
    fn turn(&mut self) -> Vec<Frame<'_>> {
        self.sent.clear();
        let (sent, seconds) = (&mut self.sent, &mut self.seconds);
        self.hub.turn(&self.seen, |f| {
            let event: Value = event_of(&f);
            match event["type"] == "second" {
                true => seconds.push(event),
                false => sent.push(f),
            }
        });
        self.sent
            .iter()
            .map(|f| Frame::read(f).unwrap().0)
            .collect()
    }
}

/// The event of a frame; null for others.
fn event_of(bytes: &[u8]) -> Value {
    let frame = Frame::read(bytes).unwrap().0;
    serde_json::from_slice(frame.section(Section::EVENT, 1)).unwrap_or_default()
}

fn counters(frame: &Frame<'_>) -> Vec<u64> {
    frame.u64(Section::COUNTERS).collect()
}

#[test]
fn a_turn_makes_one_frame_of_all_that_came() {
    let mut rig = rig(1 << 12);
    assert!(rig.turn().is_empty());
    for tick in 0..10 {
        rig.truth.step(&[0.5, tick as f32]);
        rig.step(tick, &[3, 3, tick as u32 % 8], 100);
    }
    let frames = rig.turn();
    assert_eq!(frames.len(), 1);
    let f = &frames[0];
    assert_eq!((f.kind, f.first, f.ticks, f.channels), (1, 0, 10, 8));
    assert_eq!(f.spike_channels().len(), 30);
    assert_eq!(
        f.f32(Section::ESTIMATE).step_by(2).collect::<Vec<_>>(),
        (0..10).map(|t| t as f32).collect::<Vec<_>>()
    );
    assert_eq!(
        f.f32(Section::TRUTH).skip(1).step_by(2).collect::<Vec<_>>(),
        (0..10).map(|t| t as f32).collect::<Vec<_>>()
    );
    assert!(f.section(Section::ROW_TICK, 2).is_empty(), "rows are ticks");
    assert_eq!(counters(f)[..2], [10, 30]);
    assert_eq!(f.u32(Section::LATENCY).sum::<u32>(), 10);
}

#[test]
fn counts_of_any_kind_become_spikes_and_what_the_model_has_not_is_counted() {
    let mut rig = rig(1 << 12);
    rig.give(0, Input::Counts(&[0, 2, 0, 0, 0, 0, 0, 1]), 0);
    rig.give(1, Input::CountsU8(&[1, 0, 0, 0, 0, 0, 0, 0]), 0);
    rig.give(
        2,
        Input::CountsF32(&[0.4, 1.6, -3.0, f32::NAN, 0.0, 0.0, 0.0, 0.0]),
        0,
    );
    rig.give(3, Input::Counts(&[60_000, 0, 0, 0, 0, 0, 0, 0]), 0);
    rig.step(4, &[5, 8, u32::MAX], 0);
    let frames = rig.turn();
    let f = &frames[0];
    let spikes: Vec<(u16, u32)> = f.u16(Section::SPIKE_TICK).zip(f.spike_channels()).collect();
    assert_eq!(
        spikes[..6],
        [(0, 1), (0, 1), (0, 7), (1, 0), (2, 1), (2, 1)]
    );
    assert_eq!(
        spikes.iter().filter(|s| s.0 == 3).count(),
        64,
        "a count is drawn as 64 at most"
    );
    assert_eq!(spikes.last(), Some(&(4, 5)));
    assert_eq!(counters(f)[2], 2, "unknown channels");
    assert!(f.section(Section::TRUTH, 4).is_empty());
}

#[test]
fn a_full_ring_is_counted_and_no_half_step_comes_out() {
    let mut rig = rig(100);
    for tick in 0..50 {
        rig.step(tick, &[0, 1, 2, 3, 4, 5], 100); // 15 words per step: six fit
    }
    let frames = rig.turn();
    let f = &frames[0];
    assert_eq!((f.ticks, f.spike_channels().len()), (6, 36));
    assert_eq!(counters(f)[7], 44);
    assert_eq!(counters(f)[0], 50, "steps that were not shown are steps");
    // After a gap, the rows' ticks distinguish lost steps from silence.
    rig.step(50, &[1], 100);
    let frames = rig.turn();
    assert_eq!((frames[0].first, frames[0].ticks), (50, 1));
    assert_eq!(counters(&frames[0])[7], 44);
}

#[test]
fn a_step_larger_than_the_ring_is_counted() {
    let mut rig = rig(64);
    rig.step(0, &[0; 1_000], 100);
    rig.step(1, &[1], 100);
    let frames = rig.turn();
    assert_eq!((frames[0].first, counters(&frames[0])[7]), (1, 1));
}

#[test]
fn what_a_second_model_gives_is_beside_the_steps_it_ran_in() {
    let mut rig = rig(1 << 12);
    rig.step(0, &[1], 100);
    rig.beside = vec![7.0, 8.5];
    rig.give(1, Input::Counts(&[0, 2, 0, 0, 0, 0, 0, 1]), 100);
    rig.step(2, &[0; 70], 100); // longer than the part that goes in with its head
    rig.beside.clear();
    rig.step(3, &[5], 100);
    let frames = rig.turn();
    let beside = frames[0].section(Section::BESIDE, 4);
    let beside: Vec<f32> = (beside.chunks_exact(4))
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    assert_eq!(beside.len(), 8);
    assert!(beside[..2].iter().chain(&beside[6..]).all(|v| v.is_nan()));
    assert_eq!(beside[2..6], [7.0, 8.5, 7.0, 8.5]);
    assert_eq!(frames[0].spike_channels().len(), 1 + 3 + 70 + 1);
    // A frame in which one model ran has no estimates of a second.
    rig.step(4, &[5], 100);
    assert!(rig.turn()[0].section(Section::BESIDE, 4).is_empty());
}

#[test]
fn trials_follow_each_other_on_the_pages_clock() {
    let mut rig = rig(1 << 12);
    for tick in 0..5 {
        rig.step(tick, &[], 0);
    }
    rig.feed.rest();
    // Ticks as a session's tap gives them after a minute of silence.
    for tick in 60_005..60_008 {
        rig.step(tick, &[1], 0);
    }
    let frames = rig.turn();
    assert_eq!(frames.len(), 1);
    assert_eq!((frames[0].first, frames[0].ticks), (0, 8));
    assert_eq!(frames[0].u16(Section::TRIALS).collect::<Vec<_>>(), [5]);
}

#[test]
fn ticks_without_a_step_are_seen_and_long_gaps_end_a_frame() {
    let mut rig = rig(1 << 12);
    for tick in [0, 1, 4, 900, 5_000, 5_001] {
        rig.step(tick, &[], 0);
    }
    let frames = rig.turn();
    let spans: Vec<(i64, u32)> = frames.iter().map(|f| (f.first, f.ticks)).collect();
    assert_eq!(spans, [(0, 901), (5_000, 2)]);
    assert_eq!(
        frames[0].u16(Section::ROW_TICK).collect::<Vec<_>>(),
        [0, 1, 4, 900]
    );
    assert!(frames[1].section(Section::ROW_TICK, 2).is_empty());
    let sequences: Vec<u32> = frames.iter().map(|f| f.sequence).collect();
    assert_eq!(sequences, [0, 1]);
}

#[test]
fn a_clock_that_goes_back_begins_a_frame() {
    let mut rig = rig(1 << 12);
    for tick in [10, 11, 3, 4] {
        rig.step(tick, &[], 0);
    }
    let spans: Vec<(i64, u32)> = rig.turn().iter().map(|f| (f.first, f.ticks)).collect();
    assert_eq!(spans, [(10, 2), (3, 2)]);
}

#[test]
fn every_step_over_the_deadline_is_named_exactly() {
    let mut rig = rig(1 << 12);
    // Each step reports the latency of the step before: 7,000 ns belongs to tick 1, 9,000 ns to tick 3.
    for (tick, ns) in [(0, 0), (1, 100), (2, 7_000), (3, 5_000)] {
        rig.step(tick, &[], ns);
    }
    let frames = rig.turn();
    assert_eq!(
        frames[0].u16(Section::SLOW).collect::<Vec<_>>(),
        [1, 0, 7_000, 0]
    );
    rig.step(4, &[], 70_000);
    let frames = rig.turn();
    assert_eq!(
        frames[0].u16(Section::SLOW).collect::<Vec<_>>(),
        [STEP_BEFORE, 0, 4_464, 1]
    );
    assert_eq!(counters(&frames[0])[5], 2);
    let seen = lock(&rig.seen);
    let misses: Vec<(i64, u32)> = (seen.moments.iter().flat_map(|m| &m.misses))
        .map(|m| (m.tick, m.nanoseconds))
        .collect();
    assert_eq!(misses, [(1, 7_000), (3, 70_000)]);
}

#[test]
fn rates_come_once_a_second_of_steps() {
    let mut rig = rig(1 << 16);
    let mut with_rates = Vec::new();
    for tick in 0..2_500 {
        rig.step(tick, if tick % 100 == 0 { &[2, 2, 5] } else { &[] }, 0);
        if tick % 16 == 15 {
            let frames = rig.turn();
            let rates: Vec<f32> = frames[0].f32(Section::RATES).collect();
            if !rates.is_empty() {
                with_rates.push((tick, rates));
            }
        }
    }
    assert_eq!(with_rates.len(), 2);
    let (_, rates) = &with_rates[0];
    assert!(
        (rates[2] - 20.0).abs() < 2.0 && (rates[5] - 10.0).abs() < 1.0 && rates[0] == 0.0,
        "{rates:?}"
    );
}

#[test]
fn very_many_spikes_are_sent_as_counts_and_none_is_left_out() {
    let mut rig = rig(1 << 20);
    let spikes: Vec<u32> = (0..1_000).map(|i| i % 8).collect();
    for tick in 0..16 {
        rig.step(tick, &spikes, 0);
    }
    let frames = rig.turn();
    let f = &frames[0];
    assert!(f.section(Section::SPIKE_TICK, 2).is_empty());
    let cells = f.section(Section::CELLS, 1);
    assert_eq!(cells[..8], [8, 0, 16, 0, 1, 0, 0, 0]);
    assert_eq!(
        cells[8..].iter().map(|&n| u64::from(n)).sum::<u64>(),
        16_000
    );
}

#[test]
fn truth_goes_by_the_steps_number_whatever_was_not_shown() {
    let mut rig = rig(30);
    for tick in 0..4 {
        rig.truth.step(&[tick as f32, 0.0]);
        rig.step(tick, &[], 0); // nine words: three fit
    }
    let first: Vec<f32> = rig.turn()[0].f32(Section::TRUTH).step_by(2).collect();
    assert_eq!(first, [0.0, 1.0, 2.0]);
    rig.truth.step(&[4.0, 0.0]);
    rig.truth.step(&[f32::NAN]); // wrong number of outputs
    rig.step(4, &[], 0);
    rig.step(5, &[], 0);
    let second: Vec<f32> = rig.turn()[0].f32(Section::TRUTH).step_by(2).collect();
    assert!(second[0] == 4.0 && second[1].is_nan(), "{second:?}");
    assert_eq!(rig.truth.lost(), 1);
}

#[test]
fn a_session_that_ends_is_told_once() {
    let mut rig = rig(1 << 12);
    rig.step(0, &[], 0);
    let (feed, _) = feed(2, None, 64).unwrap();
    drop(std::mem::replace(&mut rig.feed, feed));
    let kinds: Vec<u16> = rig.turn().iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [1, 2]);
    assert!(rig.turn().is_empty());
    assert!(lock(&rig.seen).ended);
}

#[test]
fn every_second_is_told_once_with_the_numbers_of_its_steps() {
    let mut rig = rig(1 << 20);
    rig.seen = {
        let mut state = HubState::new(8, 60_000, 500);
        state.session = SessionHistory::new(8, 2);
        Mutex::new(state)
    };
    for tick in 0..2_500 {
        // The estimate is the tick, the truth half a unit beside it, and every tenth step misses.
        rig.truth.step(&[tick as f32 + 0.5, -1.0]);
        rig.step(tick, &[3, 3, 1], if tick % 10 == 0 { 6_000 } else { 900 });
        if tick % 100 == 0 {
            rig.turn();
        }
    }
    rig.turn();
    let told: Vec<(&Value, &Value, &Value)> = (rig.seconds.iter())
        .map(|s| (&s["slot"]["at"], &s["slot"]["spikes"], &s["slot"]["misses"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!(0), &json!(3_000), &json!(100)),
            (&json!(1), &json!(3_000), &json!(100))
        ]
    );
    let slot = &rig.seconds[1]["slot"];
    assert_eq!(slot["computing"]["longest_ns"], 6_000);
    assert_eq!(slot["computing"]["p99_ns"], 6_000);
    let r2 = slot["r2"][0].as_f64().unwrap();
    assert!(r2 > 0.999 && slot["r2"][1].is_null(), "{slot}");
    // Late labels count, too, and once.
    let rows: Vec<Value> = (2_100..2_200)
        .map(|tick| json!([tick, [tick as f32, 0.0]]))
        .collect();
    drop(rig.feed);
    let (mut sent, mut seconds) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        rig.hub
            .event_now(&rig.seen, "labels", json!({"rows": rows}), &mut |f| {
                sent.push(f)
            });
    }
    rig.hub.turn(&rig.seen, |f| seconds.push(event_of(&f)));
    let last = seconds.iter().find(|e| e["type"] == "second").unwrap();
    assert_eq!(
        (&last["slot"]["at"], &last["slot"]["steps"]),
        (&json!(2), &json!(500))
    );
    assert_eq!(seconds.iter().filter(|e| e["type"] == "second").count(), 1);
}

#[test]
fn labels_without_other_truth_make_the_score_of_their_second() {
    let mut rig = rig(1 << 20);
    lock(&rig.seen).session = SessionHistory::new(8, 2);
    for tick in 0..1_000 {
        rig.step(tick, &[], 900);
    }
    rig.turn();
    let rows: Vec<Value> = (100..200)
        .map(|tick| json!([tick, [tick as f32 + 1.0, 5.0]]))
        .collect();
    // The same labels again add nothing.
    for _ in 0..2 {
        rig.hub
            .event_now(&rig.seen, "labels", json!({"rows": rows}), &mut |_| ());
    }
    rig.step(1_000, &[], 900);
    rig.turn();
    let found = lock(&rig.seen).session.r2();
    // Off by 1 where the variance is that of 0 … 99.
    let expected = 1.0 - 1.0 / ((100.0 * 100.0 - 1.0) / 12.0);
    assert!(
        (found[0].unwrap() - expected).abs() < 1e-9,
        "{found:?} for {expected}"
    );
    assert_eq!((found[1], lock(&rig.seen).session.r2_steps()), (None, 100));
}
