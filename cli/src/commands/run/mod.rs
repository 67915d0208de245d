//! `betz run`: a whole session, from the source of a rig to its outputs.

pub(crate) mod args;
pub(crate) mod control;
pub(crate) mod emulated;
mod keep;
#[cfg(feature = "lab")]
mod network;
mod print;
mod recalibration;
mod replay;
mod shown;
mod simulated;
mod status;

use std::cell::Cell;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use betz::model::Decoder;
use betz::{Error, Progress, Result};
use betz_live::{Live, Pace, Part, Plan, Resumption, Trial, Until, check_all, open_rigs};
use betz_rigs::rig::Rig;

use betz_live::plan::{LearnMode, Span};
use betz_monitor::{Decision, Monitor, Source};
use serde_json::json;

use crate::browser::Door;
use crate::commands::emulate::Device;
use crate::report::{self, UntilInterrupted};
use args::{RigChoice, Run};
use control::Control;
use emulated::ReadyDevice;
use print::{RunReport, Status};
use recalibration::RecalibrationNews;
use simulated::{SimulatedSession, SimulatedSource};

/// Time between two lines of status.
const EVERY: Duration = Duration::from_secs(1);

/// Time between two looks for notes to show on the page.
const LOOK: Duration = Duration::from_millis(100);

/// Time for which --check listens.
const LISTEN: Duration = Duration::from_secs(2);

/// File of the page's history of a session, in the folder of its recording.
const HISTORY: &str = "history.json";

pub(crate) fn run(args: &Run) -> Result<()> {
    report::stop_on_interrupt();
    if let Some(plan) = &args.plan {
        refuse_network(plan)?;
    }
    if let Some(choice) = &args.simulate {
        let made = simulated::prepare(args, choice.as_ref())?;
        let device = match choice {
            Some(RigChoice::Device(device)) => Some(*device),
            _ => None,
        };
        return run_simulated(args, made, device);
    }
    if let Some(folder) = &args.replay {
        return replay::run(folder, args.relearn, args.json);
    }
    let file = args
        .plan
        .as_deref()
        .ok_or_else(|| Error::argument("expected a plan or --simulate, got neither"))?;
    let plan = Plan::read(file, &args.set)?;
    if args.check {
        let model = plan.load_model()?;
        let mut rigs = open_rigs(&plan, &model)?;
        return check_rigs(args, &plan, &model, &mut rigs);
    }
    if args.keep && args.kept.is_none() {
        return keep::run(&args.page);
    }
    let mut live = Live::open(plan)?;
    let names: Vec<String> = (live.model().outputs().iter())
        .map(|o| o.name.clone())
        .collect();
    let mut status = Status::new(&names);
    if args.keep {
        let told = live.keep()?;
        eprintln!("{told}");
        if let Resumption::Resumes(folder) = told {
            status = status.that_goes_on_with(folder);
        }
    }
    eprintln!("listening; Ctrl-C ends");
    run_live(args, live, status)
}

/// Refuses a plan that seems to be a spiking network.
fn refuse_network(plan: &Path) -> Result<()> {
    match args::is_json(plan) {
        true => Err(Error::argument(format!(
            "expected a plan (TOML), got {file}; a spiking network is run by --simulate={file}",
            file = plan.display()
        ))),
        false => Ok(()),
    }
}

