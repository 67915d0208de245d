//! Archives made by hand, byte by byte as NumPy makes them.

use std::io::Write;

use betz_base::Error;
use betz_recording::Recording;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

/// One array of an archive: name, type string, shape as Python prints it, element bytes.
#[derive(Clone)]
pub(crate) struct Array {
    pub(crate) name: &'static str,
    pub(crate) descr: &'static str,
    pub(crate) shape: String,
    pub(crate) fortran: bool,
    pub(crate) data: Vec<u8>,
}

pub(crate) fn array(name: &'static str, descr: &'static str, shape: &str, data: Vec<u8>) -> Array {
    Array {
        name,
        descr,
        shape: shape.into(),
        fortran: false,
        data,
    }
}

pub(crate) fn i64s(v: &[i64]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}
pub(crate) fn u16s(v: &[u16]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}
pub(crate) fn f32s(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}
pub(crate) fn f64s(v: &[f64]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}
pub(crate) fn text(width: usize, strings: &[&str]) -> Vec<u8> {
    strings
        .iter()
        .flat_map(|s| {
            let mut units: Vec<u32> = s.chars().map(u32::from).collect();
            units.resize(width, 0);
            units.into_iter().flat_map(u32::to_le_bytes)
        })
        .collect()
}

pub(crate) fn npy(a: &Array) -> Vec<u8> {
    let order = if a.fortran { "True" } else { "False" };
    let mut head = format!(
        "{{'descr': '{}', 'fortran_order': {order}, 'shape': {}, }}",
        a.descr, a.shape
    );
    while !(10 + head.len() + 1).is_multiple_of(64) {
        head.push(' ');
    }
    head.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.bytes());
    bytes.extend(&a.data);
    bytes
}

pub(crate) fn npz(arrays: &[Array], method: CompressionMethod) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for a in arrays {
        zip.start_file(format!("{}.npy", a.name), options).unwrap();
        zip.write_all(&npy(a)).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

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
        array(
            "counts",
            "|u1",
            "(4, 3)",
            vec![0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3],
        ),
        array("step_seconds", "<f8", "()", f64s(&[0.1])),
        array("channel_names", "<U3", "(3,)", text(3, &["a", "bb", "é𝄞c"])),
        array(
            "behavior",
            "<f4",
            "(4, 2)",
            f32s(&[0., 1., 2., 3., 4., 5., 6., 7.]),
        ),
        array("behavior_names", "<U2", "(2,)", text(2, &["x", "vx"])),
        array("behavior_units", "<U4", "(2,)", text(4, &["mm", "mm/s"])),
        array("segments", "<i8", "(2, 2)", i64s(&[0, 2, 2, 4])),
        array(
            "electrode_um",
            "<f4",
            "(3, 2)",
            f32s(&[0., 1., 2., 3., 4., 5.]),
        ),
        array("meta", "<U9", "()", text(9, &["{\"a\": 1}"])),
    ]
}

pub(crate) fn events_arrays() -> Vec<Array> {
    vec![
        array("spike_ticks", "<i8", "(5,)", i64s(&[0, 3, 3, 7, 9])),
        array("spike_channels", "<u2", "(5,)", u16s(&[1, 0, 1, 1, 0])),
        array("tick_seconds", "<f8", "()", f64s(&[0.001])),
        array("behavior", "<f4", "(3, 1)", f32s(&[1., 2., 3.])),
        array("behavior_times", "<f8", "(3,)", f64s(&[0.0, 0.004, 0.0145])),
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
