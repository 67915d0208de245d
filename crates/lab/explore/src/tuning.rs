//! Firing rates as a function of behaviour.

use std::f64::consts::{PI, TAU};

use betz_base::{Error, ErrorKind, Result};
use betz_recording::{Dataset, Segment};

use crate::check;

/// The vector of two outputs that a direction or a speed is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorSource {
    /// The outputs' values: they are velocities, or the vector itself.
    Values,
    /// Their derivative in time: they are positions. Central differences inside segments, one-sided at the ends.
    Derivative,
}

/// The behaviour that rates depend on. Outputs are numbers into [`Dataset::outputs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// One output.
    Output(usize),
    /// The direction atan2(y, x) of a vector, in radians from −π to π.
    Direction {
        /// Output of the first component.
        x: usize,
        /// Output of the second component.
        y: usize,
        /// The vector: values or derivative.
        of: VectorSource,
    },
    /// The length of a vector.
    Speed {
        /// Output of the first component.
        x: usize,
        /// Output of the second component.
        y: usize,
        /// The vector: values or derivative.
        of: VectorSource,
    },
    /// Two outputs at once: a map.
    Map {
        /// Output of the first axis.
        x: usize,
        /// Output of the second axis.
        y: usize,
    },
}

/// Bins and limits of [`tuning`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TuningOptions {
    /// Number of bins of each axis; at least 2.
    pub bins: usize,
    /// Range of the values; values outside it are left out. `None`: all values (a direction always has −π to π).
    pub range: Option<(f64, f64)>,
    /// Behaviour this many steps after the spikes; negative: before them.
    pub lag_steps: i64,
    /// Least length of the vector of a direction: slower steps are left out.
    pub min_speed: f64,
    /// Least time in a bin in seconds; the rate of other bins is NaN.
    pub min_occupancy_seconds: f64,
}

/// 8 bins over all values, no lag, no limits.
impl Default for TuningOptions {
    fn default() -> Self {
        Self {
            bins: 8,
            range: None,
            lag_steps: 0,
            min_speed: 0.0,
            min_occupancy_seconds: 0.0,
        }
    }
}

/// One axis of a tuning curve.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Axis {
    /// Name, such as `direction of vx, vy`.
    pub name: String,
    /// Unit; empty if unknown.
    pub unit: String,
    /// Edges of the bins, ascending, one more than there are bins. Bins are half-open; the last holds its end, too.
    pub edges: Vec<f64>,
}

impl Axis {
    /// Centre of each bin.
    pub fn centres(&self) -> Vec<f64> {
        self.edges.windows(2).map(|e| 0.5 * (e[0] + e[1])).collect()
    }
}

/// r(θ) = offset + depth · cos(θ − preferred) (Georgopoulos et al. 1982).
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CosineFit {
    /// Preferred direction in radians, from −π to π.
    pub preferred: f64,
    /// Modulation depth in hertz.
    pub depth_hz: f64,
    /// Mean of the cosine in hertz.
    pub offset_hz: f64,
    /// Share of the variance of the bins' rates that the cosine explains; each bin counts by its time.
    pub r2: f64,
}

/// Summary of one channel's tuning curve.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Curve {
    /// The channel.
    pub channel: usize,
    /// Mean rate in hertz over the bins with a rate, by their time.
    pub mean_hz: f64,
    /// Highest rate in hertz.
    pub peak_hz: f64,
    /// Bin of the highest rate: the first of equal ones; `None` if no bin has a rate.
    pub peak_bin: Option<usize>,
    /// Information about the bin in bits per spike (Skaggs et al. 1993): Σ p (r / r̄) log₂ (r / r̄), p the share of time. NaN
    /// without spikes. Few spikes bias it upwards.
    pub bits_per_spike: f64,
    /// Cosine fitted to the rates by least squares; only of a direction, with at least three bins that have a rate.
    pub cosine: Option<CosineFit>,
}

/// Firing rates as a function of behaviour.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TuningCurves {
    /// One axis; two for a map.
    pub axes: Vec<Axis>,
    /// The channels, as given.
    pub channels: Vec<usize>,
    /// Time in each bin in seconds. Of a map row-major (y, x).
    pub occupancy_seconds: Vec<f64>,
    /// Rates in hertz, row-major (channels, bins); NaN for bins with too little time.
    pub rate_hz: Vec<f64>,
    /// A summary of each channel.
    pub curves: Vec<Curve>,
    /// Steps in segments that have no value: their lag reaches beyond the segment.
    pub steps_without_value: usize,
    /// Steps in segments whose value is outside the range, or that are slower than the least speed.
    pub steps_outside: usize,
}

impl TuningCurves {
    /// Number of bins.
    pub const fn bins(&self) -> usize {
        self.occupancy_seconds.len()
    }

