//! The walk, once for all kinds of registers.

use super::{Filter, Hits, MAX_PAIRS, PLACE_BITS, Rebuild, Walk};

/// Steps of one sum in registers when a window is summed from zero: sums of sums keep digits that
/// one long f32 sum would round away.
const SUM_STEPS: usize = 2048;

/// A register of f32 and what the walk does with it.
///
/// # Safety
/// Every function may use instructions that the processor must have; pointers must be readable or
/// writable for [`Lanes::LEN`] numbers.
pub(super) trait Lanes {
    type V: Copy;
    const LEN: usize;
    unsafe fn splat(value: f32) -> Self::V;
    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn store(to: *mut f32, value: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// a × b + c
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// The larger magnitude.
    unsafe fn magnitude(a: Self::V, b: Self::V) -> Self::V;
    /// One bit a lane: a ≥ b.
    unsafe fn reaches(a: Self::V, b: Self::V) -> u32;
}

/// Adds `steps` steps to the sums.
#[inline(always)]
unsafe fn add_steps<L: Lanes, const ROWS: usize, const REGISTERS: usize>(
    sums: &mut [[L::V; REGISTERS]; ROWS],
    mut rows: *const f32,
    mut columns: *const f32,
    steps: usize,
) {
    for _ in 0..steps {
        // SAFETY: the caller's panels hold `steps` steps.
        unsafe {
            let mut column = [L::splat(0.0); REGISTERS];
            for (v, column) in column.iter_mut().enumerate() {
                *column = L::load(columns.add(v * L::LEN));
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let row = L::splat(*rows.add(i));
                for (sum, column) in sums.iter_mut().zip(column) {
                    *sum = L::fma(row, column, *sum);
                }
            }
            rows = rows.add(ROWS);
            columns = columns.add(REGISTERS * L::LEN);
        }
    }
}

/// Sums of a whole window, from zero.
#[inline(always)]
unsafe fn whole<L: Lanes, const ROWS: usize, const REGISTERS: usize>(
    rows: *const f32,
    columns: *const f32,
    steps: usize,
) -> [[L::V; REGISTERS]; ROWS] {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[L::splat(0.0); REGISTERS]; ROWS];
        add_steps::<L, ROWS, REGISTERS>(&mut sums, rows, columns, steps.min(SUM_STEPS));
        let mut done = SUM_STEPS;
        while done < steps {
            let mut part = [[L::splat(0.0); REGISTERS]; ROWS];
            add_steps::<L, ROWS, REGISTERS>(
                &mut part,
                rows.add(done * ROWS),
                columns.add(done * REGISTERS * L::LEN),
                (steps - done).min(SUM_STEPS),
            );
            for (sums, part) in sums.iter_mut().zip(part) {
                for (sum, part) in sums.iter_mut().zip(part) {
                    *sum = L::add(*sum, part);
                }
            }
            done += SUM_STEPS;
        }
        sums
    }
}

/// The sums of window `q`, made from those of the window before.
#[inline(always)]
unsafe fn advance<L: Lanes, const ROWS: usize, const REGISTERS: usize>(
    sums: &mut [[L::V; REGISTERS]; ROWS],
    walk: &Walk<'_>,
    rebuild: &mut Rebuild<'_>,
    q: usize,
    at: usize,
) {
    // SAFETY: `check` found the panels and flags long enough.
    unsafe {
        let rows = walk.rows.as_ptr().add(at * ROWS);
        let columns = walk.columns.as_ptr().add(at * REGISTERS * L::LEN);
        if (*walk.row_anchor.get_unchecked(q) | *walk.column_anchor.get_unchecked(q)) != 0 {
            let (rows, columns) = rebuild(q);
            *sums = whole::<L, ROWS, REGISTERS>(rows, columns, walk.first);
        } else if walk.direct {
            *sums = whole::<L, ROWS, REGISTERS>(rows, columns, walk.further);
        } else if walk.further == 2 {
            add_steps::<L, ROWS, REGISTERS>(sums, rows, columns, 2);
        } else {
            add_steps::<L, ROWS, REGISTERS>(sums, rows, columns, walk.further);
        }
    }
}

/// Largest value (or magnitude) of `a` and `b`.
#[inline(always)]
unsafe fn larger<L: Lanes, const MAGNITUDE: bool>(a: L::V, b: L::V) -> L::V {
    // SAFETY: as the caller promises.
    unsafe {
        if MAGNITUDE {
            L::magnitude(a, b)
        } else {
            L::max(a, b)
        }
    }
}

/// Where a tile's sums are looked at one by one.
#[repr(align(64))]
struct Copied([f32; MAX_PAIRS]);

