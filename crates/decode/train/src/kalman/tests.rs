#![allow(
    clippy::needless_range_loop,
    reason = "matrices by index, as they are written"
)]

use super::*;
use betz_gram::gram::NormalEquations;
use betz_recording::{Dataset, OutputInfo, Segment, Spikes};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const N: usize = 5;

/// A walk x of two outputs that a damped rotation drives, and y = Cx + noise, (step, feature).
fn simulated(steps: usize) -> (Dataset, Vec<[f64; N]>) {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    let (mut x, mut behavior, mut y) = ([0.0_f64; 2], Vec::new(), Vec::new());
    for _ in 0..steps {
        x = [
            0.95 * x[0] - 0.2 * x[1] + 0.3 * normal(),
            0.2 * x[0] + 0.95 * x[1] + 0.1 * normal(),
        ];
        behavior.extend([(x[0] + 3.0) as f32, (10.0 * x[1]) as f32]);
        y.push(std::array::from_fn(|f| {
            2.0 + (f as f64 * 0.9).cos() * x[0]
                + (f as f64 * 1.7).sin() * x[1]
                + normal() * (0.5 + f as f64 * 0.2)
        }));
    }
    let data = Dataset {
        step_seconds: 0.1,
        steps,
        channel_names: vec!["a".into()],
        spikes: Spikes::default(),
        segments: vec![Segment {
            start: 0,
            stop: steps as i64,
        }],
        outputs: ["x", "y"].map(OutputInfo::from).to_vec(),
        behavior,
    };
    (data, y)
}

fn sums(data: &Dataset, y: &[[f64; N]]) -> NormalEquations {
    let mut sums = NormalEquations::zeros(N, 2);
    for (step, y) in y.iter().enumerate() {
        let x = &data.behavior[step * 2..][..2];
        sums.steps += 1;
        for i in 0..N {
            sums.feature_sum[i] += y[i];
            for j in 0..N {
                sums.gram[i * N + j] += y[i] * y[j];
            }
            for o in 0..2 {
                sums.upsilon[i * 2 + o] += y[i] * f64::from(x[o]);
            }
        }
        for o in 0..2 {
            sums.output_sum[o] += f64::from(x[o]);
            sums.output_sq_sum[o] += f64::from(x[o]).powi(2);
        }
    }
    sums
}

type M = Vec<Vec<f64>>;

fn times(a: &M, b: &M) -> M {
    a.iter()
        .map(|row| {
            (0..b[0].len())
                .map(|j| row.iter().zip(b).map(|(a, b)| a * b[j]).sum())
                .collect()
        })
        .collect()
}

fn turned(a: &M) -> M {
    (0..a[0].len())
        .map(|j| a.iter().map(|row| row[j]).collect())
        .collect()
}

fn plus(a: &M, b: &M, sign: f64) -> M {
    a.iter()
        .zip(b)
        .map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + sign * b).collect())
        .collect()
}

/// By Gauss and Jordan with pivoting.
fn inverse(a: &M) -> M {
    let n = a.len();
    let mut w: M = a
        .iter()
        .enumerate()
        .map(|(i, row)| {
            row.iter()
                .copied()
                .chain((0..n).map(|j| f64::from(u8::from(i == j))))
                .collect()
        })
        .collect();
    for c in 0..n {
        let p = (c..n)
            .max_by(|&i, &j| w[i][c].abs().total_cmp(&w[j][c].abs()))
            .unwrap();
        w.swap(c, p);
        let pivot = w[c][c];
        w[c].iter_mut().for_each(|v| *v /= pivot);
        for r in (0..n).filter(|&r| r != c) {
            let factor = w[r][c];
            let row = w[c].clone();
            w[r].iter_mut().zip(row).for_each(|(v, p)| *v -= factor * p);
        }
    }
    w.into_iter().map(|row| row[n..].to_vec()).collect()
}

#[test]
fn the_steady_filter_is_the_textbook_filter_after_a_while() {
    let (data, y) = simulated(4000);
    textbook(&data, &data, &y);
    // Taught by labels other than the movement: C and Q are theirs, A and W the movement's.
    let mut labels = data.clone();
    for (t, row) in labels.behavior.chunks_exact_mut(2).enumerate() {
        (row[0], row[1]) = (
            2.0 * row[0] - 0.05 * row[1],
            row[1] + (t as f32 * 0.1).sin(),
        );
    }
    textbook(&data, &labels, &y);
}

