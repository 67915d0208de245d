use super::*;
use crate::fit::train;
use crate::options::RidgeChoice;
use betz_gram::cases;
use betz_recording::Dataset;

fn data(seed: u64) -> Dataset {
    let mut spikes = cases::random_spikes(seed, 5, 1200, 3000 + 100 * seed as usize);
    // Spikes that say something about the behaviour.
    spikes.retain(|&(t, c)| {
        let phase = t as f64 * (0.011 + 0.007 * f64::from(c % 2)) + f64::from(c / 2);
        phase.sin() > -0.3
    });
    cases::dataset(5, &[(0, 500), (520, 1200)], spikes, 2)
}

fn options() -> TrainOptions {
    TrainOptions {
        ridge: RidgeChoice::Fixed(3.0),
        mask: betz_gram::MaskPolicy::Mask,
        ..TrainOptions::new(cases::bank(&[(0.004, 0), (0.01, 1), (0.3, 2)]))
    }
}

fn sums(seed: u64) -> Sums {
    Sums::over(&Device::cpu(), &data(seed), &options(), &()).unwrap()
}

fn merged(of: &[&Sums]) -> Sums {
    let mut all = of[0].clone();
    of[1..].iter().for_each(|s| all.merge(s).unwrap());
    all
}

#[test]
fn a_recordings_sums_lead_to_the_decoder_that_training_gives() {
    let trained = train(&data(1), &options(), &()).unwrap();
    let sums = sums(1);
    for ridge in [RidgeChoice::Fixed(3.0), RidgeChoice::RelativeNoise(0.1)] {
        let trained = train(&data(1), &TrainOptions { ridge, ..options() }, &()).unwrap();
        let solved = sums.solve(&SolveOptions::with(ridge)).unwrap();
        let size = trained
            .weights()
            .iter()
            .fold(0.0, |s: f64, w| s.max(w.abs()));
        for (a, b) in solved.weights().iter().zip(trained.weights()) {
            assert!((a - b).abs() <= 1e-11 * size, "{a} and {b}");
        }
        let (a, b) = (solved.training().ridge, trained.training().ridge);
        assert!((a - b).abs() <= 1e-12 * b, "{a} and {b}");
    }
    let solved = sums
        .solve(&SolveOptions::with(RidgeChoice::Fixed(3.0)))
        .unwrap();
    let most = |d: &betz_runtime::model::Decoder| {
        let blanking = d.limits().blanking.clone().unwrap();
        (blanking.least, blanking.most)
    };
    assert_eq!(most(&solved), most(&trained));
    assert_eq!(solved.limits().ranges, trained.limits().ranges);
    assert_eq!(solved.training().spikes, trained.training().spikes);
}

#[test]
fn artefacts_are_kept_on_request_and_not_mixed_with_sums_that_leave_them_out() {
    let mut struck = data(1);
    // Every channel fires often at one step.
    let mut pairs: Vec<(i64, u32)> = (struck.spikes.ticks.iter().copied())
        .zip(struck.spikes.channels.iter().copied())
        .collect();
    pairs.extend((0..5).flat_map(|channel| std::iter::repeat_n((300, channel), 40)));
    pairs.sort_unstable();
    let (ticks, channels) = pairs.into_iter().unzip();
    struck.spikes = betz_recording::Spikes::new(ticks, channels);
    let keeping = TrainOptions {
        keep_artefacts: true,
        ..options()
    };
    let over = |options: &TrainOptions| Sums::over(&Device::cpu(), &struck, options, &()).unwrap();
    let (kept, cleaned) = (over(&keeping), over(&options()));
    assert_eq!((kept.artefacts(), cleaned.artefacts()), (0, 1));
    assert!(kept.spikes() > cleaned.spikes() + 190);
    assert!(kept.keeps_artefacts() && !cleaned.keeps_artefacts());
    let read = Sums::from_bytes(&kept.to_bytes()).unwrap();
    assert!(read.keeps_artefacts());
    let ridge = SolveOptions::with(RidgeChoice::Fixed(3.0));
    assert_eq!(read.solve(&ridge).unwrap().limits().blanking, None);
    let trained = train(&struck, &keeping, &()).unwrap();
    let solved = kept.solve(&ridge).unwrap();
    let size = (trained.weights().iter()).fold(0.0, |s: f64, w| s.max(w.abs()));
    for (a, b) in solved.weights().iter().zip(trained.weights()) {
        assert!((a - b).abs() <= 1e-11 * size, "{a} and {b}");
    }
    let error = kept.clone().merge(&sums(2)).unwrap_err();
    assert!(error.to_string().contains("keep artefacts"), "{error}");
    let mut all = sums(2);
    assert!(all.merge(&kept).is_err());
    assert_eq!(all, sums(2));
}

