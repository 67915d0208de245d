//! `betz serve`: a page to look at recordings, with what a model makes of them.

use std::path::{Path, PathBuf};

use betz::model::Decoder;
use betz::stream::{Session, SessionConfig};
use betz::{Error, Progress, Result};
use betz_monitor::{Monitor, Recorded, Source};

use super::monitor::{LOOK, announce, name_of, options};
use super::stream::{Feed, replay};
use crate::data;
use crate::device;
use crate::monitor_args::Serve;
use crate::report::{self, Bar, UntilInterrupted};

pub(crate) fn run(args: &Serve) -> Result<()> {
    device::cpu_for("a page", &args.common.device)?;
    let (models, recordings): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.files.iter().partition(|path| !is_npz(path));
    if models.len() > 1 || recordings.is_empty() {
        return Err(Error::argument(format!(
            "FILE: expected recordings (.npz) and at most one model, got {} and {}",
            report::count(recordings.len() as u64, "recording"),
            report::count(models.len() as u64, "other file")
        )));
    }
    let model = models
        .first()
        .map(|path| Ok((name_of(path), Decoder::load(path)?)));
    let model: Option<(String, Decoder)> = model.transpose()?;
    let bar = Bar::new();
    let recorded: Vec<Recorded> = (recordings.iter())
        .map(|path| match &model {
            Some((name, model)) => decoded(args, path, name, model, &bar),
            None => as_it_is(args, path),
        })
        .collect::<Result<_>>()?;
    drop(bar);
    let monitor = Monitor::open(recorded, options(&args.page))?;
    report::stop_on_interrupt();
    let _door = announce(&monitor, &args.page, args.common.json)?;
    while !UntilInterrupted.cancelled() {
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn is_npz(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("npz"))
}

/// A recording without a model, on its own clock or in steps of a size for the eye.
fn as_it_is(args: &Serve, path: &Path) -> Result<Recorded> {
    let recording = data::read_recording(path)?;
    let electrode_um = recording.electrode_um.clone();
    let step = data::default_step(&recording);
    let dataset = data::dataset(recording, step, &args.part).map_err(|e| e.at(path.display()))?;
    Ok(Recorded {
        source: Source {
            name: name_of(path),
            channel_names: dataset.channel_names.clone(),
            electrode_um,
            outputs: dataset.outputs.clone(),
            step_seconds: dataset.step_seconds,
            speed: 1.0,
            deadline: None,
            model: None,
        },
        dataset,
        estimates: Vec::new(),
        delay_steps: 0,
    })
}

/// A recording as a model sees it, and what it makes of it.
fn decoded(
    args: &Serve,
    path: &Path,
    name: &str,
    model: &Decoder,
    progress: &dyn Progress,
) -> Result<Recorded> {
    let recording = data::recording_for(model, path)?;
    let electrode_um = recording.electrode_um.clone();
    let dataset = data::dataset(recording, model.step_seconds(), &args.part);
    let mut dataset = dataset.map_err(|e| e.at(path.display()))?;
    if !dataset.outputs.is_empty() {
        dataset = dataset.with_outputs(model.outputs())?;
    }
    let mut session = Session::open(model, SessionConfig::default())?;
    let feed = Feed {
        counts: false,
        speed: None,
    };
    let estimates = replay(&mut session, &dataset, &feed, progress)?;
    let mut source = Source::of(name, model);
    source.name = format!("{} through {name}", name_of(path));
    source.electrode_um = electrode_um;
    Ok(Recorded {
        source,
        dataset,
        estimates,
        delay_steps: model.delay_steps(),
    })
}
