//! Bad input: each is refused with what was expected and what came, and nothing is allocated for it.

use super::cases::zoo;
use betz_base::progress::StopAfter;
use betz_spiking::connections::{Delays, parse, read};
use betz_spiking::{
    Draw, Engine, Error, ErrorKind, Lif, ListedSynapse, Network, Neuron, Options, Plan, Poisson,
    Population, Projection, Rule, Stimulus, Synapse, models,
};

fn network() -> Network {
    let mut network = Network::new(0.1, 1);
    network.populations.push(Population::new("a", 10));
    network
        .projections
        .push(Projection::new("a", "a", Rule::All, 20.0, 1.5));
    network
}

fn refused(change: impl FnOnce(&mut Network), words: &str) {
    let mut network = network();
    change(&mut network);
    let error = Engine::build(&network, &Options::default(), &()).unwrap_err();
    let kinds = [ErrorKind::InvalidArgument, ErrorKind::Mismatch];
    assert!(kinds.contains(&error.kind()), "{error}");
    says(error, words);
}

fn says(error: Error, words: &str) {
    assert!(
        error.message().contains(words),
        "{words:?} is not in {error}"
    );
}

fn synapse(source: u32, target: u32, weight: f32, delay_steps: u32) -> ListedSynapse {
    ListedSynapse {
        source,
        target,
        weight,
        delay_steps,
    }
}

fn lif(network: &mut Network) -> &mut Lif {
    match &mut network.populations[0].neuron {
        Neuron::Lif(lif) => lif,
        _ => panic!("expected a neuron"),
    }
}

#[test]
fn networks_that_are_none_are_refused() {
    refused(|n| n.populations.clear(), "at least one neuron");
    refused(|n| n.populations[0].neurons = 0, "at least one neuron");
    refused(|n| n.step_ms = 0.0, "finite step");
    refused(|n| n.step_ms = f64::NAN, "finite step");
    refused(|n| n.populations.push(Population::new("a", 1)), "twice");
    refused(
        |n| n.projections[0].target = "b".into(),
        "no population \"b\"",
    );
    for (delay, words) in [
        (0.0, "got 0"),
        (f64::NAN, "finite time"),
        (25.6, "up to 256 steps"),
        (-1.0, "from 0 ms"),
        (0.25, "whole steps"),
    ] {
        refused(|n| n.projections[0].delay_ms = Draw::Constant(delay), words);
    }
    let spread = |mean, sd| Draw::Normal { mean, sd };
    refused(
        |n| n.projections[0].delay_ms = spread(20.0, 2.0),
        "255 steps",
    );
    refused(
        |n| n.projections[0].delay_ms = spread(0.01, 1.0),
        "at least one step",
    );
    refused(|n| n.projections[0].weight = spread(1.0, -1.0), "sd >= 0");
    refused(
        |n| n.projections[0].weight = f64::INFINITY.into(),
        "finite number",
    );
}

