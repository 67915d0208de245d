//! Weighted least squares: a linear decoder whose steps count by a weight each.
//!
//! Weights multiply the terms of Γ, Υ and the means. Sums are scaled by steps over weights before they are solved, so
//! that ridge and noise keep the meaning they have where every weight is 1.

use betz::model::{Decoder, Head};
use betz::psc::{Block, FilterBank, Responses};
use betz::recording::Dataset;
use betz::train::solve::{CentredEquations, FeatureNames, Solution};
use betz::train::{
    CentredSignal, MaskPolicy, NormalEquations, Preset, RidgeChoice, Solver, generalised_ridge,
    largest_response,
};
use betz::{Error, ErrorKind, Progress, Result, progress};

use crate::options::Options;

/// Steps that are filtered at once.
const COLUMNS: usize = 512;

/// Ridges that are tried, in powers of ten of Γ's mean diagonal; half a power beside the best in the end.
const POWERS: std::ops::RangeInclusive<i32> = -7..=1;

/// Sums of the steps of a fold, and the sum of their weights.
#[derive(Clone)]
struct Part {
    sums: NormalEquations,
    weight: f64,
}

impl Part {
    /// The sums as of steps of mean weight 1.
    fn scaled(&self) -> NormalEquations {
        let scale = self.sums.steps as f64 / self.weight;
        let mut sums = self.sums.clone();
        let all = [
            &mut sums.gram,
            &mut sums.upsilon,
            &mut sums.feature_sum,
            &mut sums.output_sum,
            &mut sums.output_sq_sum,
        ];
        for values in all {
            values.iter_mut().for_each(|value| *value *= scale);
        }
        sums
    }
}

/// The linear decoder of `data` whose step t of behaviour counts `weights[t]` times.
///
/// # Errors
/// As training; [`ErrorKind::InvalidArgument`] for weights that are negative, not finite, or all 0.
pub(crate) fn train(
    data: &Dataset,
    weights: &[f64],
    options: &Options,
    watch: &dyn Progress,
) -> Result<Decoder> {
    check(data, weights, options)?;
    // Responses here are never from events: the bank alone decides whether they depend on where 0 is.
    let first = options.bank.bank(data.step_seconds)?;
    let first = first.map_or_else(|| Preset::candidates(data)[0].bank(), Ok)?;
    match CentredSignal::new(data, &options.linear(first))? {
        Some(centred) => centred.decoder(of_values(&centred.data, weights, options, watch)?),
        None => of_values(data, weights, options, watch),
    }
}

/// The decoder of `data`, whose filters start from rest.
fn of_values(
    data: &Dataset,
    weights: &[f64],
    options: &Options,
    watch: &dyn Progress,
) -> Result<Decoder> {
    let banks = match options.bank.bank(data.step_seconds)? {
        Some(bank) => vec![bank],
        None => Preset::candidates(data)
            .into_iter()
            .map(Preset::bank)
            .collect::<Result<Vec<_>>>()?,
    };
    let searches = options.folds > 1 && (banks.len() > 1 || options.ridge_choice().is_none());
    let folds = fold_of_steps(data, if searches { options.folds } else { 1 });
    let mut best: Option<(f64, FilterBank, f64, Part)> = None;
    for (number, bank) in banks.iter().enumerate() {
        watch.update("weighted", number as u64, banks.len() as u64);
        let parts = sums(data, weights, bank, options, &folds, watch)?;
        let whole = together(&parts)?;
        let (score, ridge) = if searches {
            searched(data, bank, options, &parts, &whole)?
        } else {
            (0.0, ridge(data, bank, options, &whole, whole.weight)?)
        };
        if best.as_ref().is_none_or(|(most, ..)| score > *most) {
            best = Some((score, bank.clone(), ridge, whole));
        }
    }
    let Some((_, bank, ridge, whole)) = best else {
        return Err(Error::argument("bank: expected at least one, got none"));
    };
    let solution = solved((data, &bank), &whole.scaled(), ridge, options.solver()?)?;
    decoder(data, bank, options, (ridge, &whole), solution, watch)
}

fn check(data: &Dataset, weights: &[f64], options: &Options) -> Result<()> {
    if options.kind != "linear" {
        return Err(Error::argument(format!(
            "sample_weight: expected kind='linear', whose least squares take weights, got '{}'; leave sample_weight out, or \
             repeat the rows that count more",
            options.kind
        )));
    }
    if weights.len() != data.steps {
        return Err(Error::mismatch(format!(
            "sample_weight: expected {}, one per row, got {}",
            data.steps,
            weights.len()
        )));
    }
    if let Some(row) = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
        return Err(Error::argument(format!(
            "sample_weight: [{row}] = {}: expected a finite number of at least 0",
            weights[row]
        ))
        .with_position(row));
    }
    if data.outputs.is_empty() {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            "training: expected behaviour, got none",
        ));
    }
    Ok(())
}

