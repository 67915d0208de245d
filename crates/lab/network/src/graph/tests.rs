//! Graph measures against plain loops and known graphs; against other packages see
//! `scripts/compare_network_graph.py`.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::leiden::{Leiden, Objective};
use super::measures::*;
use super::modularity::{Signs, modularity};
use super::rewire::{latticed, rewired, small_world};
use super::similarity::{Likeness, similarity};
use super::switching::{Costs, UNSEEN, colour_individuals, exhaustive};
use super::track::{Event, Matching, NONE, track};
use super::*;
use crate::*;

fn random(nodes: usize, density: f64, signed: bool, seed: u64) -> Graph {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut edges = Vec::new();
    for i in 0..nodes as u32 {
        for j in i + 1..nodes as u32 {
            if rng.random_bool(density) {
                let w: f32 = rng.random_range(0.05..1.0);
                let negative = signed && rng.random_bool(0.3);
                edges.push((i, j, if negative { -w } else { w }));
            }
        }
    }
    Graph::new(nodes, edges).unwrap()
}

/// Groups of `size` nodes with many edges within and few between.
fn planted(groups: usize, size: usize, seed: u64) -> Graph {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let nodes = (groups * size) as u32;
    let mut edges = Vec::new();
    for i in 0..nodes {
        for j in i + 1..nodes {
            let same = i as usize / size == j as usize / size;
            if rng.random_bool(if same { 0.5 } else { 0.02 }) {
                edges.push((i, j, rng.random_range(0.5..1.0)));
            }
        }
    }
    Graph::new(nodes as usize, edges).unwrap()
}

fn matrix(graph: &Graph) -> Vec<Vec<f64>> {
    let mut a = vec![vec![0.0; graph.nodes()]; graph.nodes()];
    for (i, j, w) in graph.pairs() {
        a[i as usize][j as usize] = f64::from(w);
        a[j as usize][i as usize] = f64::from(w);
    }
    a
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + b.abs())
}

#[test]
fn edges_that_cannot_be_are_named() {
    for edges in [
        vec![(0, 0, 1.0)],
        vec![(0, 3, 1.0)],
        vec![(0, 1, f32::NAN)],
        vec![(0, 1, 1.0), (1, 0, 1.0)],
    ] {
        assert!(Graph::new(3, edges).is_err());
    }
    let graph = Graph::new(0, []).unwrap();
    assert_eq!(
        (graph.nodes(), graph.edges(), transitivity(&graph)),
        (0, 0, 0.0)
    );
}

#[test]
fn clustering_and_transitivity_are_those_of_plain_loops() {
    for seed in 0..5 {
        let graph = random(25, 0.3, true, seed);
        let a = matrix(&graph);
        let largest = a.iter().flatten().fold(0.0_f64, |m, w| m.max(w.abs()));
        let (binary, weighted) = (clustering(&graph), weighted_clustering(&graph));
        let (mut closed, mut open) = (0.0, 0.0);
        for i in 0..25 {
            let (mut triangles, mut onnela, mut pairs) = (0.0, 0.0, 0.0);
            for j in 0..25 {
                for k in 0..25 {
                    if j != k && a[i][j] != 0.0 && a[i][k] != 0.0 {
                        pairs += 1.0;
                        if a[j][k] != 0.0 {
                            triangles += 1.0;
                            onnela += (a[i][j] * a[i][k] * a[j][k] / largest.powi(3)).abs().cbrt();
                        }
                    }
                }
            }
            closed += triangles;
            open += pairs;
            let over = |v: f64| if pairs > 0.0 { v / pairs } else { 0.0 };
            assert!(close(binary[i], over(triangles)) && close(weighted[i], over(onnela)));
        }
        assert!(close(transitivity(&graph), closed / open));
    }
}

#[test]
fn ways_are_those_of_floyd_and_warshall() {
    for (seed, weighted) in [(1, false), (2, true), (3, true)] {
        let graph = random(30, 0.07, true, seed);
        let a = matrix(&graph);
        let mut d: Vec<Vec<f64>> = (0..30)
            .map(|i| {
                (0..30)
                    .map(|j| match a[i][j] {
                        _ if i == j => 0.0,
                        0.0 => f64::INFINITY,
                        w if weighted => 1.0 / w.abs(),
                        _ => 1.0,
                    })
                    .collect()
            })
            .collect();
        for k in 0..30 {
            for i in 0..30 {
                for j in 0..30 {
                    d[i][j] = d[i][j].min(d[i][k] + d[k][j]);
                }
            }
        }
        let all: Vec<f64> = (0..30)
            .flat_map(|i| (0..30).filter(move |j| *j != i).map(move |j| (i, j)))
            .map(|(i, j)| d[i][j])
            .collect();
        let efficiency = all.iter().map(|d| 1.0 / d).sum::<f64>() / all.len() as f64;
        let finite: Vec<f64> = all.into_iter().filter(|d| d.is_finite()).collect();
        let found = paths(&graph, weighted, None, 0);
        assert!(close(found.efficiency, efficiency));
        assert!(close(
            found.length,
            finite.iter().sum::<f64>() / finite.len() as f64
        ));
        let (of, count) = components(&graph);
        for i in 0..30 {
            for j in 0..30 {
                assert_eq!(of[i] == of[j], d[i][j].is_finite());
            }
        }
        assert_eq!(count, of.iter().max().map_or(0, |c| *c as usize + 1));
        assert_eq!(paths(&graph, weighted, Some(7), 5).sources, 7);
    }
}