#[test]
fn no_order_of_merging_makes_a_difference() {
    let [a, b, c, d] = [1, 2, 3, 4].map(sums);
    let expected = merged(&[&a, &b, &c, &d]).to_bytes();
    let orders: [&[&Sums]; 3] = [&[&d, &c, &b, &a], &[&b, &d, &a, &c], &[&c, &a, &d, &b]];
    for order in orders {
        assert!(merged(order).to_bytes() == expected);
    }
    // In another tree.
    let (ab, cd) = (merged(&[&b, &a]), merged(&[&c, &d]));
    assert!(merged(&[&cd, &ab]).to_bytes() == expected);
    assert!(merged(&[&a, &merged(&[&b, &cd])]).to_bytes() == expected);
    let options = SolveOptions::with(RidgeChoice::RelativeNoise(0.1));
    let [one, other] =
        [merged(&[&ab, &cd]), merged(&[&d, &c, &b, &a])].map(|s| s.solve(&options).unwrap());
    assert_eq!(one.to_bytes().unwrap(), other.to_bytes().unwrap());
    // The sums are those of both recordings.
    let (both, mut apart) = (ab.equations(), a.equations());
    apart.add(&b.equations()).unwrap();
    for (x, y) in both.gram.iter().zip(&apart.gram) {
        assert!((x - y).abs() <= 1e-12 * y.abs().max(1e-3), "{x} and {y}");
    }
    assert_eq!((ab.parts(), ab.steps()), (2, a.steps() + b.steps()));
}

#[test]
fn ranges_of_labels_are_those_of_all_recordings() {
    let with = |seed, labels: [f32; 2]| {
        let mut data = data(seed);
        // Two outputs: the first has these extremes, the other none of its own.
        let rows = data.behavior.chunks_exact_mut(2).enumerate();
        rows.for_each(|(i, row)| row[0] = labels[i % 2]);
        Sums::over(&Device::cpu(), &data, &options(), &()).unwrap()
    };
    let (a, b) = (with(1, [-3.0, 1.0]), with(2, [0.5, 7.0]));
    let solve = |sums: &Sums| {
        let solved = sums.solve(&SolveOptions::with(RidgeChoice::Fixed(3.0)));
        solved.unwrap().limits().ranges[0]
    };
    let (one, other) = (solve(&merged(&[&a, &b])), solve(&merged(&[&b, &a])));
    assert_eq!((one, (one.low, one.high)), (other, (-4.0, 8.0)));
    // Of a file of version 1 they are not known, nor of what it is merged into; it is the same recording.
    let content = betz_base::frame::Content {
        magic: MAGIC,
        name: "sums",
        damaged: ErrorKind::InvalidModel,
    };
    let mut old = betz_base::wire::Writer::framed();
    a.write(&mut old, &a.parts, &[], None);
    let old = Sums::from_bytes(&old.seal(content, 1)).unwrap();
    assert_eq!((&old.parts, &old.values), (&a.parts, &a.values));
    for sums in [&old, &merged(&[&b, &old]), &merged(&[&old, &b])] {
        let range = solve(sums);
        assert_eq!((range.low, range.high), (f32::NEG_INFINITY, f32::INFINITY));
    }
}

