//! Drift and adapting on the command line.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use betz::model::Decoder;
use betz::recording::{Dataset, Recording, Segment, SpikeForm};
use betz::stream::{ChannelRules, Session, SessionConfig};
use betz::train::online::{TrainerConfig, Worker, follow_verdict};
use betz::train::score::score_estimates;
use serde_json::Value;

use crate::program::{betz, json, refused};

/// A recording and a model of it that retains its sums.
fn prepared(folder: &Path) {
    json(
        folder,
        "simulate --out a.npz --test-out b.npz --neurons 16 --seconds 15 --test-seconds 15 --tick 0.001 --seed 3",
    );
    json(
        folder,
        "train a.npz --step 0.02 --filter 0.02:0 --filter 0.1:1 --ridge 2 --folds 0 --retain --out m.betz",
    );
}

#[test]
fn a_drifted_recording_is_adapted_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let drifted = json(
        folder,
        "drift b.npz --lose 3 --swap 4 --scream 1 --gain 0.2,0.7 --at 5 --seed 3 --out d.npz",
    );
    for (what, count) in [("lost", 3), ("swapped", 4), ("screaming", 1), ("weaker", 8)] {
        assert_eq!(drifted[what].as_array().unwrap().len(), count, "{what}");
    }
    json(folder, "drift b.npz --lose 3 --at 5 --seed 3 --out d.npz");
    refused(
        folder,
        "drift b.npz --lose 3 --at 5 --out b.npz",
        2,
        "expected another file than",
    );
    // One long segment is one trial: it is decoded as it was, then learned from.
    let adapted = json(folder, "adapt m.betz d.npz --out n.betz");
    assert_eq!(
        (&adapted["trials"], &adapted["windows"][0]["last_trial"]),
        (&1.into(), &0.into())
    );
    let window = &adapted["windows"][0];
    for (a, b) in
        (window["frozen"].as_array().unwrap().iter()).zip(window["adapted"].as_array().unwrap())
    {
        assert!((a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-5);
    }
    let same = json(folder, "evaluate n.betz b.npz");
    assert_eq!(same["rates_hz"].get("changed"), None, "{same}");
    let lost = json(
        folder,
        "drift b.npz --lose 3 --at 1 --seed 3 --out lost.npz",
    );
    let told = json(folder, "evaluate m.betz lost.npz");
    let changed = told["rates_hz"]["changed"].as_array().unwrap().iter();
    let mut changed: Vec<String> = changed.map(|c| c["channel"].to_string()).collect();
    let lost = lost["lost"].as_array().unwrap().iter();
    let mut lost: Vec<String> = lost.map(Value::to_string).collect();
    changed.sort();
    lost.sort();
    assert_eq!(changed, lost);
    let streamed = betz(folder, "stream m.betz lost.npz");
    let said = String::from_utf8_lossy(&streamed.stderr);
    assert!(said.contains("drift: 3 channels changed to less"), "{said}");
    let table = betz(folder, "adapt m.betz d.npz");
    let said = String::from_utf8(table.stdout).unwrap();
    assert!(
        said.contains("0 accepted, 0 refused, 0 rolled back"),
        "{said}"
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    json(
        folder,
        "train a.npz --step 0.02 --filter 0.1:1 --ridge 2 --folds 0 --out plain.betz",
    );
    for (line, code, words) in [
        ("drift b.npz --at 5 --out x.npz", 2, "expected a change"),
        ("drift b.npz --lose 17 --at 5 --out x.npz", 2, "16 channels"),
        (
            "drift b.npz --lose 1 --at 15 --out x.npz",
            2,
            "expected a moment",
        ),
        (
            "drift b.npz --gain 0.7,0.2 --at 5 --out x.npz",
            2,
            "LOW <= HIGH",
        ),
        ("drift b.npz --gain 0.7,2 --at 5 --out x.npz", 2, "shares"),
        ("drift b.npz --lose 1 --at 5 --out x.csv", 2, ".npz"),
        ("adapt plain.betz b.npz", 1, "--retain"),
        ("adapt m.betz b.npz --half-life 0", 2, "half-life above 0"),
        ("adapt m.betz b.npz --batch 1", 2, "2 to 10,000"),
        ("adapt m.betz b.npz --window 0", 2, "--window"),
        (
            "adapt m.betz b.npz --shuffle-labels 3..9",
            2,
            "within 1 trial",
        ),
        (
            "adapt m.betz b.npz --out m.betz",
            2,
            "expected another file than",
        ),
    ] {
        refused(folder, line, code, words);
        assert!(!folder.join("x.npz").exists());
    }
}

#[test]
fn a_recurrent_model_is_adapted_without_stored_sums() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(
        folder,
        "simulate --out a.npz --test-out b.npz --neurons 16 --seconds 15 --test-seconds 15 --tick 0.001 --seed 3",
    );
    json(
        folder,
        "train a.npz --step 0.05 --filter 0.1:1 --folds 2 --decoder recurrent --layers 16 --epochs 10 --out r.betz",
    );
    let adapted = json(folder, "adapt r.betz b.npz --out n.betz");
    assert_eq!(adapted["decoder"], "recurrent");
    assert_eq!(
        (&adapted["trials"], &adapted["dropped"]),
        (&1.into(), &0.into())
    );
    assert!(
        adapted["effective_steps"].as_f64().unwrap() > 100.0,
        "{adapted}"
    );
    json(folder, "evaluate n.betz b.npz");
}

