//! `betz sort import`: a folder as Kilosort4 and Phy make it becomes a sorter, and a damaged one is refused by name.

use std::path::{Path, PathBuf};

use betz_testkit::npy::Array;

use crate::program::{done, fails, json};
use crate::sorting::trained;

const IMPORT: &str = "sort import phy --voltage raw.dat --gain 0.195 --out imported.betz";

/// A little-endian array of NumPy's format.
fn npy(path: &Path, kind: &str, shape: &str, data: &[u8]) {
    std::fs::write(path, Array::new("", kind, shape, data.to_vec()).npy()).unwrap();
}

/// Writes the spikes of a sorter to `spikes.npz` and the folder `phy`. Returns its path and its clusters.
fn write_phy(folder: &Path) -> (PathBuf, Vec<u32>) {
    trained(folder);
    done(
        folder,
        "sort run s.betz raw.dat --channels 4 --out spikes.npz --phy phy",
    );
    let phy = folder.join("phy");
    let info = std::fs::read_to_string(phy.join("cluster_info.tsv")).unwrap();
    let ids: Vec<u32> = (info.lines().skip(1))
        .map(|line| line.split('\t').next().unwrap().parse().unwrap())
        .collect();
    assert!(ids.len() >= 4);
    (phy, ids)
}

#[test]
fn units_of_a_folder_become_a_sorter() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_, ids) = write_phy(folder);
    // Without labels all units are taken; what the sorter finds agrees with the folder, and so does a run of it.
    let told = json(folder, IMPORT);
    let units = told["units"].as_array().unwrap();
    assert_eq!(units.len(), ids.len(), "{told}");
    let well = units
        .iter()
        .filter(|u| u["accuracy"].as_f64().unwrap() > 0.8);
    assert!(well.count() + 1 >= ids.len(), "{told}");
    json(
        folder,
        "sort run imported.betz raw.dat --channels 4 --out again.npz",
    );
    let before = json(folder, "sort score spikes.npz truth.npz");
    let after = json(folder, "sort score again.npz truth.npz");
    let accuracy = |score: &serde_json::Value| score["accuracy"].as_f64().unwrap();
    assert!(
        accuracy(&after) > accuracy(&before) - 0.1,
        "{before} {after}"
    );
}

#[test]
fn labels_choose_units_and_those_by_hand_win_over_kilosorts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (phy, ids) = write_phy(folder);
    let labels = |kind: &dyn Fn(usize) -> &'static str| {
        let rows = ids
            .iter()
            .enumerate()
            .map(|(i, id)| format!("{id}\t{}\n", kind(i)));
        format!("cluster_id\tgroup\n{}", rows.collect::<String>())
    };
    std::fs::write(phy.join("cluster_KSLabel.tsv"), labels(&|_| "mua")).unwrap();
    fails(folder, IMPORT, "label good, got none");
    let one = labels(&|i| if i == 0 { "good" } else { "noise" });
    std::fs::write(phy.join("cluster_group.tsv"), one).unwrap();
    fails(
        folder,
        &format!("{IMPORT} --series V"),
        "--stream V: expected an NWB file",
    );
    let told = json(folder, IMPORT);
    assert_eq!(told["units"].as_array().unwrap().len(), 1);
    assert_eq!(told["other_units"].as_u64().unwrap() + 1, ids.len() as u64);
    std::fs::write(phy.join("cluster_group.tsv"), "cluster_id\tgroup\n0 good\n").unwrap();
    fails(folder, IMPORT, "cluster_group.tsv, line 2");
}

#[test]
fn a_damaged_folder_is_refused_by_the_name_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (phy, _) = write_phy(folder);
    let damaged = |name: &str, write: &dyn Fn(&Path), words: &str| {
        let path = phy.join(name);
        let kept = std::fs::read(&path).unwrap();
        write(&path);
        let output = fails(folder, IMPORT, words);
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(name),
            "{name}"
        );
        std::fs::write(&path, kept).unwrap();
    };
    for name in [
        "spike_times.npy",
        "spike_clusters.npy",
        "channel_map.npy",
        "channel_positions.npy",
        "params.py",
    ] {
        damaged(
            name,
            &|path| std::fs::remove_file(path).unwrap(),
            "os error 2",
        );
    }
    let three = [0_i32, 1, 2].map(i32::to_le_bytes).concat();
    damaged(
        "spike_clusters.npy",
        &|path| npy(path, "<i4", "(3,)", &three),
        "expected a cluster for each",
    );
    damaged(
        "spike_times.npy",
        &|path| npy(path, "<i4", "(1, 3)", &three),
        "the shape [1, 3]",
    );
    damaged(
        "channel_positions.npy",
        &|path| npy(path, "<i4", "(3,)", &three),
        "expected the shape [4, 2]",
    );
    let places = [0.0_f32, 0.0, f32::NAN, 0.0, 0.0, 20.0, 20.0, 20.0]
        .map(f32::to_le_bytes)
        .concat();
    damaged(
        "channel_positions.npy",
        &|path| npy(path, "<f4", "(4, 2)", &places),
        "got NaN for channel 1",
    );
    let times = [1.0_f64, f64::NAN].map(f64::to_le_bytes).concat();
    damaged(
        "spike_times.npy",
        &|path| npy(path, "<f8", "(2,)", &times),
        "got NaN at 1",
    );
    let far = [0_i32, 1, 2, 9].map(i32::to_le_bytes).concat();
    damaged(
        "channel_map.npy",
        &|path| npy(path, "<i4", "(4,)", &far),
        "expected channels of a row of 4, got 9",
    );
    damaged(
        "params.py",
        &|path| std::fs::write(path, "dtype = 'float32'\n").unwrap(),
        "expected int16",
    );
}
