//! Networks as files: there and back, damage and strangers.

use super::*;
use crate::{NetworkSpec, Signal, Threshold, Window, cases};

fn network_file(measure: Measure, threshold: Threshold) -> NetworkFile {
    let mut case = cases::communities(12, 160, 3);
    let nodes = 12;
    for t in 40..90 {
        case.samples[t * nodes + 4] = 0.0;
    }
    case.samples[100 * nodes + 7] = f32::NAN;
    let signal = case.signal().with_segments(vec![0..70, 72..160]).unwrap();
    let signal = signal.with_sample_seconds(0.1).unwrap();
    let spec = NetworkSpec::new(measure, Window::new(30, 4)).threshold(threshold);
    let network = cases::run(&spec, &signal);
    let windows = network.len();
    NetworkFile {
        names: Some((0..12).map(|n| format!("region {n}")).collect()),
        positions: Some(Positions {
            values: (0..24).map(f64::from).collect(),
            axes: 2,
        }),
        window_seconds: Some((0..windows).map(|k| k as f64 * 0.4).collect()),
        source: Some(Source {
            name: "case".into(),
            hash: format!("{:016x}", signal.hash()),
        }),
        chance: None,
        complete: true,
        compact: false,
        full: None,
        network,
    }
}

#[test]
fn a_file_whose_distances_are_of_signals_is_euclidean() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.zarr");
    let file = network_file(Measure::Euclidean { hold: 2 }, Threshold::Absolute(9.0));
    file.write(&path).unwrap();
    let group = path.join("zarr.json");
    let text = std::fs::read_to_string(&group).unwrap();
    let old = text.replace("\"measure\":\"euclidean\"", "\"measure\":\"distance\"");
    assert_ne!(old, text);
    std::fs::write(&group, old).unwrap();
    assert_eq!(NetworkFile::read(&path).unwrap(), file);
}

#[test]
fn networks_of_places_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.npz");
    let places: Vec<f64> = (0..40).map(f64::from).collect();
    let signal = Signal::places(&places, 2, 2).unwrap();
    for (near, gap, earth) in [(3, 1, false), (5, 0, true)] {
        let measure = Measure::Distance { near, gap, earth };
        let spec = NetworkSpec::new(measure, Window::new(5, 1)).threshold(Threshold::Absolute(1e6));
        let network = crate::cases::run(&spec, &signal);
        let file = NetworkFile::new(network);
        file.write(&path).unwrap();
        assert_eq!(NetworkFile::read(&path).unwrap(), file);
        assert_eq!(file.network.edges(), 6);
    }
}

#[test]
fn networks_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.npz");
    for (measure, threshold) in [
        (Measure::Pearson, Threshold::Absolute(0.4)),
        (Measure::Pearson, Threshold::Absolute(1.0)),
        (Measure::Lagged { lags: 3 }, Threshold::Density(0.2)),
        (Measure::Euclidean { hold: 2 }, Threshold::Absolute(9.0)),
        (Measure::Spearman, Threshold::Top(5)),
        (Measure::Kendall, Threshold::Top(5)),
        (
            Measure::Warping {
                band: 3,
                normalised: true,
            },
            Threshold::Absolute(5.0),
        ),
        (Measure::Covariance, Threshold::TopPerNode(2)),
    ] {
        let file = network_file(measure, threshold);
        file.write(&path).unwrap();
        assert!(NetworkFile::is_one(&path));
        let bytes = std::fs::read(&path).unwrap();
        let back = NetworkFile::read(&path).unwrap();
        assert_eq!(back, file);
        assert!(back.network.undefined().1 > 0, "{measure:?}");
        back.write(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "equal bytes");
        assert_eq!(back.seconds(2), Some(0.8));
    }
}

