//! The device against the threads, spike for spike; skipped where there is none.

use std::sync::Arc;

use betz_device::cuda::Context;
use betz_testkit::context;

use super::super::{Engine, Machine, Options};
use super::stream::TargetBlocks;
use super::{Design, Group, OnDevice};
use crate::plan::Plan;
use crate::{
    Dependence, Network, Neuron, Plasticity, Population, Projection, Reward, Rule, Spike, Triplet,
    models,
};

#[path = "../../../tests/spiking/cases.rs"]
mod cases;

fn options(network: &Network) -> Options {
    Options {
        record_spikes: usize::MAX / 64,
        memory_limit: Some(u64::MAX),
        record_potentials: vec![0, network.neurons() as u32 - 1],
        ..Options::default()
    }
}

/// The designs that a network can have.
fn designs(context: &Arc<Context>, network: &Network) -> Vec<OnDevice> {
    let plan = Plan::new(network, 1).unwrap();
    let groups: Vec<Group> = (0..network.populations.len())
        .map(|p| Group::of(network, p, plan.weight_unit).unwrap())
        .collect();
    let resident = Design::resident(context, network, &plan, &groups);
    let mut designs: Vec<Design> = resident.into_iter().collect();
    if let Some(Design::Resident { slots, .. }) = resident {
        // More blocks than such a network needs, and all of it in one.
        for blocks in [1, 33.min(context.info().multiprocessors)] {
            let places = network.neurons().div_ceil(u64::from(blocks)) as usize * plan.receptors;
            let rings = slots * places * 4;
            if places <= 896 && rings < 150_000 {
                designs.push(Design::Resident {
                    blocks,
                    slots,
                    deep: 0,
                    rings,
                    // Few enough that bursts happen.
                    lists: 8 * 64,
                });
            }
        }
    }
    let spread = Design::spread(&plan, 1);
    designs.push(spread);
    if let Design::Spread { blocks, slots, .. } = spread {
        for (team, each) in [(32, 1), (512, 4)] {
            designs.push(Design::Spread {
                blocks,
                slots,
                team,
                each,
                parts: 1,
                target_blocks: None,
                learns: false,
            });
        }
        // Most of the synapses on the host, and some.
        for (all, near) in [(3, 1), (5, 4), (2, 0)] {
            designs.push(Design::Spread {
                blocks,
                slots,
                team: 8,
                each: 1,
                parts: 1,
                target_blocks: Some(TargetBlocks { all, near }),
                learns: false,
            });
        }
    }
    let with = |contexts: &[Arc<Context>], design: Design| {
        let options = options(network);
        let mut plan = plan.clone();
        OnDevice::with(contexts, design, &groups, network, &mut plan, &options, &()).unwrap()
    };
    let mut machines: Vec<OnDevice> = (designs.into_iter())
        .map(|design| with(std::slice::from_ref(context), design))
        .collect();
    if let Ok(second) = Context::open(1) {
        let both = [Arc::clone(context), second];
        machines.push(with(&both, Design::spread(&plan, 2)));
    }
    machines
}

fn sorted(machine: &OnDevice) -> Vec<Spike> {
    let mut packed = machine.recorded();
    packed.sort_unstable();
    let spike = |p: u64| Spike {
        step: p >> 32,
        neuron: p as u32,
    };
    packed.into_iter().map(spike).collect()
}

