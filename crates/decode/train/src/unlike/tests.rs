//! Windows like training and unlike it.

use super::*;
use crate::fit::train;
use crate::options::{RidgeChoice, TrainOptions};
use crate::reaches::Reaches;
use betz_base::ErrorKind;
use betz_gram::cases;
use betz_recording::Dataset;
use betz_runtime::stream::PreparedModel;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CHANNELS: usize = 16;

/// Reaches in directions that `angle` gives for uniform numbers; each spike is kept with the channel's share.
fn trials(seed: u64, count: i64, angle: fn(f64) -> f64, kept: fn(u32) -> f64) -> Dataset {
    let reaches = Reaches {
        angle,
        kept,
        ..Reaches::default()
    };
    reaches.trials(seed, count)
}

fn around(uniform: f64) -> f64 {
    uniform * std::f64::consts::TAU
}

fn model(retain: Option<usize>) -> Decoder {
    model_with(cases::bank(&[(2.0, 0), (6.0, 1)]), retain)
}

fn model_with(bank: betz_runtime::psc::FilterBank, retain: Option<usize>) -> Decoder {
    train(
        &trials(1, 400, around, |_| 1.0),
        &options(bank, retain),
        &(),
    )
    .unwrap()
}

fn options(bank: betz_runtime::psc::FilterBank, retain: Option<usize>) -> TrainOptions {
    TrainOptions {
        ridge: RidgeChoice::Fixed(2.0),
        retain,
        ..TrainOptions::new(bank)
    }
}

/// The newest comparison after all of `data`.
fn unlikeness(model: &Decoder, data: &Dataset) -> Unlikeness {
    let mut session = Session::open(model, SessionConfig::default()).unwrap();
    let config = UnlikeConfig {
        window_seconds: 120.0,
        ..UnlikeConfig::default()
    };
    let (tap, mut worker) = UnlikeWorker::open(model, &config).unwrap();
    session.attach(Box::new(tap), 0).unwrap();
    let mut out = vec![0.0; session.outputs()];
    for segment in &data.segments {
        session.reset();
        for step in segment.start..segment.stop {
            let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
            session.step_spikes(spikes, &mut out).unwrap();
        }
        worker.work().unwrap();
    }
    assert_eq!(worker.lost_steps(), 0);
    worker.newest().unwrap()
}

#[test]
fn drifts_raise_it_and_like_trials_do_not() {
    let model = model(Some(1 << 20));
    let like = unlikeness(&model, &trials(2, 100, around, |_| 1.0));
    assert!((119.9..120.1).contains(&like.seconds), "{like:?}");
    assert!(like.latents < 0.02 && like.rates < 0.05, "{like:?}");
    let weaker = |c: u32| if c.is_multiple_of(2) { 0.4 } else { 1.0 };
    let lost = |c: u32| if c < 5 { 0.0 } else { 1.0 };
    for share in [weaker, lost] {
        let drifted = unlikeness(&model, &trials(2, 100, around, share));
        assert!(drifted.latents > 5.0 * like.latents, "{drifted:?} {like:?}");
        assert!(drifted.rates > 5.0 * like.rates, "{drifted:?} {like:?}");
    }
    let mut swapped = trials(2, 100, around, |_| 1.0);
    for channel in &mut swapped.spikes.channels {
        *channel = (*channel * 5 + 3) % CHANNELS as u32;
    }
    let drifted = unlikeness(&model, &swapped);
    assert!(drifted.latents > 5.0 * like.latents, "{drifted:?} {like:?}");
}

/// Behaviour moves it, too: that is why it is called unlike training and never a loss.
#[test]
fn one_target_is_unlike_training_without_any_drift() {
    let model = model(Some(1 << 20));
    let one = unlikeness(&model, &trials(2, 100, |_| 1.0, |_| 1.0));
    assert!(one.latents > 0.1, "{one:?}");
}

