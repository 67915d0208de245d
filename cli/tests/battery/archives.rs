//! `.npz` files that a recorder, a script or an enemy may have written.

use std::fs;
use std::path::Path;

use betz_testkit::npy::{Array, bytes, npz};
use zip::CompressionMethod;

/// 300 bins of 4 channels with behaviour, as `descr` stores the counts.
fn counts() -> Vec<Array> {
    let bins = 300;
    let counts: Vec<u8> = (0..bins * 4)
        .map(|i: u32| (i * 7919 % 13 % 5) as u8)
        .collect();
    let x: Vec<f32> = (0..bins).map(|t| (t as f32 * 0.1).sin()).collect();
    vec![
        Array::new("counts", "|u1", "(300, 4)", counts),
        Array::new("step_seconds", "<f8", "()", bytes::<f64>(&[0.05])),
        Array::new("behavior", "<f4", "(300, 1)", bytes::<f32>(&x)),
    ]
}

fn events() -> Vec<Array> {
    let ticks: Vec<i64> = (0..900).map(|i| i * 11 / 3).collect();
    let channels: Vec<u16> = (0..900).map(|i: u32| (i * 31 % 7 % 4) as u16).collect();
    let x: Vec<f32> = (0..330).map(|t| (t as f32 * 0.1).cos()).collect();
    let times: Vec<f64> = (0..330).map(|t| f64::from(t) * 0.01).collect();
    vec![
        Array::new("spike_ticks", "<i8", "(900,)", bytes::<i64>(&ticks)),
        Array::new("spike_channels", "<u2", "(900,)", bytes::<u16>(&channels)),
        Array::new("tick_seconds", "<f8", "()", bytes::<f64>(&[0.001])),
        Array::new("behavior", "<f4", "(330, 1)", bytes::<f32>(&x)),
        Array::new("behavior_times", "<f8", "(330,)", bytes::<f64>(&times)),
    ]
}

/// `base` with `changed` in the place of its namesake.
fn with(mut base: Vec<Array>, changed: Array) -> Vec<Array> {
    base.retain(|m| m.name != changed.name);
    base.push(changed);
    base
}

/// Names of the files that [`write_all`] makes, without their ending.
pub(crate) fn names() -> Vec<String> {
    every().into_iter().map(|(name, _)| name).collect()
}

/// Writes every archive into `folder`.
pub(crate) fn write_all(folder: &Path) {
    for (name, members) in every() {
        let archive = npz(&members, CompressionMethod::Deflated);
        fs::write(folder.join(format!("{name}.npz")), archive).unwrap();
    }
    let stored = npz(&counts(), CompressionMethod::Stored);
    fs::write(folder.join("stored.npz"), stored).unwrap();
    fs::write(folder.join("empty.npz"), "").unwrap();
    fs::write(folder.join("text.npz"), "label,seconds\na,1\n").unwrap();
}

