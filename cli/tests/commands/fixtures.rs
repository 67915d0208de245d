//! Files that several tests read: made once, and copied into each test's folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::program::json;

/// Simulates `train.npz` and `test.npz`.
pub(crate) const POPULATION: &str = "simulate --out train.npz --test-out test.npz --neurons 30 --seconds 20 --test-seconds 5 --seed 3";
/// Trains `model.betz` on `train.npz`.
pub(crate) const TRAIN: &str =
    "train train.npz --out model.betz --decoder linear --step 0.005 --filter 0.02:1";

fn made() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command-fixtures");
        fs::create_dir_all(&folder).unwrap();
        let simulated = json(&folder, &format!("{POPULATION} --force"));
        assert_eq!(simulated["recordings"][0]["channels"], 30);
        json(&folder, TRAIN);
        folder
    })
}

fn copy(names: &[&str], to: &Path) {
    for name in names {
        fs::copy(made().join(name), to.join(name)).unwrap();
    }
}

/// Puts `train.npz` and `test.npz` into `folder`.
pub(crate) fn population(folder: &Path) {
    copy(&["train.npz", "test.npz"], folder);
}

/// [`population`], and `model.betz` trained on it.
pub(crate) fn trained(folder: &Path) {
    copy(&["train.npz", "test.npz", "model.betz"], folder);
}
