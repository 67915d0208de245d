//! Expected cost of the paths to Γ, on the CPU and on a CUDA device.

use super::GramPath;
use super::event::WIDEST_TILE;
use betz_device::cost::{Calibration, CostModel};
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
    /// Entries of the list of spikes inside the segments.
    pub spikes: f64,
    /// True if spikes have weights, which the event path takes on the CPU alone.
    pub weighted: bool,
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

impl Work {
    /// The size of training on `data` with `bank`, on rayon's current pool.
    pub fn new<'d>(data: impl Into<DatasetView<'d>>, bank: &FilterBank) -> Self {
        let data = &data.into();
        let spikes = data.events_in_segments();
        Self {
            channels: data.channels() as f64,
            filters: bank.len() as f64,
            spikes: spikes as f64,
            weighted: data.spikes.is_weighted(),
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
        calibration.seconds(model, &terms)
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
        let event = low_pass.is_none() && !(self.weighted && place == Processor::Cuda);
        if event && seconds(GramPath::Event) < seconds(GramPath::Dense) {
            GramPath::Event
        } else {
            GramPath::Dense
        }
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
    Work::new(data, bank).cheaper(&Calibration::current(), place, low_pass)
}
