//! A small transformer encoder: as ONNX, and as plain f64 loops.

use super::Draft;
use super::{Float, Int, Ints};

pub(crate) const CHANNELS: usize = 5;
pub(crate) const STEPS: usize = 6;
const HEADS: usize = 2;
const WIDTH: usize = 8;
const HIDDEN: usize = 12;
const OUTPUTS: usize = 2;

/// A matrix, (rows, columns).
type Matrix = Vec<Vec<f64>>;

/// Weights that are drawn from a sequence of fractions.
pub(crate) struct Encoder {
    /// (name, shape, values)
    tensors: Vec<(&'static str, Vec<usize>, Vec<f32>)>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        let mut number = 0.5_f64;
        let mut draw = |count: usize| -> Vec<f32> {
            let next = |_| {
                number = (number + 0.618_033_988_749_895).fract();
                (number - 0.5) as f32
            };
            (0..count).map(next).collect()
        };
        let shapes: [(&str, &[usize]); 16] = [
            ("embed", &[CHANNELS, WIDTH]),
            ("place", &[STEPS, WIDTH]),
            ("query_in", &[WIDTH, WIDTH]),
            ("key_in", &[WIDTH, WIDTH]),
            ("value_in", &[WIDTH, WIDTH]),
            ("join", &[WIDTH, WIDTH]),
            ("scale1", &[WIDTH]),
            ("shift1", &[WIDTH]),
            ("up", &[WIDTH, HIDDEN]),
            ("up_bias", &[HIDDEN]),
            ("down", &[HIDDEN, WIDTH]),
            ("query", &[CHANNELS, WIDTH]),
            ("key", &[CHANNELS, WIDTH]),
            ("value", &[CHANNELS, WIDTH]),
            ("head", &[WIDTH, OUTPUTS]),
            ("head_bias", &[OUTPUTS]),
        ];
        let tensors = (shapes.iter())
            .map(|(name, shape)| (*name, shape.to_vec(), draw(shape.iter().product())))
            .collect();
        Self { tensors }
    }

    pub(crate) fn width(&self) -> usize {
        WIDTH
    }

    /// Adds the weights as constants.
    pub(crate) fn weights(&self, draft: Draft) -> Draft {
        (self.tensors.iter()).fold(draft, |draft, (name, shape, values)| {
            draft.floats(name, shape, values)
        })
    }

    /// The encoder of an input of `shape`; its output is `y`.
    pub(crate) fn draft(&self, shape: &[usize]) -> Draft {
        let depth = WIDTH / HEADS;
        let split = [1, STEPS as i64, HEADS as i64, depth as i64];
        let mut draft = self
            .weights(Draft::default().floats_input("x", shape))
            .integers("split", &[4], &split)
            .integers("joined", &[3], &[1, STEPS as i64, WIDTH as i64])
            .integers("newest", &[], &[STEPS as i64 - 1])
            .floats("root", &[], &[(depth as f32).sqrt()])
            .node("MatMul", "x embed", "e", &[])
            .node("Add", "e place", "a", &[]);
        for part in ["query", "key", "value"] {
            let [flat, four, turned] = ["flat", "four", "turned"].map(|n| format!("{part}_{n}"));
            let order: &[i64] = if part == "key" {
                &[0, 2, 3, 1]
            } else {
                &[0, 2, 1, 3]
            };
            draft = draft
                .node("MatMul", &format!("a {part}_in"), &flat, &[])
                .node("Reshape", &format!("{flat} split"), &four, &[])
                .node("Transpose", &four, &turned, &[("perm", Ints(order))]);
        }
        draft
            .node("MatMul", "query_turned key_turned", "products", &[])
            .node("Div", "products root", "scores", &[])
            .node("Softmax", "scores", "shares", &[("axis", Int(-1))])
            .node("MatMul", "shares value_turned", "heads", &[])
            .node(
                "Transpose",
                "heads",
                "beside",
                &[("perm", Ints(&[0, 2, 1, 3]))],
            )
            .node("Reshape", "beside joined", "all", &[])
            .node("MatMul", "all join", "mixed", &[])
            .node("Add", "a mixed", "sum", &[])
            .node(
                "LayerNormalization",
                "sum scale1 shift1",
                "norm",
                &[("axis", Int(-1)), ("epsilon", Float(1e-5))],
            )
            .node("MatMul", "norm up", "wide", &[])
            .node("Add", "wide up_bias", "wider", &[])
            .node("Relu", "wider", "hidden", &[])
            .node("MatMul", "hidden down", "narrow", &[])
            .node("Add", "norm narrow", "end", &[])
            .node("Gather", "end newest", "last", &[("axis", Int(1))])
            .node("Gemm", "last head head_bias", "y", &[])
    }

