//! `betz run --replay`: a recorded session again, compared bit by bit.

use std::path::Path;

use betz::{Error, Result};
use betz_live::{RelearnReport, Replay, ReplayReport};
use serde::Serialize;

use crate::report::{self, Outcome};

#[derive(Serialize)]
struct ReplayOutcome {
    #[serde(flatten)]
    replayed: ReplayReport,
    /// Speed as a multiple of real time.
    times_real_time: f64,
    equal: bool,
}

pub(super) fn run(folder: &Path, relearn: bool, as_json: bool) -> Result<()> {
    if folder.is_file() {
        return Err(Error::argument(format!(
            "--replay: expected the folder that a session recorded, got the file {0}; decode a recording in a file with `betz decode \
             MODEL {0}`",
            folder.display()
        )));
    }
    let begun = std::time::Instant::now();
    let mut replay = Replay::open(folder)?;
    if relearn {
        let named = |e: Error| e.at(folder.display());
        replay.relearn().map_err(named)?;
    }
    let replayed = replay.run(&mut |_| Ok(()))?;
    let told = ReplayOutcome {
        times_real_time: replayed.seconds / begun.elapsed().as_secs_f64().max(1e-9),
        equal: replayed.is_equal(),
        replayed,
    };
    report::tell(&told, as_json)?;
    let other = (told.replayed.relearned.as_ref()).map_or(0, |learned| learned.other);
    if told.replayed.different == 0 && other > 0 {
        return Err(Error::recording(format!(
            "{}: expected every model that the session was given from its trainer again, got {other} that it did not make; models \
             that a person or a recalibration gave are among them",
            folder.display()
        )));
    }
    if told.replayed.different == 0 {
        return Ok(());
    }
    Err(Error::recording(format!(
        "{}: expected the recorded outputs to come again, got {} of {} steps with others",
        folder.display(),
        told.replayed.different,
        told.replayed.compared
    )))
}

impl Outcome for ReplayOutcome {
    fn print(&self) -> Result<()> {
        let r = &self.replayed;
        report::line(&format!(
            "{} of {}, {:.0} times as fast as life; {} compared, {} different",
            report::count(r.input.steps, "step"),
            report::duration(r.seconds),
            self.times_real_time,
            r.compared,
            r.different
        ))?;
        if let Some(first) = &r.first {
            report::line(&format!(
                "first difference: step {}, recorded {:?}, replayed {:?}",
                first.step, first.recorded, first.replayed
            ))?;
        }
        if let Some(learned) = &r.relearned {
            print_relearned(learned)?;
        }
        if r.not_compared > 0 {
            report::line(&format!(
                "not compared: {} after the recording's first gap",
                report::count(r.not_compared, "step")
            ))?;
        }
        super::super::record::print_damage(&r.damage)
    }
}

fn print_relearned(learned: &RelearnReport) -> Result<()> {
    report::line(&format!(
        "learned again from {}, {} left out: {} accepted, {} refused, {} rolled back; {} of {} came again, bit by bit",
        report::count(learned.trials, "trial"),
        learned.dropped,
        learned.accepted,
        learned.refused,
        learned.rolled_back,
        learned.equal,
        report::count(learned.equal + learned.other, "swapped model"),
    ))?;
    match &learned.first_other {
        Some(other) => report::line(&format!(
            "first model that did not come again: {}, given at step {}",
            other.fingerprint, other.step
        )),
        None => Ok(()),
    }
}