fn agree(context: &Arc<Context>, network: &Network, steps: u64, name: &str) {
    let mut engine = Engine::build(network, &options(network), &()).unwrap();
    engine.run(steps, &()).unwrap();
    let expected = engine.spikes();
    assert!(expected.len() > 20, "{name} hardly fires");
    for mut machine in designs(context, network) {
        let name = format!("{name}, {:?}", machine.shares[0].design);
        assert_eq!(machine.built().hash, engine.synapse_hash(), "{name}");
        assert_eq!(machine.built().synapses, engine.synapses(), "{name}");
        let use_of = machine.built().largest_sum as f64 / f64::from(i32::MAX);
        assert_eq!(use_of, engine.fixed_point_use(), "{name}");
        // In pieces, one of them of one step.
        let half = steps / 2;
        let mut fired = Vec::new();
        machine.run(0..half, &()).unwrap();
        machine.step(half, &mut fired).unwrap();
        machine.run(half + 1..steps, &()).unwrap();
        let spikes = sorted(&machine);
        let first = spikes.iter().zip(&expected).find(|(a, b)| a != b);
        assert_eq!(first, None, "{name}");
        assert_eq!(spikes.len(), expected.len(), "{name}");
        assert_eq!(machine.hash(), engine.hash(), "{name}");
        assert_eq!(machine.spikes(), engine.spike_count(), "{name}");
        assert_eq!(machine.counts(), engine.counts(), "{name}");
        fired.sort_unstable();
        let then = expected.iter().filter(|s| s.step == half).map(|s| s.neuron);
        assert_eq!(fired, then.collect::<Vec<_>>(), "{name}");
        for (neuron, values) in engine.potentials() {
            assert_eq!(machine.potentials(neuron), Some(values), "{name}");
        }
    }
}

#[test]
fn cuda_gives_the_spikes_of_the_threads() {
    let Some(context) = context() else { return };
    for (i, network) in cases::cases().iter().enumerate() {
        agree(&context, network, 150, &format!("case {i}"));
    }
}

#[test]
fn cuda_gives_the_spikes_of_named_models() {
    let Some(context) = context() else { return };
    let pd14 = models::pd14(0.05, 5).unwrap();
    agree(&context, &pd14, 1_500, "pd14");
    let brunel = models::brunel(0.3, 5.0, 2.0, 2).unwrap();
    agree(&context, &brunel, 700, "brunel");
    let cuba = models::cuba(1.0, 4).unwrap();
    agree(&context, &cuba, 1_000, "cuba");
    for order in [0, 1] {
        let mut full = models::galbraith::full(1_100, order).unwrap();
        agree(&context, &full, 500, "full");
        models::galbraith::endless(&mut full);
        agree(&context, &full, 200, "full, endless");
        let ring = models::galbraith::ring(70_000, order).unwrap();
        agree(&context, &ring, 700, "ring");
        let random = models::galbraith::random(2_000, 60_000, order, 3).unwrap();
        agree(&context, &random, 500, "random");
    }
}

#[test]
fn cuda_integrates_models_as_the_threads_do() {
    let Some(context) = context() else { return };
    let mut network = cases::zoo(3);
    // Listed spikes are fired on the CPU.
    network.populations.pop();
    network.projections.retain(|p| p.source != "listed");
    network.populations[6].poisson = Some(crate::Poisson {
        rate_hz: 100.0,
        weight: 0.2,
    });
    let firsts = network.firsts();
    let options = Options {
        record_spikes: usize::MAX / 64,
        memory_limit: Some(u64::MAX),
        record_potentials: (1..7).map(|p| firsts[p] as u32 + 3).collect(),
        ..Options::default()
    };
    let mut engine = Engine::build(&network, &options, &()).unwrap();
    engine.run(2_000, &()).unwrap();
    let plan = Plan::new(&network, 1).unwrap();
    let groups: Vec<Group> = (0..network.populations.len())
        .map(|p| Group::of(&network, p, plan.weight_unit).unwrap())
        .collect();
    let design = Design::choose(&context, 1, &network, &plan, &groups);
    let contexts = std::slice::from_ref(&*context);
    let mut own = plan.clone();
    let mut machine =
        OnDevice::with(contexts, design, &groups, &network, &mut own, &options, &()).unwrap();
    assert_eq!(machine.built().hash, engine.synapse_hash());
    machine.run(0..700, &()).unwrap();
    let mut fired = Vec::new();
    machine.step(700, &mut fired).unwrap();
    machine.run(701..2_000, &()).unwrap();
    for (neuron, values) in engine.potentials() {
        let got = machine.potentials(neuron).unwrap();
        let first = got.iter().zip(values).position(|(a, b)| a != b);
        assert_eq!(
            first, None,
            "neuron {neuron} differs from step {first:?} on"
        );
    }
    let spikes = sorted(&machine);
    let first = spikes
        .iter()
        .zip(&engine.spikes())
        .find(|(a, b)| a != b)
        .map(|(a, b)| (*a, *b));
    assert_eq!(first, None);
    assert_eq!(
        (machine.hash(), machine.counts()),
        (engine.hash(), engine.counts())
    );
}