#[test]
fn assortativity_of_a_star_is_minus_one() {
    let star = Graph::new(5, (1..5).map(|j| (0, j, 1.0))).unwrap();
    assert!(close(assortativity(&star).unwrap(), -1.0));
    let ring = Graph::new(4, [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (0, 3, 1.0)]).unwrap();
    assert_eq!(assortativity(&ring), None);
}

#[test]
fn modularity_is_that_of_its_definition() {
    for seed in 0..4 {
        let graph = random(20, 0.4, true, seed);
        let a = matrix(&graph);
        let of: Vec<u32> = (0..20).map(|i| (i * 7 % 4) as u32).collect();
        let total = |sign: f64| a.iter().flatten().map(|w| (w * sign).max(0.0)).sum::<f64>();
        let strength = |i: usize, sign: f64| a[i].iter().map(|w| (w * sign).max(0.0)).sum::<f64>();
        let q = |sign: f64, gamma: f64| -> f64 {
            let v = total(sign);
            let mut q = 0.0;
            for i in 0..20 {
                for j in 0..20 {
                    if of[i] == of[j] {
                        q += (a[i][j] * sign).max(0.0)
                            - gamma * strength(i, sign) * strength(j, sign) / v;
                    }
                }
            }
            q
        };
        for gamma in [0.7, 1.0, 1.5] {
            let (plus, minus) = (total(1.0), total(-1.0));
            let asymmetric = q(1.0, gamma) / plus - q(-1.0, gamma) / (plus + minus);
            let symmetric = (q(1.0, gamma) - q(-1.0, gamma)) / (plus + minus);
            for (signs, expected) in [
                (Signs::Asymmetric, asymmetric),
                (Signs::Symmetric, symmetric),
            ] {
                assert!(close(
                    modularity(&graph, &of, gamma, signs).unwrap(),
                    expected
                ));
            }
        }
    }
    let graph = random(5, 0.5, false, 1);
    assert!(modularity(&graph, &[0; 4], 1.0, Signs::default()).is_err());
    assert!(modularity(&graph, &[0; 5], f64::NAN, Signs::default()).is_err());
}

#[test]
fn leiden_finds_what_was_planted() {
    for seed in 0..3 {
        let graph = planted(6, 25, seed);
        let truth: Vec<u32> = (0..150).map(|n| n / 25).collect();
        let run = |seed: u64, start: Option<&[u32]>| {
            let leiden = Leiden {
                seed,
                ..Leiden::default()
            };
            leiden.run(&graph, start).unwrap()
        };
        let found = run(seed, None);
        assert_eq!((&found.communities, found.count), (&truth, 6));
        let quality = modularity(&graph, &found.communities, 1.0, Signs::default()).unwrap();
        assert!(close(found.quality, quality));
        assert_eq!(run(seed, None), found);
        assert_eq!(run(9, Some(&truth)).communities, truth);
    }
}

#[test]
fn leiden_leaves_no_single_move_that_gains_and_no_torn_community() {
    for seed in 0..6 {
        let graph = random(60, 0.12, seed % 2 == 0, seed);
        let signs = Signs::Symmetric;
        let leiden = Leiden {
            objective: Objective::Modularity {
                resolution: 1.0,
                signs,
            },
            seed,
            ..Leiden::default()
        };
        let found = leiden.run(&graph, None).unwrap();
        for node in 0..60 {
            // To a neighbour's community or to one of its own.
            let near = graph
                .neighbours(node)
                .iter()
                .map(|n| found.communities[*n as usize]);
            for c in near.chain([found.count as u32]) {
                let mut other = found.communities.clone();
                other[node] = c;
                assert!(modularity(&graph, &other, 1.0, signs).unwrap() <= found.quality + 1e-9);
            }
        }
        if seed % 2 == 1 {
            for c in 0..found.count as u32 {
                let inside: Vec<(u32, u32, f32)> = graph
                    .pairs()
                    .filter(|(i, j, _)| {
                        found.communities[*i as usize] == c && found.communities[*j as usize] == c
                    })
                    .collect();
                let (of, _) = components(&Graph::new(60, inside).unwrap());
                let mut names: Vec<u32> = (0..60)
                    .filter(|n| found.communities[*n] == c)
                    .map(|n| of[n])
                    .collect();
                names.dedup();
                assert!(
                    names.iter().all(|n| *n == names[0]),
                    "community {c} hangs together"
                );
            }
        }
    }
}

