//! Fields: the rate of every channel in every cell.

use super::Config;
use super::grid::{Grid, gaussian};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_gram::gram::paired_steps;
use betz_recording::DatasetView;
use betz_runtime::model::Place;
use rayon::prelude::*;

/// Seconds at the mean rate that every place is taken to have been visited for.
pub(super) const PRIOR_SECONDS: f64 = 0.05;

/// No rate is taken for less.
const LEAST_HZ: f64 = 1e-3;

/// A place is a cell where at least this share of a Gaussian of one cell was visited.
pub(super) const VISITED: f64 = 0.05;

/// Most cells that a walk reaches.
pub(super) const MOST_REACH: usize = 64;

/// Firing fields of all channels, from one training set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fields {
    pub(super) grid: Grid,
    /// Places of the grid that are cells, ascending.
    pub(super) cells: Vec<usize>,
    /// Share of the time, one per cell.
    start: Vec<f64>,
    /// Outputs in each cell, (cell, output).
    values: Vec<f64>,
    /// log λ, counts a step, (channel, cell).
    log_rates: Vec<f64>,
    /// Σ λ over channels, one per cell.
    total: Vec<f64>,
    /// Root of the mean square movement from step to step along an axis, in cells.
    movement: f64,
    step_seconds: f64,
}

/// Place of a step that no decoder is trained on.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Spikes of every channel at every place, (channel, place) row-major; `place_of` names each step's place.
///
/// # Errors
/// [`ErrorKind::InvalidRecording`] for a channel that counts less than 0.
fn count_spikes(data: &DatasetView<'_>, place_of: &[u32], places: usize) -> Result<Vec<f64>> {
    let mut counts = vec![0.0; data.channels() * places];
    for (i, (&tick, &channel)) in data
        .spikes
        .ticks
        .iter()
        .zip(data.spikes.channels)
        .enumerate()
    {
        let place = usize::try_from(tick).ok().and_then(|t| place_of.get(t));
        let Some(&place) = place.filter(|place| **place != NOWHERE) else {
            continue;
        };
        let weight = f64::from(data.spikes.weight(i));
        if weight < 0.0 {
            return Err(Error::recording(format!(
                "decoder of place: expected counts of spikes, got {weight} in channel {channel} ('{}')",
                data.channel_names[channel as usize]
            )));
        }
        counts[channel as usize * places + place as usize] += weight;
    }
    Ok(counts)
}

/// The estimate of log-rates from spikes and time at every place, both smoothed, with a prior of the mean.
struct LogRates<'a> {
    grid: &'a Grid,
    cells: &'a [usize],
    /// Smoothed steps at every place.
    time: &'a [f64],
    smoothing: f64,
    /// Steps at the mean rate that every place is given.
    prior_steps: f64,
    /// Lowest rate per step.
    least: f64,
    steps: f64,
}

impl LogRates<'_> {
    /// ln of spikes per step, (channel, cell) row-major, from `counts` (channel, place).
    fn of_channels(&self, counts: &[f64]) -> Vec<f64> {
        (counts.par_chunks_exact(self.time.len()))
            .flat_map_iter(|counts| {
                let mean = counts.iter().sum::<f64>() / self.steps;
                let mut counts = counts.to_vec();
                self.grid.smooth(&mut counts, self.smoothing);
                let rate = |&cell: &usize| {
                    let spikes = counts[cell] + self.prior_steps * mean;
                    float::ln((spikes / (self.time[cell] + self.prior_steps)).max(self.least))
                };
                self.cells.iter().map(rate).collect::<Vec<f64>>()
            })
            .collect()
    }
}

/// Time, outputs and movement by place.
pub(super) struct Visits {
    /// Place of each training step.
    pub(super) place_of: Vec<u32>,
    /// Steps in each place.
    pub(super) time: Vec<f64>,
    /// Sum of each output over the steps in each place.
    pub(super) sums: Vec<Vec<f64>>,
    /// Root mean square of the movement per step and axis, in places.
    pub(super) movement: f64,
}

