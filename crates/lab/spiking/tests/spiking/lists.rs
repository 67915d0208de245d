//! Values of neurons that are listed, in the description or in a file.

use betz_spiking::{
    Draw, Engine, ListedSynapse, Network, Neuron, NeuronModel, Options, Plan, PoissonSource,
    Population, Projection, Rule,
};

fn cell(c_m: impl Into<Draw>, refractory: impl Into<Draw>) -> Neuron {
    Neuron::Model(
        NeuronModel::new("adex")
            .with("c_m_pf", c_m)
            .with("refractory_ms", refractory)
            .with("current_pa", 900.0),
    )
}

const CAPACITANCES: [f64; 3] = [150.0, 281.0, 400.0];
const REFRACTORY: [f64; 3] = [0.0, 2.0, 5.0];
const STARTS: [f64; 3] = [-70.0, -60.0, -55.0];

fn in_one_population() -> Network {
    let mut network = Network::new(0.1, 3);
    let mut population = Population::new("a", 3);
    population.neuron = cell(CAPACITANCES.to_vec(), REFRACTORY.to_vec());
    population.start_mv = STARTS.to_vec().into();
    network.populations.push(population);
    network
}

fn run(network: &Network, steps: u64) -> Engine {
    let options = Options {
        record_spikes: 10_000,
        record_potentials: match network.populations[0].neuron {
            Neuron::Poisson(_) => Vec::new(),
            _ => (0..network.neurons() as u32).collect(),
        },
        ..Options::default()
    };
    let mut engine = Engine::build(network, &options, &()).unwrap();
    engine.run(steps, &()).unwrap();
    engine
}

#[test]
fn listed_values_are_those_of_populations_of_one_neuron() {
    let mut apart = Network::new(0.1, 3);
    for i in 0..3 {
        let mut population = Population::new(format!("a{i}"), 1);
        population.neuron = cell(CAPACITANCES[i], REFRACTORY[i]);
        population.start_mv = STARTS[i].into();
        apart.populations.push(population);
    }
    let (one, all) = (run(&in_one_population(), 2_000), run(&apart, 2_000));
    assert!(one.counts().iter().all(|c| *c > 3));
    assert!(one.counts()[0] > one.counts()[2]);
    assert_eq!(one.hash(), all.hash());
    assert_eq!(one.potentials(), all.potentials());
    assert_eq!(one.parameters(0, "c_m_pf").unwrap(), [150.0, 281.0, 400.0]);
    assert_eq!(
        one.parameters(0, "refractory_ms").unwrap(),
        [0.0, 20.0, 50.0]
    );
}

#[test]
fn rates_are_listed_too() {
    let mut network = Network::new(0.1, 3);
    let mut population = Population::new("noise", 4);
    let rate_hz = vec![0.0, 20.0, 100.0, 500.0].into();
    population.neuron = Neuron::Poisson(PoissonSource { rate_hz });
    network.populations.push(population);
    let counts = run(&network, 100_000).counts();
    for (count, rate) in counts.iter().zip([0.0, 200.0, 1_000.0, 5_000.0_f64]) {
        assert!(
            (f64::from(*count) - rate).abs() <= 5.0 * rate.sqrt(),
            "{count} {rate}"
        );
    }
}

