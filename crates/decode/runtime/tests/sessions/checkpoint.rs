//! A restarted session goes on bit for bit, and nothing damaged or foreign is taken.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use super::common::{counts, decoder, rng, spikes};
use betz_base::ErrorKind;
use betz_runtime::model::{Decoder, LowPass};
use betz_runtime::stream::{Hold, Session, SessionConfig};

const BANK: &[(f64, u32)] = &[(0.02, 0), (0.05, 1), (0.1, 4)];

fn model(seed: u64) -> Decoder {
    let low_pass = LowPass {
        order: 3,
        cutoff_hz: 8.0,
    };
    decoder(&mut rng(seed), 8, 2, BANK, Some(low_pass))
}

fn open(decoder: &Decoder) -> Session {
    Session::open(decoder, SessionConfig::default()).unwrap()
}

#[test]
fn a_restored_session_goes_on_bit_for_bit() {
    let decoder = model(0);
    let counts = counts(&mut rng(1), 200, 8);
    for cut in [0, 1, 77, 199] {
        let (before, after) = counts.split_at(cut * 8);
        let mut first = open(&decoder);
        let mut out = [0.0; 2];
        for tick in before.chunks(8) {
            let mut list = spikes(tick);
            list.push(99);
            first.step_spikes(&list, &mut out).unwrap();
        }
        let bytes = first.checkpoint().unwrap();
        // As after a restart: the model from its file, and a session that has seen other things.
        let decoder = Decoder::from_bytes(&decoder.to_bytes().unwrap()).unwrap();
        let mut second = open(&decoder);
        second.step_counts(&[7; 8], &mut out).unwrap();
        second.restore(&bytes).unwrap();
        assert_eq!(second.checkpoint().unwrap(), bytes);
        assert_eq!(second.stats().ticks, cut as u64);
        assert_eq!(second.stats().unknown_channel_spikes, cut as u64);
        for tick in after.chunks(8) {
            let mut other = [0.0; 2];
            first.step_counts(tick, &mut out).unwrap();
            second.step_counts(tick, &mut other).unwrap();
            assert_eq!(out, other);
        }
    }
}

#[test]
fn every_flipped_byte_and_truncation_is_refused_and_changes_nothing() {
    let decoder = model(0);
    let mut session = open(&decoder);
    session.step_counts(&[1; 8], &mut [0.0; 2]).unwrap();
    let bytes = session.checkpoint().unwrap();
    session.step_counts(&[2; 8], &mut [0.0; 2]).unwrap();
    let now = session.checkpoint().unwrap();
    for at in 0..bytes.len() {
        for change in [1, 0x10, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            let error = session.restore(&damaged).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCheckpoint);
        }
        assert!(session.restore(&bytes[..at]).is_err());
    }
    assert!(session.restore(&decoder.to_bytes().unwrap()).is_err());
    assert_eq!(session.checkpoint().unwrap(), now);
    session.restore(&bytes).unwrap();
}

/// With a right checksum, what the states are is checked still.
#[test]
fn states_that_are_no_numbers_are_refused() {
    let mut session = open(&model(0));
    let mut bytes = session.checkpoint().unwrap();
    let end = bytes.len() - 4;
    // The last words are the outputs; states lie before them. What is too large overflows before long.
    for (at, value) in [
        (end - 8, f64::NAN),
        (end - 8, 1e39),
        (end - 24, f64::NAN),
        (end - 24, f64::INFINITY),
        (end - 24, 1e300),
    ] {
        let mut damaged = bytes.clone();
        damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let checksum = crc32fast::hash(&damaged[..end]);
        damaged[end..].copy_from_slice(&checksum.to_le_bytes());
        let error = session.restore(&damaged).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidCheckpoint, "{at} {value}");
    }
    bytes[8] = 2;
    let checksum = crc32fast::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    let error = session.restore(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
}

