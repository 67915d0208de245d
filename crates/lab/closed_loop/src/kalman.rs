use betz_base::{Error, Result};
use betz_linear::{Mat, solve_general};

use crate::Decoder;
use crate::data::TrainingData;
use crate::linear::regress;

/// States of the filter: position, velocity and a constant.
const STATES: usize = 5;

/// The observation model of a Kalman filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KalmanConfig {
    /// Counts depend on the cursor's position too, which is taken as known (Gilja et al. 2012).
    pub position: bool,
}

/// Kalman filter of the cursor's velocity; with intention labels and the position as feedback, ReFIT.
#[derive(Debug, Clone, PartialEq)]
pub struct Kalman {
    a: [[f64; STATES]; STATES],
    w: [[f64; STATES]; STATES],
    /// (channel, state).
    c: Vec<[f64; STATES]>,
    /// Cᵀ Q⁻¹, with Q diagonal.
    cq: Vec<[f64; STATES]>,
    /// Cᵀ Q⁻¹ C.
    m: [[f64; STATES]; STATES],
    x: [f64; STATES],
    p: [[f64; STATES]; STATES],
}

/// The movement's matrix A and the covariance W of its noise.
fn movement_model(data: &TrainingData) -> Result<(Square, Square)> {
    let mut a = [[0.0; STATES]; STATES];
    let mut w = [[0.0; STATES]; STATES];
    for (i, row) in a.iter_mut().enumerate() {
        row[i] = 1.0;
    }
    (a[0][2], a[1][3]) = (data.bin_s, data.bin_s);
    let pairs = data.bins.windows(2);
    let pairs = pairs.map(|b| (b[0].velocity.as_slice(), b[1].velocity.as_slice()));
    let av = regress(pairs, 2, 2, &[1e-9; 2])?;
    for i in 0..2 {
        for j in 0..2 {
            a[2 + i][2 + j] = av[(j, i)];
        }
    }
    let n = data.bins.len() as f64;
    for pair in data.bins.windows(2) {
        let rest = [0, 1].map(|i| {
            let from = pair[0].velocity;
            pair[1].velocity[i] - a[2 + i][2] * from[0] - a[2 + i][3] * from[1]
        });
        for i in 0..2 {
            for j in 0..2 {
                w[2 + i][2 + j] += rest[i] * rest[j] / (n - 1.0);
            }
        }
    }
    Ok((a, w))
}

impl Kalman {
    /// Least squares for each part: v' = A v with noise W, counts = C x with noise Q (Wu et al. 2003).
    ///
    /// # Errors
    /// `InsufficientData`; `NotPositiveDefinite` when the labels do not move in two dimensions.
    pub fn train(data: &TrainingData, config: KalmanConfig) -> Result<Self> {
        let channels = data.channels()?;
        let (a, w) = movement_model(data)?;
        let n = data.bins.len() as f64;
        let first = if config.position { 0 } else { 2 };
        let width = STATES - first;
        let states: Vec<[f64; STATES]> = (data.bins.iter())
            .map(|b| {
                let ([x, y], [vx, vy]) = (b.position, b.velocity);
                [x, y, vx, vy, 1.0]
            })
            .collect();
        let counts: Vec<Vec<f64>> = (data.bins.iter())
            .map(|b| b.counts.iter().map(|c| f64::from(*c)).collect())
            .collect();
        let rows = states.iter().zip(&counts);
        let rows = rows.map(|(x, y)| (&x[first..], y.as_slice()));
        let fit = regress(rows, width, channels, &vec![1e-9 * n; width])?;
        let c: Vec<[f64; STATES]> = (0..channels)
            .map(|k| {
                let mut row = [0.0; STATES];
                for i in 0..width {
                    row[first + i] = fit[(i, k)];
                }
                row
            })
            .collect();
        let mut q = vec![0.0; channels];
        for (x, y) in states.iter().zip(&counts) {
            for k in 0..channels {
                let predicted: f64 = (0..STATES).map(|i| c[k][i] * x[i]).sum();
                q[k] += (y[k] - predicted).powi(2) / n;
            }
        }
        let cq: Vec<[f64; STATES]> = (c.iter().zip(&q))
            .map(|(row, q)| row.map(|v| v / (q + 1e-4)))
            .collect();
        let mut m = [[0.0; STATES]; STATES];
        for (row, cq) in c.iter().zip(&cq) {
            for i in 0..STATES {
                for j in 0..STATES {
                    m[i][j] += cq[i] * row[j];
                }
            }
        }
        let mut filter = Self {
            a,
            w,
            c,
            cq,
            m,
            x: [0.0; STATES],
            p: [[0.0; STATES]; STATES],
        };
        filter.reset();
        let finite = filter.c.iter().flatten().all(|v| v.is_finite());
        if !finite {
            return Err(Error::new(
                betz_base::ErrorKind::NonFinite,
                "Kalman filter: training gave numbers that are not finite",
            ));
        }
        Ok(filter)
    }

