//! Blends: against their members one by one, and as sessions.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::ErrorKind;
use betz_runtime::model::{
    Blanking, BlendMember, Decoder, DecoderParts, Head, Limits, LogVariance, ModelBlend,
    OutputRange, Recurrent, RecurrentLayer, RecurrentMember,
};
use betz_runtime::stream::{Session, SessionConfig, StepStatus};
use rand::RngExt;

use crate::common::{
    self, close, counts, goes_on_bit_for_bit, open, rng, run, sampled, spikes, with_sampled,
};
use crate::heads::{heads, with_head};

const CHANNELS: usize = 6;
const OUTPUTS: usize = 3;

/// A linear decoder of the outputs of [`with_head`].
fn linear(seed: u64) -> Decoder {
    let filters = &[(0.02, 1), (0.3, 0), (0.08, 4)];
    let parts = common::decoder(&mut rng(seed), CHANNELS, OUTPUTS, filters, None).into_parts();
    Decoder::new(DecoderParts {
        outputs: ["x", "y", "z"].map(Into::into).to_vec(),
        ..parts
    })
    .unwrap()
}

/// A network on the counts of a step, each of which counts at most twice.
fn recurrent(seed: u64) -> Decoder {
    let units = 4;
    let rng = &mut rng(seed);
    let mut weights =
        |n: usize| -> Vec<f32> { (0..n).map(|_| rng.random_range(-0.6..0.6)).collect() };
    let head = Recurrent {
        units: vec![units],
        members: vec![RecurrentMember {
            layers: vec![RecurrentLayer {
                state_weights: weights(units * 3 * units),
                state_bias: weights(3 * units),
                ..RecurrentLayer::default()
            }],
            readout: weights(OUTPUTS * units),
        }],
        bias: vec![0.5, -2.0, 1.0],
        memory_steps: 40,
        ..Recurrent::default()
    };
    let bin = &[(0.01 / 40.0, 0)];
    let parts = common::decoder(rng, CHANNELS, 3 * units, bin, None).into_parts();
    Decoder::new(DecoderParts {
        outputs: ["x", "y", "z"].map(Into::into).to_vec(),
        intercept: parts.intercept.iter().map(|b| 0.1 * b).collect(),
        head: Head::Recurrent(head),
        limits: Limits {
            count_caps: vec![2.0; CHANNELS],
            ..Limits::default()
        },
        ..parts
    })
    .unwrap()
}

/// A linear decoder and a network, blended.
pub(crate) fn mixed() -> Decoder {
    blend(&[(0.6, linear(90)), (0.4, recurrent(91))]).unwrap()
}

/// The blend of `members`, each with its weight.
pub(crate) fn blend(members: &[(f64, Decoder)]) -> betz_base::Result<Decoder> {
    let [(weight, first), others @ ..] = members else {
        panic!()
    };
    let parts = first.clone().into_parts();
    let member = |(weight, decoder): &(f64, Decoder)| BlendMember {
        weight: *weight,
        decoder: decoder.clone(),
    };
    Decoder::new(DecoderParts {
        head: Head::ModelBlend(ModelBlend {
            own: Box::new(parts.head.clone()),
            weight: *weight,
            members: others.iter().map(member).collect(),
        }),
        ..parts
    })
}

/// Blends with every kind of member in the first place.
pub(crate) fn blends() -> Vec<Vec<(f64, Decoder)>> {
    let of = |k: usize| with_head(60, heads().remove(k));
    let (lift, experts) = (of(0), of(3));
    let with_samples = |seed: u64, decoder: Decoder| {
        let rng = &mut rng(seed);
        let filters = [(200, 3), (12, 0)].map(|(length, start)| sampled(rng, length, start));
        with_sampled(rng, decoder, filters.to_vec())
    };
    vec![
        vec![
            (0.25, lift.clone()),
            (0.2, experts.clone()),
            (0.05, linear(61)),
            (0.5, recurrent(62)),
        ],
        vec![(0.625, experts), (0.375, linear(63))],
        vec![(0.3, linear(64)), (0.7, recurrent(65))],
        vec![(0.4, recurrent(66)), (0.6, lift.clone())],
        vec![
            (0.25, with_samples(58, lift)),
            (0.5, linear(57)),
            (0.25, with_samples(59, linear(56))),
        ],
    ]
}

