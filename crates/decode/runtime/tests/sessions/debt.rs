//! Pauses that take a head more steps than one call makes: states are made up for in the steps that follow.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_runtime::model::Decoder;
use betz_runtime::psc::LowPass;
use betz_runtime::stream::{Session, SessionConfig, StepStatus};

use crate::common::{close, open, rng};
use crate::{blend, skip};
use rand::RngExt;

/// Decoders of every kind in steps of 1 ms, in which a call makes about 100,000 instructions.
fn decoders() -> Vec<Decoder> {
    let all = skip::decoders();
    #[cfg(feature = "layers")]
    let all = [all, crate::layers::decoders()].concat();
    let all = all.into_iter().enumerate().map(|(i, decoder)| {
        let mut parts = decoder.into_parts();
        parts.step_seconds = 0.001;
        if i % 3 == 0 {
            parts.low_pass = Some(LowPass {
                order: 3,
                cutoff_hz: 8.0,
            });
        }
        Decoder::new(parts).unwrap()
    });
    let all: Vec<Decoder> = all.collect();
    // A lift, experts and places.
    let members = [0, 3, 7].map(|i| (1.0 / 3.0, all[i].clone()));
    let blended = blend::blend(&members).unwrap();
    all.into_iter().chain([blended]).collect()
}

/// Ticks of a pause, and steps with spikes after it.
type Part = (u64, usize);

/// Steps with the same random spikes for every session of the same seed.
struct Spikes(crate::common::Rng, u32);

impl Spikes {
    fn new(seed: u64, decoder: &Decoder) -> Self {
        Self(rng(seed), decoder.channels() as u32)
    }

    fn next(&mut self) -> Vec<u32> {
        let n = self.0.random_range(0..3);
        (0..n).map(|_| self.0.random_range(0..self.1)).collect()
    }
}

fn step(session: &mut Session, spikes: &[u32]) -> Vec<f32> {
    let mut out = vec![0.0; session.outputs()];
    session.step_spikes(spikes, &mut out).unwrap();
    out
}

/// Steps both sessions through `parts`, the pauses of one by skips.
fn pause(both: &mut [Session; 2], parts: &[Part], spikes: &mut Spikes) {
    let [skipping, stepping] = both;
    for (ticks, steps) in parts {
        skipping.skip(*ticks);
        for _ in 0..*ticks {
            step(stepping, &[]);
        }
        for _ in 0..*steps {
            let spikes = spikes.next();
            step(skipping, &spikes);
            step(stepping, &spikes);
        }
    }
}

#[test]
fn states_are_those_of_so_many_steps_once_they_are_made_up_for() {
    let pauses: [&[Part]; 7] = [
        &[(30, 0)],
        &[(300, 0)],
        &[(1000, 0)],
        &[(1024, 0)],
        // Two pauses in a row are one.
        &[(200, 0), (150, 0), (500, 0)],
        // Others in the time in which the first one is made up for.
        &[(700, 3), (200, 1), (40, 5)],
        &[(600, 2), (1, 1), (100, 0), (100, 1), (200, 2)],
    ];
    let mut late = Vec::new();
    for (kind, decoder) in decoders().iter().enumerate() {
        let name = decoder.head().name();
        for (i, parts) in pauses.iter().enumerate() {
            let mut spikes = Spikes::new(7, decoder);
            let mut both = [open(decoder), open(decoder)];
            pause(&mut both, &[(0, 60)], &mut spikes);
            pause(&mut both, parts, &mut spikes);
            let [skipping, stepping] = &mut both;
            let (mut stale, mut good) = (0, 0);
            while good < 20 {
                let spikes = spikes.next();
                let (a, b) = (step(skipping, &spikes), step(stepping, &spikes));
                if skipping.status().contains(StepStatus::STALE) {
                    stale += 1;
                    assert!(stale < 2000, "{name} {kind}, {parts:?}: never made up for");
                    continue;
                }
                good += 1;
                assert!(
                    close(&a, &b, 2e-6),
                    "{name} {kind}, pauses {i}: {a:?} {b:?}"
                );
            }
            if stale > 0 {
                late.push(name);
            }
        }
    }
    for name in ["lift", "experts", "place", "recurrent"] {
        assert!(late.contains(&name), "{name} never had a debt: {late:?}");
    }
}

/// A session that has just skipped 1,000 ticks and makes up for them.
fn behind(decoder: &Decoder) -> (Session, Spikes) {
    let mut spikes = Spikes::new(8, decoder);
    let mut session = open(decoder);
    for _ in 0..40 {
        step(&mut session, &spikes.next());
    }
    session.skip(1000);
    for _ in 0..3 {
        step(&mut session, &spikes.next());
    }
    (session, spikes)
}

