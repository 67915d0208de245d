//! Training of a clusterless place decoder.

use super::clusters::Clusters;
use super::{
    ClusterlessOptions, ClusterlessPlace, ClusterlessScore, ClusterlessShape, Group, SpikeFeatures,
};
use crate::place::axes;
use crate::place::fields::{MOST_REACH, NOWHERE, PRIOR_SECONDS, VISITED, Visits, start};
use crate::place::grid::{Grid, gaussian};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress};
use betz_recording::{DatasetView, Segment};
use betz_runtime::model::Place;
use rayon::prelude::*;

/// Values that are tried.
const BANDWIDTHS: [f64; 3] = [0.05, 0.15, 0.4];
const SMOOTHINGS: [f64; 2] = [1.0, 2.0];
const PACES: [f64; 2] = [1.0, 3.0];
const TRUSTS: [f64; 2] = [0.5, 1.0];

const SHAPES: usize = BANDWIDTHS.len() * SMOOTHINGS.len() * PACES.len() * TRUSTS.len();

/// Jumps anywhere, per second.
const JUMPS_HZ: f64 = 0.03;

/// Cells along the longest axis.
const CELLS: std::ops::RangeInclusive<usize> = 4..=1000;

/// Most components per electrode group.
const MAX_COMPONENTS: usize = 4096;

/// Grid, visits and components of one training set.
struct Parts {
    grid: Grid,
    visits: Visits,
    steps: f64,
    clusters: Vec<Clusters>,
}

impl ClusterlessPlace {
    /// Trains on the steps inside the segments of `data`. Bandwidth, smoothing, walk and weight have the least median
    /// distance on the last fifth of the steps, with a decoder trained on the others; the score is that distance. Then
    /// the decoder is trained on all.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the outputs are no coordinates, or for a number of components that is out of
    /// range; [`ErrorKind::InsufficientData`] without enough steps or spikes with features;
    /// [`ErrorKind::Interrupted`]; those of [`SpikeFeatures::check`].
    pub fn fit<'d>(
        data: impl Into<DatasetView<'d>>,
        features: &SpikeFeatures,
        options: &ClusterlessOptions,
        progress: &dyn Progress,
    ) -> Result<(Self, Option<ClusterlessScore>)> {
        let data = data.into();
        features.check(data.spikes)?;
        if !(1..=MAX_COMPONENTS).contains(&options.components) {
            return Err(Error::argument(format!(
                "clusterless place decoder: expected 1 to {MAX_COMPONENTS} components per electrode group, got {}",
                options.components
            )));
        }
        if !CELLS.contains(&options.cells) {
            return Err(Error::argument(format!(
                "cells: expected {} to {}, got {}",
                CELLS.start(),
                CELLS.end(),
                options.cells
            )));
        }
        if data.outputs.is_empty() {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "training: expected behaviour to decode, got none",
            ));
        }
        let all: Vec<usize> = (data.segments.iter())
            .flat_map(|s| s.start as usize..s.stop as usize)
            .collect();
        let mut score = None;
        let shape = match options.shape {
            Some(shape) => shape,
            None => {
                let (shape, found) = choose(&data, features, options, &all, progress)?;
                score = Some(found);
                shape
            }
        };
        progress::check(progress, "clusterless place decoder")?;
        let parts = Parts::new(&data, features, options, &all)?;
        let model = parts.model(&data, features.columns, shape);
        if model.components() == 0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "clusterless place decoder: expected spikes with finite features in steps with behaviour, got none",
            ));
        }
        Ok((model, score))
    }
}

/// The shape with the least median distance on the last fifth of the steps.
fn choose(
    data: &DatasetView<'_>,
    features: &SpikeFeatures,
    options: &ClusterlessOptions,
    all: &[usize],
    progress: &dyn Progress,
) -> Result<(ClusterlessShape, ClusterlessScore)> {
    let split = all.len() - all.len() / 5;
    let (train, test) = all.split_at(split);
    let Some(&first) = test.first() else {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "clusterless place decoder: expected at least 5 steps with behaviour, got {}",
                all.len()
            ),
        ));
    };
    let later: Vec<Segment> = (data.segments.iter())
        .map(|s| Segment {
            start: s.start.max(first as i64),
            stop: s.stop,
        })
        .filter(|s| s.start < s.stop)
        .collect();
    let later = data.with_segments(&later);
    let parts = Parts::new(data, features, options, train)?;
    let mut shapes = Vec::new();
    for bandwidth in BANDWIDTHS {
        for smoothing in SMOOTHINGS {
            for pace in PACES {
                let with = |trust| ClusterlessShape {
                    bandwidth,
                    smoothing,
                    pace,
                    trust,
                };
                shapes.extend(TRUSTS.map(with));
            }
        }
    }
    let axes = axes(data.outputs)?;
    let n = data.outputs.len();
    let tried: Result<Vec<f64>> = (shapes.par_iter())
        .map(|&shape| {
            progress::check(progress, "clusterless place decoder")?;
            let model = parts.model(data, features.columns, shape);
            let (estimates, _) = model.decode(later, features)?;
            let off = |&step: &usize| {
                let at = |o: &usize| {
                    f64::from(estimates[step * n + o]) - f64::from(data.behavior[step * n + o])
                };
                axes.iter().map(|o| at(o).powi(2)).sum::<f64>().sqrt()
            };
            let mut distances: Vec<f64> = test.iter().map(off).collect();
            let middle = distances.len() / 2;
            Ok(*distances.select_nth_unstable_by(middle, f64::total_cmp).1)
        })
        .collect();
    let best = tried?
        .into_iter()
        .zip(shapes)
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let (median_error, shape) = best.ok_or_else(|| {
        Error::argument("clusterless place decoder: expected shapes to try, got none")
    })?;
    Ok((
        shape,
        ClusterlessScore {
            median_error,
            steps: test.len(),
            unit: data.outputs[axes[0]].unit.clone(),
        },
    ))
}

