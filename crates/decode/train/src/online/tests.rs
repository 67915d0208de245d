mod blend;
mod controls;
#[cfg(feature = "tuning")]
mod recurrent;
mod shortage;

use super::feed::ends;
use super::*;
use crate::fit::train;
use crate::options::{RidgeChoice, TrainOptions};
use crate::reaches::Reaches;
use betz_base::ErrorKind;
use betz_gram::gram::{GramPath, normal_equations};
use betz_gram::{NormalEquations, cases};
use betz_recording::{Dataset, DatasetView, Segment, Spikes};
use betz_runtime::stream::{Session, SessionConfig};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

const CHANNELS: usize = 16;
const STEPS: i64 = 60;

fn trials(seed: u64, count: i64) -> Dataset {
    Reaches::default().trials(seed, count)
}

/// Channels heard as others.
fn exchanged(data: &Dataset) -> Dataset {
    let mut made = data.clone();
    for channel in &mut made.spikes.channels {
        *channel = (*channel * 5 + 3) % CHANNELS as u32;
    }
    made
}

fn options() -> TrainOptions {
    TrainOptions {
        ridge: RidgeChoice::Fixed(2.0),
        retain: Some(1 << 20),
        ..TrainOptions::new(cases::bank(&[(40.0, 0), (120.0, 1)]))
    }
}

fn sums_of(data: &Dataset, segments: &[Segment]) -> NormalEquations {
    let view = DatasetView {
        segments,
        ..data.view()
    };
    let bank = options().bank;
    normal_equations(view, &bank, None, 0, GramPath::Event, &())
        .unwrap()
        .0
}

/// A session that is trained while trials of a dataset run.
struct Rig {
    session: Session,
    labels: Labels,
    worker: Worker,
    out: Vec<f32>,
    verdicts: Vec<Verdict>,
}

impl Rig {
    fn new(model: &Decoder, config: TrainerConfig) -> Self {
        let mut session = Session::open(model, SessionConfig::default()).unwrap();
        let (tap, labels, worker) = Worker::open(model, config).unwrap();
        session.attach(Box::new(tap), 0).unwrap();
        Self {
            out: vec![0.0; session.outputs()],
            session,
            labels,
            worker,
            verdicts: Vec::new(),
        }
    }

    /// One segment, labelled as `labels` says, without the worker.
    fn step(&mut self, data: &Dataset, segment: &Segment, label: impl Fn(i64) -> Option<i64>) {
        for step in segment.start..segment.stop {
            let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
            self.session.step_spikes(spikes, &mut self.out).unwrap();
            if let Some(at) = label(step) {
                let row = at as usize * self.out.len();
                let row = &data.behavior[row..row + self.out.len()];
                self.labels.label(row).unwrap();
            }
        }
    }

    fn work(&mut self) {
        while let Some(verdict) = self.worker.work().unwrap() {
            self.verdicts.push(verdict);
        }
    }

    /// Every segment of `data`, labelled with `label_of`'s, each from rest.
    fn run(&mut self, data: &Dataset, label_of: &[usize]) {
        for (segment, &other) in data.segments.iter().zip(label_of) {
            let off = data.segments[other].start - segment.start;
            self.session.reset();
            self.step(data, segment, |step| Some(step + off));
            self.labels.end_trial(true);
            self.work();
        }
    }
}

fn in_order(data: &Dataset) -> Vec<usize> {
    (0..data.segments.len()).collect()
}

/// A short trial's Γ may be of products in f32, as the dense path makes them: this part of the largest.
const F32: f64 = 5e-6;

fn close(a: &NormalEquations, b: &NormalEquations, tolerance: f64) {
    let size = b.gram.iter().fold(0.0, |s: f64, g| s.max(g.abs()));
    let lists = [
        (&a.gram, &b.gram),
        (&a.upsilon, &b.upsilon),
        (&a.feature_sum, &b.feature_sum),
        (&a.output_sq_sum, &b.output_sq_sum),
    ];
    for (a, b) in lists.into_iter().flat_map(|(a, b)| a.iter().zip(b)) {
        assert!((a - b).abs() <= tolerance * size, "{a} and {b}");
    }
}

fn never_forgets() -> TrainerConfig {
    TrainerConfig {
        half_life_seconds: f64::INFINITY,
        ..TrainerConfig::default()
    }
}