#[test]
fn potts_at_high_resolution_leaves_nodes_alone() {
    let graph = planted(3, 10, 1);
    let truth: Vec<u32> = (0..30).map(|n| n / 10).collect();
    let at = |resolution: f64, start: Option<&[u32]>, rounds: usize| {
        let objective = Objective::Potts { resolution };
        let leiden = Leiden {
            objective,
            rounds,
            ..Leiden::default()
        };
        leiden.run(&graph, start).unwrap()
    };
    assert_eq!((at(2.0, None, 10).count, at(0.0, None, 10).count), (30, 1));
    let planted = at(0.2, Some(&truth), 0);
    assert_eq!(planted.communities, truth);
    assert!(at(0.2, None, 10).quality >= planted.quality);
    let none = Leiden {
        restarts: 0,
        ..Leiden::default()
    };
    assert!(none.run(&graph, None).is_err());
    assert!(Leiden::default().run(&graph, Some(&[0])).is_err());
}

#[test]
fn participation_and_z() {
    // Node 0 has one neighbour in each of two communities; node 1 both in its own.
    let graph = Graph::new(5, [(0, 1, 1.0), (0, 3, 1.0), (1, 2, 1.0), (3, 4, -0.5)]).unwrap();
    let of = [0, 0, 0, 1, 1];
    let p = participation(&graph, &of).unwrap();
    assert_eq!((p[0], p[1], p[4]), ((0.5, 0.0), (0.0, 0.0), (0.0, 0.0)));
    let z = within_module_z(&graph, &of).unwrap();
    assert!(close(z[1], 2.0_f64.sqrt()) && close(z[0], -(0.5_f64.sqrt())) && z[3] == 0.0);
    assert!(participation(&graph, &[0; 3]).is_err() && within_module_z(&graph, &[0; 3]).is_err());
}

#[test]
fn rewiring_keeps_degrees_and_breaks_triangles() {
    let graph = planted(5, 20, 3);
    let other = rewired(&graph, 10, 1);
    assert_eq!(degrees(&graph), degrees(&other));
    assert_ne!(graph, other);
    assert_eq!(rewired(&graph, 10, 1), other);
    assert_eq!(degrees(&latticed(&graph, 10, 1)), degrees(&graph));
    // A ring lattice with a few shortcuts is a small world.
    let n = 120_u32;
    let mut edges: Vec<(u32, u32, f32)> = (0..n)
        .flat_map(|i| (1..4).map(move |d| (i, (i + d) % n, 1.0)))
        .collect();
    edges.extend((0..6).map(|k| (k * 19, (k * 19 + 57) % n, 1.0)));
    let found = small_world(&Graph::new(n as usize, edges).unwrap(), 4, 7).unwrap();
    assert!(
        found.sigma > 2.0 && found.sigma_transitivity > 2.0 && found.omega < 0.0,
        "{found:?}"
    );
    let found = small_world(&random(100, 0.1, false, 5), 4, 7).unwrap();
    assert!(
        (0.7..1.3).contains(&found.sigma) && found.omega > 0.2,
        "{found:?}"
    );
    assert!(small_world(&graph, 0, 0).is_err());
}