/// See [`super::edges`]; returns the number of hits, those before included.
///
/// # Safety
/// As there; the caller has compared the lengths, and `hits` has room for all pairs of all windows.
#[inline(always)]
pub(super) unsafe fn edges<
    L: Lanes,
    const ROWS: usize,
    const REGISTERS: usize,
    const MAGNITUDE: bool,
>(
    walk: &Walk<'_>,
    filter: &Filter<'_>,
    mut rebuild: Rebuild<'_>,
    hits: &mut Hits,
) -> usize {
    let columns = REGISTERS * L::LEN;
    let (keys, values) = (hits.keys.as_mut_ptr(), hits.values.as_mut_ptr());
    let mut len = hits.len;
    let mut copy = Copied([0.0; MAX_PAIRS]);
    // SAFETY: `check` and the asserts beside it found every slice long enough for the indices below,
    // which stay below windows, rows and columns; `len` grows by at most rows × columns a window,
    // for which `reserve` has made room behind it.
    unsafe {
        let mut sums =
            whole::<L, ROWS, REGISTERS>(walk.rows.as_ptr(), walk.columns.as_ptr(), walk.first);
        let mut at = walk.first;
        for q in 0..walk.windows {
            if q > 0 {
                advance::<L, ROWS, REGISTERS>(&mut sums, walk, &mut rebuild, q, at);
                at += walk.further;
            }
            // Largest of the even rows and of the odd ones.
            let mut part = [[L::splat(0.0); REGISTERS]; 2];
            for (i, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    part[i % 2][v] = if i < 2 {
                        *sum
                    } else {
                        larger::<L, MAGNITUDE>(part[i % 2][v], *sum)
                    };
                }
            }
            let row_max = L::splat(*filter.row_max.get_unchecked(q));
            let bound = L::splat(*filter.least.get_unchecked(q));
            let column_scale = filter.column_scale.as_ptr().add(q * columns);
            let mut any = 0;
            for v in 0..REGISTERS {
                let largest = larger::<L, MAGNITUDE>(part[0][v], part[1][v]);
                let scale = L::mul(row_max, L::load(column_scale.add(v * L::LEN)));
                any |= L::reaches(L::mul(largest, scale), bound);
            }
            if any == 0 {
                continue;
            }
            // Sums are copied rather than indexed, and nothing is called: they must not leave their
            // registers on the common way. Bits of `found`: columns of the even rows, then of the odd.
            let mut found = 0_u64;
            for (g, part) in part.iter().enumerate() {
                for (v, part) in part.iter().enumerate() {
                    let largest = larger::<L, MAGNITUDE>(*part, *part);
                    let scale = L::mul(row_max, L::load(column_scale.add(v * L::LEN)));
                    let mask = L::reaches(L::mul(largest, scale), bound);
                    found |= u64::from(mask) << (g * columns + v * L::LEN);
                }
            }
            let copy = copy.0.as_mut_ptr();
            for (i, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    L::store(copy.add((i * REGISTERS + v) * L::LEN), *sum);
                }
            }
            let row_scale = filter.row_scale.as_ptr().add(q * ROWS);
            let least = *filter.least.get_unchecked(q);
            while found != 0 {
                let bit = found.trailing_zeros() as usize;
                found &= found - 1;
                let (odd, column) = (bit / columns, bit % columns);
                let scale = *column_scale.add(column);
                for pair in 0..ROWS / 2 {
                    let row = 2 * pair + odd;
                    let place = row * columns + column;
                    let value = *copy.add(place) * *row_scale.add(row) * scale;
                    let size = if MAGNITUDE { value.abs() } else { value };
                    // Always written, counted if wanted: no branch to guess.
                    *values.add(len) = value;
                    *keys.add(len) = ((q as u32) << PLACE_BITS) + place as u32;
                    len += usize::from(size >= least);
                }
            }
        }
    }
    len
}

/// See [`super::sums`].
///
/// # Safety
/// As there; the caller has compared the lengths.
#[inline(always)]
pub(super) unsafe fn sums<L: Lanes, const ROWS: usize, const REGISTERS: usize>(
    walk: &Walk<'_>,
    mut rebuild: Rebuild<'_>,
    out: &mut [f32],
) {
    let mut out = out.as_mut_ptr();
    // SAFETY: `check` found the slices long enough; `out` has rows × columns numbers a window.
    unsafe {
        let mut sums =
            whole::<L, ROWS, REGISTERS>(walk.rows.as_ptr(), walk.columns.as_ptr(), walk.first);
        let mut at = walk.first;
        for q in 0..walk.windows {
            if q > 0 {
                advance::<L, ROWS, REGISTERS>(&mut sums, walk, &mut rebuild, q, at);
                at += walk.further;
            }
            for sums in &sums {
                for sum in sums {
                    L::store(out, *sum);
                    out = out.add(L::LEN);
                }
            }
        }
    }
}
