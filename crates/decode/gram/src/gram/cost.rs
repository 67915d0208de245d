//! Expected cost of the paths to Γ, on the CPU and on a CUDA device.

use super::GramPath;
use super::cuda::SampledWay;
use super::event::WIDEST_TILE;
use crate::psc::{HAS_TRANSFORMS, SAMPLED_CPU};
use betz_device::cost::{Calibration, CostModel};
use betz_device::cuda::has_transforms;
use betz_recording::DatasetView;
use betz_runtime::psc::{FilterBank, LowPass};

/// Kind of processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    /// The CPU's threads.
    Cpu,
    /// A CUDA device.
    Cuda,
}

impl Processor {
    /// `cpu` or `cuda`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// The size of a training problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Channels.
    pub channels: f64,
    /// Filters of the bank.
    pub filters: f64,
    /// Samples of the bank's sampled filters; 0 without them.
    pub samples: f64,
    /// Entries of the list of spikes inside the segments.
    pub spikes: f64,
    /// True if spikes have weights, which the event path takes on the CPU alone.
    pub weighted: bool,
    /// True if a channel has a value at more than half of the steps. Its mean may be any number of times what it varies
    /// by, which the event path's f32 sums then lose.
    pub steady: bool,
    /// Steps inside the segments.
    pub steps: f64,
    /// Outputs.
    pub outputs: f64,
    /// Threads of the CPU that take part.
    pub threads: f64,
}

// Defaults: the CPU's from benches/record/gram.md (AVX-512, one thread's seconds), CUDA's from
// benches/record/gpu.md (H200).

/// Additions: one per spike, filter and feature. Tile steps: a tile takes up a step with spikes.
const EVENT_CPU: CostModel = CostModel {
    name: "gram.event.cpu",
    terms: &["1", "additions", "tile steps", "steps x filters"],
    defaults: &[20e-6, 0.075e-9, 30e-9, 10e-9],
};

/// Responses: one per step and feature. Products: one per step and pair of features of one triangle.
const DENSE_CPU: CostModel = CostModel {
    name: "gram.dense.cpu",
    terms: &["1", "responses", "products"],
    defaults: &[50e-6, 4.7e-9, 0.0086e-9],
};

/// Spikes are packed and sent; additions as on the CPU; elements of Γ are summed over slices.
const EVENT_CUDA: CostModel = CostModel {
    name: "gram.event.cuda",
    terms: &["1", "spikes", "steps x outputs", "additions", "elements"],
    defaults: &[0.2e-3, 0.45e-9, 0.35e-9, 0.6e-12, 0.1e-9],
};

/// As the event-driven path before Γ, then responses and products.
const DENSE_CUDA: CostModel = CostModel {
    name: "gram.dense.cuda",
    terms: &[
        "1",
        "spikes",
        "steps x outputs",
        "responses",
        "products",
        "elements",
    ],
    defaults: &[0.25e-3, 0.45e-9, 1.0e-9, 5e-12, 0.017e-12, 0.4e-9],
};

/// Γ of a fold on its way from a device to pageable memory of the host, with what goes beside it.
pub const DOWNLOAD_CUDA: CostModel = CostModel {
    name: "gram.download.cuda",
    terms: &["1", "elements"],
    defaults: &[30e-6, 6e-9],
};

/// Responses to sampled filters on a CUDA device: samples added at spikes, or steps of transforms per binary logarithm of
/// their length. Defaults from an H100 (benches/record/gpu.md): 1.69 ms for 8e9 additions, 10.4 ms for 1.5e10 of the latter.
const SAMPLED_CUDA: CostModel = CostModel {
    name: "psc.sampled.cuda",
    terms: &["additions", "transforms"],
    defaults: &[0.21e-12, 0.7e-12],
};

/// Number of samples of `bank`'s sampled filters.
pub fn samples(bank: &FilterBank) -> f64 {
    let filters = bank.sampled().iter();
    filters.map(|f| f.samples().len() as f64).sum()
}