#[test]
fn neurons_that_would_fire_without_end_are_refused() {
    refused(|n| lif(n).reset_mv = -50.0, "fire without end");
    refused(|n| lif(n).reset_mv = -40.0, "fire without end");
    refused(|n| lif(n).tau_m_ms = 0.0, "tau_m_ms");
    refused(|n| lif(n).tau_m_ms = 0.02, "seems to be in seconds");
    refused(
        |n| {
            let lif = lif(n);
            (lif.rest_mv, lif.threshold_mv, lif.reset_mv) = (-0.065, -0.05, -0.065);
        },
        "seem to be in volts",
    );
    refused(
        |n| lif(n).threshold_mv = -0.05,
        "lif: expected potentials in mV, got threshold_mv within 0.5 mV of zero beside rest_mv of -65 mV: it seems to be in volts",
    );
    refused(
        |n| n.populations[0].start_mv = Draw::Constant(-0.065),
        "start_mv: expected potentials in mV beside constants down to -65 mV, got -0.065: they seem to be in volts",
    );
    refused(
        |n| {
            n.populations[0].start_mv = Draw::Uniform {
                low: -0.065,
                high: -0.05,
            };
        },
        "start_mv: expected potentials in mV",
    );
    refused(
        |n| lif(n).c_m_pf = 0.25,
        "c_m_pf: expected at least 0.5 pF, got 0.25: it seems to be in nF",
    );
    refused(|n| lif(n).c_m_pf = f64::NAN, "c_m_pf");
    refused(|n| lif(n).refractory_ms = 0.05, "refractory_ms");
    refused(
        |n| lif(n).current_pa = f64::INFINITY,
        "current_pa: expected −1e30 to 1e30, got inf",
    );
    // Potentials that begin at zero are no volts.
    let mut positive = network();
    let of = lif(&mut positive);
    (of.rest_mv, of.threshold_mv, of.reset_mv) = (0.0, 20.0, 0.1);
    positive.check().unwrap();
    let psc = |order, tau_ms| Synapse::Psc {
        order,
        tau_ms,
        truncated: true,
    };
    refused(
        |n| n.populations[0].synapse = psc(4, 1.0),
        "order of 0 to 3",
    );
    refused(
        |n| n.populations[0].synapse = psc(0, f64::NAN),
        "time constant",
    );
    refused(|n| n.populations[0].synapse = psc(0, 1e8), "at most");
    let poisson = |rate_hz, weight| Some(Poisson { rate_hz, weight });
    refused(|n| n.populations[0].poisson = poisson(1e9, 1.0), "Poisson");
    refused(|n| n.populations[0].poisson = poisson(-1.0, 1.0), "Poisson");
    refused(
        |n| n.populations[0].poisson = poisson(1.0, f64::NAN),
        "Poisson",
    );
    let stimulus = Stimulus {
        first: 9,
        count: 2,
        current_pa: 1.0,
    };
    refused(
        |n| n.populations[0].stimuli = vec![stimulus],
        "neurons below 10",
    );
    let stimulus = Stimulus {
        first: 0,
        count: 2,
        current_pa: -1e38,
    };
    refused(
        |n| n.populations[0].stimuli = vec![stimulus],
        "expected −1e30 to 1e30 pA and neurons below 10, got -1e38 pA and 2 from 0 on",
    );
}

#[test]
fn rules_that_cannot_be_met_are_refused() {
    let rule = |rule: Rule, words: &str| refused(|n| n.projections[0].rule = rule, words);
    let (count, distinct) = (101, true);
    rule(Rule::FixedTotal { count, distinct }, "at most 100 distinct");
    let count = 11;
    rule(Rule::FixedIn { count, distinct }, "11 sources");
    rule(Rule::FixedOut { count, distinct }, "11 targets");
    for probability in [1.1, f64::NAN] {
        rule(Rule::Pairwise { probability }, "probability");
    }
    let one = |source, target, weight, delay_steps| Rule::List {
        synapses: vec![synapse(source, target, weight, delay_steps)],
    };
    rule(one(10, 0, 1.0, 1), "source below 10");
    rule(one(0, 10, 1.0, 1), "target below 10");
    rule(one(0, 0, f32::NAN, 1), "finite weight");
    rule(one(0, 0, 1.0, 0), "1 to 255");
    rule(one(0, 0, 1.0, 256), "1 to 255");
    refused(
        |n| {
            n.projections[0].rule = Rule::Ring;
            n.populations[0].neurons = 1;
            n.projections[0].autapses = false;
        },
        "self-connection",
    );
    refused(
        |n| {
            n.populations.push(Population::new("b", 3));
            n.projections[0].target = "b".into();
            n.projections[0].rule = Rule::OneToOne;
        },
        "as many sources",
    );
}

#[test]
fn the_fixed_point_is_refused_where_it_would_saturate_or_lose_a_weight() {
    // A weight far below the largest: it would round to nothing.
    refused(
        |n| {
            let weak = Projection::new("a", "a", Rule::All, 1e-5, 1.5);
            n.projections.push(weak);
        },
        "half a unit of the fixed point",
    );
    refused(
        |n| n.projections[0].weight = 1e36.into(),
        "largest one between",
    );
    // 70,000 synapses of the largest weight onto one neuron, all in one step: 2³¹ is passed.
    refused(
        |n| {
            let synapses = vec![synapse(0, 1, 32_767.0, 1); 70_000];
            n.projections[0].rule = Rule::List { synapses };
        },
        "would saturate",
    );
    // The largest weight decides the unit: 1,110 pA as in the scaled microcircuit is exact enough.
    let plan = Plan::new(&models::pd14(0.1, 1).unwrap(), 1).unwrap();
    assert!(plan.weight_unit <= 1.0 / 8.0, "{}", plan.weight_unit);
}

