//! One pass over steps: features, block by block.

use pulp::Arch;
use rayon::prelude::*;

use super::filtered::FilteredSums;
use super::{Basis, cuda, decay};
use betz_base::error::Result;
use betz_base::progress::{self, Progress};
use betz_device::Placement;
use betz_gram::NormalEquations;
use betz_gram::gram::dense::dot;
use betz_gram::gram::paired_steps;
use betz_gram::gram::product::LowerProduct;
use betz_recording::DatasetView;

/// Steps whose features are in memory together. No multiple of a page: rows of a power of two would all lie in the same
/// few sets of the first cache, and a low-pass along several of them would find none of them there.
const BLOCK: usize = 2000;

/// Neighbouring steps closer than this say the same twice: sums take every n-th.
const SPACING_SECONDS: f64 = 0.02;

/// Latents of a recording, and which steps count.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    /// Clock, segments and outputs.
    pub(crate) data: DatasetView<'a>,
    /// Latents that are used: the first of a row.
    pub(crate) latents: usize,
    /// Latents in a row of `z`.
    pub(crate) row: usize,
    /// (step, latent) row-major; those outside segments are not read.
    pub(crate) z: &'a [f32],
    /// The output at step t goes with the behaviour at t − delay.
    pub(crate) delay_steps: i64,
    /// Longest norm of the latents: those beyond are scaled back to it.
    pub(crate) radius: f64,
    /// Devices that may compute sums; `None` for the CPU.
    pub(crate) placement: Option<&'a Placement>,
}

/// Features of a [`Walk`].
pub(crate) struct Pass<'a> {
    walk: Walk<'a>,
    basis: &'a dyn Basis,
    /// ḡ, one per feature; empty: 0.
    mean: &'a [f64],
    /// Time constants of the low-passes behind the features, each giving all of them once more.
    filters: Vec<f64>,
}

/// Columns of a block.
struct Column {
    step: usize,
    /// The segment begins here.
    fresh: bool,
    wanted: bool,
}

impl<'a> Pass<'a> {
    /// Features of `basis` about `mean`, and again behind low-passes of `filters` seconds.
    pub(crate) fn new(
        walk: Walk<'a>,
        basis: &'a dyn Basis,
        mean: &'a [f64],
        filters: &[f64],
    ) -> Self {
        Self {
            walk,
            basis,
            mean,
            filters: filters.to_vec(),
        }
    }

    pub(super) fn outputs(&self) -> usize {
        self.walk.data.outputs.len()
    }

    /// Steps of the recording.
    pub(super) fn steps(&self) -> usize {
        self.walk.data.steps
    }

    /// The behaviour that goes with the features of `step`, which has a partner.
    pub(super) fn truth(&self, step: usize) -> &[f32] {
        let outputs = self.outputs();
        let row = (step as i64 - self.walk.delay_steps) as usize * outputs;
        &self.walk.data.behavior[row..row + outputs]
    }

    /// Features there are with all filters.
    pub(crate) fn features(&self) -> usize {
        self.basis.width() * (1 + self.filters.len())
    }

    /// Hands out the features, (feature, step), of all steps for which `wants` holds, with the steps.
    /// Filters run over every step of a segment that has such a step.
    ///
    /// # Errors
    /// Returns the errors of `each`, and [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
    pub(crate) fn blocks(
        &self,
        wants: &(dyn Fn(usize) -> bool + Sync),
        progress: &dyn Progress,
        mut each: impl FnMut(&[usize], &[f32]) -> Result<()>,
    ) -> Result<()> {
        let data = self.walk.data;
        let r = self.walk.latents;
        let mut columns: Vec<Column> = Vec::with_capacity(BLOCK);
        let mut states = vec![0.0_f32; self.basis.width() * self.filters.len()];
        let mut latent_state = vec![0.0_f32; r];
        let mut room = Room::default();
        let mut flush = |columns: &mut Vec<Column>| -> Result<()> {
            progress::check(progress, "readout")?;
            self.block(columns, &mut latent_state, &mut states, &mut room);
            if !room.steps.is_empty() {
                let all = room.steps.len() == columns.len();
                each(&room.steps, if all { &room.features } else { &room.kept })?;
            }
            columns.clear();
            Ok(())
        };
        for segment in data.segments {
            let steps = segment.start as usize..segment.stop as usize;
            if !steps.clone().any(wants) {
                continue;
            }
            for step in steps {
                columns.push(Column {
                    step,
                    fresh: step == segment.start as usize,
                    wanted: wants(step),
                });
                if columns.len() == BLOCK {
                    flush(&mut columns)?;
                }
            }
        }
        if columns.is_empty() {
            return Ok(());
        }
        flush(&mut columns)
    }

