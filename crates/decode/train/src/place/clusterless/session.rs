//! A clusterless place decoder at work, step by step.

use super::{ClusterlessPlace, Group, MAX_FEATURES};
use betz_base::error::Result;
use betz_runtime::model::Belief;

/// Components whose density is below this share of the nearest one's add nothing.
const NEGLIGIBLE: f32 = 1e-6;

/// Lowest intensity per step, before its logarithm is taken.
const LEAST: f32 = 1e-30;

/// A [`ClusterlessPlace`] at work. Opening allocates; spikes and steps do not.
///
/// Call [`add_spike`](Self::add_spike) for every spike of a step, and then [`finish_step`](Self::finish_step).
#[derive(Debug, Clone)]
pub struct ClusterlessSession<'a> {
    model: &'a ClusterlessPlace,
    groups: Vec<Kernels<'a>>,
    belief: Belief,
    log_likelihood: Vec<f64>,
    /// Intensity of one spike in each cell.
    intensity: Vec<f32>,
    densities: Vec<f32>,
    left_out: u64,
}

/// A group in the form that spikes use.
#[derive(Debug, Clone)]
struct Kernels<'a> {
    group: &'a Group,
    /// 1 / (2 v), (component, column).
    sharpness: Vec<f32>,
    /// −½ Σ ln v of each component.
    norms: Vec<f32>,
}

impl<'a> Kernels<'a> {
    fn new(group: &'a Group) -> Self {
        let rows = group.variances.chunks_exact(group.columns.len().max(1));
        let norm = |v: &[f32]| -0.5 * v.iter().map(|v| v.ln()).sum::<f32>();
        Self {
            sharpness: group.variances.iter().map(|v| 0.5 / v).collect(),
            norms: rows.map(norm).collect(),
            group,
        }
    }
}

impl ClusterlessPlace {
    /// Opens a session at rest.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) if the parts do not fit together.
    pub fn session(&self) -> Result<ClusterlessSession<'_>> {
        let groups: Vec<Kernels<'_>> = self.groups.iter().map(Kernels::new).collect();
        let most = groups.iter().map(|g| g.norms.len()).max().unwrap_or(0);
        Ok(ClusterlessSession {
            belief: Belief::new(&self.place, self.outputs.len())?,
            log_likelihood: self.ground.iter().map(|g| -g).collect(),
            intensity: vec![0.0; self.ground.len()],
            densities: vec![0.0; most],
            model: self,
            groups,
            left_out: 0,
        })
    }
}

impl ClusterlessSession<'_> {
    /// Adds a spike of the current step, with the features of its channel. Returns false for a spike that is left out:
    /// its channel had no spikes in training, or a feature is missing or not finite.
    pub fn add_spike(&mut self, channel: usize, features: &[f32]) -> bool {
        let Some(kernels) = self.groups.get(channel) else {
            self.left_out += 1;
            return false;
        };
        let group = kernels.group;
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

    /// Number of spikes that were left out since the session was opened.
    pub const fn spikes_left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns to rest, as at a trial's start.
    pub fn reset(&mut self) {
        self.belief.reset();
    }
}