/// Compares the filter of `data`'s movement that observes `y`, taught by `labels`, with the textbook's.
fn textbook(data: &Dataset, labels: &Dataset, y: &[[f64; N]]) {
    let part = Part {
        segment: data.segments[0],
        from: 0,
    };
    let [of_labels, movement] = [labels, data].map(|d| Dynamics::new(&d.view(), &[part], 0));
    let steady = SteadyKalman::fit(&sums(labels, y), &of_labels, &movement, 0.0).unwrap();
    let mean = mean_column(&states(labels));
    let estimates = TextbookFilter::fit(data, labels, y).estimates(y);
    let mut s = [0.0; 2];
    for (step, (y, state)) in y.iter().zip(&estimates).enumerate() {
        // Ours: s ← M s + K y.
        let mut next = [steady.offset[0], steady.offset[1]];
        for o in 0..2 {
            for f in 0..N {
                next[o] += steady.gain[f * 2 + o] * y[f];
            }
            for j in 0..2 {
                next[o] += steady.transition[o * 2 + j] * s[j];
            }
        }
        s = next;
        if step > 200 {
            for o in 0..2 {
                assert!(
                    (s[o] - state[o][0]).abs() < 1e-5 * (1.0 + state[o][0].abs()),
                    "step {step}: {} and {}",
                    s[o],
                    state[o][0]
                );
            }
        }
    }
    assert!((steady.mean[0] - mean[0][0]).abs() < 1e-9);
}

fn states(data: &Dataset) -> Vec<M> {
    let rows = data.behavior.chunks_exact(2);
    rows.map(|row| row.iter().map(|v| vec![f64::from(*v)]).collect())
        .collect()
}

fn mean_column(columns: &[M]) -> M {
    let zero = vec![vec![0.0]; columns[0].len()];
    let sum = columns.iter().fold(zero, |s, x| plus(&s, x, 1.0));
    divide(&sum, columns.len() as f64)
}

fn centre(columns: &[M]) -> Vec<M> {
    let mean = mean_column(columns);
    columns.iter().map(|x| plus(x, &mean, -1.0)).collect()
}

fn divide(a: &M, by: f64) -> M {
    let row = |row: &Vec<f64>| row.iter().map(|v| v / by).collect();
    a.iter().map(row).collect()
}

/// Sum of a bᵀ over all steps.
fn sum_of_products(a: &[M], b: &[M]) -> M {
    let mut sum = vec![vec![0.0; b[0].len()]; a[0].len()];
    for (a, b) in a.iter().zip(b) {
        sum = plus(&sum, &times(a, &turned(b)), 1.0);
    }
    sum
}

/// Least squares of `to` on `from`: the matrix, and the covariance of what it leaves.
fn regress(to: &[M], from: &[M]) -> (M, M) {
    let a = times(
        &sum_of_products(to, from),
        &inverse(&sum_of_products(from, from)),
    );
    let left: Vec<M> = (from.iter().zip(to))
        .map(|(from, to)| plus(to, &times(&a, from), -1.0))
        .collect();
    let covariance = divide(&sum_of_products(&left, &left), to.len() as f64);
    (a, covariance)
}

/// A, W, C, Q by least squares on centred values.
struct TextbookFilter {
    a: M,
    w: M,
    c: M,
    q: M,
}

impl TextbookFilter {
    fn fit(data: &Dataset, labels: &Dataset, y: &[[f64; N]]) -> Self {
        let moves = states(data);
        // Pairs are taken about their own means.
        let before = centre(&moves[..moves.len() - 1]);
        let (a, w) = regress(&centre(&moves[1..]), &before);
        let (c, q) = regress(&centre(&observations(y)), &centre(&states(labels)));
        Self { a, w, c, q }
    }