/// `recording` in trials of half a second; as a signal of both signs, or as it is.
fn in_trials(mut recording: Recording, signal: bool) -> Recording {
    if signal {
        let data = recording.align(0.02).unwrap();
        let steps = data.steps as i64;
        recording.tick_seconds = 0.02;
        recording.ticks = steps;
        recording.spikes = data.spikes;
        recording.spikes.weights = (0..recording.spikes.len())
            .map(|entry| if entry % 3 == 0 { -0.5 } else { 1.25 })
            .collect();
        recording.form = SpikeForm::Signal;
        let behavior = recording.behavior.as_mut().unwrap();
        (behavior.values, behavior.times) = (data.behavior, None);
    }
    let length = (0.5 / recording.tick_seconds).round() as i64;
    recording.segments = (0..recording.ticks / length)
        .map(|trial| Segment {
            start: trial * length,
            stop: (trial + 1) * length,
        })
        .collect();
    recording
}

/// R² of each output by a session of `data` that the trainer is stepped beside, and the model at the end.
fn stepped(model: &Decoder, data: &Dataset) -> (Vec<f64>, Vec<u8>) {
    let config = TrainerConfig {
        longest_trial_seconds: 1e6,
        ..TrainerConfig::default()
    };
    let mut session = Session::open(model, SessionConfig::default()).unwrap();
    let (tap, mut labels, mut worker) = Worker::open(model, config).unwrap();
    session.attach(Box::new(tap), 0).unwrap();
    if model.limits().blanking.is_some() {
        let watch = session.watch_channels(model, ChannelRules::default());
        worker.watch(watch.unwrap());
    }
    let mut swapper = session.swapper().unwrap();
    let width = session.outputs();
    let mut decoded = vec![f32::NAN; data.steps * width];
    for segment in &data.segments {
        session.reset();
        for step in segment.start..segment.stop {
            let now = data.spikes.range(step, step + 1);
            let at = step as usize * width..(step as usize + 1) * width;
            let out = &mut decoded[at.clone()];
            if data.spikes.weights.is_empty() {
                (session.step_spikes(&data.spikes.channels[now], out)).unwrap();
            } else {
                let mut row = vec![0.0; data.channels()];
                for entry in now {
                    row[data.spikes.channels[entry] as usize] += data.spikes.weight(entry);
                }
                session.step_values(&row, out).unwrap();
            }
            labels.label(&data.behavior[at]).unwrap();
        }
        labels.end_trial(true);
        while let Some(verdict) = worker.work().unwrap() {
            follow_verdict(&verdict, &worker, &mut swapper, &mut session).unwrap();
        }
    }
    let scores = score_estimates(data, &decoded, model.delay_steps()).unwrap();
    let r2 = scores.outputs.iter().map(|output| output.r2).collect();
    (r2, worker.model().to_bytes().unwrap())
}

#[test]
fn the_table_and_the_model_are_those_of_a_trainer_that_is_stepped_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(
        folder,
        "simulate --out a.npz --test-out c.npz --neurons 16 --seconds 15 --test-seconds 30 --tick 0.001 --seed 3",
    );
    json(
        folder,
        "drift c.npz --lose 4 --scream 2 --at 4 --seed 3 --out b.npz",
    );
    for signal in [false, true] {
        for name in ["a", "b"] {
            let recording = Recording::read_npz(&folder.join(format!("{name}.npz"))).unwrap();
            let to = folder.join(format!("{name}t.npz"));
            in_trials(recording, signal).write_npz(&to).unwrap();
        }
        json(
            folder,
            "train at.npz --step 0.02 --filter 0.1:1 --ridge 2 --folds 0 --retain --force --out m.betz",
        );
        let told = json(
            folder,
            "adapt m.betz bt.npz --half-life 120 --force --out n.betz",
        );
        let model = Decoder::load(&folder.join("m.betz")).unwrap();
        let recording = Recording::read_npz(&folder.join("bt.npz")).unwrap();
        let (r2, bytes) = stepped(&model, &recording.align(0.02).unwrap());
        assert_eq!(told["trials"], 60, "{told}");
        assert_ne!(told["windows"][0]["frozen"], told["windows"][0]["adapted"]);
        let adapted: Vec<f64> =
            serde_json::from_value(told["windows"][0]["adapted"].clone()).unwrap();
        assert_eq!(adapted, r2, "signal: {signal}");
        assert_eq!(std::fs::read(folder.join("n.betz")).unwrap(), bytes);
    }
}
