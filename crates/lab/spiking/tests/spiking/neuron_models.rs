//! Models that are integrated: against f64, and on any number of threads.

use super::cases::{conductance, listed, zoo};
use betz_spiking::{
    CurrentTable, Draw, Engine, Interpolation, Network, Neuron, NeuronModel, Options, Poisson,
    Population, Projection, Rule, Stimulus, neuron_models, oracle, patterns,
};

/// A model under a current that lets it fire, and one that does not.
struct Case {
    name: &'static str,
    start: f64,
    quiet_pa: f64,
    firing_pa: f64,
    /// Scale of the potential, for errors.
    scale: f64,
}

const CASES: [Case; 6] = [
    Case {
        name: "lif",
        start: -65.0,
        quiet_pa: 300.0,
        firing_pa: 600.0,
        scale: 15.0,
    },
    Case {
        name: "izhikevich",
        start: -65.0,
        quiet_pa: 2.0,
        firing_pa: 10.0,
        scale: 30.0,
    },
    Case {
        name: "adex",
        start: -70.6,
        quiet_pa: 400.0,
        firing_pa: 1000.0,
        scale: 20.0,
    },
    Case {
        name: "hh",
        start: -65.0,
        quiet_pa: 150.0,
        firing_pa: 1000.0,
        scale: 30.0,
    },
    Case {
        name: "qif",
        start: -60.0,
        quiet_pa: 40.0,
        firing_pa: 200.0,
        scale: 20.0,
    },
    Case {
        name: "theta",
        start: -0.6,
        quiet_pa: 0.05,
        firing_pa: 0.5,
        scale: 1.0,
    },
];

fn alone(case: &Case, step_ms: f64, current_pa: f64) -> Network {
    let mut network = Network::new(step_ms, 1);
    let mut population = Population::new(case.name, 1);
    population.neuron = Neuron::Model(NeuronModel::new(case.name));
    population.start_mv = Draw::Constant(case.start);
    population.stimuli = vec![Stimulus {
        first: 0,
        count: 1,
        current_pa,
    }];
    network.populations.push(population);
    network
}

fn traced(network: &Network, neuron: u32, steps: u64) -> (Vec<f32>, Vec<u64>) {
    let options = Options {
        record_spikes: 10_000,
        record_potentials: vec![neuron],
        ..Options::default()
    };
    let mut engine = Engine::build(network, &options, &()).unwrap();
    engine.run(steps, &()).unwrap();
    let spikes = engine
        .spikes()
        .iter()
        .filter(|s| s.neuron == neuron)
        .map(|s| s.step)
        .collect();
    let potentials = engine.potentials()[0].1.to_vec();
    (potentials, spikes)
}

#[test]
fn every_model_has_a_case() {
    let names: Vec<_> = neuron_models().map(|m| m.name).collect();
    assert_eq!(names, CASES.map(|c| c.name));
}