    /// The features of one block, those that are wanted in `room`.
    fn block(
        &self,
        columns: &[Column],
        latent_state: &mut [f32],
        states: &mut [f32],
        room: &mut Room,
    ) {
        let (n, r, width) = (columns.len(), self.walk.latents, self.basis.width());
        let step_seconds = self.walk.data.step_seconds;
        room.z.resize(r * n, 0.0);
        for (column, c) in columns.iter().enumerate() {
            let z = &self.walk.z[c.step * self.walk.row..][..r];
            let norm = z.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
            let shrink = if norm > self.walk.radius {
                self.walk.radius / norm
            } else {
                1.0
            };
            for (i, v) in z.iter().enumerate() {
                room.z[i * n + column] = (f64::from(*v) * shrink) as f32;
            }
        }
        room.filtered.clear();
        if let Some(tau) = self.basis.latent_filter_seconds() {
            room.filtered.resize(r * n, 0.0);
            let rho = decay(tau, step_seconds) as f32;
            low_pass(rho, columns, &room.z, latent_state, &mut room.filtered);
        }
        room.features.resize(self.features() * n, 0.0);
        let (own, behind) = room.features.split_at_mut(width * n);
        self.basis.fill(&room.z, &room.filtered, n, own);
        if !self.mean.is_empty() {
            (own.par_chunks_exact_mut(n).zip(self.mean)).for_each(|(row, mean)| {
                row.iter_mut().for_each(|v| *v -= *mean as f32);
            });
        }
        let own = &*own;
        for ((tau, behind), states) in (self.filters.iter())
            .zip(behind.chunks_exact_mut((width * n).max(1)))
            .zip(states.chunks_exact_mut(width.max(1)))
        {
            let rho = decay(*tau, step_seconds) as f32;
            let rows = (own.par_chunks(ROWS * n)).zip(behind.par_chunks_mut(ROWS * n));
            rows.zip(states.par_chunks_mut(ROWS))
                .for_each(|((own, behind), states)| {
                    low_pass(rho, columns, own, states, behind);
                });
        }
        room.steps.clear();
        room.steps
            .extend(columns.iter().filter(|c| c.wanted).map(|c| c.step));
        let kept = room.steps.len();
        if kept == 0 || kept == n {
            return;
        }
        room.kept.resize(self.features() * kept, 0.0);
        let rows = room
            .features
            .par_chunks_exact(n)
            .zip(room.kept.par_chunks_exact_mut(kept));
        rows.with_min_len(16).for_each(|(row, kept)| {
            let wanted = row.iter().zip(columns).filter(|(_, c)| c.wanted);
            kept.iter_mut().zip(wanted).for_each(|(k, (v, _))| *k = *v);
        });
    }