#[test]
fn without_forgetting_it_is_training_and_with_it_what_the_half_life_says() {
    let data = trials(1, 30);
    let (first, later): (Vec<usize>, Vec<usize>) = ((0..12).collect(), (12..30).collect());
    let model = train(&data.select(&first), &options(), &()).unwrap();
    let mut rig = Rig::new(&model, never_forgets());
    let rest = data.select(&later);
    rig.run(&rest, &in_order(&rest));
    close(
        &rig.worker.learner_sums(),
        &sums_of(&data, &data.segments),
        F32,
    );
    assert_eq!(rig.worker.state().trials, 18);
    assert_eq!(rig.worker.state().dropped, Dropped::default());

    // A trial is 1.2 s: a half-life of 2.4 s is two trials.
    let mut rig = Rig::new(
        &model,
        TrainerConfig {
            half_life_seconds: 2.4,
            ..TrainerConfig::default()
        },
    );
    rig.run(&rest, &in_order(&rest));
    let mut expected = super::sums::FadingSums::new(sums_of(&data, &data.segments[..12]));
    for trial in 12..30 {
        expected.forget(0.5_f64.sqrt());
        expected
            .add(&sums_of(&data, &data.segments[trial..=trial]))
            .unwrap();
    }
    assert!((expected.steps - rig.worker.state().effective_steps).abs() < 1e-6);
    close(&rig.worker.learner_sums(), &expected.whole(), F32);
}

#[test]
fn where_nothing_rests_between_trials_filters_remember() {
    let data = trials(2, 12);
    let model = train(&data, &options(), &()).unwrap();
    let mut rig = Rig::new(&model, never_forgets());
    for segment in &data.segments {
        // Labels for the second half of each trial alone.
        rig.step(&data, segment, |step| {
            (step - segment.start >= 30).then_some(step)
        });
        rig.labels.end_trial(true);
        rig.work();
    }
    let stop = data.segments.last().unwrap().stop;
    let mut expected = sums_of(&data, &data.segments);
    for segment in &data.segments {
        let up_to = |stop| sums_of(&data, &[Segment { start: 0, stop }]);
        expected.add(&up_to(segment.stop)).unwrap();
        expected.subtract(&up_to(segment.start + 30)).unwrap();
    }
    assert_eq!(stop, 12 * STEPS);
    close(&rig.worker.learner_sums(), &expected, 1e-6);
}

#[test]
fn a_full_ring_loses_whole_trials_and_counts_them() {
    let data = trials(3, 9);
    let model = train(&data, &options(), &()).unwrap();
    let capacity = 1 << 10;
    let mut rig = Rig::new(
        &model,
        TrainerConfig {
            capacity,
            ..never_forgets()
        },
    );
    // The worker sleeps through the first five trials, which take more than 2,048 words.
    for segment in &data.segments[..5] {
        rig.session.reset();
        rig.step(&data, segment, Some);
        rig.labels.end_trial(true);
    }
    rig.work();
    let kept = rig.worker.state().trials as usize;
    let after = rig.worker.state();
    assert!(kept > 0 && kept < 5, "{after:?}");
    assert_eq!(
        (after.dropped.total() + after.trials, after.lost_steps > 0),
        (5, true)
    );
    let mut alone = sums_of(&data, &data.segments);
    alone.add(&sums_of(&data, &data.segments[..kept])).unwrap();
    close(&rig.worker.learner_sums(), &alone, F32);
    // It goes on with the next whole trial.
    let rest = data.select(&[5, 6, 7, 8]);
    rig.run(&rest, &in_order(&rest));
    let state = rig.worker.state();
    assert_eq!(state.dropped.total() + state.trials, 9);
    assert!(state.trials as usize >= kept + 3, "{state:?}");
}

#[test]
fn labels_that_make_no_sense_change_nothing() {
    let data = trials(4, 4);
    let model = train(&data, &options(), &()).unwrap();
    let mut rig = Rig::new(&model, never_forgets());
    let kind = |e: betz_base::Result<bool>| e.unwrap_err().kind();
    assert_eq!(
        kind(rig.labels.label(&[0.0, 0.0])),
        ErrorKind::InvalidArgument
    );
    rig.step(&data, &data.segments[0], |_| None);
    assert_eq!(kind(rig.labels.label(&[0.0])), ErrorKind::Mismatch);
    assert_eq!(
        kind(rig.labels.label(&[0.0, f32::NAN])),
        ErrorKind::NonFinite
    );
    rig.labels.end_trial(true);
    // Aborted.
    rig.step(&data, &data.segments[1], Some);
    rig.labels.end_trial(false);
    // Labelled when it had ended.
    assert!(rig.labels.label_at(STEPS + 3, &[1.0, 1.0]).unwrap());
    rig.step(&data, &data.segments[2], |_| None);
    rig.labels.end_trial(true);
    // Reset between its labels.
    rig.step(&data, &data.segments[3], Some);
    rig.session.reset();
    rig.step(&data, &data.segments[3], Some);
    rig.labels.end_trial(true);
    rig.work();
    let state = rig.worker.state();
    let expected = Dropped {
        unlabelled: 2,
        unwanted: 1,
        reset: 1,
        ..Dropped::default()
    };
    assert_eq!(
        (state.trials, state.dropped, state.lost_labels),
        (0, expected, 4)
    );
    close(
        &rig.worker.learner_sums(),
        &sums_of(&data, &data.segments),
        1e-12,
    );
}