/// Errors of each integrator against steps that are 64 times shorter, in f64. `--nocapture` prints the table.
#[test]
fn integrators_are_close_to_steps_64_times_shorter() {
    println!(
        "| model | step ms | sub-steps of at most ms | largest error below threshold (mV; theta: rad) | spikes | of f64 | first spike off by ms | last |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for case in &CASES {
        let model = neuron_models().find(|m| m.name == case.name).unwrap();
        for step_ms in [0.05, 0.1, 0.5] {
            let steps = (200.0 / step_ms) as usize;
            let lengths = (
                step_ms,
                steps,
                64 * (step_ms / model.longest_ms).ceil() as usize,
            );
            let quiet = |_: f64, _: f64| case.quiet_pa;
            let exact = oracle::trajectory(case.name, &[], case.start, &quiet, lengths).unwrap();
            assert!(exact.spikes_ms.is_empty(), "{}: no quiet case", case.name);
            let (got, spikes) = traced(&alone(case, step_ms, case.quiet_pa), 0, steps as u64);
            assert!(spikes.is_empty(), "{}", case.name);
            assert_eq!(got.len(), exact.potentials.len());
            let error = (got.iter().zip(&exact.potentials))
                .map(|(got, exact)| (f64::from(*got) - exact).abs())
                .fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) });
            let firing = |_: f64, _: f64| case.firing_pa;
            let exact = oracle::trajectory(case.name, &[], case.start, &firing, lengths).unwrap();
            let (_, spikes) = traced(&alone(case, step_ms, case.firing_pa), 0, steps as u64);
            let off = |got: Option<&u64>, exact: Option<&f64>| {
                (*got.unwrap() + 1) as f64 * step_ms - exact.unwrap()
            };
            let first = off(spikes.first(), exact.spikes_ms.first());
            let common = spikes.len().min(exact.spikes_ms.len()) - 1;
            let last = off(spikes.get(common), exact.spikes_ms.get(common));
            println!(
                "| {} | {step_ms} | {} | {error:.1e} | {} | {} | {first:.3} | {last:.2} |",
                case.name,
                model.longest_ms,
                spikes.len(),
                exact.spikes_ms.len()
            );
            assert!(
                error < 1e-4 * case.scale,
                "{} at {step_ms} ms: {error:e}",
                case.name
            );
            // A spike is known at its step's end, and the reset waits for it.
            assert!(
                (-1e-3..=1.5 * step_ms).contains(&first),
                "{}: {first}",
                case.name
            );
            let many = exact.spikes_ms.len() as f64;
            assert!(
                (spikes.len() as f64 - many).abs() <= 1.0 + many * 0.05 * (step_ms / 0.1),
                "{}",
                case.name
            );
        }
    }
}

/// Conductances by their closed form, in f64.
fn conductance_at(rise: f64, decay: f64, since: f64) -> f64 {
    if since < 0.0 {
        return 0.0;
    }
    if rise == 0.0 {
        return (-since / decay).exp();
    }
    let at = (decay / rise).ln() * rise * decay / (decay - rise);
    let shape = |t: f64| (-t / decay).exp() - (-t / rise).exp();
    shape(since) / shape(at)
}

#[test]
fn channels_act_as_their_closed_form() {
    // Spikes in steps 10 and 300 arrive 2 ms later, at the end of the step.
    let arrivals = [1.0 + 2.0 + 0.1, 30.0 + 2.0 + 0.1];
    for (name, rise, decay, reversal, weight) in [
        ("ampa", 0.0, 5.0, 0.0, 4.0),
        ("nmda", 2.0, 100.0, 0.0, 4.0),
        ("gaba_a", 0.0, 10.0, -80.0, 20.0),
        ("gaba_b", 60.0, 200.0, -95.0, 5.0),
    ] {
        let mut network = Network::new(0.1, 1);
        let mut target = Population::new("target", 1);
        target.neuron = Neuron::Model(NeuronModel::new("adex"));
        target.start_mv = Draw::Constant(-70.6);
        target.synapse = conductance(&[name]);
        network.populations = vec![listed(vec![vec![1.0, 30.0]]), target];
        network
            .projections
            .push(Projection::new("source", "target", Rule::All, weight, 2.0));
        let (got, spikes) = traced(&network, 1, 1000);
        assert!(spikes.is_empty());
        let input = |t: f64, v: f64| {
            let gate = match name {
                "nmda" => 1.0 / (1.0 + (-0.062 * v).exp() / 3.57),
                _ => 1.0,
            };
            let g: f64 = arrivals
                .iter()
                .map(|at| conductance_at(rise, decay, t - at))
                .sum();
            weight * g * gate * (reversal - v)
        };
        let exact = oracle::trajectory("adex", &[], -70.6, &input, (0.1, 1000, 128)).unwrap();
        let moved = exact
            .potentials
            .iter()
            .map(|v| (v + 70.6).abs())
            .fold(0.0, f64::max);
        assert!(moved > 0.2, "{name}: {moved}");
        for (step, (got, exact)) in got.iter().zip(&exact.potentials).enumerate() {
            // Weights are whole units of the fixed point: 1 in 16,384 at worst.
            let error = (f64::from(*got) - exact).abs();
            assert!(
                error < 2e-4 * moved + 2e-5,
                "{name} step {step}: {got} {exact}"
            );
        }
    }
}