#[test]
fn cuda_reports_potentials_that_leave_the_numbers() {
    let Some(_device) = context() else { return };
    let mut network = Network::new(0.1, 1);
    let mut population = Population::new("far", 10);
    population.neuron = Neuron::Model(crate::NeuronModel::new("lif"));
    population.stimuli = vec![crate::Stimulus {
        first: 4,
        count: 1,
        current_pa: -1e12,
    }];
    network.populations.push(population);
    let options = Options {
        device: betz_device::Device::cuda(0).unwrap(),
        ..Options::default()
    };
    let mut engine = Engine::build(&network, &options, &()).unwrap();
    let error = engine.run(100, &()).unwrap_err();
    assert!(
        error
            .message()
            .contains("population \"far\": the potential of neuron 4"),
        "{error}"
    );
}

#[test]
fn cuda_lists_hold_what_fires_at_once() {
    let Some(context) = context() else { return };
    // Every neuron fires in step 0: more than lists hold, more than a message holds.
    let mut network = models::pd14(0.08, 5).unwrap();
    for population in &mut network.populations {
        population.start_mv = crate::Draw::Constant(-40.0);
    }
    agree(&context, &network, 300, "all at once");
}

#[test]
fn cuda_takes_spikes_and_currents_by_call() {
    let Some(context) = context() else { return };
    let mut network = Network::new(0.1, 3);
    let mut sources = Population::new("in", 40);
    sources.neuron = Neuron::Source;
    network.populations.push(sources);
    network.populations.push(Population::new("e", 300));
    let rule = Rule::FixedOut {
        count: 60,
        distinct: false,
    };
    let both = crate::Draw::Normal { mean: 1.5, sd: 0.6 };
    network.projections = vec![
        Projection::new("in", "e", rule.clone(), 900.0, 0.1),
        Projection::new("e", "e", rule, 20.0, both),
    ];
    let mut engine = Engine::build(&network, &Options::default(), &()).unwrap();
    let options = Options {
        record_potentials: vec![],
        ..options(&network)
    };
    let plan = Plan::new(&network, 1).unwrap();
    let groups: Vec<Group> = (0..2)
        .map(|p| Group::of(&network, p, plan.weight_unit).unwrap())
        .collect();
    let designs = [
        Design::resident(&context, &network, &plan, &groups).unwrap(),
        Design::spread(&plan, 1),
    ];
    let mut machines: Vec<OnDevice> = (designs.into_iter())
        .map(|design| {
            let mut plan = plan.clone();
            let contexts = std::slice::from_ref(&*context);
            OnDevice::with(
                contexts,
                design,
                &groups,
                &network,
                &mut plan,
                &options,
                &(),
            )
            .unwrap()
        })
        .collect();
    for round in 0..20u32 {
        let emitted: Vec<u32> = (0..40).filter(|n| (n * 7 + round) % 5 == 0).collect();
        let currents: Vec<f64> = (0..300).map(|i| f64::from((i * round) % 600)).collect();
        engine.emit(&emitted).unwrap();
        engine.set_currents(1, &currents).unwrap();
        let scale = groups[1].constants.as_ref().unwrap().current;
        let scaled: Vec<f32> = currents.iter().map(|c| *c as f32 * scale).collect();
        let begin = engine.steps();
        engine.run(30, &()).unwrap();
        for machine in &mut machines {
            machine.emit(&emitted);
            machine.set_currents(1, &scaled).unwrap();
            machine.run(begin..begin + 30, &()).unwrap();
            assert_eq!(
                machine.hash(),
                engine.hash(),
                "round {round}, {:?}",
                machine.shares[0].design
            );
        }
    }
    assert!(engine.spike_count() > 300);
}

