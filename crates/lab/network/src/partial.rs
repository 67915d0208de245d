//! Partial correlation from a covariance that is shrunk after Ledoit and Wolf (2004), all in f64.
//!
//! With Z the centred samples (W × N) of a window, S = ZᵀZ/W and μ = tr S/N, the estimate is
//! Σ = (1 − δ)·S + δ·μ·I. Where N ≤ W it is inverted as it is (Cholesky); where N > W the W × W matrix
//! of the samples' own products is, by Woodbury's formula: Σ⁻¹ = (I − Zᵀ(c·I + Z Zᵀ)⁻¹Z)/(δμ) with
//! c = δμW/(1 − δ).

use betz_base::{Error, ErrorKind, Result};

use crate::oracle;
use crate::scan::ExactWindow;
use crate::signal::Signal;

/// Nodes for which all pairs of a window are held at once.
pub(crate) const MOST_NODES: usize = 4096;

/// The share δ of the spherical target, within [0, 1], and μ, for centred samples of `nodes` nodes,
/// (W, nodes): δ = min(b², d²)/d² with d² = ‖S − μI‖²/N and b² = Σ_t ‖z_t z_tᵀ − S‖²/(N·W²).
fn shrinkage(z: &[f64], nodes: usize, products: &Products) -> (f64, f64) {
    let (w, n) = ((z.len() / nodes) as f64, nodes as f64);
    let trace: f64 = z.iter().map(|v| v * v).sum::<f64>() / w;
    let mu = trace / n;
    // ‖S‖² is that of the smaller of the two product matrices.
    let norm = products.squared_norm() / (w * w);
    let fourth: f64 = z
        .chunks_exact(nodes)
        .map(|z| z.iter().map(|v| v * v).sum::<f64>().powi(2))
        .sum();
    let d2 = (norm - n * mu * mu) / n;
    let b2 = (fourth / w - norm) / (w * n);
    if d2 <= 0.0 {
        return (1.0, mu);
    }
    ((b2 / d2).clamp(0.0, 1.0), mu)
}

/// A symmetric matrix of products.
struct Products {
    size: usize,
    /// Row-major, whole.
    values: Vec<f64>,
}

impl Products {
    /// a·aᵀ of the `rows` rows of `a`.
    fn of_rows(a: &[f64], rows: usize) -> Self {
        let len = a.len() / rows.max(1);
        let mut values = vec![0.0; rows * rows];
        for i in 0..rows {
            for j in 0..=i {
                let (x, y) = (&a[i * len..][..len], &a[j * len..][..len]);
                let dot = dot(x, y);
                values[i * rows + j] = dot;
                values[j * rows + i] = dot;
            }
        }
        Self { size: rows, values }
    }

    fn squared_norm(&self) -> f64 {
        self.values.iter().map(|v| v * v).sum()
    }
}

/// Eight sums side by side, so that they fill vector registers.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<8>(), y.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (x, y) in x.iter().zip(y) {
        for k in 0..8 {
            sums[k] += x[k] * y[k];
        }
    }
    let rest: f64 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

/// Cholesky's factor of a positive definite matrix, (size, size), lower, in place.
fn factor(a: &mut [f64], size: usize) -> Result<()> {
    for j in 0..size {
        let (above, rest) = a.split_at_mut(j * size);
        let row = &rest[..j];
        let pivot = rest[j] - dot(row, row);
        if !(pivot > 0.0 && pivot.is_finite()) {
            return Err(Error::new(
                ErrorKind::NotPositiveDefinite,
                format!("partial correlation: pivot {j} of the shrunk covariance is {pivot}"),
            ));
        }
        let _ = above;
        let root = pivot.sqrt();
        rest[j] = root;
        let (head, below) = rest.split_at_mut(size);
        for below in below.chunks_exact_mut(size) {
            below[j] = (below[j] - dot(&below[..j], &head[..j])) / root;
        }
    }
    Ok(())
}