#[test]
fn another_model_or_mask_is_refused() {
    let bytes = open(&model(0)).checkpoint().unwrap();
    let mut parts = model(0).into_parts();
    parts.weights[5] += 1e-12;
    let other = Decoder::new(parts).unwrap();
    let mut mask = vec![true; 8];
    mask[2] = false;
    let config = SessionConfig {
        channel_mask: Some(mask),
        ..SessionConfig::default()
    };
    for mut session in [
        open(&model(1)),
        open(&other),
        Session::open(&model(0), config).unwrap(),
    ] {
        let error = session.restore(&bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
    }
    // A session does not depend on how its model was trained.
    let mut same = model(0).into_parts();
    same.training.steps = 42;
    open(&Decoder::new(same).unwrap()).restore(&bytes).unwrap();
}

fn with_policy(slew: Option<[f32; 2]>, hold: Option<Hold>) -> Session {
    let config = SessionConfig {
        slew: slew.map(Vec::from),
        hold,
        ..SessionConfig::default()
    };
    Session::open(&model(9), config).unwrap()
}

/// A session whose hold is the usual one but for a change.
fn holding(change: impl FnOnce(&mut Hold)) -> Session {
    let mut hold = Hold::default();
    change(&mut hold);
    with_policy(None, Some(hold))
}

fn resting_at(rest: [f32; 2]) -> Session {
    holding(|hold| hold.rest = Some(rest.into()))
}

#[test]
fn a_checkpoint_under_another_policy_is_a_mismatch_that_names_it() {
    let sessions = [
        (
            "hold: expected none, got one",
            with_policy(None, None),
            holding(|_| {}),
        ),
        (
            "slew: expected none, got one",
            with_policy(None, None),
            with_policy(Some([0.5; 2]), None),
        ),
        (
            "slew: expected the values",
            with_policy(Some([0.25, 0.5]), None),
            with_policy(Some([0.5, 0.25]), None),
        ),
        (
            "hold_seconds: expected 20 steps, got 40",
            holding(|_| {}),
            holding(|hold| hold.hold_seconds = 0.4),
        ),
        (
            "decay_seconds: expected 50 steps, got 10",
            holding(|_| {}),
            holding(|hold| hold.decay_seconds = 0.1),
        ),
        (
            "patience_steps: expected 2 steps, got 3",
            holding(|_| {}),
            holding(|hold| hold.patience_steps = 3),
        ),
        (
            "rest: expected the values",
            resting_at([0.0, 1.0]),
            resting_at([1.0, 0.0]),
        ),
    ];
    for (expected, to, from) in &sessions {
        let message = |from: &Session, to: &Session| {
            let mut to = to.clone();
            let before = to.checkpoint().unwrap();
            let error = to.restore(&from.checkpoint().unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            assert_eq!(to.checkpoint().unwrap(), before);
            error.message().to_owned()
        };
        let said = message(from, to);
        assert!(said.contains(expected), "{said}");
        let name = expected.split(' ').next().unwrap();
        assert!(message(to, from).contains(name));
        to.clone().restore(&to.checkpoint().unwrap()).unwrap();
    }
    // 0 is where outputs come to rest if nothing else is said.
    let said = holding(|_| {}).checkpoint().unwrap();
    resting_at([0.0; 2]).restore(&said).unwrap();
}

#[test]
fn room_and_swaps() {
    let mut session = open(&model(0));
    let mut short = vec![0; session.checkpoint_len() - 1];
    let error = session.checkpoint_into(&mut short).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    let mut long = vec![9; session.checkpoint_len() + 3];
    let length = session.checkpoint_into(&mut long).unwrap();
    assert_eq!(long[length..], [9; 3]);
    session.restore(&long[..length]).unwrap();

    let mut swapper = session.swapper().unwrap();
    swapper.swap(&model(1)).unwrap();
    session.step_counts(&[0; 8], &mut [0.0; 2]).unwrap();
    let error = session.restore(&long[..length]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
