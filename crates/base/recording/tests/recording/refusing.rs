//! Files that break the schema, are damaged or lie.

use betz_base::ErrorKind;
use betz_recording::Recording;
use betz_testkit::npy::{Array, bytes, npz, text};
use zip::CompressionMethod;

use crate::archives::*;

/// An array without elements, in Fortran's order.
fn by_columns(name: &'static str, descr: &'static str, shape: &'static str) -> Array {
    Array {
        fortran: true,
        ..Array::new(name, descr, shape, vec![])
    }
}

/// Every refusal: what is wrong, the file, and the words that its message must hold.
fn refused() -> Vec<(Vec<Array>, ErrorKind, &'static [&'static str])> {
    use ErrorKind::{InsufficientData as Empty, InvalidRecording as Bad};
    let c = counts_arrays;
    let e = events_arrays;
    vec![
        (vec![], Bad, &["counts", "spike_ticks", "none of these"]),
        (without(c(), "step_seconds"), Bad, &["step_seconds", "none"]),
        (without(e(), "tick_seconds"), Bad, &["tick_seconds", "none"]),
        (
            without(e(), "spike_channels"),
            Bad,
            &["spike_channels", "none"],
        ),
        (with(c(), e()[0].clone()), Bad, &["both"]),
        (
            without(c(), "behavior"),
            Bad,
            &["behavior_names", "`behavior` is not"],
        ),
        // types
        (
            with(c(), Array::new("counts", "<c8", "(4, 3)", vec![0; 96])),
            Bad,
            &["counts", "<c8"],
        ),
        (
            with(c(), Array::new("counts", "<i4", "(4, 3)", vec![255; 48])),
            Bad,
            &["counts", "[0, 0] = -1", "uint16"],
        ),
        (
            with(c(), Array::new("step_seconds", "<f16", "()", vec![0; 16])),
            Bad,
            &["step_seconds", "<f16"],
        ),
        (
            with(c(), Array::new("channel_names", "|S1", "(3,)", vec![65; 3])),
            Bad,
            &["channel_names", "|S1"],
        ),
        (
            with(c(), Array::new("meta", "|O", "()", vec![0; 8])),
            Bad,
            &["meta", "|O"],
        ),
        (
            with(
                c(),
                Array::new("behavior", "<f8", "(4, 2)", bytes::<f64>(&[1e300; 8])),
            ),
            Bad,
            &["behavior", "float32"],
        ),
        (
            with(
                e(),
                Array::new("spike_ticks", "<f8", "(5,)", bytes::<f64>(&[0.5; 5])),
            ),
            Bad,
            &["spike_ticks", "int64"],
        ),
        (
            with(
                e(),
                Array::new(
                    "spike_channels",
                    "<i8",
                    "(5,)",
                    bytes::<i64>(&[0, 0, -1, 0, 0]),
                ),
            ),
            Bad,
            &["spike_channels", "[2] = -1"],
        ),
        (
            with(c(), Array::new("segments", "<M8[s]", "(2, 2)", vec![0; 32])),
            Bad,
            &["segments", "int64"],
        ),
        // shapes and lengths
        (
            with(c(), Array::new("counts", "|u1", "(12,)", vec![0; 12])),
            Bad,
            &["counts", "2 dimensions", "(12,)"],
        ),
        (
            with(
                c(),
                Array::new("step_seconds", "<f8", "(2,)", bytes::<f64>(&[0.1, 0.1])),
            ),
            Bad,
            &["step_seconds", "one number"],
        ),
        (
            with(
                c(),
                Array::new("segments", "<i8", "(1, 4)", bytes::<i64>(&[0, 2, 2, 4])),
            ),
            Bad,
            &["segments", "(n, 2)"],
        ),
        (
            with(c(), Array::new("segments", "<i8", "(0, 2)", vec![])),
            Empty,
            &["segments"],
        ),
        (
            with(
                c(),
                Array::new("electrode_um", "<f4", "(2, 2)", bytes::<f32>(&[0.; 4])),
            ),
            Bad,
            &["electrode_um", "3"],
        ),
        (
            with(
                c(),
                Array::new("electrode_um", "<f4", "(3, 3)", bytes::<f32>(&[0.; 9])),
            ),
            Bad,
            &["electrode_um", "(3, 3)"],
        ),
        (
            with(
                c(),
                Array::new("channel_names", "<U1", "(2,)", text(1, &["a", "b"])),
            ),
            Bad,
            &["channel_names", "3 names", "2"],
        ),
        (
            with(
                c(),
                Array::new("behavior_names", "<U1", "(1,)", text(1, &["x"])),
            ),
            Bad,
            &["behavior_names", "2"],
        ),
        (
            with(
                c(),
                Array::new(
                    "behavior_names",
                    "<U1",
                    "(4,)",
                    text(1, &["a", "b", "c", "d"]),
                ),
            ),
            Bad,
            &[
                "(samples, outputs)",
                "got 4 samples of 2 outputs",
                "it is transposed",
            ],
        ),
        (
            with(
                c(),
                Array::new("behavior_units", "<U1", "(3,)", text(1, &["m"; 3])),
            ),
            Bad,
            &["behavior_units", "3"],
        ),
        (
            with(
                c(),
                Array::new("behavior", "<f4", "(3, 2)", bytes::<f32>(&[0.; 6])),
            ),
            Bad,
            &["behavior", "4 samples", "3"],
        ),
        (
            with(c(), Array::new("behavior", "<f4", "(0, 2)", vec![])),
            Bad,
            &["behavior", "(0, 2)"],
        ),
        (
            with(
                e(),
                Array::new("spike_channels", "<u2", "(4,)", bytes::<u16>(&[0; 4])),
            ),
            Bad,
            &["spike_channels", "5", "4"],
        ),
        (
            with(
                e(),
                Array::new("behavior_times", "<f8", "(2,)", bytes::<f64>(&[0., 1.])),
            ),
            Bad,
            &["behavior_times", "3", "2"],
        ),
        // values
        (
            with(
                c(),
                Array::new("step_seconds", "<f8", "()", bytes::<f64>(&[0.0])),
            ),
            Bad,
            &["step_seconds", "> 0"],
        ),
        (
            with(
                c(),
                Array::new("step_seconds", "<f8", "()", bytes::<f64>(&[f64::NAN])),
            ),
            Bad,
            &["step_seconds", "NaN"],
        ),
        (
            with(
                e(),
                Array::new("spike_ticks", "<i8", "(5,)", bytes::<i64>(&[0, 3, 2, 7, 9])),
            ),
            Bad,
            &["spike_ticks", "[2] = 2", "[1] = 3"],
        ),
        (
            with(
                e(),
                Array::new(
                    "spike_ticks",
                    "<i8",
                    "(5,)",
                    bytes::<i64>(&[-2, 3, 3, 7, 9]),
                ),
            ),
            Bad,
            &["spike_ticks", "[0] = -2"],
        ),
        (
            with(
                e(),
                Array::new(
                    "spike_ticks",
                    "<i8",
                    "(5,)",
                    bytes::<i64>(&[0, 3, 3, 7, i64::MAX]),
                ),
            ),
            Bad,
            &["ticks"],
        ),
        (
            with(
                e(),
                Array::new("duration_ticks", "<i8", "()", bytes::<i64>(&[8])),
            ),
            Bad,
            &["spike_ticks", "[4] = 9", "8"],
        ),
        (
            with(
                e(),
                Array::new("channel_names", "<U1", "(1,)", text(1, &["a"])),
            ),
            Bad,
            &["spike_channels", "[0] = 1", "below 1"],
        ),
        (
            with(
                c(),
                Array::new("channel_names", "<U1", "(3,)", text(1, &["a", "b", "a"])),
            ),
            Bad,
            &["channel_names", "[2] = `a`", "[0]"],
        ),
        (
            with(
                c(),
                Array::new("behavior_names", "<U1", "(2,)", text(1, &["x", "x"])),
            ),
            Bad,
            &["behavior_names", "`x`"],
        ),
        (
            with(
                c(),
                Array::new(
                    "behavior",
                    "<f4",
                    "(4, 2)",
                    bytes::<f32>(&[0., f32::NAN].repeat(4)),
                ),
            ),
            Bad,
            &["behavior", "a sample without NaN", "each of 4"],
        ),
        (
            with(
                c(),
                Array::new(
                    "behavior",
                    "<f4",
                    "(4, 2)",
                    bytes::<f32>(&[0., 1., 2., 3., 4., 5., f32::INFINITY, 7.]),
                ),
            ),
            Bad,
            &[
                "behavior",
                "[3, 0]",
                "inf",
                "or NaN where a sample is missing",
            ],
        ),
        (
            with(
                e(),
                Array::new(
                    "behavior_times",
                    "<f8",
                    "(3,)",
                    bytes::<f64>(&[0., 0.5, 0.4]),
                ),
            ),
            Bad,
            &["behavior_times", "[2] = 0.4"],
        ),
        (
            with(
                e(),
                Array::new(
                    "behavior_times",
                    "<f8",
                    "(3,)",
                    bytes::<f64>(&[0., f64::NAN, 0.4]),
                ),
            ),
            Bad,
            &["behavior_times", "[1] = NaN"],
        ),
        (
            with(
                e(),
                Array::new(
                    "behavior_times",
                    "<f8",
                    "(3,)",
                    bytes::<f64>(&[0., 0.5, 1e300]),
                ),
            ),
            Bad,
            &["behavior_times", "e300"],
        ),
        (
            with(
                c(),
                Array::new("segments", "<i8", "(2, 2)", bytes::<i64>(&[0, 3, 2, 4])),
            ),
            Bad,
            &["segments", "[1]", "overlaps"],
        ),
        (
            with(
                c(),
                Array::new("segments", "<i8", "(2, 2)", bytes::<i64>(&[2, 4, 0, 2])),
            ),
            Bad,
            &["segments", "[1]"],
        ),
        (
            with(
                c(),
                Array::new("segments", "<i8", "(2, 2)", bytes::<i64>(&[0, 2, 2, 2])),
            ),
            Bad,
            &["segments", "[1]", "non-empty"],
        ),
        (
            with(
                c(),
                Array::new("segments", "<i8", "(2, 2)", bytes::<i64>(&[0, 2, 2, 5])),
            ),
            Bad,
            &["segments", "[1]", "[0, 4)"],
        ),
        (
            with(
                c(),
                Array::new(
                    "electrode_um",
                    "<f4",
                    "(3, 2)",
                    bytes::<f32>(&[0., 1., 2., f32::INFINITY, 4., 5.]),
                ),
            ),
            Bad,
            &["electrode_um", "[1]"],
        ),
        (
            with(
                c(),
                Array::new("channel_names", "<U1", "(3,)", vec![0xff; 12]),
            ),
            Bad,
            &["channel_names", "[0]", "Unicode"],
        ),
        // headers that lie
        (
            with(c(), Array::new("counts", "|u1", "(5, 3)", vec![0; 12])),
            Bad,
            &["counts", "truncated", "15"],
        ),
        (
            with(c(), Array::new("counts", "|u1", "(3, 3)", vec![0; 12])),
            Bad,
            &["counts", "more data"],
        ),
        (
            with(
                c(),
                Array::new("counts", "|u1", "(4294967296, 4294967296, 3)", vec![0; 12]),
            ),
            Bad,
            &["counts"],
        ),
        (
            with(
                c(),
                Array::new("counts", "|u1", "(4294967296, 4294967296)", vec![0; 12]),
            ),
            Bad,
            &["counts", "memory"],
        ),
        (
            with(
                c(),
                Array::new("counts", "|u1", "(1099511627776, 3)", vec![0; 12]),
            ),
            Bad,
            &["counts", "truncated"],
        ),
        (
            with(
                c(),
                Array::new("counts", "|u1", "(0, 1099511627776)", vec![]),
            ),
            Bad,
            &["channel_names"],
        ),
        (
            with(
                c(),
                Array::new("behavior", "<f4", "(0, 1099511627776)", vec![]),
            ),
            Bad,
            &["behavior"],
        ),
        (
            with(c(), by_columns("counts", "|u1", "(4611686018427387904, 0)")),
            Bad,
            &["channel_names", "0 names"],
        ),
        (
            with(c(), by_columns("behavior", "<f4", "(5, 0)")),
            Bad,
            &["behavior_names", "0 strings"],
        ),
        (
            with(c(), by_columns("segments", "<i8", "(4, 0)")),
            Bad,
            &["segments"],
        ),
        (
            with(
                c(),
                Array::new("behavior", "<f4", "(1099511627776, 2)", vec![0; 32]),
            ),
            Bad,
            &["behavior", "truncated"],
        ),
        (
            with(
                c(),
                Array::new("channel_names", "<U0", "(1099511627776,)", vec![]),
            ),
            Bad,
            &["channel_names"],
        ),
        (
            with(
                c(),
                Array::new("channel_names", "<U9999999999999", "(3,)", vec![0; 12]),
            ),
            Bad,
            &["channel_names"],
        ),
        (
            with(
                e(),
                Array::new("spike_ticks", "<i8", "(1152921504606846976,)", vec![0; 40]),
            ),
            Bad,
            &["spike_ticks", "truncated"],
        ),
        (
            with(c(), Array::new("counts", "|u1", "(4, 3", vec![0; 12])),
            Bad,
            &["counts", "header"],
        ),
        // nothing recorded
        (
            without(
                without(
                    with(c(), Array::new("counts", "|u1", "(0, 3)", vec![])),
                    "behavior",
                ),
                "segments",
            )
            .into_iter()
            .filter(|a| !a.name.starts_with("behavior"))
            .collect(),
            Empty,
            &["empty recording"],
        ),
        (
            vec![
                Array::new("counts", "|u1", "(4, 0)", vec![]),
                Array::new("step_seconds", "<f8", "()", bytes::<f64>(&[0.1])),
            ],
            Empty,
            &["empty recording"],
        ),
        (
            vec![
                Array::new("spike_ticks", "<i8", "(0,)", vec![]),
                Array::new("spike_channels", "<u2", "(0,)", vec![]),
                Array::new("tick_seconds", "<f8", "()", bytes::<f64>(&[0.1])),
            ],
            Empty,
            &["empty recording"],
        ),
    ]
}