    /// Rates of the channel at `position` of [`TuningCurves::channels`].
    ///
    /// # Panics
    /// If `position` is out of range.
    pub fn rate_of(&self, position: usize) -> &[f64] {
        &self.rate_hz[position * self.bins()..(position + 1) * self.bins()]
    }
}

/// Firing rates of `channels` in bins of `variable`: spikes in the steps of a bin / time in the bin.
///
/// The value of a step is the behaviour at its end ([`Recording::align_with`](betz_recording::Recording::align_with)),
/// [`lag_steps`](TuningOptions::lag_steps) later. Only steps inside segments count. Allocates one value per channel and bin,
/// and two per step.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for channels or outputs that are not there, fewer than two bins, and a range that is
/// none; [`ErrorKind::InsufficientData`] if no step has a value in the range.
///
/// ```
/// use betz_explore::{TuningOptions, Variable, tuning};
/// # use betz_recording::{Dataset, Segment, Spikes};
/// # fn main() -> betz_base::Result<()> {
/// // Four steps of 0.5 s: the channel fires twice in each step at x = 1, and never at x = 0.
/// let dataset = Dataset {
///     step_seconds: 0.5,
///     steps: 4,
///     channel_names: vec!["a".into()],
///     spikes: Spikes::new(vec![2, 2, 3, 3], vec![0; 4]),
///     segments: vec![Segment { start: 0, stop: 4 }],
///     outputs: vec!["x".into()],
///     behavior: vec![0.0, 0.0, 1.0, 1.0],
/// };
/// let options = TuningOptions { bins: 2, ..TuningOptions::default() };
/// let curves = tuning(&dataset, &[0], Variable::Output(0), &options)?;
/// assert_eq!(curves.occupancy_seconds, [1.0, 1.0]);
/// assert_eq!(curves.rate_hz, [0.0, 4.0]);
/// assert_eq!(curves.curves[0].bits_per_spike, 1.0);
/// # Ok(())
/// # }
/// ```
pub fn tuning(
    dataset: &Dataset,
    channels: &[usize],
    variable: Variable,
    options: &TuningOptions,
) -> Result<TuningCurves> {
    dataset.check()?;
    check::check_channels(channels, dataset.channels())?;
    check_options(dataset, variable, options)?;
    let bins = match variable {
        Variable::Map { .. } => options.bins.saturating_mul(options.bins),
        _ => options.bins,
    };
    let size = check::values("tuning curves", channels.len(), bins)?;
    let values = Values::new(dataset, variable, options);
    if values.of_steps.is_empty() {
        return Err(no_steps(values.missing, values.slow));
    }
    let axes = axes(dataset, variable, options, &values)?;
    let mut found = TuningCurves {
        axes,
        channels: channels.to_vec(),
        occupancy_seconds: vec![0.0; bins],
        rate_hz: vec![0.0; size],
        curves: Vec::new(),
        steps_without_value: values.missing,
        steps_outside: values.slow,
    };
    let positions = check::positions(channels, dataset.channels());
    for &(step, value) in &values.of_steps {
        let Some(bin) = bin_of(&found.axes, value) else {
            found.steps_outside += 1;
            continue;
        };
        found.occupancy_seconds[bin] += dataset.step_seconds;
        for i in dataset.spikes.range(step, step + 1) {
            for &p in &positions[dataset.spikes.channels[i] as usize] {
                found.rate_hz[p * bins + bin] += f64::from(dataset.spikes.weight(i));
            }
        }
    }
    if found
        .occupancy_seconds
        .iter()
        .all(|&seconds| seconds == 0.0)
    {
        return Err(no_steps(found.steps_without_value, found.steps_outside));
    }
    for (i, rate) in found.rate_hz.iter_mut().enumerate() {
        let seconds = found.occupancy_seconds[i % bins];
        *rate = match seconds > 0.0 && seconds >= options.min_occupancy_seconds {
            true => *rate / seconds,
            false => f64::NAN,
        };
    }
    let direction = matches!(variable, Variable::Direction { .. });
    found.curves = (0..channels.len())
        .map(|p| summary(&found, p, direction))
        .collect();
    Ok(found)
}

fn no_steps(missing: usize, outside: usize) -> Error {
    Error::new(
        ErrorKind::InsufficientData,
        format!(
            "tuning: expected steps with a value in the range, got none: the lag takes {missing} out of their segment, {outside} are outside the range or too slow"
        ),
    )
}

