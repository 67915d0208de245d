//! `betz som` on the command line.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use betz::recording::arrays::{Array, Arrays, write};

use crate::program::{fails, json, refused};

/// 300 samples of four numbers in three heaps.
fn heaps(folder: &Path) {
    let values: Vec<f32> = (0..1200)
        .map(|i| ((i / 4) % 3 * 5) as f32 + ((i * 31) % 17) as f32 / 17.0)
        .collect();
    write(
        &folder.join("data.npz"),
        &[("data", Array::F32(&[300, 4], &values))],
    )
    .unwrap();
}

/// A bitmap of 20 x 10: red above, blue below.
fn bitmap(folder: &Path) {
    let mut bytes = vec![0_u8; 54];
    bytes[..2].copy_from_slice(b"BM");
    bytes[10] = 54;
    bytes[14] = 40;
    bytes[18] = 20;
    bytes[22] = 10;
    bytes[26] = 1;
    bytes[28] = 24;
    for row in 0..10 {
        for _ in 0..20 {
            bytes.extend(if row < 5 { [255, 0, 0] } else { [0, 0, 255] });
        }
    }
    std::fs::write(folder.join("flag.bmp"), bytes).unwrap();
}

#[test]
fn maps_are_trained_both_ways_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    heaps(folder);
    for more in [
        "",
        "--exact",
        "--hex",
        "--torus",
        "--hex --torus",
        "--online --neighbourhood gaussian --radius 3,1 --rate 0.2,0.02",
    ] {
        let made = json(
            folder,
            &format!("som data.npz --map 6x5 --out map.npz {more}"),
        );
        assert!(
            made["quantisation_error"].as_f64().unwrap() < 1.5,
            "{more}: {made}"
        );
        assert_eq!(made["samples"].as_u64(), Some(300));
        let mut arrays = Arrays::open(&folder.join("map.npz")).unwrap();
        let weights = arrays.numbers::<f32>("weights", 3).unwrap().unwrap();
        assert_eq!(weights.shape, [6, 5, 4]);
        let hits = arrays.numbers::<u32>("hits", 2).unwrap().unwrap();
        assert_eq!(hits.values.iter().sum::<u32>(), 300);
    }
    // The node of each sample is in the file, and what hits count.
    let mut arrays = Arrays::open(&folder.join("map.npz")).unwrap();
    let winners = arrays.numbers::<u32>("winners", 1).unwrap().unwrap().values;
    let distances = arrays
        .numbers::<f32>("distances", 1)
        .unwrap()
        .unwrap()
        .values;
    let mut counted = vec![0_u32; 30];
    winners.iter().for_each(|w| counted[*w as usize] += 1);
    assert_eq!(
        counted,
        arrays.numbers::<u32>("hits", 2).unwrap().unwrap().values
    );
    assert_eq!(distances.len(), 300);
    bitmap(folder);
    let made = json(
        folder,
        "som flag.bmp --map 8x8 --online --epochs 4 --radius 4,1 --stages 3 --picture flag.png --out map.npz",
    );
    assert_eq!(made["samples"].as_u64(), Some(200));
    let drawn = made["pictures"].as_array().unwrap();
    assert_eq!(drawn.len(), 5);
    for picture in drawn {
        let bytes = std::fs::read(folder.join(picture.as_str().unwrap())).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"));
    }
    // A picture is data, too, and an earlier one is replaced.
    let again = json(
        folder,
        "som flag.png --map 4x4 --picture map.png --out other.npz",
    );
    assert_eq!(again["dims"].as_u64(), Some(3));
    json(
        folder,
        "som data.npz --map 4x4 --picture map.png --out other.npz",
    );
}

