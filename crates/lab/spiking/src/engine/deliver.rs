//! Spikes to their targets: each thread takes every spike to the targets that are its own.

#![allow(clippy::needless_range_loop)]

use pulp::{Simd, WithSimd};

use super::part::Part;
use crate::plan::{CHUNK, LANE_BITS};

/// Rows of a matrix that are added together.
const ROWS: usize = 8;

/// Delivery of the spikes of one step.
pub(super) struct Deliver<'a> {
    pub(super) part: &'a mut Part,
    pub(super) step: u64,
    pub(super) list: &'a [u32],
}

impl WithSimd for Deliver<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { part, step, list } = self;
        if !part.keys.is_empty() {
            // Asking ahead pays where rows are longer than what one miss brings.
            let long = part.keys.len() > 16 * part.offsets.len();
            match (part.rests, long) {
                (true, true) => lists::<true, true>(part, step, list),
                (true, false) => lists::<true, false>(part, step, list),
                (false, true) => lists::<false, true>(part, step, list),
                (false, false) => lists::<false, false>(part, step, list),
            }
        }
        if !part.matrices.is_empty() {
            matrices(part, step, list);
        }
        if !part.learning.is_empty() {
            part.events += part.learning.send(step, list);
        }
    }
}

#[inline(always)]
fn lists<const WAKES: bool, const LONG: bool>(part: &mut Part, step: u64, list: &[u32]) {
    let lanes = part.chunks * CHUNK;
    let per_slot = part.receptors * lanes;
    let mask = part.slots - 1;
    let words = part.chunks.div_ceil(64);
    let step = step as usize;
    let mut events = 0;
    for (i, &source) in list.iter().enumerate() {
        if LONG && let Some(&next) = list.get(i + 1) {
            prefetch(part, next);
        }
        let source = source as usize;
        let (begin, end) = (part.offsets[source], part.offsets[source + 1]);
        let (begin, end) = (begin as usize, end as usize);
        events += end - begin;
        let keys = &part.keys[begin..end];
        let weights = &part.weights[begin..end];
        let ring = &mut part.ring[..];
        for k in 0..keys.len() {
            let (key, weight) = (keys[k], weights[k]);
            let slot = (step + (key >> LANE_BITS) as usize) & mask;
            let lane = (key & ((1 << LANE_BITS) - 1)) as usize;
            ring[slot * per_slot + lane] += i32::from(weight);
            if WAKES {
                let lane = if lane >= lanes { lane % lanes } else { lane };
                let chunk = lane / CHUNK;
                part.wake[slot * words + chunk / 64] |= 1 << (chunk % 64);
            }
        }
    }
    part.events += events as u64;
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
            _mm_prefetch(
                weights.wrapping_add(row + 32 * line).cast::<i8>(),
                _MM_HINT_T0,
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

#[inline(always)]
fn matrices(part: &mut Part, step: u64, list: &[u32]) {
    let per_slot = part.receptors * part.chunks;
    let words = part.chunks.div_ceil(64);
    let (ring, _) = part.ring.as_chunks_mut::<CHUNK>();
    for matrix in &part.matrices {
        let own = |s: &u32| s.wrapping_sub(matrix.source_first) < matrix.sources;
        part.rows.clear();
        part.rows.extend(
            list.iter()
                .filter(|s| own(s))
                .map(|s| s - matrix.source_first),
        );
        if part.rows.is_empty() {
            continue;
        }
        let slot = (step as usize + matrix.delay) & (part.slots - 1);
        let begin = slot * per_slot + matrix.chunk_first;
        let target = &mut ring[begin..begin + matrix.chunks];
        let (weights, _) = matrix.weights.as_chunks::<CHUNK>();
        let row = |row: u32| &weights[row as usize * matrix.chunks..][..matrix.chunks];
        let (groups, rest) = part.rows.as_chunks::<ROWS>();
        for &[a, b, c, d, e, f, g, h] in groups {
            let (a, b, c, d) = (row(a), row(b), row(c), row(d));
            let (e, f, g, h) = (row(e), row(f), row(g), row(h));
            for k in 0..target.len() {
                // On the stack, since the compiler cannot know that it does not overlap the rows.
                let mut sums = target[k];
                let (a, b, c, d) = (&a[k], &b[k], &c[k], &d[k]);
                let (e, f, g, h) = (&e[k], &f[k], &g[k], &h[k]);
                for i in 0..CHUNK {
                    let left =
                        i32::from(a[i]) + i32::from(b[i]) + i32::from(c[i]) + i32::from(d[i]);
                    let right =
                        i32::from(e[i]) + i32::from(f[i]) + i32::from(g[i]) + i32::from(h[i]);
                    sums[i] += left + right;
                }
                target[k] = sums;
            }
        }
        for &one in rest {
            let one = row(one);
            for k in 0..target.len() {
                let (mut sums, one) = (target[k], &one[k]);
                for i in 0..CHUNK {
                    sums[i] += i32::from(one[i]);
                }
                target[k] = sums;
            }
        }
        if part.rests {
            let from = matrix.chunk_first % part.chunks;
            for chunk in from..from + matrix.chunks {
                part.wake[slot * words + chunk / 64] |= 1 << (chunk % 64);
            }
        }
        part.events += (part.rows.len() * matrix.chunks * CHUNK) as u64;
    }
}
