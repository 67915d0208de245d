//! `betz train --memory`: training on a recording that is read in chunks.

use betz::device::Device;
use betz::recording::Dataset;
use betz::team::Team;
use betz::train::long::{File, LongOptions, Work};
use betz::{Result, input_form};

use super::args::{DecoderKind, Train};
use super::{options, print};
use crate::chunks;
use crate::data;
use crate::device;
use crate::report::Bar;

/// Trains by a team; its first process writes the model.
pub(crate) fn run(team: &dyn Team, args: &Train, device: &Device, memory: u64) -> Result<()> {
    let (mut file, options) = prepare(args, memory)?;
    let bar = Bar::new();
    let (outline, form) = (file.outline().clone(), file.form());
    let cuts = file.cuts().to_vec();
    let work = Work {
        team,
        device,
        outline: &outline,
        cuts: &cuts,
        memory,
        progress: &bar,
    };
    let trained = (work.train(&mut file, &options)).map_err(|e| e.at(args.recording.display()))?;
    let Some(trained) = trained else {
        return Ok(());
    };
    device::note_fallback(&trained.ran, "training");
    let model = input_form::marked(trained.decoder, form)?;
    model.save(&args.out)?;
    let seconds = bar.seconds();
    drop(bar);
    print::print(args, &model, None, trained.ran.device, seconds, None)
}

/// The recording of `betz train --memory`, and what is trained on it.
fn prepare(args: &Train, memory: u64) -> Result<(File, LongOptions)> {
    chunks::refuse(
        &[
            ("--decoder", args.decoder != DecoderKind::Linear),
            ("--delay auto", args.delay == "auto"),
            ("--variance", args.variance),
        ],
        "beside --memory, which trains a linear decoder at a given delay in stretches",
    )?;
    let file = chunks::open(&args.recording, &args.part, memory, |stretches| {
        let step = args
            .step
            .unwrap_or_else(|| data::default_step(stretches.outline()));
        let stretches = match options::groups(stretches.outline(), args)? {
            Some(groups) => stretches.combine(&groups)?,
            None => stretches,
        };
        Ok((stretches, step))
    })?;
    let (options, search) = options::choices(args, &sizes(&file), &Bar::new())?;
    let options = LongOptions {
        train: options,
        search: (args.folds > 0).then_some(search),
        leave_out_silent: !args.refuse_dead,
    };
    Ok((file, options))
}

/// The sizes of a recording, without its spikes and behaviour.
fn sizes(file: &File) -> Dataset {
    let outline = file.outline();
    Dataset {
        step_seconds: outline.step_seconds,
        steps: usize::try_from(outline.steps).unwrap_or(usize::MAX),
        channel_names: outline.channel_names.clone(),
        spikes: betz::recording::Spikes::default(),
        segments: file.whole_steps(),
        outputs: outline.outputs.clone(),
        behavior: Vec::new(),
    }
}
