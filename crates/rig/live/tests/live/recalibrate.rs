//! Recalibration without labels in a session: suggested, accepted, applied, taken back, and replayed bit for bit.

use std::path::Path;
use std::time::Duration;

use betz_base::random::Random;
use betz_live::{Live, Until, check};
use betz_recording::{Dataset, OutputInfo, Segment, Spikes};
use betz_rigs::rig::{Block, Samples, Signal};
use betz_runtime::model::Decoder;
use betz_runtime::psc::{Filter, FilterBank};
use betz_train::{RidgeChoice, TrainOptions, train};

use super::learn::replayed;
use super::rigs::{self, ListRig};

const CHANNELS: usize = 16;
/// Steps of a reach, and of a window of 120 s.
const REACH: usize = 60;
const WINDOW: usize = 6000;
/// Rows of a block.
const ROWS: usize = 10;

/// Counts, (step, channel), and places, (step, 2), of reaches in random directions; each spike is kept with its channel's share.
fn reaches(seed: u64, steps: usize, share: fn(usize) -> f64) -> (Vec<f32>, Vec<f32>) {
    let mut random = Random::new(seed);
    let (mut counts, mut places, mut angle) = (Vec::new(), Vec::new(), 0.0);
    for step in 0..steps {
        if step % REACH == 0 {
            angle = random.uniform() * std::f64::consts::TAU;
        }
        let t = (step % REACH) as f64 / REACH as f64 * std::f64::consts::TAU;
        let reach = (1.0 - t.cos()) / 2.0;
        let place = [reach * angle.cos(), reach * angle.sin()];
        places.extend(place.map(|x| x as f32));
        for channel in 0..CHANNELS {
            let tuned = channel as f64 * 2.4;
            let p = 0.3 + 0.28 * (place[0] * tuned.cos() + place[1] * tuned.sin());
            let fires = random.uniform() < p && random.uniform() < share(channel);
            counts.push(f32::from(u8::from(fires)));
        }
    }
    (counts, places)
}

fn whole(_: usize) -> f64 {
    1.0
}

fn thinned(channel: usize) -> f64 {
    [0.15, 1.0, 0.4, 1.0][channel % 4]
}

fn model(retain: Option<usize>) -> Decoder {
    let steps = 400 * REACH;
    let (counts, behavior) = reaches(1, steps, whole);
    let fired = (0..counts.len()).filter(|&i| counts[i] > 0.0);
    let (ticks, channels) = fired
        .map(|i| ((i / CHANNELS) as i64, (i % CHANNELS) as u32))
        .unzip();
    let data = Dataset {
        step_seconds: rigs::STEP_SECONDS,
        steps,
        channel_names: (0..CHANNELS).map(|c| c.to_string()).collect(),
        spikes: Spikes::new(ticks, channels),
        segments: vec![Segment {
            start: 0,
            stop: steps as i64,
        }],
        outputs: ["x", "y"].map(OutputInfo::from).to_vec(),
        behavior,
    };
    let filter = |tau_seconds, order| Filter { tau_seconds, order };
    let bank = FilterBank::new(vec![filter(0.04, 0), filter(0.12, 1)]).unwrap();
    let options = TrainOptions {
        ridge: RidgeChoice::Fixed(2.0),
        retain,
        ..TrainOptions::new(bank)
    };
    train(&data, &options, &()).unwrap()
}

/// A rig that sends counts, a row per step.
fn rig(counts: &[f32]) -> ListRig {
    let host_ns = betz_rigs::rig::host_ns();
    let blocks = counts.chunks(ROWS * CHANNELS).zip(0..);
    let block = |(rows, number): (&[f32], u64)| Block {
        first: number * ROWS as u64,
        rows: rows.len() / CHANNELS,
        host_ns,
        samples: Samples::Features(rows.to_vec()),
        ..Block::new()
    };
    ListRig {
        signal: Signal {
            channels: CHANNELS,
            rate: 1.0 / rigs::STEP_SECONDS,
            microvolts: None,
            clock_bits: 64,
        },
        blocks: blocks.map(block).collect::<Vec<_>>().into_iter(),
    }
}

fn open(model: &Decoder, counts: &[f32], to: &Path, mode: &str) -> Live {
    let record = format!("record.to={:?}", to.to_str().unwrap());
    let mode = format!("recalibrate.mode={mode}");
    let changes = [
        &record,
        &mode,
        "recalibrate.window=120s",
        "missing.stale_after=1h",
    ];
    Live::with_rig(rigs::plan(&changes), model.clone(), Box::new(rig(counts))).unwrap()
}

type OutputBits = Vec<Vec<u32>>;

fn run(live: &mut Live, steps: usize, made: &mut OutputBits) {
    let until = Until {
        steps: Some(steps as u64),
        stop: &|| false,
    };
    live.run(&until, &mut |step| {
        made.push(step.values.iter().map(|v| v.to_bits()).collect());
        Ok(())
    })
    .unwrap();
}

