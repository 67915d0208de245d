//! How to cut a matrix product so that its parts fit a device: CUSUMMA (Galbraith 2010, §5.2),
//! generalised and corrected.
//!
//! A device holds S elements. A block of the output stays there while the blocks of the operands that
//! it needs pass by; a *transfer* is one block that moves between host and device. A plan is the one
//! with the fewest transfers (of equals, the one with the larger blocks along the sum).
//!
//! Where this departs from the paper: its Algorithm 5 minimises t_m·t_k + t_m where its own count of
//! transfers is 2·t_m·t_k + t_m; its eq. 5.12 for A·Aᵀ prints k_max where the count is t_k + 1; and
//! A·Aᵀ whose output does not fit (S < m² + m) is cut along its features too, which the paper leaves
//! out.

use crate::error::{Error, ErrorKind, Result};

/// How to cut C = A·B, A of m × k, B of k × n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductPlan {
    /// Rows of a block of A and C.
    pub m_max: u64,
    /// Columns of a block of B and C.
    pub n_max: u64,
    /// Length of a block along the sum.
    pub k_max: u64,
    /// Blocks moved: of every block of C its operands, then itself, t_m·t_n·(2·t_k + 1).
    pub transfers: u64,
}

/// How to cut C = A·Aᵀ, A of m × k, of which one triangle is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GramPlan {
    /// Rows of a block of A; C's blocks are m_max × m_max.
    pub m_max: u64,
    /// Length of a block along the sum.
    pub k_max: u64,
    /// Blocks moved: t_k + 1 for each of t_m blocks on the diagonal, which need one operand, and
    /// 2·t_k + 1 for each of t_m·(t_m − 1)/2 below it.
    pub transfers: u64,
}

/// The plan for A·B within `elements`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] when a side is zero; [`ErrorKind::DeviceMemory`], naming the
/// smallest that works, below three elements.
pub fn plan_product(m: u64, n: u64, k: u64, elements: u64) -> Result<ProductPlan> {
    check(&[m, n, k])?;
    let mut best: Option<ProductPlan> = None;
    for (t_m, m_max) in cuts(m) {
        for (t_n, n_max) in cuts(n) {
            let Some(room) = elements.checked_sub(m_max.saturating_mul(n_max)) else {
                continue;
            };
            let k_max = (room / (m_max + n_max)).min(k);
            if k_max == 0 {
                continue;
            }
            let transfers = t_m * t_n * (2 * k.div_ceil(k_max) + 1);
            if best.is_none_or(|b| {
                transfers < b.transfers || (transfers == b.transfers && k_max > b.k_max)
            }) {
                best = Some(ProductPlan {
                    m_max,
                    n_max,
                    k_max,
                    transfers,
                });
            }
        }
    }
    best.ok_or_else(|| too_small(3, elements))
}

/// The plan for A·Aᵀ within `elements`.
///
/// # Errors
/// As [`plan_product`]; the smallest that works is two elements for one row, three for more.
pub fn plan_gram(m: u64, k: u64, elements: u64) -> Result<GramPlan> {
    check(&[m, k])?;
    let mut best: Option<GramPlan> = None;
    for (t_m, m_max) in cuts(m) {
        let Some(room) = elements.checked_sub(m_max.saturating_mul(m_max)) else {
            continue;
        };
        // The whole output at once needs one operand; a block off the diagonal needs two.
        let operands = if t_m == 1 { 1 } else { 2 };
        let k_max = (room / (operands * m_max)).min(k);
        if k_max == 0 {
            continue;
        }
        let t_k = k.div_ceil(k_max);
        let transfers = t_m * (t_k + 1) + t_m * (t_m - 1) / 2 * (2 * t_k + 1);
        if best.is_none_or(|b| {
            transfers < b.transfers || (transfers == b.transfers && k_max > b.k_max)
        }) {
            best = Some(GramPlan {
                m_max,
                k_max,
                transfers,
            });
        }
    }
    best.ok_or_else(|| too_small(if m == 1 { 2 } else { 3 }, elements))
}

/// Every way to cut `length` into pieces of one size (the last may be shorter) that has no more
/// pieces than needed: (pieces, size), at most about 2·√length of them, fewest pieces first.
fn cuts(length: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut pieces = 1;
    std::iter::from_fn(move || {
        if pieces > length {
            return None;
        }
        let size = length.div_ceil(pieces);
        let cut = (length.div_ceil(size), size);
        // The next count of pieces that makes them smaller.
        pieces = if size == 1 {
            length + 1
        } else {
            length.div_ceil(size - 1)
        };
        Some(cut)
    })
}

