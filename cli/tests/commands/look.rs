//! `betz look`: numbers and pictures of a recording.

use std::fs;
use std::path::Path;

use betz::recording::{Recording, Segment, SpikeForm, Spikes};

use crate::fixtures;
use crate::program::{betz, done, json, refused};

/// `clock.npz`: four trials of a second, three channels: one fires 200 ms after each start, one every 5 ms, one never.
fn clock(folder: &Path) {
    let mut spikes: Vec<(i64, u32)> = (0..4).map(|trial| (trial * 1_000 + 200, 0)).collect();
    spikes.extend((0..800).map(|i| (i * 5, 1)));
    spikes.sort_unstable();
    let (ticks, channels) = spikes.into_iter().unzip();
    let recording = Recording {
        tick_seconds: 0.001,
        ticks: 4_000,
        spikes: Spikes::new(ticks, channels),
        channel_names: ["late", "steady", "silent"].map(str::to_owned).to_vec(),
        behavior: None,
        segments: (0..4)
            .map(|i| Segment {
                start: i * 1_000,
                stop: (i + 1) * 1_000,
            })
            .collect(),
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    };
    recording.write_npz(&folder.join("clock.npz")).unwrap();
}

#[test]
fn units_are_described() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    clock(folder);
    let told = json(folder, "look clock.npz --intervals=20ms");
    assert_eq!(told["seconds_in_segments"], 4.0);
    let units = told["units"].as_array().unwrap();
    assert_eq!(
        (&units[0]["rate_hz"], &units[1]["rate_hz"]),
        (&1.0.into(), &200.0.into())
    );
    assert_eq!(
        (&units[1]["cv"], &units[1]["refractory_violations"]),
        (&0.0.into(), &0.into())
    );
    assert!(units[2]["contamination"].is_null(), "{units:?}");
    // 199 intervals of 5 ms in each of four trials; none crosses from one to the next.
    assert_eq!(told["intervals"]["counts"][25], 796);
    assert_eq!(told["intervals"]["bins"], 20);
    let strict = json(folder, "look clock.npz --refractory 6ms --channels steady");
    assert_eq!(strict["units"][0]["refractory_violations"], 796);
    let table = done(folder, "look clock.npz");
    assert!(
        table.contains("3 channels, 1 silent, 4.0 s in 4 segments of 4.0 s"),
        "{table}"
    );
    assert!(
        table
            .lines()
            .any(|line| line.starts_with("steady") && line.contains("200.00")),
        "{table}"
    );
}

#[test]
fn rates_follow_events_however_they_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    clock(folder);
    fs::write(
        folder.join("cues.csv"),
        "time,name\n0,a\n1000ms,b\n2,c\n3,d\n",
    )
    .unwrap();
    let look = "look clock.npz --channels 0..2 --window=0s..0.5s --bin 100ms --raster --align";
    let starts = json(folder, &format!("{look} starts"));
    assert_eq!(starts["response"]["events"], 4);
    let mean: Vec<f64> = starts["response"]["mean_hz"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap())
        .collect();
    assert_eq!(mean[..5], [0.0, 0.0, 10.0, 0.0, 0.0]);
    assert!(
        mean[5..].iter().all(|rate| (rate - 200.0).abs() < 1e-9),
        "{mean:?}"
    );
    assert_eq!(
        starts["rasters"][0]["seconds"],
        serde_json::json!([0.2, 0.2, 0.2, 0.2])
    );
    for events in ["cues.csv", "0,1s,2000ms,3"] {
        let told = json(folder, &format!("{look} {events}"));
        assert_eq!(
            told["response"]["mean_hz"], starts["response"]["mean_hz"],
            "{events}"
        );
    }
    let some = json(folder, &format!("{look} starts --segments 1..3"));
    assert_eq!(some["response"]["events"], 2);
    // The window of the first trial begins before the recording: it is left out, and that is said.
    let text = done(folder, "look clock.npz --align starts --window=-0.5s..0.5s");
    assert!(
        text.contains("3 events of `starts`") && text.contains("1 left out"),
        "{text}"
    );
    for (options, code, words) in [
        ("--align never", 2, "expected starts, stops, times"),
        ("--align 99", 1, "none of 1"),
        ("--align starts --bin 7ms", 2, "whole number of bins"),
        ("--align starts --window=1..0", 2, "FROM first"),
        ("--tune x", 1, "without"),
        ("--channels 3", 2, "below 3"),
        ("--channels 1..9", 2, "half-open"),
        ("--segments 4", 2, "below 4"),
        ("--raster", 2, "--align"),
        ("--refractory 0", 2, "above 0 s"),
    ] {
        refused(folder, &format!("look clock.npz {options}"), code, words);
    }
}

#[test]
fn tuning_is_shown_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    for (variable, bins) in [
        ("x", 8),
        ("map:x,y", 64),
        ("direction:x,y", 8),
        ("speed-of-change:x,y", 8),
    ] {
        let told = json(
            folder,
            &format!("look train.npz --tune {variable} --lag=30ms --channels 0..5"),
        );
        let tuning = &told["tuning"];
        assert_eq!(
            tuning["occupancy_seconds"].as_array().unwrap().len(),
            bins,
            "{variable}"
        );
        assert_eq!(tuning["rate_hz"].as_array().unwrap().len(), 5 * bins);
        assert_eq!(tuning["steps_without_value"], 6, "lag of six steps of 5 ms");
        let picture = format!("{}.svg", variable.replace([':', ','], "-"));
        done(
            folder,
            &format!("look train.npz --tune {variable} --align 3,9.5 --picture {picture}"),
        );
        let svg = fs::read_to_string(folder.join(&picture)).unwrap();
        assert!(svg.contains("12 of 30 channels shown"), "{variable}");
    }
    let text = done(folder, "look train.npz --tune direction:x,y");
    assert!(
        text.contains("preferred °") && text.contains("tuning to direction of x, y in 8 bins"),
        "{text}"
    );
    refused(folder, "look train.npz --tune z", 2, "(x, y)");
    refused(
        folder,
        "look train.npz --tune x --tune-bins 1",
        2,
        "at least 2 bins",
    );
}

#[test]
fn binned_counts_have_no_intervals_and_signals_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    clock(folder);
    let events = Recording::read_npz(&folder.join("clock.npz")).unwrap();
    let binned = events.align(0.02).unwrap();
    let counts = Recording {
        tick_seconds: 0.02,
        ticks: binned.steps as i64,
        spikes: Spikes {
            weights: vec![1.0; binned.spikes.len()],
            ..binned.spikes.clone()
        },
        segments: binned.segments.clone(),
        form: SpikeForm::Counts,
        ..events.clone()
    };
    counts.write_npz(&folder.join("counts.npz")).unwrap();
    let told = json(
        folder,
        "look counts.npz --align starts --window=0..0.5 --bin 20ms --picture c.svg",
    );
    assert!(told["units"][0]["refractory_violations"].is_null());
    assert_eq!(told["response"]["mean_hz"][10], 50.0);
    refused(
        folder,
        "look counts.npz --intervals",
        2,
        "expected spike times",
    );
    let signal = Recording {
        form: SpikeForm::Signal,
        ..counts
    };
    signal.write_npz(&folder.join("signal.npz")).unwrap();
    refused(folder, "look signal.npz", 2, "got a signal");
    let output = betz(folder, "look none.npz");
    assert_eq!(output.status.code(), Some(1));
}