fn run_simulated(args: &Run, made: SimulatedSession, device: Option<Device>) -> Result<()> {
    let SimulatedSession {
        source,
        mut plan,
        model,
        noise,
    } = made;
    let (channels, rate) = source.form();
    eprintln!(
        "trained on a minute of {channels} simulated {} in {:.1} s; {}",
        match source {
            SimulatedSource::Voltage(_) => "electrodes",
            #[cfg(feature = "lab")]
            SimulatedSource::Network(_) => "channels",
        },
        report::total_seconds(),
        match args.check {
            true => "listening for two seconds",
            false => "running; Ctrl-C ends",
        }
    );
    let delay = model.delay_steps().max(0) as u64;
    let rows = (model.step_seconds() * rate).round() as u64;
    let truth_of_row = source.truth(Part::Run);
    let (mut rigs, _device) = match source {
        #[cfg(feature = "lab")]
        SimulatedSource::Network(rig) => (vec![rig as Box<dyn Rig>], None),
        SimulatedSource::Voltage(simulation) => {
            let ready = device
                .map(|device| ReadyDevice::open(device, &simulation, &mut plan.source[0]))
                .transpose()?;
            let rigs = match &ready {
                Some(_) => open_rigs(&plan, &model)?,
                None => vec![Box::new(simulation.rig(Part::Run, Pace::RealTime)) as Box<dyn Rig>],
            };
            (
                rigs,
                ready.map(|ready| ready.start(&simulation)).transpose()?,
            )
        }
    };
    if args.check {
        if noise.is_some() {
            // The session is given the noise, and measures none.
            plan.voltage.noise.calibrate = Span::from_seconds(0.0);
        }
        return check_rigs(args, &plan, &model, &mut rigs);
    }
    let truth = move |end: u64| {
        let at = end.saturating_sub(1).checked_sub(delay * rows)?;
        Some(truth_of_row(at))
    };
    let names: Vec<String> = model.outputs().iter().map(|o| o.name.clone()).collect();
    let mut live = Live::with_rigs(plan, model, rigs)?;
    if let Some(noise) = noise {
        live.set_noise(noise);
    }
    run_live(
        args,
        live,
        Status::new(&names).with_truth(Box::new(truth), delay),
    )
}

/// Listens to the sources, the first of which makes the steps, and tells what the session will do.
fn check_rigs(args: &Run, plan: &Plan, model: &Decoder, rigs: &mut [Box<dyn Rig>]) -> Result<()> {
    let Some((first, others)) = rigs.split_first_mut() else {
        return Ok(());
    };
    let told = check_all(plan, model, first.as_mut(), others, LISTEN)?;
    report::tell(&told, args.json)
}

fn run_live(args: &Run, mut live: Live, mut status: Status) -> Result<()> {
    let started = Instant::now();
    let most = match args.seconds {
        None => Duration::MAX,
        Some(seconds) => {
            let most = Duration::try_from_secs_f64(seconds).map_err(|e| {
                Error::argument(format!("--seconds: expected seconds, got {seconds}: {e}"))
            })?;
            let passed = (args.kept).and_then(|passed| Duration::try_from_secs_f64(passed).ok());
            most.saturating_sub(passed.unwrap_or_default())
        }
    };
    let until = Until {
        steps: None,
        stop: &|| UntilInterrupted.cancelled() || started.elapsed() >= most,
    };
    if let Some(seconds) = args.require {
        let heard = Until {
            stop: &|| (until.stop)() || started.elapsed().as_secs_f64() >= seconds,
            ..until
        };
        if !live.wait(&heard)? && !(until.stop)() {
            return RunReport::new(&live, &status, started.elapsed()).check_source(live.plan());
        }
    }
    let page = match args.page.shown && live.wait(&until)? {
        true => Some(open_page(args, &mut live, &mut status)?),
        false => None,
    };
    let mut control = args.ctl.as_deref().map(Control::serve).transpose()?;
    let watchers = Watchers {
        page: page.as_ref(),
        control: control.as_mut(),
    };
    let decoded = decode(args, &mut live, &mut status, &until, started, watchers);
    // The report of a session that decoded is told however it ended.
    // No command stands, however it ended.
    let rested = live.rest_outputs(&mut |_| Ok(()));
    let recorded = decoded.and_then(|()| live.stop().map(drop)).and(rested);
    let history = page.as_ref().map(|page| page.monitor.history());
    let told = RunReport::new(&live, &status, started.elapsed()).with_history(history);
    if !told.has_decoded() {
        recorded?;
        report::tell(&told, args.json)?;
        return told.check_source(live.plan());
    }
    report::tell(&told, args.json)?;
    recorded?;
    if !told.crossed.is_empty() {
        report::cross_limit();
    }
    Ok(())
}

/// Whoever watches a session, or tells it what to do.
struct Watchers<'w> {
    page: Option<&'w LivePage>,
    control: Option<&'w mut Control>,
}

