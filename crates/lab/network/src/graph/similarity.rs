//! Window against window: how alike are two networks of the same nodes?

use std::cmp::Ordering;

use betz_base::{Error, Result};
use rayon::prelude::*;

use crate::network::{Network, WindowEdges};

/// Measure of the similarity of two windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// Pearson correlation over all pairs of nodes of their values, 0 where there is no edge: functional
    /// connectivity dynamics. NaN where a window has no edge or all its values are equal.
    Correlation,
    /// Edges in common over edges in either; 1 for two windows without any.
    Jaccard,
}

/// The windows' similarity, (windows, windows), symmetric. Time is O(windows × edges).
///
/// # Errors
/// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for more than 16,384 windows.
pub fn similarity(network: &Network, likeness: Likeness) -> Result<Vec<f32>> {
    const MOST: usize = 16_384;
    let windows: Vec<WindowEdges<'_>> = network.windows().collect();
    let count = windows.len();
    if count > MOST {
        return Err(Error::argument(format!(
            "window similarity: expected at most {MOST} windows, got {count}"
        )));
    }
    let nodes = network.nodes() as f64;
    let pairs = nodes * (nodes - 1.0) / 2.0;
    let sums: Vec<(f64, f64)> = (windows.iter())
        .map(|w| {
            w.r.iter()
                .map(|r| f64::from(*r))
                .fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r))
        })
        .collect();
    let mut matrix = vec![0.0; count * count];
    matrix
        .par_chunks_mut(count.max(1))
        .enumerate()
        .for_each(|(k, row)| {
            for (l, value) in row.iter_mut().enumerate().skip(k) {
                let (common, products) = sum_shared(&windows[k], &windows[l]);
                *value = match likeness {
                    Likeness::Jaccard => {
                        let either = windows[k].len() + windows[l].len() - common;
                        if either == 0 {
                            1.0
                        } else {
                            common as f32 / either as f32
                        }
                    }
                    Likeness::Correlation => {
                        let ((sk, qk), (sl, ql)) = (sums[k], sums[l]);
                        let spread = (qk - sk * sk / pairs) * (ql - sl * sl / pairs);
                        let r = (products - sk * sl / pairs) / spread.sqrt();
                        if spread > 0.0 {
                            r.clamp(-1.0, 1.0) as f32
                        } else {
                            f32::NAN
                        }
                    }
                };
            }
        });
    for k in 0..count {
        for l in 0..k {
            matrix[k * count + l] = matrix[l * count + k];
        }
    }
    Ok(matrix)
}

/// Edges in common, and the sum of products of their values.
fn sum_shared(a: &WindowEdges<'_>, b: &WindowEdges<'_>) -> (usize, f64) {
    let (mut at, mut other, mut common, mut products) = (0, 0, 0, 0.0);
    while at < a.len() && other < b.len() {
        match (a.i[at], a.j[at]).cmp(&(b.i[other], b.j[other])) {
            Ordering::Less => at += 1,
            Ordering::Greater => other += 1,
            Ordering::Equal => {
                common += 1;
                products += f64::from(a.r[at]) * f64::from(b.r[other]);
                at += 1;
                other += 1;
            }
        }
    }
    (common, products)
}
