//! `betz train`: a decoder of a recording, linear or not, cross-validated, in a model file.

pub(crate) mod args;
mod classes;
pub(crate) mod long;
mod options;
mod phases;
pub(crate) mod print;

use std::time::Instant;

use betz::device::{Device, DeviceSpec};
use betz::model::LogVariance;
use betz::team::Alone;
use betz::train::TrainingOutcome;
use betz::train::place::default_step;
use betz::train::retained;
use betz::{Error, ErrorKind, Result, input_form};

use crate::clusterless;
use crate::data;
use crate::device;
use crate::files::{self, Files, Kind};
use crate::front_end;
use crate::report::{self, Bar};
use crate::step;
use args::{DecoderKind, Train};
use options::{multi_unit, training};
use phases::PartClock;
use print::GramError;

pub(crate) fn run(args: &Train) -> Result<()> {
    Files::new(&args.common)
        .reads("RECORDING", &args.recording)
        .may_read("--groups", args.groups.as_deref())
        .writes("--out", &args.out, Kind::Model)?;
    clusterless::check(args)?;
    if args.marks {
        report::stop_on_interrupt();
        return clusterless::train(args);
    }
    classes::check(args)?;
    if args.phases && args.decoder != DecoderKind::Linear {
        return Err(Error::argument(format!(
            "--phases: expected --decoder linear, whose parts are timed, got {}",
            options::name(args.decoder)
        )));
    }
    report::stop_on_interrupt();
    let device = match args.same_bits {
        true => one_order(&args.common.device)?,
        false => device::open(&args.common.device)?,
    };
    let device = device.with_memory_cap(args.device_memory);
    if let Some(memory) = args.memory {
        return long::run(&Alone, args, &device, memory);
    }
    let begun = Instant::now();
    let recording = multi_unit(
        data::read_recording(&args.recording, &args.part.behavior)?,
        args,
    )
    .map_err(|e| e.at(args.recording.display()))?;
    let read_seconds = begun.elapsed().as_secs_f64();
    let step = match (args.step, args.decoder) {
        (Some(step), _) => step,
        (None, DecoderKind::Place) => default_step(&recording),
        (None, DecoderKind::Classes) => data::default_step(&recording),
        _ => step::choose(&recording, &args.part, args.folds, |step| {
            options::bank(args, step)
        })
        .map_err(|e| e.at(args.recording.display()))?,
    };
    let form = recording.form;
    let meta = recording.meta.clone();
    let finish = |decoder| front_end::attach(meta.as_deref(), input_form::marked(decoder, form)?);
    let at = |e: Error| e.at(args.recording.display());
    let begun = Instant::now();
    let (dataset, aligned) = data::aligned_dataset(recording, step, &args.part).map_err(at)?;
    let read_seconds = read_seconds + begun.elapsed().as_secs_f64();
    let training = training(args, dataset.step_seconds)?;
    if let Some(text) = &args.labels {
        let with = (&training, &device);
        return classes::run(args, text, (&dataset, aligned), with, finish).map_err(at);
    }
    let bar = Bar::new();
    let clock = PartClock::new(&bar, args.phases);
    let begun = Instant::now();
    let trained = training.run(&dataset, &device, &clock).map_err(at)?;
    let phases = clock.phases(read_seconds, begun.elapsed().as_secs_f64());
    say_what_has_no_effect(args, &trained);
    device::note_fallback(&trained.ran, "training");
    say_what_is_masked(trained.silent_channels, dataset.channels());
    let model = finish(trained.decoder)?;
    // Nobody waits for a model that was complete just before an interrupt.
    if trained
        .comparison
        .as_ref()
        .is_none_or(|comparison| comparison.stopped.is_none())
    {
        report::check_interrupt("training")?;
    }
    let stopped = (trained.comparison.as_ref()).and_then(|comparison| comparison.stopped.clone());
    model.save(&files::destination(&args.out, stopped.is_none()))?;
    let seconds = bar.seconds();
    let gram_error = trained.gram_error.map(|error| GramError {
        precision: training.precision.name(),
        largest: error.largest,
        rms: error.rms,
    });
    drop(bar);
    for warning in &trained.warnings {
        eprintln!("warning: {warning}");
    }
    let facts = print::Facts {
        aligned,
        artefacts: trained.artefacts,
        warnings: trained.warnings,
        comparison: trained.comparison,
        device: trained.ran.device,
        seconds,
        gram_error,
        phases,
    };
    print::print(args, &model, facts)?;
    match stopped {
        Some(why) => Err(Error::new(ErrorKind::Interrupted, why)),
        None => Ok(()),
    }
}

/// The CPU for `--same-bits`, on which training adds and factors in one order from here on.
fn one_order(device: &str) -> Result<Device> {
    match device.parse::<DeviceSpec>()? {
        DeviceSpec::Auto | DeviceSpec::Cpu => {
            betz::train::use_one_order();
            Ok(Device::cpu())
        }
        other => Err(Error::argument(format!(
            "--same-bits: expected --device cpu, whose sums have one order, got {other}"
        ))),
    }
}

/// Says how many of `channels` are masked, because they are silent.
fn say_what_is_masked(silent: usize, channels: usize) {
    if silent > 0 {
        let all = report::count(channels as u128, "channel");
        eprintln!("masked: {silent} of {all}, which never fire");
    }
}

/// Names the options that the training `trained` had no use for.
fn say_what_has_no_effect(args: &Train, trained: &TrainingOutcome) {
    let kind = trained.decoder.kind();
    if args.variance && trained.decoder.attachment(LogVariance::TAG).is_none() {
        eprintln!("--variance has no effect: a {kind} decoder estimates no variance");
    }
    if args.retain.is_some() && trained.decoder.attachment(retained::TAG).is_none() {
        eprintln!("--retain has no effect: a {kind} decoder stores no statistics");
    }
    if args.device_memory.is_some() && trained.ran.memory_cap.is_none() {
        eprintln!("--device-memory has no effect: no GPU is used");
    }
    if args.tf32 && trained.gram_error.is_none() {
        eprintln!("--tf32 has no effect: Γ was not computed by the dense path on a GPU");
    }
}
