//! A clusterless place decoder at work, step by step.

use std::ops::Deref;

use super::{ClusterlessPlace, Group, MAX_FEATURES};
use betz_base::error::Result;
use betz_runtime::model::Belief;

/// Components whose density is below this share of the nearest one's add nothing.
const NEGLIGIBLE: f32 = 1e-6;

/// Lowest intensity per step, before its logarithm is taken.
const LEAST: f32 = 1e-30;

/// A [`ClusterlessPlace`] at work: a reference to it, or an `Arc` of it. Opening allocates; spikes and steps do not.
///
/// [`step`](Self::step) takes all spikes of a step. Or call [`add_spike`](Self::add_spike) for every spike, and then
/// [`finish_step`](Self::finish_step).
#[derive(Debug, Clone)]
pub struct ClusterlessSession<M> {
    model: M,
    groups: Vec<Kernels>,
    belief: Belief,
    log_likelihood: Vec<f64>,
    /// Intensity of one spike in each cell.
    intensity: Vec<f32>,
    densities: Vec<f32>,
    left_out: u64,
}

/// Numbers of a group that follow from its variances.
#[derive(Debug, Clone)]
struct Kernels {
    /// 1 / (2 v), (component, column).
    sharpness: Vec<f32>,
    /// −½ Σ ln v of each component.
    norms: Vec<f32>,
}

impl Kernels {
    fn new(group: &Group) -> Self {
        let rows = group.variances.chunks_exact(group.columns.len().max(1));
        let norm = |v: &[f32]| -0.5 * v.iter().map(|v| v.ln()).sum::<f32>();
        Self {
            sharpness: group.variances.iter().map(|v| 0.5 / v).collect(),
            norms: rows.map(norm).collect(),
        }
    }
}

impl ClusterlessPlace {
    /// Opens a session at rest.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) if the parts do not fit together.
    pub fn session(&self) -> Result<ClusterlessSession<&Self>> {
        ClusterlessSession::open(self)
    }
}

impl<M: Deref<Target = ClusterlessPlace>> ClusterlessSession<M> {
    /// Opens a session of `model` at rest.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) if the parts do not fit together.
    pub fn open(model: M) -> Result<Self> {
        let groups: Vec<Kernels> = model.groups.iter().map(Kernels::new).collect();
        let most = groups.iter().map(|g| g.norms.len()).max().unwrap_or(0);
        Ok(Self {
            belief: Belief::new(&model.place, model.outputs.len())?,
            log_likelihood: model.ground.iter().map(|g| -g).collect(),
            intensity: vec![0.0; model.ground.len()],
            densities: vec![0.0; most],
            model,
            groups,
            left_out: 0,
        })
    }

    /// The model.
    pub fn model(&self) -> &ClusterlessPlace {
        &self.model
    }

    /// One step with the spikes of `channels` and their `features`, one row per spike. Returns the mean of the outputs
    /// and the probability of every cell. A spike without its row, or one that [`add_spike`](Self::add_spike) would
    /// leave out, is counted. The cost grows with the number of spikes alone.
    pub fn step(&mut self, channels: &[u32], features: &[f32]) -> (&[f64], &[f64]) {
        let columns = self.model.features;
        let mut rows = features.chunks_exact(columns);
        for &channel in channels {
            self.add_spike(channel as usize, rows.next().unwrap_or(&[]));
        }
        self.finish_step()
    }

    /// Adds a spike of the current step, with the features of its channel. Returns false for a spike that is left out:
    /// its channel had no spikes in training, or a feature is missing or not finite.
    pub fn add_spike(&mut self, channel: usize, features: &[f32]) -> bool {
        let (Some(kernels), Some(group)) =
            (self.groups.get(channel), self.model.groups.get(channel))
        else {
            self.left_out += 1;
            return false;
        };
        let d = group.columns.len();
        let mut own = [0.0_f32; MAX_FEATURES];
        let mut complete = d > 0;
        for (own, column) in own.iter_mut().zip(&group.columns) {
            *own = features.get(*column as usize).copied().unwrap_or(f32::NAN);
            complete &= own.is_finite();
        }
        if !complete {
            self.left_out += 1;
            return false;
        }
        let densities = &mut self.densities[..kernels.norms.len()];
        let mut most = f32::NEG_INFINITY;
        let components = group
            .means
            .chunks_exact(d)
            .zip(kernels.sharpness.chunks_exact(d));
        for ((density, norm), (mean, sharpness)) in
            densities.iter_mut().zip(&kernels.norms).zip(components)
        {
            let mut sum = *norm;
            for ((a, m), s) in own.iter().zip(mean).zip(sharpness) {
                sum -= (a - m) * (a - m) * s;
            }
            *density = sum;
            most = most.max(sum);
        }
        self.intensity.fill(0.0);
        let cells = self.intensity.len();
        for (density, rates) in densities.iter().zip(group.rates.chunks_exact(cells)) {
            let weight = (density - most).exp();
            if weight > NEGLIGIBLE {
                let both = self.intensity.iter_mut().zip(rates);
                both.for_each(|(sum, rate)| *sum += weight * rate);
            }
        }
        let trust = self.model.shape.trust;
        for (sum, intensity) in self.log_likelihood.iter_mut().zip(&self.intensity) {
            *sum += trust * f64::from(intensity.max(LEAST).ln());
        }
        true
    }

    /// Ends the step. Returns the mean of the outputs and the probability of every cell.
    pub fn finish_step(&mut self) -> (&[f64], &[f64]) {
        let (p, mean) = self.belief.step(&self.log_likelihood);
        for (sum, ground) in self.log_likelihood.iter_mut().zip(&self.model.ground) {
            *sum = -ground;
        }
        (mean, p)
    }

    /// Probability of every cell after the last step; all 0 at rest.
    pub fn posterior(&self) -> &[f64] {
        self.belief.posterior()
    }

    /// Counts `spikes` that the caller does not add.
    pub const fn leave_out(&mut self, spikes: u64) {
        self.left_out = self.left_out.saturating_add(spikes);
    }

    /// Number of spikes that were left out since the session was opened.
    pub const fn spikes_left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns to rest, as at a trial's start. Spikes of an unfinished step are forgotten.
    pub fn reset(&mut self) {
        for (sum, ground) in self.log_likelihood.iter_mut().zip(&self.model.ground) {
            *sum = -ground;
        }
        self.belief.reset();
    }
}
