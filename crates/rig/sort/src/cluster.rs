//! Units of a trained map: clusters between the valleys of its density, joined where they are not separate.

use betz_linear::{Cholesky, Mat};

use betz_som::{Map, Samples};

/// Conditions under which two clusters of spikes are two units.
#[derive(Debug, Clone, PartialEq)]
pub struct Separation {
    /// Least d′ between them, along the axis that tells them apart best.
    pub d_prime: f64,
    /// Least depth of the valley between them: its density by that of the lower peak must be below this.
    pub valley: f64,
    /// Least number of spikes of a unit.
    pub spikes: usize,
    /// Least part of a group's spikes that a unit has: what is rarer is overlaps of others, mostly.
    pub part: f64,
}

impl Default for Separation {
    fn default() -> Self {
        Self {
            d_prime: 3.0,
            valley: 0.5,
            spikes: 15,
            part: 0.004,
        }
    }
}

/// Steps at which density along an axis is looked at.
const STEPS: usize = 96;
/// Spikes of a unit that are looked at: enough to tell.
const LOOKED_AT: usize = 4000;

/// A unit of each sample, and of each node; `None` where there are too few samples.
pub(crate) struct Units {
    pub(crate) nodes: Vec<Option<usize>>,
    pub(crate) samples: Vec<Option<usize>>,
    pub(crate) count: usize,
}

/// Part of a known unit's spikes from which on a heap has them.
const HAS: f64 = 0.3;

/// Takes heaps that have spikes of more than one known unit apart again: what was told apart by how it looks everywhere at every
/// sample is not one by a few numbers. `known`: the unit of each sample, if there is one; `winners`: its node.
pub(crate) fn keep_apart(mut units: Units, known: &[Option<u32>], winners: &[u32]) -> Units {
    use std::collections::BTreeMap;
    let mut all: BTreeMap<u32, usize> = BTreeMap::new();
    let mut of_heap: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); units.count];
    for (known, heap) in known.iter().zip(&units.samples) {
        if let Some(unit) = known {
            *all.entry(*unit).or_default() += 1;
            if let Some(heap) = heap {
                *of_heap[*heap].entry(*unit).or_default() += 1;
            }
        }
    }
    for (heap, inside) in of_heap.iter().enumerate() {
        let has = |(unit, count): (&u32, &usize)| {
            (*count as f64 >= HAS * all[unit] as f64).then_some(*unit)
        };
        let has: Vec<u32> = inside.iter().filter_map(has).collect();
        if has.len() < 2 {
            continue;
        }
        let number = |unit: u32, next: usize| match has.iter().position(|u| *u == unit) {
            Some(0) => Some(heap),
            Some(at) => Some(next + at - 1),
            None => None,
        };
        let next = units.count;
        units.count += has.len() - 1;
        let mut votes: BTreeMap<u32, BTreeMap<usize, usize>> = BTreeMap::new();
        for ((known, winner), sample) in known.iter().zip(winners).zip(&mut units.samples) {
            if *sample == Some(heap) {
                *sample = known.and_then(|unit| number(unit, next));
                if let Some(unit) = *sample {
                    *votes.entry(*winner).or_default().entry(unit).or_default() += 1;
                }
            }
        }
        for (node, label) in units.nodes.iter_mut().enumerate() {
            if *label == Some(heap) {
                let most = votes.get(&(node as u32)).map(|v| v.iter());
                *label = most.and_then(|v| v.max_by_key(|(_, n)| **n).map(|(unit, _)| *unit));
            }
        }
    }
    units
}