#[test]
fn what_does_not_fit_is_said_before_it_is_allocated() {
    let huge = models::galbraith::full(1 << 20, 0).unwrap();
    let error = Engine::build(&huge, &Options::default(), &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    says(error, "1048576 neurons, 1099511627776 synapses");
    let options = Options {
        memory_limit: Some(1_000_000),
        ..Options::default()
    };
    let error = Engine::build(&models::cuba(1.0, 1).unwrap(), &options, &()).unwrap_err();
    says(error, "at most 1000000 bytes");
    for threads in [0, 100_000] {
        says(Plan::new(&network(), threads).unwrap_err(), "threads");
    }
    let mut many = network();
    many.populations[0].neurons = u32::MAX;
    says(Plan::new(&many, 1).unwrap_err(), "at most");
    says(models::by_name("pd15", 1.0, 1).unwrap_err(), "pd15");
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
        for name in models::NAMES {
            let refused = models::by_name(name, scale, 1).and_then(|n| Plan::new(&n, 1));
            assert!(refused.is_err(), "{name} {scale}");
        }
    }
}

#[test]
fn edges_of_what_is_allowed_run() {
    let spikes = |network: &Network, steps| {
        let mut engine = Engine::build(network, &Options::default(), &()).unwrap();
        engine.run(steps, &()).unwrap().spikes
    };
    // Every neuron fires in every step: refractory time 0 and a current far above the threshold.
    let mut restless = network();
    lif(&mut restless).refractory_ms = 0.0;
    lif(&mut restless).current_pa = 1e6;
    assert_eq!(spikes(&restless, 500), 5000);
    assert_eq!(
        spikes(&models::galbraith::ring(1, 0).unwrap(), 40_000),
        4445
    );
    // Full connectivity by probability, and doubled synapses.
    let mut all = network();
    all.projections[0].rule = Rule::Pairwise { probability: 1.0 };
    let built = Engine::build(&all, &Options::default(), &()).unwrap();
    let mut listed = network();
    let synapses = vec![synapse(1, 2, 20.0, 15); 2];
    listed.projections[0].rule = Rule::List { synapses };
    let doubled = Engine::build(&listed, &Options::default(), &()).unwrap();
    assert_eq!((built.synapses(), doubled.synapses()), (100, 2));
    let empty = Network {
        projections: Vec::new(),
        ..network()
    };
    assert_eq!(spikes(&empty, 100), 0);
}

#[test]
fn files_and_descriptions_are_checked() {
    let record = |source: u32, target: u32, weight: f32, delay: f32| {
        let mut bytes = source.to_le_bytes().to_vec();
        bytes.extend(target.to_le_bytes());
        bytes.extend(weight.to_le_bytes());
        bytes.extend(delay.to_le_bytes());
        bytes
    };
    let seconds = Delays::Seconds { step_ms: 0.25 };
    let good = record(1, 2, -0.5, 0.0015);
    let read_back = parse(&good, 3, seconds).unwrap();
    assert_eq!(read_back, [synapse(1, 2, -0.5, 6)]);
    for (bytes, words) in [
        (good[..15].to_vec(), "cut short in synapse 0"),
        ([good.clone(), vec![0]].concat(), "cut short in synapse 1"),
        (record(3, 0, 1.0, 0.001), "below 3"),
        (record(0, u32::MAX, 1.0, 0.001), "below 3"),
        (record(0, 0, f32::NAN, 0.001), "finite weight"),
        (record(0, 0, 1.0, 0.0), "delays ignored"),
        (record(0, 0, 1.0, f32::NAN), "delay"),
        (record(0, 0, 1.0, 1.0), "1 to 255"),
        // Milliseconds in place of seconds, and no whole step.
        (record(0, 0, 1.0, 1.5), "in seconds, got 1.5 s = 6000 steps"),
        (record(0, 0, 1.0, 0.0006), "whole steps of 0.25 ms"),
    ] {
        let error = parse(&bytes, 3, seconds).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRecording);
        says(error, words);
    }
    assert_eq!(
        parse(&record(0, 0, 1.0, 0.0), 1, Delays::Ignored).unwrap()[0].delay_steps,
        1
    );
    assert!(parse(&[], 1, seconds).unwrap().is_empty());
    let missing = read(std::path::Path::new("/nowhere/connections.bin"), 1, seconds);
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Io);
    for text in [
        "",
        "{",
        "{\"step_ms\": 0.1}",
        "{\"step_ms\": 0.1, \"populations\": [], \"x\": 1}",
    ] {
        says(Network::from_json(text).unwrap_err(), "network");
    }
}

