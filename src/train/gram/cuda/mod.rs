//! Γ, Υ and the sums on a CUDA device.

mod behavior;
mod coefficients;
mod dense;
mod event;
mod spikes;
mod timeline;

use super::{GramPath, NormalEquations};
use crate::device::cuda::{Buffer, Context};
use crate::error::Result;
use crate::progress::{self, Progress};
use crate::psc::{FilterBank, LowPass};
use crate::recording::Dataset;

/// What kernels that start from spikes share.
const HEADERS: &[(&str, &str)] = &[(
    "spike_states.cuh",
    include_str!("../../../../kernels/spike_states.cuh"),
)];

/// Sums that stay on the device.
pub(crate) struct DeviceSums {
    /// Number of features n.
    pub(crate) features: usize,
    /// Number of outputs m.
    pub(crate) outputs: usize,
    /// Paired steps.
    pub(crate) steps: u64,
    /// Γ, n × n.
    pub(crate) gram: Buffer<f64>,
    /// Υ and Σa: n × (m + 1), row-major, Σa last.
    pub(crate) upsilon: Buffer<f64>,
    /// Σx, then Σx².
    pub(crate) totals: Buffer<f64>,
    /// x̄.
    pub(crate) output_mean: Buffer<f64>,
}

impl DeviceSums {
    fn new(
        spikes: &spikes::DeviceSpikes<'_>,
        outputs: usize,
        gram: Buffer<f64>,
        behavior: behavior::BehaviorSums,
    ) -> Self {
        Self {
            features: spikes.columns(),
            outputs,
            steps: spikes.timeline.steps,
            gram,
            upsilon: behavior.upsilon,
            totals: behavior.totals,
            output_mean: behavior.output_mean,
        }
    }

    /// Brings the sums to the host.
    pub(crate) fn download(&self, context: &Context) -> Result<NormalEquations> {
        let (n, m) = (self.features, self.outputs);
        let mut sums = NormalEquations::zeros(0, 0);
        (sums.features, sums.outputs, sums.steps) = (n, m, self.steps);
        sums.gram = context.download(&self.gram, n * n)?;
        let rows = context.download(&self.upsilon, n * (m + 1))?;
        sums.upsilon = rows
            .chunks_exact(m + 1)
            .flat_map(|row| &row[..m])
            .copied()
            .collect();
        sums.feature_sum = rows.chunks_exact(m + 1).map(|row| row[m]).collect();
        let totals = context.download(&self.totals, 2 * m)?;
        sums.output_sum = totals[..m].to_vec();
        sums.output_sq_sum = totals[m..].to_vec();
        Ok(sums)
    }
}

/// Γ, Υ and the sums of `data` on the device; see [`super::normal_equations`].
///
/// The event path sums in f32 over slices of time and in f64 beyond, always in the same order: two
/// runs give the same bits on the same device.
///
/// # Errors
/// As [`super::normal_equations`], and those of the device.
pub fn normal_equations(
    context: &Context,
    data: &Dataset,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    delay_steps: i64,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<(NormalEquations, GramPath)> {
    super::check(data)?;
    let found = device_sums(context, data, bank, low_pass, delay_steps, path, progress)?;
    match found {
        Some((sums, path)) => Ok((sums.download(context)?, path)),
        None => super::normal_equations(data, bank, low_pass, delay_steps, path, progress),
    }
}

/// The same sums left on the device; `None` for what only the CPU does: sums over nothing.
pub(crate) fn device_sums(
    context: &Context,
    data: &Dataset,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    delay_steps: i64,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<Option<(DeviceSums, GramPath)>> {
    progress::check(progress, "gram")?;
    super::check_shape(data)?;
    let paired = data
        .segments
        .iter()
        .any(|s| super::paired_steps(s, delay_steps).is_some());
    if data.channels() == 0 || !paired || low_pass.is_some() {
        return Ok(None);
    }
    let (sums, path) = match path {
        GramPath::Dense => (dense::sums(context, data, bank, delay_steps)?, path),
        GramPath::Auto | GramPath::Event => (
            event::sums(context, data, bank, delay_steps)?,
            GramPath::Event,
        ),
    };
    Ok(Some((sums, path)))
}

#[cfg(test)]
mod tests;
