//! `betz train --phases`: seconds of the parts of training.

use crate::fixtures;
use crate::program::{done, fails, json};

const TRAIN: &str = "train train.npz --step 0.005 --phases --out";

#[test]
fn the_parts_of_training_are_timed_and_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    for (number, (options, parts)) in [
        (
            "--filter 0.02:1 --folds 0 --ridge 1 --gram dense",
            &[
                "reading",
                "filtering",
                "gram",
                "upsilon",
                "factor",
                "weights",
            ][..],
        ),
        (
            "--filter 0.02:1 --folds 0 --ridge 1 --gram event --solver inverse",
            &["reading", "gram", "upsilon", "factor", "inverse", "weights"],
        ),
        (
            "--filter boxcar:50ms --folds 2 --units 3 --solver inverse",
            &["filtering", "gram", "inverse", "choosing", "scoring"],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let told = json(folder, &format!("{TRAIN} {number}.betz {options}"));
        let phases = told["phases"].as_object().unwrap();
        for part in parts {
            assert!(
                phases[*part].as_f64().unwrap() > 0.0,
                "{options}, {part}: {told}"
            );
        }
        assert_eq!(
            phases.contains_key("inverse"),
            options.contains("inverse"),
            "{told}"
        );
        // Parts do not overlap: training takes as long as all of them but reading.
        let sum: f64 = phases.values().map(|s| s.as_f64().unwrap()).sum();
        let trained = sum - phases["reading"].as_f64().unwrap();
        assert!(
            trained <= told["seconds"].as_f64().unwrap() + 1e-6,
            "{told}"
        );
        if !options.contains("--folds 2") {
            assert_eq!(phases["scoring"], 0.0);
        }
        if options.contains("event") {
            assert_eq!(phases["filtering"], 0.0);
        }
    }
    // Without the option nothing is timed, and the model is the same.
    let rest = "--filter 0.02:1 --folds 0 --ridge 1";
    let told = json(
        folder,
        &format!("train train.npz --out q.betz --step 0.005 --decoder linear {rest}"),
    );
    assert!(told.get("phases").is_none());
    let text = done(folder, &format!("{TRAIN} p.betz {rest}"));
    for word in ["reading", "Υ", "factor of Γ", "φ", "all else"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert_eq!(read("p.betz"), read("q.betz"));
}

#[test]
fn only_linear_training_has_these_parts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    for (options, says) in [
        ("--decoder lift", "expected --decoder linear"),
        ("--decoder auto", "got auto"),
        ("--memory 1GiB", "--memory"),
        ("--labels x>0", "--labels"),
    ] {
        fails(folder, &format!("{TRAIN} r.betz {options}"), says);
    }
}