#[test]
fn models_fire_alike_on_any_number_of_threads() {
    let network = zoo(3);
    let run = |threads, steps: &[u64]| {
        let options = Options {
            threads,
            record_spikes: 1_000_000,
            ..Options::default()
        };
        let mut engine = Engine::build(&network, &options, &()).unwrap();
        for steps in steps {
            engine.run(*steps, &()).unwrap();
        }
        (
            engine.hash(),
            engine.synapse_hash(),
            engine.spikes(),
            engine.counts(),
        )
    };
    let one = run(1, &[3000]);
    let firsts = network.firsts();
    for (p, population) in network.populations.iter().enumerate() {
        let own = firsts[p] as usize..firsts[p + 1] as usize;
        let spikes: u32 = one.3[own].iter().sum();
        assert!(spikes > 0, "{} is silent", population.name);
    }
    assert_eq!(run(2, &[3000]), one);
    assert_eq!(run(7, &[1000, 7, 1993]), one);
    let mut other = network.clone();
    other.seed = 4;
    let engine = |network: &Network| {
        let mut engine = Engine::build(network, &Options::default(), &()).unwrap();
        engine.run(500, &()).unwrap();
        engine.hash()
    };
    assert_ne!(engine(&network), engine(&other));
    // Descriptions are read as they were written.
    assert_eq!(
        Network::from_json(&network.to_json().unwrap()).unwrap(),
        network
    );
}

#[test]
fn parameters_are_drawn_as_described() {
    let network = zoo(3);
    let engine = Engine::build(&network, &Options::default(), &()).unwrap();
    let taus = engine.parameters(1, "tau_m_ms").unwrap();
    assert!(taus.iter().all(|t| (10.0..=20.0).contains(t)));
    let mean = taus.iter().sum::<f32>() / taus.len() as f32;
    assert!((mean - 15.0).abs() < 1.2, "{mean}");
    let silence = engine.parameters(1, "refractory_ms").unwrap();
    assert!(
        silence
            .iter()
            .all(|s| (5.0..=50.0).contains(s) && s.fract() == 0.0)
    );
    assert!(engine.parameters(1, "tau").is_err() && engine.parameters(99, "tau_m_ms").is_err());
    // The sources alone: the others of the zoo would take most of the time, and nothing of them is counted.
    let mut sources = network;
    sources.populations.truncate(1);
    sources.projections.clear();
    let mut engine = Engine::build(&sources, &Options::default(), &()).unwrap();
    engine.run(20_000, &()).unwrap();
    let rates = engine.counts();
    assert_eq!(rates.len(), 100);
    // 50 to 150 Hz over 2 s.
    let total: u32 = rates.iter().sum();
    assert!((18_500..21_500).contains(&total), "{total}");
    assert!(rates.iter().min() < Some(&140) && rates.iter().max() > Some(&250));
}

#[test]
fn alike_integrators_agree_with_exact_propagators() {
    // The same neurons, once with propagators and once integrated: a constant may be written as a draw.
    let network = |draw: bool| {
        let mut network = Network::new(0.1, 2);
        let mut population = Population::new("e", 50);
        if draw {
            let lif = NeuronModel::new("lif").with(
                "current_pa",
                Draw::Uniform {
                    low: 0.0,
                    high: 1e-9,
                },
            );
            population.neuron = Neuron::Model(lif);
        }
        population.poisson = Some(Poisson {
            rate_hz: 8000.0,
            weight: 87.8,
        });
        network.populations.push(population);
        network
    };
    let run = |network: Network| {
        let mut engine = Engine::build(&network, &Options::default(), &()).unwrap();
        engine.run(20_000, &()).unwrap().spikes as f64
    };
    let (exact, integrated) = (run(network(false)), run(network(true)));
    assert!(
        exact > 100.0 && (integrated / exact - 1.0).abs() < 0.01,
        "{exact} {integrated}"
    );
}

#[test]
fn potentials_that_leave_the_numbers_are_reported() {
    let mut network = alone(&CASES[0], 0.1, -1e12);
    network.populations[0].name = "far".into();
    let mut engine = Engine::build(&network, &Options::default(), &()).unwrap();
    let error = engine.run(100, &()).unwrap_err();
    assert!(error.message().contains("population \"far\""), "{error}");
}

