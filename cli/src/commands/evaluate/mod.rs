//! `betz evaluate`: score a model on a recording by batch decoding.

pub(crate) mod args;
mod classes;
mod long;
mod picture;
mod posterior;

use betz::device::Device;
use betz::model::{self, Decoder, blanking_warning};
use betz::recording::{AlignReport, Dataset};
use betz::train::ClassScores;
use betz::train::score::{PlaceError, place_error, score_estimates_on, while_moving};
use betz::train::trials::{ChanceLevel, ChannelLoss, TrialPairs, TrialScore, channel_importance};
use betz::{Error, Result};
use serde::Serialize;

use crate::clusterless;
use crate::data;
use crate::decoded::{self as decoded_file, Outputs};
use crate::device;
use crate::files::{Files, Kind};
use crate::rates::Rates;
use crate::report::{self, Bar, Outcome, Scores, Table};
use args::Evaluate;
use posterior::Posterior;

/// Channels that the table of importance shows.
const SHOWN: usize = 10;
/// Most shifts of `--chance`.
const MOST_SHIFTS: u32 = 100_000;

#[derive(Serialize)]
struct EvaluationReport {
    #[serde(flatten)]
    scores: Scores,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    more: Vec<More>,
    /// Scores of the classes of a gated model.
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<ClassScores>,
    /// Of a decoder of place: how its posterior fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    posterior: Option<Posterior>,
    /// Scores of the variances that the model estimates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variances: Vec<VarianceRow>,
    /// Rates of channels here and where the model was trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    rates_hz: Option<Rates>,
    /// Report on the behaviour that was left out or interpolated.
    aligned: AlignReport,
    /// Doubts about the scores, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip)]
    place: Option<PlaceError>,
}

/// Further scores of one output.
#[derive(Serialize)]
struct More {
    name: String,
    correlation: f64,
    /// Bounds of R² in 95 of 100 draws of as many trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    r2_interval: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trials: Vec<TrialScore>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chance: Option<ChanceLevel>,
    /// Most important channel first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    importance: Vec<ChannelLoss>,
}

/// [`betz::train::VarianceScore`].
#[derive(Serialize)]
struct VarianceRow {
    name: String,
    within_90: f64,
    negative_log_likelihood: f64,
    of_one_variance: f64,
    correlation: f64,
}

fn variances(model: &Decoder, dataset: &Dataset) -> Result<Vec<VarianceRow>> {
    let scores = betz::train::variance_scores(model, dataset)?.unwrap_or_default();
    let row = |score: betz::train::VarianceScore| VarianceRow {
        name: score.name,
        within_90: score.within_90,
        negative_log_likelihood: score.negative_log_likelihood,
        of_one_variance: score.of_one_variance,
        correlation: score.correlation,
    };
    Ok(scores.into_iter().map(row).collect())
}

