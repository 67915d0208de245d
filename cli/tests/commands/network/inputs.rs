//! Tables, frames and regions as input; memory, tapers, surrogates and files as asked for.

use betz_testkit::npy::npy;

use super::*;

const HOW: &str = "--window 40 --step 10 --threshold 0.5";

/// A table of the signal with `separator` between its fields.
fn table(folder: &Path, name: &str, separator: &str, times: impl Fn(usize) -> f64) {
    let mut text = String::new();
    for (t, row) in signal().chunks_exact(NODES).enumerate() {
        text.push_str(&times(t).to_string());
        for value in row {
            text.push_str(separator);
            text.push_str(&value.to_string());
        }
        text.push('\n');
    }
    fs::write(folder.join(name), text).unwrap();
}

/// `compute bare.npz` with what is asked is refused in these words, and leaves no file.
fn refused(folder: &Path, asked: &str, says: &str) {
    let output = betz(folder, &format!("compute bare.npz --out no.npz {asked}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains(says),
        "{asked}: {said}"
    );
    assert!(!folder.join("no.npz").exists(), "{asked}");
}

#[test]
fn tables_are_signals_and_their_gaps_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    done(
        folder,
        &format!("compute bare.npz --out bare-net.npz {HOW}"),
    );
    let expected = NetworkFile::read(&folder.join("bare-net.npz")).unwrap();
    for (name, separator) in [("t.txt", " "), ("t.csv", ","), ("t.tsv", "\t")] {
        table(folder, name, separator, |t| t as f64 * 0.1);
        let said = json(
            folder,
            &format!("compute {name} --out net.npz {HOW} --force"),
        );
        assert!((said["sample_seconds"].as_f64().unwrap() - 0.1).abs() < 1e-9);
        let found = NetworkFile::read(&folder.join("net.npz")).unwrap();
        assert_same(&edges(&found), &edges(&expected));
    }
    // Ten instants are missing behind the first 130.
    table(folder, "gap.txt", " ", |t| {
        (t + if t < 130 { 0 } else { 10 }) as f64
    });
    let said = json(folder, &format!("compute gap.txt --out gap.npz {HOW}"));
    assert_eq!(
        (said["segments"].as_u64(), said["windows"].as_u64()),
        (Some(2), Some(18))
    );
    let found = NetworkFile::read(&folder.join("gap.npz")).unwrap();
    let starts: Vec<usize> = (0..10)
        .map(|k| k * 10)
        .chain((0..8).map(|k| 130 + k * 10))
        .collect();
    assert_same(&edges(&found), &oracle(&signal(), &starts, 40));
    assert_eq!(found.seconds(10), Some(140.0));
    fs::write(folder.join("wrong.txt"), "0 1 2\n1 2\n").unwrap();
    let output = betz(folder, &format!("compute wrong.txt --out no.npz {HOW}"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 2: expected 3 fields"));
    assert!(output.status.code() == Some(1) && !folder.join("no.npz").exists());
}

#[test]
fn frames_are_signals_and_regions_are_their_parts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes: Vec<u8> = signal().iter().map(|v| (v * 40.0 + 128.0) as u8).collect();
    write(
        &folder.join("video.npz"),
        &[("signal", Array::U8(&[SAMPLES, 3, 3], &bytes))],
    )
    .unwrap();
    fs::write(folder.join("video.raw"), &bytes).unwrap();
    fs::create_dir(folder.join("stack")).unwrap();
    for (t, frame) in bytes.chunks_exact(NODES).enumerate() {
        let image = [b"P5\n3 3\n255\n".as_slice(), frame].concat();
        fs::write(folder.join(format!("stack/frame-{t}.pgm")), image).unwrap();
    }
    let mut found = Vec::new();
    for input in ["video.npz", "video.raw --frames 3,3", "stack"] {
        done(
            folder,
            &format!("compute {input} --out net.npz {HOW} --force"),
        );
        found.push(NetworkFile::read(&folder.join("net.npz")).unwrap());
    }
    assert!(!edges(&found[0]).is_empty() && found[0].positions.is_some());
    for other in &found[1..] {
        assert_eq!(edges(other), edges(&found[0]));
        assert_eq!(other.positions, found[0].positions);
    }
    // The left column and the middle, as a list and as a mask.
    fs::write(folder.join("left.txt"), "# left\n0\n3, 6\n4\n").unwrap();
    let mask = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0];
    std::fs::write(folder.join("left.npy"), npy(&mask)).unwrap();
    done(
        folder,
        &format!("compute video.npz --out chosen.npz {HOW} --nodes 0,3,4,6"),
    );
    for region in ["left.txt", "left.npy"] {
        done(
            folder,
            &format!("compute video.npz --out net.npz {HOW} --force --region {region}"),
        );
        let (a, b) = (
            NetworkFile::read(&folder.join("net.npz")).unwrap(),
            NetworkFile::read(&folder.join("chosen.npz")).unwrap(),
        );
        assert_eq!(
            (edges(&a), a.names, a.positions),
            (edges(&b), b.names, b.positions)
        );
    }
    fs::write(folder.join("far.txt"), "9\n").unwrap();
    for (asked, says) in [
        ("video.raw --frames 3,7", "whole number of frames"),
        ("video.npz --region far.txt", "below 9"),
        (
            "video.npz --region far.txt --nodes 1",
            "cannot be used with",
        ),
        ("video.npz --region none.txt", "none.txt"),
        ("video.raw --frames 3", "height and width"),
    ] {
        let output = betz(folder, &format!("compute {asked} --out no.npz {HOW}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains(says) && !output.status.success(),
            "{asked}: {said}"
        );
        assert!(!folder.join("no.npz").exists());
    }
}

/// Prepares the signals in `folder`, and computes a network of the bare one.
fn plain_network(folder: &Path) -> NetworkFile {
    prepared(folder);
    done(
        folder,
        &format!("compute bare.npz --out bare-net.npz {HOW}"),
    );
    NetworkFile::read(&folder.join("bare-net.npz")).unwrap()
}

#[test]
fn little_memory_gives_the_same_edges_and_too_little_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plain = plain_network(folder);
    done(
        folder,
        &format!("compute bare.npz --out net.npz {HOW} --memory 1MiB"),
    );
    let less = NetworkFile::read(&folder.join("net.npz")).unwrap();
    assert_same(&edges(&less), &edges(&plain));
    for (memory, says) in [
        ("8000", "more than the signal's"),
        ("20k", "expected at least"),
    ] {
        let output = betz(
            folder,
            &format!("compute bare.npz --out no.npz {HOW} --memory {memory}"),
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains(says),
            "{said}"
        );
    }
}