/// Mean R² of `decoder` on `data`.
fn score(decoder: &Decoder, data: &Dataset) -> f64 {
    let outputs = betz_gram::evaluate(decoder, data).unwrap().outputs;
    outputs.iter().map(|o| o.r2).sum::<f64>() / outputs.len() as f64
}

#[test]
fn exchanged_channels_are_learned_and_shuffled_labels_are_not() {
    let model = train(&trials(5, 60), &options(), &()).unwrap();
    let config = TrainerConfig {
        half_life_seconds: 24.0,
        ..TrainerConfig::default()
    };
    let (usual, test) = (trials(6, 40), trials(7, 40));
    let before = score(&model, &test);
    assert!(before > 0.7, "{before}");
    // Nothing drifts: what is accepted is no worse.
    let mut rig = Rig::new(&model, config.clone());
    rig.run(&usual, &in_order(&usual));
    assert!(score(rig.worker.model(), &test) > before - 0.01);
    assert_eq!(rig.worker.state().rolled_back, 0);
    // Labels of other trials: nothing is accepted.
    let mut shuffled = in_order(&usual);
    shuffled.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
    let accepted = rig.worker.state().accepted;
    rig.run(&usual, &shuffled);
    assert_eq!(rig.worker.state().accepted, accepted);
    // Channels heard as others, and a worker that never saw shuffled labels.
    let mut rig = Rig::new(&model, config);
    let drifted = exchanged(&trials(8, 60));
    let lost = score(&model, &exchanged(&test));
    rig.run(&drifted, &in_order(&drifted));
    let found = score(rig.worker.model(), &exchanged(&test));
    assert!(
        lost < 0.3 && found > 0.85 * before,
        "{lost} {found} {before}"
    );
    assert!(
        rig.verdicts
            .iter()
            .any(|v| matches!(v, Verdict::Accepted { before, after } if after > before))
    );
    // It retains the sums that it was solved from.
    let adapted = rig.worker.model();
    let remover = crate::retained::Remover::new(
        adapted,
        &crate::retained::StoredStatistics::read(adapted).unwrap(),
    );
    assert!(remover.unwrap().without(&[2]).is_ok());
}

/// Labels of which one in 400 is a million times as large, and labels that are all far too large.
#[test]
fn labels_far_outside_the_range_of_training_are_left_out_and_counted() {
    let model = train(&trials(5, 60), &options(), &()).unwrap();
    let (drifted, test) = (exchanged(&trials(8, 60)), exchanged(&trials(7, 40)));
    let config = TrainerConfig {
        half_life_seconds: 24.0,
        ..TrainerConfig::default()
    };
    let before = score(&model, &test);
    let mut wrong = drifted.clone();
    let steps = wrong.behavior.len() / 2;
    (0..steps)
        .step_by(400)
        .for_each(|step| wrong.behavior[2 * step] *= 1e6);
    let outliers = (0..steps).filter(|step| wrong.behavior[2 * step].abs() > 100.0);
    let outliers = outliers.count() as u64;
    let mut rig = Rig::new(&model, config.clone());
    rig.run(&wrong, &in_order(&wrong));
    let state = rig.worker.state();
    assert!(
        outliers >= 5 && state.outlier_labels == outliers,
        "{outliers} {state:?}"
    );
    let found = score(rig.worker.model(), &test);
    assert!(before < 0.3 && found > 0.6, "{before} {found} {state:?}");
    // Nothing is learned from labels of another unit.
    let mut far = drifted.clone();
    far.behavior.iter_mut().for_each(|value| *value *= 1e30);
    let mut rig = Rig::new(&model, config);
    rig.run(&far, &in_order(&far));
    let state = rig.worker.state();
    assert_eq!((state.accepted, rig.worker.model()), (0, &model));
    assert!(state.outlier_labels as usize > steps / 2, "{state:?}");
}

