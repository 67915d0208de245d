//! `betz reproduce`: the experiments of the papers that Betz builds on, made again on one page.
//!
//! A [`Study`] lists the experiments as data: the place in the paper, the sizes and the paper's values. Its module runs
//! them and answers every value: reproduced, different for a reason, or not to be had for a reason.

pub(crate) mod args;
mod decoding;
mod figure;
mod machine;
mod mining;
mod networks;
pub(crate) mod page;
mod som;
mod spiking;
mod study;

use std::io::Write;
use std::time::Instant;

use betz::device::{Device, DeviceSpec};
use betz::file::write_atomically;
use betz::progress::{self, Progress, Quiet};
use betz::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::files::{Files, Kind};
use crate::report::{self, Bar, Outcome, Table};
use args::{Reproduce, Subject};
use machine::Machine;
use study::{Findings, Study, Verdict};

/// Sizes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// The papers' sizes.
    Full,
    /// At most a minute on two cores.
    Quick,
    /// For tests of the command.
    Tiny,
}

impl Size {
    const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
            Self::Tiny => "tiny",
        }
    }
}

/// The setting of a run: its size, its devices and its listener.
pub(crate) struct Lab<'a> {
    size: Size,
    /// A CUDA device, or the reason why there is none, as an answer says it.
    cuda: std::result::Result<Device, &'static str>,
    /// The driver's message if a device could not be opened; else empty.
    missing: String,
    progress: &'a dyn Progress,
}

impl<'a> Lab<'a> {
    /// # Errors
    /// [`DeviceUnavailable`](ErrorKind::DeviceUnavailable) if `device` names a CUDA device that does not work.
    fn new(size: Size, device: &str, progress: &'a dyn Progress) -> Result<Self> {
        let mut missing = String::new();
        let cuda = match device.parse::<DeviceSpec>()? {
            DeviceSpec::Cpu => Err("no CUDA device was asked for (--device cpu)"),
            DeviceSpec::Auto => Device::cuda(0).map_err(|e| {
                missing = format!(": {}", e.message());
                "this run has no CUDA device"
            }),
            named => Ok(Device::open(named)?.first()),
        };
        Ok(Self {
            size,
            cuda,
            missing,
            progress,
        })
    }

    /// The CUDA device, or the reason why there is none.
    fn device(&self) -> std::result::Result<&Device, &str> {
        self.cuda.as_ref().map_err(|reason| *reason)
    }

    /// The value for this size.
    fn pick<T>(&self, full: T, quick: T, tiny: T) -> T {
        match self.size {
            Size::Full => full,
            Size::Quick => quick,
            Size::Tiny => tiny,
        }
    }

    /// Says that `done` of `total` parts of an experiment are done, and ends an interrupted run.
    fn part(&self, experiment: &str, done: usize, total: usize) -> Result<()> {
        self.progress.update(experiment, done as u64, total as u64);
        progress::check(self.progress, "reproducing")
    }

    /// A listener for parts, which only passes on a request to stop.
    fn quiet(&self) -> Quiet<'_> {
        Quiet(self.progress)
    }
}

/// The result of `work`, and the least seconds of up to `runs` runs; no further run begins after half a second.
fn least_seconds<T>(runs: usize, mut work: impl FnMut() -> Result<T>) -> Result<(T, f64)> {
    let begun = Instant::now();
    let (mut done, mut least) = timed(&mut work)?;
    for _ in 1..runs {
        if begun.elapsed().as_secs_f64() > 0.5 {
            break;
        }
        let (again, seconds) = timed(&mut work)?;
        done = again;
        least = least.min(seconds);
    }
    Ok((done, least))
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let begun = Instant::now();
    let done = work()?;
    Ok((done, begun.elapsed().as_secs_f64()))
}

