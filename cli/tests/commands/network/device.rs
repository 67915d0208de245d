//! `--device` of `betz network compute`.

use betz::device::Device;
use betz::network::file::NetworkFile;

use super::{betz, done, edges, json, prepared};

const ASKED: &str = "compute bare.npz --force --window 40 --step 1 --threshold 0.4";

#[test]
fn a_device_finds_the_edges_of_the_cpu_or_says_why_it_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    done(folder, &format!("{ASKED} --out cpu.npz --device cpu"));
    let asked = format!("{ASKED} --out cuda.npz --device cuda");
    if let Err(missing) = Device::cuda(0) {
        let output = betz(folder, &asked);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(missing.message()), "{said}: {missing}");
        assert!(!folder.join("cuda.npz").exists());
        return;
    }
    assert!(
        json(folder, &asked)["device"]
            .as_str()
            .unwrap()
            .starts_with("cuda")
    );
    let read = |name: &str| NetworkFile::read(&folder.join(name)).unwrap();
    let (cpu, cuda) = (edges(&read("cpu.npz")), edges(&read("cuda.npz")));
    assert_eq!(
        cpu.keys().collect::<Vec<_>>(),
        cuda.keys().collect::<Vec<_>>()
    );
    let covariance = format!("{asked} --measure covariance");
    let output = betz(folder, &covariance);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("--device") && said.contains("covariance"),
        "{said}"
    );
}

#[test]
fn work_too_small_for_a_device_stays_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let asked = format!("{ASKED} --out n.npz --device-memory 64MiB");
    let said = json(folder, &asked);
    assert!(
        said["device"].as_str().unwrap().starts_with("cpu"),
        "{said}"
    );
    let output = betz(folder, &asked);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(notes.contains("--device-memory has no effect"), "{notes}");
    let dry = json(folder, &format!("{ASKED} --dry-run"));
    assert_eq!(dry["device"], said["device"]);
}
