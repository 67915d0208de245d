//! Sums of recursive filters in place of sampled ones: a measured PSC then costs a few states per step.
//!
//! Terms are chosen one by one, by what is left of the curve after the best combination of those before (orthogonal
//! matching pursuit over a grid of time constants, over all orders and over each order alone). After each, time constants and weights move to where the
//! squared error is least (Levenberg and Marquardt). The curve is followed for twice its length, so that what a recursion
//! leaves behind the last sample counts as an error.

use betz_base::error::{Error, Result};
use betz_base::float;
use betz_linear::{Mat, solve_general};
use betz_runtime::model::{Decoder, DecoderParts, Head};
use betz_runtime::psc::{Filter, FilterBank, SampledFilter};

/// Largest number of terms that [`fit`] tries.
pub const MOST_TERMS: usize = 8;

/// Largest order of a term.
const MOST_ORDER: u32 = 4;

/// Time constants of the grid, per order.
const GRID: usize = 40;

/// Most points at which a curve is compared while terms are chosen; the error is over all.
const MOST_POINTS: usize = 4096;

/// Rounds of the search for the least error, the step of ln τ that slopes are taken over, and the longest move of a round.
const ROUNDS: usize = 40;
const STEP: f64 = 1e-5;
const MOST_TURN: f64 = 0.5;

/// One term of a sum of recursive filters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// The filter, of unit sum.
    pub filter: Filter,
    /// Its weight in the sum.
    pub weight: f64,
}

/// A sum of recursive filters that stands for a sampled one.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedFilter {
    /// The terms, those with the shortest time constants first.
    pub terms: Vec<Term>,
    /// Largest difference from the sampled filter at any step, relative to its largest sample.
    pub largest_error: f64,
    /// Root of the mean squared difference over the filter's length, relative to its largest sample.
    pub rms_error: f64,
}

impl FittedFilter {
    /// The sum at steps 0, 1, …, `len` − 1.
    pub fn impulse(&self, step_seconds: f64, len: usize) -> Vec<f64> {
        let mut sum = vec![0.0; len];
        for term in &self.terms {
            for (y, h) in sum.iter_mut().zip(term.filter.impulse(step_seconds, len)) {
                *y += term.weight * h;
            }
        }
        sum
    }
}

/// The sum of the fewest recursive filters, at most [`MOST_TERMS`], that is within `tolerance` of `filter` at every step,
/// relative to its largest sample.
///
/// ```
/// use betz_runtime::psc::KernelShape;
/// use betz_train::filters::fit;
///
/// let shape = KernelShape::Biexp { rise_seconds: 0.002, decay_seconds: 0.02 };
/// let filter = shape.filters("biexp", 0.001)?.remove(0);
/// let fitted = fit(&filter, 0.01)?;
/// assert_eq!(fitted.terms.len(), 2);
/// assert!(fitted.largest_error < 0.01);
/// # Ok::<(), betz_base::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a filter that looks ahead, a tolerance that is
/// not above 0, or a filter that no sum comes near enough to; the message has the smallest error that was reached.
pub fn fit(filter: &SampledFilter, tolerance: f64) -> Result<FittedFilter> {
    if !(tolerance > 0.0 && tolerance.is_finite()) {
        return Err(Error::argument(format!(
            "--tolerance: expected a number above 0, such as 0.01, got {tolerance}"
        )));
    }
    let samples = filter.causal_samples()?;
    let curve = Curve::new(&samples, filter.step_seconds());
    // Of all orders, and of each alone: two exponentials may need five terms of other orders.
    let orders = std::iter::once(None).chain((0..=MOST_ORDER).map(Some));
    let mut sums: Vec<(Option<u32>, Vec<Filter>)> = orders.map(|o| (o, Vec::new())).collect();
    let mut best: Option<FittedFilter> = None;
    for _ in 0..MOST_TERMS {
        for (order, filters) in &mut sums {
            let Some(next) = curve.next_filter(filters, *order) else {
                continue;
            };
            filters.push(next);
            curve.refine(filters);
            let fitted = curve.fitted(filters, &samples);
            let least = best.as_ref().map_or(f64::INFINITY, |b| b.largest_error);
            if fitted.largest_error < least {
                best = Some(fitted);
            }
        }
        if best.as_ref().is_some_and(|b| b.largest_error <= tolerance) {
            break;
        }
    }
    match best {
        Some(fitted) if fitted.largest_error <= tolerance => Ok(fitted),
        best => Err(Error::argument(format!(
            "filter {}: expected a sum of at most {MOST_TERMS} recursive filters within {} % of its largest sample, got {:.2} % at best; allow that with --tolerance, or keep the sampled filter",
            filter.name(),
            100.0 * tolerance,
            100.0 * best.map_or(1.0, |b| b.largest_error)
        ))),
    }
}

