//! The decoder of place in cross-validation: which smoothing, walk and trust, and how it does.

use super::fields::Fields;
use super::{Config, axes};
use crate::folds::Part;
use crate::options::TrainOptions;
use crate::validate::BankChoice;
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};
use betz_gram::gram::paired_steps;
use betz_recording::DatasetView;
use betz_runtime::model::{Belief, Place};
use betz_runtime::psc::{Filter, FilterBank};
use rayon::prelude::*;

/// Cells along the longest axis.
const ACROSS: usize = 28;

/// Values that cross-validation tries.
const SMOOTHINGS: [f64; 3] = [0.7, 1.2, 2.0];
const PACES: [f64; 3] = [0.7, 1.5, 3.0];
const JUMPS_HZ: [f64; 2] = [0.01, 0.1];
const TRUSTS: [f64; 2] = [0.5, 1.0];

/// Folds that all configurations go through. The best third of them goes through the others.
const FIRST_FOLDS: usize = 2;
const OF_AHEAD: usize = 3;

/// A τ of so many parts of a step leaves of an order-0 filter the bin itself.
const PARTS: f64 = 40.0;

/// Log-likelihoods of steps from their spikes.
struct Engine<'a> {
    data: DatasetView<'a>,
    weights: Vec<f64>,
    intercept: Vec<f64>,
}

impl Engine<'_> {
    /// Runs `belief` from rest over `part`, from its history on, and hands out each of its steps with the mean
    /// of the outputs.
    fn run(&self, belief: &mut Belief, part: &Part, mut each: impl FnMut(i64, &[f64])) {
        let (spikes, cells) = (self.data.spikes, self.intercept.len());
        belief.reset();
        let mut of_part = spikes.range(part.from, part.segment.stop).peekable();
        let mut sum = vec![0.0; cells];
        for step in part.from..part.segment.stop {
            sum.copy_from_slice(&self.intercept);
            while let Some(i) = of_part.next_if(|&i| spikes.ticks[i] == step) {
                let row = &self.weights[spikes.channels[i] as usize * cells..][..cells];
                let count = f64::from(spikes.weight(i));
                sum.iter_mut().zip(row).for_each(|(s, w)| *s += count * w);
            }
            let (_, mean) = belief.step(&sum);
            if step >= part.segment.start {
                each(step, mean);
            }
        }
    }
}

/// A decoder of place with what was chosen for it.
pub(crate) struct Entrant {
    config: Config,
    /// Of everything held out, (steps, outputs); NaN elsewhere.
    pub(crate) estimates: Vec<f32>,
    cells: usize,
    edge: f64,
    unit: String,
    taps: usize,
    places: usize,
}

/// The decoder of the whole recording.
pub(crate) struct Whole {
    pub(crate) place: Place,
    pub(crate) weights: Vec<f64>,
    pub(crate) intercept: Vec<f64>,
    pub(crate) bank: FilterBank,
    pub(crate) steps: u64,
}

impl Entrant {
    /// The decoder that is off least, in the median, in what it was not trained on. `across`: cells along the
    /// longest axis, instead of 28.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) where the outputs are no place;
    /// those of the fields; [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
    pub(crate) fn new(
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &BankChoice,
        across: Option<usize>,
        progress: &dyn Progress,
    ) -> Result<Self> {
        axes(data.outputs)?;
        if options.low_pass.is_some() {
            return Err(Error::argument(
                "decoder of place: expected no low-pass, which it has no use for, got one",
            ));
        }
        let config = best_config((data, options, found), across, progress)?;
        let n = data.outputs.len();
        let mut estimates = vec![f32::NAN; data.steps * n];
        let (mut cells, mut edge, mut taps, mut places) = (0, 0.0, 0, 0);
        for (k, parts) in found.split.folds.iter().enumerate() {
            let fields = fields_of(data, options, found, k, &config)?;
            (cells, edge) = (fields.cells.len(), fields.grid.edge);
            let (place, weights, intercept) = fields.decoder(&config);
            (taps, places) = (place.walk.len(), fields.grid.places());
            let mut belief = Belief::new(&place, n)?;
            let engine = Engine {
                data: *data,
                weights,
                intercept,
            };
            for part in parts {
                engine.run(&mut belief, part, |step, mean| {
                    let row = &mut estimates[step as usize * n..][..n];
                    row.iter_mut().zip(mean).for_each(|(e, m)| *e = *m as f32);
                });
            }
        }
        let unit = axes(data.outputs)?
            .first()
            .map(|&o| data.outputs[o].unit.clone());
        Ok(Self {
            config,
            estimates,
            cells,
            edge,
            unit: unit.unwrap_or_default(),
            taps,
            places,
        })
    }

    /// The configuration that was chosen, in words.
    pub(crate) fn configuration(&self) -> String {
        let Config {
            smoothing,
            pace,
            jumps_hz,
            trust,
            ..
        } = self.config;
        format!(
            "{} cells of {:.3} {}, smoothed by {smoothing}, walk {pace}, {jumps_hz} jumps per second, likelihood to the {trust}",
            self.cells, self.edge, self.unit
        )
    }

    /// Multiply-adds of a step with so many spikes.
    pub(crate) fn multiply_adds(&self, spikes: f64, outputs: usize) -> f64 {
        let axes = if self.cells == self.places { 1 } else { 2 };
        spikes * self.cells as f64
            + (axes * self.places * (2 * self.taps - 1)) as f64
            + (self.cells * (outputs + 3)) as f64
    }

