//! `betz monitor`: a session on a recording in real time, and the page that shows it.

pub(crate) mod args;
mod demo;
mod simulated;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use betz::episode::online::{MinerConfig, open};
use betz::episode::{Alphabet, Clock, Pattern, read_table};
use betz::model::Decoder;
use betz::recording::{Dataset, Segment};
use betz::{Error, ErrorKind, Progress, Result};
use betz_live::{DatasetFeed, DatasetRig, Live, Until};
use betz_monitor::{Contents, Control, Monitor, Source, Truth};

use crate::data;
use crate::device;
use crate::page::{LOOK, announce, options};
use crate::report::{self, Bar, UntilInterrupted};
use crate::session;
use args::Monitor as Arguments;

/// The session to run.
struct Work {
    name: String,
    model: Decoder,
    dataset: Arc<Dataset>,
    electrode_um: Option<Vec<[f32; 2]>>,
    /// Networks and maps beside the session.
    contents: Contents,
    /// Episodes that are counted, and the name of their list.
    patterns: Option<(String, Vec<Pattern>)>,
}

pub(crate) fn run(args: &Arguments) -> Result<()> {
    if !(args.speed.is_finite() && args.speed > 0.0 && args.speed <= 1000.0) {
        return Err(Error::argument(format!(
            "--speed: expected a multiple above 0, to 1000, got {}",
            args.speed
        )));
    }
    device::cpu_for("a session", &args.common.device)?;
    if let Some(asked) = &args.simulate {
        return simulated::run(args, asked);
    }
    let deadline = (Duration::try_from_secs_f64(args.deadline * 1e-6).ok())
        .filter(|d| !d.is_zero())
        .ok_or_else(|| {
            Error::argument(format!(
                "--deadline: expected microseconds > 0, got {}",
                args.deadline
            ))
        })?;
    let mut work = match (&args.model, &args.recording) {
        (Some(model), Some(recording)) => from_files(args, model, recording)?,
        _ => demo::work(&Bar::new())?,
    };
    let others: Vec<(String, Decoder)> = (args.with.iter())
        .map(|path| Ok((name_of(path), Decoder::load(path)?)))
        .collect::<Result<_>>()?;

    let feed = DatasetFeed {
        rows: false,
        speed: Some(args.speed),
        repeats: args.repeat || args.demo,
    };
    let rig = Box::new(DatasetRig::new(Arc::clone(&work.dataset), feed));
    let mut live = session::open(&work.name, &work.model, Some(deadline), rig)?;
    work.model = live.model().clone();
    let session = session::of(&mut live)?;
    let mut source = Source::of(&work.name, &work.model);
    source.deadline = Some(deadline);
    source.speed = args.speed;
    source.electrode_um.clone_from(&work.electrode_um);
    let contents = std::mem::take(&mut work.contents);
    let (monitor, feed) = Monitor::start_with(source, contents, options(&args.page))?;
    monitor.watch(session.health());
    if args.page.control {
        let mut models = vec![(work.name.clone(), work.model.clone())];
        models.extend(others);
        monitor.control(Control::new(session.swapper()?, models)?)?;
    }
    session.attach(Box::new(feed), 0)?;
    if let Some(path) = &args.episodes {
        work.patterns = Some((name_of(path), patterns(path, &work.model)?));
    }
    if let Some((name, patterns)) = work.patterns.take() {
        let (feed, miner) = open(MinerConfig::new(work.model.channels(), patterns))?;
        session.attach(Box::new(feed), 0)?;
        monitor.mine(&name, miner)?;
    }
    report::stop_on_interrupt();
    let _door = announce(&monitor, &args.page, args.common.json)?;

    let truth = (!work.dataset.outputs.is_empty())
        .then(|| monitor.truth())
        .flatten();
    play(live, &work, truth)?;
    if !UntilInterrupted.cancelled() {
        eprintln!("the recording has ended; the page stays until Ctrl-C");
    }
    while !UntilInterrupted.cancelled() {
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Episodes of a list, which are counted while the session runs.
fn patterns(path: &Path, model: &Decoder) -> Result<Vec<Pattern>> {
    let clock = Clock::from_tick_seconds(model.step_seconds())?;
    let alphabet = Alphabet::new(model.channel_names().to_vec(), clock)?;
    let rows = read_table(path, &alphabet)?.into_iter();
    Ok(rows.map(|row| row.episode.pattern).collect())
}

pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

fn from_files(args: &Arguments, model: &Path, recording: &Path) -> Result<Work> {
    let decoder = Decoder::load(model)?;
    let read = data::recording_for(&decoder, recording, &args.part.behavior)?;
    let electrode_um = read.electrode_um.clone();
    let dataset = data::dataset(read, decoder.step_seconds(), &args.part);
    let dataset = dataset.map_err(|e| e.at(recording.display()))?;
    let dataset = betz::input_form::with_behavior(&decoder, dataset)?;
    if dataset.steps_in_segments() == 0 {
        let message = format!("{}: expected steps to run, got none", recording.display());
        return Err(Error::new(ErrorKind::InsufficientData, message));
    }
    Ok(Work {
        name: format!("{} on {}", name_of(model), name_of(recording)),
        model: decoder,
        dataset: Arc::new(dataset),
        electrode_um,
        contents: Contents::default(),
        patterns: None,
    })
}

/// Runs the session over the recording, until its end or Ctrl-C.
fn play(mut live: Live, work: &Work, mut truth: Option<Truth>) -> Result<()> {
    let dataset = &work.dataset;
    let width = dataset.outputs.len();
    let unknown = vec![f32::NAN; width];
    let delay = work.model.delay_steps();
    let of_segment = |segment: &Segment| {
        let segment = *segment;
        (segment.start..segment.stop).map(move |step| (segment, step))
    };
    let mut upcoming = dataset.segments.iter().flat_map(of_segment).cycle();
    // The truth that the output at the next step estimates: the page looks for it when it hears the step.
    let mut tell = move || {
        if let (Some(truth), Some((segment, step))) = (&mut truth, upcoming.next()) {
            let meant = step.saturating_sub(delay);
            let inside = (segment.start..segment.stop).contains(&meant);
            let row = meant.max(0) as usize * width;
            let row = dataset.behavior.get(row..row + width).filter(|_| inside);
            truth.step(row.unwrap_or(&unknown));
        }
    };
    // The first segment begins a trial, as the others do.
    session::of(&mut live)?.reset();
    tell();
    let until = Until {
        steps: None,
        stop: &|| UntilInterrupted.cancelled(),
    };
    live.run(&until, &mut |_| {
        tell();
        Ok(())
    })
}