/// Waits until the comparison has looked at so many windows: its thread needs time, and no step depends on when it is done.
fn wait_for_windows(live: &Live, windows: u64) {
    while live.report().recalibrate.unwrap().windows < windows {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_suggestion_waits_and_is_accepted_and_taken_back() {
    let model = model(Some(1 << 20));
    let (counts, _) = reaches(5, WINDOW + 1200, thinned);
    let folder = tempfile::tempdir().unwrap();
    let mut plain = open(&model, &counts, folder.path(), "off");
    let mut same = Vec::new();
    run(&mut plain, WINDOW + 1200, &mut same);
    assert_eq!(plain.report().recalibrate, None);
    assert!(plain.suggestion().is_none() && !plain.accept().unwrap());

    let folder = tempfile::tempdir().unwrap();
    let mut live = open(&model, &counts, folder.path(), "suggest");
    let mut made = Vec::new();
    run(&mut live, WINDOW, &mut made);
    wait_for_windows(&live, 1);
    run(&mut live, ROWS, &mut made);
    let report = live.report().recalibrate.unwrap();
    assert!(report.suggested && !report.applied, "{report:?}");
    assert!(
        report.unexplained > 0.2 && report.unlike_training > 0.1,
        "{report:?}"
    );
    assert_eq!((report.suggestions, report.lost_steps), (1, 0));
    let suggestion = live.suggestion().unwrap();
    assert_eq!(suggestion.found.refusal, None);
    assert_eq!(suggestion.found.gains.len(), CHANNELS);
    assert_eq!(
        made[..],
        same[..made.len()],
        "a suggestion changes not one bit"
    );

    assert!(live.accept().unwrap() && !live.accept().unwrap());
    run(&mut live, 800, &mut made);
    assert_ne!(made[made.len() - 1], same[made.len() - 1]);
    let report = live.report();
    assert!(
        report.swapped == 1 && report.recalibrate.unwrap().applied,
        "{report:?}"
    );
    live.roll_back().unwrap();
    assert!(!live.report().recalibrate.unwrap().applied);
    let before = made.len();
    run(&mut live, 100, &mut made);
    assert_eq!(
        made[before + 1..],
        same[before + 1..made.len()],
        "a roll back is exact"
    );
    live.stop().unwrap();
    replayed(&live, &made);
}

#[test]
fn what_is_applied_goes_again_when_a_window_speaks_against_it() {
    let model = model(Some(1 << 20));
    let (mut counts, _) = reaches(5, WINDOW + 2 * ROWS, thinned);
    counts.extend(reaches(6, WINDOW + 1000, whole).0);
    let folder = tempfile::tempdir().unwrap();
    let mut live = open(&model, &counts, folder.path(), "apply");
    let mut made = Vec::new();
    run(&mut live, WINDOW, &mut made);
    wait_for_windows(&live, 1);
    run(&mut live, ROWS, &mut made);
    let report = live.report();
    assert!(
        report.swapped == 1 && report.recalibrate.unwrap().applied,
        "{report:?}"
    );
    // The next window begins when the comparison has heard of the swap.
    while !live.suggestion().unwrap().applied {
        std::thread::sleep(Duration::from_millis(1));
    }
    run(&mut live, WINDOW + 5 * ROWS, &mut made);
    wait_for_windows(&live, 2);
    run(&mut live, 300, &mut made);
    let report = live.report();
    let recalibrate = report.recalibrate.unwrap();
    assert!(
        !recalibrate.applied && !recalibrate.suggested,
        "{recalibrate:?}"
    );
    assert_eq!((report.swapped, report.rolled_back), (1, 1));
    live.stop().unwrap();
    replayed(&live, &made);
}

#[test]
fn a_session_that_another_model_was_swapped_into_is_not_recalibrated() {
    let model = model(Some(1 << 20));
    let mut parts = model.clone().into_parts();
    parts.intercept[0] += 1.0;
    let other = Decoder::new(parts).unwrap();
    let (counts, _) = reaches(5, WINDOW + 400, thinned);
    let folder = tempfile::tempdir().unwrap();
    let mut live = open(&model, &counts, folder.path(), "suggest");
    let mut made = Vec::new();
    run(&mut live, ROWS, &mut made);
    live.swap(&other).unwrap();
    run(&mut live, WINDOW, &mut made);
    wait_for_windows(&live, 1);
    let refused = live.accept().unwrap_err();
    assert!(refused.message().contains("another model"), "{refused}");
    run(&mut live, 100, &mut made);
    live.stop().unwrap();
    replayed(&live, &made);
}

#[test]
fn what_cannot_be_recalibrated_is_refused_by_check_and_run_in_the_same_words() {
    let without = model(None);
    let plan = rigs::plan(&["recalibrate.mode=suggest"]);
    let checked = check(&plan, &without, &mut rig(&[]), Duration::ZERO).unwrap_err();
    let ran = Live::with_rig(plan, without, Box::new(rig(&[])))
        .err()
        .unwrap();
    assert_eq!(checked.message(), ran.message());
    assert!(
        ran.message().contains("recalibrate.mode: ") && ran.message().contains("--retain"),
        "{ran}"
    );
}
