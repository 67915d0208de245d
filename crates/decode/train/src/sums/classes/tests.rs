//! Classes from sums: exact merging, the discriminant, labels that are missing, calibration.

use super::*;
use crate::classes::evaluate_classes;
use crate::classes::tests::recording;
use crate::training::Training;
use betz_gram::cases;
use betz_recording::Segment;
use betz_recording::labels::UNLABELLED;

fn options() -> TrainOptions {
    TrainOptions::new(cases::bank(&[(5.0, 0), (20.0, 1)]))
}

fn sums_of((data, labels): &(Dataset, Labels), options: &TrainOptions) -> Sums {
    Sums::over_labels(&Device::cpu(), data, labels, options, &()).unwrap()
}

fn merged(of: &[&Sums]) -> Sums {
    let mut all = of[0].clone();
    of[1..].iter().for_each(|s| all.merge(s).unwrap());
    all
}

fn solved(sums: &Sums, held_out: &(Dataset, Labels)) -> (Decoder, ClassReport) {
    let with = (&held_out.0, &held_out.1);
    sums.solve_classes(with, &ClassOptions::default()).unwrap()
}

/// Sums of recordings that were made apart give the same model, bit for bit, in every order.
#[test]
fn merged_sums_give_the_same_bits_in_every_order() {
    let held_out = recording(9);
    let [a, b, c] = [1, 2, 3].map(|seed| sums_of(&recording(seed), &options()));
    let orders: [&[&Sums]; 3] = [&[&a, &b, &c], &[&c, &b, &a], &[&b, &merged(&[&c, &a])]];
    let models = orders.map(|order| {
        let all = Sums::from_bytes(&merged(order).to_bytes()).unwrap();
        solved(&all, &held_out).0.to_bytes().unwrap()
    });
    assert!(models[0] == models[1] && models[1] == models[2]);
}

/// Both parts of a recording: their sums are those of the whole.
#[test]
fn sums_of_parts_are_those_of_the_whole() {
    let (data, labels) = recording(1);
    let whole = sums_of(&(data.clone(), labels.clone()), &options());
    let half = |from: usize, to: usize| {
        let segments: Vec<usize> = (from..to).collect();
        sums_of(&(data.select(&segments), labels.clone()), &options())
    };
    let count = data.segments.len();
    let parts = merged(&[&half(0, 7), &half(7, count)]);
    assert_eq!(parts.steps, whole.steps);
    let (a, b) = (parts.equations(), whole.equations());
    assert_eq!(a.output_sum, b.output_sum);
    for (x, y) in a.gram.iter().zip(&b.gram) {
        assert!((x - y).abs() <= 1e-6 * y.abs(), "{x} and {y}");
    }
}

/// Of two classes, the discriminant's direction is that of the ridge regression on their indicators.
#[test]
fn two_classes_have_the_direction_of_a_ridge() {
    let sums = sums_of(&recording(1), &options());
    let equations = sums.equations();
    let engines = Engines::new(&sums, &equations).unwrap();
    for shrinkage in [1e-3, 0.1, 1.0] {
        let engine = engines.engine(shrinkage).unwrap().unwrap();
        let ridge = SolveOptions::with(RidgeChoice::Fixed(engine.training().ridge));
        let regression = sums.solve(&ridge).unwrap();
        let (a, b) = (engine.weights(), regression.weights());
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
        assert!(1.0 - cosine < 1e-9, "{cosine}");
    }
}

/// Steps with a label in the first part of each segment, and in the rest: both sums are those of all steps.
#[test]
fn steps_without_a_label_enter_no_sum() {
    let (data, labels) = recording(1);
    let fast = cases::bank(&[(1.0, 0)]);
    for delay_steps in [-3, 0, 3] {
        let options = TrainOptions {
            delay_steps,
            ..TrainOptions::new(fast.clone())
        };
        let part = |is_in: fn(i64) -> bool| {
            let mut labels = labels.clone();
            for segment in &data.segments {
                for step in segment.start..segment.stop {
                    if !is_in(step - segment.start) {
                        labels.of_step[step as usize] = UNLABELLED;
                    }
                }
            }
            sums_of(&(data.clone(), labels), &options).equations()
        };
        let mut both = part(|step| (60..77).contains(&step));
        both.add(&part(|step| !(60..77).contains(&step))).unwrap();
        let all = sums_of(&(data.clone(), labels.clone()), &options).equations();
        assert_eq!((both.steps, &both.output_sum), (all.steps, &all.output_sum));
        for (x, y) in both.gram.iter().zip(&all.gram) {
            assert!(
                (x - y).abs() < 1e-3 * y.abs(),
                "{x} and {y}, delay {delay_steps}"
            );
        }
        for (x, y) in both.upsilon.iter().zip(&all.upsilon) {
            assert!(
                (x - y).abs() < 1e-3 * y.abs(),
                "{x} and {y}, delay {delay_steps}"
            );
        }
    }
}