/// Watershed over the map's heights, then merging.
pub(crate) fn units(map: &Map, samples: Samples<'_>, winners: &[u32], apart: &Separation) -> Units {
    let basins = watershed(map);
    let mut basin_of: Vec<usize> = winners.iter().map(|w| basins[*w as usize]).collect();
    let mut node_basin = basins;
    let count = node_basin.iter().max().map_or(0, |most| most + 1);
    let mut alive: Vec<bool> = vec![true; count];
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (s, &b) in basin_of.iter().enumerate() {
        members[b].push(s as u32);
    }
    let mut means: Vec<Vec<f64>> = members.iter().map(|m| mean(samples, m)).collect();
    // Nearest pairs first; a pair that was told apart is looked at again when one of them has grown.
    let mut version = vec![0_u32; count];
    let mut told = std::collections::HashMap::new();
    loop {
        let mut pairs = Vec::new();
        for a in (0..count).filter(|a| alive[*a] && !members[*a].is_empty()) {
            for b in (a + 1..count).filter(|b| alive[*b] && !members[*b].is_empty()) {
                if told.get(&(a, b)) != Some(&(version[a], version[b])) {
                    pairs.push((distance(&means[a], &means[b]), a, b));
                }
            }
        }
        pairs.sort_by(|x, y| x.0.total_cmp(&y.0).then((x.1, x.2).cmp(&(y.1, y.2))));
        let mut merged = false;
        for (_, a, b) in pairs {
            if two(
                samples,
                &members[a],
                &members[b],
                (&means[a], &means[b]),
                apart,
            ) {
                told.insert((a, b), (version[a], version[b]));
                continue;
            }
            let gone = std::mem::take(&mut members[b]);
            for &s in &gone {
                basin_of[s as usize] = a;
            }
            members[a].extend(gone);
            node_basin
                .iter_mut()
                .filter(|n| **n == b)
                .for_each(|n| *n = a);
            means[a] = mean(samples, &members[a]);
            alive[b] = false;
            version[a] += 1;
            merged = true;
            break;
        }
        if !merged {
            break;
        }
    }
    let least = apart
        .spikes
        .max((apart.part * samples.count() as f64) as usize);
    let mut numbers = vec![None; count];
    let mut next = 0;
    for b in 0..count {
        if alive[b] && members[b].len() >= least {
            numbers[b] = Some(next);
            next += 1;
        }
    }
    Units {
        nodes: node_basin.iter().map(|b| numbers[*b]).collect(),
        samples: basin_of.iter().map(|b| numbers[*b]).collect(),
        count: next,
    }
}

fn mean(samples: Samples<'_>, members: &[u32]) -> Vec<f64> {
    let mut mean = vec![0.0; samples.dims()];
    for &s in members {
        for (m, x) in mean.iter_mut().zip(samples.row(s as usize)) {
            *m += f64::from(*x);
        }
    }
    mean.iter_mut()
        .for_each(|m| *m /= members.len().max(1) as f64);
    mean
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| (a - b).powi(2));
    squares.sum::<f64>().sqrt()
}

/// Nodes from low to high: one with no lower neighbour begins a basin, another joins that of its nearest one.
fn watershed(map: &Map) -> Vec<usize> {
    let heights = map.heights();
    let nodes = map.grid().nodes();
    let mut order: Vec<usize> = (0..nodes).collect();
    order.sort_by(|a, b| heights[*a].total_cmp(&heights[*b]).then(a.cmp(b)));
    let mut basins = vec![usize::MAX; nodes];
    let mut next = 0;
    for node in order {
        let lower = map
            .grid()
            .neighbours(node)
            .filter(|n| basins[*n] != usize::MAX);
        let nearest = lower.min_by(|a, b| map.between(node, *a).total_cmp(&map.between(node, *b)));
        basins[node] = match nearest {
            Some(neighbour) => basins[neighbour],
            None => {
                next += 1;
                next - 1
            }
        };
    }
    basins
}

