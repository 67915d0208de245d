//! The commands as a user runs them: simulate, train, evaluate, stream, and what they refuse.

use betz::recording::{Behavior, Recording, Segment, SpikeForm};

use crate::fixtures::{self, POPULATION, TRAIN};
use crate::program::{betz, json, refused};

#[test]
fn a_recording_goes_all_the_way_and_streaming_equals_batch() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let train = format!("{TRAIN} --delay 0.03");
    let trained = json(folder, &train);
    assert_eq!(trained["channels"], 30);
    assert_eq!(trained["folds"], 5);

    let evaluated = json(folder, "evaluate model.betz test.npz");
    let streamed = json(folder, "stream model.betz test.npz");
    for key in ["name", "r2", "nrmse_range", "nrmse_std", "rmse", "unit"] {
        assert!(evaluated["outputs"][0].get(key).is_some(), "no {key}");
    }
    for o in 0..2 {
        let cross_validated = trained["outputs"][o]["r2"].as_f64().unwrap();
        let batch = evaluated["outputs"][o]["r2"].as_f64().unwrap();
        let stream = streamed["outputs"][o]["r2"].as_f64().unwrap();
        assert!(batch > 0.8, "R² {batch}");
        assert!((cross_validated - batch).abs() < 0.1);
        assert!(
            (batch - stream).abs() < 1e-5,
            "batch {batch}, stream {stream}"
        );
    }
    assert_eq!(evaluated["steps"], 1000);
    assert_eq!(evaluated["segments"], 1);
    assert_eq!(streamed["latency_us"]["steps"], 1000);
    assert_eq!(streamed["dropped"], 0);
    for key in ["p50", "p99", "p99_9", "max"] {
        assert!(streamed["latency_us"][key].as_f64().unwrap() >= 0.0);
    }
    let counts = json(folder, "stream model.betz test.npz --counts");
    let (a, b) = (&counts["outputs"][0]["r2"], &streamed["outputs"][0]["r2"]);
    assert!((a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-9);
}

#[test]
fn the_same_seed_writes_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::trained(folder);
    let first = std::fs::read(folder.join("model.betz")).unwrap();
    json(folder, &format!("{POPULATION} --force"));
    json(folder, TRAIN);
    assert!(first == std::fs::read(folder.join("model.betz")).unwrap());
}

#[test]
fn multi_unit_models_run_on_the_single_units_recording() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let train = format!("{TRAIN} --units 3");
    assert_eq!(json(folder, &train)["channels"], 10);
    let evaluated = json(folder, "evaluate model.betz test.npz");
    assert!(evaluated["outputs"][0]["r2"].as_f64().unwrap() > 0.4);
}

#[test]
fn parts_of_a_recording_are_trained_and_scored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let train = format!("{TRAIN} --until 15");
    assert_eq!(json(folder, &train)["steps"], 3000);
    let rest = json(
        folder,
        "evaluate model.betz train.npz --from 15 --out out.csv",
    );
    assert_eq!(rest["steps"], 1000);
    let csv = std::fs::read_to_string(folder.join("out.csv")).unwrap();
    assert!(csv.starts_with("step,start_seconds,end_seconds,x,x_true,y,y_true\n3000,15,15.005,"));
    assert_eq!(csv.lines().count(), 1001);
}