fn check(sides: &[u64]) -> Result<()> {
    if sides.contains(&0) {
        return Err(Error::argument(format!(
            "partition: expected matrices with at least one row and column, got {sides:?}"
        )));
    }
    Ok(())
}

fn too_small(least: u64, elements: u64) -> Error {
    Error::new(
        ErrorKind::DeviceMemory,
        format!("partition: expected room for at least {least} elements, got {elements}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fewest transfers over every block size there is.
    fn brute_product(m: u64, n: u64, k: u64, s: u64) -> Option<u64> {
        let mut best = None;
        for mm in 1..=m {
            for nn in 1..=n {
                for kk in 1..=k {
                    if mm * kk + kk * nn + mm * nn <= s {
                        let t = m.div_ceil(mm) * n.div_ceil(nn) * (2 * k.div_ceil(kk) + 1);
                        best = Some(best.map_or(t, |b: u64| b.min(t)));
                    }
                }
            }
        }
        best
    }

    fn brute_gram(m: u64, k: u64, s: u64) -> Option<u64> {
        let mut best = None;
        for mm in 1..=m {
            let t_m = m.div_ceil(mm);
            for kk in 1..=k {
                let operands = if t_m == 1 { 1 } else { 2 };
                if mm * mm + operands * mm * kk <= s {
                    let t_k = k.div_ceil(kk);
                    let t = t_m * (t_k + 1) + t_m * (t_m - 1) / 2 * (2 * t_k + 1);
                    best = Some(best.map_or(t, |b: u64| b.min(t)));
                }
            }
        }
        best
    }

    #[test]
    fn products_take_the_fewest_transfers() {
        for m in [1, 2, 3, 5, 8, 12] {
            for n in [1, 2, 4, 7, 11] {
                for k in [1, 2, 3, 6, 13] {
                    for s in (0..60).chain([80, 120, 200, 500, 5000]) {
                        let plan = plan_product(m, n, k, s);
                        match brute_product(m, n, k, s) {
                            Some(t) => {
                                let p = plan.unwrap();
                                assert_eq!(p.transfers, t, "{m} {n} {k} {s}");
                                let held =
                                    p.m_max * p.k_max + p.k_max * p.n_max + p.m_max * p.n_max;
                                assert!(held <= s);
                            }
                            None => {
                                let error = plan.unwrap_err();
                                assert_eq!(error.kind(), ErrorKind::DeviceMemory);
                                assert!(s < 3 && error.message().contains("at least 3"));
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn grams_take_the_fewest_transfers_also_below_m_squared() {
        for m in 1..=14 {
            for k in [1, 2, 3, 7, 20] {
                for s in (0..260).chain([1000, 100_000]) {
                    match (brute_gram(m, k, s), plan_gram(m, k, s)) {
                        (Some(t), Ok(plan)) => {
                            assert_eq!(plan.transfers, t, "{m} {k} {s}");
                            assert!(plan.m_max * (plan.m_max + plan.k_max) <= s);
                        }
                        (None, Err(error)) => {
                            assert_eq!(error.kind(), ErrorKind::DeviceMemory);
                            assert!(s < if m == 1 { 2 } else { 3 });
                        }
                        (expected, got) => panic!("{m} {k} {s}: {expected:?}, {got:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn a_resident_output_costs_one_pass_and_one_transfer_more() {
        // k_max = S/m − m, transfers t_k + 1.
        let plan = plan_gram(1000, 400_000, 1000 * 1000 + 1000 * 4000).unwrap();
        assert_eq!((plan.m_max, plan.k_max, plan.transfers), (1000, 4000, 101));
    }

    #[test]
    fn sides_of_zero_are_refused_and_large_ones_planned_at_once() {
        assert!(plan_product(0, 1, 1, 10).is_err());
        assert!(plan_gram(3, 0, 10).is_err());
        let plan = plan_product(20_000, 20_000, 400_000, 1 << 28).unwrap();
        assert!(plan.transfers > 0);
        assert!(plan_gram(100_000, 400_000, 1 << 28).unwrap().m_max < 1 << 14);
    }
}