/// `decoder` with a sum of recursive filters in place of each sampled one: the same weights, spread over the terms.
/// Returns what stands for each sampled filter.
///
/// Sums that the model kept for later (`--retain`) belong to its old features; they are left out.
///
/// # Errors
/// The errors of [`fit`]; [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a decoder without sampled
/// filters, or of a kind whose responses do more than add up.
pub fn fit_decoder(decoder: Decoder, tolerance: f64) -> Result<(Decoder, Vec<FittedFilter>)> {
    if decoder.bank().sampled().is_empty() {
        return Err(Error::argument(
            "expected a model with sampled filters, got one whose filters are recursive already",
        ));
    }
    let DecoderParts {
        bank,
        weights,
        head,
        ..
    } = &decoder.clone().into_parts();
    if !matches!(head, Head::Linear) {
        return Err(Error::argument(
            "expected a linear decoder (betz train --decoder linear), got one whose filters' responses do more than add up",
        ));
    }
    let fitted: Vec<FittedFilter> = (bank.sampled().iter())
        .map(|filter| fit(filter, tolerance))
        .collect::<Result<_>>()?;
    let mut filters = bank.filters().to_vec();
    // (old filter, new filter, weight): a filter that is there already takes a term on.
    let mut terms: Vec<(usize, usize, f64)> = (0..filters.len()).map(|f| (f, f, 1.0)).collect();
    for (i, sum) in fitted.iter().enumerate() {
        for term in &sum.terms {
            let known = filters.iter().position(|f| *f == term.filter);
            let at = known.unwrap_or_else(|| {
                filters.push(term.filter);
                filters.len() - 1
            });
            terms.push((bank.filters().len() + i, at, term.weight));
        }
    }
    let (old, new) = (bank.len(), filters.len());
    let latents = weights.len() / (decoder.channels() * old).max(1);
    let mut spread = vec![0.0; decoder.channels() * new * latents];
    for channel in 0..decoder.channels() {
        for &(from, to, weight) in &terms {
            for o in 0..latents {
                spread[(channel * new + to) * latents + o] +=
                    weight * weights[(channel * old + from) * latents + o];
            }
        }
    }
    let mut parts = decoder.into_parts();
    parts.bank = FilterBank::new(filters)?;
    parts.weights = spread;
    parts.attachments.clear();
    Ok((Decoder::new(parts)?, fitted))
}

/// A curve at some steps, and filters at the same steps.
struct Curve {
    values: Vec<f64>,
    step_seconds: f64,
    /// Steps between the values, and steps that are followed.
    stride: usize,
    steps: usize,
    /// The grid's filters, and their columns.
    grid: Vec<(Filter, Vec<f64>)>,
}

impl Curve {
    fn new(samples: &[f64], step_seconds: f64) -> Self {
        let own = samples.len();
        let steps = 2 * own + 16;
        let stride = steps.div_ceil(MOST_POINTS);
        let values = (0..steps).step_by(stride);
        let mut curve = Self {
            values: values
                .map(|t| samples.get(t).copied().unwrap_or(0.0))
                .collect(),
            step_seconds,
            stride,
            steps,
            grid: Vec::new(),
        };
        let (first, last) = (0.3 * step_seconds, 2.0 * own as f64 * step_seconds);
        for order in 0..=MOST_ORDER {
            for i in 0..GRID {
                let share = i as f64 / (GRID - 1) as f64;
                let filter = Filter {
                    tau_seconds: first * float::powf(last / first, share),
                    order,
                };
                curve.grid.push((filter, curve.column(filter)));
            }
        }
        curve
    }