/// Decodes until it is to end. Once per second, prints a line and reports the state of the session to the page.
fn decode(
    args: &Run,
    live: &mut Live,
    status: &mut Status,
    until: &Until<'_>,
    started: Instant,
    mut watchers: Watchers<'_>,
) -> Result<()> {
    let page = watchers.page;
    let mut next = Instant::now() + EVERY;
    let mut recalibration = RecalibrationNews::default();
    loop {
        let look = match page.is_some() || watchers.control.is_some() {
            true => next.min(Instant::now() + LOOK),
            false => next,
        };
        let part = Until {
            stop: &|| (until.stop)() || Instant::now() >= look,
            ..*until
        };
        live.run(&part, &mut |step| {
            status.add(step);
            Ok(())
        })?;
        if let Some(note) = status.began_anew(live.folder()) {
            eprintln!("{note}");
        }
        let labels = status.take_labels();
        let labelled = !labels.is_empty();
        for (step, label) in labels {
            live.label(step, &label);
        }
        if labelled && live.plan().learn.mode != LearnMode::Off {
            // A simulated movement has no trials: what is labelled at once is one.
            live.trial(Trial::End);
        }
        if let (Some(page), Some(newest)) = (page, status.newest_step()) {
            shown::show(live, &page.monitor, newest, status.has_truth())?;
            page.decide(live);
            page.mark_restarts(live);
        }
        if let Some(control) = &mut watchers.control {
            control.carry_out(live);
            if control.stops {
                return Ok(());
            }
        }
        if (until.stop)() || Instant::now() < look {
            return Ok(());
        }
        if look < next {
            continue;
        }
        next += EVERY;
        let news = recalibration.take(live);
        if let Some(page) = page {
            page.monitor.status(&status::of(live));
            for text in &news {
                page.monitor.event("control", json!({"what": text}));
            }
        }
        if !args.json {
            news.iter().for_each(|text| eprintln!("{text}"));
            let mut line = status.line(&live.report(), started.elapsed());
            let r2 = live.label_r2();
            if !r2.is_empty() {
                line += &format!("  R² against labels {}", print::list(&r2, " "));
            }
            for source in live.sources() {
                if let Some(rate) = source.measured_rate {
                    line += &format!("  WRONG RATE: {} at {rate:.0} rows per second", source.name);
                }
            }
            eprintln!("{line}");
        }
    }
}

/// The page of a session. It ends with this.
struct LivePage {
    monitor: Monitor,
    /// Restarts of the device that are marked.
    restarts: Cell<u64>,
    decisions: Receiver<Decision>,
    _door: Option<Door>,
}

impl LivePage {
    /// Carries out what pages have decided since the last call, and tells them how that went.
    fn decide(&self, live: &mut Live) {
        for decision in self.decisions.try_iter() {
            let (what, done) = match decision {
                Decision::Accept => ("accept", live.accept()),
                Decision::RollBack => ("roll back", live.roll_back().map(|()| true)),
            };
            let text = match done {
                Ok(true) => "done".to_owned(),
                Ok(false) => "expected a model that waits, got none".to_owned(),
                Err(error) => error.message().to_owned(),
            };
            let event = json!({"what": what, "text": text});
            self.monitor.event("control", event);
        }
    }

    /// Marks the newest step if the device has started again since the last call.
    fn mark_restarts(&self, live: &mut Live) {
        let restarts = live.report().input.restarts;
        if restarts == self.restarts.replace(restarts) {
            return;
        }
        let text = "the device has started again";
        if let Some(at) = shown::newest_tick(live) {
            let mark = json!({"what": "mark", "text": text, "at": at});
            self.monitor.event("control", mark);
        }
    }
}

/// Serves the page.
fn open_page(args: &Run, live: &mut Live, status: &mut Status) -> Result<LivePage> {
    let mut source = Source::of(&live.plan().session.name, live.model());
    source.deadline = live.plan().outputs.deadline.map(Span::duration);
    let pipeline = live.pipeline_mut().ok_or_else(|| {
        Error::argument("--page: expected a session that hears its source, got none")
    })?;
    let (monitor, door) = args
        .page_options()?
        .open(source, pipeline.session_mut(), args.json)?;
    if let Some(folder) = live.folder() {
        // A history that cannot be read is no reason not to decode.
        if let Err(error) = monitor.keep_history(&folder.join(HISTORY)) {
            eprintln!(
                "the page begins without the session's history: {}",
                error.message()
            );
        }
    }
    let decisions = monitor.decisions()?;
    status.show_truth(monitor.truth());
    // From now on, notes are collected.
    live.take_notes_to_show();
    Ok(LivePage {
        monitor,
        restarts: Cell::new(live.report().input.restarts),
        decisions,
        _door: door,
    })
}
