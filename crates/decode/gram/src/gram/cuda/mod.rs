//! Γ, Υ and the sums on a CUDA device.

mod accumulator;
mod behavior;
mod centre;
mod coefficients;
mod dense;
mod event;
mod filters;
pub(crate) mod lags;
mod plan;
mod responses;
mod several;
mod source;
mod spikes;
mod staging;
mod store;
mod timeline;

use std::sync::Arc;

use self::dense::Task;
pub use self::source::SampledWay;
use self::source::{CountSource, Samples, SpikeSource, TrainFilters, TrainSource};
pub(crate) use self::store::Gram;
pub use super::SampledError;
use super::{GramPath, NormalEquations, cost};
use crate::parts::time_on;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress};
use betz_device::Precision;
use betz_device::cuda::{Buffer, Context};
use betz_recording::DatasetView;
use betz_runtime::psc::{FilterBank, LowPass};

/// Sums that stay on the device.
pub struct DeviceSums {
    /// Number of features n.
    pub features: usize,
    /// Number of outputs m.
    pub(crate) outputs: usize,
    /// Paired steps.
    pub steps: u64,
    /// Γ, n × n.
    pub(crate) gram: Gram,
    /// Υ and Σa: n × (m + 1), row-major, Σa last.
    pub(crate) upsilon: Buffer<f64>,
    /// Σx, then Σx².
    pub(crate) totals: Buffer<f64>,
    /// x̄.
    pub(crate) output_mean: Buffer<f64>,
    /// Error of Γ against full precision; `None` if full precision was used or there was no memory to measure the error.
    pub sampled: Option<SampledError>,
    /// The way in which responses to sampled filters were computed; `None` without such filters.
    pub sampled_way: Option<SampledWay>,
}

impl DeviceSums {
    /// Uploads `sums` to the device.
    pub fn upload(context: &Context, sums: &NormalEquations) -> Result<Self> {
        let (n, m) = (sums.features, sums.outputs);
        let rows: Vec<f64> = (0..n)
            .flat_map(|i| {
                let own = &sums.upsilon[i * m..(i + 1) * m];
                own.iter().chain(&sums.feature_sum[i..=i])
            })
            .copied()
            .collect();
        let totals = [sums.output_sum.as_slice(), &sums.output_sq_sum].concat();
        Ok(Self {
            features: n,
            outputs: m,
            steps: sums.steps,
            gram: Gram::Device(context.upload(&sums.gram)?),
            sampled: None,
            sampled_way: None,
            upsilon: context.upload(&rows)?,
            totals: context.upload(&totals)?,
            output_mean: context.upload(&sums.output_mean())?,
        })
    }

    /// Downloads the sums from `context`, which holds them. Waits until they are complete.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn download(&self, context: &Context) -> Result<NormalEquations> {
        let (n, m) = (self.features, self.outputs);
        let mut sums = NormalEquations::zeros(0, 0);
        (sums.features, sums.outputs, sums.steps) = (n, m, self.steps);
        sums.gram = self.gram.to_host(context, n * n)?;
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

/// Computes Γ, Υ and the sums of `data` on devices, which share the work; see [`super::normal_equations`].
///
/// Sums are in f32 over stretches of time (by events of at most 65,536 steps, dense of a round's, up to some
/// ten thousand, but for what the responses' low halves take part in, which is 2⁻⁹ of the whole at most) and
/// in f64 beyond, always in the same order: two runs give the same bits on the same device with the same
/// memory cap.
///
/// # Errors
/// The errors of [`super::normal_equations`] and of the device.
pub fn normal_equations<'d>(
    contexts: &[Arc<Context>],
    data: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    delay_steps: i64,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<(NormalEquations, GramPath)> {
    let data = &data.into();
    super::check(data)?;
    let request = Request::new(data, bank, low_pass, delay_steps, path);
    let sums = device_sums(contexts, data, &request, progress)?;
    match (sums, contexts.first()) {
        (Some((sums, path)), Some(context)) => Ok((sums.download(context)?, path)),
        _ => super::normal_equations(data, bank, low_pass, delay_steps, path, progress),
    }
}

/// The sums to compute, and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Filters of every channel.
    pub bank: &'a FilterBank,
    /// Low-pass behind the filters.
    pub low_pass: Option<LowPass>,
    /// Response t is paired with behaviour at t − `delay_steps`.
    pub delay_steps: i64,
    /// Event or dense; the caller has already decided.
    pub path: GramPath,
    /// True if the dense path may be used when the event path does not fit a device.
    pub either: bool,
    /// Precision of the dense path; the event path has no lower one.
    pub precision: Precision,
    /// The way to compute responses to sampled filters; `None`: the one that is expected to be faster.
    pub sampled: Option<SampledWay>,
}

