//! The decoder kinds, training options and groups of units that `betz train` is asked for.

use std::path::Path;

use betz::device::Precision;
use betz::recording::multiunit::random_groups;
use betz::recording::{Dataset, Recording};
use betz::train::{
    self, GramPath, KindOptions, MaskPolicy, PRESETS, RidgeChoice, Search, Solver, TrainOptions,
};
use betz::{Error, Result};

use super::args::{DecoderKind, Gram, SolverName, Train};
use crate::bank;
use crate::report::Bar;

/// Longest delay that `--delay auto` tries, in both directions.
const LONGEST_DELAY_SECONDS: f64 = 0.5;

/// The kinds that `--decoder` asks for, unless that is only the linear one.
pub(super) fn kinds(args: &Train) -> Result<Option<KindOptions>> {
    let latents = ("--latents", args.latents);
    let units = ("--lift-units", args.lift_units);
    let experts = ("--experts", args.experts);
    let cells = ("--cells", args.cells);
    let refuse = |decoder: &str, options: &[(&str, Option<usize>)]| {
        let given = options
            .iter()
            .find_map(|(name, given)| Some((name, (*given)?)));
        given.map_or(Ok(()), |(name, given)| {
            Err(Error::argument(format!(
                "{name}: expected a --decoder that has such, which {decoder} does not, got {given}"
            )))
        })
    };
    let kinds = match args.decoder {
        DecoderKind::Linear => {
            refuse("linear", &[latents, units, experts, cells])?;
            return Ok(None);
        }
        DecoderKind::Lift => {
            refuse("lift", &[experts, cells])?;
            KindOptions::among(&[train::Kind::Lift])
        }
        DecoderKind::Experts => {
            refuse("experts", &[units, cells])?;
            KindOptions::among(&[train::Kind::Experts])
        }
        DecoderKind::Kalman => {
            refuse("kalman", &[latents, units, experts, cells])?;
            KindOptions::among(&[train::Kind::Kalman])
        }
        DecoderKind::Refit => {
            refuse("refit", &[latents, units, experts, cells])?;
            KindOptions::among(&[train::Kind::Refit])
        }
        DecoderKind::Place => {
            refuse("place", &[latents, units, experts])?;
            KindOptions::among(&[train::Kind::Place])
        }
        DecoderKind::Auto => {
            refuse("auto", &[cells])?;
            KindOptions::auto()
        }
    };
    if args.folds == 0 {
        return Err(Error::argument(
            "--decoder: expected --folds of at least 2 to choose by, got 0",
        ));
    }
    Ok(Some(KindOptions {
        latents: args.latents,
        units: args.lift_units,
        experts: args.experts,
        cells: args.cells,
        seed: args.seed,
        ..kinds
    }))
}

/// Combines units as `--units` or `--groups` ask.
pub(super) fn multi_unit(recording: Recording, args: &Train) -> Result<Recording> {
    match groups(&recording, args)? {
        Some(groups) => recording.combine(&groups),
        None => Ok(recording),
    }
}

/// The units of each channel, where several are to be combined.
pub(super) fn groups(recording: &Recording, args: &Train) -> Result<Option<Vec<Vec<u32>>>> {
    match (&args.groups, args.units) {
        (Some(path), _) => read_groups(path, recording).map(Some),
        (None, Some(units)) if !(1..=recording.channels()).contains(&units) => {
            Err(Error::argument(format!(
                "--units: expected 1 to {} (the recording's channels), got {units}",
                recording.channels()
            )))
        }
        (None, Some(units)) if units > 1 => {
            Ok(Some(random_groups(recording.channels(), units, args.seed)))
        }
        _ => Ok(None),
    }
}

/// One multi-unit channel a line; channels by name or number.
fn read_groups(path: &Path, recording: &Recording) -> Result<Vec<Vec<u32>>> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, &e))?;
    let mut groups = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let units: Result<Vec<u32>> = line
            .split_whitespace()
            .map(|unit| {
                let by_name = recording.channel_names.iter().position(|name| name == unit);
                by_name
                    .map(|i| i as u32)
                    .or_else(|| unit.parse().ok())
                    .ok_or_else(|| {
                        Error::argument(format!(
                            "{}, line {}: expected channel names or numbers, got '{unit}'",
                            path.display(),
                            number + 1
                        ))
                    })
            })
            .collect();
        let units = units?;
        if !units.is_empty() {
            groups.push(units);
        }
    }
    Ok(groups)
}

/// Training options, and the search over those that are left to cross-validation.
pub(super) fn choices(
    args: &Train,
    dataset: &Dataset,
    bar: &Bar,
) -> Result<(TrainOptions, Search)> {
    let fixed_bank = bank::chosen(&args.bank, &args.filters, args.folds)?;
    let auto_bank = fixed_bank.is_none();
    let mut search = if auto_bank {
        Search::presets(dataset)?
    } else {
        Search::ridge()
    };
    search.folds = args.folds as usize;
    let bank = match fixed_bank {
        Some(bank) => bank,
        None => match search.banks.first() {
            Some(bank) => bank.clone(),
            None => PRESETS[0].bank()?,
        },
    };
    let mut options = TrainOptions::new(bank);
    options.low_pass = args.low_pass.as_deref().map(bank::low_pass).transpose()?;
    options.gram = match args.gram {
        Gram::Auto => GramPath::Auto,
        Gram::Dense => GramPath::Dense,
        Gram::Event => GramPath::Event,
    };
    if args.tf32 {
        options.precision = Precision::Tf32;
    }
    options.solver = match args.solver {
        SolverName::Cholesky => Solver::Cholesky,
        SolverName::Inverse => Solver::Inverse,
    };
    options.mask = if args.refuse_dead {
        MaskPolicy::Refuse
    } else {
        MaskPolicy::Mask
    };
    match (args.ridge, args.noise) {
        (Some(ridge), _) => options.ridge = RidgeChoice::Fixed(ridge),
        (None, Some(fraction)) => options.ridge = RidgeChoice::RelativeNoise(fraction),
        (None, None) => {}
    }
    options.retain = args
        .retain
        .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    search.ridge = args.ridge.is_none() && args.noise.is_none();
    options.delay_steps = match args.delay.as_str() {
        "auto" => {
            let most = (LONGEST_DELAY_SECONDS / dataset.step_seconds).round() as usize;
            let (bank, low_pass) = (&options.bank, options.low_pass);
            train::estimate_delay(dataset, bank, low_pass, most, bar)?.delay_steps
        }
        text => bank::delay_steps(text, dataset.step_seconds)?,
    };
    Ok((options, search))
}