impl Work {
    /// The size of training on `data` with `bank`, on rayon's current pool.
    pub fn new<'d>(data: impl Into<DatasetView<'d>>, bank: &FilterBank) -> Self {
        let data = &data.into();
        let spikes = data.events_in_segments();
        Self {
            channels: data.channels() as f64,
            filters: bank.len() as f64,
            samples: samples(bank),
            spikes: spikes as f64,
            weighted: data.spikes.is_weighted(),
            steady: is_steady(data, spikes),
            steps: data.steps_in_segments() as f64,
            outputs: data.outputs.len() as f64,
            threads: rayon::current_num_threads() as f64,
        }
    }

    /// One of `folds` equal parts of it in time.
    pub fn fold(&self, folds: usize) -> Self {
        let folds = folds.max(1) as f64;
        Self {
            spikes: self.spikes / folds,
            steps: self.steps / folds,
            ..*self
        }
    }

    /// Channels × filters.
    pub fn features(&self) -> f64 {
        self.channels * self.filters
    }

    /// CostModel and terms of computing Γ and Υ by `path` ([`GramPath::Auto`]: dense) at `place`.
    pub fn gram(&self, place: Processor, path: GramPath) -> (&'static CostModel, Vec<f64>) {
        let (n, steps, threads) = (self.features(), self.steps, self.threads.max(1.0));
        let additions = self.spikes * self.filters * n;
        let (responses, products) = (steps * n, steps * n * n / 2.0);
        let behavior = steps * (self.outputs + 1.0);
        match (place, path) {
            (Processor::Cpu, GramPath::Event) => {
                // Tiles are what threads share: few channels are one tile, and one thread's.
                let tiles =
                    self.filters * self.filters * (self.channels / WIDEST_TILE as f64).ceil();
                let rounds = (tiles / threads).ceil();
                let share = rounds / tiles.max(1.0);
                let busy_steps = self.spikes.min(steps);
                let terms = [
                    1.0,
                    additions * share,
                    busy_steps * rounds,
                    steps * self.filters,
                ];
                (&EVENT_CPU, terms.into())
            }
            (Processor::Cpu, _) => {
                let terms = [1.0, responses / threads, products / threads];
                (&DENSE_CPU, terms.into())
            }
            (Processor::Cuda, GramPath::Event) => {
                let terms = [1.0, self.spikes, behavior, additions, n * n];
                (&EVENT_CUDA, terms.into())
            }
            (Processor::Cuda, _) => {
                let terms = [1.0, self.spikes, behavior, responses, products, n * n];
                (&DENSE_CUDA, terms.into())
            }
        }
    }

    /// Seconds expected for Γ and Υ by `path` at `place`.
    pub fn gram_seconds(&self, calibration: &Calibration, place: Processor, path: GramPath) -> f64 {
        let (model, terms) = self.gram(place, path);
        calibration.seconds(model, &terms) + self.sampled_seconds(calibration, place)
    }

    /// Seconds that responses to the sampled filters take more than others.
    fn sampled_seconds(&self, calibration: &Calibration, place: Processor) -> f64 {
        if self.samples == 0.0 {
            return 0.0;
        }
        let (added, transformed) = self.sampled_terms();
        let (model, transforms, threads) = match place {
            Processor::Cpu => (&SAMPLED_CPU, HAS_TRANSFORMS, self.threads.max(1.0)),
            Processor::Cuda => (&SAMPLED_CUDA, true, 1.0),
        };
        let transformed = match transforms {
            true => calibration.seconds(model, &[0.0, transformed]),
            false => f64::INFINITY,
        };
        let added = match self.weighted && place == Processor::Cuda {
            true => f64::INFINITY,
            false => calibration.seconds(model, &[added, 0.0]),
        };
        added.min(transformed) / threads
    }

    /// Samples to add at all spikes, and steps of transforms times the binary logarithm of their length.
    fn sampled_terms(&self) -> (f64, f64) {
        // Transforms of four times a filter's length, of which three quarters are responses.
        let length = (4.0 * self.samples / self.filters).max(4096.0);
        let transformed = self.channels * self.steps * (1.0 + self.filters) * length.log2() / 0.75;
        (self.spikes * self.samples, transformed)
    }

    /// The path of the two that is expected to take less time at `place`. A low-pass is only in the
    /// dense path.
    pub fn cheaper(
        &self,
        calibration: &Calibration,
        place: Processor,
        low_pass: Option<LowPass>,
    ) -> GramPath {
        let seconds = |path| self.gram_seconds(calibration, place, path);
        let weighted_there = self.weighted && place == Processor::Cuda;
        let only_dense = low_pass.is_some() || self.steady || self.samples > 0.0;
        let event = !only_dense && !weighted_there;
        if event && seconds(GramPath::Event) < seconds(GramPath::Dense) {
            GramPath::Event
        } else {
            GramPath::Dense
        }
    }
}

/// True if a channel of `data`, which has so many `entries` inside segments, has one at more than half of their steps.
fn is_steady(data: &DatasetView<'_>, entries: usize) -> bool {
    let half = data.steps_in_segments() / 2;
    // Spikes of weight 1 do not vary less than by chance.
    if !data.spikes.is_weighted() || entries <= half {
        return false;
    }
    let mut of_channel = vec![0_usize; data.channels()];
    for segment in data.segments {
        for &channel in &data.spikes.channels[data.spikes.range(segment.start, segment.stop)] {
            if let Some(count) = of_channel.get_mut(channel as usize) {
                *count += 1;
            }
        }
    }
    of_channel.iter().any(|&count| count > half)
}

/// The way in which a CUDA device computes responses of `data` to sampled filters, by this host's calibration. Spikes with weights, and
/// those behind a low-pass, are transformed; others are gathered where cuFFT is absent.
pub fn sampled_way<'d>(
    data: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
) -> SampledWay {
    let work = Work::new(data, bank);
    let (added, transformed) = work.sampled_terms();
    let calibration = Calibration::current();
    let seconds = |terms: &[f64]| calibration.seconds(&SAMPLED_CUDA, terms);
    let quicker = || seconds(&[0.0, transformed]) < seconds(&[added, 0.0]) && has_transforms();
    match work.weighted || low_pass.is_some() || quicker() {
        true => SampledWay::Transform,
        false => SampledWay::Gather,
    }
}

/// [`GramPath::Event`] or [`GramPath::Dense`]: what [`GramPath::Auto`] means for this dataset at
/// `place`, by this host's calibration.
pub fn cheaper<'d>(
    data: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    place: Processor,
) -> GramPath {
    let data = &data.into();
    let work = Work::new(data, bank);
    if betz_linear::has_one_order() {
        // A choice in which this machine has no part.
        let work = Work {
            threads: 1.0,
            ..work
        };
        return work.cheaper(&Calibration::default(), place, low_pass);
    }
    work.cheaper(&Calibration::current(), place, low_pass)
}