/// Weighted sums of what the members estimate one by one.
fn expected(members: &[(f64, Decoder)], each: impl Fn(&Decoder) -> Vec<f32>) -> Vec<f32> {
    let mut sums: Vec<f64> = Vec::new();
    for (weight, decoder) in members {
        let estimates = each(decoder);
        sums.resize(estimates.len(), 0.0);
        for (sum, estimate) in sums.iter_mut().zip(estimates) {
            *sum += weight * f64::from(estimate);
        }
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

#[test]
fn estimates_are_weighted_sums_of_the_members() {
    let counts = counts(&mut rng(67), 300, CHANNELS);
    for members in blends() {
        let decoder = blend(&members).unwrap();
        assert_eq!(decoder.kind(), "blend");
        let got = run(&mut open(&decoder), &counts);
        let expected = expected(&members, |member| run(&mut open(member), &counts));
        assert!(close(&got, &expected, 1e-5));
        // Spikes give the bits of counts.
        let mut by_spikes = open(&decoder);
        let mut out = [0.0; OUTPUTS];
        for (counts, got) in counts.chunks(CHANNELS).zip(got.chunks(OUTPUTS)) {
            by_spikes.step_spikes(&spikes(counts), &mut out).unwrap();
            assert!(close(&out, got, 1e-6), "{out:?} {got:?}");
        }
        let longest = |decoder: &Decoder| open(decoder).model().memory_steps();
        let memory = members.iter().map(|(_, member)| longest(member)).max();
        assert_eq!(Some(longest(&decoder)), memory);
    }
}

#[test]
fn checkpoints_files_and_resets_go_on_bit_for_bit() {
    let counts = counts(&mut rng(68), 160, CHANNELS);
    let (first, second) = counts.split_at(90 * CHANNELS);
    for members in blends() {
        let decoder = blend(&members).unwrap();
        goes_on_bit_for_bit(&decoder, first, second);
        let mut session = open(&decoder);
        let start = run(&mut session, first);
        session.warm();
        let before = session.checkpoint().unwrap();
        session.warm();
        assert_eq!(session.checkpoint().unwrap(), before);
        session.reset();
        assert_eq!(run(&mut session, first), start);
        // A checkpoint of other weights is refused.
        let mut other = members.clone();
        (other[0].0, other[1].0) = (other[1].0, other[0].0);
        let mut other = open(&blend(&other).unwrap());
        assert_eq!(
            other.restore(&before).unwrap_err().kind(),
            ErrorKind::Mismatch
        );
    }
}

#[test]
fn masks_reach_every_member() {
    let counts = counts(&mut rng(69), 120, CHANNELS);
    let config = SessionConfig {
        channel_mask: Some(vec![true, false, true, true, false, true]),
        ..SessionConfig::default()
    };
    for members in blends() {
        let decoder = blend(&members).unwrap();
        let masked = |decoder: &Decoder| {
            run(
                &mut Session::open(decoder, config.clone()).unwrap(),
                &counts,
            )
        };
        let got = masked(&decoder);
        assert!(close(&got, &expected(&members, masked), 1e-5));
        assert_ne!(got, run(&mut open(&decoder), &counts));
    }
}

#[test]
fn silence_is_skipped_by_every_member() {
    let counts = counts(&mut rng(70), 200, CHANNELS);
    for members in blends() {
        let decoder = blend(&members).unwrap();
        for ticks in [1, 17, 400] {
            let (mut skipped, mut stepped) = (open(&decoder), open(&decoder));
            run(&mut skipped, &counts);
            run(&mut stepped, &counts);
            skipped.skip(ticks);
            run(&mut stepped, &vec![0; ticks as usize * CHANNELS]);
            let (a, b) = (run(&mut skipped, &counts), run(&mut stepped, &counts));
            assert!(close(&a, &b, 1e-3), "{ticks}");
        }
    }
}

#[test]
fn flags_of_any_member_are_those_of_the_blend() {
    let mut members = blends().remove(2);
    let limits = |most, low| Limits {
        blanking: Some(Blanking {
            least: 0,
            most,
            mean_counts: vec![1.0; CHANNELS],
        }),
        ranges: vec![OutputRange { low, high: 1e9 }; OUTPUTS],
        ..Limits::default()
    };
    let status = |members: &[(f64, Decoder)]| {
        let mut session = open(&blend(members).unwrap());
        session
            .step_counts(&[9; CHANNELS], &mut [0.0; OUTPUTS])
            .unwrap();
        session.status()
    };
    let clean = status(&members);
    assert!(!clean.contains(StepStatus::BLANKED) && !clean.contains(StepStatus::OUT_OF_RANGE));
    for member in 0..2 {
        let plain = members[member].1.clone();
        members[member].1 = Decoder::new(DecoderParts {
            limits: limits(20, 1e8),
            ..plain.clone().into_parts()
        })
        .unwrap();
        let flagged = status(&members);
        assert!(
            flagged.contains(StepStatus::BLANKED) && flagged.contains(StepStatus::OUT_OF_RANGE)
        );
        members[member].1 = plain;
    }
}

#[test]
fn blends_and_linear_models_swap_and_roll_back() {
    let counts = counts(&mut rng(71), 1500, CHANNELS);
    for members in blends() {
        let (old, new) = (blend(&members).unwrap(), linear(72));
        for (from, to) in [(&old, &new), (&new, &old)] {
            let (alone, fresh) = (run(&mut open(from), &counts), run(&mut open(to), &counts));
            let mut session = open(from);
            let mut swapper = session.swapper().unwrap();
            swapper.swap(to).unwrap();
            let warm_up = open(to).model().memory_steps() as usize;
            let (cut, at) = (warm_up * CHANNELS, warm_up * OUTPUTS);
            assert_eq!(run(&mut session, &counts[..cut]), alone[..at]);
            let next = run(&mut session, &counts[cut..cut + 30 * CHANNELS]);
            assert!(close(&next, &fresh[at..at + 30 * OUTPUTS], 1e-6));
            swapper.roll_back().unwrap();
            let rest = run(&mut session, &counts[cut + 30 * CHANNELS..]);
            assert_eq!(rest, alone[at + 30 * OUTPUTS..]);
        }
    }
}

#[test]
fn a_first_member_that_tells_variances_tells_those_of_the_blend() {
    let mut members = blends().remove(0);
    let Head::Lift(lift) = members[0].1.head().clone() else {
        panic!()
    };
    let mut parts = members[0].1.clone().into_parts();
    let variance = LogVariance {
        readout: lift.readout,
    };
    parts.attachments.push(variance.attachment());
    members[0].1 = Decoder::new(parts).unwrap();
    let (mut session, mut alone) = (open(&blend(&members).unwrap()), open(&members[0].1));
    let counts = counts(&mut rng(73), 50, CHANNELS);
    let got = run(&mut session, &counts);
    run(&mut alone, &counts);
    let (mut of_blend, mut of_lift) = ([0.0; OUTPUTS], [0.0; OUTPUTS]);
    session.variances(&mut of_blend).unwrap();
    alone.variances(&mut of_lift).unwrap();
    assert_eq!(of_blend, of_lift);
    members[0].1 = blends()[0][0].1.clone();
    assert!(close(
        &got,
        &run(&mut open(&blend(&members).unwrap()), &counts),
        1e-5
    ));
}

#[test]
fn members_that_do_not_fit_are_refused() {
    let members = blends().remove(0);
    type Members = Vec<(f64, Decoder)>;
    let refused = |change: &dyn Fn(&mut Members), expected: &str| {
        let mut members = members.clone();
        change(&mut members);
        let error = blend(&members).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidModel);
        assert!(error.message().contains(expected), "{}", error.message());
    };
    let changed = |decoder: &Decoder, change: &dyn Fn(&mut DecoderParts)| {
        let mut parts = decoder.clone().into_parts();
        change(&mut parts);
        Decoder::new(parts).unwrap()
    };
    refused(&|m| m.truncate(1), "members: expected 2 to 8, got 1");
    refused(&|m| m[0].0 = 0.5, "a sum of 1, got 1.25");
    refused(
        &|m| (m[0].0, m[1].0) = (-0.25, 0.7),
        "expected 0 to 1, got -0.25",
    );
    refused(&|m| m[1].0 = f64::NAN, "expected 0 to 1, got NaN");
    refused(
        &|m| m[2].1 = blend(&[(0.5, m[2].1.clone()), (0.5, m[3].1.clone())]).unwrap(),
        "member 2: expected a decoder of outputs that is no blend itself, got blend",
    );
    refused(
        &|m| m[1].1 = changed(&m[1].1, &|parts| parts.channel_names[2] = "other".into()),
        "member 1: channel's name: expected that of the first member, \"c2\", got \"other\"",
    );
    refused(
        &|m| m[2].1 = changed(&m[2].1, &|parts| parts.delay_steps = 3),
        "member 2: delay in steps: expected that of the first member, 0, got 3",
    );
    refused(
        &|m| m[3].1 = changed(&m[3].1, &|parts| parts.outputs[0].name = "w".into()),
        "member 3: outputs",
    );
}
