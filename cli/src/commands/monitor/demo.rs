//! `betz monitor --demo`: a simulated population and its decoder, with trials, and a network, a map and episodes of its
//! training.

use std::ops::Range;

use std::sync::Arc;

use betz::Result;
use betz::device::Device;
use betz::episode::{Interval, Pattern};
use betz::network::{NetworkSpec, Plan, Signal, Threshold, Window};
use betz::psc::{Filter, FilterBank, LowPass};
use betz::recording::Dataset;
use betz::simulate::population::{self, PopulationConfig};
use betz::som::{Batch, BatchOptions, Grid, Lattice, Map, Samples};
use betz::train::{Search, TrainOptions, train_validated};
use betz_monitor::{
    Contents, MapErrors, MapShape, MapStage, MapView, NamedNetwork, SimulatedPopulation, Simulation,
};

use super::Work;
use crate::report::{Bar, number};

const STEP_SECONDS: f64 = 0.001;
const SEED: u64 = 1;
/// Steps per bin of the counts that networks and maps are made of: 50 ms.
const BIN: usize = 50;
/// Bins per window of the network, and from one window to the next: 20 s and 5 s.
const WINDOW: Window = Window {
    length: 400,
    step: 100,
};
/// Smallest correlation of the network.
const LEAST: f64 = 0.05;
/// Rows and columns of the map.
const MAP: (usize, usize) = (12, 16);
/// Epochs of its training.
const EPOCHS: usize = 12;
/// Number of episodes: pairs of neighbours, the second spike up to five steps after the first.
const EPISODES: u32 = 20;
const LATEST: i64 = 5;
/// A trial begins when the first output rises above this value, and at least so many steps after the one before.
const RISES_ABOVE: f32 = 0.5;
const APART: i64 = 1_500;

/// A session of `betz demo`'s population at 1,000 steps per second.
pub(super) fn work(bar: &Bar) -> Result<Work> {
    let config = PopulationConfig {
        test_seconds: 60.0,
        ..PopulationConfig::default()
    };
    let made = population::simulate(&config, SEED)?;
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.010,
        order: 1,
    }])?;
    let options = TrainOptions {
        low_pass: Some(LowPass {
            order: 2,
            cutoff_hz: 12.0,
        }),
        ..TrainOptions::new(bank)
    };
    let training = made.train.align(STEP_SECONDS)?;
    let model = train_validated(&training, &options, &Search::ridge(), bar)?;
    let dataset = made
        .test
        .align(STEP_SECONDS)?
        .with_outputs(model.outputs())?;
    let counts = Counts::new(&training);
    let trials = trials(&dataset);
    let contents = Contents {
        networks: vec![counts.network(&training)?],
        maps: vec![counts.map(&training)?],
        ..Contents::default()
    };
    Ok(Work {
        name: "a simulated population".into(),
        model,
        dataset: Arc::new(dataset),
        electrode_um: made.test.electrode_um,
        contents,
        patterns: Some(("pairs of neighbours".into(), patterns()?)),
        trials,
        simulation: Some(simulation(&config)),
    })
}

/// Steps at which a trial begins.
fn trials(dataset: &Dataset) -> Vec<i64> {
    let first = dataset
        .behavior
        .iter()
        .step_by(dataset.outputs.len().max(1));
    let first: Vec<f32> = first.copied().collect();
    let mut steps: Vec<i64> = Vec::new();
    for (step, pair) in (1_i64..).zip(first.windows(2)) {
        let rises = pair[0] <= RISES_ABOVE && pair[1] > RISES_ABOVE;
        if rises && steps.last().is_none_or(|last| step - last >= APART) {
            steps.push(step);
        }
    }
    steps
}

