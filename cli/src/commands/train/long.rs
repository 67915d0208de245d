//! `betz train --memory`: training on a recording that is read in chunks.

use betz::device::Device;
use betz::recording::{AlignReport, Recording};
use betz::team::Team;
use betz::train::Training;
use betz::train::long::File;
use betz::{Result, input_form};

use super::args::{DecoderKind, Train};
use super::{options, print};
use crate::chunks;
use crate::data;
use crate::device;
use crate::front_end;
use crate::report::{self, Bar};

/// Trains by a team; its first process writes the model.
pub(crate) fn run(team: &dyn Team, args: &Train, device: &Device, memory: u64) -> Result<()> {
    let (mut file, aligned, training) = prepare(args, memory)?;
    let form = file.form();
    let bar = Bar::new();
    let trained = training
        .run_in_chunks(team, &mut file, device, memory, &bar)
        .map_err(|e| e.at(args.recording.display()))?;
    let Some(trained) = trained else {
        return Ok(());
    };
    device::note_fallback(&trained.ran, "training");
    let meta = Recording::read_meta(&args.recording)?;
    let model = input_form::marked(trained.decoder, form)?;
    let model = front_end::attach(meta.as_deref(), model)?;
    report::check_interrupt("training")?;
    model.save(&args.out)?;
    let seconds = bar.seconds();
    drop(bar);
    let warned: Vec<String> = (trained.artefacts.warning(model.training().steps))
        .into_iter()
        .collect();
    for warning in &warned {
        eprintln!("warning: {warning}");
    }
    let facts = print::Facts {
        aligned,
        artefacts: trained.artefacts,
        warnings: warned,
        comparison: None,
        device: trained.ran.device,
        seconds,
        gram_error: None,
        phases: None,
    };
    print::print(args, &model, facts)
}

/// The recording and the training of `betz train --memory`.
fn prepare(args: &Train, memory: u64) -> Result<(File, AlignReport, Training)> {
    chunks::refuse(
        &[
            ("--decoder", args.decoder != DecoderKind::Linear),
            ("--delay auto", args.delay.starts_with("auto")),
            ("--variance", args.variance),
        ],
        "with --memory, which trains only linear decoders, at a given delay",
    )?;
    let (file, aligned) = chunks::open(&args.recording, &args.part, memory, |stretches| {
        let step = args
            .step
            .unwrap_or_else(|| data::default_step(stretches.outline()));
        let stretches = match options::groups(stretches.outline(), args)? {
            Some(groups) => stretches.combine(&groups)?,
            None => stretches,
        };
        Ok((stretches, step))
    })?;
    let training = options::training(args, file.outline().step_seconds)?;
    Ok((file, aligned, training))
}