#[test]
fn input_by_call_is_checked() {
    let mut network = network();
    let mut source = Population::new("source", 3);
    source.neuron = Neuron::Source;
    network.populations.push(source);
    network
        .projections
        .push(Projection::new("source", "a", Rule::All, 6000.0, 0.1));
    let mut engine = Engine::build(&network, &Options::default(), &()).unwrap();
    for (neurons, words) in [
        (vec![13], "below 13"),
        (vec![2], "source populations"),
        (vec![11, 11], "once per step"),
    ] {
        let error = engine.emit(&neurons).unwrap_err();
        says(error, words);
    }
    engine.emit(&[10, 12]).unwrap();
    assert!(engine.emit(&[12]).is_err());
    let mut fired = Vec::new();
    engine.step(&mut fired).unwrap();
    fired.sort_unstable();
    assert_eq!(fired, [10, 12]);
    // 12,000 pA for half a millisecond bring all ten over their threshold; the sources stay silent.
    let report = engine.run(30, &()).unwrap();
    assert_eq!(report.spikes, 12);
    assert_eq!(engine.counts()[10..], [1, 0, 1]);
    assert!(engine.set_currents(0, &[1.0]).is_err());
    assert!(engine.set_currents(0, &[f64::NAN; 10]).is_err());
    let mut currents = [0.0; 10];
    currents[7] = -1e38;
    says(
        engine.set_currents(0, &currents).unwrap_err(),
        "population \"a\": currents: expected −1e30 to 1e30 pA, got -1e38 for neuron 7",
    );
    currents[7] = -1e30;
    engine.set_currents(0, &currents).unwrap();
    engine.run(2_000, &()).unwrap();
    assert!(engine.potential(7).unwrap().is_finite());
    assert!(engine.set_currents(1, &[1.0; 3]).is_err());
    assert!(engine.set_currents(2, &[]).is_err());
    let options = Options {
        record_potentials: vec![12],
        ..Options::default()
    };
    assert!(Engine::build(&network, &options, &()).is_err());
    refused(
        |n| n.populations[0].neuron = Neuron::Source,
        "takes no synapses",
    );
}

#[test]
fn a_run_stops_on_request_and_goes_on_later() {
    let network = models::cuba(0.1, 1).unwrap();
    let options = Options {
        threads: 2,
        ..Options::default()
    };
    assert!(Engine::build(&network, &options, &StopAfter::new(0)).is_err());
    let mut engine = Engine::build(&network, &options, &()).unwrap();
    assert_eq!(
        engine.run(500, &StopAfter::new(0)).unwrap_err().kind(),
        ErrorKind::Interrupted
    );
    let done = engine.steps();
    assert!(done < 500);
    engine.run(500 - done, &()).unwrap();
    let mut whole = Engine::build(&network, &options, &()).unwrap();
    whole.run(500, &()).unwrap();
    assert_eq!(engine.hash(), whole.hash());
}