    /// Predicts and updates with the full gain: the state about its mean after each step.
    fn estimates(&self, y: &[[f64; N]]) -> Vec<M> {
        let Self { a, w, c, q } = self;
        let (mut p, mut state) = (w.clone(), vec![vec![0.0]; 2]);
        let identity: M = (0..2)
            .map(|i| (0..2).map(|j| f64::from(u8::from(i == j))).collect())
            .collect();
        let step = |y: &M| {
            let ahead = times(a, &state);
            p = plus(&times(&times(a, &p), &turned(a)), w, 1.0);
            let pc = times(&p, &turned(c));
            let gain = times(&pc, &inverse(&plus(&times(c, &pc), q, 1.0)));
            let surprise = plus(y, &times(c, &ahead), -1.0);
            state = plus(&ahead, &times(&gain, &surprise), 1.0);
            p = times(&plus(&identity, &times(&gain, c), -1.0), &p);
            state.clone()
        };
        centre(&observations(y)).iter().map(step).collect()
    }
}

fn observations(y: &[[f64; N]]) -> Vec<M> {
    y.iter()
        .map(|y| y.iter().map(|v| vec![*v]).collect())
        .collect()
}

#[test]
fn sums_over_neighbours_add_up() {
    let (data, _) = simulated(100);
    let part = |start, stop| Part {
        segment: Segment { start, stop },
        from: start,
    };
    let all = Dynamics::new(&data.view(), &[part(0, 40), part(40, 100)], 0);
    let first = Dynamics::new(&data.view(), &[part(0, 40)], 0);
    let rest = all.clone().plus(&first, -1.0);
    let expected = Dynamics::new(&data.view(), &[part(40, 100)], 0);
    assert_eq!((rest.steps, rest.pairs), (60.0, 59.0));
    for (a, b) in rest.after_before.iter().zip(&expected.after_before) {
        assert!((a - b).abs() < 1e-9 * b.abs().max(1.0));
    }
}

#[test]
fn outputs_that_stand_still_are_refused() {
    let (mut data, y) = simulated(100);
    data.behavior.fill(1.0);
    let part = Part {
        segment: data.segments[0],
        from: 0,
    };
    let dynamics = Dynamics::new(&data.view(), &[part], 0);
    let error = SteadyKalman::fit(&sums(&data, &y), &dynamics, &dynamics, 1.0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
    let none = Dynamics::new(&data.view(), &[], 0);
    let error = SteadyKalman::fit(&sums(&data, &y), &none, &none, 1.0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
}

/// Sums of outputs whose rows `of` makes of two that differ.
fn dynamics_of(of: impl Fn(f32, f32) -> Vec<f32>, names: &[&str]) -> (Dynamics, Vec<OutputInfo>) {
    let (two, _) = simulated(500);
    let outputs: Vec<OutputInfo> = names.iter().map(|name| OutputInfo::from(*name)).collect();
    let rows = two.behavior.chunks_exact(2);
    let data = Dataset {
        behavior: rows.flat_map(|x| of(x[0], x[1])).collect(),
        outputs: outputs.clone(),
        ..two.clone()
    };
    let segment = data.segments[0];
    let sums = Dynamics::new(&data.view(), &[Part { segment, from: 0 }], 0);
    (sums, outputs)
}

#[test]
fn outputs_that_follow_from_others_are_named() {
    let refused = |of: &dyn Fn(f32, f32) -> Vec<f32>, names: &[&str]| {
        let (sums, outputs) = dynamics_of(of, names);
        repeated::refuse(&sums, &outputs).map_err(|e| e.message().to_owned())
    };
    let named = |of: &dyn Fn(f32, f32) -> Vec<f32>, names: &[&str], words: &str| {
        let said = refused(of, names).unwrap_err();
        assert!(said.contains(words), "{said}");
    };
    named(
        &|x, _| vec![x, x],
        &["a", "b"],
        "got b, which follows from a; leave",
    );
    named(
        &|x, y| vec![y, x, 2.0 * x + 1.0],
        &["a", "b", "c"],
        "got c, which follows from b; leave",
    );
    named(
        &|x, y| vec![x, y, 0.5 * y - x],
        &["a", "b", "c"],
        "got c, which follows from a, b; leave",
    );
    assert_eq!(refused(&|x, y| vec![x, y], &["a", "b"]), Ok(()));
    // One that does not change stays what it is; a nonlinear function is not told by the others.
    assert_eq!(refused(&|x, _| vec![x, 4.0], &["a", "b"]), Ok(()));
    assert_eq!(refused(&|x, y| vec![x, y, x * y], &["a", "b", "c"]), Ok(()));
}