impl<'a> Request<'a> {
    /// At full precision, by `path`; [`GramPath::Auto`]: the one expected to be faster on a device.
    pub fn new(
        data: &DatasetView<'_>,
        bank: &'a FilterBank,
        low_pass: Option<LowPass>,
        delay_steps: i64,
        path: GramPath,
    ) -> Self {
        let either = path == GramPath::Auto;
        Self {
            bank,
            low_pass,
            delay_steps,
            path: match either {
                true => cost::cheaper(data, bank, low_pass, cost::Processor::Cuda),
                false => path,
            },
            either,
            precision: Precision::F32,
            sampled: None,
        }
    }

    /// The way in which responses of `data` to sampled filters are computed.
    pub fn sampled_way(&self, data: &DatasetView<'_>) -> SampledWay {
        let by_cost = || cost::sampled_way(data, self.bank, self.low_pass);
        self.sampled.unwrap_or_else(by_cost)
    }
}

/// Computes the same sums and leaves them on the first of `contexts`. `None` for cases that only the CPU handles: sums
/// over no steps, and a low-pass on the event path, which it refuses.
pub fn device_sums(
    contexts: &[Arc<Context>],
    data: &DatasetView<'_>,
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<Option<(DeviceSums, GramPath)>> {
    progress::check(progress, "gram")?;
    super::check_shape(data)?;
    let (bank, delay_steps) = (request.bank, request.delay_steps);
    let paired = data
        .segments
        .iter()
        .any(|s| super::paired_steps(s, delay_steps).is_some());
    if contexts.is_empty() || data.channels() == 0 || !paired {
        return Ok(None);
    }
    // The CPU's path explains the refusal.
    let only_dense = request.low_pass.is_some() || !bank.sampled().is_empty();
    if request.path == GramPath::Event && only_dense {
        return Ok(None);
    }
    if data.spikes.is_weighted() {
        data.spikes.check(data.steps as i64, data.channels())?;
        // On the event path, only the CPU handles spikes with weights.
        if request.path == GramPath::Event {
            return Ok(None);
        }
    }
    let dense = || dense_sums(contexts, data, request, progress);
    time_on(&contexts[0], progress, || {
        if request.path == GramPath::Event {
            let event = || event::sums(contexts, data, bank, delay_steps, progress);
            return event_else_dense(request.either, event, dense).map(Some);
        }
        Ok(Some((dense()?, GramPath::Dense)))
    })
}

/// Runs `event`. If `either` path is allowed and the event path has too little memory, runs `dense`, which handles any
/// length of time in rounds.
fn event_else_dense<T>(
    either: bool,
    event: impl FnOnce() -> Result<T>,
    dense: impl FnOnce() -> Result<T>,
) -> Result<(T, GramPath)> {
    let memory = |e: &Error| e.kind() == ErrorKind::DeviceMemory;
    match event() {
        Err(short) if either && memory(&short) => match dense() {
            // Both paths have failed: report the memory that each needs.
            Err(e) if memory(&e) => Err(either_short(short, &e)),
            found => Ok((found?, GramPath::Dense)),
        },
        found => Ok((found?, GramPath::Event)),
    }
}

/// Error if both paths are allowed and neither has enough memory: the smaller of the two demands is needed.
fn either_short(event: Error, dense: &Error) -> Error {
    let message = format!(
        "{}; by the dense path: {}",
        event.message(),
        dense.message()
    );
    let needed = [event.needed_bytes(), dense.needed_bytes()];
    match needed.into_iter().flatten().min() {
        Some(least) => event.with_needed_bytes(least),
        None => event,
    }
    .in_words(message)
}

fn dense_sums(
    contexts: &[Arc<Context>],
    data: &DatasetView<'_>,
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<DeviceSums> {
    let bank = request.bank;
    let samples = Samples::new(bank, data.segments);
    let way = request.sampled_way(data);
    let task = Task {
        segments: data.segments,
        steps: data.steps,
        behavior: data.behavior,
        outputs: data.outputs.len(),
        delay_steps: request.delay_steps,
        precision: request.precision,
        reach: samples.as_ref().map(Samples::reach).unwrap_or_default(),
    };
    let sums = dense::sums(
        contexts,
        &task,
        &|context| {
            let (spikes, channels) = (&data.spikes, data.channels());
            let step = data.step_seconds;
            if request.low_pass.is_some() || samples.is_some() {
                let filters = TrainFilters {
                    bank,
                    low_pass: request.low_pass,
                    step_seconds: step,
                    way,
                };
                let source = TrainSource::new(context, spikes, channels, filters, data.segments)?;
                return Ok(Box::new(source));
            }
            // Counts and signals stay rows; they are not expanded to spikes.
            Ok(match spikes.is_weighted() {
                true => Box::new(CountSource::new(context, spikes, channels, bank, step)?),
                false => Box::new(SpikeSource::new(context, spikes, channels, bank, step)?),
            })
        },
        progress,
    )?;
    Ok(DeviceSums {
        sampled_way: samples.map(|_| way),
        ..sums
    })
}

pub use responses::{DeviceResponses, device_sums_of_responses, normal_equations_of_responses};

#[cfg(test)]
mod tests;