#[test]
fn the_reference_is_that_of_the_training_recording() {
    let model = model(Some(1 << 20));
    let data = trials(1, 400, around, |_| 1.0);
    let retained = StoredStatistics::read(&model).unwrap();
    let reference = Reference::new(&model, &retained).unwrap();
    let decoded = betz_gram::decode::decode(&model, data.view()).unwrap();
    let mut window = Window::new(decoded.len() as u64 / 2, 2, CHANNELS);
    let mut last = None;
    for step in 0..data.steps as i64 {
        let fired: Vec<(u32, f32)> = (data.spikes.channels[data.spikes.range(step, step + 1)])
            .iter()
            .map(|channel| (*channel, 1.0))
            .collect();
        if window.push(&decoded[2 * step as usize..][..2], &fired, &reference) {
            last = window.compare(&reference, step);
        }
    }
    let all = last.unwrap();
    assert_eq!(all.tick, data.steps as i64 - 1);
    assert!(all.latents.abs() < 1e-6, "{all:?}");
    assert!(all.rates < 1e-3 || all.rates.is_nan(), "{all:?}");
}

#[test]
fn a_thread_gives_the_same() {
    let model = model(Some(1 << 20));
    let data = trials(2, 100, around, |_| 1.0);
    let mut session = Session::open(&model, SessionConfig::default()).unwrap();
    let config = UnlikeConfig {
        window_seconds: 120.0,
        ..UnlikeConfig::default()
    };
    let (tap, worker) = UnlikeWorker::open(&model, &config).unwrap();
    session.attach(Box::new(tap), 0).unwrap();
    let watch = UnlikeWatch::start(worker).unwrap();
    let mut out = vec![0.0; 2];
    for segment in &data.segments {
        session.reset();
        for step in segment.start..segment.stop {
            let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
            session.step_spikes(spikes, &mut out).unwrap();
        }
        watch.flush().unwrap();
    }
    assert_eq!(watch.lost_steps(), 0);
    let (ours, theirs) = (watch.newest().unwrap(), unlikeness(&model, &data));
    assert_eq!(
        (ours.latents, ours.seconds),
        (theirs.latents, theirs.seconds)
    );
}

#[test]
fn what_is_missing_is_said() {
    let error = |model: &Decoder, window_seconds| {
        let config = UnlikeConfig {
            window_seconds,
            ..UnlikeConfig::default()
        };
        UnlikeWorker::open(model, &config).err().unwrap()
    };
    let without = error(&model(None), 100.0);
    assert_eq!(without.kind(), ErrorKind::InsufficientData);
    assert!(without.to_string().contains("--retain"), "{without}");
    let short = error(&model(Some(1 << 20)), 0.4);
    assert!(short.to_string().contains("more than 20 steps"), "{short}");
    assert!(
        error(&model(Some(1 << 20)), f64::NAN)
            .to_string()
            .contains("NaN")
    );
}

/// `trials` in directions that `angle` gives, of which `share` of each channel's spikes are kept; recalibrated for.
fn recalibrated(
    model: &Decoder,
    count: i64,
    angle: fn(f64) -> f64,
    share: fn(u32) -> f64,
) -> (Recalibration, Option<Decoder>) {
    recalibrate(model, &trials(5, count, angle, share), &()).unwrap()
}

fn thinned(channel: u32) -> f64 {
    [0.15, 1.0, 0.4, 1.0][channel as usize % 4]
}

fn mean_r2(model: &Decoder, data: &Dataset) -> f64 {
    let decoded = betz_gram::decode::decode(model, data.view()).unwrap();
    let scores = betz_gram::score::score_estimates(data.view(), &decoded, 0).unwrap();
    betz_gram::score::mean_r2(&scores.outputs)
}

