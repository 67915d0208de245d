//! Signals that every implementation is tested on, and the edges that plain loops find in them.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, Uniform};

use crate::oracle::{self, reaches};
use crate::{Measure, Network, NetworkSpec, Plan, Signal, Threshold, Window, WindowGrid};

/// Samples, time-major, and the number of nodes.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) samples: Vec<f32>,
    pub(crate) nodes: usize,
}

impl Case {
    pub(crate) fn signal(&self) -> Signal<'_> {
        Signal::new(&self.samples, self.nodes).unwrap()
    }

    pub(crate) fn set(&mut self, t: usize, node: usize, value: f32) {
        self.samples[t * self.nodes + node] = value;
    }

    pub(crate) fn change(&mut self, mut f: impl FnMut(usize, usize, f32) -> f32) {
        for (at, v) in self.samples.iter_mut().enumerate() {
            *v = f(at / self.nodes, at % self.nodes, *v);
        }
    }

    fn named(mut self, name: &str) -> Self {
        self.name = format!("{name}, {} nodes", self.nodes);
        self
    }
}

/// Nodes that follow one of five common sources each, more or less, on scales and about offsets of
/// their own.
pub(crate) fn communities(nodes: usize, samples: usize, seed: u64) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let share = Uniform::new(0.0, 1.3).unwrap();
    let of: Vec<(usize, f64, f64, f64)> = (0..nodes)
        .map(|node| {
            let log: f64 = StandardNormal.sample(&mut rng);
            let offset: f64 = StandardNormal.sample(&mut rng);
            let source = (node * 7 + node / 3) % 5;
            (source, share.sample(&mut rng), log.exp(), 50.0 * offset)
        })
        .collect();
    let mut values = Vec::with_capacity(nodes * samples);
    for _ in 0..samples {
        let sources: [f64; 5] = std::array::from_fn(|_| StandardNormal.sample(&mut rng));
        for (source, share, scale, offset) in &of {
            let noise: f64 = StandardNormal.sample(&mut rng);
            values.push(((share * sources[*source] + noise) * scale + offset) as f32);
        }
    }
    Case {
        name: format!("communities, {nodes} nodes"),
        samples: values,
        nodes,
    }
}

/// The artefact that swamps a walk which is never begun anew: +1e4 for three samples on a quarter of
/// the nodes.
pub(crate) fn artefact(nodes: usize, samples: usize) -> Case {
    let mut case = communities(nodes, samples, 7);
    case.change(|t, node, v| {
        let hit = (samples / 3..samples / 3 + 3).contains(&t) && node < nodes / 4;
        if hit { v + 1e4 } else { v }
    });
    case.named("artefact")
}

/// Nodes of which all but the first 64 have few values, which are often equal; one is not finite once, one constant from a
/// time on.
pub(crate) fn ties(nodes: usize, samples: usize) -> Case {
    let mut case = communities(nodes, samples, 21);
    case.change(|t, node, v| match node {
        70 if t == 40 => f32::NAN,
        71 if t > 60 => 1.0,
        0..64 => v,
        _ => (v * 0.5).round(),
    });
    case.named("ties")
}

