//! The twenty firing patterns of Izhikevich 2004, "Which model to use for cortical spiking neurons?", figure 1.
//!
//! Parameters and currents are those of the program that he published with it, which takes Euler steps of 0.1 to 0.5 ms.
//! Exact integration shows the same patterns, but for three, which need other numbers: the pulse that ends bistability comes
//! at 208 ms in place of 216, the spike of the depolarizing after-potential lowers u by 19 in place of 21, and
//! inhibition-induced bursts end by d = 2 in place of −2.

use betz_base::Result;

use crate::draw::Draw;
use crate::drive::{CurrentRow, CurrentTable, Interpolation};
use crate::engine::{Engine, Options};
use crate::kinds::{Neuron, NeuronModel};
use crate::spec::{Network, Population};

/// Steps in ms.
const STEP_MS: f64 = 0.1;

/// A firing pattern: a neuron and the current into it.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Its name.
    pub name: &'static str,
    /// The neuron.
    pub model: NeuronModel,
    /// Potential at the start.
    pub start_mv: f64,
    /// Length in ms.
    pub ms: f64,
    /// Times in ms and currents in pA: on the line between two rows.
    pub currents: Vec<(f64, f64)>,
}

/// A pattern as it was simulated.
#[derive(Debug, Clone)]
pub struct PatternTrace {
    /// Potential in mV at the end of each step of 0.1 ms; 30 mV in a step with a spike.
    pub potentials_mv: Vec<f32>,
    /// Times of the spikes in ms.
    pub spikes_ms: Vec<f64>,
}

impl Pattern {
    /// Simulates it.
    ///
    /// # Errors
    /// None of its own.
    pub fn run(&self) -> Result<PatternTrace> {
        let mut network = Network::new(STEP_MS, 1);
        let mut population = Population::new("neuron", 1);
        population.neuron = Neuron::Model(self.model.clone());
        population.start_mv = Draw::Constant(self.start_mv);
        network.populations.push(population);
        let options = Options {
            record_spikes: 100_000,
            record_potentials: vec![0],
            ..Options::default()
        };
        let mut engine = Engine::build(&network, &options, &())?;
        let rows = self.currents.clone().into_iter().map(|(ms, current)| {
            Ok(CurrentRow {
                seconds: ms * 1e-3,
                currents_pa: vec![current],
            })
        });
        let table = CurrentTable::new(rows, self.name, STEP_MS, Interpolation::Linear);
        engine.drive(0, Box::new(table))?;
        engine.run(network.steps_of(self.ms)?, &())?;
        let mut potentials_mv: Vec<f32> = (engine.potentials().into_iter())
            .flat_map(|(_, values)| values.iter().copied())
            .collect();
        let spikes: Vec<u64> = engine.spikes().iter().map(|s| s.step).collect();
        for &step in &spikes {
            potentials_mv[step as usize] = 30.0;
        }
        Ok(PatternTrace {
            potentials_mv,
            spikes_ms: spikes.iter().map(|s| (*s + 1) as f64 * STEP_MS).collect(),
        })
    }
}

/// a, b, c and d.
type Constants = [f64; 4];

fn pattern(
    name: &'static str,
    [a, b, c, d]: Constants,
    (start_mv, ms): (f64, f64),
    currents: Vec<(f64, f64)>,
) -> Pattern {
    let model = NeuronModel::new("izhikevich")
        .with("a", a)
        .with("b", b)
        .with("c_mv", c)
        .with("d", d);
    Pattern {
        name,
        model,
        start_mv,
        ms,
        currents,
    }
}

/// A current of `before`, from `at` on `after`.
fn step(at: f64, before: f64, after: f64) -> Vec<(f64, f64)> {
    vec![(0.0, before), (at, before), (at, after)]
}

/// Pulses from, to and by a current, on a base.
fn pulses(base: f64, pulses: &[(f64, f64, f64)]) -> Vec<(f64, f64)> {
    let mut rows = vec![(0.0, base)];
    for &(from, to, current) in pulses {
        rows.extend([(from, base), (from, current), (to, current), (to, base)]);
    }
    rows
}

/// A model whose curve of v suits neurons of class 1 and integrators: 0.04 v² + 4.1 v + 108.
fn of_class_1(mut pattern: Pattern) -> Pattern {
    pattern.model = pattern.model.with("linear", 4.1).with("constant", 108.0);
    pattern
}