#[test]
fn cuda_refuses_what_it_has_no_room_for() {
    let Some(context) = context() else { return };
    let network = models::pd14(0.05, 5).unwrap();
    // Every cap from nothing on: refused with the plan, or built; never half of it.
    let mut built = 0;
    for cap in [1 << 20, 1 << 26, 300 << 20, 2 << 30] {
        let options = Options {
            device: betz_device::Device::cuda(0)
                .unwrap()
                .with_memory_cap(Some(cap)),
            ..Options::default()
        };
        match Engine::build(&network, &options, &()) {
            Ok(mut engine) => {
                engine.run(20, &()).unwrap();
                built += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), crate::ErrorKind::DeviceMemory, "{cap}");
                assert!(error.message().contains("synapses"), "{error}");
            }
        }
    }
    context.set_memory_cap(None);
    assert!((1..4).contains(&built), "{built} were built");
}

/// Rules of every kind, on a network whose delays differ.
fn learning_networks() -> Vec<(&'static str, Network)> {
    let pairs = cases::balanced();
    let change = |change: &dyn Fn(&mut Plasticity)| {
        let mut network = cases::balanced();
        for rule in network
            .projections
            .iter_mut()
            .filter_map(|p| p.plasticity.as_mut())
        {
            change(rule);
        }
        network
    };
    let triplets = change(&|rule| {
        rule.triplet = Some(Triplet {
            a_plus: 0.006,
            a_minus: 0.002,
            tau_x_ms: 101.0,
            tau_y_ms: 125.0,
        });
    });
    let multiplicative = change(&|rule| rule.dependence = Dependence::Multiplicative);
    let reward = change(&|rule| {
        rule.reward = Some(Reward {
            tau_eligibility_ms: 500.0,
            tau_dopamine_ms: 200.0,
        });
    });
    // Neurons of a model, and random sources whose synapses learn.
    let mut models = cases::balanced();
    models.populations[0].neuron = Neuron::Model(crate::NeuronModel::new("lif"));
    let mut noise = Population::new("noise", 300);
    noise.neuron = Neuron::Poisson(crate::PoissonSource {
        rate_hz: crate::Draw::Constant(400.0),
    });
    models.populations.push(noise);
    let rule = Rule::FixedTotal {
        count: 9_000,
        distinct: false,
    };
    let mut onto = Projection::new("noise", "e", rule, 40.0, 0.1);
    onto.plasticity = Some(Plasticity::pairs(0.01, 0.012, 80.0));
    models.projections.push(onto);
    vec![
        ("pairs", pairs),
        ("triplets", triplets),
        ("multiplicative", multiplicative),
        ("reward", reward),
        ("models", models),
    ]
}

#[test]
fn cuda_learns_as_the_threads_do() {
    let Some(context) = context() else { return };
    for (name, network) in learning_networks() {
        let build = |device| {
            let options = Options {
                device,
                record_potentials: vec![0, 249],
                ..options(&network)
            };
            Engine::build(&network, &options, &()).unwrap()
        };
        let mut host = build(betz_device::Device::cpu());
        let mut device = build(betz_device::Device::cuda(0).unwrap());
        assert_eq!(device.ran().path, "spread", "{name}");
        assert_eq!(device.synapse_hash(), host.synapse_hash(), "{name}");
        assert_eq!(device.fixed_point_use(), host.fixed_point_use(), "{name}");
        let learning = |engine: &Engine| -> Vec<_> {
            (0..network.projections.len())
                .filter(|p| network.projections[*p].plasticity.is_some())
                .map(|p| engine.weights(p).unwrap())
                .collect()
        };
        assert_eq!(learning(&device), learning(&host), "{name}");
        let start = learning(&host);
        for (round, steps) in [1u64, 999, 1_500, 1, 2_499].into_iter().enumerate() {
            for engine in [&mut host, &mut device] {
                engine.run(steps, &()).unwrap();
                if name == "reward" {
                    engine
                        .reward(if round % 2 == 0 { 0.8 } else { -0.3 })
                        .unwrap();
                }
            }
            let place = format!("{name}, round {round}");
            assert_eq!(device.hash(), host.hash(), "{place}");
            let (got, expected) = (learning(&device), learning(&host));
            for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
                assert_eq!(got, expected, "{place}");
                assert_eq!(got.weight.to_bits(), expected.weight.to_bits(), "{place}");
            }
        }
        assert!(host.spike_count() > 1_000, "{name}: {}", host.spike_count());
        assert_eq!(device.synaptic_events(), host.synaptic_events(), "{name}");
        assert_eq!(device.spikes(), host.spikes(), "{name}");
        assert_eq!(device.potentials(), host.potentials(), "{name}");
        let changed = start
            .iter()
            .flatten()
            .zip(learning(&host).iter().flatten())
            .filter(|(a, b)| a.weight != b.weight)
            .count();
        assert!(changed > 1_000, "{name}: {changed} have learned");
    }
    drop(context);
}

