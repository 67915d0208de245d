//! `betz monitor`: a session on a recording in real time, and the page that shows it.

pub(crate) mod args;
mod demo;
mod simulated;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use betz::episode::online::{MinerConfig, open};
use betz::episode::{Alphabet, Clock, Pattern, read_table};
use betz::model::Decoder;
use betz::recording::{Dataset, Segment};
use betz::{Error, ErrorKind, Progress, Result};
use betz_live::{DatasetFeed, DatasetRig, Live, Until};
use betz_monitor::{Contents, Control, Monitor, Simulation, Source, Wish};
use serde_json::json;

use crate::data;
use crate::device;
use crate::page::{LOOK, announce, options};
use crate::replay::deadline;
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
    /// Steps of the dataset at which a trial begins besides its segments, ascending.
    trials: Vec<i64>,
    /// Description of the population that was simulated.
    simulation: Option<Simulation>,
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
    let deadline = deadline(args.deadline)?;
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
    let paused = Arc::new(AtomicBool::new(false));
    let rig = DatasetRig::new(Arc::clone(&work.dataset), feed).paused_by(Arc::clone(&paused));
    let mut live = session::open(&work.name, &work.model, Some(deadline), Box::new(rig))?;
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
    let simulation = work.simulation.take();
    let wishes = simulation
        .map(|told| monitor.simulation(told))
        .transpose()?;
    report::stop_on_interrupt();
    let _door = announce(&monitor, &args.page, args.common.json)?;

    play(live, &work, &monitor, &|| {
        for wish in wishes.iter().flat_map(Receiver::try_iter) {
            if let Wish::Pause(pause) = wish {
                paused.store(pause, Ordering::Relaxed);
            }
        }
    })?;
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
        trials: Vec::new(),
        simulation: None,
    })
}

/// Runs the session over the recording, until its end or Ctrl-C. `look` is called between steps and while there are none.
fn play(mut live: Live, work: &Work, monitor: &Monitor, look: &dyn Fn()) -> Result<()> {
    let dataset = &work.dataset;
    let mut truth = (!dataset.outputs.is_empty())
        .then(|| monitor.truth())
        .flatten();
    let width = dataset.outputs.len();
    let unknown = vec![f32::NAN; width];
    let delay = work.model.delay_steps();
    let of_segment = |segment: &Segment| {
        let segment = *segment;
        (segment.start..segment.stop).map(move |step| (segment, step))
    };
    let mut steps = dataset.segments.iter().flat_map(of_segment).cycle();
    // The truth that the output at a step estimates; the page looks for it when it hears the step.
    let mut tell = move |(segment, step): (Segment, i64)| {
        if let Some(truth) = &mut truth {
            let meant = step.saturating_sub(delay);
            let inside = (segment.start..segment.stop).contains(&meant);
            let row = meant.max(0) as usize * width;
            let row = dataset.behavior.get(row..row + width).filter(|_| inside);
            truth.step(row.unwrap_or(&unknown));
        }
    };
    // The first segment begins a trial, as the others do.
    session::of(&mut live)?.reset();
    let mut upcoming = steps.next();
    upcoming.into_iter().for_each(&mut tell);
    let until = Until {
        steps: None,
        stop: &|| {
            look();
            UntilInterrupted.cancelled()
        },
    };
    let mut tick = 0_u64;
    live.run(&until, &mut |_| {
        if upcoming.is_some_and(|(_, step)| work.trials.binary_search(&step).is_ok()) {
            monitor.event("trial", json!({ "at": tick }));
        }
        tick += 1;
        upcoming = steps.next();
        upcoming.into_iter().for_each(&mut tell);
        Ok(())
    })
}