#[test]
fn compact_and_full_files_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.npz");
    let mut file = network_file(Measure::Pearson, Threshold::Absolute(0.4));
    let pairs = 12 * 11 / 2;
    file.full = Some(vec![0.25; file.network.len() * pairs]);
    file.compact = true;
    file.write(&path).unwrap();
    let back = NetworkFile::read(&path).unwrap();
    assert!(back.compact && back.full == file.full);
    assert_eq!(
        (&back.network.i, &back.network.j),
        (&file.network.i, &file.network.j)
    );
    for (a, b) in back.network.r.iter().zip(&file.network.r) {
        assert!((a - b).abs() <= 0.51 / COMPACT);
    }
    // A compact file stays as it is.
    back.write(&path).unwrap();
    assert_eq!(NetworkFile::read(&path).unwrap(), back);
    file.full = Some(vec![0.0; pairs]);
    assert!(file.write(&path).is_err());
    let mut wide = network_file(Measure::Covariance, Threshold::TopPerNode(2));
    wide.compact = true;
    assert!(wide.write(&path).is_err());
}

#[test]
fn directories_come_back_and_damage_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (measure, threshold) in [
        (Measure::Pearson, Threshold::Absolute(0.4)),
        (Measure::Pearson, Threshold::Absolute(1.0)),
        (Measure::Lagged { lags: 3 }, Threshold::Density(0.2)),
    ] {
        let path = folder
            .path()
            .join(format!("{measure:?}-{threshold:?}.zarr"));
        let mut file = network_file(measure, threshold);
        if measure == Measure::Pearson {
            file.full = Some(vec![0.5; file.network.len() * 66]);
        }
        file.write(&path).unwrap();
        assert!(NetworkFile::is_one(&path));
        assert_eq!(NetworkFile::read(&path).unwrap(), file);
        // An earlier network is replaced, and nothing is left beside it.
        file.names = None;
        file.write(&path).unwrap();
        assert_eq!(NetworkFile::read(&path).unwrap(), file);
        let here = std::fs::read_dir(folder.path()).unwrap();
        assert!(
            here.flatten()
                .all(|e| !e.file_name().to_string_lossy().starts_with('.'))
        );
    }
    let path = folder.path().join("net.zarr");
    network_file(Measure::Pearson, Threshold::Absolute(0.4))
        .write(&path)
        .unwrap();
    let whole = std::fs::read(path.join("r/c/0")).unwrap();
    std::fs::write(path.join("r/c/0"), &whole[..whole.len() - 1]).unwrap();
    let error = NetworkFile::read(&path).unwrap_err();
    assert!(
        error.message().contains("array `r`: chunk 0: expected"),
        "{error}"
    );
    std::fs::remove_file(path.join("r/c/0")).unwrap();
    assert!(NetworkFile::read(&path).is_err());
    std::fs::write(path.join("r/c/0"), &whole).unwrap();
    NetworkFile::read(&path).unwrap();
    let about = std::fs::read_to_string(path.join("r/zarr.json")).unwrap();
    for (from, to) in [
        ("float32", "complex64"),
        ("\"zarr_format\":3", "\"zarr_format\":2"),
        ("little", "big"),
        ("\"shape\":[", "\"shape\":[7,"),
        ("\"shape\":[", "\"shape\":[9"),
    ] {
        assert!(about.contains(from), "{from}: {about}");
        std::fs::write(path.join("r/zarr.json"), about.replacen(from, to, 1)).unwrap();
        assert!(NetworkFile::read(&path).is_err(), "{to}");
    }
    std::fs::write(path.join("zarr.json"), "{").unwrap();
    assert!(NetworkFile::read(&path).is_err() && !NetworkFile::is_one(&path));
}

