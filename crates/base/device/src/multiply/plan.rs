//! Partition of a product, and the paper's own for the same memory.

use std::ops::Range;

use super::Product;
use crate::partition::{GramCosts, plan_gram, plan_product};
use betz_base::error::{Error, ErrorKind, Result};

/// Longest sum of one product: f32 sums of more terms would lose digits.
const MOST_LENGTH: usize = 4096;

/// Multiply-adds of a block on the host, some seconds of a core, and the least rows of such a block: fewer would wait for memory.
const BLOCK_PRODUCTS: f64 = 1e11;
const LEAST_ROWS: usize = 512;

/// Blocks on devices take one part in so many of what all matrices take, and at least so many bytes: larger ones wait for
/// their copies, smaller ones are copied more often.
const DEVICE_PARTS: u64 = 6;
const DEVICE_BYTES: u64 = 64 << 20;

/// How A (m × k), B (k × n) and C are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiplyPlan {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Rows of a block of A and C.
    pub m_max: usize,
    /// Columns of a block of B and C.
    pub n_max: usize,
    /// Length of a block along the sum.
    pub k_max: usize,
    /// A·Aᵀ, of which one triangle of blocks is computed.
    pub symmetric: bool,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The paper's partition for the same room; `None` if it has none.
    pub paper: Option<PaperPlan>,
}

/// Partition sizes by the paper's Algorithm 5, which keeps all columns of B together. It is run with the paper's own count of
/// transfers (eq. 5.6), of which its line 23 leaves out a factor of 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaperPlan {
    /// Rows of a block of A and C.
    pub m_max: u64,
    /// Length of a block along the sum.
    pub k_max: u64,
    /// Blocks that move, 2·t_m·t_k + t_m; of A·Aᵀ t_k + 1.
    pub transfers: u64,
}

/// Refuses factors that do not fit together; their sides m, n, k.
pub(super) fn sides<T>(product: &Product<'_, T>) -> Result<(usize, usize, usize)> {
    let (m, k, n) = (product.a.rows(), product.a.columns(), product.columns());
    if let Some(b) = product.b
        && b.rows() != k
    {
        return Err(Error::mismatch(format!(
            "product: expected as many rows of B as A has columns, got A of {m} × {k} and B of {} × {n}",
            b.rows()
        )));
    }
    if m == 0 || n == 0 || k == 0 {
        return Err(Error::argument(format!(
            "product: expected matrices with at least one row and column, got {m} × {k} times {k} × {n}"
        )));
    }
    Ok((m, n, k))
}

impl MultiplyPlan {
    /// Within the host's memory: blocks of C, A and B are there once. A long product has several blocks, so that its progress is
    /// told and a request to stop is heard.
    pub(super) fn for_host<T>(product: &Product<'_, T>) -> Result<Self> {
        let (m, n, k) = sides(product)?;
        let blocks = (m as f64 * n as f64 * k as f64 / BLOCK_PRODUCTS) as usize;
        let parts = blocks.clamp(1, m.div_ceil(LEAST_ROWS));
        Self::new(product, product.host_bytes, 0, 1, parts)
    }

    /// Within `bytes` of each of so many devices, of which `fixed` are taken: operands are there `copies` times, so that blocks
    /// are copied while those before are multiplied.
    pub(super) fn for_devices<T>(
        product: &Product<'_, T>,
        bytes: u64,
        fixed: u64,
        copies: u64,
        devices: usize,
    ) -> Result<Self> {
        let (m, n, k) = sides(product)?;
        let values = m as f64 * k as f64 + k as f64 * n as f64 + m as f64 * n as f64;
        let enough = (values * size_of::<T>() as f64) as u64 / DEVICE_PARTS;
        let bytes = bytes.min(enough.max(DEVICE_BYTES) + fixed);
        Self::new(product, bytes, fixed, copies, devices)
    }