fn every() -> Vec<(String, Vec<Array>)> {
    let mut all: Vec<(String, Vec<Array>)> = vec![
        ("counts".into(), counts()),
        ("events".into(), events()),
        ("no-step".into(), counts()[..1].to_vec()),
        ("no-behavior".into(), counts()[..2].to_vec()),
        ("no-array".into(), Vec::new()),
        ("both".into(), [counts(), events()[..3].to_vec()].concat()),
    ];
    let mut add = |name: String, members: Vec<Array>| all.push((name, members));
    // Every dtype, right and wrong.
    for (descr, size) in [
        ("|b1", 1),
        ("|i1", 1),
        ("|u1", 1),
        ("<i2", 2),
        (">i2", 2),
        ("<u2", 2),
        ("<i4", 4),
        (">u4", 4),
        ("<i8", 8),
        ("<u8", 8),
        ("<f2", 2),
        ("<f4", 4),
        (">f8", 8),
        ("<f16", 16),
        ("<c8", 8),
        ("<c16", 16),
        ("|O", 8),
        ("|S3", 3),
        ("<U2", 8),
        ("<M8[ns]", 8),
        ("|V4", 4),
        ("", 1),
        ("<", 1),
        ("<f", 1),
        ("<u999", 1),
    ] {
        for (k, byte) in [0_u8, 1, 0x7F, 0xFF].into_iter().enumerate() {
            // Small numbers, the first of them strange.
            let mut bytes: Vec<u8> = (0..1200 * size)
                .map(|i| {
                    if i % size == 0 {
                        (i / size % 7 % 3) as u8
                    } else {
                        0
                    }
                })
                .collect();
            bytes[..size].fill(byte);
            add(
                format!(
                    "dtype-{}-{k}",
                    descr.replace(['|', '<', '>', '[', ']'], "_")
                ),
                with(counts(), Array::new("counts", descr, "(300, 4)", bytes)),
            );
        }
    }
    // Shapes that lie.
    for (k, shape) in [
        "(300, 5)",
        "(300, 3)",
        "(1200,)",
        "()",
        "(0, 4)",
        "(300, 0)",
        "(4611686018427387904, 4)",
        "(18446744073709551615, 18446744073709551615)",
        "(99999999999999999999, 1)",
        "(-1, 4)",
        "(1, 2, 3, 4)",
        "(1000000000, 0)",
        "(0, 1000000000000)",
        "(30000000000, 4)",
    ]
    .iter()
    .enumerate()
    {
        add(
            format!("shape-{k}"),
            with(counts(), Array::new("counts", "|u1", shape, vec![1; 1200])),
        );
        add(
            format!("ticks-shape-{k}"),
            with(
                events(),
                Array::new("spike_ticks", "<i8", shape, vec![1; 7200]),
            ),
        );
        add(
            format!("names-shape-{k}"),
            with(
                counts(),
                Array::new("channel_names", "<U1", shape, vec![65; 16]),
            ),
        );
    }
    // Numbers at the edge.
    for (k, value) in [
        0.0,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        1e-300,
        1e300,
        5e-324,
        1e-9,
        1e9,
    ]
    .into_iter()
    .enumerate()
    {
        add(
            format!("step-{k}"),
            with(
                counts(),
                Array::new("step_seconds", "<f8", "()", bytes::<f64>(&[value])),
            ),
        );
        add(
            format!("tick-{k}"),
            with(
                events(),
                Array::new("tick_seconds", "<f8", "()", bytes::<f64>(&[value])),
            ),
        );
        let times: Vec<f64> = (0..330)
            .map(|t| if t == 329 { value } else { f64::from(t) * 1e-3 })
            .collect();
        add(
            format!("times-{k}"),
            with(
                events(),
                Array::new("behavior_times", "<f8", "(330,)", bytes::<f64>(&times)),
            ),
        );
        let x: Vec<f64> = (0..300)
            .map(|t| if t == 100 { value } else { f64::from(t) })
            .collect();
        add(
            format!("behavior-{k}"),
            with(
                counts(),
                Array::new("behavior", "<f8", "(300, 1)", bytes::<f64>(&x)),
            ),
        );
    }
    for (k, ticks) in [i64::MIN, -1, 0, 1 << 52, i64::MAX].into_iter().enumerate() {
        add(
            format!("duration-{k}"),
            with(
                events(),
                Array::new("duration_ticks", "<i8", "()", bytes::<i64>(&[ticks])),
            ),
        );
        let mut all: Vec<i64> = (0..900).collect();
        all[899] = ticks;
        add(
            format!("last-tick-{k}"),
            with(
                events(),
                Array::new("spike_ticks", "<i8", "(900,)", bytes::<i64>(&all)),
            ),
        );
        add(
            format!("segment-{k}"),
            with(
                counts(),
                Array::new("segments", "<i8", "(1, 2)", bytes::<i64>(&[0, ticks])),
            ),
        );
    }
    // Counts of 65,535, sparse channels, constant truth, silence.
    for bins in [4_usize, 300, 4000, 40_000] {
        let x: Vec<f32> = (0..bins).map(|t| (t as f32 * 0.1).sin()).collect();
        let members = vec![
            Array::new(
                "counts",
                "<u2",
                &format!("({bins}, 4)"),
                vec![0xFF; bins * 8],
            ),
            Array::new("step_seconds", "<f8", "()", bytes::<f64>(&[0.05])),
            Array::new("behavior", "<f4", &format!("({bins}, 1)"), bytes::<f32>(&x)),
        ];
        add(format!("full-{bins}"), members);
    }
    for most in [100_u32, 9_000, 65_535, 1 << 20, u32::MAX] {
        let channels: Vec<u8> = (0..900_u32)
            .flat_map(|i| (i % 10 * (most / 9)).to_le_bytes())
            .collect();
        add(
            format!("sparse-{most}"),
            with(
                events(),
                Array::new("spike_channels", "<u4", "(900,)", channels),
            ),
        );
    }
    add(
        "constant".into(),
        with(
            counts(),
            Array::new("behavior", "<f4", "(300, 1)", bytes::<f32>(&[3.7; 300])),
        ),
    );
    add(
        "silent".into(),
        with(
            counts(),
            Array::new("counts", "|u1", "(300, 4)", vec![0; 1200]),
        ),
    );
    let mut half = vec![0_u8; 1200];
    half[..200].fill(1);
    add(
        "half-silent".into(),
        with(counts(), Array::new("counts", "|u1", "(300, 4)", half)),
    );
    // 20 MB of zeros in some kB.
    add(
        "bomb".into(),
        with(
            counts(),
            Array::new("counts", "|u1", "(5000000, 4)", vec![0; 20_000_000]),
        ),
    );
    all
}
