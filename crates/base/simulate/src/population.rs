//! The population-temporal experiment: a 2-D stimulus, a population of tuned LIF neurons, and the
//! spikes from which the stimulus is to be decoded (Galbraith 2010, §5.2 and figure 5.1).
//!
//! The published description gives the length of the two parts (100 s to train, 10 s to test), the
//! 2-D band-limited white noise and uniformly drawn parameters; the parameter ranges themselves
//! could not be had. The defaults of [`PopulationConfig`] are ranges that reproduce the published
//! errors.
//!
//! Multi-unit recordings are unions of these single units:
//! `part.combine(&random_groups(neurons, 3, seed))`, the same groups for both parts.

use std::f64::consts::TAU;
use std::ops::Range;

use rand::{Rng, RngExt};
use rayon::prelude::*;

use super::lif::{Lif, LifStepper};
use super::noise::band_limited_noise;
use super::{Stream, generator, merge};
use betz_base::error::{Error, Result};
use betz_base::memory;
use betz_recording::{Behavior, OutputInfo, Recording, Segment, SpikeForm};

/// The experiment: everything but the seed. Parameters given as ranges are drawn uniformly.
#[derive(Debug, Clone, PartialEq)]
pub struct PopulationConfig {
    /// Number of neurons.
    pub neurons: usize,
    /// Length of a step in seconds.
    pub step_seconds: f64,
    /// Length of the training part in seconds.
    pub train_seconds: f64,
    /// Length of the test part in seconds.
    pub test_seconds: f64,
    /// Highest frequency in the stimulus in Hz.
    pub band_hz: f64,
    /// Standard deviation of each of the stimulus's two coordinates.
    pub stimulus_std: f64,
    /// Firing rate in Hz when the stimulus is 1 in the preferred direction.
    pub max_rate_hz: Range<f64>,
    /// Stimulus along the preferred direction at which firing begins; inside (−1, 1).
    pub intercept: Range<f64>,
    /// Membrane time constant τ_RC in seconds.
    pub tau_rc_seconds: Range<f64>,
    /// Refractory period τ_ref in seconds.
    pub tau_ref_seconds: Range<f64>,
}

impl Default for PopulationConfig {
    /// 150 neurons, 100 s + 10 s at 0.25 ms, noise up to 5 Hz of standard deviation 0.5, 20–60 Hz,
    /// intercepts −0.95…0.95, τ_RC 15–25 ms, τ_ref 1–3 ms.
    fn default() -> Self {
        Self {
            neurons: 150,
            step_seconds: 0.000_25,
            train_seconds: 100.0,
            test_seconds: 10.0,
            band_hz: 5.0,
            stimulus_std: 0.5,
            max_rate_hz: 20.0..60.0,
            intercept: -0.95..0.95,
            tau_rc_seconds: 0.015..0.025,
            tau_ref_seconds: 0.001..0.003,
        }
    }
}

/// A neuron and its tuning: J = gain · (direction · stimulus) + bias.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TunedNeuron {
    /// Time constants.
    pub lif: Lif,
    /// Preferred direction, a unit vector.
    pub direction: [f64; 2],
    /// Gain, in threshold currents per unit of stimulus.
    pub gain: f64,
    /// Bias, in threshold currents.
    pub bias: f64,
}

impl TunedNeuron {
    /// The neuron that fires at `max_rate_hz` when the stimulus is `direction` and begins to fire
    /// when the stimulus is `intercept` · `direction`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) when the refractory
    /// period forbids the rate, or the intercept is not below 1.
    pub fn new(lif: Lif, direction: [f64; 2], max_rate_hz: f64, intercept: f64) -> Result<Self> {
        if !(intercept.is_finite() && intercept < 1.0) {
            return Err(Error::argument(format!(
                "tuning: expected an intercept below 1, got {intercept}"
            )));
        }
        // J(intercept) = 1 and J(1) = the current of the maximal rate.
        let gain = (lif.current_for_rate(max_rate_hz)? - 1.0) / (1.0 - intercept);
        Ok(Self {
            lif,
            direction,
            gain,
            bias: 1.0 - gain * intercept,
        })
    }

    /// Current under `stimulus`.
    pub fn current(&self, stimulus: [f64; 2]) -> f64 {
        let along = self.direction[0] * stimulus[0] + self.direction[1] * stimulus[1];
        self.gain * along + self.bias
    }
}