    fn column(&self, filter: Filter) -> Vec<f64> {
        let all = filter.impulse(self.step_seconds, self.steps);
        all.into_iter().step_by(self.stride).collect()
    }

    /// The filter of the grid, of `order` if one is given, that takes most of what is left of the curve beside `filters`.
    fn next_filter(&self, filters: &[Filter], order: Option<u32>) -> Option<Filter> {
        // An orthonormal basis of the filters, and the curve without its part in them.
        let mut basis: Vec<Vec<f64>> = Vec::new();
        let mut rest = self.values.clone();
        for filter in filters {
            let mut column = self.column(*filter);
            for known in &basis {
                take_off(&mut column, known);
            }
            let length = dot(&column, &column).sqrt();
            if length > 0.0 {
                column.iter_mut().for_each(|x| *x /= length);
                take_off(&mut rest, &column);
                basis.push(column);
            }
        }
        let mut best: Option<(f64, Filter)> = None;
        for (filter, own) in &self.grid {
            if order.is_some_and(|order| order != filter.order) {
                continue;
            }
            let mut column = own.clone();
            let whole = dot(&column, &column);
            for known in &basis {
                take_off(&mut column, known);
            }
            let left = dot(&column, &column);
            // The weight of a filter that is nearly a sum of the others is known too badly.
            if left <= 1e-9 * whole {
                continue;
            }
            let gain = dot(&column, &rest).powi(2) / left;
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, *filter));
            }
        }
        best.map(|(_, filter)| filter)
    }

    /// Moves the time constants to where the squared error is least (Levenberg and Marquardt, over ln τ and the weights).
    fn refine(&self, filters: &mut [Filter]) {
        let n = filters.len();
        let mut columns: Vec<Vec<f64>> = filters.iter().map(|f| self.column(*f)).collect();
        let mut weights = self.weights(&columns);
        let mut least = self.squares(&weights, &columns);
        let mut damping = 1e-3;
        for _ in 0..ROUNDS {
            let slopes =
                (filters.iter().zip(&columns).zip(&weights)).map(|((filter, own), weight)| {
                    let near = self.column(longer(*filter, STEP));
                    let slope = near.iter().zip(own).map(|(b, a)| weight * (b - a) / STEP);
                    slope.collect::<Vec<f64>>()
                });
            let jacobian: Vec<Vec<f64>> = columns.iter().cloned().chain(slopes).collect();
            let rest = self.rest(&weights, &columns);
            let moves = least_squares(&jacobian, &rest, damping);
            let (towards, turns) = moves.split_at(n);
            let trial: Vec<Filter> = (filters.iter().zip(turns))
                .map(|(filter, turn)| longer(*filter, turn.clamp(-MOST_TURN, MOST_TURN)))
                .collect();
            let there: Vec<Vec<f64>> = trial.iter().map(|f| self.column(*f)).collect();
            let trial_weights: Vec<f64> = weights.iter().zip(towards).map(|(w, d)| w + d).collect();
            let squares = self.squares(&trial_weights, &there);
            if squares < least {
                let gained = least - squares;
                filters.copy_from_slice(&trial);
                (columns, weights, least) = (there, trial_weights, squares);
                damping = (damping / 4.0).max(1e-12);
                if gained < 1e-7 * least {
                    break;
                }
            } else {
                damping *= 8.0;
                if damping > 1e6 {
                    break;
                }
            }
        }
    }

    /// The rest of the curve behind `weights` of `columns`.
    fn rest(&self, weights: &[f64], columns: &[Vec<f64>]) -> Vec<f64> {
        let mut rest = self.values.clone();
        for (weight, column) in weights.iter().zip(columns) {
            for (r, x) in rest.iter_mut().zip(column) {
                *r -= weight * x;
            }
        }
        rest
    }

    /// The squared error of a sum; infinite where it is no number.
    fn squares(&self, weights: &[f64], columns: &[Vec<f64>]) -> f64 {
        let rest = self.rest(weights, columns);
        let squares = dot(&rest, &rest);
        if squares.is_finite() {
            squares
        } else {
            f64::INFINITY
        }
    }

    /// The least-squares weights of `columns`.
    fn weights(&self, columns: &[Vec<f64>]) -> Vec<f64> {
        least_squares(columns, &self.values, 0.0)
    }

    fn fitted(&self, filters: &[Filter], samples: &[f64]) -> FittedFilter {
        let columns: Vec<Vec<f64>> = filters.iter().map(|f| self.column(*f)).collect();
        let weights = self.weights(&columns);
        let mut terms: Vec<Term> = (filters.iter().zip(weights))
            .map(|(&filter, weight)| Term { filter, weight })
            .collect();
        terms.sort_by(|a, b| a.filter.tau_seconds.total_cmp(&b.filter.tau_seconds));
        let mut fitted = FittedFilter {
            terms,
            largest_error: f64::INFINITY,
            rms_error: f64::INFINITY,
        };
        let sum = fitted.impulse(self.step_seconds, self.steps);
        let peak = samples.iter().fold(0.0f64, |m, h| m.max(h.abs()));
        let (mut largest, mut squares) = (0.0f64, 0.0);
        for (t, y) in sum.iter().enumerate() {
            let error = (y - samples.get(t).copied().unwrap_or(0.0)).abs() / peak;
            // NaN counts as the largest.
            largest = if error <= largest { largest } else { error };
            squares += error * error;
        }
        if largest.is_finite() {
            fitted.largest_error = largest;
            fitted.rms_error = (squares / samples.len() as f64).sqrt();
        }
        fitted
    }
}