    /// Within `bytes`, of which `fixed` are taken: operands are there `copies` times. C has at least `parts` blocks, if it
    /// has as many rows.
    pub(super) fn new<T>(
        product: &Product<'_, T>,
        bytes: u64,
        fixed: u64,
        copies: u64,
        parts: usize,
    ) -> Result<Self> {
        let (m, n, k) = sides(product)?;
        let value = size_of::<T>() as u64;
        let room = bytes.saturating_sub(fixed) / value;
        let short = |e: Error| match e.kind() {
            ErrorKind::DeviceMemory => {
                let least = fixed + value * (1 + 2 * copies);
                Error::device_memory("product", least, bytes)
            }
            _ => e,
        };
        let symmetric = product.b.is_none();
        let (m_max, n_max, k_max) = match symmetric {
            true => {
                let costs = GramCosts {
                    tile: 1,
                    fixed: 0,
                    output: 1,
                    row: 0,
                    length: 0,
                    // A block off the diagonal has two operands; the planner counts both.
                    operand: copies,
                };
                let plan = plan_gram(m as u64, k as u64, &costs, room).map_err(short)?;
                (plan.m_max, plan.m_max, plan.k_max)
            }
            false => {
                // The planner counts every element once: as if C were there as often.
                let room = room / copies;
                let plan = plan_product(m as u64, n as u64, k as u64, room).map_err(short)?;
                (plan.m_max, plan.n_max, plan.k_max)
            }
        };
        let mut plan = Self {
            m,
            n,
            k,
            m_max: m_max as usize,
            n_max: n_max as usize,
            k_max: (k_max as usize).min(MOST_LENGTH),
            symmetric,
            value_bytes: size_of::<T>(),
            paper: paper(m as u64, n as u64, k as u64, room, symmetric),
        };
        if plan.blocks() < parts {
            plan.m_max = m.div_ceil(parts.min(m)).min(plan.m_max);
            plan.n_max = if symmetric { plan.m_max } else { plan.n_max };
        }
        Ok(plan)
    }

    /// Blocks of rows, of columns and along the sum.
    pub const fn cuts(&self) -> (usize, usize, usize) {
        (
            self.m.div_ceil(self.m_max),
            self.n.div_ceil(self.n_max),
            self.k.div_ceil(self.k_max),
        )
    }

    /// Blocks of C that are computed.
    pub const fn blocks(&self) -> usize {
        let (t_m, t_n, _) = self.cuts();
        match self.symmetric {
            true => t_m * (t_m + 1) / 2,
            false => t_m * t_n,
        }
    }

    /// Blocks that move: operands of every block of C, and itself. A block on the diagonal of A·Aᵀ has one operand.
    pub const fn transfers(&self) -> u64 {
        let (t_m, _, t_k) = self.cuts();
        let one = if self.symmetric { t_m } else { 0 };
        (one * (t_k + 1) + (self.blocks() - one) * (2 * t_k + 1)) as u64
    }

    /// Bytes that move, there and back.
    pub fn bytes_moved(&self) -> u64 {
        let mut values = 0u64;
        let mut number = 0;
        while let Some((rows, columns)) = self.block(number) {
            let (m, n) = (rows.len() as u64, columns.len() as u64);
            let operands = if self.symmetric && rows == columns {
                m
            } else {
                m + n
            };
            values += operands * self.k as u64 + m * n;
            number += 1;
        }
        values * self.value_bytes as u64
    }

    /// Rows and columns of block `number` of C.
    pub(super) fn block(&self, number: usize) -> Option<(Range<usize>, Range<usize>)> {
        let (_, t_n, _) = self.cuts();
        if number >= self.blocks() {
            return None;
        }
        let (i, j) = match self.symmetric {
            true => {
                // Row by row of the triangle: row i begins at i (i + 1) / 2.
                let mut i = (2.0 * number as f64).sqrt() as usize;
                while i * (i + 1) / 2 > number {
                    i -= 1;
                }
                while (i + 1) * (i + 2) / 2 <= number {
                    i += 1;
                }
                (i, number - i * (i + 1) / 2)
            }
            false => (number / t_n, number % t_n),
        };
        let range = |at: usize, size: usize, end: usize| at * size..end.min((at + 1) * size);
        Some((range(i, self.m_max, self.m), range(j, self.n_max, self.n)))
    }
}

/// The paper's partition within `room` values.
fn paper(m: u64, n: u64, k: u64, room: u64, symmetric: bool) -> Option<PaperPlan> {
    if symmetric {
        let length = (room / m)
            .checked_sub(m)
            .filter(|length| *length > 0)?
            .min(k);
        return Some(PaperPlan {
            m_max: m,
            k_max: length,
            transfers: k.div_ceil(length) + 1,
        });
    }
    let mut best: Option<PaperPlan> = None;
    for t_m in 1..=m {
        let m_max = m.div_ceil(t_m);
        let length = room
            .checked_sub(m_max.saturating_mul(n))
            .map(|r| r / (m_max + n));
        let Some(k_max) = length.filter(|length| *length > 0).map(|l| l.min(k)) else {
            continue;
        };
        let transfers = 2 * t_m * k.div_ceil(k_max) + t_m;
        if best.is_some_and(|b| transfers >= b.transfers) {
            break;
        }
        best = Some(PaperPlan {
            m_max,
            k_max,
            transfers,
        });
    }
    best
}