#[test]
fn lists_are_read_from_text_and_files() {
    let network = in_one_population();
    let text = network.to_json().unwrap();
    assert_eq!(Network::from_json(&text).unwrap(), network);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.csv"), "pF\n150\n281\n400\n").unwrap();
    std::fs::write(folder.path().join("start.csv"), "-70\n-60\n-55\n").unwrap();
    let of = |c: &str| {
        format!(
            r#"{{"step_ms": 0.1, "seed": 3, "populations": [{{"name": "a", "neurons": 3, "start_mv": {{"file": "start.csv"}},
            "neuron": {{"adex": {{"c_m_pf": {c}, "refractory_ms": [0, 2, 5], "current_pa": 900}}}}}}]}}"#
        )
    };
    let read = Network::load(&of(r#"{"file": "c.csv"}"#), folder.path()).unwrap();
    assert_eq!(read, network);
    // A list of `lif` makes it a model whose neurons differ.
    let lif = r#"{"step_ms": 0.1, "populations": [{"name": "a", "neurons": 2, "neuron": {"lif": {"tau_m_ms": [10, 20]}}}]}"#;
    let lif = Network::from_json(lif).unwrap();
    assert_eq!(
        run(&lif, 1).parameters(0, "tau_m_ms").unwrap(),
        [10.0, 20.0]
    );
    for (c, file, words) in [
        (r#"{"file": "none.csv"}"#, "", "none.csv"),
        (
            r#"{"file": "bad.csv"}"#,
            "1\n2\nx\n",
            "bad.csv: line 3: expected a number, got \"x\"",
        ),
        (
            r#"{"file": "bad.csv"}"#,
            "0,4\n100\n200\n300\n",
            "bad.csv: line 1: expected a number, got \"0,4\"",
        ),
        (
            r#"{"file": "bad.csv"}"#,
            "100\n\n200\n300\n",
            "bad.csv: line 2: expected a number, got \"\"",
        ),
        (
            r#"{"file": "bad.csv"}"#,
            "100\n200\n",
            "one value per neuron, 3, got 2",
        ),
        (
            r#"{"file": "bad.csv"}"#,
            "100\nNaN\n200\n",
            "got NaN of neuron 1",
        ),
        ("[100, 200]", "", "one value per neuron, 3, got 2"),
        ("[100, 200, 0.2]", "", "1,000 times as much fits"),
    ] {
        std::fs::write(folder.path().join("bad.csv"), file).unwrap();
        let error = Network::load(&of(c), folder.path()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(words), "{words}: {said}");
        assert!(said.contains("\"a\"") && said.contains("c_m_pf"), "{said}");
    }
    // Excel's UTF-8 begins with a mark.
    std::fs::write(
        folder.path().join("bom.csv"),
        "\u{feff}150\r\n281\r\n400\r\n\r\n",
    )
    .unwrap();
    let marked = Network::load(&of(r#"{"file": "bom.csv"}"#), folder.path()).unwrap();
    assert_eq!(marked.populations, read.populations);
    let unknown = of(r#"{"file": "c.csv", "foo": 1}"#);
    let unknown = Network::from_json(&unknown).unwrap_err().to_string();
    assert!(
        unknown.contains("a list of one number per neuron"),
        "{unknown}"
    );
    let unread = Network::from_json(&of(r#"{"file": "c.csv"}"#)).unwrap_err();
    assert!(unread.to_string().contains("start.csv"), "{unread}");
}

/// The message of a network that is refused.
fn refused(change: impl FnOnce(&mut Network)) -> String {
    let mut network = in_one_population();
    let rule = Rule::All;
    network
        .projections
        .push(Projection::new("a", "a", rule, 1.0, 1.5));
    change(&mut network);
    network.check().unwrap_err().to_string()
}

#[test]
fn lists_that_cannot_be_are_refused() {
    let said = refused(|n| n.projections[0].weight = vec![1.0].into());
    assert!(
        said.contains("weight: expected a number or a distribution"),
        "{said}"
    );
    let said = refused(|n| n.projections[0].delay_ms = vec![1.0].into());
    assert!(
        said.contains("delay_ms: expected a number or a distribution"),
        "{said}"
    );
    let said = refused(|n| n.populations[0].start_mv = vec![-70.0; 4].into());
    assert!(
        said.contains("start_mv: expected one value per neuron, 3, got 4"),
        "{said}"
    );
    let said =
        refused(|n| n.populations[0].neuron = cell(CAPACITANCES.to_vec(), vec![0.0, 0.25, 1.0]));
    assert!(
        said.contains("refractory_ms of neuron 1: expected whole steps"),
        "{said}"
    );
    // Neuron by neuron: the highest reset of all is above the lowest peak, and only neuron 2 would fire without end.
    let ordered = |resets: Vec<f64>| {
        let model = NeuronModel::new("izhikevich")
            .with("c_mv", resets)
            .with("peak_mv", vec![-20.0, 30.0, 0.0]);
        Neuron::Model(model)
    };
    let mut network = in_one_population();
    network.populations[0].neuron = ordered(vec![-65.0, 10.0, -50.0]);
    network.check().unwrap();
    let said = refused(|n| n.populations[0].neuron = ordered(vec![-65.0, 10.0, 5.0]));
    assert!(
        said.contains("of neuron 2: the neuron would fire without end"),
        "{said}"
    );
}

#[test]
fn listed_weights_that_round_to_nothing_are_told_and_a_projection_of_them_is_refused() {
    let listed = |weights: &[f32]| Rule::List {
        synapses: (0..)
            .zip(weights)
            .map(|(k, &weight)| ListedSynapse {
                source: 0,
                target: k,
                weight,
                delay_steps: 10,
            })
            .collect(),
    };
    let mut network = in_one_population();
    network
        .projections
        .push(Projection::new("a", "a", listed(&[5e4, 0.0]), 0.0, 1.0));
    network.projections.push(Projection::new(
        "a",
        "a",
        listed(&[0.03, 400.0, 0.0]),
        0.0,
        1.0,
    ));
    let plan = Plan::new(&network, 1).unwrap();
    let [rounded] = &plan.rounded_weights[..] else {
        panic!("{:?}", plan.rounded_weights);
    };
    assert_eq!((rounded.projection, rounded.rounded, rounded.of), (1, 1, 2));
    let said = rounded.to_string();
    let words = "projection 1 (\"a\" to \"a\"): 1 of 2 listed weights, up to 0.0299";
    assert!(said.starts_with(words), "{said}");
    network.projections[1].rule = listed(&[0.03, 0.02]);
    let said = Plan::new(&network, 1).unwrap_err().to_string();
    assert!(
        said.contains("projection 1") && said.contains("2 of 2 listed weights"),
        "{said}"
    );
}

#[test]
fn parameters_keep_all_their_bits_in_json() {
    let mut network = in_one_population();
    // Words of a counter, as fractions of every size.
    for k in 1..2_000u64 {
        let bits = k.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 12;
        let weight = f64::from_bits(0x3FF0_0000_0000_0000 | bits) * 10f64.powi((k % 7) as i32 - 3);
        let projection = Projection::new("a", "a", Rule::OneToOne, weight, 1.5);
        network.projections = vec![projection];
        let read = Network::from_json(&network.to_json().unwrap()).unwrap();
        assert_eq!(read, network, "{weight:e}");
    }
}