    /// The steps of `counts` that lie apart enough and have a partner.
    pub(crate) fn sampled<'b>(
        &'b self,
        counts: &'b (dyn Fn(usize) -> bool + Sync),
    ) -> impl Fn(usize) -> bool + Sync + 'b {
        let data = self.walk.data;
        let stride = (SPACING_SECONDS / data.step_seconds + 1e-9)
            .floor()
            .max(1.0) as usize;
        let mut paired = vec![false; data.steps];
        for segment in data.segments {
            if let Some((first, stop)) = paired_steps(segment, self.walk.delay_steps) {
                (first as usize..stop as usize)
                    .step_by(stride)
                    .for_each(|step| paired[step] = true);
            }
        }
        move |step| paired[step] && counts(step)
    }

    /// The sums of the features and the outputs over the steps for which `counts` holds; on a device where that is
    /// expected to take less time.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted); those of the device.
    pub(crate) fn sums(
        &self,
        counts: &(dyn Fn(usize) -> bool + Sync),
        progress: &dyn Progress,
    ) -> Result<NormalEquations> {
        let (data, features) = (self.walk.data, self.features());
        let outputs = data.outputs.len();
        let mut sums = NormalEquations::zeros(features, outputs);
        let wants = self.sampled(counts);
        if let Some(placement) = self.walk.placement {
            let steps = (0..data.steps).filter(|&step| wants(step)).count();
            if let Some(context) = cuda::chosen(placement, features, steps) {
                let found = cuda::sums(context, self, &wants, progress);
                if let Some(found) = placement.or_cpu(found)? {
                    return Ok(found);
                }
            }
        }
        let mut filtered = self.filtered_sums(&wants);
        let mut product = match &filtered {
            Some(_) => LowerProduct::of_first_columns(features, self.basis.width()),
            None => LowerProduct::new(features),
        };
        self.blocks(&wants, progress, |steps, values| {
            product.multiply(values);
            product.add_to(&mut sums.gram);
            self.add_outputs(steps, values, &mut sums);
            if let Some(filtered) = &mut filtered {
                filtered.add_last(steps, values);
            }
            Ok(())
        })?;
        if let Some(filtered) = filtered {
            filtered.complete(&mut sums.gram);
        }
        for i in 0..features {
            for j in 0..i {
                sums.gram[j * features + i] = sums.gram[i * features + j];
            }
        }
        Ok(sums)
    }

    /// Room for sums of filtered features that follow from others. `None` without filters, and if other steps than the
    /// first of each segment count.
    fn filtered_sums(&self, wants: &dyn Fn(usize) -> bool) -> Option<FilteredSums> {
        let data = self.walk.data;
        let mut is_last = vec![false; data.steps];
        for segment in data.segments {
            let mut steps = segment.start as usize..segment.stop as usize;
            let counting = steps.clone().take_while(|&step| wants(step)).count();
            if steps.any(|step| wants(step) && step >= segment.start as usize + counting) {
                return None;
            }
            if counting > 0 {
                is_last[segment.start as usize + counting - 1] = true;
            }
        }
        let kept = |tau: &f64| f64::from(decay(*tau, data.step_seconds) as f32);
        let kept: Vec<f64> = self.filters.iter().map(kept).collect();
        (!kept.is_empty()).then(|| FilteredSums::new(self.basis.width(), kept, is_last))
    }

    /// Adds the block's part of Υ and of the plain sums.
    fn add_outputs(&self, steps: &[usize], values: &[f32], sums: &mut NormalEquations) {
        let (n, outputs) = (steps.len(), sums.outputs);
        // A row of ones gives the sums of the features.
        let mut x = vec![1.0; (1 + outputs) * n];
        for (column, &step) in steps.iter().enumerate() {
            for (o, &value) in self.truth(step).iter().enumerate() {
                let value = f64::from(value);
                x[(1 + o) * n + column] = value;
                sums.output_sum[o] += value;
                sums.output_sq_sum[o] += value * value;
            }
        }
        sums.steps += n as u64;
        let sums =
            (sums.feature_sum.par_iter_mut()).zip(sums.upsilon.par_chunks_exact_mut(outputs));
        let arch = Arch::new();
        (values.par_chunks_exact(n).zip(sums))
            .with_min_len(16)
            .for_each(|(row, (sum, upsilon))| {
                arch.dispatch(|| {
                    let to = std::iter::once(sum).chain(upsilon);
                    to.zip(x.chunks_exact(n))
                        .for_each(|(to, x)| *to += dot(row, x));
                });
            });
    }

    /// Estimates at the steps for which `counts` holds, by `weights` (features × outputs) and
    /// `intercept`, written to `estimates`, (steps, outputs).
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
    pub(crate) fn estimate(
        &self,
        (weights, intercept): (&[f64], &[f64]),
        counts: &(dyn Fn(usize) -> bool + Sync),
        estimates: &mut [f32],
        progress: &dyn Progress,
    ) -> Result<()> {
        let outputs = intercept.len();
        self.blocks(counts, progress, |steps, values| {
            let n = steps.len();
            let arch = Arch::new();
            let of_output = |o: usize| -> Vec<f64> {
                let mut sum = vec![intercept[o]; n];
                arch.dispatch(|| {
                    let rows = values.chunks_exact(n).zip(weights.chunks_exact(outputs));
                    for (row, weights) in rows {
                        let w = weights[o];
                        sum.iter_mut()
                            .zip(row)
                            .for_each(|(s, v)| *s += w * f64::from(*v));
                    }
                });
                sum
            };
            let columns: Vec<Vec<f64>> = (0..outputs).into_par_iter().map(of_output).collect();
            for (o, column) in columns.iter().enumerate() {
                for (step, value) in steps.iter().zip(column) {
                    estimates[step * outputs + o] = *value as f32;
                }
            }
            Ok(())
        })
    }
}