#[test]
fn descriptions_that_are_none_name_population_and_parameter() {
    let refused = |neuron: &str, more: &str, words: &[&str]| {
        let text = format!(
            "{{\"step_ms\": 0.1, \"populations\": [{{\"name\": \"cells\", \"neurons\": 10, \"neuron\": {neuron}{more}}}]}}"
        );
        let error = Network::from_json(&text).unwrap_err();
        for word in words {
            assert!(error.message().contains(word), "{word:?} is not in {error}");
        }
    };
    refused(
        "{\"izikevich\": {}}",
        "",
        &["population \"cells\"", "izhikevich", "\"izikevich\""],
    );
    refused(
        "{\"izhikevich\": {\"e\": 1}}",
        "",
        &["population \"cells\"", "izhikevich", "\"e\"", "\"d\""],
    );
    refused(
        "{\"adex\": {\"tau_w_ms\": 0.05}}",
        "",
        &[
            "cells",
            "tau_w_ms",
            "0.1 to 100000",
            "1,000 times as much fits",
        ],
    );
    refused(
        "{\"adex\": {\"c_m_pf\": 0.281}}",
        "",
        &["c_m_pf", "1,000 times as much fits"],
    );
    refused(
        "{\"adex\": {\"rest_mv\": -70600}}",
        "",
        &["rest_mv", "a thousandth fits"],
    );
    refused(
        "{\"adex\": {\"rest_mv\": -0.07, \"threshold_mv\": -0.05, \"reset_mv\": -0.07, \"peak_mv\": 0.02}}",
        "",
        &["cells", "in volts"],
    );
    refused(
        "{\"adex\": {\"reset_mv\": 30}}",
        "",
        &["reset_mv", "fire without end"],
    );
    refused(
        "{\"lif\": {\"tau_m_ms\": {\"low\": 5, \"high\": 1}}}",
        "",
        &["tau_m_ms", "low <= high", "got 5 to 1"],
    );
    refused(
        "{\"lif\": {\"tau_m_ms\": {\"low\": 5, \"hi\": 1}}}",
        "",
        &["neuron \"lif\""],
    );
    refused(
        "{\"qif\": {}}",
        ", \"synapse\": {\"alpha\": {\"tau_ms\": 1}}",
        &["cells", "delta, exponential or conductance"],
    );
    refused(
        "{\"qif\": {}}",
        ", \"synapse\": {\"conductance\": {\"channels\": {\"ampaa\": {}}}}",
        &["\"ampaa\"", "gaba_a"],
    );
    refused(
        "{\"qif\": {}}",
        ", \"synapse\": {\"conductance\": {\"channels\": {\"ampa\": {\"reversal_mv\": -0.08}}}}",
        &["in volts"],
    );
    refused(
        "{\"poisson\": {\"rate_hz\": 20000}}",
        "",
        &["rate_hz", "10000 Hz"],
    );
    refused(
        "{\"spikes\": {\"trains_ms\": [[1, 1.05]]}}",
        "",
        &["neuron 0", "one spike per step"],
    );
    refused("{\"spikes\": {\"trains_ms\": [[-1]]}}", "", &["from 0 ms"]);
}

#[test]
fn projections_to_nobody_and_without_a_channel_are_refused() {
    let refused = |change: &dyn Fn(&mut Network), words: &str| {
        let mut network = zoo(1);
        change(&mut network);
        let error = network.check().unwrap_err();
        assert!(
            error.message().contains(words),
            "{words:?} is not in {error}"
        );
    };
    refused(&|n| n.populations[1].neurons = 0, "\"lif\" with none");
    refused(&|n| n.projections[2].receptor = None, "got none");
    refused(
        &|n| n.projections[2].receptor = Some("x".into()),
        "got \"x\"",
    );
    refused(
        &|n| n.projections[0].receptor = Some("ampa".into()),
        "no conductance synapses",
    );
    refused(
        &|n| n.projections[2].weight = Draw::Constant(-1.0),
        "0 nS or more",
    );
    refused(
        &|n| n.projections[0].weight = Draw::Constant(f64::NAN),
        "weight",
    );
    refused(
        &|n| {
            n.projections[0].delay_ms = Draw::Uniform {
                low: 0.05,
                high: 1.0,
            }
        },
        "at least one step",
    );
    refused(
        &|n| n.projections[0].target = "poisson".into(),
        "takes no synapses",
    );
}

