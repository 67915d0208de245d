//! `betz compare`: kinds of decoders on the same folds.

use std::fs;

use crate::fixtures;
use crate::program::{done, json, refused};

#[test]
fn kinds_are_compared_on_the_same_folds() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let line = "compare train.npz --bank single --folds 3 --delay 30ms --step 10ms";
    let told = json(
        folder,
        &format!("{line} --decoders linear,kalman,lift --picture kinds.svg"),
    );
    let kinds = told["kinds"].as_array().unwrap();
    let names: Vec<&str> = kinds
        .iter()
        .map(|k| k["decoder"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["linear", "kalman", "lift"]);
    for kind in kinds {
        assert_eq!(kind["outputs"].as_array().unwrap().len(), 2);
        assert!(kind["r2"].as_f64().unwrap() > 0.5, "{kind}");
        assert!(kind["multiply_adds"].as_f64().unwrap() > 0.0, "{kind}");
        assert!(kind["step_us"].as_f64().unwrap() > 0.0 && kind["seconds"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(kinds[0]["gain"], 0.0);
    // The scores are those that `train` finds for the kind alone, on the same folds.
    let train = "train train.npz --out lift.betz --bank single --folds 3 --delay 30ms --step 10ms";
    let lift = json(folder, &format!("{train} --decoder lift"));
    assert_eq!(lift["kinds"][1]["r2"], kinds[2]["r2"]);
    assert_eq!(lift["kinds"][0]["r2"], kinds[0]["r2"]);
    let svg = fs::read_to_string(folder.join("kinds.svg")).unwrap();
    for name in names {
        assert!(svg.contains(name), "{name}");
    }
}

#[test]
fn a_kind_that_cannot_be_trained_is_named_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let line = "compare train.npz --bank single --folds 2";
    // A decoder of place would need more cells than this recording's outputs allow for; ReFIT wants velocities.
    let told = json(folder, &format!("{line} --decoders refit"));
    assert_eq!(told["kinds"].as_array().unwrap().len(), 1);
    assert_eq!(told["kinds"][0]["decoder"], "linear");
    assert_eq!(
        (&told["failed"][0]["decoder"], &told["best"]),
        (&"refit".into(), &"linear".into())
    );
    assert!(!told["failed"][0]["reason"].as_str().unwrap().is_empty());
    let text = done(folder, &format!("{line} --decoders refit"));
    assert!(text.contains("refit: not trained: "), "{text}");
    for (options, words) in [
        ("--folds 1", "expected 2 to 1000"),
        ("--folds 0", "expected 2 to 1000"),
        ("--decoders best", "--decoders"),
        ("--decoders gru", "recurrent"),
        ("--bank nope", "--bank"),
        ("--step 0", "above 0 s"),
    ] {
        refused(folder, &format!("compare train.npz {options}"), 2, words);
    }
}

#[test]
fn the_recurrent_kind_takes_part() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let line =
        "compare train.npz --bank single --folds 2 --step 20ms --decoders recurrent --epochs 1";
    let told = json(folder, line);
    assert_eq!(told["kinds"][1]["decoder"], "recurrent");
    assert_eq!(told["kinds"][1]["outputs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_blend_and_its_members_are_scored_on_what_they_were_not_trained_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let line = "compare train.npz --bank single --folds 3 --step 50ms --epochs 4 --decoders auto";
    let told = json(folder, line);
    assert_eq!(told["kinds"].as_array().unwrap().len(), 1);
    let rows = told["blend"]["rows"].as_array().unwrap();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["decoder"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["linear", "lift", "experts", "recurrent", "blend"]);
    let weights: f64 = rows.iter().filter_map(|row| row["weight"].as_f64()).sum();
    assert!((weights - 1.0).abs() < 1e-9, "{rows:?}");
    let best = rows
        .iter()
        .map(|row| row["r2"].as_f64().unwrap())
        .fold(f64::MIN, f64::max);
    let named = rows
        .iter()
        .find(|row| row["decoder"] == told["best"])
        .unwrap();
    assert_eq!(named["r2"].as_f64().unwrap(), best);
    assert!(told["blend"]["step_us"].as_f64().unwrap() > 0.0);
    let text = done(folder, line);
    assert!(
        text.contains("on 3 parts that come after the training"),
        "{text}"
    );
}

#[test]
fn rates_stand_beside_the_temporal_code_on_single_and_multi_unit_channels() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let line = "compare train.npz --decoders linear --folds 3 --step 10ms --filter 0.02:1 --rates 30ms,100ms";
    let told = json(folder, &format!("{line} --units 3"));
    let rows = told["codes"].as_array().unwrap();
    let row = |i: usize, name: &str| rows[i][name].clone();
    let kinds: Vec<(u64, String, u64)> = (0..rows.len())
        .map(|i| {
            let code = row(i, "code").as_str().unwrap().to_owned();
            (
                row(i, "units").as_u64().unwrap(),
                code,
                row(i, "channels").as_u64().unwrap(),
            )
        })
        .collect();
    let of = |units, code: &str, channels| (units, code.to_owned(), channels);
    let expected = [
        of(1, "rate", 30),
        of(1, "rate", 30),
        of(1, "temporal", 30),
        of(3, "rate", 10),
        of(3, "rate", 10),
        of(3, "temporal", 10),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(rows[1]["filters"][0]["name"], "boxcar:0.1s");
    // A rate is a boxcar: `train` scores the same.
    let train = "train train.npz --out rate.betz --decoder linear --folds 3 --step 10ms --filter boxcar:100ms";
    let trained = json(folder, train);
    let mean = (0..2)
        .map(|o| trained["outputs"][o]["r2"].as_f64().unwrap() / 2.0)
        .sum::<f64>();
    assert!((rows[1]["r2"].as_f64().unwrap() - mean).abs() < 1e-12);
    let multi = json(
        folder,
        &format!("{} --units 3", train.replace("rate.betz", "multi.betz")),
    );
    assert_eq!(rows[4]["outputs"], multi["outputs"]);
    assert_eq!(rows[2]["outputs"], told["kinds"][0]["outputs"]);
    let text = done(folder, line);
    assert!(
        text.contains("rate") && text.contains("30 single units"),
        "{text}"
    );
    for (options, code, words) in [
        ("--rates 30ms --units 1", 2, "expected 2 to 30"),
        ("--rates 30ms --units 31", 2, "expected 2 to 30"),
        ("--units 3", 2, "--rates"),
        ("--rates 0ms", 2, "above 0"),
        ("--rates 1e9s", 2, "--rates"),
    ] {
        refused(
            folder,
            &format!("compare train.npz --decoders linear --step 10ms --folds 2 {options}"),
            code,
            words,
        );
    }
}