/// `filter` with a τ that is e^`turn` times as long.
fn longer(filter: Filter, turn: f64) -> Filter {
    Filter {
        tau_seconds: filter.tau_seconds * float::exp(turn),
        ..filter
    }
}

/// The weights of `columns` whose sum is nearest to `right`, each held back by `damping` times its column's own square.
fn least_squares(columns: &[Vec<f64>], right: &[f64], damping: f64) -> Vec<f64> {
    let n = columns.len();
    let length = |column: &Vec<f64>| dot(column, column).sqrt().max(f64::MIN_POSITIVE);
    let lengths: Vec<f64> = columns.iter().map(length).collect();
    let gram = Mat::from_fn(n, n, |i, j| {
        let product = dot(&columns[i], &columns[j]) / (lengths[i] * lengths[j]);
        // Columns may be alike to the last digits.
        product + if i == j { damping + 1e-13 } else { 0.0 }
    });
    let right = Mat::from_fn(n, 1, |i, _| dot(&columns[i], right) / lengths[i]);
    let solved = solve_general(gram.as_ref(), right.as_ref());
    (0..n).map(|i| solved[(i, 0)] / lengths[i]).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Takes the part along `unit`, of length 1, off `values`.
fn take_off(values: &mut [f64], unit: &[f64]) {
    let part = dot(values, unit);
    values
        .iter_mut()
        .zip(unit)
        .for_each(|(v, u)| *v -= part * u);
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_runtime::psc::KernelShape;
    use betz_runtime::stream::{Session, SessionConfig};

    fn sampled(value: impl Fn(f64) -> f64, length: usize) -> SampledFilter {
        let samples = (0..length).map(|i| value(i as f64 * 1e-3)).collect();
        SampledFilter::new("curve", samples, 1e-3, 0).unwrap()
    }

    #[test]
    fn sums_of_recursive_filters_are_found_again() {
        for terms in [
            vec![(0.02, 0, 1.0)],
            vec![(0.01, 1, 2.0)],
            vec![(0.003, 0, -1.0), (0.04, 0, 1.5)],
            vec![(0.008, 2, 1.0), (0.06, 1, 0.5), (0.002, 0, -0.1)],
        ] {
            let curve = |t: f64| {
                let of = |&(tau, order, weight): &(f64, i32, f64)| {
                    let x: f64 = t / tau;
                    weight * x.powi(order) * float::exp(-x)
                };
                terms.iter().map(of).sum()
            };
            let fitted = fit(&sampled(curve, 1200), 1e-3).unwrap();
            assert!(fitted.largest_error <= 1e-3, "{fitted:?}");
            assert!(fitted.terms.len() <= 2 * terms.len(), "{fitted:?}");
        }
    }

    #[test]
    fn a_ragged_psc_is_within_a_hundredth_and_a_boxcar_is_refused_with_its_error() {
        let psc = sampled(
            |t| ((-t / 0.05).exp() - (-t / 0.004).exp()) * (1.0 + 0.02 * (9.0 * t).sin()),
            600,
        );
        let fitted = fit(&psc, 0.01).unwrap();
        assert!(fitted.largest_error <= 0.01 && fitted.rms_error <= fitted.largest_error);
        // A session would differ by no more.
        let sum = fitted.impulse(1e-3, 700);
        for (t, y) in sum.iter().enumerate() {
            let error = (y - psc.at(t as i64)).abs();
            assert!(
                error <= fitted.largest_error * 1.05 * 0.8,
                "step {t}: {error}"
            );
        }
        let seconds = 0.05;
        let boxcar = KernelShape::Boxcar { seconds }
            .filters("boxcar", 1e-3)
            .unwrap();
        let refused = fit(&boxcar[0], 0.01).unwrap_err();
        for said in ["boxcar", "8 recursive filters", "1 %", "--tolerance"] {
            assert!(refused.message().contains(said), "{refused}");
        }
        assert!(fit(&boxcar[0], 2.0).is_ok());
    }

    #[test]
    fn filters_that_look_ahead_and_odd_tolerances_are_refused() {
        let ahead = SampledFilter::new("ahead", vec![1.0; 9], 1e-3, -4).unwrap();
        let refused = fit(&ahead, 0.01).unwrap_err();
        assert!(refused.message().contains("ahead"), "{refused}");
        for tolerance in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = fit(&sampled(|t| (-t / 0.01).exp(), 90), tolerance).unwrap_err();
            assert!(refused.message().contains("--tolerance"), "{refused}");
        }
    }

    /// A model with its filters replaced decodes the same, within the error of the filters.
    #[test]
    fn a_model_keeps_its_outputs() {
        let psc = sampled(|t| (-t / 0.03).exp() - (-t / 0.005).exp(), 300);
        let psc = psc.with_unit_sum().unwrap();
        let recursive = vec![Filter {
            tau_seconds: 0.02,
            order: 1,
        }];
        let bank = FilterBank::with_sampled(recursive, vec![psc]).unwrap();
        let names = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let outputs = ["x", "y"].map(Into::into).to_vec();
        let parts = DecoderParts {
            weights: (0..12).map(|i| f64::from(i % 5) - 2.0).collect(),
            intercept: vec![0.5, -1.0],
            ..DecoderParts::linear(1e-3, bank, names, outputs)
        };
        let decoder = Decoder::new(parts).unwrap();
        let (fitted, sums) = fit_decoder(decoder.clone(), 1e-3).unwrap();
        assert!(fitted.bank().sampled().is_empty());
        assert_eq!(sums.len(), 1);
        let open = |decoder| Session::open(decoder, SessionConfig::default()).unwrap();
        let (mut before, mut after) = (open(&decoder), open(&fitted));
        let (mut wanted, mut found) = ([0.0; 2], [0.0; 2]);
        for t in 0..900u32 {
            let counts = [
                u8::from(t % 7 == 0),
                u8::from(t % 11 == 3),
                u8::from(t == 60),
            ];
            before.step_counts_u8(&counts, &mut wanted).unwrap();
            after.step_counts_u8(&counts, &mut found).unwrap();
            for (a, b) in found.iter().zip(&wanted) {
                assert!((a - b).abs() < 2e-3, "step {t}: {a} {b}");
            }
        }
        let refused = fit_decoder(fitted, 1e-3).unwrap_err();
        assert!(refused.message().contains("recursive already"), "{refused}");
    }
}