#[test]
fn a_hann_taper_is_that_of_plain_loops() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let samples = prepared(folder);
    done(
        folder,
        &format!("compute bare.npz --out net.npz {HOW} --taper hann"),
    );
    let tapered = NetworkFile::read(&folder.join("net.npz")).unwrap();
    let weights: Vec<f64> = (0..40)
        .map(|t| {
            (std::f64::consts::PI * (f64::from(t) + 0.5) / 40.0)
                .sin()
                .powi(2)
        })
        .collect();
    let mut expected = Edges::new();
    for start in (0..=200).step_by(10) {
        let column = |n: usize| -> Vec<f64> {
            let x: Vec<f64> = (start..start + 40)
                .map(|t| f64::from(samples[t * NODES + n]))
                .collect();
            let mean = x.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>()
                / weights.iter().sum::<f64>();
            let equal = x.iter().all(|v| *v == x[0]);
            x.iter()
                .zip(&weights)
                .map(|(v, w)| if equal { 0.0 } else { (v - mean) * w.sqrt() })
                .collect()
        };
        for i in 0..NODES {
            for j in i + 1..NODES {
                let (x, y) = (column(i), column(j));
                let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(a, b)| a * b).sum::<f64>();
                let r = dot(&x, &y) / (dot(&x, &x) * dot(&y, &y)).sqrt();
                if r.abs() >= 0.5 {
                    expected.insert((start as u64, i as u32, j as u32), r);
                }
            }
        }
    }
    assert_same(&edges(&tapered), &expected);
}

#[test]
fn a_compact_file_holds_every_pair_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plain = plain_network(folder);
    let samples = signal();
    done(
        folder,
        &format!("compute bare.npz --out net.npz {HOW} --full --compact"),
    );
    let file = NetworkFile::read(&folder.join("net.npz")).unwrap();
    assert!(file.compact);
    let (found, plain) = (edges(&file), edges(&plain));
    assert!(found.keys().eq(plain.keys()));
    assert!(
        found
            .values()
            .zip(plain.values())
            .all(|(a, b)| (a - b).abs() <= 1.0 / 32_767.0)
    );
    let full = file.full.unwrap();
    let pairs = NODES * (NODES - 1) / 2;
    for k in 0..21 {
        let mut at = k * pairs;
        for i in 0..NODES {
            for j in i + 1..NODES {
                match pearson(&samples, i, j, k * 10, 40) {
                    Some(r) => assert!((f64::from(full[at]) - r).abs() <= 1e-5),
                    None => assert!(full[at].is_nan()),
                }
                at += 1;
            }
        }
    }
}