#[test]
fn cuda_streams_what_it_has_no_room_for() {
    let Some(context) = context() else { return };
    let mut network = Network::new(0.1, 3);
    let mut population = Population::new("e", 3_000);
    population.poisson = Some(crate::Poisson {
        rate_hz: 9_000.0,
        weight: 88.0,
    });
    network.populations.push(population);
    let rule = |count| Rule::FixedOut {
        count,
        distinct: false,
    };
    let listed = Rule::FixedIn {
        count: 100,
        distinct: true,
    };
    let delays = crate::Draw::Uniform {
        low: 0.3,
        high: 3.0,
    };
    network.projections = vec![
        Projection::new("e", "e", rule(900), -0.5, 1.5),
        Projection::new("e", "e", listed, 0.7, delays),
    ];
    let run = |options: &Options| {
        let mut engine = Engine::build(&network, options, &())?;
        engine.run(600, &())?;
        Ok::<_, crate::Error>(engine)
    };
    let host = run(&Options::default()).unwrap();
    assert!(host.spike_count() > 500);
    let mut plan = Plan::new(&network, 1).unwrap();
    let groups = [Group::of(&network, 0, plan.weight_unit).unwrap()];
    let spread = Design::spread(&plan, 1);
    spread
        .size(&network, &groups, &mut plan, &Options::default())
        .unwrap();
    // A third of the synapses, and room for those that are made.
    let cap = plan.bytes() - 16_000_000;
    let options = Options {
        device: betz_device::Device::cuda(0)
            .unwrap()
            .with_memory_cap(Some(cap)),
        memory_limit: Some(1 << 30),
        ..Options::default()
    };
    let (planned, ran) = Engine::plan_for(&network, &options).unwrap();
    assert_eq!(ran.path, "streamed");
    let cost = planned.streaming.unwrap();
    assert!(
        cost.resident_blocks >= 1 && cost.resident_blocks < cost.target_blocks,
        "{cost:?}"
    );
    assert!(
        cost.host_bytes > 2_000_000 && cost.bytes_per_step > 0.0,
        "{cost:?}"
    );
    assert!(cost.expected_factor > 1.0, "{cost:?}");
    assert!(planned.to_string().contains("cross the bus"), "{planned}");
    let device = run(&options).unwrap();
    assert_eq!(device.ran().path, "streamed");
    assert_eq!(device.hash(), host.hash());
    assert_eq!(device.synapse_hash(), host.synapse_hash());
    assert_eq!(device.counts(), host.counts());
    drop(device);
    let error = run(&Options {
        memory_limit: Some(1 << 20),
        ..options
    })
    .unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::DeviceMemory);
    assert!(error.message().contains("got 1048576"), "{error}");
    context.set_memory_cap(None);
}

#[test]
fn host_memory_that_learning_synapses_lack_is_told() {
    let network = cases::balanced();
    let plan = Plan::new(&network, 1).unwrap();
    let learns = network.projections.iter().map(|p| p.plasticity.is_some());
    let synapses: f64 = (plan.each.iter().zip(learns))
        .filter(|(_, learns)| *learns)
        .map(|(each, _)| each)
        .sum();
    assert!(synapses > 0.0);
    let needed = (synapses * 56.0) as u64;
    assert!(super::learn::check_host(&network, &plan, None).is_ok());
    assert!(super::learn::check_host(&network, &plan, Some(needed)).is_ok());
    let error = super::learn::check_host(&network, &plan, Some(needed - 1)).unwrap_err();
    assert_eq!(error.kind(), betz_base::ErrorKind::OutOfMemory);
    let words = format!(
        "expected {needed} bytes of the host's memory, got {}",
        needed - 1
    );
    assert!(error.message().contains(&words), "{error}");
}