#[test]
fn decoders_of_sums_recognise_the_recordings() {
    let (a, b) = (data(1), data(2));
    let warning = |sums: &Sums, data: &Dataset| {
        let solved = sums.solve(&SolveOptions::with(RidgeChoice::Fixed(3.0)));
        let solved = solved.unwrap().to_bytes().unwrap();
        let decoder = betz_runtime::model::Decoder::from_bytes(&solved).unwrap();
        crate::overlap_warning(&decoder, data).unwrap()
    };
    let knows = |sums: &Sums, data: &Dataset| {
        let warning = warning(sums, data);
        warning.is_some_and(|w| w.contains("trained on 100 %"))
    };
    let both = merged(&[&sums(1), &sums(2)]);
    let read = Sums::from_bytes(&both.to_bytes()).unwrap();
    for sums in [&both, &read] {
        assert!(knows(sums, &a) && knows(sums, &b));
        assert_eq!(warning(sums, &data(3)), None);
    }
    // As the model that training makes.
    let mut sample = TrainingData::new(&a);
    sample.merge(&TrainingData::new(&b));
    assert_eq!(both.sample, sample);
    // The ridge of every choice.
    let parts = [sums(1), sums(2)];
    let options = SolveOptions {
        retain: Some(1 << 20),
        ..SolveOptions::with(RidgeChoice::Generalised)
    };
    let (validated, _) = Sums::cross_validate(&parts, &options).unwrap();
    let (held_back, _) = parts[0].solve_held_back(&parts[1], &options).unwrap();
    let kept = |decoder| TrainingData::read(decoder).unwrap();
    assert_eq!(kept(&validated), Some(sample));
    assert_eq!(kept(&held_back), Some(TrainingData::new(&a)));
    // Sums of version 2 have no hashes: nothing is said, unless of what they are merged with.
    let content = betz_base::frame::Content {
        magic: MAGIC,
        name: "sums",
        damaged: ErrorKind::InvalidModel,
    };
    let mut old = betz_base::wire::Writer::framed();
    parts[0].write(&mut old, &parts[0].parts, &parts[0].extremes, None);
    let old = Sums::from_bytes(&old.seal(content, 2)).unwrap();
    assert_eq!(warning(&old, &a), None);
    assert_eq!(
        (&old.parts, &old.extremes),
        (&parts[0].parts, &parts[0].extremes)
    );
    let mixed = merged(&[&old, &parts[1]]);
    assert!(knows(&mixed, &b) && warning(&mixed, &a).is_none());
    assert!(mixed == merged(&[&parts[1], &old]));
    // A sample that no recording has.
    let mut wrong = parts[1].clone();
    let (mut words, most) = (wrong.sample.to_words(), u64::MAX);
    words.push(0);
    wrong.sample = TrainingData::from_words(&words);
    let error = Sums::from_bytes(&wrong.to_bytes()).unwrap_err();
    assert!(error.to_string().contains("ascending"), "{error}");
    wrong.sample = TrainingData::from_words(&[most]);
    let mut counted = Sums::from_bytes(&wrong.to_bytes()).unwrap();
    counted.merge(&parts[0]).unwrap();
}