#[test]
fn spikes_of_a_file_are_fired() {
    let folder = tempfile::tempdir().unwrap();
    let text = "{\"step_ms\": 0.1, \"populations\": [{\"name\": \"in\", \"neurons\": 3, \"neuron\": {\"spikes\": {\"file\": \"in.csv\"}}}]}";
    std::fs::write(
        folder.path().join("in.csv"),
        "neuron,seconds\n0,0.001\n2,0.0101\n0,0.05\n",
    )
    .unwrap();
    let network = Network::load(text, folder.path()).unwrap();
    let options = Options {
        record_spikes: 10,
        ..Options::default()
    };
    let mut engine = Engine::build(&network, &options, &()).unwrap();
    engine.run(1000, &()).unwrap();
    let spikes: Vec<_> = engine.spikes().iter().map(|s| (s.step, s.neuron)).collect();
    assert_eq!(spikes, [(10, 0), (101, 2), (500, 0)]);
    for (lines, words) in [
        ("0,0.1\n3,0.2\n", "line 2: expected"),
        ("0,0.1\nx\n", "line 2: expected"),
    ] {
        std::fs::write(folder.path().join("in.csv"), lines).unwrap();
        let error = Network::load(text, folder.path()).unwrap_err();
        assert!(
            error.message().contains(words) && error.message().contains("population \"in\""),
            "{error}"
        );
    }
    assert!(Network::from_json(text).is_err());
}

#[test]
fn currents_of_tables_are_held_or_interpolated() {
    let mut network = Network::new(0.1, 1);
    for name in ["lif", "theta"] {
        let mut population = Population::new(name, 70);
        population.neuron = Neuron::Model(NeuronModel::new(name));
        network.populations.push(population);
    }
    network.populations[0].neuron = Neuron::default();
    let table = |text: &'static str, how| CurrentTable::read(text.as_bytes(), "table", 0.1, how);
    let run = |threads: usize, text: &'static str, how, by_step: bool| {
        let options = Options {
            threads,
            record_potentials: vec![0],
            ..Options::default()
        };
        let mut engine = Engine::build(&network, &options, &()).unwrap();
        engine.drive(0, Box::new(table(text, how))).unwrap();
        if by_step {
            let mut fired = Vec::new();
            (0..300).for_each(|_| engine.step(&mut fired).unwrap());
        } else {
            engine.run(137, &()).unwrap();
            engine.run(163, &()).unwrap();
        }
        engine.potentials()[0].1.to_vec()
    };
    let held = "seconds,pA\n0.005,100\n0.01,0\n0.02,-100\n";
    let way = run(1, held, Interpolation::Hold, false);
    assert_eq!(run(2, held, Interpolation::Hold, true), way);
    // tau 10 ms, 250 pF: 100 pA hold 4 mV.
    let mut v = 0.0f64;
    for (step, got) in way.iter().enumerate() {
        let current = match step {
            50..100 => 100.0,
            200.. => -100.0,
            _ => 0.0,
        };
        let end = current * 10.0 / 250.0;
        v = end + (v - end) * (-0.1f64 / 10.0).exp();
        assert!(
            (f64::from(*got) - (v - 65.0)).abs() < 2e-5,
            "step {step}: {got} {v}"
        );
    }
    let line = run(1, "0,0\n0.03,300\n", Interpolation::Linear, false);
    let mut v = 0.0f64;
    for (step, got) in line.iter().enumerate() {
        let end = step as f64 * 10.0 / 250.0;
        v = end + (v - end) * (-0.1f64 / 10.0).exp();
        assert!(
            (f64::from(*got) - (v - 65.0)).abs() < 5e-5,
            "step {step}: {got} {v}"
        );
    }
    for (text, words) in [
        ("0,1\n0.1,x\n", "table: line 2"),
        ("0,1,2\n", "one for each of 70 neurons, got 2"),
        ("0.2,1\n0.1,1\n", "order of their times"),
        ("0,inf\n", "finite"),
        ("-1,0\n", "from 0 s"),
    ] {
        let mut engine = Engine::build(&network, &Options::default(), &()).unwrap();
        engine
            .drive(1, Box::new(table(text, Interpolation::Hold)))
            .unwrap();
        let error = engine.run(5000, &()).unwrap_err();
        assert!(
            error.message().contains(words),
            "{words:?} is not in {error}"
        );
    }
    let mut engine = Engine::build(&network, &Options::default(), &()).unwrap();
    assert!(
        engine
            .drive(2, Box::new(table("", Interpolation::Hold)))
            .is_err()
    );
}