/// The twenty patterns, in the order of the figure.
pub fn patterns() -> Vec<Pattern> {
    let mut accommodation = pattern(
        "accommodation",
        [0.02, 1.0, -55.0, 4.0],
        (-65.0, 400.0),
        vec![
            (0.0, 0.0),
            (200.0, 8.0),
            (200.0, 0.0),
            (300.0, 0.0),
            (312.5, 4.0),
            (312.5, 0.0),
        ],
    );
    // u starts at −16 and does not decay: the constant takes it in.
    accommodation.model = (accommodation.model)
        .with("shift_mv", 65.0)
        .with("constant", 156.0)
        .with("leak", 0.0);
    let (first, second) = (100.0 / 11.0, 100.0 / 11.0 + 5.0);
    let integrator = [
        (first, first + 2.0, 9.0),
        (second, second + 2.0, 9.0),
        (70.0, 72.0, 9.0),
        (80.0, 82.0, 9.0),
    ];
    let resonator = [
        (40.0, 44.0, 0.65),
        (60.0, 64.0, 0.65),
        (280.0, 284.0, 0.65),
        (320.0, 324.0, 0.65),
    ];
    let variable = [(10.0, 15.0, 1.0), (70.0, 75.0, -6.0), (80.0, 85.0, 1.0)];
    vec![
        pattern(
            "tonic spiking",
            [0.02, 0.2, -65.0, 6.0],
            (-70.0, 100.0),
            step(10.0, 0.0, 14.0),
        ),
        pattern(
            "phasic spiking",
            [0.02, 0.25, -65.0, 6.0],
            (-64.0, 200.0),
            step(20.0, 0.0, 0.5),
        ),
        pattern(
            "tonic bursting",
            [0.02, 0.2, -50.0, 2.0],
            (-70.0, 220.0),
            step(22.0, 0.0, 15.0),
        ),
        pattern(
            "phasic bursting",
            [0.02, 0.25, -55.0, 0.05],
            (-64.0, 200.0),
            step(20.0, 0.0, 0.6),
        ),
        pattern(
            "mixed mode",
            [0.02, 0.2, -55.0, 4.0],
            (-70.0, 160.0),
            step(16.0, 0.0, 10.0),
        ),
        pattern(
            "spike frequency adaptation",
            [0.01, 0.2, -65.0, 8.0],
            (-70.0, 85.0),
            step(8.5, 0.0, 30.0),
        ),
        of_class_1(pattern(
            "class 1",
            [0.02, -0.1, -55.0, 6.0],
            (-60.0, 300.0),
            vec![(0.0, 0.0), (30.0, 0.0), (300.0, 20.25)],
        )),
        pattern(
            "class 2",
            [0.2, 0.26, -65.0, 0.0],
            (-64.0, 300.0),
            vec![(0.0, -0.5), (30.0, -0.5), (300.0, 3.55)],
        ),
        pattern(
            "spike latency",
            [0.02, 0.2, -65.0, 6.0],
            (-70.0, 100.0),
            pulses(0.0, &[(10.0, 13.0, 7.04)]),
        ),
        pattern(
            "subthreshold oscillations",
            [0.05, 0.26, -60.0, 0.0],
            (-62.0, 200.0),
            pulses(0.0, &[(20.0, 25.0, 2.0)]),
        ),
        pattern(
            "resonator",
            [0.1, 0.26, -60.0, -1.0],
            (-62.0, 400.0),
            pulses(0.0, &resonator),
        ),
        of_class_1(pattern(
            "integrator",
            [0.02, -0.1, -55.0, 6.0],
            (-60.0, 100.0),
            pulses(0.0, &integrator),
        )),
        pattern(
            "rebound spike",
            [0.03, 0.25, -60.0, 4.0],
            (-64.0, 200.0),
            pulses(0.0, &[(20.0, 25.0, -15.0)]),
        ),
        pattern(
            "rebound burst",
            [0.03, 0.25, -52.0, 0.0],
            (-64.0, 200.0),
            pulses(0.0, &[(20.0, 25.0, -15.0)]),
        ),
        pattern(
            "threshold variability",
            [0.03, 0.25, -60.0, 4.0],
            (-64.0, 100.0),
            pulses(0.0, &variable),
        ),
        pattern(
            "bistability",
            [0.1, 0.26, -60.0, 0.0],
            (-61.0, 300.0),
            pulses(0.24, &[(37.5, 42.5, 1.24), (208.0, 213.0, 1.24)]),
        ),
        pattern(
            "depolarizing after-potential",
            [1.0, 0.2, -60.0, -19.0],
            (-70.0, 50.0),
            pulses(0.0, &[(9.0, 11.0, 20.0)]),
        ),
        accommodation,
        pattern(
            "inhibition-induced spiking",
            [-0.02, -1.0, -60.0, 8.0],
            (-63.8, 350.0),
            pulses(80.0, &[(50.0, 250.0, 75.0)]),
        ),
        pattern(
            "inhibition-induced bursting",
            [-0.026, -1.0, -45.0, 2.0],
            (-63.8, 350.0),
            pulses(80.0, &[(50.0, 250.0, 75.0)]),
        ),
    ]
}
