//! `betz run --replay`: a recorded session again, compared bit by bit.

use std::path::Path;

use betz::{Error, Result};
use betz_live::{Replay, ReplayReport};
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

pub(super) fn run(folder: &Path, as_json: bool) -> Result<()> {
    let begun = std::time::Instant::now();
    let replayed = Replay::open(folder)?.run(&mut |_| Ok(()))?;
    let told = ReplayOutcome {
        times_real_time: replayed.seconds / begun.elapsed().as_secs_f64().max(1e-9),
        equal: replayed.is_equal(),
        replayed,
    };
    report::tell(&told, as_json)?;
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
        if r.not_compared > 0 {
            report::line(&format!(
                "not compared: {} after the recording's first gap",
                report::count(r.not_compared, "step")
            ))?;
        }
        super::super::record::print_damage(&r.damage)
    }
}