/// The inverse L⁻¹ of a lower triangle, its columns as rows: row k holds L⁻¹ e_k.
fn inverse_columns(l: &[f64], size: usize) -> Vec<f64> {
    let mut columns = vec![0.0; size * size];
    for (k, x) in columns.chunks_exact_mut(size).enumerate() {
        x[k] = 1.0 / l[k * size + k];
        for i in k + 1..size {
            let sum = dot(&l[i * size + k..i * size + i], &x[k..i]);
            x[i] = -sum / l[i * size + i];
        }
    }
    columns
}

/// Partial correlations of centred samples `z`, (W, nodes): those of (i, j), i < j, row by row.
///
/// # Errors
/// [`ErrorKind::NotPositiveDefinite`] when the covariance cannot be inverted although it is shrunk.
fn partial(z: &[f64], nodes: usize) -> Result<Vec<f64>> {
    let w = z.len() / nodes;
    let mut transposed = vec![0.0; z.len()];
    for (t, row) in z.chunks_exact(nodes).enumerate() {
        for (node, value) in row.iter().enumerate() {
            transposed[node * w + t] = *value;
        }
    }
    let small = nodes <= w;
    let products = if small {
        Products::of_rows(&transposed, nodes)
    } else {
        Products::of_rows(z, w)
    };
    let (delta, mu) = shrinkage(z, nodes, &products);
    let size = products.size;
    let mut matrix = products.values;
    // Precision Ω up to a factor, which cancels: of the upper triangle, and the diagonal.
    let omega: Box<dyn Fn(usize, usize) -> f64>;
    if delta >= 1.0 {
        return Ok(vec![0.0; nodes * (nodes - 1) / 2]);
    }
    let c = delta * mu * w as f64 / (1.0 - delta);
    for k in 0..size {
        matrix[k * size + k] += c;
    }
    factor(&mut matrix, size)?;
    if small {
        // Ω = L⁻ᵀ L⁻¹: products of the columns of L⁻¹.
        let columns = inverse_columns(&matrix, size);
        omega = Box::new(move |i, j| {
            dot(
                &columns[i * size + j..][..size - j],
                &columns[j * size + j..][..size - j],
            )
        });
    } else {
        if delta <= 0.0 {
            return Err(Error::new(
                ErrorKind::NotPositiveDefinite,
                format!(
                    "partial correlation: {nodes} nodes over {w} samples without any shrinkage"
                ),
            ));
        }
        // Y = L⁻¹Z, columns side by side as rows: Ω = I − YᵀY.
        let mut solved = transposed;
        for y in solved.chunks_exact_mut(w) {
            for i in 0..w {
                let sum = dot(&matrix[i * size..][..i], &y[..i]);
                y[i] = (y[i] - sum) / matrix[i * size + i];
            }
        }
        omega = Box::new(move |i, j| {
            let product = dot(&solved[i * w..][..w], &solved[j * w..][..w]);
            if i == j { 1.0 - product } else { -product }
        });
    }
    let diagonal: Vec<f64> = (0..nodes).map(|i| omega(i, i).sqrt()).collect();
    let mut values = Vec::with_capacity(nodes * (nodes - 1) / 2);
    for i in 0..nodes {
        values.extend(
            (i + 1..nodes).map(|j| (-omega(i, j) / (diagonal[i] * diagonal[j])).clamp(-1.0, 1.0)),
        );
    }
    Ok(values)
}