/// The fold of each step: neighbouring segments together, or pieces of segments where there are fewer than folds.
fn fold_of_steps(data: &Dataset, folds: usize) -> Vec<usize> {
    let total = data.steps_in_segments().max(1);
    let whole = data.segments.len() >= folds;
    let (mut of, mut before) = (vec![0; data.steps], 0);
    for segment in &data.segments {
        let steps = segment.len();
        for (k, step) in (segment.start.max(0) as usize..segment.stop as usize).enumerate() {
            let at = if whole {
                before + steps / 2
            } else {
                before + k
            };
            of[step] = (at * folds / total).min(folds - 1);
        }
        before += steps;
    }
    of
}

/// The weighted sums of each fold.
fn sums(
    data: &Dataset,
    weights: &[f64],
    bank: &FilterBank,
    options: &Options,
    folds: &[usize],
    watch: &dyn Progress,
) -> Result<Vec<Part>> {
    let mut responses = Responses::new(data, bank, options.low_pass())?.paired(options.delay_steps);
    let (features, outputs) = (responses.features(), data.outputs.len());
    let empty = Part {
        sums: NormalEquations::zeros(features, outputs),
        weight: 0.0,
    };
    let mut parts = vec![empty; folds.iter().max().map_or(1, |most| most + 1)];
    let mut block = Block::<f64>::default();
    let (mut rows, mut weighted) = (Vec::new(), Vec::new());
    while responses.next_block(COLUMNS, &mut block) {
        progress::check(watch, "weighted sums")?;
        let columns = block.steps.len();
        let behaving = |step: usize| (step as i64 - options.delay_steps) as usize;
        for (fold, part) in parts.iter_mut().enumerate() {
            // Behaviour's own row decides: a step without weight is in no fold.
            let used: Vec<usize> = (0..columns)
                .filter(|&c| {
                    let row = behaving(block.steps[c]);
                    folds[row] == fold && weights[row] > 0.0
                })
                .collect();
            if used.is_empty() {
                continue;
            }
            rows.clear();
            weighted.clear();
            for feature in 0..features {
                for &c in &used {
                    let value = block.values[feature * columns + c];
                    rows.push(value);
                    weighted.push(value * weights[behaving(block.steps[c])]);
                }
            }
            let labels: Vec<usize> = used.iter().map(|&c| behaving(block.steps[c])).collect();
            part.add(data, weights, &labels, &rows, &weighted);
        }
    }
    Ok(parts)
}

impl Part {
    /// Adds the steps whose behaviour lies in the rows `labels`: their responses, (features, steps), plain and weighted.
    fn add(
        &mut self,
        data: &Dataset,
        weights: &[f64],
        labels: &[usize],
        rows: &[f64],
        weighted: &[f64],
    ) {
        let (features, outputs, steps) = (self.sums.features, self.sums.outputs, labels.len());
        self.sums.steps += steps as u64;
        self.weight += labels.iter().map(|&row| weights[row]).sum::<f64>();
        let of = |feature: usize| feature * steps..(feature + 1) * steps;
        let behavior: Vec<Vec<f64>> = (0..outputs)
            .map(|o| {
                let value = |&row: &usize| f64::from(data.behavior[row * outputs + o]);
                labels.iter().map(value).collect()
            })
            .collect();
        for i in 0..features {
            let own = &weighted[of(i)];
            for j in 0..=i {
                let product = dot(own, &rows[of(j)]);
                self.sums.gram[i * features + j] += product;
                if i != j {
                    self.sums.gram[j * features + i] += product;
                }
            }
            self.sums.feature_sum[i] += own.iter().sum::<f64>();
            for (o, values) in behavior.iter().enumerate() {
                self.sums.upsilon[i * outputs + o] += dot(own, values);
            }
        }
        for (o, values) in behavior.iter().enumerate() {
            for (&row, value) in labels.iter().zip(values) {
                self.sums.output_sum[o] += weights[row] * value;
                self.sums.output_sq_sum[o] += weights[row] * value * value;
            }
        }
    }
}

/// Σ aᵢbᵢ in eight sums, which a processor adds side by side.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (left, right) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = left.remainder().iter().zip(right.remainder());
    let rest: f64 = rest.map(|(x, y)| x * y).sum();
    let mut sums = [0.0; 8];
    for (x, y) in left.zip(right) {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum += x * y;
        }
    }
    sums.iter().sum::<f64>() + rest
}

fn together(parts: &[Part]) -> Result<Part> {
    let mut whole = parts[0].clone();
    for part in &parts[1..] {
        whole.sums.add(&part.sums)?;
        whole.weight += part.weight;
    }
    if whole.weight <= 0.0 {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            "sample_weight: expected a weight above 0 for a row of behaviour that is used, got zero weights only",
        ));
    }
    Ok(whole)
}