pub(crate) fn run(args: &Evaluate) -> Result<()> {
    let mut files = Files::new(&args.common)
        .reads("MODEL", &args.model)
        .reads("RECORDING", &args.recording);
    let out = args.out.as_deref();
    if let Some(out) = out {
        files.writes("--out", out, decoded_file::kind(out)?)?;
    }
    files.may_write("--picture", args.picture.as_deref(), Kind::Picture)?;
    if let Some(shifts) = args.chance
        && !(1..=MOST_SHIFTS).contains(&shifts)
    {
        return Err(Error::argument(format!(
            "--chance: expected 1 to {MOST_SHIFTS} shifts, got {shifts}"
        )));
    }
    if clusterless::is_one(&args.model) {
        return clusterless::evaluate(args);
    }
    let device = device::open(&args.common.device)?;
    let model = Decoder::load(&args.model)?;
    #[cfg(feature = "rig")]
    decoded_file::check(out, &args.recording)?;
    if let Some(memory) = args.memory {
        if let Some(path) = out.filter(|path| !decoded_file::is_table(path)) {
            return Err(Error::argument(format!(
                "--out {}: expected .csv with --memory, which never has the whole recording",
                path.display()
            )));
        }
        return long::run(args, &model, memory);
    }
    let (dataset, aligned) = data::dataset_for(&model, &args.recording, &args.part)?;
    if dataset.outputs.is_empty() {
        return Err(Error::recording(format!(
            "{}: expected behaviour to score against, got none",
            args.recording.display()
        )));
    }
    let classes = classes::scores(&model, &dataset, args.labels.as_deref())?;
    let mut warnings = report::warn_of_scores(&model, &dataset)?;
    if let Some(warning) = blanking_warning(&model, &dataset) {
        eprintln!("warning: {warning}");
        warnings.push(warning);
    }
    if let Some(warning) = classes.as_ref().and_then(ClassScores::event_warning) {
        eprintln!("warning: {warning}");
        warnings.push(warning);
    }
    if let ("classes", Some(classes)) = (model.kind(), &classes) {
        return classes::tell(classes.clone(), &dataset, warnings, args.common.json);
    }
    let dataset = dataset.with_outputs(model.outputs())?;
    let evaluated = EvaluationReport {
        classes,
        aligned,
        warnings,
        ..scored(args, &device, &model, &dataset)?
    };
    if let Some(rates) = &evaluated.rates_hz {
        rates.warn();
    }
    report::tell(&evaluated, args.common.json)
}

/// Decodes `dataset` by `model`, writes what is asked for, and scores it.
fn scored(
    args: &Evaluate,
    device: &Device,
    model: &Decoder,
    dataset: &Dataset,
) -> Result<EvaluationReport> {
    let values = dataset.steps as u128 * model.outputs().len() as u128;
    betz::memory::plan("the decoded outputs", values * 4)?;
    let mut decoded = model::decode_on(device, model, dataset)?;
    if let Some(path) = &args.out {
        let outputs = Outputs {
            out: path,
            recording: &args.recording,
            behavior: &args.part.behavior,
            model: &args.model,
            segments: false,
        };
        outputs.write(model.into(), dataset, &decoded.estimates)?;
    }
    let delay = model.delay_steps();
    if let Some(least) = args.moving {
        decoded.estimates =
            while_moving(dataset, decoded.estimates, delay, least).map_err(|e| e.at("--moving"))?;
    }
    let evaluation = score_estimates_on(device, dataset, &decoded.estimates, delay)?;
    let place = place_error(dataset, &decoded.estimates, delay)?;
    let posterior = posterior::of(model, dataset, args.moving)?;
    let mut more = Vec::new();
    if args.trials || args.chance.is_some() || args.importance || args.picture.is_some() {
        let pairs: Vec<TrialPairs> = (0..model.outputs().len())
            .map(|o| TrialPairs::new(dataset, &decoded.estimates, delay, o))
            .collect::<Result<_>>()?;
        if let Some(path) = &args.picture {
            let title = format!("{} on {}", args.model.display(), args.recording.display());
            picture::draw(&title, &evaluation.outputs, &pairs, path)?;
        }
        more = details(args, device, model, dataset, &pairs)?;
    }
    let ran = decoded.ran;
    device::note_fallback(&ran, "evaluation");
    Ok(EvaluationReport {
        scores: Scores {
            outputs: evaluation.outputs,
            median_error: place.as_ref().map(|place| place.median),
            steps: match (&place, args.moving) {
                (Some(place), Some(_)) => place.steps as usize,
                _ => dataset.steps_in_segments(),
            },
            segments: dataset.segments.len(),
            device: ran.device,
            total_seconds: report::total_seconds(),
        },
        more,
        classes: None,
        posterior,
        variances: variances(model, dataset)?,
        rates_hz: Rates::of(model, dataset),
        aligned: AlignReport::default(),
        warnings: Vec::new(),
        place,
    })
}

