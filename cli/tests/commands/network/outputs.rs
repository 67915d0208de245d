//! Exports of `betz network`, and its estimates beforehand.

use super::*;

#[test]
fn exports_hold_every_edge() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    done(
        folder,
        "compute signal.npz --out net.npz --window 50 --step 10 --threshold 0.4",
    );
    let file = NetworkFile::read(&folder.join("net.npz")).unwrap();
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let first = file.network.window(2).unwrap().len();
    for (asked, name) in [
        ("", "all.csv"),
        ("--window 2", "two.csv"),
        ("--format spells", "lives.csv"),
        ("", "all.gexf"),
        ("--window 2", "two.graphml"),
        ("--window 2", "two.json"),
    ] {
        // Twice: an earlier result is replaced.
        done(folder, &format!("export net.npz {asked} --out {name}"));
        done(folder, &format!("export net.npz {asked} --out {name}"));
    }
    assert_eq!(
        text("all.csv").lines().count() as u64,
        file.network.edges() + 1
    );
    assert_eq!(text("two.csv").lines().count(), first + 1);
    assert_eq!(
        text("lives.csv").lines().count(),
        file.network.spells().len() + 1
    );
    assert_eq!(
        text("all.gexf").matches("<spell ").count(),
        file.network.spells().len()
    );
    assert_eq!(text("two.graphml").matches("<edge ").count(), first);
    assert!(text("two.graphml").contains("region 8"));
    let links: Value = serde_json::from_str(&text("two.json")).unwrap();
    assert_eq!(links["links"].as_array().unwrap().len(), first);
    assert_eq!(
        (&links["nodes"][3]["name"], &links["nodes"][3]["y"]),
        (&"region 3".into(), &7.0.into())
    );
}

#[test]
fn a_dry_run_writes_nothing_and_is_of_the_right_order() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let asked = "compute bare.npz --window 40 --step 1 --threshold 0.5";
    let dry = json(folder, &format!("{asked} --dry-run"));
    let wet = json(folder, &format!("{asked} --out n.npz"));
    assert_eq!(dry["windows"], wet["windows"]);
    assert_eq!(dry["pairs"], 36);
    let ratio = dry["expected_edges"].as_f64().unwrap() / wet["edges"].as_f64().unwrap();
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
    assert!(dry["memory_bytes"].as_u64().unwrap() > 0);
    assert!(dry["expected_seconds"].as_f64().unwrap() > 0.0);
    let out = format!("{asked} --dry-run --out never.npz");
    done(folder, &out);
    assert!(!folder.join("never.npz").exists());
}

/// A Python that has NumPy, if this machine does.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("BETZ_PYTHON").unwrap_or_else(|| "python3".into());
    let there = Command::new(&python)
        .args(["-c", "import numpy"])
        .output()
        .is_ok_and(|o| o.status.success());
    there.then(|| python.into())
}

#[test]
fn numpy_reads_the_file_and_finds_the_same_edges() {
    let Some(python) = python() else {
        eprintln!("skipped: no python3 with NumPy (BETZ_PYTHON names another)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    done(
        folder,
        "compute signal.npz --out net.npz --window 50 --step 10 --threshold 0.45",
    );
    let script = "
import json, numpy as np
net, given = np.load('net.npz'), np.load('signal.npz')
meta = json.loads(str(net['meta']))
assert meta['kind'] == 'network' and meta['format'] == 1, meta
assert net['indptr'].dtype == np.uint64 and net['i'].dtype == np.uint16 and net['r'].dtype == np.float32
n, w, found = given['signal'].shape[1], meta['window'], 0
for k, start in enumerate(net['window_start']):
    with np.errstate(invalid='ignore', divide='ignore'):
        r = np.corrcoef(given['signal'][start:start + w].astype(float).T)
    i, j = np.nonzero(np.triu(np.abs(np.nan_to_num(r)) >= meta['threshold'], 1))
    a, b = net['indptr'][k:k + 2]
    assert np.array_equal(net['i'][a:b], i) and np.array_equal(net['j'][a:b], j), k
    assert np.abs(net['r'][a:b] - r[i, j]).max(initial=0) < 1e-5
    found += len(i)
assert list(net['node_name']) == list(given['node_name'])
print(found)
";
    let output = Command::new(python)
        .current_dir(folder)
        .args(["-c", script])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let found: u64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .unwrap();
    let file = NetworkFile::read(&folder.join("net.npz")).unwrap();
    assert_eq!(found, file.network.edges());
    assert!(found > 0);
}

#[test]
fn values_of_many_nodes_go_to_a_directory() {
    const MANY: usize = 4_001;
    const LENGTH: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let samples: Vec<f32> = (0..LENGTH * MANY)
        .map(|k| match k % MANY {
            17 => 3.0,
            _ => ((k * k / 7 + 13 * k) % 1_009) as f32,
        })
        .collect();
    let array = Array::F32(&[LENGTH, MANY], &samples);
    write(&folder.join("many.npz"), &[("signal", array)]).unwrap();
    let how = "compute many.npz --window 20 --step 20 --threshold 0.9 --out net.npz";
    let said = done(folder, &format!("{how} --full"));
    assert!(said.starts_with("net.zarr: 1 window of 4001"), "{said}");
    assert!(!folder.join("net.npz").exists());
    let file = NetworkFile::read(&folder.join("net.zarr")).unwrap();
    // The edges are those of a network without them.
    done(folder, how);
    let plain = NetworkFile::read(&folder.join("net.npz")).unwrap();
    assert!(plain.network.edges() > 0);
    assert_eq!((&file.network, &file.full), (&plain.network, &None));
    let values = NetworkFile::read_pairs(&folder.join("net.zarr"), 0).unwrap();
    let values = values.unwrap();
    assert_eq!(values.len(), MANY * (MANY - 1) / 2);
    let column = |n: usize| -> Vec<f64> {
        (0..LENGTH)
            .map(|t| f64::from(samples[t * MANY + n]))
            .collect()
    };
    for (i, j) in [
        (0, 1),
        (0, MANY - 1),
        (11, 12),
        (12, 13),
        (1_500, 3_999),
        (3_999, 4_000),
    ] {
        let found = values[i * (2 * MANY - i - 1) / 2 + j - i - 1];
        let r = betz::network::oracle::pearson(&column(i), &column(j)).unwrap();
        assert!((f64::from(found) - r).abs() <= 1e-5, "{i} {j}: {found} {r}");
    }
    let undefined = values.iter().filter(|v| v.is_nan()).count();
    assert_eq!(undefined, MANY - 1);
    // Refused before anything is computed where no directory can be written.
    std::fs::create_dir(folder.join("other.zarr")).unwrap();
    std::fs::write(folder.join("other.zarr/mine"), "").unwrap();
    program::fails(
        folder,
        &format!("network {how} --full").replace("net.npz", "other.npz"),
        "need a directory whose name ends in .zarr, got other.npz",
    );
}