fn check_options(dataset: &Dataset, variable: Variable, options: &TuningOptions) -> Result<()> {
    let outputs = match variable {
        Variable::Output(output) => [output, output],
        Variable::Direction { x, y, .. }
        | Variable::Speed { x, y, .. }
        | Variable::Map { x, y } => [x, y],
    };
    let of = dataset.outputs.len();
    if let Some(output) = outputs.iter().find(|output| **output >= of) {
        return Err(Error::argument(format!(
            "tuning: expected outputs below {of}, got output {output}"
        )));
    }
    if options.bins < 2 {
        return Err(Error::argument(format!(
            "tuning: expected at least 2 bins, got {}",
            options.bins
        )));
    }
    if let Some((low, high)) = options.range
        && !(low.is_finite() && high.is_finite() && low < high)
    {
        return Err(Error::argument(format!(
            "tuning: expected a range with its lower end first, got {low} to {high}"
        )));
    }
    for (name, limit) in [
        ("least speed", options.min_speed),
        ("least time in a bin", options.min_occupancy_seconds),
    ] {
        if !(limit.is_finite() && limit >= 0.0) {
            return Err(Error::argument(format!(
                "tuning: {name}: expected a finite number of at least 0, got {limit}"
            )));
        }
    }
    Ok(())
}

/// The variable at each step that has a value.
struct Values {
    of_steps: Vec<(i64, [f64; 2])>,
    /// Steps whose lag reaches beyond their segment.
    missing: usize,
    /// Steps slower than the least speed.
    slow: usize,
}

impl Values {
    fn new(dataset: &Dataset, variable: Variable, options: &TuningOptions) -> Self {
        let mut values = Self {
            of_steps: Vec::with_capacity(dataset.steps_in_segments()),
            missing: 0,
            slow: 0,
        };
        for segment in &dataset.segments {
            for step in segment.start..segment.stop {
                let at = step.saturating_add(options.lag_steps);
                if !(segment.start..segment.stop).contains(&at) {
                    values.missing += 1;
                    continue;
                }
                match value(dataset, segment, at, variable, options.min_speed) {
                    Some(value) => values.of_steps.push((step, value)),
                    None => values.slow += 1,
                }
            }
        }
        values
    }
}

/// The variable at step `at` of `segment`; `None` for a direction of a vector that is too short.
fn value(
    dataset: &Dataset,
    segment: &Segment,
    at: i64,
    variable: Variable,
    min_speed: f64,
) -> Option<[f64; 2]> {
    let output = |step: i64, o: usize| {
        f64::from(dataset.behavior[step as usize * dataset.outputs.len() + o])
    };
    let component = |o: usize, of: VectorSource| match of {
        VectorSource::Values => output(at, o),
        VectorSource::Derivative => {
            let (from, to) = ((at - 1).max(segment.start), (at + 1).min(segment.stop - 1));
            match to > from {
                true => {
                    (output(to, o) - output(from, o)) / ((to - from) as f64 * dataset.step_seconds)
                }
                false => 0.0,
            }
        }
    };
    match variable {
        Variable::Output(o) => Some([output(at, o), 0.0]),
        Variable::Map { x, y } => Some([output(at, x), output(at, y)]),
        Variable::Speed { x, y, of } => Some([component(x, of).hypot(component(y, of)), 0.0]),
        Variable::Direction { x, y, of } => {
            let [x, y] = [component(x, of), component(y, of)];
            let speed = x.hypot(y);
            (speed > 0.0 && speed >= min_speed).then(|| [y.atan2(x), 0.0])
        }
    }
}

fn axes(
    dataset: &Dataset,
    variable: Variable,
    options: &TuningOptions,
    values: &Values,
) -> Result<Vec<Axis>> {
    let name = |o: usize| dataset.outputs[o].name.clone();
    let unit = |o: usize| dataset.outputs[o].unit.clone();
    let axis = |name: String, unit: String, which: usize| {
        let range = match (variable, options.range) {
            (Variable::Direction { .. }, _) => Some((-PI, PI)),
            (_, Some(range)) => Some(range),
            _ => range_of(values.of_steps.iter().map(|(_, value)| value[which])),
        };
        let (low, high) = range.ok_or_else(|| {
            Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "tuning to {name}: expected values that differ, got the same at all of {} steps",
                    values.of_steps.len()
                ),
            )
        })?;
        let width = (high - low) / options.bins as f64;
        let mut edges: Vec<f64> = (0..=options.bins).map(|k| low + k as f64 * width).collect();
        edges[options.bins] = high;
        Ok(Axis { name, unit, edges })
    };
    Ok(match variable {
        Variable::Output(o) => vec![axis(name(o), unit(o), 0)?],
        Variable::Map { x, y } => vec![axis(name(x), unit(x), 0)?, axis(name(y), unit(y), 1)?],
        Variable::Direction { x, y, of } => {
            let name = format!("direction of {}{}, {}", moving(of), name(x), name(y));
            vec![axis(name, "rad".into(), 0)?]
        }
        Variable::Speed { x, y, of } => {
            let unit = match of {
                VectorSource::Derivative if !unit(x).is_empty() => format!("{}/s", unit(x)),
                _ => unit(x),
            };
            vec![axis(
                format!("speed of {}{}, {}", moving(of), name(x), name(y)),
                unit,
                0,
            )?]
        }
    })
}