impl Outcome for EvaluationReport {
    fn print(&self) -> Result<()> {
        self.scores.print()?;
        if let Some(place) = &self.place {
            let median = format!(
                "median distance from ({}): {:.4} {}",
                place.outputs.join(", "),
                place.median,
                place.unit
            );
            report::line(median.trim_end())?;
        }
        if let Some(posterior) = &self.posterior {
            posterior.print()?;
        }
        if let Some(classes) = &self.classes {
            report::line("")?;
            crate::labels::print(classes)?;
        }
        print_more(&self.more)?;
        print_variances(&self.variances)
    }
}

/// Scores of the variances that the model estimates.
fn print_variances(scores: &[VarianceRow]) -> Result<()> {
    if scores.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        "variance of",
        "truth within 90 %",
        "-ln p",
        "with one variance",
        "correlation with errors",
    ]);
    for score in scores {
        table.row([
            score.name.clone(),
            format!("{:.1} %", 100.0 * score.within_90),
            format!("{:.3}", score.negative_log_likelihood),
            format!("{:.3}", score.of_one_variance),
            format!("{:.3}", score.correlation),
        ]);
    }
    report::line("")?;
    table.print()
}

fn details(
    args: &Evaluate,
    device: &Device,
    model: &Decoder,
    dataset: &Dataset,
    pairs: &[TrialPairs],
) -> Result<Vec<More>> {
    let mut lost: Vec<Vec<ChannelLoss>> = pairs.iter().map(|_| Vec::new()).collect();
    if args.importance {
        lost = channel_importance(device, model, dataset, pairs, &Bar::new())?;
    }
    let mut chances: Vec<Option<ChanceLevel>> = pairs.iter().map(|_| None).collect();
    if let Some(shifts) = args.chance {
        use betz::Progress;
        let bar = Bar::new();
        for (output, (chance, pairs)) in chances.iter_mut().zip(pairs).enumerate() {
            let said = format!("chance of `{}`", model.outputs()[output].name);
            *chance = Some(pairs.chance(shifts, args.seed, &|done| {
                bar.update(&said, u64::from(done), u64::from(shifts));
            }));
        }
    }
    let more = pairs.iter().zip(model.outputs()).zip(lost).zip(chances);
    Ok(more
        .map(|(((pairs, output), importance), chance)| More {
            name: output.name.clone(),
            correlation: pairs.correlation(),
            r2_interval: if args.trials {
                pairs.r2_interval(args.seed)
            } else {
                None
            },
            trials: if args.trials {
                pairs.scores()
            } else {
                Vec::new()
            },
            chance,
            importance,
        })
        .collect())
}

fn print_more(more: &[More]) -> Result<()> {
    let (trials, chance) = (
        more.iter().any(|m| !m.trials.is_empty()),
        more.iter().any(|m| m.chance.is_some()),
    );
    let importance = more.iter().any(|m| !m.importance.is_empty());
    if !(trials || chance || importance) {
        return Ok(());
    }
    let mut header = vec!["output", "correlation"];
    if trials {
        header.push("R², 95 of 100 draws of trials");
    }
    if chance {
        header.extend(["chance R²", "95 of 100 below", "correlation"]);
    }
    let mut table = Table::new(&header);
    for m in more {
        let mut cells = vec![m.name.clone(), format!("{:.4}", m.correlation)];
        if trials {
            cells.push(match m.r2_interval {
                Some([low, high]) => format!("{low:.4} to {high:.4}"),
                None => "fewer than 3 trials".to_owned(),
            });
        }
        if let Some(c) = &m.chance {
            cells.extend([c.r2_mean, c.r2_95, c.correlation_95].map(|v| format!("{v:.4}")));
        }
        table.row(cells);
    }
    report::line("")?;
    table.print()?;
    for m in more.iter().filter(|m| !m.importance.is_empty()) {
        report::line("")?;
        let mut table = Table::new(&[&format!("channel, for {}", m.name), "R² lost without it"]);
        for lost in m.importance.iter().take(SHOWN) {
            table.row([lost.channel.clone(), format!("{:.4}", lost.r2_lost)]);
        }
        table.print()?;
    }
    Ok(())
}
