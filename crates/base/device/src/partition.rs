//! How to cut a matrix product so that its parts fit a device: CUSUMMA (Galbraith 2010, §5.2),
//! generalised and corrected.
//!
//! A device holds S elements, or as many bytes ([`GramCosts`]: a block of the output need not cost
//! what an operand does). A block of the output stays there while the blocks of the operands that
//! it needs pass by; a *transfer* is one block that moves between host and device. A plan is the one
//! with the fewest transfers (of equals, the one with the larger blocks along the sum).
//!
//! This departs from the paper in three points. The paper's Algorithm 5 minimises t_m·t_k + t_m, although its own
//! count of transfers is 2·t_m·t_k + t_m. Its eq. 5.12 for A·Aᵀ prints k_max in place of the count t_k + 1. And A·Aᵀ
//! whose output does not fit (S < m² + m) is cut along its features too, which the paper leaves out.

use betz_base::error::{Error, ErrorKind, Result};

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

/// Room that the blocks of A·Aᵀ take on a device, in the unit of its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GramCosts {
    /// Blocks of C have a multiple of this many rows, unless C itself has fewer.
    pub tile: u64,
    /// Cost that does not depend on the blocks' sizes.
    pub fixed: u64,
    /// An element of a block of C.
    pub output: u64,
    /// A row of an operand.
    pub row: u64,
    /// A unit of length along the sum.
    pub length: u64,
    /// An element of an operand: one row, one unit of length.
    pub operand: u64,
}

impl GramCosts {
    /// Room counted in elements of C and A, as the paper counts it.
    #[cfg(test)]
    const ELEMENTS: Self = Self {
        tile: 1,
        fixed: 0,
        output: 1,
        row: 0,
        length: 0,
        operand: 1,
    };

    /// Room that a block of C with `edge` rows takes together with operands of `rows` rows in all
    /// (`edge` when the block is all of C, else twice that) and `length` along the sum.
    pub const fn total(&self, edge: u64, rows: u64, length: u64) -> u64 {
        let output = self.output.saturating_mul(edge.saturating_mul(edge));
        let operands = rows.saturating_mul(self.row + self.operand.saturating_mul(length));
        let length = self.length.saturating_mul(length);
        self.fixed
            .saturating_add(output)
            .saturating_add(operands)
            .saturating_add(length)
    }
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

/// The plan for A·Aᵀ of m × k within `room`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] when a side is zero; [`ErrorKind::DeviceMemory`], naming the
/// smallest that works ([`Error::needed_bytes`], in the unit of `costs`).
pub fn plan_gram(m: u64, k: u64, costs: &GramCosts, room: u64) -> Result<GramPlan> {
    check(&[m, k])?;
    let (mut best, mut least): (Option<GramPlan>, _) = (None, u64::MAX);
    for (_, tiles) in cuts(m.div_ceil(costs.tile)) {
        let m_max = tiles.saturating_mul(costs.tile).min(m);
        let t_m = m.div_ceil(m_max);
        // The whole output at once needs one operand; a block off the diagonal needs two.
        let rows = if t_m == 1 { m_max } else { 2 * m_max };
        let (empty, one) = (costs.total(m_max, rows, 0), costs.total(m_max, rows, 1));
        least = least.min(one);
        if one > room {
            continue;
        }
        let k_max = (room - empty).checked_div(one - empty).unwrap_or(k).min(k);
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
    best.ok_or_else(|| {
        let error = too_small(least, room);
        error.with_needed_bytes(least).with_available_bytes(room)
    })
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
        format!("partition: expected room for at least {least}, got {elements}"),
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
                    match (
                        brute_gram(m, k, s),
                        plan_gram(m, k, &GramCosts::ELEMENTS, s),
                    ) {
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

    /// Bytes rather than elements: whatever the costs, the plan fits and moves the fewest blocks, and
    /// what the error names is the smallest room that works.
    #[test]
    fn grams_fit_whatever_their_parts_cost() {
        let costs = [
            GramCosts::ELEMENTS,
            GramCosts {
                tile: 4,
                fixed: 100,
                output: 16,
                row: 7,
                length: 9,
                operand: 5,
            },
            GramCosts {
                tile: 3,
                fixed: 1,
                output: 8,
                row: 0,
                length: 50,
                operand: 0,
            },
        ];
        for cost in &costs {
            for m in 1..=13 {
                for k in [1, 2, 5, 17] {
                    let fits = |edge: u64, kk: u64, room| {
                        let rows = if edge >= m { edge } else { 2 * edge };
                        cost.total(edge, rows, kk) <= room
                    };
                    let edges =
                        || (1..=m.div_ceil(cost.tile)).map(|tiles| (tiles * cost.tile).min(m));
                    for room in (0..1500).step_by(7).chain([10_000, 1 << 40]) {
                        let mut fewest = None;
                        for edge in edges() {
                            for kk in (1..=k).filter(|&kk| fits(edge, kk, room)) {
                                let (t_m, t_k) = (m.div_ceil(edge), k.div_ceil(kk));
                                let t = t_m * (t_k + 1) + t_m * (t_m - 1) / 2 * (2 * t_k + 1);
                                fewest = Some(fewest.map_or(t, |b: u64| b.min(t)));
                            }
                        }
                        match (fewest, plan_gram(m, k, cost, room)) {
                            (Some(t), Ok(plan)) => {
                                assert_eq!(plan.transfers, t, "{m} {k} {room} {cost:?}");
                                assert!(fits(plan.m_max, plan.k_max, room));
                            }
                            (None, Err(error)) => {
                                let named = error.needed_bytes().unwrap();
                                assert!(plan_gram(m, k, cost, named).is_ok(), "{error}");
                                assert!(plan_gram(m, k, cost, named - 1).is_err(), "{error}");
                            }
                            (expected, got) => panic!("{m} {k} {room}: {expected:?}, {got:?}"),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_resident_output_costs_one_pass_and_one_transfer_more() {
        // k_max = S/m − m, transfers t_k + 1.
        let plan = plan_gram(
            1000,
            400_000,
            &GramCosts::ELEMENTS,
            1000 * 1000 + 1000 * 4000,
        )
        .unwrap();
        assert_eq!((plan.m_max, plan.k_max, plan.transfers), (1000, 4000, 101));
    }

    #[test]
    fn sides_of_zero_are_refused_and_large_ones_planned_at_once() {
        assert!(plan_product(0, 1, 1, 10).is_err());
        assert!(plan_gram(3, 0, &GramCosts::ELEMENTS, 10).is_err());
        let plan = plan_product(20_000, 20_000, 400_000, 1 << 28).unwrap();
        assert!(plan.transfers > 0);
        assert!(
            plan_gram(100_000, 400_000, &GramCosts::ELEMENTS, 1 << 28)
                .unwrap()
                .m_max
                < 1 << 14
        );
    }
}