#[test]
fn what_does_not_belong_together_is_refused_by_name() {
    let sums_of = |data: &Dataset, options: &TrainOptions| {
        Sums::over(&Device::cpu(), data, options, &()).unwrap()
    };
    let first = sums(1);
    let refused = |other: &Sums, word: &str| {
        let before = first.clone();
        let mut all = first.clone();
        let error = all.merge(other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.to_string().contains(word), "{error}");
        assert!(all == before, "something was added");
    };
    refused(&first, "the same sums twice");
    refused(&merged(&[&sums(2), &first]), "the same sums twice");
    let with = |change: &dyn Fn(&mut Dataset, &mut TrainOptions)| {
        let (mut data, mut options) = (data(2), options());
        change(&mut data, &mut options);
        sums_of(&data, &options)
    };
    refused(
        &with(&|d, _| d.channel_names[3] = "elsewhere".into()),
        "'elsewhere'",
    );
    refused(&with(&|_, o| o.bank = cases::bank(&[(0.02, 1)])), "bank");
    refused(&with(&|_, o| o.delay_steps = 2), "delay, 0 steps");
    refused(&with(&|d, _| d.step_seconds = 0.5), "step");
    refused(
        &with(&|d, _| d.outputs[0].unit = "furlong".into()),
        "furlong",
    );
    let low_pass = Some(LowPass {
        order: 2,
        cutoff_hz: 5.0,
    });
    refused(&with(&|_, o| o.low_pass = low_pass), "low-pass");
    let fewer = cases::dataset(4, &[(0, 500)], cases::random_spikes(1, 4, 500, 900), 2);
    refused(&sums_of(&fewer, &options()), "4 channels");
}

/// Units of channels and of behaviour are brought near 1 before sums are rounded.
#[test]
fn a_unit_changes_nothing_but_the_unit_of_the_weights() {
    let weights = |channel: f32, behavior: f32| {
        let parts = [1, 2].map(|seed| {
            let mut data = data(seed);
            data.spikes.weights = vec![channel; data.spikes.len()];
            data.behavior.iter_mut().for_each(|x| *x *= behavior);
            let options = TrainOptions {
                keep_artefacts: true,
                ..options()
            };
            Sums::over(&Device::cpu(), &data, &options, &()).unwrap()
        });
        let sums = merged(&[&parts[0], &parts[1]]);
        assert_eq!(Sums::from_bytes(&sums.to_bytes()).unwrap(), sums);
        let ridge = 1e-3 * sums.equations().mean_variance_sum();
        let solve = SolveOptions::with(RidgeChoice::Fixed(ridge));
        let decoder = sums.solve(&solve).unwrap();
        let unit = f64::from(behavior) / f64::from(channel);
        let weights = decoder.weights().iter().map(|w| w / unit);
        weights.collect::<Vec<f64>>()
    };
    let expected = weights(1.0, 1.0);
    let largest = expected.iter().fold(0.0_f64, |most, w| most.max(w.abs()));
    for (channel, behavior) in [
        (1e-9, 1.0),
        (1e9, 1.0),
        (1.0, 1e-9),
        (1e-9, 1e9),
        (1e6, 1e12),
    ] {
        for (got, expected) in weights(channel, behavior).iter().zip(&expected) {
            assert!(
                (got - expected).abs() < 1e-4 * largest,
                "{got}, not {expected}"
            );
        }
    }
}

#[test]
fn a_file_is_whole_or_refused() {
    let sums = merged(&[&sums(1), &sums(2)]);
    let bytes = sums.to_bytes();
    let again = Sums::from_bytes(&bytes).unwrap();
    assert!(again == sums && again.to_bytes() == bytes);
    for cut in [0, 7, 19, 40, bytes.len() / 2, bytes.len() - 1] {
        assert!(Sums::from_bytes(&bytes[..cut]).is_err(), "{cut}");
    }
    for at in (0..bytes.len()).step_by(97) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x20;
        assert!(Sums::from_bytes(&flipped).is_err(), "{at}");
    }
    // Intact frames around nonsense are refused without panic, and take no memory that is not there.
    let payload = &bytes[20..bytes.len() - 4];
    for at in 0..payload.len().min(700) {
        let mut wrong = bytes.clone();
        wrong[20 + at] = wrong[20 + at].wrapping_add(0x7f);
        let end = wrong.len() - 4;
        let checksum = crc32(&wrong[..end]);
        wrong[end..].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(read) = Sums::from_bytes(&wrong) {
            assert_eq!(read.to_bytes().len(), bytes.len());
        }
    }
}