/// True if two clusters are two units: along the axis of Fisher's discriminant, far enough apart and with a valley
/// between them.
pub(crate) fn two(
    samples: Samples<'_>,
    a: &[u32],
    b: &[u32],
    means: (&[f64], &[f64]),
    apart: &Separation,
) -> bool {
    let every = |members: &[u32]| members.len().div_ceil(LOOKED_AT).max(1);
    let Some(projected) = on_fisher_axis(samples, [a, b], [means.0, means.1], every) else {
        return false;
    };
    let [pa, pb] = &projected;
    let moments = |p: &[f64]| {
        let mean = p.iter().sum::<f64>() / p.len() as f64;
        let variance = p.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / p.len() as f64;
        (mean, variance)
    };
    let ((ma, va), (mb, vb)) = (moments(pa), moments(pb));
    let gap = mb - ma;
    let spread = (0.5 * (va + vb)).sqrt();
    if gap <= 0.0 || gap < apart.d_prime * spread {
        return false;
    }
    // Counts of both as they are: weights that were evened out would dig a valley at the cut through one heap.
    let (weight_a, weight_b) = (every(a) as f64, every(b) as f64);
    let fewer = pa.len().min(pb.len()) as f64;
    let width = (0.9 * va.min(vb).sqrt() * fewer.powf(-0.2)).max(1e-3 * gap);
    let density = |at: f64| -> f64 {
        let sum = |p: &[f64]| -> f64 {
            p.iter()
                .map(|x| ((x - at) / width).powi(2))
                .filter(|z| *z < 25.0)
                .map(|z| (-0.5 * z).exp())
                .sum()
        };
        weight_a * sum(pa) + weight_b * sum(pb)
    };
    let line: Vec<f64> = (0..=STEPS)
        .map(|i| density(ma + gap * (i as f64 / STEPS as f64 * 1.4 - 0.2)))
        .collect();
    deepest_valley(&line) < apart.valley
}

/// Places of both clusters' members on the axis of Fisher's discriminant; `every` says of which members.
fn on_fisher_axis(
    samples: Samples<'_>,
    clusters: [&[u32]; 2],
    means: [&[f64]; 2],
    every: impl Fn(&[u32]) -> usize,
) -> Option<[Vec<f64>; 2]> {
    let dims = samples.dims();
    let mut within = Mat::<f64>::zeros(dims, dims);
    let mut counted = 0.0;
    for (members, mean) in clusters.into_iter().zip(means) {
        for &s in members.iter().step_by(every(members)) {
            let x = samples.row(s as usize);
            for i in 0..dims {
                let di = f64::from(x[i]) - mean[i];
                for j in 0..=i {
                    within[(i, j)] += di * (f64::from(x[j]) - mean[j]);
                }
            }
            counted += 1.0;
        }
    }
    for i in 0..dims {
        for j in 0..=i {
            within[(i, j)] /= counted;
        }
        // The noise itself has a variance of 1: less is too few spikes to know.
        within[(i, i)] += 1.0;
    }
    let between = Mat::from_fn(dims, 1, |i, _| means[1][i] - means[0][i]);
    let axis = Cholesky::new(within.as_ref()).ok()?.solve(between.as_ref());
    let project = |members: &[u32]| -> Vec<f64> {
        let one = |s: &u32| {
            let x = samples.row(*s as usize);
            (0..dims)
                .map(|d| axis[(d, 0)] * (f64::from(x[d]) - means[0][d]))
                .sum()
        };
        members.iter().step_by(every(members)).map(one).collect()
    };
    Some(clusters.map(project))
}

/// The deepest point of `line` between the highest of each side, wherever the sides meet, as a part of the lower of
/// the two.
fn deepest_valley(line: &[f64]) -> f64 {
    let (mut deepest, mut left) = (f64::INFINITY, 0.0_f64);
    let mut right = vec![0.0_f64; line.len() + 1];
    for i in (0..line.len()).rev() {
        right[i] = right[i + 1].max(line[i]);
    }
    for (i, &here) in line.iter().enumerate() {
        left = left.max(here);
        let lower = left.min(right[i]);
        if lower > 0.0 {
            deepest = deepest.min(here / lower);
        }
    }
    deepest
}
