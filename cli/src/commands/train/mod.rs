//! `betz train`: a decoder of a recording, linear or not, cross-validated, in a model file.

pub(crate) mod args;
pub(crate) mod long;
mod options;
mod print;

use betz::team::Alone;
use betz::train;
use betz::{Error, Result, input_form};

use crate::data;
use crate::device;
use crate::files::{Files, Kind};
use crate::report::{self, Bar};
use args::Train;
use options::{choices, kinds, multi_unit};
use print::GramError;

pub(crate) fn run(args: &Train) -> Result<()> {
    Files::new(&args.common)
        .reads("RECORDING", &args.recording)
        .may_read("--groups", args.groups.as_deref())
        .writes("--out", &args.out, Kind::Model)?;
    let device = device::open(&args.common.device)?.with_memory_cap(args.device_memory);
    if let Some(memory) = args.memory {
        return long::run(&Alone, args, &device, memory);
    }
    let recording = multi_unit(
        data::read_recording(&args.recording, &args.part.behavior)?,
        args,
    )
    .map_err(|e| e.at(args.recording.display()))?;
    let step = args.step.unwrap_or_else(|| data::default_step(&recording));
    let form = recording.form;
    let at = |e: Error| e.at(args.recording.display());
    let mut dataset = data::dataset(recording, step, &args.part).map_err(at)?;
    // Silent channels cost nothing; who wants them refused has them named by the solver.
    let active = if args.refuse_dead {
        None
    } else {
        train::active(&dataset).map_err(at)?
    };
    let mut names = Vec::new();
    let firing = active.map(|active| {
        names = std::mem::replace(&mut dataset, active.data).channel_names;
        active.channels
    });

    let bar = Bar::new();
    let (options, search) = choices(args, &dataset, &bar)?;
    let (trained, comparison) = match kinds(args)? {
        None if args.folds == 0 => (
            train::train_on(&device, &dataset, &options, &bar).map_err(at)?,
            None,
        ),
        None => {
            let trained = train::train_validated_on(&device, &dataset, &options, &search, &bar);
            (trained.map_err(at)?, None)
        }
        Some(kinds) => {
            let trained = train::train_kinds_on(&device, &dataset, &options, &search, &kinds, &bar);
            let (trained, comparison) = trained.map_err(at)?;
            (trained, Some(comparison))
        }
    };
    let mut trained = trained;
    if args.variance {
        trained.decoder = match trained.decoder.kind() {
            "lift" | "experts" => {
                train::with_variance(&trained.decoder, &dataset, &bar).map_err(at)?
            }
            kind => {
                eprintln!("--variance made no difference: a decoder of kind {kind} tells none");
                trained.decoder
            }
        };
    }
    let ran = &trained.ran;
    device::note_fallback(ran, "training");
    if args.device_memory.is_some() && ran.memory_cap.is_none() {
        eprintln!("--device-memory made no difference: no GPU is used");
    }
    let model = match &firing {
        Some(firing) => {
            eprintln!(
                "{} of {} without a spike: masked",
                names.len() - firing.len(),
                report::count(names.len() as u128, "channel")
            );
            train::spread(trained.decoder, &names, firing)?
        }
        None => trained.decoder,
    };
    let model = input_form::marked(model, form)?;
    model.save(&args.out)?;
    let seconds = bar.seconds();
    let gram_error = trained.gram_error.map(|error| GramError {
        precision: options.precision.name(),
        largest: error.largest,
        rms: error.rms,
    });
    if args.tf32 && gram_error.is_none() {
        eprintln!("--tf32 made no difference: Γ was not computed by the dense path on a GPU");
    }
    drop(bar);
    let device = ran.device.clone();
    print::print(args, &model, comparison, device, seconds, gram_error)
}