const fn moving(of: VectorSource) -> &'static str {
    match of {
        VectorSource::Values => "",
        VectorSource::Derivative => "movement of ",
    }
}

/// The range of `values`; `None` if it has no width.
fn range_of(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    (low < high).then_some((low, high))
}

/// The bin of `value`, row-major (second axis, first axis).
fn bin_of(axes: &[Axis], value: [f64; 2]) -> Option<usize> {
    let mut bin = 0;
    for (axis, value) in axes.iter().zip(value).rev() {
        let bins = axis.edges.len() - 1;
        let at = match axis.edges.partition_point(|edge| *edge <= value) {
            0 => return None,
            at if at <= bins => at - 1,
            _ if value == axis.edges[bins] => bins - 1,
            _ => return None,
        };
        bin = bin * bins + at;
    }
    Some(bin)
}

/// Summary of the channel at `position`.
fn summary(found: &TuningCurves, position: usize, direction: bool) -> Curve {
    let rates = found.rate_of(position);
    let known = || (rates.iter().zip(&found.occupancy_seconds)).filter(|(rate, _)| !rate.is_nan());
    let seconds: f64 = known().map(|(_, seconds)| seconds).sum();
    let mean = known().map(|(rate, seconds)| rate * seconds).sum::<f64>() / seconds;
    let information = |(rate, time): (&f64, &f64)| match *rate > 0.0 {
        true => time / seconds * (rate / mean) * (rate / mean).log2(),
        false => 0.0,
    };
    let mut peak: Option<usize> = None;
    for (bin, rate) in rates.iter().enumerate() {
        if !rate.is_nan() && peak.is_none_or(|peak| *rate > rates[peak]) {
            peak = Some(bin);
        }
    }
    Curve {
        channel: found.channels[position],
        mean_hz: mean,
        peak_hz: peak.map_or(f64::NAN, |bin| rates[bin]),
        peak_bin: peak,
        bits_per_spike: match mean > 0.0 {
            true => known().map(information).sum(),
            false => f64::NAN,
        },
        cosine: direction
            .then(|| cosine(&found.axes[0], rates, &found.occupancy_seconds, mean))
            .flatten(),
    }
}

/// offset + a cos θ + b sin θ, fitted to the rates at the bins' centres by least squares, each bin by its time. A bin
/// averages the cosine over its width w, which lowers it by sin(w/2) / (w/2): the depth is corrected for that.
fn cosine(axis: &Axis, rates: &[f64], seconds: &[f64], mean: f64) -> Option<CosineFit> {
    let mut normal = [[0.0; 4]; 3];
    let mut bins = 0;
    let known = || {
        let all = axis.centres().into_iter().zip(rates).zip(seconds);
        all.filter(|((_, rate), _)| !rate.is_nan())
            .map(|((angle, rate), seconds)| (angle, *rate, *seconds))
    };
    for (angle, rate, seconds) in known() {
        let row = [1.0, angle.cos(), angle.sin(), rate];
        for (i, sums) in normal.iter_mut().enumerate() {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += seconds * row[i] * value;
            }
        }
        bins += 1;
    }
    if bins < 3 {
        return None;
    }
    let [offset, a, b] = solve(normal)?;
    let (mut left, mut all) = (0.0, 0.0);
    for (angle, rate, seconds) in known() {
        left += seconds * (rate - offset - a * angle.cos() - b * angle.sin()).powi(2);
        all += seconds * (rate - mean).powi(2);
    }
    let half = 0.5 * TAU / rates.len() as f64;
    Some(CosineFit {
        preferred: b.atan2(a),
        depth_hz: a.hypot(b) * half / half.sin(),
        offset_hz: offset,
        r2: match all > 0.0 {
            true => 1.0 - left / all,
            false => f64::NAN,
        },
    })
}

/// Solves three equations by elimination with pivots; `None` if they are singular.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot =
            (column..3).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()))?;
        rows.swap(column, pivot);
        let scale = rows[column][column];
        if scale.is_nan() || scale.abs() <= 1e-12 * rows[0][0].abs() {
            return None;
        }
        let chosen = rows[column];
        for (i, row) in rows.iter_mut().enumerate() {
            if i != column {
                let factor = row[column] / scale;
                for (value, of_pivot) in row.iter_mut().zip(chosen) {
                    *value -= factor * of_pivot;
                }
            }
        }
    }
    Some([0, 1, 2].map(|i| rows[i][3] / rows[i][i]))
}