#[test]
fn maps_of_any_layout_and_metric_keep_them_in_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    heaps(folder);
    std::fs::write(folder.join("ring.csv"), "x,y\n0,0\n1,0\n2,0.5\n1,1\n0,1\n").unwrap();
    let corners: Vec<f64> = (0..24).map(|i| f64::from(i >> (i % 3) & 1)).collect();
    write(
        &folder.join("corners.npz"),
        &[("positions", Array::F64(&[8, 3], &corners))],
    )
    .unwrap();
    for (more, shape) in [
        ("--map 3x4x2 --torus", vec![3, 4, 2]),
        ("--map 2x4x3 --hex --metric cosine", vec![2, 4, 3]),
        ("--positions ring.csv --metric manhattan", vec![5]),
        ("--positions corners.npz --online --epochs 3", vec![8]),
        ("--map 4x5 --metric correlation", vec![4, 5]),
        (
            "--map 4x5 --metric chebyshev --online --epochs 3",
            vec![4, 5],
        ),
    ] {
        let made = json(
            folder,
            &format!("som data.npz --out map.npz {more} --picture map.png --force"),
        );
        let picture = std::fs::read(folder.join("map.png")).unwrap();
        assert!(picture.starts_with(b"\x89PNG"));
        let mut arrays = Arrays::open(&folder.join("map.npz")).unwrap();
        let axes = shape.len();
        let hits = arrays.numbers::<u32>("hits", axes).unwrap().unwrap();
        let weights = arrays.numbers::<f32>("weights", axes + 1).unwrap().unwrap();
        assert_eq!(
            (&hits.shape, &weights.shape[..axes]),
            (&shape, &shape[..]),
            "{more}"
        );
        let winners = arrays.numbers::<u32>("winners", 1).unwrap().unwrap().values;
        let distances = arrays
            .numbers::<f32>("distances", 1)
            .unwrap()
            .unwrap()
            .values;
        // The same data on the map that was read again.
        let again = json(
            folder,
            "som assign map.npz data.npz --out nodes.npz --force",
        );
        let mut nodes = Arrays::open(&folder.join("nodes.npz")).unwrap();
        let found = nodes.numbers::<u32>("winners", 1).unwrap().unwrap().values;
        assert_eq!(found, winners, "{more}");
        let found = nodes
            .numbers::<f32>("distances", 1)
            .unwrap()
            .unwrap()
            .values;
        assert_eq!(found, distances, "{more}");
        let error = |report: &serde_json::Value| report["quantisation_error"].as_f64().unwrap();
        assert!(
            (error(&made) - error(&again)).abs() < 1e-6,
            "{more}: {made} {again}"
        );
    }
}

#[test]
fn maps_of_earlier_versions_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    heaps(folder);
    let weights: Vec<f32> = (0..24).map(|i| i as f32 / 2.0).collect();
    let meta =
        ["{\"map_of\": \"data.npz\", \"lattice\": \"hexagonal\", \"torus\": true}".to_owned()];
    write(
        &folder.join("old.npz"),
        &[
            ("weights", Array::F32(&[2, 3, 4], &weights)),
            ("meta", Array::Text(&[], &meta)),
        ],
    )
    .unwrap();
    let made = json(folder, "som assign old.npz data.npz --out nodes.npz");
    assert_eq!(made["nodes"].as_u64(), Some(6));
    fails(
        folder,
        "som assign old.npz other.npz --out more.npz",
        "other.npz",
    );
    write(
        &folder.join("wide.npz"),
        &[("data", Array::F32(&[1, 2], &[1.0, 2.0]))],
    )
    .unwrap();
    fails(
        folder,
        "som assign old.npz wide.npz --out more.npz",
        "expected samples of 4 numbers, got 2",
    );
    fails(
        folder,
        "som assign data.npz wide.npz --out more.npz",
        "expected a map that betz som wrote",
    );
}

#[test]
fn what_is_no_map_or_no_data_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    heaps(folder);
    bitmap(folder);
    let flag = std::fs::read(folder.join("flag.bmp")).unwrap();
    std::fs::write(folder.join("cut.bmp"), &flag[..flag.len() - 1]).unwrap();
    std::fs::write(folder.join("not.png"), "no picture").unwrap();
    std::fs::write(folder.join("notes.png"), "mine").unwrap();
    write(
        &folder.join("nan.npz"),
        &[("data", Array::F32(&[2, 1], &[1.0, f32::NAN]))],
    )
    .unwrap();
    std::fs::write(folder.join("odd.csv"), "0,1\n2\n").unwrap();
    std::fs::write(folder.join("wide.csv"), "0,1,2,3\n").unwrap();
    for (line, words) in [
        ("som data.npz --map 2x3x0", "expected 1 to"),
        ("som data.npz --map 2x2x2x2", "layers, rows and columns"),
        (
            "som data.npz --positions odd.csv",
            "odd.csv, line 2: expected 2 numbers",
        ),
        ("som data.npz --positions wide.csv", "one to three numbers"),
        ("som data.npz --positions data.npz", "an array `positions`"),
        (
            "som data.npz --online --neighbourhood gaussian --disc closed",
            "expected --neighbourhood disc, got gaussian",
        ),
        ("som data.npz --map 0x5", "expected 1 to"),
        ("som data.npz --map 9999999x9999999", "expected 1 to"),
        (
            "som data.npz --map five",
            "--map: expected rows and columns",
        ),
        (
            "som data.npz --map 3x4 --hex --torus",
            "even number of rows",
        ),
        ("som data.npz --epochs 0", "expected one at least"),
        ("som data.npz --radius 0,-1", "last radius: expected"),
        ("som data.npz --online --rate 2", "learning rate"),
        ("som data.npz --array other", "`other`"),
        (
            "som nan.npz",
            "sample 1, number 0: expected a finite number",
        ),
        ("som cut.bmp", "expected 20 x 10 pixels"),
        ("som not.png", "not.png"),
        ("som missing.npz", "missing.npz"),
    ] {
        fails(folder, &format!("{line} --out map.npz"), words);
    }
    refused(
        folder,
        "som data.npz --picture notes.png --out map.npz",
        2,
        "notes.png",
    );
    assert!(!folder.join("map.npz").exists());
}
