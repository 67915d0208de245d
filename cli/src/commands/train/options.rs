//! The training and the groups of units that `betz train` is asked for.

use std::path::Path;

use betz::device::Precision;
use betz::psc::FilterBank;
use betz::recording::Recording;
use betz::recording::multiunit::random_groups;
use betz::train::{Delay, GramPath, KindOptions, MaskPolicy, RidgeChoice, Solver, Training};
use betz::{Error, Result};

use super::args::{DecoderKind, Gram, SolverName, Train};
use crate::bank::{delay_steps, low_pass, refuse_ahead};
use crate::parse::positive_seconds;
use clap::ValueEnum;

/// Longest delay that `--delay auto` tries, in both directions, unless it names another.
const LONGEST_DELAY_SECONDS: f64 = 0.5;

/// Longest delay in seconds that `auto` or `auto:TIME` tries; `None` for a delay that is given.
pub(super) fn longest_delay(text: &str) -> Result<Option<f64>> {
    let Some(rest) = text.strip_prefix("auto") else {
        return Ok(None);
    };
    let time = match rest.strip_prefix(':') {
        None if rest.is_empty() => return Ok(Some(LONGEST_DELAY_SECONDS)),
        None => Err(String::new()),
        Some(time) => positive_seconds(time),
    };
    time.map(Some).map_err(|_| {
        Error::argument(format!(
            "--delay: expected auto, or auto:TIME with a time above 0 s such as auto:5s, got '{text}'"
        ))
    })
}

/// The name of `kind` on the command line.
pub(super) fn name(kind: DecoderKind) -> String {
    kind.to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The kinds that `--decoder` asks for.
fn kinds(args: &Train) -> Result<KindOptions> {
    use DecoderKind::{Auto, Best, Classes, Experts, Lift, Linear, Place, Recurrent};
    let layers = args.layers.as_ref().map(Vec::len);
    let weights = args.weights.map(|_| 1);
    let budget = args.budget.map(|_| 1);
    let sizes: [(&str, Option<usize>, &[DecoderKind]); 10] = [
        (
            "--latents",
            args.latents,
            &[Lift, Experts, Classes, Auto, Best],
        ),
        (
            "--lift-units",
            args.lift_units,
            &[Lift, Classes, Auto, Best],
        ),
        ("--experts", args.experts, &[Experts, Auto, Best]),
        ("--cells", args.cells, &[Place]),
        ("--layers", layers, &[Recurrent, Auto, Best]),
        ("--members", args.members, &[Recurrent, Auto, Best]),
        ("--mixed", args.mixed, &[Recurrent, Auto, Best]),
        ("--epochs", args.epochs, &[Recurrent, Auto, Best]),
        ("--weights", weights, &[Recurrent, Auto, Best]),
        ("--budget", budget, &[Auto]),
    ];
    for (option, given, kinds) in sizes {
        // Classes may stand behind another decoder, as its gate.
        let of_classes = args.labels.is_some() && kinds.contains(&Classes);
        if given.is_some() && !kinds.contains(&args.decoder) && !of_classes {
            let kinds: Vec<String> = kinds.iter().copied().map(name).collect();
            return Err(Error::argument(format!(
                "{option}: expected --decoder {}, got {}",
                kinds.join(" or "),
                name(args.decoder)
            )));
        }
    }
    let kinds = match args.decoder {
        Linear if args.labels.is_none() => return Ok(KindOptions::linear()),
        other => match other.kind() {
            Some(kind) => KindOptions::among(&[kind]),
            None if matches!(other, Best) => KindOptions::best(),
            None => KindOptions::auto(),
        },
    };
    if args.folds == 0 && args.decoder != Recurrent {
        return Err(Error::argument(format!(
            "--decoder {}: expected --folds of at least 2 to choose by, got 0; linear and recurrent do without",
            name(args.decoder)
        )));
    }
    Ok(KindOptions {
        latents: args.latents,
        units: args.lift_units,
        experts: args.experts,
        cells: args.cells,
        layers: args.layers.clone(),
        members: args.members,
        mixed: args.mixed,
        epochs: args.epochs,
        weights: args.weights.map(Into::into),
        budget_seconds: args.budget,
        seed: args.seed,
        ..kinds
    })
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

/// Refuses filters that look ahead where a session would decode.
fn check_ahead(args: &Train, bank: &FilterBank) -> Result<()> {
    if args.decoder != DecoderKind::Linear || args.labels.is_some() {
        return refuse_ahead(
            bank,
            "--decoder linear, because other decoders work step by step",
        );
    }
    if args.memory.is_some() {
        return refuse_ahead(bank, "training without --memory, which reads step by step");
    }
    if args.variance {
        return refuse_ahead(
            bank,
            "training without --variance, which decodes step by step",
        );
    }
    Ok(())
}

/// The bank that the options name, on steps of `step_seconds`.
pub(super) fn bank(args: &Train, step_seconds: f64) -> Result<Option<FilterBank>> {
    // A recurrent decoder hears the counts of a bin.
    if args.decoder == DecoderKind::Recurrent && args.folds == 0 {
        return Ok(None);
    }
    let bank = args.filter.chosen(&args.bank, args.folds, step_seconds)?;
    bank.as_ref()
        .map_or(Ok(()), |bank| check_ahead(args, bank))?;
    Ok(bank)
}

/// The training that the options ask for, on a clock of `step_seconds`.
pub(super) fn training(args: &Train, step_seconds: f64) -> Result<Training> {
    let bank = bank(args, step_seconds)?;
    Ok(Training {
        bank,
        low_pass: args.low_pass.as_deref().map(low_pass).transpose()?,
        delay: match longest_delay(&args.delay)? {
            Some(within_seconds) => Delay::Estimated { within_seconds },
            None => Delay::Steps(delay_steps(&args.delay, step_seconds)?),
        },
        ridge: match (args.ridge, args.noise) {
            (Some(ridge), _) => Some(RidgeChoice::Fixed(ridge)),
            (None, noise) => noise.map(RidgeChoice::RelativeNoise),
        },
        gram: match args.gram {
            Gram::Auto => GramPath::Auto,
            Gram::Dense => GramPath::Dense,
            Gram::Event => GramPath::Event,
        },
        precision: match args.tf32 {
            true => Precision::Tf32,
            false => Precision::F32,
        },
        solver: match args.solver {
            SolverName::Cholesky => Solver::Cholesky,
            SolverName::Inverse => Solver::Inverse,
        },
        mask: match args.refuse_dead {
            true => MaskPolicy::Refuse,
            false => MaskPolicy::Mask,
        },
        retain: args
            .retain
            .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        folds: args.folds as usize,
        kinds: kinds(args)?,
        // Silent channels cost nothing; who wants them refused has them named by the solver.
        leave_out_silent: !args.refuse_dead,
        keep_artefacts: args.keep_artefacts,
        variance: args.variance,
    })
}
