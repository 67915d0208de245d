use super::*;
use crate::kinds::tests::{options, reaches, score, trained};
use crate::kinds::train_kinds_on;
use crate::search::Search;
use betz_base::ErrorKind;
use betz_recording::Segment;

/// A small blend.
fn small_blend() -> KindOptions {
    KindOptions {
        latents: Some(6),
        units: Some(64),
        experts: Some(6),
        layers: Some(vec![16]),
        mixed: Some(0),
        epochs: Some(20),
        ..KindOptions::auto()
    }
}

#[test]
fn a_blend_of_trials_decodes_what_it_was_not_trained_on_as_its_folds_say() {
    let (data, aside) = (reaches(120, 1), reaches(60, 2));
    let (decoder, comparison) = trained(&data, &small_blend());
    let kinds: Vec<Kind> = comparison.kinds.iter().map(|score| score.kind).collect();
    assert_eq!(kinds, small_blend().kinds);
    let [members @ .., blend] = &comparison.kinds[..] else {
        panic!()
    };
    let weights: Vec<f64> = members.iter().filter_map(|score| score.weight).collect();
    assert_eq!(weights.len(), 4);
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(
        weights.iter().all(|&w| w == 0.0 || w >= 0.02),
        "{weights:?}"
    );
    let best = members.iter().map(|score| score.r2).fold(0.0, f64::max);
    assert!(
        blend.r2 > best - 0.01 && blend.r2 > members[0].r2,
        "{comparison:?}"
    );
    assert!(
        blend.configuration.contains("the last 24 trials"),
        "{}",
        blend.configuration
    );
    assert_eq!((comparison.taken, decoder.kind()), (Kind::Blend, "blend"));
    assert_eq!(decoder.training().scores, blend.scores);
    assert_eq!(decoder.training().folds, 4);
    // Windows over time hold everything that was scored, in order.
    for score in &comparison.kinds {
        let windows = &score.over_time;
        assert_eq!(windows.len(), 16);
        assert!(windows.is_sorted_by(|a, b| a.stop_step <= b.first_step));
        let mean = windows.iter().map(|window| window.r2).sum::<f64>() / 16.0;
        assert!((mean - score.r2).abs() < 0.02, "{mean} {}", score.r2);
    }
    let held_out = score(&decoder, &aside);
    assert!(
        (held_out - blend.r2).abs() < 0.06,
        "{held_out} {}",
        blend.r2
    );
    assert_eq!(trained(&data, &small_blend()).0, decoder);
    let again = Decoder::from_bytes(&decoder.to_bytes().unwrap()).unwrap();
    assert_eq!(again, decoder);
}

#[test]
fn a_blend_of_a_continuous_recording_looks_forward_and_covers_silent_channels() {
    let mut data = reaches(60, 3);
    data.segments = vec![Segment {
        start: 0,
        stop: data.steps as i64,
    }];
    data.channel_names.push("silent".into());
    let training = crate::Training {
        bank: Some(options().bank),
        folds: 3,
        kinds: small_blend(),
        ..crate::Training::default()
    };
    let outcome = training.run(&data, &Device::cpu(), &()).unwrap();
    let comparison = outcome.comparison.unwrap();
    let blend = comparison.kinds.last().unwrap();
    assert!(
        blend.configuration.contains("3 forward folds"),
        "{}",
        blend.configuration
    );
    assert_eq!(outcome.silent_channels, 1);
    assert_eq!(outcome.decoder.channels(), data.channels());
    let Head::ModelBlend(head) = outcome.decoder.head() else {
        panic!("{}", outcome.decoder.kind())
    };
    for member in &head.members {
        assert_eq!(member.decoder.channels(), data.channels());
        assert!(!member.decoder.channel_mask()[data.channels() - 1]);
    }
    assert!(score(&outcome.decoder, &data) > 0.5);
}

#[test]
fn a_budget_and_a_low_pass_leave_members_out_and_say_so() {
    let data = reaches(60, 4);
    let hurried = KindOptions {
        budget_seconds: Some(1e-9),
        ..small_blend()
    };
    let (decoder, comparison) = trained(&data, &hurried);
    assert_eq!((decoder.kind(), comparison.taken), ("linear", Kind::Linear));
    let why = comparison.left_out.unwrap();
    assert!(
        why.contains("recurrent") && why.contains("experts") && why.contains("lift"),
        "{why}"
    );
    let patient = KindOptions {
        budget_seconds: Some(1e9),
        ..small_blend()
    };
    let (_, comparison) = trained(&data, &patient);
    assert_eq!(comparison.left_out, None);
    let with_low_pass = TrainOptions {
        low_pass: Some(betz_runtime::psc::LowPass {
            order: 2,
            cutoff_hz: 3.0,
        }),
        ..options()
    };
    let search = Search {
        folds: 3,
        ..Search::ridge()
    };
    let blend = small_blend();
    let cpu = Device::cpu();
    let (_, comparison) =
        train_kinds_on(&cpu, &data, &with_low_pass, &search, &blend, &()).unwrap();
    assert!(
        comparison
            .kinds
            .iter()
            .all(|score| score.kind != Kind::Recurrent)
    );
    assert!(comparison.left_out.unwrap().contains("low-pass"));
}

#[test]
fn members_that_no_blend_has_are_refused() {
    let data = reaches(30, 5);
    let search = Search::ridge();
    let refused = |kinds: &KindOptions, options: &TrainOptions, expected: &str| {
        let trained = train_kinds_on(&Device::cpu(), &data, options, &search, kinds, &());
        let error = trained.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(expected), "{}", error.message());
    };
    let with_place = KindOptions::among(&[Kind::Linear, Kind::Place, Kind::Blend]);
    refused(
        &with_place,
        &options(),
        "expected members among linear, lift, experts and recurrent, got place",
    );
    let retaining = TrainOptions {
        retain: Some(1 << 10),
        ..options()
    };
    refused(&small_blend(), &retaining, "retained sums: expected");
    let no_time = KindOptions {
        budget_seconds: Some(0.0),
        ..KindOptions::auto()
    };
    refused(
        &no_time,
        &options(),
        "budget: expected a number of seconds above 0",
    );
}

#[test]
fn a_recurrent_decoder_needs_no_folds() {
    let data = reaches(40, 6);
    let kinds = KindOptions {
        kinds: vec![Kind::Recurrent],
        ..small_blend()
    };
    let training = crate::Training {
        folds: 0,
        kinds: kinds.clone(),
        ..crate::Training::default()
    };
    let outcome = training.run(&data, &Device::cpu(), &()).unwrap();
    assert_eq!(outcome.decoder.kind(), "recurrent");
    assert!(outcome.decoder.training().scores.is_empty());
    assert_eq!(outcome.comparison.unwrap().taken, Kind::Recurrent);
    // The same networks as with folds.
    let (scored, _) = trained(&data, &kinds);
    assert_eq!(scored.head(), outcome.decoder.head());
}
