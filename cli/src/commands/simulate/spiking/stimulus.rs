//! `--stimulus`: currents from files and pipes.

use std::path::Path;

use betz::spiking::{CurrentTable, Engine, Interpolation};
use betz::team::Team;
use betz::{Error, Result};

use crate::commands::simulate::lab_args::SpikingArgs;

/// Lets the files of `--stimulus` drive their populations.
pub(super) fn drive(team: &dyn Team, engine: &mut Engine, asked: &SpikingArgs) -> Result<()> {
    let interpolation = match asked.interpolate {
        true => Interpolation::Linear,
        false => Interpolation::Hold,
    };
    for part in asked.stimulus.iter().flat_map(|list| list.split(',')) {
        refuse_pipe(team, part)?;
        let Some((name, file)) = part.split_once('=') else {
            return Err(Error::argument(format!(
                "--stimulus: expected POPULATION=FILE, got '{part}'"
            )));
        };
        let population = engine
            .network()
            .population(name)
            .map_err(|e| e.at("--stimulus"))?;
        if engine.network().populations[population].tuning.is_some() {
            return Err(Error::argument(format!(
                "--stimulus: expected a population without \"tuning\", got {name:?}, which --movement drives"
            )));
        }
        let step_ms = engine.network().step_ms;
        let table = match file {
            "-" => {
                let input = std::io::BufReader::new(std::io::stdin());
                CurrentTable::read(input, "standard input", step_ms, interpolation)
            }
            file => CurrentTable::open(Path::new(file), step_ms, interpolation)?,
        };
        engine
            .drive(population, Box::new(table))
            .map_err(|e| e.at("--stimulus"))?;
    }
    Ok(())
}

/// Refuses a pipe where several ranks would read it.
fn refuse_pipe(team: &dyn Team, part: &str) -> Result<()> {
    let Some((_, file)) = part.split_once('=') else {
        return Ok(());
    };
    let is_file = || std::fs::metadata(file).map_or(true, |m| m.is_file());
    if team.size() > 1 && (file == "-" || !is_file()) {
        return Err(Error::argument(format!(
            "--stimulus: expected a file that every rank can read, got '{file}', which only one process could read"
        )));
    }
    Ok(())
}