#[test]
fn segments_are_numbered_as_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::trained(folder);
    // Ten trials of 500 ms; the first four are before there is any behaviour.
    let mut recording = Recording::read_npz(&folder.join("test.npz")).unwrap();
    let trial = recording.ticks / 10;
    recording.segments = (0..10)
        .map(|i| Segment {
            start: i * trial,
            stop: (i + 1) * trial,
        })
        .collect();
    let behavior = recording.behavior.as_mut().unwrap();
    let first = behavior.samples() * 4 / 10;
    let tick = recording.tick_seconds;
    behavior.times = Some(
        (first..behavior.samples())
            .map(|i| (i + 1) as f64 * tick)
            .collect(),
    );
    behavior.values.drain(..first * 2);
    recording.write_npz(&folder.join("trials.npz")).unwrap();

    let evaluate = |segments| {
        let evaluate = "evaluate model.betz trials.npz --out out.csv --segments";
        json(folder, &format!("{evaluate} {segments}"))
    };
    assert_eq!(evaluate("7")["segments"], 1);
    let csv = std::fs::read_to_string(folder.join("out.csv")).unwrap();
    let seconds: f64 = csv
        .lines()
        .nth(1)
        .unwrap()
        .split(',')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert!((seconds - 3.5).abs() < 0.01, "{seconds}");
    assert_eq!(evaluate("2..6")["segments"], 2);
    let evaluate = "evaluate model.betz trials.npz --segments";
    refused(folder, &format!("{evaluate} 0..3"), 1, "trials.npz");
    refused(folder, &format!("{evaluate} 10"), 2, "below 10");
}

#[test]
fn bad_input_is_refused_with_the_right_code_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    refused(folder, "train train.npz", 2, "--out");
    refused(folder, "train none.npz --out m", 1, "none.npz");
    refused(folder, "train . --out m", 1, "directory");
    for (options, words) in [
        ("--bank nope", "expected auto or one of"),
        ("--filter 0.1", "TAU:ORDER"),
        ("--filter -1:1", "tau > 0"),
        ("--step 0", "'--step <SECONDS>': expected a time above 0 s"),
        ("--folds x", "'--folds <FOLDS>': expected a whole number"),
        ("--units 0", "1 to 30"),
        ("--units 31", "1 to 30"),
        ("--segments 0..9", "--segments"),
        ("--device gpu", "'--device <DEVICE>': expected auto, cpu"),
        ("--noise nan", "at least 0"),
        ("--max-gap 0", "--max-gap"),
    ] {
        refused(
            folder,
            &format!("train train.npz --out m {options}"),
            2,
            words,
        );
    }
    let nowhere = "train train.npz --out nowhere/m";
    refused(folder, nowhere, 2, "a folder that is there");
    assert!(!folder.join("m").exists());

    json(folder, TRAIN);
    let bytes = std::fs::read(folder.join("model.betz")).unwrap();
    std::fs::write(folder.join("half.betz"), &bytes[..bytes.len() / 2]).unwrap();
    let slow = "stream model.betz test.npz --speed 1e-30";
    refused(folder, slow, 2, "--speed");
    let simulate = "simulate --out a.npz --seconds 1";
    let over = format!("{simulate} --test-out a.npz");
    refused(folder, &over, 2, "another file than --out");
    let device = format!("{simulate} --device gpu");
    refused(folder, &device, 2, "expected auto, cpu");
    assert!(!folder.join("a.npz").exists());
    refused(folder, "evaluate half.betz test.npz", 1, "half.betz");
    let swapped = "evaluate train.npz test.npz";
    refused(folder, swapped, 1, "an archive such as a recording");
    let swapped = "train model.betz --out m";
    refused(folder, swapped, 1, "got a Betz model; give the recording");
    let npz = std::fs::read(folder.join("test.npz")).unwrap();
    std::fs::write(folder.join("cut.npz"), &npz[..npz.len() / 2]).unwrap();
    refused(folder, "evaluate model.betz cut.npz", 1, "cut.npz");
    json(folder, "simulate --out few.npz --neurons 3 --seconds 2");
    refused(
        folder,
        "stream model.betz few.npz",
        1,
        "27 of the 30 expected",
    );
}