#[test]
fn weaker_channels_are_recalibrated_for_without_labels() {
    let bank = cases::bank(&[(40.0, 0), (120.0, 1)]);
    let model = model_with(bank.clone(), Some(1 << 20));
    let (found, decoder) = recalibrated(&model, 100, around, thinned);
    assert_eq!(found.refusal, None, "{found:?}");
    for (channel, gain) in found.gains.iter().enumerate() {
        let truth = thinned(channel as u32);
        assert!(
            (gain - truth).abs() < 0.2 * truth,
            "{channel}: {gain} of {truth}"
        );
    }
    let later = trials(6, 100, around, thinned);
    let (frozen, solved) = (mean_r2(&model, &later), mean_r2(&decoder.unwrap(), &later));
    // The best that is possible: labels of as many trials as in training.
    let labelled = trials(7, 400, around, thinned);
    let best = mean_r2(
        &train(&labelled, &options(bank, None), &()).unwrap(),
        &later,
    );
    let all = format!("{frozen} frozen, {solved} recalibrated, {best} with labels");
    assert!(
        best > frozen + 0.02 && solved > frozen + 0.7 * (best - frozen),
        "{all}"
    );
}

/// Trials like those in training, few targets, one target and short windows: not one bit changes.
#[test]
fn without_drift_nothing_is_suggested() {
    let model = model(Some(1 << 20));
    let targets: [fn(f64) -> f64; 4] = [
        around,
        |uniform| uniform.round(),
        |_| 2.0,
        |uniform| 1.5 * uniform,
    ];
    for angle in targets {
        let (found, decoder) = recalibrated(&model, 100, angle, |_| 1.0);
        assert!(found.refusal.is_some() && decoder.is_none(), "{found:?}");
    }
    let (found, decoder) = recalibrated(&model, 80, around, thinned);
    assert!(found.refusal.unwrap().contains("96 s") && decoder.is_none());
}

/// Gains of 1 and the window's moments as in training: the model in use, to rounding.
#[test]
fn the_training_recording_gives_the_same_weights() {
    let model = model(Some(1 << 20));
    let retained = StoredStatistics::read(&model).unwrap();
    let same = recalibrate::expected_from(&model, &retained.sums, &retained.sums).unwrap();
    let refit = crate::retained::Refit::new(&model, &retained).unwrap();
    let solved = refit.solve(&same, retained.ridge).unwrap();
    let largest = model.weights().iter().fold(0.0, |a: f64, w| a.max(w.abs()));
    for (a, b) in solved.weights().iter().zip(model.weights()) {
        assert!((a - b).abs() < 1e-9 * largest, "{a} and {b}");
    }
    for (a, b) in solved.intercept().iter().zip(model.intercept()) {
        assert!((a - b).abs() < 1e-9, "{a} and {b}");
    }
}

/// A session with a comparison of windows of 120 s, 100 trials, beside one that nothing happens to.
struct WatchedSession {
    session: Session,
    control: Session,
    worker: UnlikeWorker,
    swapper: Swapper,
}

impl WatchedSession {
    fn open(model: &Decoder) -> Self {
        let mut session = Session::open(model, SessionConfig::default()).unwrap();
        let config = UnlikeConfig {
            window_seconds: 120.0,
            ..UnlikeConfig::default()
        };
        let (tap, worker) = UnlikeWorker::open(model, &config).unwrap();
        let worker = worker.with_suggestions().unwrap();
        session.attach(Box::new(tap), 0).unwrap();
        let swapper = session.swapper().unwrap();
        let control = Session::open(model, SessionConfig::default()).unwrap();
        Self {
            session,
            control,
            worker,
            swapper,
        }
    }

    /// Steps both sessions through `data`; true if every estimate has the same bits.
    fn step(&mut self, data: &Dataset) -> bool {
        let (mut same, mut out, mut of_control) = (true, vec![0.0_f32; 2], vec![0.0_f32; 2]);
        for segment in &data.segments {
            self.session.reset();
            self.control.reset();
            for step in segment.start..segment.stop {
                let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
                self.session.step_spikes(spikes, &mut out).unwrap();
                self.control.step_spikes(spikes, &mut of_control).unwrap();
                same &= out
                    .iter()
                    .zip(&of_control)
                    .all(|(a, b)| a.to_bits() == b.to_bits());
            }
            self.worker.work().unwrap();
        }
        same
    }

