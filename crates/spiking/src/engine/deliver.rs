//! Spikes to their targets: each thread takes every spike to the targets that are its own.

use pulp::{Simd, WithSimd};

use super::part::{Matrix, Part};
use crate::plan::{CHUNK, LANE_BITS};

/// Rows of a matrix that are added together.
const ROWS: usize = 8;

/// What a spike takes to its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// Its weight.
    Input,
    /// The end of a truncated filter.
    End,
}

/// Delivery of the spikes of one step.
pub(super) struct Deliver<'a> {
    pub(super) part: &'a mut Part,
    pub(super) step: u64,
    pub(super) list: &'a [u32],
    pub(super) takes: Takes,
}

impl WithSimd for Deliver<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self {
            part,
            step,
            list,
            takes,
        } = self;
        if !part.keys.is_empty() {
            match part.rests {
                true => lists::<true>(part, step, list, takes),
                false => lists::<false>(part, step, list, takes),
            }
        }
        if !part.matrices.is_empty() {
            matrices(part, step, list, takes);
        }
    }
}

/// Offset of the rings that take what `takes` says, in lanes.
fn ring_first(part: &Part, takes: Takes) -> usize {
    match takes {
        Takes::Input => 0,
        Takes::End => part.receptors * part.chunks * CHUNK,
    }
}

#[inline(always)]
fn lists<const WAKES: bool>(part: &mut Part, step: u64, list: &[u32], takes: Takes) {
    let lanes = part.chunks * CHUNK;
    let per_slot = part.rings * lanes;
    let first = ring_first(part, takes);
    let mask = part.slots - 1;
    let words = part.chunks.div_ceil(64);
    let step = step as usize;
    let mut events = 0;
    for (i, &source) in list.iter().enumerate() {
        if let Some(&next) = list.get(i + 1) {
            prefetch(part, next);
        }
        let source = source as usize;
        let row = part.offsets[source] as usize..part.offsets[source + 1] as usize;
        events += row.len();
        for (&key, &weight) in part.keys[row.clone()].iter().zip(&part.weights[row]) {
            let slot = (step + (key >> LANE_BITS) as usize) & mask;
            let lane = (key & ((1 << LANE_BITS) - 1)) as usize;
            part.ring[slot * per_slot + first + lane] += i32::from(weight);
            if WAKES {
                let mut lane = lane;
                while lane >= lanes {
                    lane -= lanes;
                }
                let chunk = lane / CHUNK;
                part.wake[slot * words + chunk / 64] |= 1 << (chunk % 64);
            }
        }
    }
    if takes == Takes::Input {
        part.events += events as u64;
    }
}

/// Asks for the beginning of a row before it is needed: rows lie far apart.
#[inline(always)]
fn prefetch(part: &Part, source: u32) {
    let row = part.offsets[source as usize] as usize;
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    // SAFETY: a prefetch reads nothing and faults nowhere, wherever it points.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let (keys, weights) = (part.keys.as_ptr(), part.weights.as_ptr());
        for line in 0..4 {
            _mm_prefetch(keys.wrapping_add(row + 16 * line).cast::<i8>(), _MM_HINT_T0);
        }
        for line in 0..2 {
            _mm_prefetch(weights.wrapping_add(row + 32 * line).cast::<i8>(), _MM_HINT_T0);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

#[inline(always)]
fn matrices(part: &mut Part, step: u64, list: &[u32], takes: Takes) {
    let per_slot = part.rings * part.chunks;
    let first = ring_first(part, takes) / CHUNK;
    let words = part.chunks.div_ceil(64);
    let (ring, _) = part.ring.as_chunks_mut::<CHUNK>();
    for matrix in &part.matrices {
        let own = |s: &u32| s.wrapping_sub(matrix.source_first) < matrix.sources;
        part.rows.clear();
        part.rows
            .extend(list.iter().filter(|s| own(s)).map(|s| s - matrix.source_first));
        if part.rows.is_empty() {
            continue;
        }
        let slot = (step as usize + matrix.delay) & (part.slots - 1);
        let begin = slot * per_slot + first + matrix.chunk_first;
        let target = &mut ring[begin..begin + matrix.chunks];
        let mut groups = part.rows.chunks_exact(ROWS);
        for rows in &mut groups {
            add_rows(matrix, rows, target);
        }
        add_rows(matrix, groups.remainder(), target);
        if part.rests {
            let from = matrix.chunk_first % part.chunks;
            for chunk in from..from + matrix.chunks {
                part.wake[slot * words + chunk / 64] |= 1 << (chunk % 64);
            }
        }
        if takes == Takes::Input {
            part.events += (part.rows.len() * matrix.chunks * CHUNK) as u64;
        }
    }
}

#[inline(always)]
fn add_rows(matrix: &Matrix, rows: &[u32], target: &mut [[i32; CHUNK]]) {
    let (weights, _) = matrix.weights.as_chunks::<CHUNK>();
    for (chunk, target) in target.iter_mut().enumerate() {
        let mut sums = *target;
        for &row in rows {
            let row = &weights[row as usize * matrix.chunks + chunk];
            for (sum, weight) in sums.iter_mut().zip(row) {
                *sum += i32::from(*weight);
            }
        }
        *target = sums;
    }
}