#[test]
fn a_model_that_turns_out_worse_is_rolled_back() {
    let data = trials(9, 30);
    let good = train(&data, &options(), &()).unwrap();
    let config = TrainerConfig {
        half_life_seconds: 1e6,
        batch: 100,
        ..TrainerConfig::default()
    };
    let mut rig = Rig::new(&good, config);
    let mut parts = good.clone().into_parts();
    parts.weights.iter_mut().for_each(|w| *w = -*w);
    let steps = rig.worker.state().effective_steps;
    rig.worker.learner_take_over(Decoder::new(parts).unwrap());
    // Four trials say nothing yet.
    let few = data.select(&[0, 1, 2, 3]);
    rig.run(&few, &in_order(&few));
    assert_eq!(rig.worker.state().rolled_back, 0);
    let more = data.select(&[4, 5, 6, 7, 8, 9]);
    rig.run(&more, &in_order(&more));
    assert_eq!(rig.worker.state().rolled_back, 1);
    assert!(rig.verdicts.contains(&Verdict::RolledBack));
    assert_eq!(rig.worker.model().weights(), good.weights());
    assert!(rig.worker.state().effective_steps < 0.5 * steps);
}

/// `data` without the spikes of some channels.
fn silenced(data: &Dataset, gone: &[u32]) -> Dataset {
    let mut made = data.clone();
    made.spikes = Spikes::default();
    for (&tick, &channel) in data.spikes.ticks.iter().zip(&data.spikes.channels) {
        if !gone.contains(&channel) {
            made.spikes.ticks.push(tick);
            made.spikes.channels.push(channel);
        }
    }
    made
}

#[test]
fn channels_that_die_are_left_out_without_labels_and_come_back() {
    let data = trials(20, 60);
    let model = train(&data, &options(), &()).unwrap();
    let config = TrainerConfig {
        batch: 10_000,
        ..TrainerConfig::default()
    };
    let mut rig = Rig::new(&model, config);
    let rules = betz_runtime::stream::ChannelRules::default;
    let watch = rig.session.watch_channels(&model, rules()).unwrap();
    rig.worker.watch(watch);
    // Nobody labels anything.
    let run = |rig: &mut Rig, data: &Dataset| {
        for segment in &data.segments {
            rig.session.reset();
            rig.step(data, segment, |_| None);
            rig.work();
        }
    };
    run(&mut rig, &data);
    assert_eq!(rig.verdicts, []);
    let dead = silenced(&data.select(&(0..30).collect::<Vec<_>>()), &[2, 5]);
    run(&mut rig, &dead);
    assert_eq!(rig.worker.ill_channels(), [2, 5]);
    assert_eq!(
        rig.verdicts.last(),
        Some(&Verdict::Channels { left_out: 2 })
    );
    let retained = crate::retained::StoredStatistics::read(&model).unwrap();
    let remover = crate::retained::Remover::new(&model, &retained).unwrap();
    let size = model.weights().iter().fold(0.0, |s: f64, w| s.max(w.abs()));
    let same = |a: &Decoder, b: &Decoder| {
        assert_eq!(a.channel_mask(), b.channel_mask());
        for (a, b) in a.weights().iter().zip(b.weights()) {
            assert!((a - b).abs() < 1e-8 * size, "{a} and {b}");
        }
    };
    same(rig.worker.model(), &remover.without(&[2, 5]).unwrap());
    let test = silenced(&trials(21, 30), &[2, 5]);
    assert!(score(rig.worker.model(), &test) > score(&model, &test));
    // Well again.
    run(&mut rig, &data);
    assert_eq!(
        rig.verdicts.last(),
        Some(&Verdict::Channels { left_out: 0 })
    );
    same(rig.worker.model(), &model);
    // Most of them at once: the model stays, and steps say so.
    let told = rig.verdicts.len();
    let most: Vec<u32> = (0..14).collect();
    run(&mut rig, &silenced(&data, &most));
    assert_eq!(rig.worker.ill_channels().len(), 14);
    let status = rig.session.status();
    assert!(
        status.contains(betz_runtime::stream::StepStatus::UNTRUSTED),
        "{status}"
    );
    // At most what was told before there were too many.
    assert!(
        rig.worker
            .model()
            .channel_mask()
            .iter()
            .filter(|m| **m)
            .count()
            >= 8
    );
    assert!(rig.verdicts.len() >= told);
}