    fn suggestion(&self) -> &Suggestion {
        self.worker.suggestion().unwrap()
    }
}

fn fingerprint(model: &Decoder) -> u64 {
    PreparedModel::new(model, None)
        .unwrap()
        .decoder_fingerprint()
}

/// A session suggests what `betz adapt --no-labels` does of the same steps, changes when it is asked, and goes back.
#[test]
fn a_session_suggests_applies_and_rolls_back() {
    let model = model(Some(1 << 20));
    let mut watched = WatchedSession::open(&model);
    assert_eq!(
        watched.worker.apply(&mut watched.swapper).unwrap(),
        ModelChange::None
    );
    let drifted = trials(5, 100, around, thinned);
    assert!(watched.step(&drifted), "a suggestion changes not one bit");
    let (found, solved) = recalibrate(&model, &drifted, &()).unwrap();
    let solved = solved.unwrap();
    assert_eq!(watched.suggestion().found, found);
    assert!(watched.suggestion().suggested && !watched.suggestion().applied);
    assert_eq!(watched.worker.suggested_model(), Some(&solved));

    assert_eq!(
        watched.worker.apply(&mut watched.swapper).unwrap(),
        ModelChange::Recalibrated
    );
    assert_eq!(
        watched.worker.apply(&mut watched.swapper).unwrap(),
        ModelChange::None
    );
    assert!(watched.suggestion().applied && !watched.suggestion().suggested);
    assert_eq!(watched.worker.running_model(), &solved);
    assert!(watched.worker.suggested_model().is_none());
    assert!(!watched.step(&trials(6, 20, around, thinned)));
    assert_eq!(watched.swapper.progress().running, fingerprint(&solved));

    assert!(watched.worker.roll_back(&mut watched.swapper).unwrap());
    assert!(
        watched.step(&trials(7, 20, around, thinned)),
        "a roll back is exact"
    );
    assert!(!watched.worker.roll_back(&mut watched.swapper).unwrap());
}

/// Channels that are as in training again: the session goes back, also after the trained model was released.
#[test]
fn a_recalibration_that_fits_no_more_is_rolled_back() {
    let model = model(Some(1 << 20));
    for released in [false, true] {
        let mut watched = WatchedSession::open(&model);
        watched.step(&trials(5, 100, around, thinned));
        watched.worker.apply(&mut watched.swapper).unwrap();
        watched.step(&trials(6, 99, around, thinned));
        if released {
            watched.swapper.release().unwrap();
        }
        watched.step(&trials(7, 1, around, thinned));
        // Drift as before suggests the same again, and no way back.
        assert_eq!(watched.suggestion().roll_back, None);
        assert_eq!(watched.suggestion().found.refusal, None);
        assert!(watched.suggestion().applied);

        watched.step(&trials(8, 100, around, |_| 1.0));
        let reason = watched.suggestion().roll_back.clone().unwrap();
        assert!(reason.contains("does not suggest"), "{reason}");
        assert_eq!(
            watched.worker.apply(&mut watched.swapper).unwrap(),
            ModelChange::RolledBack
        );
        assert!(!watched.suggestion().applied);
        watched.step(&trials(9, 20, around, |_| 1.0));
        assert_eq!(watched.swapper.progress().running, fingerprint(&model));
    }
}

/// No drift: windows of all and of few targets, and a caller that applies whatever is suggested: not one bit changes.
#[test]
fn a_session_without_drift_keeps_every_bit() {
    let model = model(Some(1 << 20));
    let mut watched = WatchedSession::open(&model);
    let targets: [fn(f64) -> f64; 4] = [around, |u| u.round(), |_| 2.0, |u| 1.5 * u];
    for (window, angle) in (0..36).zip(targets.iter().cycle()) {
        assert!(watched.step(&trials(20 + window, 100, *angle, |_| 1.0)));
        assert!(watched.suggestion().found.refusal.is_some());
        let applied = watched.worker.apply(&mut watched.swapper).unwrap();
        assert_eq!(applied, ModelChange::None, "{:?}", watched.suggestion());
    }
}