#[test]
fn a_clone_and_a_checkpoint_make_up_for_the_same_pause() {
    let mut behind_once = false;
    for decoder in decoders() {
        let (mut session, mut spikes) = behind(&decoder);
        behind_once |= session.status().contains(StepStatus::STALE);
        let mut cloned = session.clone();
        let bytes = session.checkpoint().unwrap();
        let mut restored = open(&decoder);
        // It is behind for another pause.
        step(&mut restored, &spikes.next());
        restored.skip(500);
        step(&mut restored, &spikes.next());
        restored.restore(&bytes).unwrap();
        assert_eq!(restored.checkpoint().unwrap(), bytes);
        let mut room = vec![9; session.checkpoint_len()];
        let length = session.checkpoint_into(&mut room).unwrap();
        assert_eq!(room[..length], bytes);
        let mut from_room = open(&decoder);
        from_room.restore(&room).unwrap();
        let mut good = 0;
        while good < 20 {
            let spikes = spikes.next();
            let expected = step(&mut session, &spikes);
            for other in [&mut cloned, &mut restored, &mut from_room] {
                assert_eq!(step(other, &spikes), expected, "{}", decoder.head().name());
                assert_eq!(other.status(), session.status());
            }
            good += u32::from(!session.status().contains(StepStatus::STALE));
        }
        assert_eq!(cloned.checkpoint().unwrap(), session.checkpoint().unwrap());
    }
    assert!(behind_once);
}

/// Length of a checkpoint's frame, and its checksum anew.
fn sealed(bytes: &mut [u8]) {
    let end = bytes.len() - 4;
    let payload = (bytes.len() - 24) as u64;
    bytes[12..20].copy_from_slice(&payload.to_le_bytes());
    let checksum = crc32(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0xEDB8_8320 } else { 0 };
        }
    }
    !sum
}

#[test]
fn a_debt_that_no_session_has_is_refused() {
    let lift = decoders().remove(0);
    let (mut session, _) = behind(&lift);
    assert!(session.status().contains(StepStatus::STALE));
    let bytes = session.checkpoint().unwrap();
    let settled = open(&lift).checkpoint().unwrap().len();
    assert!(bytes.len() > settled && bytes.len() <= session.checkpoint_len());
    // The debt: number of pauses; passed, forgotten, steps, rest, inputs; states.
    let debt = settled - 4;
    for (word, value) in [
        (0, 0),
        (0, 2),
        (0, 5),
        (0, u64::MAX),
        (3, 1025),
        (5, 0),
        (5, 2),
        (5, 1 << 40),
        (5, u64::MAX),
        (6, f64::NAN.to_bits()),
        (7, f64::INFINITY.to_bits()),
        (8, 1e300_f64.to_bits()),
    ] {
        let mut bad = bytes.clone();
        bad[debt + 8 * word..][..8].copy_from_slice(&u64::to_le_bytes(value));
        sealed(&mut bad);
        let error = session.restore(&bad).unwrap_err();
        assert!(
            error.message().contains("states"),
            "{word} {value}: {error}"
        );
    }
    for length in [settled, settled + 8, bytes.len() - 8] {
        let mut short = bytes[..length].to_vec();
        sealed(&mut short);
        // Without a debt it is a checkpoint of this model.
        assert_eq!(session.clone().restore(&short).is_ok(), length == settled);
    }
    let mut long = [&bytes[..], &[0; 8]].concat();
    sealed(&mut long);
    assert!(session.restore(&long).is_err());
    assert_eq!(session.checkpoint().unwrap(), bytes);
}

#[test]
fn a_reset_or_a_pause_that_outlasts_all_memory_ends_a_debt() {
    for decoder in decoders() {
        let (mut session, mut spikes) = behind(&decoder);
        session.reset();
        let mut fresh = open(&decoder);
        for _ in 0..20 {
            let spikes = spikes.next();
            assert_eq!(step(&mut session, &spikes), step(&mut fresh, &spikes));
            assert!(!session.status().contains(StepStatus::STALE));
        }
        let (mut session, _) = behind(&decoder);
        session.skip(u64::MAX);
        fresh.skip(u64::MAX);
        let (a, b) = (step(&mut session, &[1]), step(&mut fresh, &[1]));
        // Layers keep the phase of their strides for ever.
        if decoder.head().name() != "layers" {
            assert_eq!(a, b, "{}", decoder.head().name());
        }
        assert!(!session.status().contains(StepStatus::STALE));
    }
}

#[test]
fn pauses_without_end_never_end_a_session() {
    for decoder in decoders() {
        let mut spikes = Spikes::new(9, &decoder);
        let mut session = open(&decoder);
        for round in 0..60 {
            for _ in 0..round % 4 {
                let out = step(&mut session, &spikes.next());
                assert!(out.iter().all(|x| x.is_finite()));
            }
            session.skip(1 + 37 * round % 1200);
        }
        let mut steps = 0;
        while {
            step(&mut session, &spikes.next());
            session.status().contains(StepStatus::STALE)
        } {
            steps += 1;
            assert!(steps < 5000, "{}", decoder.head().name());
        }
    }
}

#[test]
fn a_warm_call_leaves_a_debt_as_it_is() {
    for decoder in decoders() {
        let (mut session, mut spikes) = behind(&decoder);
        let mut warmed = session.clone();
        for _ in 0..300 {
            warmed.warm();
            let spikes = spikes.next();
            assert_eq!(step(&mut warmed, &spikes), step(&mut session, &spikes));
            assert_eq!(warmed.status(), session.status());
        }
    }
}

#[test]
fn a_session_in_slow_steps_makes_all_steps_at_once() {
    // 10 ms, and a head of a few thousand instructions: 1,000 steps fit.
    let decoder = skip::decoders().remove(2);
    let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
    step(&mut session, &[1]);
    session.skip(300);
    step(&mut session, &[1]);
    assert!(!session.status().contains(StepStatus::STALE));
}