    fn matrix(&self, name: &str) -> Matrix {
        let found = self.tensors.iter().find(|(own, ..)| *own == name);
        let Some((_, shape, values)) = found else {
            return Matrix::new();
        };
        let columns = shape.last().copied().unwrap_or(1);
        let row = |row: &[f32]| row.iter().copied().map(f64::from).collect();
        values.chunks_exact(columns).map(row).collect()
    }

    /// Estimates of the last step of a window of counts, (step, channel).
    pub(crate) fn last(&self, counts: &[f64]) -> Vec<f64> {
        let rows: Matrix = counts.chunks_exact(CHANNELS).map(<[f64]>::to_vec).collect();
        let begun = plus(
            &product(&rows, &self.matrix("embed")),
            &self.matrix("place"),
        );
        let [q, k, v] =
            ["query_in", "key_in", "value_in"].map(|name| product(&begun, &self.matrix(name)));
        let depth = WIDTH / HEADS;
        let mut all = vec![Vec::new(); STEPS];
        for head in 0..HEADS {
            let part = |m: &Matrix| -> Matrix {
                let columns = head * depth..(head + 1) * depth;
                m.iter().map(|row| row[columns.clone()].to_vec()).collect()
            };
            let of_head = attention(&part(&q), &part(&k), &part(&v), (depth as f64).sqrt());
            all.iter_mut()
                .zip(of_head)
                .for_each(|(row, own)| row.extend(own));
        }
        let sum = plus(&begun, &product(&all, &self.matrix("join")));
        let norm: Matrix = sum.iter().map(|row| self.normalized(row)).collect();
        let bias = self.matrix("up_bias").concat();
        let mut hidden = product(&norm, &self.matrix("up"));
        for row in &mut hidden {
            row.iter_mut()
                .zip(&bias)
                .for_each(|(v, b)| *v = (*v + b).max(0.0));
        }
        let end = plus(&norm, &product(&hidden, &self.matrix("down")));
        self.read_out(&end[STEPS - 1..])
    }

    /// Estimates of attention of the last step over a window, without embedding.
    pub(crate) fn attended(&self, counts: &[f64]) -> Vec<f64> {
        let rows: Matrix = counts.chunks_exact(CHANNELS).map(<[f64]>::to_vec).collect();
        let [q, k, v] = ["query", "key", "value"].map(|name| product(&rows, &self.matrix(name)));
        self.read_out(&attention(&q[STEPS - 1..].to_vec(), &k, &v, 1.0))
    }

    fn read_out(&self, row: &[Vec<f64>]) -> Vec<f64> {
        let mut estimates = product(&row.to_vec(), &self.matrix("head"));
        let bias = self.matrix("head_bias");
        estimates = plus(&estimates, &bias);
        estimates.concat()
    }

    fn normalized(&self, row: &[f64]) -> Vec<f64> {
        let mean = row.iter().sum::<f64>() / WIDTH as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / WIDTH as f64;
        let (scale, shift) = (
            self.matrix("scale1").concat(),
            self.matrix("shift1").concat(),
        );
        let deviation = (variance + 1e-5).sqrt();
        (row.iter().zip(scale.iter().zip(&shift)))
            .map(|(v, (scale, shift))| (v - mean) / deviation * scale + shift)
            .collect()
    }
}

/// softmax(q kᵀ / `root`) v
fn attention(q: &Matrix, k: &Matrix, v: &Matrix, root: f64) -> Matrix {
    let row = |q: &Vec<f64>| {
        let dot = |k: &Vec<f64>| (q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>() / root).exp();
        let powers: Vec<f64> = k.iter().map(dot).collect();
        let whole: f64 = powers.iter().sum();
        let shares = vec![powers.iter().map(|power| power / whole).collect()];
        product(&shares, v).concat()
    };
    q.iter().map(row).collect()
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let columns = b.first().map_or(0, Vec::len);
    let cell = |row: &[f64], j: usize| row.iter().zip(b).map(|(x, y)| x * y[j]).sum();
    (a.iter())
        .map(|row| (0..columns).map(|j| cell(row, j)).collect())
        .collect()
}

fn plus(a: &Matrix, b: &Matrix) -> Matrix {
    (a.iter().zip(b))
        .map(|(x, y)| x.iter().zip(y).map(|(x, y)| x + y).collect())
        .collect()
}
