//! `betz train --same-bits`: the same model file on every processor and system.

use std::fs;
use std::path::Path;

use betz::hash::Fnv1a;
use betz::recording::arrays::{Array, write};

use crate::program::{command, done, refused};

const CHANNELS: usize = 24;
const STEPS: usize = 1_500;

/// `hand.npz`: counts of channels that prefer places along two zigzags. No function of the system's library makes them.
fn hand(folder: &Path) {
    let zigzag = |step: usize, period: usize| {
        let at = step % period;
        at.min(period - at) as i64 * 64 / period as i64
    };
    let (mut counts, mut behavior) = (Vec::new(), Vec::new());
    let mut state = 1_u32;
    for step in 0..STEPS {
        let at = [zigzag(step, 60), zigzag(step + 17, 88)];
        behavior.extend(at.map(|v| v as f32 / 32.0));
        for channel in 0..CHANNELS as i64 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let own = [channel % 6 * 6, channel / 6 * 10];
            let distance = (at[0] - own[0]).abs() + (at[1] - own[1]).abs();
            counts.push(u8::from(i64::from(state >> 26) > 8 + distance));
        }
    }
    let arrays = [
        ("counts", Array::U8(&[STEPS, CHANNELS], &counts)),
        ("behavior", Array::F32(&[STEPS, 2], &behavior)),
        ("step_seconds", Array::F64(&[], &[0.02])),
    ];
    write(&folder.join("hand.npz"), &arrays).unwrap();
}

#[test]
fn a_model_has_the_same_bits_everywhere_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    hand(folder);
    let hash = |options: &str, threads: &str| {
        let line = format!(
            "train hand.npz --filter 0.04:1 --filter 0.15:0 --force --out a.betz {options}"
        );
        let output = command(folder, &line)
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "betz {line}: {errors}");
        let mut hash = Fnv1a::new();
        hash.bytes(&fs::read(folder.join("a.betz")).unwrap());
        format!("{:016x}", hash.finish())
    };
    for (kind, expected) in EXPECTED {
        for threads in ["1", "4"] {
            let got = hash(&format!("--same-bits --decoder {kind}"), threads);
            assert_eq!(got, *expected, "{kind}, {threads} threads");
        }
    }
}

/// Hashes of each kind's model file. They come from Linux on x86-64 with AVX-512.
const EXPECTED: &[(&str, &str)] = &[
    ("linear", "ffd88d5c3fb8791b"),
    ("kalman", "3cda9d3f569c70d5"),
];

#[test]
fn what_has_no_order_of_its_own_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --neurons 8 --seconds 20 --out any.npz");
    let train = "train any.npz --out any.betz --same-bits";
    for (options, words) in [
        ("--device cuda", "--same-bits: expected --device cpu"),
        ("--decoder auto --budget 10us", "--budget"),
        ("--memory 1GiB", "--memory"),
        ("--decoder place --marks", "--marks"),
    ] {
        refused(folder, &format!("{train} {options}"), 2, words);
    }
    assert!(!folder.join("any.betz").exists());
}