#[test]
fn a_lift_adapts_its_first_stage_alone() {
    let data = trials(10, 60);
    let kinds = crate::kinds::KindOptions {
        latents: Some(4),
        units: Some(32),
        ..crate::kinds::KindOptions::among(&[crate::kinds::Kind::Lift])
    };
    let (device, search) = (
        betz_device::Device::cpu(),
        crate::search::Search::scores_only(2),
    );
    let lift = crate::kinds::train_kinds_on(&device, &data, &options(), &search, &kinds, &());
    let lift = lift.unwrap().0.decoder;
    let config = TrainerConfig {
        half_life_seconds: 24.0,
        ..TrainerConfig::default()
    };
    let mut rig = Rig::new(&lift, config);
    let (drifted, test) = (exchanged(&trials(11, 60)), trials(12, 30));
    rig.run(&drifted, &in_order(&drifted));
    let adapted = rig.worker.model();
    assert_eq!((adapted.kind(), adapted.head()), ("lift", lift.head()));
    let (before, after) = (score(&lift, &test), score(adapted, &exchanged(&test)));
    assert!(before > 0.7 && after > 0.8 * before, "{before} {after}");
}

#[test]
fn what_cannot_be_trained_is_refused_at_open() {
    let data = trials(13, 4);
    let model = train(&data, &options(), &()).unwrap();
    let refused = |model: &Decoder, config: TrainerConfig| {
        Worker::open(model, config).err().unwrap().to_string()
    };
    let plain = TrainOptions {
        retain: None,
        ..options()
    };
    let plain = train(&data, &plain, &()).unwrap();
    assert!(refused(&plain, TrainerConfig::default()).contains("--retain"));
    let wide = betz_runtime::model::DecoderParts::linear(
        0.01,
        crate::presets::Preset::named("reach")
            .unwrap()
            .bank()
            .unwrap(),
        (0..1024).map(|c| format!("c{c}")).collect(),
        vec!["x".into()],
    );
    let wide = Decoder::new(wide).unwrap();
    assert!(refused(&wide, TrainerConfig::default()).contains("one core"));
    let with = |change: &dyn Fn(&mut TrainerConfig)| {
        let mut config = TrainerConfig::default();
        change(&mut config);
        refused(&model, config)
    };
    assert!(with(&|c| c.half_life_seconds = 0.0).contains("half-life"));
    assert!(with(&|c| c.half_life_seconds = f64::NAN).contains("half-life"));
    assert!(with(&|c| c.batch = 1).contains("2 to 10,000"));
    assert!(with(&|c| c.capacity = 0).contains("capacity"));
    assert!(with(&|c| c.max_change = -1.0).contains("largest change"));
    assert!(with(&|c| c.longest_trial_seconds = f64::INFINITY).contains("longest trial"));
}

#[test]
fn on_a_thread_models_are_swapped_into_the_session() {
    let model = train(&trials(14, 60), &options(), &()).unwrap();
    let mut session = Session::open(&model, SessionConfig::default()).unwrap();
    let config = TrainerConfig {
        half_life_seconds: 24.0,
        ..TrainerConfig::default()
    };
    let (tap, mut labels, worker) = Worker::open(&model, config).unwrap();
    session.attach(Box::new(tap), 0).unwrap();
    let swapper = session.swapper().unwrap();
    let trainer = Trainer::start(worker, Some(swapper)).unwrap();
    let data = exchanged(&trials(15, 40));
    let mut out = [0.0; 2];
    for (trial, segment) in (1..).zip(&data.segments) {
        session.reset();
        for step in segment.start..segment.stop {
            let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
            session.step_spikes(spikes, &mut out).unwrap();
            labels
                .label(&data.behavior[step as usize * 2..][..2])
                .unwrap();
        }
        labels.end_trial(true);
        // Until the worker has had it, however long that takes.
        while trainer.state().trials + trainer.state().dropped.total() < trial {
            std::thread::yield_now();
        }
    }
    let state = trainer.state();
    assert!(state.accepted > 0 && state.failure.is_none(), "{state:?}");
    assert!(trainer.take().is_some() && trainer.take().is_none());
    let worker = trainer.stop().unwrap();
    assert_ne!(session.model().decoder_fingerprint(), 0);
    assert_ne!(worker.model().weights(), model.weights());
}

#[test]
fn a_trial_longer_than_it_may_be_is_left_out() {
    let data = trials(16, 6);
    let model = train(&data, &options(), &()).unwrap();
    let mut rig = Rig::new(
        &model,
        TrainerConfig {
            longest_trial_seconds: 1.5,
            ..never_forgets()
        },
    );
    let long = Segment {
        start: 0,
        stop: 5 * STEPS,
    };
    rig.step(&data, &long, Some);
    rig.work();
    rig.labels.end_trial(true);
    rig.work();
    assert_eq!(rig.worker.state().dropped.long, 1);
    rig.session.reset();
    rig.step(&data, &data.segments[5], Some);
    rig.labels.end_trial(true);
    rig.work();
    assert_eq!(rig.worker.state().trials, 1);
    // Rings are made whole or refused.
    assert!(ends(0, 1, &[]).is_err());
}