/// Runs the experiments of a study.
type Runner = fn(&Lab<'_>) -> Result<Vec<Findings>>;

/// The study of a subject, and its runner.
fn study(subject: Subject) -> (&'static Study, Runner) {
    match subject {
        Subject::Mining => (&mining::list::STUDY, mining::run),
        Subject::Networks => (&networks::list::STUDY, networks::run),
        Subject::Som => (&som::STUDY, som::run),
        Subject::Spiking => (&spiking::list::STUDY, spiking::run),
        Subject::Decoding => (&decoding::list::STUDY, decoding::run),
    }
}

/// Report of `betz reproduce`.
#[derive(Serialize)]
struct Reproduction {
    papers: &'static str,
    size: &'static str,
    out: String,
    machine: Machine,
    seconds: f64,
    reproduced: usize,
    differ: usize,
    unavailable: usize,
    points: Vec<PointReport>,
}

/// A point with its answer.
#[derive(Serialize)]
struct PointReport {
    place: &'static str,
    subject: &'static str,
    paper: &'static str,
    here: String,
    verdict: Verdict,
}

pub(crate) fn run(args: &Reproduce) -> Result<()> {
    Files::new(&args.common).writes("--out", &args.out, Kind::Page)?;
    let size = match (args.quick, args.tiny) {
        (_, true) => Size::Tiny,
        (true, _) => Size::Quick,
        _ => Size::Full,
    };
    report::stop_on_interrupt();
    let bar = Bar::new();
    let lab = Lab::new(size, &args.common.device, &bar)?;
    let machine = Machine::new(&lab);
    let (study, experiments) = study(args.subject);
    let findings = experiments(&lab)?;
    check(study, &findings)?;
    let seconds = bar.seconds();
    let html = page::write(study, &findings, &machine, size.name(), seconds)?;
    progress::check(&bar, "reproducing")?;
    drop(lab);
    drop(bar);
    write_atomically(&args.out, |file| file.write_all(html.as_bytes()))?;
    let [reproduced, differ, unavailable] = page::counts(&findings);
    let told = Reproduction {
        papers: study.name,
        size: size.name(),
        out: args.out.display().to_string(),
        machine,
        seconds,
        reproduced,
        differ,
        unavailable,
        points: points(study, findings),
    };
    report::tell(&told, args.common.json)
}

/// Every experiment has findings, and every point an answer.
fn check(study: &Study, findings: &[Findings]) -> Result<()> {
    let wrong = |what: &str| Error::new(ErrorKind::Internal, format!("{}: {what}", study.name));
    if study.experiments.len() != findings.len() {
        return Err(wrong("expected findings of every experiment"));
    }
    for (experiment, found) in study.experiments.iter().zip(findings) {
        let (points, answers) = (experiment.points.len(), found.answers.len());
        if points != answers {
            return Err(wrong(&format!(
                "{}: expected {points} answers, got {answers}",
                experiment.place
            )));
        }
    }
    Ok(())
}

fn points(study: &'static Study, findings: Vec<Findings>) -> Vec<PointReport> {
    let pairs = study.experiments.iter().zip(findings);
    let answered = pairs.flat_map(|(experiment, found)| {
        let pairs = experiment.points.iter().zip(found.answers);
        pairs.map(|(point, answer)| PointReport {
            place: experiment.place,
            subject: point.subject,
            paper: point.paper,
            here: answer.here,
            verdict: answer.verdict,
        })
    });
    answered.collect()
}

impl Outcome for Reproduction {
    fn print(&self) -> Result<()> {
        let mut table = Table::new(&["place", "number or statement", "paper", "here", "outcome"]);
        for point in &self.points {
            table.row([
                point.place.to_owned(),
                point.subject.to_owned(),
                point.paper.to_owned(),
                point.here.clone(),
                match point.verdict {
                    Verdict::Reproduced => "reproduced",
                    Verdict::Differs(_) => "differs",
                    Verdict::Unavailable(_) => "cannot be had",
                }
                .to_owned(),
            ]);
        }
        table.print()?;
        report::line(&format!(
            "{}: {} reproduced, {} differ, {} cannot be had; the page gives the reasons ({} sizes, {:.1} s)",
            self.out, self.reproduced, self.differ, self.unavailable, self.size, self.seconds
        ))
    }
}
