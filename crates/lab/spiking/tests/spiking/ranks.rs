//! A network by the ranks of a team: the spikes of one process, whatever the number of ranks and threads.

use std::sync::atomic::{AtomicU32, Ordering};

use betz_base::team::Team;
use betz_base::team::threads::lasting_team;
use betz_spiking::{
    Engine, ErrorKind, ListedSynapse, Network, Options, Plasticity, Progress, Spike, models,
};

use crate::cases::cases;

/// All results of a run.
#[derive(Debug, PartialEq)]
struct Results {
    spikes: Vec<Spike>,
    hash: u64,
    synapse_hash: u64,
    synapses: u64,
    events: u64,
    fixed_point_use: f64,
    counts: Vec<u32>,
    potentials: Vec<(u32, Vec<f32>)>,
    last: f32,
    weights: Vec<ListedSynapse>,
}

fn options(network: &Network, threads: usize) -> Options {
    Options {
        threads,
        record_spikes: 1_000_000,
        memory_limit: Some(u64::MAX),
        record_potentials: vec![0, network.neurons() as u32 - 1],
        ..Options::default()
    }
}

/// Runs in several goes, some of which end in the middle of a shortest delay.
fn results(mut engine: Engine) -> Results {
    for steps in [70, 33, 1] {
        engine.run(steps, &()).unwrap();
    }
    let mut fired = Vec::new();
    for step in 104..110 {
        engine.step(&mut fired).unwrap();
        let heard: Vec<_> = engine
            .spikes()
            .into_iter()
            .filter(|s| s.step == step)
            .collect();
        assert_eq!(heard.len(), fired.len());
    }
    engine.run(40, &()).unwrap();
    Results {
        spikes: engine.spikes(),
        hash: engine.hash(),
        synapse_hash: engine.synapse_hash(),
        synapses: engine.synapses(),
        events: engine.synaptic_events(),
        fixed_point_use: engine.fixed_point_use(),
        counts: engine.counts(),
        potentials: (engine.potentials().iter())
            .map(|(neuron, values)| (*neuron, values.to_vec()))
            .collect(),
        last: engine.potential(0).unwrap(),
        weights: engine.weights(0).unwrap(),
    }
}

/// The results of `work` on each of `size` ranks.
fn by_ranks<T: Send>(size: usize, work: impl Fn(&'static dyn Team) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let run = |team| scope.spawn(move || work(team));
        let members: Vec<_> = lasting_team(size).into_iter().map(|t| run(t)).collect();
        members.into_iter().map(|m| m.join().unwrap()).collect()
    })
}

fn learning() -> Network {
    let mut network = models::brunel(0.02, 5.0, 2.0, 3).unwrap();
    let first = network
        .projections
        .iter_mut()
        .find(|p| p.weight.constant().is_some_and(|w| w > 0.0))
        .unwrap();
    let weight = first.weight.constant().unwrap();
    first.plasticity = Some(Plasticity::pairs(0.05, 0.04, 2.0 * weight));
    network
}

#[test]
fn any_number_of_ranks_and_threads_gives_the_spikes_of_one_process() {
    let mut networks = cases();
    networks.push(learning());
    for (i, network) in networks.iter().enumerate() {
        let alone = Engine::build(network, &options(network, 2), &()).unwrap();
        let expected = results(alone);
        assert!(expected.spikes.len() > 20, "case {i} hardly fires");
        // More ranks than chunks of neurons, too: some have none.
        for (ranks, threads) in [(1, 1), (2, 1), (3, 2), (5, 1)] {
            let all = by_ranks(ranks, |team| {
                let options = options(network, threads);
                results(Engine::build_in(team, network, &options, &()).unwrap())
            });
            for (rank, got) in all.iter().enumerate() {
                assert_eq!(got, &expected, "case {i}, rank {rank} of {ranks}");
            }
        }
    }
}

/// Cancels when it is asked for the third time.
#[derive(Default)]
struct Third(AtomicU32);

impl Progress for Third {
    fn cancelled(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) >= 2
    }
}

#[test]
fn one_rank_that_is_asked_to_stop_stops_all_at_the_same_step() {
    let network = models::brunel(0.02, 5.0, 2.0, 5).unwrap();
    let mut alone = Engine::build(&network, &options(&network, 1), &()).unwrap();
    alone.run(20_000, &()).unwrap();
    let all = by_ranks(3, |team| {
        let options = options(&network, 1);
        let mut engine = Engine::build_in(team, &network, &options, &()).unwrap();
        let third = Third::default();
        let stopped = match team.rank() {
            1 => engine.run(20_000, &third),
            _ => engine.run(20_000, &()),
        };
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Interrupted);
        let at = engine.steps();
        engine.run(20_000 - at, &()).unwrap();
        (at, engine.hash())
    });
    assert!(all[0].0 > 0 && all[0].0 < 20_000);
    assert!(all.iter().all(|rank| *rank == (all[0].0, alone.hash())));
}

#[test]
fn a_share_that_does_not_fit_is_refused_with_its_rank_and_size() {
    let network = models::by_name("brunel", 1.0, 1).unwrap();
    let errors = by_ranks(2, |team| {
        let options = Options {
            memory_limit: Some(20_000_000),
            ..Options::default()
        };
        Engine::build_in(team, &network, &options, &()).unwrap_err()
    });
    for (rank, error) in errors.iter().enumerate() {
        let said = error.to_string();
        assert!(said.contains(&format!("rank {rank} of 2")), "{said}");
        assert!(said.contains("a share of at most 20000000 bytes"), "{said}");
    }
}