impl Visits {
    pub(super) fn new(
        grid: &Grid,
        axes: &[usize],
        (data, steps): (&DatasetView<'_>, &[usize]),
        row: &dyn Fn(usize) -> usize,
    ) -> Self {
        let (n, places) = (data.outputs.len(), grid.places());
        let outputs = |row: usize| &data.behavior[row * n..][..n];
        let mut place_of = vec![NOWHERE; data.steps];
        let mut time = vec![0.0; places];
        let mut sums = vec![vec![0.0; places]; n];
        let (mut moved, mut moves) = (0.0, 0_u64);
        for (i, &step) in steps.iter().enumerate() {
            let x = outputs(row(step));
            let place = grid.of(x);
            place_of[step] = place as u32;
            time[place] += 1.0;
            for (sum, x) in sums.iter_mut().zip(x) {
                sum[place] += f64::from(*x);
            }
            if i > 0 && steps[i - 1] + 1 == step {
                let before = outputs(row(step - 1));
                for &o in axes {
                    moved += (f64::from(x[o] - before[o]) / grid.edge).powi(2);
                    moves += 1;
                }
            }
        }
        Self {
            place_of,
            time,
            sums,
            movement: (moved / moves.max(1) as f64).sqrt(),
        }
    }
}

/// Probability of each cell before the first step: its share of the `time`, and a thousandth of the mean share more.
pub(super) fn start(cells: &[usize], time: &[f64]) -> Vec<f64> {
    let all_time: f64 = cells.iter().map(|&c| time[c]).sum();
    let least = 1e-3 * all_time / cells.len() as f64;
    let start: Vec<f64> = cells.iter().map(|&c| time[c] + least).collect();
    let sum: f64 = start.iter().sum();
    start.iter().map(|t| t / sum).collect()
}

impl Fields {
    /// The fields over the steps of `data` for which `trains` holds and that have a partner.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] without such a step, or where the place never changes;
    /// [`ErrorKind::InvalidRecording`] for a channel that counts less than 0.
    pub(super) fn fit(
        data: &DatasetView<'_>,
        delay_steps: i64,
        trains: &dyn Fn(usize) -> bool,
        (across, smoothing): (usize, f64),
    ) -> Result<Self> {
        let axes = super::axes(data.outputs)?;
        let dt = data.step_seconds;
        let row = |step: usize| (step as i64 - delay_steps) as usize;
        let steps: Vec<usize> = (data.segments.iter())
            .filter_map(|s| paired_steps(s, delay_steps))
            .flat_map(|(first, stop)| first as usize..stop as usize)
            .filter(|&step| trains(step))
            .collect();
        if steps.is_empty() {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "decoder of place: expected steps with behaviour to train on, got none",
            ));
        }
        let rows: Vec<usize> = steps.iter().map(|&s| row(s)).collect();
        let grid = Grid::new(data, &axes, &rows, across)?;
        let places = grid.places();
        betz_base::memory::plan(
            format_args!("fields of {} channels in {places} places", data.channels()),
            data.channels() as u128 * places as u128 * 24 + data.steps as u128 * 4,
        )?;
        let Visits {
            place_of,
            mut time,
            mut sums,
            movement,
        } = Visits::new(&grid, &axes, (data, &steps), &row);
        let counts = count_spikes(data, &place_of, places)?;

        let mut visited: Vec<f64> = time.iter().map(|t| f64::from(u8::from(*t > 0.0))).collect();
        grid.smooth(&mut visited, 1.0);
        let cells: Vec<usize> = (0..places).filter(|&p| visited[p] > VISITED).collect();
        grid.smooth(&mut time, smoothing);
        sums.iter_mut().for_each(|sum| grid.smooth(sum, smoothing));
        let rates = LogRates {
            grid: &grid,
            cells: &cells,
            time: &time,
            smoothing,
            prior_steps: PRIOR_SECONDS / dt,
            least: LEAST_HZ * dt,
            steps: steps.len() as f64,
        };
        let log_rates = rates.of_channels(&counts);
        let mut total = vec![0.0; cells.len()];
        for rates in log_rates.chunks_exact(cells.len()) {
            total
                .iter_mut()
                .zip(rates)
                .for_each(|(t, r)| *t += float::exp(*r));
        }
        let values = cells.iter().flat_map(|&cell| {
            let mean = |sum: &Vec<f64>| match time[cell] > 0.0 {
                true => sum[cell] / time[cell],
                false => 0.0,
            };
            let mut values: Vec<f64> = sums.iter().map(mean).collect();
            for (&o, middle) in axes.iter().zip(grid.middle(cell)) {
                values[o] = middle;
            }
            values
        });
        Ok(Self {
            values: values.collect(),
            start: start(&cells, &time),
            movement,
            step_seconds: dt,
            grid,
            cells,
            log_rates,
            total,
        })
    }

    /// The decoder's head, the linear engine's weights, (channel, cell), and its intercepts.
    pub(super) fn decoder(&self, config: &Config) -> (Place, Vec<f64>, Vec<f64>) {
        let sigma = (config.pace * self.movement).clamp(0.05, MOST_REACH as f64 / 4.0);
        let place = Place {
            shape: self.grid.shape.iter().map(|n| *n as u64).collect(),
            cells: self.cells.iter().map(|c| *c as u64).collect(),
            start: self.start.clone(),
            walk: gaussian(sigma).iter().map(|w| *w as f32).collect(),
            jump: (config.jumps_hz * self.step_seconds).clamp(1e-6, 0.5),
            values: self.values.clone(),
        };
        let scaled = |values: &[f64], by: f64| values.iter().map(|v| v * by).collect();
        (
            place,
            scaled(&self.log_rates, config.trust),
            scaled(&self.total, -config.trust),
        )
    }
}