#[test]
fn bad_files_are_refused_with_file_array_and_position() {
    for (i, (arrays, kind, words)) in refused().into_iter().enumerate() {
        let e = read_arrays(&arrays).expect_err(&format!("case {i}: {words:?}"));
        assert_eq!(e.kind(), kind, "case {i}: {e}");
        for word in words.iter().chain(&["case.npz"]) {
            assert!(
                e.message().contains(word),
                "case {i}: `{word}` is not in: {e}"
            );
        }
    }
}

#[test]
fn a_channel_number_alone_does_not_make_a_billion_names() {
    let bytes: Vec<u8> = [0_u32, 1, 2, 3, u32::MAX]
        .iter()
        .flat_map(|c| c.to_le_bytes())
        .collect();
    let e = read_arrays(&with(
        events_arrays(),
        Array::new("spike_channels", "<u4", "(5,)", bytes),
    ));
    assert!(e.unwrap_err().message().contains("channel_names"));
}

#[test]
fn files_that_are_no_archives_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let e = Recording::read_npz(dir.path()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.message().contains("directory"), "{e}");
    let e = Recording::read_npz(&dir.path().join("absent.npz")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.message().contains("absent.npz"), "{e}");
    for bytes in [&b""[..], b"label,seconds\na,0.5\n", &[0; 5000]] {
        let e = read_bytes(bytes).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidRecording, "{e}");
        assert!(
            e.message().contains("case.npz") && e.message().contains("archive"),
            "{e}"
        );
    }
}

#[test]
fn every_truncation_is_refused() {
    for bytes in [
        npz(&counts_arrays(), CompressionMethod::Deflated),
        npz(&events_arrays(), CompressionMethod::Stored),
    ] {
        for keep in (0..bytes.len()).step_by(7) {
            let e = read_bytes(&bytes[..keep]).expect_err("a truncated file");
            assert_eq!(e.kind(), ErrorKind::InvalidRecording, "{keep} bytes: {e}");
        }
    }
}

#[test]
fn flipped_bytes_never_panic_and_never_change_the_data_unseen() {
    let whole = npz(&events_arrays(), CompressionMethod::Deflated);
    let good = read_bytes(&whole).unwrap();
    let mut refused = 0;
    for at in 0..whole.len() {
        for mask in [0x01, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            match read_bytes(&bytes) {
                // A flip of what does not matter: a date, a permission, the version that wrote it,
                // or the name of an optional array, which then is not there.
                Ok(r) => assert!(
                    r == good || r.behavior != good.behavior || r.ticks != good.ticks,
                    "byte {at} ^ {mask:#x} changed the spikes unseen"
                ),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(
        refused > whole.len(),
        "{refused} of {} flips refused",
        2 * whole.len()
    );
}