/// CRC-32 (IEEE), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1))
        })
    })
}

#[test]
fn a_ridge_is_chosen_by_what_was_held_back() {
    let [a, b, c] = [1, 2, 3].map(sums);
    let options = SolveOptions::with(RidgeChoice::Fixed(0.0));
    let (decoder, score) = merged(&[&a, &b]).solve_held_back(&c, &options).unwrap();
    assert_eq!(decoder.training().ridge, score.ridge);
    let mean = |outputs: &[betz_runtime::model::OutputScore]| {
        outputs.iter().map(|o| o.r2).sum::<f64>() / outputs.len() as f64
    };
    // As the decoder scores on the recording itself, before its outputs are kept within their range.
    let scored = |decoder: betz_runtime::model::Decoder| {
        let mut parts = decoder.into_parts();
        assert_eq!(parts.limits.ranges.len(), 2);
        parts.limits.ranges.clear();
        let unbounded = betz_runtime::model::Decoder::new(parts).unwrap();
        betz_gram::evaluate(&unbounded, &data(3)).unwrap()
    };
    let evaluated = scored(decoder);
    for (a, b) in score.outputs.iter().zip(&evaluated.outputs) {
        assert!((a.r2 - b.r2).abs() < 1e-5, "{} and {}", a.r2, b.r2);
        assert!((a.rmse - b.rmse).abs() < 1e-4 * b.rmse);
    }
    for ridge in [score.ridge * 10.0, score.ridge * 0.1] {
        let other = merged(&[&a, &b]).solve(&SolveOptions::with(RidgeChoice::Fixed(ridge)));
        let other = scored(other.unwrap());
        assert!(mean(&other.outputs) <= mean(&evaluated.outputs) + 1e-6);
    }
    let error = merged(&[&a, &b]).solve_held_back(&a, &options).unwrap_err();
    assert!(error.to_string().contains("held back"), "{error}");
}

#[test]
fn each_part_is_decoded_by_what_the_others_say() {
    let parts = [1, 2, 3].map(sums);
    let options = SolveOptions::with(RidgeChoice::RelativeNoise(0.1));
    let (decoder, score) = Sums::cross_validate(&parts, &options).unwrap();
    let all = merged(&[&parts[0], &parts[1], &parts[2]]);
    let whole = all.equations();
    let rho = score.ridge / whole.mean_variance_sum();
    // Of decoders that never saw the part, at the same relative ridge.
    let mut left = [0.0; 2];
    for (k, part) in parts.iter().enumerate() {
        let others = merged(&[&parts[(k + 1) % 3], &parts[(k + 2) % 3]]);
        let ridge = rho * others.equations().mean_variance_sum();
        let own = others
            .solve(&SolveOptions::with(RidgeChoice::Fixed(ridge)))
            .unwrap();
        let squares = part
            .equations()
            .residual_squares(own.weights(), own.intercept());
        left.iter_mut().zip(squares).for_each(|(l, s)| *l += s);
    }
    let total = whole.output_total_squares();
    for (o, output) in score.outputs.iter().enumerate() {
        let expected = 1.0 - left[o] / total[o];
        assert!((output.r2 - expected).abs() < 1e-9, "{output:?}");
    }
    let fixed = SolveOptions::with(RidgeChoice::Fixed(score.ridge));
    let expected = all.solve(&fixed).unwrap().to_bytes().unwrap();
    assert_eq!(decoder.to_bytes().unwrap(), expected);
    // In another order the same ridge and model, to the last bit.
    let [a, b, c] = parts;
    let (again, other) = Sums::cross_validate(&[c, a.clone(), b], &options).unwrap();
    assert_eq!(again.to_bytes().unwrap(), expected);
    assert_eq!(other.ridge, score.ridge);
    let alone = Sums::cross_validate(&[a], &options).unwrap_err();
    assert!(alone.message().contains("at least 2 parts, got 1"));
}