#[test]
fn a_directory_holds_the_same_and_replaces_an_earlier_network_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plain = plain_network(folder);
    let said = done(folder, &format!("compute bare.npz --out net.zarr {HOW}"));
    assert!(
        said.starts_with("net.zarr: 21 windows of 9 nodes"),
        "{said}"
    );
    let directory = NetworkFile::read(&folder.join("net.zarr")).unwrap();
    assert_eq!(directory.network, plain.network);
    assert!(done(folder, "graph net.zarr --measures degree").contains("9 nodes"));
    assert!(done(folder, "export net.zarr --out w.graphml --window 3").contains("1 window"));
    done(
        folder,
        "compute bare.npz --out net.zarr --window 40 --step 20 --threshold 0.5",
    );
    let again = NetworkFile::read(&folder.join("net.zarr")).unwrap();
    assert_eq!(again.network.len(), 11);
    std::fs::create_dir(folder.join("mine.zarr")).unwrap();
    let output = betz(
        folder,
        &format!("compute bare.npz --out mine.zarr {HOW} --force"),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("folder"),
        "{said}"
    );
}

#[test]
fn tapers_and_files_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    for (asked, says) in [
        ("--taper hann --measure spearman", "taper"),
        ("--taper round", "round"),
        ("--full --measure euclidean", "--full"),
        ("--compact --measure covariance", "compact"),
    ] {
        refused(folder, &format!("{HOW} {asked}"), says);
    }
}

#[test]
fn surrogates_are_planned_and_too_many_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let how = "--window 40 --step 1";
    let output = betz(
        folder,
        &format!(
            "compute bare.npz --out net.npz {how} --surrogates 19 --fdr 0.05 --fdr-procedure by"
        ),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("19 surrogates of 201 windows take about"),
        "{said}"
    );
    let any = NetworkFile::read(&folder.join("net.npz")).unwrap();
    assert_eq!(
        any.chance.as_ref().unwrap().correction,
        "false-discovery-any-dependence"
    );
    done(
        folder,
        &format!("compute bare.npz --out net.npz {how} --surrogates 19 --fdr 0.05 --force"),
    );
    let plain = NetworkFile::read(&folder.join("net.npz")).unwrap();
    assert!(plain.network.edges() >= any.network.edges());
    for (asked, says) in [
        ("--surrogates 1000000000000", "--max-hours"),
        ("--surrogates 5000 --max-hours 1e-9", "--max-hours"),
        ("--surrogates 99 --max-hours nan", "--max-hours"),
        ("--surrogates 99 --fdr-procedure by", "--fdr"),
    ] {
        refused(folder, &format!("{how} {asked}"), says);
    }
}

#[test]
fn spike_times_are_tiled_within_their_trials() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Units 0 and 1 within 2 ms of each other, unit 2 far from both.
    let spikes: Vec<(i64, u32)> = (0..100)
        .flat_map(|k: i64| {
            [
                (k * 40 + k % 7, 0),
                (k * 40 + k % 7 + 2, 1),
                (k * 40 + 25, 2),
            ]
        })
        .collect();
    let segment = |start, stop| Segment { start, stop };
    let recording = Recording {
        tick_seconds: 0.001,
        ticks: 4_000,
        spikes: Spikes::new(
            spikes.iter().map(|s| s.0).collect(),
            spikes.iter().map(|s| s.1).collect(),
        ),
        channel_names: ["a", "b", "c"].map(str::to_owned).to_vec(),
        behavior: None,
        segments: vec![segment(0, 1_500), segment(2_000, 4_000)],
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    };
    recording.write_npz(&folder.join("r.npz")).unwrap();
    let asked =
        "compute r.npz --measure sttc --window 500ms --step 0.5s --threshold 0.8 --sign pos";
    let said = json(folder, &format!("{asked} --reach 3ms --out n.npz"));
    assert_eq!(
        (said["windows"].as_u64(), said["measure"].as_str()),
        (Some(7), Some("sttc"))
    );
    let file = NetworkFile::read(&folder.join("n.npz")).unwrap();
    assert_eq!(
        file.network.window_start(),
        [0, 500, 1000, 2000, 2500, 3000, 3500]
    );
    for window in file.network.windows() {
        assert_eq!((window.i, window.j), (&[0][..], &[1][..]));
    }
    assert_eq!(file.seconds(3), Some(2.0));
    prepared(folder);
    for (asked, says) in [
        (format!("{asked} --out no.npz"), "--reach"),
        (
            format!("{asked} --out no.npz --reach 3ms --bin 10ms"),
            "--bin",
        ),
        (
            format!("{asked} --out no.npz --reach 3ms --device cuda"),
            "only",
        ),
        (
            format!("compute bare.npz --out no.npz {HOW} --reach 3ms"),
            "sttc",
        ),
        (
            format!("compute bare.npz --out no.npz {HOW} --measure sttc --reach 3ms"),
            "bare.npz",
        ),
    ] {
        let output = betz(folder, &asked);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains(says) && !output.status.success(),
            "{asked}: {said}"
        );
        assert!(!folder.join("no.npz").exists());
    }
}