/// Each of Izhikevich's patterns by what defines it: the number of spikes, and where they come.
#[test]
fn neurons_fire_in_the_twenty_patterns() {
    let traces: Vec<_> = patterns::patterns()
        .into_iter()
        .map(|p| (p.name, p.run().unwrap().spikes_ms))
        .collect();
    assert_eq!(traces.len(), 20);
    let spikes = |name: &str| traces.iter().find(|(n, _)| *n == name).unwrap().1.clone();
    let intervals =
        |name: &str| -> Vec<f64> { spikes(name).windows(2).map(|w| w[1] - w[0]).collect() };
    let one = |name: &str, from: f64, to: f64| {
        let spikes = spikes(name);
        assert!(
            spikes.len() == 1 && (from..to).contains(&spikes[0]),
            "{name}: {spikes:?}"
        );
    };
    let tonic = intervals("tonic spiking");
    assert!(
        tonic.len() > 3 && (tonic[3] / tonic[2] - 1.0).abs() < 0.05,
        "{tonic:?}"
    );
    one("phasic spiking", 20.0, 60.0);
    // Bursts: long pauses among short intervals.
    let bursts = intervals("tonic bursting");
    let longest = bursts.iter().fold(0.0f64, |a, b| a.max(*b));
    assert!(
        bursts.iter().filter(|i| **i > 0.6 * longest).count() >= 3
            && bursts.iter().any(|i| *i < 0.2 * longest)
    );
    let phasic = spikes("phasic bursting");
    assert!(
        phasic.len() > 3 && phasic.last().unwrap() < &100.0,
        "{phasic:?}"
    );
    let mixed = intervals("mixed mode");
    assert!(mixed[0] < 5.0 && mixed[3] > 20.0, "{mixed:?}");
    let adapting = intervals("spike frequency adaptation");
    assert!(adapting.windows(2).all(|w| w[1] > w[0]), "{adapting:?}");
    // On a slow ramp, class 1 begins at a low rate, class 2 at a high one.
    let (first, second) = (intervals("class 1"), intervals("class 2"));
    assert!(
        first[0] > 2.0 * second[0] && first[0] > 2.0 * first[8],
        "{first:?} {second:?}"
    );
    one("spike latency", 15.0, 40.0);
    one("subthreshold oscillations", 20.0, 40.0);
    // Of two pairs of pulses, only the one that fits.
    one("resonator", 320.0, 350.0);
    one("integrator", 14.0, 25.0);
    one("rebound spike", 25.0, 100.0);
    let rebound = spikes("rebound burst");
    assert!(
        rebound.len() > 4 && rebound[0] > 25.0 && rebound.last().unwrap() < &150.0,
        "{rebound:?}"
    );
    one("threshold variability", 80.0, 100.0);
    let bistable = spikes("bistability");
    assert!(bistable.len() == 5 && bistable[4] < 208.0, "{bistable:?}");
    one("depolarizing after-potential", 9.0, 15.0);
    // A slow ramp to a higher current does nothing.
    one("accommodation", 300.0, 312.5);
    for name in ["inhibition-induced spiking", "inhibition-induced bursting"] {
        let spikes = spikes(name);
        assert!(
            spikes.len() >= 4 && spikes[0] > 50.0 && spikes.last().unwrap() < &270.0,
            "{name}: {spikes:?}"
        );
    }
    let potential = &patterns::patterns()[16].run().unwrap().potentials_mv;
    // After the spike, the potential is above where it began.
    assert!(
        potential[130..160].iter().all(|v| *v > -62.0),
        "{:?}",
        &potential[130..160]
    );
}