/// Text that describes no network: the message names the population or projection, and the field.
#[test]
fn descriptions_that_cannot_be_read_are_refused_by_name() {
    let text = r#"{
 "step_ms": 0.1,
 "populations": [{"name": "a", "neurons": 10}, {"name": "b", "neurons": 4, "neuron": {"lif": {"tau_m_ms": 8}}}],
 "projections": [
  {"source": "a", "target": "b", "rule": {"fixed_in": {"count": 2}}, "weight": 20, "delay_ms": 1.5}]
}"#;
    assert!(Network::from_json(text).is_ok());
    for (from, to, words) in [
        (
            "\"weight\": 20",
            "\"weight\": NaN",
            "network description: expected value at line 5",
        ),
        (
            "\"weight\": 20",
            "\"weight\": 1e999",
            "(the value of \"weight\"): JSON has no NaN and no infinity",
        ),
        (
            "\"neurons\": 4",
            "\"neurons\": -4",
            "population \"b\": invalid value: integer `-4`, expected u32",
        ),
        (
            "\"neurons\": 4",
            "\"neurons\": -4",
            "(the value of \"neurons\")",
        ),
        (
            "\"neurons\": 10",
            "\"neurns\": 10",
            "population \"a\": unknown field `neurns`",
        ),
        (
            "\"tau_m_ms\": 8",
            "\"tau\": 8",
            "population \"b\": neuron \"lif\": unknown field `tau`",
        ),
        (
            "\"tau_m_ms\": 8",
            "\"tau_m_ms\": 8, \"c_m_pf\": \"200 pF\"",
            "population \"b\": neuron \"lif\": c_m_pf: invalid type: string \"200 pF\"",
        ),
        (
            "{\"lif\": {\"tau_m_ms\": 8}}",
            "{\"adex\": {\"a_ns\": 4, \"c_m_pf\": \"x\"}}",
            "population \"b\": neuron \"adex\": c_m_pf: expected a number, a list",
        ),
        (
            "fixed_in",
            "fixd_in",
            "projection 0 (a to b): unknown variant `fixd_in`",
        ),
        (
            "\"source\": \"a\", ",
            "",
            "projection 0 (? to b): missing field `source`",
        ),
        (
            "\"step_ms\": 0.1,",
            "\"step\": 0.1,",
            "network description: unknown field `step`",
        ),
        (
            "\"name\": \"b\", \"neurons\": 4",
            "\"neurons\": -4",
            "population 1: invalid value",
        ),
        (
            "1.5}]\n}",
            "1.5}]",
            "network description: EOF while parsing an object at line 5 column",
        ),
    ] {
        let error = Network::from_json(&text.replace(from, to)).unwrap_err();
        assert!(error.message().contains(words), "{to}: {error}");
    }
    // Faults of the text itself blame no field.
    for (from, to) in [
        ("\"neurons\": 10}", "\"neurons\": 10,}"),
        ("\"name\": \"a\", ", "\"name\": \"a\" "),
    ] {
        let error = Network::from_json(&text.replace(from, to)).unwrap_err();
        let words = error.message();
        assert!(words.starts_with("network description: "), "{error}");
        assert!(!words.contains("the value of"), "{error}");
    }
    let error = Network::from_json("no JSON").unwrap_err();
    assert!(!error.message().contains("NaN"), "{error}");
}

/// A network is refused for its largest weight: the message names its place.
#[test]
fn weights_that_are_too_large_are_refused_by_place() {
    let refused = |change: &dyn Fn(&mut Network), words: &str| {
        let mut network = zoo(1);
        change(&mut network);
        let error = betz_spiking::Plan::new(&network, 1).unwrap_err();
        assert!(
            error.message().contains(words),
            "{words:?} is not in {error}"
        );
    };
    refused(
        &|n| n.projections[0].weight = 1e300.into(),
        "got 1e300 in projection 0",
    );
    refused(
        &|n| {
            n.populations[1].poisson = Some(Poisson {
                rate_hz: 1.0,
                weight: 1e40,
            });
        },
        "in the Poisson input of population \"lif\"",
    );
}