/// Two recordings of one population under two stimuli.
#[derive(Debug, Clone, PartialEq)]
pub struct PopulationRecording {
    /// The recording to train on.
    pub train: Recording,
    /// The recording to test on.
    pub test: Recording,
    /// The population; neuron i is channel i, named `u{i}`.
    pub neurons: Vec<TunedNeuron>,
}

/// Simulates the experiment: spikes in ticks of one step, and the stimulus of each step as
/// behaviour `x`, `y`. The same configuration and seed give the same recordings, bit for bit; a
/// larger population begins with the neurons of a smaller one.
///
/// Neurons run in parallel on rayon's current pool. Allocates the recordings (12 bytes per spike, 8 per
/// step) and as much again while it runs.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) when a parameter is out
/// of range: no neurons, a part without a step, a maximal rate that a refractory period forbids, an
/// intercept outside (−1, 1), an empty range, a band that the step cannot carry.
pub fn simulate(config: &PopulationConfig, seed: u64) -> Result<PopulationRecording> {
    config.check()?;
    config.plan()?;
    let mut rng = generator(seed, Stream::Population as u64);
    let neurons = (0..config.neurons)
        .map(|_| draw_neuron(config, &mut rng))
        .collect::<Result<Vec<_>>>()?;
    let train = record(
        config,
        &neurons,
        seed,
        "train",
        config.train_seconds,
        [Stream::TrainStimulus, Stream::TrainVoltage],
    )?;
    let test = record(
        config,
        &neurons,
        seed,
        "test",
        config.test_seconds,
        [Stream::TestStimulus, Stream::TestVoltage],
    )?;
    Ok(PopulationRecording {
        train,
        test,
        neurons,
    })
}

/// Most neurons of a population.
pub const MAX_NEURONS: usize = 1_000_000;

impl PopulationConfig {
    /// Refuses a simulation that the memory does not hold: spikes twice, and the stimulus' spectrum.
    fn plan(&self) -> Result<()> {
        let rate = 0.5 * (self.max_rate_hz.start + self.max_rate_hz.end);
        let seconds = self.train_seconds + self.test_seconds;
        let steps = (self.steps(self.train_seconds)? + self.steps(self.test_seconds)?) as f64;
        let bytes = self.neurons as f64 * (rate * seconds * 12.0 + 200.0) + steps * 64.0;
        memory::plan(
            format_args!("a population of {} neurons for {seconds} s", self.neurons),
            bytes as u128,
        )
    }

    fn check(&self) -> Result<()> {
        if self.neurons == 0 {
            return Err(Error::argument(
                "population: expected at least one neuron, got 0",
            ));
        }
        if self.neurons > MAX_NEURONS {
            return Err(Error::argument(format!(
                "population: expected at most {MAX_NEURONS} neurons, got {}",
                self.neurons
            )));
        }
        for (name, value) in [
            ("step", self.step_seconds),
            ("training part", self.train_seconds),
            ("test part", self.test_seconds),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::argument(format!(
                    "population: expected a finite {name} > 0 s, got {value}"
                )));
            }
        }
        for (name, range, least) in [
            (
                "maximal rates (Hz) above 0",
                &self.max_rate_hz,
                f64::MIN_POSITIVE,
            ),
            ("intercepts above -1", &self.intercept, -1.0 + f64::EPSILON),
            (
                "tau_RC (s) above 0",
                &self.tau_rc_seconds,
                f64::MIN_POSITIVE,
            ),
            ("tau_ref (s) from 0", &self.tau_ref_seconds, 0.0),
        ] {
            if !(range.start >= least && range.start <= range.end && range.end.is_finite()) {
                return Err(Error::argument(format!(
                    "population: expected an ascending range of {name}, got {range:?}"
                )));
            }
        }
        if self.intercept.end >= 1.0 {
            return Err(Error::argument(format!(
                "population: expected intercepts below 1, got {:?}",
                self.intercept
            )));
        }
        if self.max_rate_hz.end * self.tau_ref_seconds.end >= 1.0 {
            return Err(Error::argument(format!(
                "population: a refractory period of {} s forbids a rate of {} Hz",
                self.tau_ref_seconds.end, self.max_rate_hz.end
            )));
        }
        Ok(())
    }

    /// Number of steps in `seconds`.
    fn steps(&self, seconds: f64) -> Result<usize> {
        let steps = (seconds / self.step_seconds).round();
        if !(1.0..=f64::from(u32::MAX)).contains(&steps) {
            return Err(Error::argument(format!(
                "population: expected 1 to {} steps, got {steps} ({seconds} s of {} s)",
                u32::MAX,
                self.step_seconds
            )));
        }
        Ok(steps as usize)
    }
}