impl Parts {
    fn new(
        data: &DatasetView<'_>,
        features: &SpikeFeatures,
        options: &ClusterlessOptions,
        steps: &[usize],
    ) -> Result<Self> {
        let axes = axes(data.outputs)?;
        if steps.is_empty() {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "clusterless place decoder: expected steps with behaviour to train on, got none",
            ));
        }
        let grid = Grid::new(data, &axes, steps, options.cells)?;
        let visits = Visits::new(&grid, &axes, (data, steps), &|step| step);
        let mut of_group = vec![Vec::new(); data.channels()];
        for (i, (&tick, &channel)) in data
            .spikes
            .ticks
            .iter()
            .zip(data.spikes.channels)
            .enumerate()
        {
            let place = usize::try_from(tick)
                .ok()
                .and_then(|t| visits.place_of.get(t));
            if place.is_some_and(|place| *place != NOWHERE) {
                of_group[channel as usize].push(i);
            }
        }
        let clusters: Vec<Clusters> = (of_group.par_iter())
            .map(|spikes| Clusters::new(features, spikes, options.components, options.seed))
            .collect();
        let components: usize = clusters.iter().map(Clusters::components).sum();
        // Shapes are compared with a model per thread; afterwards, there are the model and the bytes of its file.
        let models = match options.shape {
            Some(_) => 2,
            None => rayon::current_num_threads().clamp(2, SHAPES),
        };
        betz_base::memory::plan(
            format_args!(
                "rates of {components} components in {} places, {models} models at once",
                grid.places()
            ),
            (components * models) as u128 * grid.places() as u128 * 4,
        )?;
        Ok(Self {
            grid,
            visits,
            steps: steps.len() as f64,
            clusters,
        })
    }

    /// The decoder of these parts.
    fn model(
        &self,
        data: &DatasetView<'_>,
        features: usize,
        shape: ClusterlessShape,
    ) -> ClusterlessPlace {
        let (grid, places) = (&self.grid, self.grid.places());
        let mut visited: Vec<f64> = (self.visits.time.iter())
            .map(|t| f64::from(u8::from(*t > 0.0)))
            .collect();
        grid.smooth(&mut visited, 1.0);
        let cells: Vec<usize> = (0..places).filter(|&p| visited[p] > VISITED).collect();
        let mut time = self.visits.time.clone();
        grid.smooth(&mut time, shape.smoothing);
        let mut sums = self.visits.sums.clone();
        sums.iter_mut()
            .for_each(|sum| grid.smooth(sum, shape.smoothing));
        let values = cells.iter().flat_map(|&cell| {
            let mean = |sum: &Vec<f64>| match time[cell] > 0.0 {
                true => sum[cell] / time[cell],
                false => 0.0,
            };
            let mut values: Vec<f64> = sums.iter().map(mean).collect();
            for (&o, middle) in grid.axes.iter().zip(grid.middle(cell)) {
                values[o] = middle;
            }
            values
        });
        let sigma = (shape.pace * self.visits.movement).clamp(0.05, MOST_REACH as f64 / 4.0);
        let place = Place {
            shape: grid.shape.iter().map(|n| *n as u64).collect(),
            cells: cells.iter().map(|c| *c as u64).collect(),
            start: start(&cells, &time),
            walk: gaussian(sigma).iter().map(|w| *w as f32).collect(),
            jump: (JUMPS_HZ * data.step_seconds).clamp(1e-6, 0.5),
            values: values.collect(),
        };
        let prior = PRIOR_SECONDS / data.step_seconds;
        let groups: Vec<Group> = (self.clusters.iter())
            .map(|clusters| {
                let d = clusters.columns.len().max(1);
                let mut counts = vec![vec![0.0; places]; clusters.components()];
                for &(spike, component) in &clusters.members {
                    let step = data.spikes.ticks[spike] as usize;
                    counts[component][self.visits.place_of[step] as usize] += 1.0;
                }
                let mut rates = Vec::with_capacity(counts.len() * cells.len());
                for mut counts in counts {
                    let mean = counts.iter().sum::<f64>() / self.steps;
                    grid.smooth(&mut counts, shape.smoothing);
                    let rate = |&c: &usize| (counts[c] + prior * mean) / (time[c] + prior);
                    rates.extend(cells.iter().map(rate).map(|rate| rate as f32));
                }
                let widened = clusters.variances.iter().enumerate().map(|(i, v)| {
                    (v + (shape.bandwidth * clusters.deviations[i % d]).powi(2)) as f32
                });
                Group {
                    variances: widened.map(|v| v.max(f32::MIN_POSITIVE)).collect(),
                    columns: clusters.columns.clone(),
                    means: clusters.means.iter().map(|m| *m as f32).collect(),
                    rates,
                }
            })
            .collect();
        let mut ground = vec![0.0; cells.len()];
        for rates in groups
            .iter()
            .flat_map(|g| g.rates.chunks_exact(cells.len()))
        {
            (ground.iter_mut().zip(rates)).for_each(|(sum, r)| *sum += shape.trust * f64::from(*r));
        }
        ClusterlessPlace {
            step_seconds: data.step_seconds,
            betz_version: env!("CARGO_PKG_VERSION").to_owned(),
            outputs: data.outputs.to_vec(),
            channel_names: data.channel_names.to_vec(),
            features,
            shape,
            place,
            ground,
            groups,
        }
    }
}