/// A unit that another takes the place of keeps its rate: the slope on the other channels finds it.
#[test]
fn channels_whose_slope_does_not_fit_are_odd() {
    let bank = cases::bank(&[(40.0, 0), (120.0, 1)]);
    let model = model_with(bank, Some(1 << 20));
    let drifted = |seed| {
        let mut data = trials(seed, 200, around, |_| 1.0);
        // Pairs of channels of opposite tuning change places; others do not.
        for channel in &mut data.spikes.channels {
            *channel = match *channel {
                1 => 5,
                5 => 1,
                3 => 7,
                7 => 3,
                other => other,
            };
        }
        data
    };
    let mut data = drifted(5);
    // The rule wants a change of rates as well.
    thin(&mut data, &[2, 11], 0.2);
    let (found, decoder) = recalibrate(&model, &data, &()).unwrap();
    assert_eq!(found.refusal, None, "{found:?}");
    let swapped: Vec<usize> = (found.odd.iter().copied())
        .filter(|c| [1, 3, 5, 7].contains(c))
        .collect();
    assert!(swapped.len() >= 2 && found.odd.len() <= 5, "{found:?}");
    let mut later = drifted(6);
    thin(&mut later, &[2, 11], 0.2);
    let (frozen, solved) = (mean_r2(&model, &later), mean_r2(&decoder.unwrap(), &later));
    assert!(
        solved > frozen + 0.1,
        "{frozen} frozen, {solved} recalibrated"
    );
}

/// Keeps `share` of the spikes of `channels`.
fn thin(data: &mut Dataset, channels: &[u32], share: f64) {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let spikes = std::mem::take(&mut data.spikes);
    for (tick, channel) in spikes.ticks.into_iter().zip(spikes.channels) {
        if !channels.contains(&channel) || random.random::<f64>() < share {
            data.spikes.ticks.push(tick);
            data.spikes.channels.push(channel);
        }
    }
}

/// More than half of the channels silent: that is no drift to recalibrate for.
#[test]
fn silence_of_most_channels_is_refused() {
    let model = model(Some(1 << 20));
    let (found, decoder) = recalibrated(&model, 100, around, |c| f64::from(c % 3 == 0));
    assert!(found.refusal.unwrap().contains("silent") && decoder.is_none());
}

/// Channels that are lost, and one that screams: recalibration is as good as leaving them out, which a watch of channels
/// does.
#[test]
fn lost_and_screaming_channels_are_as_if_left_out() {
    let bank = cases::bank(&[(40.0, 0), (120.0, 1)]);
    let model = model_with(bank, Some(1 << 20));
    let drifted = |seed| {
        let mut data = trials(seed, 100, around, |c| if c < 3 { 0.0 } else { 1.0 });
        let others: Vec<(i64, u32)> = (data.spikes.ticks.iter().copied())
            .zip(data.spikes.channels.iter().copied())
            .filter(|spike| spike.1 != 9)
            .collect();
        let screams = (0..data.steps as i64).map(|step| (step, 9));
        let mut spikes: Vec<(i64, u32)> = others.into_iter().chain(screams).collect();
        spikes.sort_unstable();
        (data.spikes.ticks, data.spikes.channels) = spikes.into_iter().unzip();
        data
    };
    let (found, solved) = recalibrate(&model, &drifted(5), &()).unwrap();
    assert_eq!(found.refusal, None, "{found:?}");
    let retained = StoredStatistics::read(&model).unwrap();
    let mut refit = crate::retained::Refit::new(&model, &retained).unwrap();
    refit.leave_out(&[0, 1, 2, 9]).unwrap();
    let watched = refit.solve(&retained.sums, retained.ridge).unwrap();
    let later = drifted(6);
    let (frozen, solved) = (mean_r2(&model, &later), mean_r2(&solved.unwrap(), &later));
    let watched = mean_r2(&watched, &later);
    assert!(
        solved > frozen && solved > watched - 0.02,
        "{frozen} frozen, {solved} recalibrated, {watched} left out"
    );
}
