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
    for (line, words) in [
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