/// ḡ: the mean of `basis`'s features over the steps for which `counts` holds (every n-th, where steps lie
/// close).
///
/// # Errors
/// [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
pub(crate) fn mean_of(
    walk: Walk<'_>,
    basis: &dyn Basis,
    counts: &(dyn Fn(usize) -> bool + Sync),
    progress: &dyn Progress,
) -> Result<Vec<f64>> {
    let pass = Pass::new(walk, basis, &[], &[]);
    let mut sums = vec![0.0; basis.width()];
    let mut count = 0_u64;
    let wants = pass.sampled(counts);
    pass.blocks(&wants, progress, |steps, values| {
        count += steps.len() as u64;
        let (arch, ones) = (Arch::new(), vec![1.0; steps.len()]);
        (sums
            .par_iter_mut()
            .zip(values.par_chunks_exact(steps.len())))
        .with_min_len(16)
        .for_each(|(sum, row)| *sum += arch.dispatch(|| dot(row, &ones)));
        Ok(())
    })?;
    sums.iter_mut().for_each(|s| *s /= count.max(1) as f64);
    Ok(sums)
}

/// Room for one block.
#[derive(Default)]
struct Room {
    z: Vec<f32>,
    filtered: Vec<f32>,
    features: Vec<f32>,
    kept: Vec<f32>,
    steps: Vec<usize>,
}

/// Rows that a low-pass runs along together: a step of one waits for the step before, those of others do not.
const ROWS: usize = 8;

/// s ← ρs + (1 − ρ)x along each row, (row, column); from rest where a segment begins.
fn low_pass(rho: f32, columns: &[Column], x: &[f32], states: &mut [f32], y: &mut [f32]) {
    let n = columns.len();
    let rows = x.chunks(ROWS * n).zip(y.chunks_mut(ROWS * n));
    for ((x, y), states) in rows.zip(states.chunks_mut(ROWS)) {
        if states.len() == ROWS {
            low_pass_rows::<ROWS>(rho, columns, x, states, y);
            continue;
        }
        let rows = x.chunks(n).zip(y.chunks_mut(n));
        for ((x, y), state) in rows.zip(states.chunks_mut(1)) {
            low_pass_rows::<1>(rho, columns, x, state, y);
        }
    }
}

/// [`low_pass`] along `N` rows.
fn low_pass_rows<const N: usize>(
    rho: f32,
    columns: &[Column],
    x: &[f32],
    states: &mut [f32],
    y: &mut [f32],
) {
    let n = columns.len();
    let gain = 1.0 - rho;
    let mut s = [0.0; N];
    s.copy_from_slice(states);
    for (i, column) in columns.iter().enumerate() {
        if column.fresh {
            s = [0.0; N];
        }
        for (row, s) in s.iter_mut().enumerate() {
            *s = rho * *s + gain * x[row * n + i];
            y[row * n + i] = *s;
        }
    }
    states.copy_from_slice(&s);
}