    /// Prediction; the position is the cursor's and has no uncertainty.
    fn predict(&mut self, cursor: [f64; 2]) {
        self.x[..2].copy_from_slice(&cursor);
        for i in 0..2 {
            self.p[i] = [0.0; STATES];
            self.p.iter_mut().for_each(|row| row[i] = 0.0);
        }
        let x = self.x;
        self.x = self.a.map(|row| (0..STATES).map(|i| row[i] * x[i]).sum());
        let ap = product(&self.a, &self.p);
        let mut p = product(&ap, &transpose(&self.a));
        for (p, w) in p.iter_mut().flatten().zip(self.w.as_flattened()) {
            *p += w;
        }
        self.p = p;
    }
}

impl Decoder for Kalman {
    fn reset(&mut self) {
        self.x = [0.0, 0.0, 0.0, 0.0, 1.0];
        self.p = [[0.0; STATES]; STATES];
    }

    fn step(&mut self, counts: &[u32], cursor: [f64; 2]) -> [f64; 2] {
        self.predict(cursor);
        // x += (I + P M)⁻¹ P Cᵀ Q⁻¹ (y − C x), the information form: five unknowns, not a channel each.
        let mut pull = [0.0; STATES];
        for ((row, cq), count) in self.c.iter().zip(&self.cq).zip(counts) {
            let predicted: f64 = (0..STATES).map(|i| row[i] * self.x[i]).sum();
            let rest = f64::from(*count) - predicted;
            for i in 0..STATES {
                pull[i] += cq[i] * rest;
            }
        }
        let mut system = product(&self.p, &self.m);
        for (i, row) in system.iter_mut().enumerate() {
            row[i] += 1.0;
        }
        let solved = solve_general(matrix(&system).as_ref(), matrix(&self.p).as_ref());
        let gain = std::array::from_fn(|i| std::array::from_fn(|j| solved[(i, j)]));
        let finite = |row: &[f64; STATES]| row.iter().all(|v| v.is_finite());
        if !gain.iter().all(finite) {
            return [self.x[2], self.x[3]];
        }
        for (x, row) in self.x.iter_mut().zip(&gain) {
            *x += row.iter().zip(pull).map(|(g, p)| g * p).sum::<f64>();
        }
        self.x[4] = 1.0;
        self.p = gain;
        [self.x[2], self.x[3]]
    }

    fn missed(&mut self, _: usize, cursor: [f64; 2]) -> [f64; 2] {
        self.predict(cursor);
        [self.x[2], self.x[3]]
    }
}

type Square = [[f64; STATES]; STATES];

fn product(a: &Square, b: &Square) -> Square {
    let sum = |i: usize, j: usize| (0..STATES).map(|k| a[i][k] * b[k][j]).sum();
    std::array::from_fn(|i| std::array::from_fn(|j| sum(i, j)))
}

fn transpose(a: &Square) -> Square {
    std::array::from_fn(|i| std::array::from_fn(|j| a[j][i]))
}

fn matrix(a: &Square) -> Mat<f64> {
    Mat::from_fn(STATES, STATES, |i, j| a[i][j])
}
