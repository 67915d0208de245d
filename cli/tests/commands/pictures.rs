//! Pictures say what they leave out.

use std::fs;
use std::path::Path;

use crate::fixtures;
use crate::program::{done, json, refused};

fn svg(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn a_raster_of_some_channels_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(folder, "simulate --out many.npz --neurons 110 --seconds 2");
    done(folder, "info many.npz --picture many.svg");
    assert!(svg(folder, "many.svg").contains("channel (100 of 110)"));
    fixtures::population(folder);
    done(folder, "info test.npz --picture info.svg");
    let info = svg(folder, "info.svg");
    assert!(
        info.contains("channel\n") && !info.contains("channel ("),
        "all are drawn"
    );
}

#[test]
fn one_trial_has_a_distribution_of_errors_in_place_of_trials() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::trained(folder);
    done(folder, "evaluate model.betz test.npz --picture one.svg");
    let one = svg(folder, "one.svg");
    assert!(one.contains("steps (one trial)") && !one.contains("R² (−1 or more)"));
}

#[test]
fn eight_populations_have_eight_colours() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(
        folder,
        "simulate --model pd14 --scale 0.01 --seconds 0.2 --picture pd14.svg",
    );
    let picture = svg(folder, "pd14.svg");
    // The legend's lines, 3 wide, one per population.
    let colours: std::collections::BTreeSet<&str> = picture
        .split("<polyline")
        .skip(1)
        .filter(|line| line.contains("stroke-width=\"3\""))
        .filter_map(|line| line.split("stroke=\"").nth(1)?.split('"').next())
        .collect();
    assert_eq!(colours.len(), 8, "{colours:?}");
}

#[test]
fn other_formats_are_refused_with_the_way_to_make_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    for (name, words) in [
        ("x.png", "rsvg-convert -f png x.svg -o x.png"),
        ("x.PDF", "rsvg-convert -f pdf x.svg -o x.PDF"),
        ("x.jpg", "expected a file ending in .svg"),
    ] {
        refused(folder, &format!("info test.npz --picture {name}"), 2, words);
        refused(folder, &format!("look test.npz --picture {name}"), 2, words);
    }
}