#[test]
fn a_model_of_spikes_does_not_take_a_signal_nor_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let events = Recording::read_npz(&folder.join("train.npz")).unwrap();
    let counts = events.align(0.005).unwrap();
    let behavior = Behavior {
        outputs: counts.outputs,
        values: counts.behavior,
        times: None,
    };
    let signal = Recording {
        tick_seconds: 0.005,
        ticks: counts.steps as i64,
        spikes: counts.spikes,
        segments: counts.segments,
        behavior: Some(behavior),
        form: SpikeForm::Signal,
        ..events
    };
    signal.write_npz(&folder.join("signal.npz")).unwrap();
    json(folder, TRAIN);
    json(
        folder,
        "train signal.npz --decoder linear --out signal.betz --filter 0.02:1 --delay 0.03",
    );
    json(folder, "evaluate signal.betz signal.npz");
    json(folder, "evaluate model.betz train.npz");
    for command in ["evaluate", "stream"] {
        let spikes = "expected a signal (`signal`), which the model was trained on, got spikes";
        refused(
            folder,
            &format!("{command} signal.betz train.npz"),
            1,
            spikes,
        );
        let signal = "which the model was trained on, got a signal (`signal`)";
        refused(
            folder,
            &format!("{command} model.betz signal.npz"),
            1,
            signal,
        );
    }
    let info = json(folder, "info signal.betz");
    assert_eq!(info["of_signal"], true);
    let said = String::from_utf8(betz(folder, "info signal.betz").stdout).unwrap();
    assert!(said.contains("and a signal (Γ"), "{said}");
}

#[test]
fn help_and_info_work_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for command in [
        "demo", "simulate", "train", "evaluate", "stream", "mine", "info",
    ] {
        assert!(betz(folder, &format!("{command} --help")).status.success());
    }
    let info = json(folder, "info");
    assert!(info["version"].is_string() && info["device"].is_string());
    let before = &info["calibration"];
    assert_eq!(before["measured_on"].as_array().unwrap().len(), 0);
    let calibrated = json(folder, "info --calibrate --device cpu");
    let timings = calibrated["calibration"]["timings"].as_array().unwrap();
    let of = |name: &str| timings.iter().filter(|t| t["model"] == name).count();
    assert!(of("gram.event.cpu") > 3 && of("gram.dense.cpu") > 3 && of("solve.cpu") > 3);
    // Kept, and read back by the next command.
    let after = &json(folder, "info")["calibration"];
    assert_eq!(
        after["measured_on"],
        calibrated["calibration"]["measured_on"]
    );
    assert_eq!(betz(folder, "").status.code(), Some(2));
}

/// The demo trains on a CUDA device; without one it gives the reason, and leaves nothing behind.
#[test]
fn the_demo_trains_on_a_device_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = "demo --neurons 12 --device cuda --json";
    let output = betz(folder, line);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for decoder in told["decoders"].as_array().unwrap() {
            let device = decoder["device"].as_str().unwrap();
            assert!(device.starts_with("cuda"), "{device}");
        }
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("cuda"), "{errors}");
    assert!(!folder.join("betz-demo.svg").exists());
    refused(folder, "demo --device gpu", 2, "gpu");
}

/// A delay is searched for as far as it is asked for, and found where the spikes put it.
#[test]
fn delays_are_searched_for_over_long_lags() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let train = "train train.npz --step 0.005 --decoder linear --folds 0 --ridge 1";
    let delay = |search: &str, filter: &str| {
        let number = search.len() + filter.len();
        let line = format!("{train} --out {number}.betz --filter {filter} --delay {search}");
        json(folder, &line)["delay_seconds"].as_f64().unwrap()
    };
    let own = delay("auto", "0.02:1");
    assert!(own.abs() < 0.1, "{own}");
    assert!((delay("auto:2s", "0.02:1") - own).abs() < 1e-9);
    // A filter that begins 1.5 s late is beyond half a second.
    let late = delay("auto:2s", "boxcar:40ms@1500ms");
    assert!((late - 1.5).abs() < 0.1, "{late}");
    assert!(delay("auto", "boxcar:40ms@1500ms").abs() <= 0.5);
    let train = "train train.npz --out x.betz --step 0.005 --filter 0.02:1 --decoder linear";
    for wrong in ["auto:", "auto:0s", "auto:-1s", "automatic", "auto:x"] {
        refused(folder, &format!("{train} --delay {wrong}"), 2, "auto:TIME");
    }
    refused(
        folder,
        &format!("{train} --memory 1GiB --delay auto:1s"),
        2,
        "--delay auto",
    );
}