/// Partial correlations of the window of `w` samples from `start`.
///
/// # Errors
/// [`ErrorKind::NotPositiveDefinite`].
pub(crate) fn window(signal: &Signal<'_>, start: usize, w: usize) -> Result<ExactWindow> {
    let mut columns = Vec::new();
    let mut nodes = Vec::new();
    let mut undefined = Vec::new();
    for node in 0..signal.nodes() {
        let mut x = vec![0.0; w];
        signal.column(node, start, &mut x);
        match oracle::moments(&x) {
            Ok((mean, _)) => {
                x.iter_mut().for_each(|v| *v -= mean);
                nodes.push(node as u32);
                columns.push(x);
            }
            Err(why) => undefined.push((node as u32, why)),
        }
    }
    if nodes.len() < 2 {
        return Ok((Vec::new(), undefined));
    }
    let mut z = vec![0.0; w * nodes.len()];
    for (c, column) in columns.iter().enumerate() {
        for (t, value) in column.iter().enumerate() {
            z[t * nodes.len() + c] = *value;
        }
    }
    let values =
        partial(&z, nodes.len()).map_err(|e| e.at(format!("window from sample {start}")))?;
    let pairs = (0..nodes.len()).flat_map(|i| (i + 1..nodes.len()).map(move |j| (i, j)));
    let named = pairs
        .zip(values)
        .map(|((i, j), value)| (nodes[i], nodes[j], value))
        .collect();
    Ok((named, undefined))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    /// Ledoit–Wolf and Gauss–Jordan as plainly as can be.
    fn plain(x: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (n, w) = (x.len(), x[0].len());
        let z: Vec<Vec<f64>> = (x.iter())
            .map(|x| {
                let mean = x.iter().sum::<f64>() / w as f64;
                x.iter().map(|v| v - mean).collect()
            })
            .collect();
        let s: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                (0..n)
                    .map(|j| (0..w).map(|t| z[i][t] * z[j][t]).sum::<f64>() / w as f64)
                    .collect()
            })
            .collect();
        let mu = (0..n).map(|i| s[i][i]).sum::<f64>() / n as f64;
        let (mut d2, mut b2) = (0.0, 0.0);
        for i in 0..n {
            for j in 0..n {
                d2 += (s[i][j] - if i == j { mu } else { 0.0 }).powi(2) / n as f64;
                for t in 0..w {
                    b2 += (z[i][t] * z[j][t] - s[i][j]).powi(2) / (n as f64 * (w * w) as f64);
                }
            }
        }
        let delta = (b2 / d2).min(1.0);
        let mut a: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                let left =
                    (0..n).map(|j| (1.0 - delta) * s[i][j] + if i == j { delta * mu } else { 0.0 });
                left.chain((0..n).map(|j| f64::from(i == j))).collect()
            })
            .collect();
        for k in 0..n {
            let pivot = (k..n)
                .max_by(|p, q| a[*p][k].abs().total_cmp(&a[*q][k].abs()))
                .unwrap();
            a.swap(k, pivot);
            let scale = a[k][k];
            a[k].iter_mut().for_each(|v| *v /= scale);
            for i in (0..n).filter(|i| *i != k).collect::<Vec<_>>() {
                let f = a[i][k];
                for c in 0..2 * n {
                    a[i][c] -= f * a[k][c];
                }
            }
        }
        (0..n)
            .map(|i| {
                (0..n)
                    .map(|j| -a[i][n + j] / (a[i][n + i] * a[j][n + j]).sqrt())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn equals_plain_loops_with_more_and_with_fewer_nodes_than_samples() {
        for (nodes, w) in [(2, 30), (7, 30), (30, 30), (31, 30), (50, 20)] {
            let case = cases::communities(nodes, w + 5, 21);
            let signal = case.signal();
            let (values, undefined) = window(&signal, 3, w).unwrap();
            assert!(undefined.is_empty());
            let x: Vec<Vec<f64>> = (0..nodes)
                .map(|node| (3..3 + w).map(|t| signal.value(t, node)).collect())
                .collect();
            let expected = plain(&x);
            for (i, j, value) in values {
                let expected = expected[i as usize][j as usize];
                assert!(
                    (value - expected).abs() < 1e-9,
                    "{nodes} nodes, {w}: {value} for {expected}"
                );
            }
        }
    }
}