#[test]
fn values_of_all_pairs_are_written_in_blocks_and_read_by_window() {
    use crate::PairValues;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.zarr");
    let file = network_file(Measure::Pearson, Threshold::Absolute(0.4));
    let (windows, pairs) = (file.network.len(), 66);
    let value = |k: usize, pair: usize| (k * 1000 + pair) as f32;
    // Chunks of 10 pairs, blocks of 7 pairs in two windows or one.
    let mut put = |writer: &mut PairWriter| {
        for pair in (0..pairs).step_by(7).rev() {
            for k in (0..windows).step_by(2) {
                let block = (k..windows.min(k + 2), pair..pairs.min(pair + 7));
                let values: Vec<f32> = (block.0.clone())
                    .flat_map(|k| block.1.clone().map(move |pair| value(k, pair)))
                    .collect();
                writer.put(&PairValues {
                    windows: block.0,
                    pairs: block.1,
                    values: &values,
                })?;
            }
        }
        Ok(())
    };
    file.write_with_pairs_in(&path, 40, &mut put).unwrap();
    // The rest is that of a file without them.
    assert_eq!(NetworkFile::read(&path).unwrap(), file);
    for k in 0..windows {
        let expected: Vec<f32> = (0..pairs).map(|pair| value(k, pair)).collect();
        assert_eq!(NetworkFile::read_pairs(&path, k).unwrap(), Some(expected));
    }
    assert!(NetworkFile::read_pairs(&path, windows).is_err());
    let chunk = path.join("full/c/1/6");
    assert_eq!(std::fs::metadata(&chunk).unwrap().len(), 40);
    std::fs::write(&chunk, [0; 39]).unwrap();
    let error = NetworkFile::read_pairs(&path, 1).unwrap_err();
    assert!(
        error.message().contains("chunk 1/6: expected 40"),
        "{error}"
    );
    // Chunks of whole windows, and a file, are read the same.
    file.write_with_pairs(&path, &mut put).unwrap();
    let row = NetworkFile::read_pairs(&path, 2).unwrap().unwrap();
    assert_eq!(row[65], value(2, 65));
    let read = NetworkFile::read(&path).unwrap();
    assert_eq!(read.full.as_ref().map(Vec::len), Some(windows * pairs));
    let one = folder.path().join("net.npz");
    read.write(&one).unwrap();
    assert_eq!(NetworkFile::read_pairs(&one, 2).unwrap(), Some(row));
    assert!(NetworkFile::read_pairs(&one, windows).is_err());
    // Too few values, or values beyond the last pair, leave the earlier network.
    let values = [0.0; 3];
    let mut few = |writer: &mut PairWriter| {
        writer.put(&PairValues {
            windows: 0..1,
            pairs: 0..3,
            values: &values,
        })
    };
    assert!(file.write_with_pairs(&path, &mut few).is_err());
    let mut beyond = |writer: &mut PairWriter| {
        writer.put(&PairValues {
            windows: 0..1,
            pairs: 64..67,
            values: &values,
        })
    };
    assert!(file.write_with_pairs(&path, &mut beyond).is_err());
    assert_eq!(NetworkFile::read(&path).unwrap(), read);
    assert!(file.write_with_pairs(&one, &mut put).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// The arrays of a whole file, one of them changed by `change`, written anew and read.
fn read_changed(change: &dyn Fn(&mut NetworkFile)) -> Error {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.npz");
    let mut file = network_file(Measure::Pearson, Threshold::Absolute(0.4));
    change(&mut file);
    file.write(&path).unwrap();
    NetworkFile::read(&path).unwrap_err()
}

#[test]
fn what_is_out_of_order_is_refused_by_array_and_place() {
    type Change = &'static dyn Fn(&mut NetworkFile);
    let changes: [(Change, &str); 12] = [
        (&|f| f.network.window_start[3] = 2, "`window_start`: [3]"),
        (
            &|f| *f.network.window_start.last_mut().unwrap() = 140,
            "`window_start`: [",
        ),
        (&|f| f.network.indptr[2] = 1 << 40, "`indptr`: [3]"),
        (&|f| f.network.indptr[0] = 1, "`indptr`: [0] = 1"),
        (
            &|f| *f.network.indptr.last_mut().unwrap() += 1,
            "`i`: expected",
        ),
        (
            &|f| {
                f.network.i.swap(0, 1);
                f.network.j.swap(0, 1);
            },
            "[1]",
        ),
        (&|f| f.network.j[2] = 12, "`j`: [2] = 12"),
        (&|f| f.network.i[5] = f.network.j[5], "`j`: [5]"),
        (&|f| f.network.r[4] = f32::NAN, "`r`: [4] = NaN"),
        (&|f| f.network.r[4] = -1.5, "`r`: [4] = -1.5"),
        (&|f| f.network.undefined[1] = 99, "`undefined`: [1] = 99"),
        (&|f| f.network.meta.spec.window.length = 1, "`meta`"),
    ];
    for (number, (change, says)) in changes.iter().enumerate() {
        let error = read_changed(change);
        let said = error.message();
        assert!(
            said.contains(says) && said.contains("net.npz"),
            "{number}: {said} should say {says}"
        );
        assert_eq!(error.kind(), betz_base::ErrorKind::InvalidRecording);
    }
    let mut short = network_file(Measure::Pearson, Threshold::Absolute(0.4));
    short.names = Some(vec!["one".into()]);
    let path = std::env::temp_dir().join("betz-network-never-written.npz");
    assert!(short.write(&path).is_err() && !path.exists());
}

#[test]
fn damage_and_strangers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.npz");
    network_file(Measure::Pearson, Threshold::Absolute(0.4))
        .write(&path)
        .unwrap();
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 1, 50, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let error = NetworkFile::read(&path).unwrap_err();
        assert!(error.message().contains("net.npz"), "{error}");
        assert!(!NetworkFile::is_one(&path));
    }
    write(&path, &[("signal", Array::F64(&[2], &[1.0, 2.0]))]).unwrap();
    let error = NetworkFile::read(&path).unwrap_err();
    assert!(error.message().contains("arrays here: signal"), "{error}");
    for (meta, says) in [
        ("{}", "that of a network"),
        (
            "{\"kind\":\"network\",\"format\":2}",
            "expected format 1, got 2",
        ),
        ("{\"kind\":\"other\",\"format\":1}", "got other"),
        ("{\"kind\":\"network\",\"format\":1}", "missing field"),
    ] {
        let meta = [meta.to_owned()];
        write(&path, &[("meta", Array::Text(&[], &meta))]).unwrap();
        let error = NetworkFile::read(&path).unwrap_err();
        assert!(error.message().contains(says), "{error}");
    }
}