#[test]
fn a_discriminant_is_calibrated_and_tells_classes_apart() {
    let sums = merged(&[
        &sums_of(&recording(1), &options()),
        &sums_of(&recording(2), &options()),
    ]);
    let (decoder, report) = solved(&sums, &recording(9));
    assert_eq!(
        (decoder.kind(), decoder.class_names()),
        ("classes", vec!["rest", "go"])
    );
    assert_eq!(report.labelled.iter().sum::<usize>() as u64, sums.steps());
    assert!(report.scores.ece < report.ece_before, "{report:?}");
    let (other, truth) = recording(5);
    let scores = evaluate_classes(&decoder, &other, &truth).unwrap();
    assert!(scores.auc[1] > 0.9 && scores.ece < 0.05, "{scores:?}");
    let bytes = decoder.to_bytes().unwrap();
    assert_eq!(Decoder::from_bytes(&bytes).unwrap(), decoder);
}

#[test]
fn what_cannot_be_solved_is_refused_by_name() {
    let own = recording(1);
    let sums = sums_of(&own, &options());
    let held_out = recording(9);
    let error = |sums: &Sums, held_out: &(Dataset, Labels)| {
        let with = (&held_out.0, &held_out.1);
        let error = sums
            .solve_classes(with, &ClassOptions::default())
            .unwrap_err();
        error.to_string()
    };
    let plain = Sums::over(&Device::cpu(), &own.0, &options(), &()).unwrap();
    assert!(error(&plain, &held_out).contains("sums over labels"));
    assert!(error(&sums, &own).contains("in none of the sums"));
    let mut other = held_out.clone();
    other.0.step_seconds *= 2.0;
    assert!(error(&sums, &other).contains("with the step of the sums"));
    let mut other = held_out.clone();
    other.0.channel_names[0] = "x".into();
    assert!(error(&sums, &other).contains("with the channels of the sums"));
    let mut few = own.clone();
    let class = |step: &mut i32| *step = i32::from(*step == 2);
    few.1.of_step[100..129].fill(2);
    few.1.of_step.iter_mut().for_each(class);
    assert!(error(&sums_of(&few, &options()), &held_out).contains("got 29 of \"go\""));
    let mut twice = own.clone();
    twice.1.names[1] = "rest".into();
    let refused = Sums::over_labels(&Device::cpu(), &twice.0, &twice.1, &options(), &());
    assert!(refused.unwrap_err().to_string().contains("twice"));
    let mut none = own;
    none.1.of_step.fill(UNLABELLED);
    let refused = Sums::over_labels(&Device::cpu(), &none.0, &none.1, &options(), &());
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("labelled steps inside segments")
    );
}

/// Of one recording: the sums of all but the last of five parts, calibrated on that part.
#[test]
fn one_recording_is_summed_and_calibrated_on_its_last_part() {
    let (data, labels) = recording(1);
    let training = Training {
        bank: Some(options().bank),
        leave_out_silent: false,
        ..Training::default()
    };
    let class = ClassOptions::default();
    let (trained, report) = training
        .run_discriminant(&data, &labels, &class, &Device::cpu(), &())
        .unwrap();
    assert_eq!(trained.decoder.kind(), "classes");
    assert!(report.scores.auc[1] > 0.9, "{report:?}");
    let count = data.segments.len();
    // Labels of the whole recording would count those outside the part.
    let whole = |segments: std::ops::Range<usize>| {
        let picked: Vec<usize> = segments.collect();
        let part = data.select(&picked);
        let mut own = labels.clone();
        for (step, class) in own.of_step.iter_mut().enumerate() {
            let inside = |s: &Segment| (s.start..s.stop).contains(&(step as i64));
            if !part.segments.iter().any(inside) {
                *class = UNLABELLED;
            }
        }
        (part, own)
    };
    let cut = count * 4 / 5;
    let (sums, kept) = (sums_of(&whole(0..cut), &options()), whole(cut..count));
    let (by_hand, _) = sums.solve_classes((&kept.0, &kept.1), &class).unwrap();
    assert_eq!(by_hand.weights(), trained.decoder.weights());
    assert_eq!(by_hand.head(), trained.decoder.head());
    let few = Training {
        folds: 1,
        ..training.clone()
    };
    let refused = few.run_discriminant(&data, &labels, &class, &Device::cpu(), &());
    assert!(refused.unwrap_err().message().contains("at least 2 folds"));
    // Without a bank, one of the presets is chosen.
    let chosen = Training {
        bank: None,
        ..training
    };
    assert!(
        chosen
            .run_discriminant(&data, &labels, &class, &Device::cpu(), &())
            .is_ok()
    );
}