/// All cases. Each has at least 150 samples.
pub(crate) fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = [0, 1, 2, 3, 11, 12, 13, 31, 32, 33, 95, 96, 97]
        .map(|nodes| communities(nodes, 150, nodes as u64))
        .into();
    cases.push(artefact(40, 300));
    for size in [1e9, 1e12, 1e20, 1e30] {
        let mut case = communities(20, 200, 8);
        for t in 70..73 {
            for node in 3..7 {
                case.set(t, node, if t == 71 { -size } else { size });
            }
        }
        cases.push(case.named(&format!("bursts of {size:e}")));
    }
    let mut wander = communities(30, 250, 9);
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    let mut level = [0.0_f32; 30];
    wander.change(|_, node, v| {
        let step: f32 = StandardNormal.sample(&mut rng);
        level[node] += 30.0 * step;
        v + level[node]
    });
    cases.push(wander.named("random walks"));
    let mut drift = communities(30, 250, 11);
    drift.change(|t, node, v| v + (t * (node + 1)) as f32 * 10.0);
    cases.push(drift.named("drifts"));
    let mut counts = communities(25, 200, 12);
    counts.change(|_, _, v| (v * 0.1).round().clamp(-3.0, 3.0));
    cases.push(counts.named("few values"));
    let mut holes = communities(20, 260, 13);
    holes.change(|t, node, v| match node {
        3 => 7.0,
        4 if (60..180).contains(&t) => 1.25,
        5 if t == 77 => f32::NAN,
        6 if t == 120 => f32::INFINITY,
        7 if t % 90 == 3 => f32::NEG_INFINITY,
        8 => f32::NAN,
        9 if t < 100 => 0.0,
        10 if t >= 100 => 1e-3,
        _ => v,
    });
    cases.push(holes.named("constant and not finite"));
    let mut tiny = communities(15, 200, 14);
    tiny.change(|_, node, v| match node % 3 {
        0 => v * 1e-38,
        1 => v * 1e30,
        _ => v,
    });
    cases.push(tiny.named("denormal and huge"));
    let mut offset = communities(15, 200, 15);
    offset.change(|_, node, v| if node % 2 == 0 { v + 1e6 } else { v });
    cases.push(offset.named("offsets of 1e6"));
    let mut quiet = communities(20, 300, 16);
    quiet.change(|t, node, v| if node < 8 && t > 110 { v * 1e-15 } else { v });
    cases.push(quiet.named("falls silent"));
    let mut twins = communities(24, 200, 17);
    let values = twins.samples.clone();
    twins.change(|t, node, v| {
        if node >= 12 {
            -values[t * 24 + node - 12]
        } else {
            v
        }
    });
    cases.push(twins.named("twins"));
    cases
}

/// The result of `work` in a pool of `threads` threads.
pub(crate) fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build().unwrap().install(work)
}

/// Nodes of [`nine_nodes`].
pub(crate) const NINE_NODES: usize = 9;

/// 700 samples of nine nodes, of which one is constant and one not finite once.
pub(crate) fn nine_nodes(seed: u32) -> Vec<f32> {
    let sample = move |t: u32, n: u32| match (n, t) {
        (8, _) => 2.0,
        (7, 300) => f32::NAN,
        _ => {
            let wave = ((t * (n % 4 + 1)) as f32 / 9.0).sin();
            wave + (t * (n + 7 + seed) % 13) as f32 / 9.0
        }
    };
    (0..700)
        .flat_map(|t| (0..NINE_NODES as u32).map(move |n| sample(t, n)))
        .collect()
}

/// Plans of several measures and thresholds for `signal`.
pub(crate) fn plans(signal: &Signal<'_>, window: Window, absolute: f64) -> Vec<Plan> {
    let lagged = Measure::Lagged { lags: 3 };
    let measures = [
        Measure::Pearson,
        Measure::Spearman,
        Measure::Kendall,
        lagged,
        Measure::Partial,
    ];
    let absolute = Threshold::Absolute(absolute);
    let thresholds = [absolute, Threshold::Density(0.2), Threshold::TopPerNode(2)];
    let specs = measures.iter().flat_map(|measure| {
        let spec = NetworkSpec::new(*measure, window);
        thresholds
            .iter()
            .map(move |threshold| spec.threshold(*threshold))
    });
    specs
        .map(|spec| Plan::new(&spec, signal).unwrap())
        .collect()
}

/// The network of `spec`.
pub(crate) fn run(spec: &NetworkSpec, signal: &Signal<'_>) -> Network {
    Plan::new(spec, signal).unwrap().run(signal, &()).unwrap()
}

/// Edges of every window by plain loops: (i, j, r).
pub(crate) fn pearson_edges(signal: &Signal<'_>, spec: &NetworkSpec) -> Vec<Vec<(u32, u32, f64)>> {
    let Threshold::Absolute(threshold) = spec.threshold else {
        panic!("an absolute threshold");
    };
    let nodes = signal.nodes();
    let w = spec.window.length;
    let grid = WindowGrid::new(signal, spec.window).unwrap();
    grid.starts()
        .map(|start| {
            let columns: Vec<Vec<f64>> = (0..nodes)
                .map(|node| (start..start + w).map(|t| signal.value(t, node)).collect())
                .collect();
            let mut edges = Vec::new();
            for i in 0..nodes {
                for j in i + 1..nodes {
                    if let Some(r) = oracle::pearson(&columns[i], &columns[j])
                        && reaches(spec.sign.size(r), threshold, spec.strict)
                    {
                        edges.push((i as u32, j as u32, r));
                    }
                }
            }
            edges
        })
        .collect()
}