#[test]
fn communities_are_followed_through_split_merge_birth_and_death() {
    let partition = |of: [u32; 12]| of.to_vec();
    let windows = [
        partition([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 7, 8]),
        // The same under other numbers.
        partition([5, 5, 5, 5, 5, 5, 2, 2, 2, 2, 9, 10]),
        // The first splits in two.
        partition([5, 5, 5, 3, 3, 3, 2, 2, 2, 2, 9, 10]),
        // They merge again; the second one dies.
        partition([1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7]),
        // A new one.
        partition([1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 5]),
    ];
    let found = track(&windows.concat(), 12, Matching::default()).unwrap();
    assert_eq!(
        found.window(0).unwrap()[..10],
        [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    );
    assert_eq!(found.window(1), found.window(0));
    assert_eq!(
        found.window(2).unwrap()[..10],
        [0, 0, 0, 2, 2, 2, 1, 1, 1, 1]
    );
    assert_eq!(found.window(3).unwrap()[6..], [NONE; 6]);
    assert_eq!(found.window(5), None);
    let events: Vec<&Event> = found.events.iter().map(|(_, e)| e).collect();
    let split = Event::Split {
        from: 0,
        into: vec![0, 2],
    };
    let merge = Event::Merge {
        from: vec![0, 2],
        into: 0,
    };
    for event in [split, merge, Event::Death { community: 1 }] {
        assert!(events.contains(&&event), "{event:?} in {events:?}");
    }
    let birth = Event::Birth { community: 3 };
    assert_eq!(found.events.last(), Some(&(4, birth)));
    let flexibility = found.flexibility();
    assert_eq!(
        (flexibility[0], flexibility[3], flexibility[11]),
        (0.0, 0.5, 0.0)
    );
    assert!(track(&[0; 5], 2, Matching::default()).is_err());
}

#[test]
fn colours_of_least_cost() {
    // Two groups of two for three steps; individual 1 visits the other group once.
    let groups = [0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1];
    let found = exhaustive(&groups, 4, Costs::default()).unwrap();
    // Visiting costs 1 and being absent 1; switching there and back as much.
    assert_eq!(found.cost, 2.0);
    let rarely = Costs {
        switching: 0.25,
        ..Costs::default()
    };
    let cheap = exhaustive(&groups, 4, rarely).unwrap();
    assert_eq!(cheap.cost, 0.5);
    assert_eq!(cheap.individuals[1], cheap.individuals[9]);
    assert_ne!(cheap.individuals[1], cheap.individuals[5]);
    // Against trying all colours of an individual.
    let colours = vec![vec![0, 1], vec![1, 0], vec![0, 2]];
    let costs = Costs {
        switching: 0.7,
        visiting: 1.1,
        absent: 0.4,
    };
    let groups = [0, 1, UNSEEN, 1, 0, 0, 0, UNSEEN, 1];
    let found = colour_individuals(&groups, 3, &colours, costs).unwrap();
    let mut least_of_all = 0.0;
    for individual in 0..3 {
        let mut least = f64::INFINITY;
        for code in 0..27_usize {
            let own = [code % 3, code / 3 % 3, code / 9];
            let mut cost = 0.0;
            for step in 0..3 {
                let paid = |condition: bool, cost: f64| if condition { cost } else { 0.0 };
                let group = groups[step * 3 + individual];
                let mut of_step = colours[step].iter();
                let there = of_step
                    .position(|c| *c == own[step] as u32)
                    .map(|g| g as u32);
                let seen = (group != UNSEEN).then_some(group);
                cost += paid(
                    step > 0 && own[step] != own[step.max(1) - 1],
                    costs.switching,
                );
                cost += paid(seen.is_some() && seen != there, costs.visiting);
                cost += paid(there.is_some() && seen != there, costs.absent);
            }
            least = least.min(cost);
        }
        least_of_all += least;
    }
    assert!(close(found.cost, least_of_all));
    assert!(exhaustive(&[0; 13], 1, Costs::default()).is_err());
    assert!(colour_individuals(&groups, 3, &[vec![0, 0], vec![0, 1], vec![0, 1]], costs).is_err());
    assert!(colour_individuals(&groups, 2, &colours, costs).is_err());
    let negative = Costs {
        switching: -1.0,
        ..costs
    };
    assert!(exhaustive(&groups, 3, negative).is_err());
}

#[test]
fn windows_against_windows() {
    let case = crate::cases::communities(20, 150, 8);
    let signal = case.signal();
    let spec = NetworkSpec::pearson(Window::new(50, 20)).threshold(Threshold::Absolute(0.2));
    let network = crate::cases::run(&spec, &signal);
    let count = network.len();
    let (jaccard, correlation) = (
        similarity(&network, Likeness::Jaccard).unwrap(),
        similarity(&network, Likeness::Correlation).unwrap(),
    );
    let dense: Vec<Vec<f64>> = (network.windows())
        .map(|w| {
            let mut all = vec![0.0; 400];
            w.edges()
                .for_each(|(i, j, r)| all[i as usize * 20 + j as usize] = f64::from(r));
            (0..20)
                .flat_map(|i| (i + 1..20).map(move |j| i * 20 + j))
                .map(|at| all[at])
                .collect()
        })
        .collect();
    for k in 0..count {
        for l in 0..count {
            let pairs = || dense[k].iter().zip(&dense[l]);
            let both = pairs().filter(|(a, b)| **a != 0.0 && **b != 0.0).count();
            let either = pairs().filter(|(a, b)| **a != 0.0 || **b != 0.0).count();
            assert!((f64::from(jaccard[k * count + l]) - both as f64 / either as f64).abs() < 1e-6);
            let expected = oracle::pearson(&dense[k], &dense[l]).unwrap();
            assert!((f64::from(correlation[k * count + l]) - expected).abs() < 1e-6);
        }
    }
    let found = network.communities(&Leiden::default()).unwrap();
    assert_eq!(found.len(), count);
}