/// Uniform in `range`, which may be a single value.
fn draw(range: &Range<f64>, rng: &mut impl Rng) -> f64 {
    range.start + (range.end - range.start) * rng.random::<f64>()
}

fn draw_neuron(config: &PopulationConfig, rng: &mut impl Rng) -> Result<TunedNeuron> {
    let lif = Lif::new(
        draw(&config.tau_rc_seconds, rng),
        draw(&config.tau_ref_seconds, rng),
    )?;
    let (sin, cos) = (TAU * rng.random::<f64>()).sin_cos();
    let max_rate = draw(&config.max_rate_hz, rng);
    let intercept = draw(&config.intercept, rng);
    TunedNeuron::new(lif, [cos, sin], max_rate, intercept)
}

/// One part of the experiment.
fn record(
    config: &PopulationConfig,
    neurons: &[TunedNeuron],
    seed: u64,
    part: &str,
    seconds: f64,
    [stimulus_stream, voltage_stream]: [Stream; 2],
) -> Result<Recording> {
    let steps = config.steps(seconds)?;
    let mut rng = generator(seed, stimulus_stream as u64);
    let mut axis = || {
        band_limited_noise(
            steps,
            config.step_seconds,
            config.band_hz,
            config.stimulus_std,
            &mut rng,
        )
    };
    let (x, y) = (axis()?, axis()?);
    // Rounded once, so that the behaviour on record is exactly what drove the neurons.
    let stimulus: Vec<f32> = x
        .iter()
        .zip(&y)
        .flat_map(|(&x, &y)| [x as f32, y as f32])
        .collect();
    let mut rng = generator(seed, voltage_stream as u64);
    let voltages: Vec<f64> = neurons.iter().map(|_| rng.random()).collect();
    let trains: Vec<Vec<u32>> = neurons
        .par_iter()
        .zip(&voltages)
        .map(|(neuron, &voltage)| spike_train(neuron, voltage, &stimulus, config.step_seconds))
        .collect();
    Ok(Recording {
        tick_seconds: config.step_seconds,
        ticks: steps as i64,
        spikes: merge(&trains),
        channel_names: (0..neurons.len()).map(|i| format!("u{i}")).collect(),
        behavior: Some(Behavior {
            outputs: ["x", "y"].map(OutputInfo::from).to_vec(),
            values: stimulus,
            times: None,
        }),
        segments: vec![Segment {
            start: 0,
            stop: steps as i64,
        }],
        electrode_um: None,
        form: SpikeForm::Events,
        meta: Some(format!(
            "{{\"source\": \"betz population simulation\", \"part\": \"{part}\", \"seed\": {seed}, \
             \"neurons\": {}, \"max_rate_hz\": [{}, {}], \"intercept\": [{}, {}], \
             \"tau_rc_seconds\": [{}, {}], \"tau_ref_seconds\": [{}, {}], \"band_hz\": {}, \
             \"stimulus_std\": {}}}",
            neurons.len(),
            config.max_rate_hz.start,
            config.max_rate_hz.end,
            config.intercept.start,
            config.intercept.end,
            config.tau_rc_seconds.start,
            config.tau_rc_seconds.end,
            config.tau_ref_seconds.start,
            config.tau_ref_seconds.end,
            config.band_hz,
            config.stimulus_std,
        )),
    })
}

/// The steps at which `neuron` fires under `stimulus`, row-major (steps, 2).
fn spike_train(
    neuron: &TunedNeuron,
    voltage: f64,
    stimulus: &[f32],
    step_seconds: f64,
) -> Vec<u32> {
    let mut stepper = LifStepper::new(neuron.lif, step_seconds, voltage);
    let mut train = Vec::new();
    for (step, &[x, y]) in stimulus.as_chunks::<2>().0.iter().enumerate() {
        let spikes = stepper.step(neuron.current([f64::from(x), f64::from(y)]));
        train.extend(std::iter::repeat_n(step as u32, spikes as usize));
    }
    train
}