/// Description of the population, for the page.
fn simulation(config: &PopulationConfig) -> Simulation {
    let range = |range: &Range<f64>, factor: f64, unit: &str| {
        let [from, to] = [range.start, range.end].map(|v| number(v * factor));
        format!("{from} to {to} {unit}")
    };
    let parameters = [
        (
            "input",
            "the stimulus along a preferred direction".to_owned(),
        ),
        ("greatest rate", range(&config.max_rate_hz, 1.0, "spikes/s")),
        ("τ_RC", range(&config.tau_rc_seconds, 1e3, "ms")),
        ("τ_ref", range(&config.tau_ref_seconds, 1e3, "ms")),
    ];
    Simulation {
        populations: vec![SimulatedPopulation {
            name: "tuned neurons".into(),
            neurons: u32::try_from(config.neurons).unwrap_or(u32::MAX),
            takes_current: false,
            degrees: [0.0; 2],
            parameters: parameters
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
        }],
        synapses: 0,
        seed: SEED,
        name: "a simulated population".into(),
        scale: 1.0,
        every: 1,
        replaceable: false,
    }
}

fn patterns() -> Result<Vec<Pattern>> {
    let edge = Interval::new(0, LATEST)?;
    (0..EPISODES)
        .map(|c| Pattern::new(vec![2 * c, 2 * c + 1], vec![edge]))
        .collect()
}

/// Spike counts in bins (bins × channels).
struct Counts {
    counts: Vec<u16>,
    channels: usize,
}

impl Counts {
    fn new(dataset: &Dataset) -> Self {
        let channels = dataset.channel_names.len();
        let bins = dataset.steps / BIN;
        let mut counts = vec![0_u16; bins * channels];
        for (&step, &channel) in dataset.spikes.ticks.iter().zip(&dataset.spikes.channels) {
            let bin = usize::try_from(step).unwrap_or(0) / BIN;
            if let Some(count) = counts.get_mut(bin * channels + channel as usize) {
                *count = count.saturating_add(1);
            }
        }
        Self { counts, channels }
    }

    /// Correlations in windows of the training recording.
    fn network(&self, training: &Dataset) -> Result<NamedNetwork> {
        let seconds = BIN as f64 * STEP_SECONDS;
        let signal = Signal::new(&self.counts, self.channels)?.with_sample_seconds(seconds)?;
        let spec = NetworkSpec::pearson(WINDOW).threshold(Threshold::Absolute(LEAST));
        let network = Plan::new(&spec, &signal)?.run(&signal, &())?;
        let starts = network.window_start().iter();
        Ok(NamedNetwork {
            name: "training, 100 s".into(),
            window_seconds: Some(starts.map(|&s| s as f64 * seconds).collect()),
            names: Some(training.channel_names.clone()),
            positions: None,
            complete: true,
            network,
        })
    }

    /// A map of the population's activity, with every stage of its training.
    fn map(&self, training: &Dataset) -> Result<MapView> {
        let values: Vec<f32> = self.counts.iter().map(|&n| f32::from(n)).collect();
        let samples = Samples::new(&values, self.channels)?;
        let grid = Grid::new(MAP.0, MAP.1, Lattice::Hexagonal, false)?;
        let shape = MapShape {
            rows: MAP.0,
            columns: MAP.1,
            hexagonal: true,
            torus: false,
            dims: self.channels,
        };
        let all = samples.count() as u64;
        let view = MapView::new("activity in training", shape)?
            .with_samples(all, all, all)
            .with_names(training.channel_names.clone())?;
        let options = BatchOptions {
            epochs: EPOCHS,
            ..BatchOptions::default()
        };
        let start = Map::on_plane(grid, samples)?;
        let mut batch = Batch::new(&start, samples, &options, &Device::cpu())?;
        for done in 0..=EPOCHS {
            let map = batch.stage()?.map;
            let quality = map.quality(samples)?;
            view.measured(MapErrors {
                epochs: done as f64,
                quantisation: quality.quantisation_error,
                topographic: quality.topographic_error,
            });
            view.show(MapStage {
                epochs: done as f64,
                weights: map.weights().to_vec(),
                heights: map.heights(),
                hits: map.hits(samples)?,
                units: Vec::new(),
            })?;
            if done < EPOCHS {
                batch.epoch()?;
            }
        }
        view.finished();
        Ok(view)
    }
}
