//! Archives made by hand.

use betz_base::Error;
use betz_recording::Recording;
use betz_testkit::npy::{Array, bytes, npz, text};
use zip::CompressionMethod;

pub(crate) fn read_bytes(bytes: &[u8]) -> Result<Recording, Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("case.npz");
    std::fs::write(&path, bytes).unwrap();
    Recording::read_npz(&path)
}

pub(crate) fn read_arrays(arrays: &[Array]) -> Result<Recording, Error> {
    read_bytes(&npz(arrays, CompressionMethod::Deflated))
}

/// 4 bins × 3 channels with everything that can stand beside them.
pub(crate) fn counts_arrays() -> Vec<Array> {
    vec![
        Array::new(
            "counts",
            "|u1",
            "(4, 3)",
            vec![0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3],
        ),
        Array::new("step_seconds", "<f8", "()", bytes::<f64>(&[0.1])),
        Array::new("channel_names", "<U3", "(3,)", text(3, &["a", "bb", "é𝄞c"])),
        Array::new(
            "behavior",
            "<f4",
            "(4, 2)",
            bytes::<f32>(&[0., 1., 2., 3., 4., 5., 6., 7.]),
        ),
        Array::new("behavior_names", "<U2", "(2,)", text(2, &["x", "vx"])),
        Array::new("behavior_units", "<U4", "(2,)", text(4, &["mm", "mm/s"])),
        Array::new("segments", "<i8", "(2, 2)", bytes::<i64>(&[0, 2, 2, 4])),
        Array::new(
            "electrode_um",
            "<f4",
            "(3, 2)",
            bytes::<f32>(&[0., 1., 2., 3., 4., 5.]),
        ),
        Array::new("meta", "<U9", "()", text(9, &["{\"a\": 1}"])),
    ]
}

pub(crate) fn events_arrays() -> Vec<Array> {
    vec![
        Array::new("spike_ticks", "<i8", "(5,)", bytes::<i64>(&[0, 3, 3, 7, 9])),
        Array::new(
            "spike_channels",
            "<u2",
            "(5,)",
            bytes::<u16>(&[1, 0, 1, 1, 0]),
        ),
        Array::new("tick_seconds", "<f8", "()", bytes::<f64>(&[0.001])),
        Array::new("behavior", "<f4", "(3, 1)", bytes::<f32>(&[1., 2., 3.])),
        Array::new(
            "behavior_times",
            "<f8",
            "(3,)",
            bytes::<f64>(&[0.0, 0.004, 0.0145]),
        ),
    ]
}

pub(crate) fn with(mut arrays: Vec<Array>, change: Array) -> Vec<Array> {
    match arrays.iter_mut().find(|a| a.name == change.name) {
        Some(a) => *a = change,
        None => arrays.push(change),
    }
    arrays
}

pub(crate) fn without(mut arrays: Vec<Array>, name: &str) -> Vec<Array> {
    arrays.retain(|a| a.name != name);
    arrays
}