    /// The decoder of all of `data`.
    ///
    /// # Errors
    /// Returns the errors of the fields.
    pub(crate) fn whole(&self, data: &DatasetView<'_>, options: &TrainOptions) -> Result<Whole> {
        let (config, delay) = (&self.config, options.delay_steps);
        let shape = (config.across, config.smoothing);
        let fields = Fields::fit(data, delay, &|_| true, shape)?;
        let (place, weights, intercept) = fields.decoder(config);
        let paired = data.segments.iter().filter_map(|s| paired_steps(s, delay));
        Ok(Whole {
            place,
            weights,
            intercept,
            bank: FilterBank::new(vec![Filter {
                tau_seconds: data.step_seconds / PARTS,
                order: 0,
            }])?,
            steps: paired.map(|(first, stop)| (stop - first) as u64).sum(),
        })
    }
}

/// The configuration whose estimates of held-out steps are off least, in the median: all go through the first folds, and those
/// ahead through the others.
fn best_config(
    (data, options, found): (&DatasetView<'_>, &TrainOptions, &BankChoice),
    across: Option<usize>,
    progress: &dyn Progress,
) -> Result<Config> {
    let configs = configs(across.unwrap_or(ACROSS));
    let mut distances = vec![Vec::new(); configs.len()];
    let mut ahead: Vec<usize> = (0..configs.len()).collect();
    let folds = found.split.folds.len();
    let later = folds.saturating_sub(FIRST_FOLDS) * ahead.len() / OF_AHEAD;
    let total = (folds.min(FIRST_FOLDS) * ahead.len() + later) as u64;
    let mut done = 0;
    for k in 0..folds {
        if k == FIRST_FOLDS {
            ahead = best_of(&mut distances, &ahead, ahead.len() / OF_AHEAD);
        }
        for smoothing in SMOOTHINGS {
            progress::check(progress, "decoder of place")?;
            progress.update("decoder of place", done, total);
            let at: Vec<usize> = (ahead.iter().copied())
                .filter(|&i| configs[i].smoothing == smoothing)
                .collect();
            let Some(&first) = at.first() else {
                continue;
            };
            let fields = fields_of(data, options, found, k, &configs[first])?;
            let tried: Result<Vec<Vec<f32>>> = (at.par_iter())
                .map(|&i| off(data, options, &fields, &configs[i], &found.split.folds[k]))
                .collect();
            for (&i, mut tried) in at.iter().zip(tried?) {
                distances[i].append(&mut tried);
            }
            done += at.len() as u64;
        }
    }
    let best = best_of(&mut distances, &ahead, 1);
    (best.first())
        .and_then(|&best| configs.get(best).copied())
        .ok_or_else(|| Error::argument("decoder of place: expected something to try, got nothing"))
}

/// Every combination.
fn configs(across: usize) -> Vec<Config> {
    let mut configs = Vec::new();
    for smoothing in SMOOTHINGS {
        for pace in PACES {
            for jumps_hz in JUMPS_HZ {
                for trust in TRUSTS {
                    configs.push(Config {
                        across,
                        smoothing,
                        pace,
                        jumps_hz,
                        trust,
                    });
                }
            }
        }
    }
    configs
}

/// The `most` of `among` whose median distance is smallest, the best first; NaN is the largest.
fn best_of(distances: &mut [Vec<f32>], among: &[usize], most: usize) -> Vec<usize> {
    let mut medians: Vec<(f32, usize)> = (among.iter())
        .map(|&i| (median(&mut distances[i]), i))
        .collect();
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    medians.truncate(most);
    medians.into_iter().map(|(_, i)| i).collect()
}

/// The fields without fold `k` (and without the guards between folds).
fn fields_of(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    found: &BankChoice,
    k: usize,
    config: &Config,
) -> Result<Fields> {
    let mut trains = vec![false; data.steps];
    for (other, parts) in found.split.folds.iter().enumerate() {
        for Part { segment, .. } in parts {
            trains[segment.start as usize..segment.stop as usize].fill(other != k);
        }
    }
    let shape = (config.across, config.smoothing);
    Fields::fit(data, options.delay_steps, &|step| trains[step], shape)
}

/// Errors of the estimates of `parts`.
fn off(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    fields: &Fields,
    config: &Config,
    parts: &[Part],
) -> Result<Vec<f32>> {
    let (n, delay) = (data.outputs.len(), options.delay_steps);
    let (place, weights, intercept) = fields.decoder(config);
    let mut belief = Belief::new(&place, n)?;
    let engine = Engine {
        data: *data,
        weights,
        intercept,
    };
    let mut distances = Vec::new();
    for part in parts {
        let paired = paired_steps(&part.segment, delay).unwrap_or((0, 0));
        engine.run(&mut belief, part, |step, mean| {
            if !(paired.0..paired.1).contains(&step) {
                return;
            }
            let truth = &data.behavior[(step - delay) as usize * n..][..n];
            let squares = fields
                .grid
                .axes
                .iter()
                .map(|&o| (mean[o] - f64::from(truth[o])).powi(2));
            distances.push(squares.sum::<f64>().sqrt() as f32);
        });
    }
    Ok(distances)
}

/// NaN of nothing.
fn median(values: &mut [f32]) -> f32 {
    if values.is_empty() {
        return f32::NAN;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f32::total_cmp).1
}