/// λ of `options` for the scaled sums of `part`, where a fixed one holds for the weight `whole`.
fn ridge(
    data: &Dataset,
    bank: &FilterBank,
    options: &Options,
    part: &Part,
    whole: f64,
) -> Result<f64> {
    let steps = part.sums.steps as f64;
    // Without a ridge and without folds: as training without weights.
    let choice = options.ridge_choice().unwrap_or(RidgeChoice::Generalised);
    Ok(match choice {
        RidgeChoice::Fixed(ridge) => ridge * steps / whole,
        RidgeChoice::Noise(sigma) => sigma * sigma * steps,
        RidgeChoice::RelativeNoise(relative) => {
            (relative * largest_response(data, bank)).powi(2) * steps
        }
        RidgeChoice::Generalised => {
            let sums = part.scaled();
            let centred = CentredEquations::new(&sums)?;
            generalised_ridge(&sums, &centred, bank, data.step_seconds)?
        }
    })
}

fn solved(
    (data, bank): (&Dataset, &FilterBank),
    sums: &NormalEquations,
    ridge: f64,
    solver: Solver,
) -> Result<Solution> {
    let names = FeatureNames {
        channels: &data.channel_names,
        bank,
    };
    CentredEquations::new(sums)?.solve(ridge, solver, MaskPolicy::Mask, names)
}

/// The best mean R² of what is held out, and its ridge for the whole.
fn searched(
    data: &Dataset,
    bank: &FilterBank,
    options: &Options,
    parts: &[Part],
    whole: &Part,
) -> Result<(f64, f64)> {
    let scaled = whole.scaled();
    let attempt = |relative: Option<f64>| -> Result<f64> {
        let mut left = vec![0.0; scaled.outputs];
        for part in parts.iter().filter(|part| part.weight > 0.0) {
            let mut rest = whole.clone();
            rest.sums.subtract(&part.sums)?;
            rest.weight -= part.weight;
            if rest.weight <= 0.0 {
                continue;
            }
            let (trained, held) = (rest.scaled(), part.scaled());
            let ridge = match relative {
                Some(relative) => relative * trained.mean_variance_sum(),
                None => ridge(data, bank, options, &rest, whole.weight)?,
            };
            let solution = solved((data, bank), &trained, ridge, options.solver()?)?;
            let residuals = held.residual_squares(&solution.weights, &solution.intercept);
            for (left, residual) in left.iter_mut().zip(residuals) {
                *left += residual * part.weight / held.steps as f64;
            }
        }
        let total = scaled.output_total_squares();
        let scale = whole.weight / scaled.steps as f64;
        let r2 = left.iter().zip(total).filter(|(_, total)| *total > 0.0);
        let r2: Vec<f64> = r2
            .map(|(left, total)| 1.0 - left / (total * scale))
            .collect();
        Ok(r2.iter().sum::<f64>() / r2.len().max(1) as f64)
    };
    if options.ridge_choice().is_some() {
        let ridge = ridge(data, bank, options, whole, whole.weight)?;
        return Ok((attempt(None)?, ridge));
    }
    let mut best = (f64::NEG_INFINITY, f64::NAN);
    let mut refused = None;
    let mut consider = |power: f64| {
        // A ridge too small to solve with is passed over.
        match attempt(Some(10_f64.powf(power))) {
            Ok(score) if score > best.0 => best = (score, power),
            Ok(_) => {}
            Err(error) => refused = Some(error),
        }
        best.1
    };
    let mut centre = f64::NAN;
    for power in POWERS {
        centre = consider(f64::from(power));
    }
    for side in [-0.5, 0.5] {
        if centre.is_finite() {
            consider(centre + side);
        }
    }
    match (best.1.is_finite(), refused) {
        (false, Some(error)) => Err(error),
        _ => Ok((best.0, 10_f64.powf(best.1) * scaled.mean_variance_sum())),
    }
}

/// The decoder of `solution`. Limits and facts of the recording are those of plain training.
fn decoder(
    data: &Dataset,
    bank: FilterBank,
    options: &Options,
    (ridge, whole): (f64, &Part),
    solution: Solution,
    watch: &dyn Progress,
) -> Result<Decoder> {
    let scale = whole.weight / whole.sums.steps as f64;
    let mut plain = options.linear(bank);
    plain.ridge = RidgeChoice::Fixed(ridge * scale);
    let mut parts = betz::train::train(data, &plain, watch)?.into_parts();
    parts.head = Head::Linear;
    parts.weights = solution.weights;
    parts.intercept = solution.intercept;
    parts.channel_mask = solution.channel_mask;
    parts.training.steps = whole.sums.steps;
    Decoder::new(parts)
}