#[test]
fn what_is_too_large_for_a_file_becomes_a_directory_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let npz = folder.path().join("net.npz");
    let file = network_file(Measure::Pearson, Threshold::Absolute(0.3));
    // As many bytes as its arrays have.
    let edges = file.network.edges();
    assert!(edges > 0 && file.bytes() >= 8 * edges);
    let compact = NetworkFile {
        compact: true,
        ..file.clone()
    };
    assert_eq!(file.bytes() - compact.bytes(), 2 * edges);
    assert_eq!(file.place(&npz), npz);
    let bytes = file.bytes();
    assert_eq!(place(&npz, bytes, bytes), npz);
    let zarr = place(&npz, bytes, bytes - 1);
    assert_eq!(zarr, folder.path().join("net.zarr"));
    file.write(&zarr).unwrap();
    assert_eq!(NetworkFile::read(&zarr).unwrap(), file);
    // The form depends on the size alone: also where a directory is.
    assert_eq!(place(&npz, bytes, bytes - 1), zarr);
    file.write(&zarr).unwrap();
    assert_eq!(NetworkFile::read(&zarr).unwrap(), file);
    let other = folder.path().join("other.zarr");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("notes.txt"), "mine").unwrap();
    let error = file.write(&other).unwrap_err();
    assert!(error.message().contains("earlier network"), "{error}");
    assert_eq!(std::fs::read(other.join("notes.txt")).unwrap(), b"mine");
    // Work that is done is not lost to somebody else's directory: a file is written.
    let beside = folder.path().join("other.npz");
    assert_eq!(place(&beside, bytes, bytes - 1), beside);
    let other = folder.path().join("net.ZARR");
    assert_eq!(place(&other, bytes, 0), other);
}
