//! `betz monitor`: a session on a recording in real time, and the page that shows it.

pub(crate) mod args;
mod demo;
mod simulated;

use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use betz::episode::online::{MinerConfig, open};
use betz::episode::{Alphabet, Clock, Pattern, read_table};
use betz::model::Decoder;
use betz::recording::Dataset;
use betz::stream::{Session, SessionConfig};
use betz::{Error, ErrorKind, Progress, Result};
use betz_monitor::{Contents, Control, Monitor, Simulation, Source, Wish};
use serde_json::json;

use crate::data;
use crate::device;
use crate::page::{LOOK, announce, options, rest};
use crate::report::{self, Bar, UntilInterrupted};
use args::Monitor as Arguments;

/// The session to run.
struct Work {
    name: String,
    model: Decoder,
    dataset: Dataset,
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

    let config = SessionConfig {
        deadline: Some(deadline),
        ..SessionConfig::default()
    };
    let mut session = Session::open(&work.model, config)?;
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

    play(session, &work, args, &monitor, wishes.as_ref())?;
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
        dataset,
        electrode_um,
        contents: Contents::default(),
        patterns: None,
        trials: Vec::new(),
        simulation: None,
    })
}

/// Waits as long as pages pause the simulation, which is all that they can ask of one that was made beforehand; the time
/// that passed. `None` on Ctrl-C.
fn wait_while_paused(wishes: &Receiver<Wish>) -> Option<Duration> {
    let (mut paused, mut waited) = (false, Duration::ZERO);
    loop {
        while let Ok(wish) = wishes.try_recv() {
            paused = wish == Wish::Pause(true);
        }
        if !paused {
            return Some(waited);
        }
        let begun = Instant::now();
        if !rest(LOOK) {
            return None;
        }
        waited += begun.elapsed();
    }
}

/// Steps through the recording as fast as the clock on the wall times `--speed`, until its end or Ctrl-C.
fn play(
    mut session: Session,
    work: &Work,
    args: &Arguments,
    monitor: &Monitor,
    wishes: Option<&Receiver<Wish>>,
) -> Result<()> {
    let dataset = &work.dataset;
    let mut truth = (!dataset.outputs.is_empty())
        .then(|| monitor.truth())
        .flatten();
    let width = session.outputs();
    let mut out = betz::memory::filled("the outputs", 0.0f32, width)?;
    let unknown = vec![f32::NAN; width];
    // Counts, weighted counts and signals go in as a row; single spikes as a list.
    let weighted = !dataset.spikes.weights.is_empty();
    let mut values = betz::memory::filled(
        "a tick",
        0.0f32,
        if weighted { session.channels() } else { 0 },
    )?;
    let delay = work.model.delay_steps();
    let mut started = Instant::now();
    let mut done = 0u64;
    loop {
        for segment in &dataset.segments {
            session.reset();
            let mut next = dataset.spikes.range(segment.start, segment.stop).start;
            for step in segment.start..segment.stop {
                match wishes.map_or(Some(Duration::ZERO), wait_while_paused) {
                    Some(waited) => started += waited,
                    None => return Ok(()),
                }
                let ticks = &dataset.spikes.ticks[next..];
                let now = next..next + ticks.iter().take_while(|&&t| t == step).count();
                next = now.end;
                if let Some(truth) = &mut truth {
                    // The truth that the output at this step estimates.
                    let meant = step.saturating_sub(delay);
                    let inside = (segment.start..segment.stop).contains(&meant);
                    let row = meant.max(0) as usize * width;
                    let row = dataset.behavior.get(row..row + width).filter(|_| inside);
                    truth.step(row.unwrap_or(&unknown));
                }
                let spikes = &dataset.spikes.channels[now.clone()];
                if weighted {
                    for i in now {
                        values[dataset.spikes.channels[i] as usize] += dataset.spikes.weights[i];
                    }
                    session.step_values(&values, &mut out)?;
                    spikes.iter().for_each(|&c| values[c as usize] = 0.0);
                } else {
                    session.step_spikes(spikes, &mut out)?;
                }
                if work.trials.binary_search(&step).is_ok() {
                    monitor.event("trial", json!({"at": session.tick() - 1}));
                }
                done += 1;
                let passed = done as f64 * dataset.step_seconds;
                let due = Duration::try_from_secs_f64(passed / args.speed);
                let wait = due
                    .unwrap_or(Duration::MAX)
                    .saturating_sub(started.elapsed());
                if !rest(wait) {
                    return Ok(());
                }
            }
        }
        if !(args.repeat || args.demo) {
            return Ok(());
        }
    }
}
