//! The walk of rank measures, once for all kinds of registers.

use super::{HEIGHT, LANES, PARTS, ROWS, RankFilter, RankHit, RankWalk, TileWords, Words};

/// A register of 32-bit words and what the walk does with it.
///
/// # Safety
/// Every function may use instructions that the processor must have; pointers must be readable or writable for
/// [`RankLanes::LEN`] words.
pub(super) trait RankLanes {
    type V: Copy;
    const LEN: usize;
    unsafe fn splat(word: u32) -> Self::V;
    unsafe fn load(from: *const u32) -> Self::V;
    unsafe fn store(to: *mut i32, value: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn subtract(a: Self::V, b: Self::V) -> Self::V;
    /// sum + the products of two numbers of 16 bits in every word
    unsafe fn multiply(sum: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// The number of bits in which a and b differ.
    unsafe fn differences(a: Self::V, b: Self::V) -> Self::V;
    /// Of the bits that both masks have: those in which a and b agree, less those in which they differ.
    unsafe fn balance(a: Self::V, b: Self::V, a_mask: Self::V, b_mask: Self::V) -> Self::V;
    /// One bit per lane: (offset + factor × sum) × scale ≥ limit, of magnitudes if asked for.
    unsafe fn reaches<const MAGNITUDE: bool>(
        sum: Self::V,
        of_sum: Linear,
        scale: *const f32,
        limit: f32,
    ) -> u32;
}

/// The value of a sum: offset + factor × sum.
#[derive(Clone, Copy)]
pub(super) struct Linear {
    pub(super) offset: f32,
    pub(super) factor: f32,
}

/// Sums of a part of a tile.
type Sums<V, const REGISTERS: usize> = [[V; REGISTERS]; ROWS];

/// Adds (or, with `ENTER` false, takes away) `f` of every step's words to the sums.
macro_rules! each_step {
    ($lanes:ident, $sums:ident, $steps:expr, |$at:ident, $row:ident, $register:ident| $change:expr) => {
        for step in $steps {
            let $at = step * LANES;
            for $row in 0..ROWS {
                for $register in 0..REGISTERS {
                    $sums[$row][$register] = $change;
                }
            }
        }
    };
}

/// # Safety
/// As for the trait; `rows` and `columns` hold the words of all steps.
#[inline(always)]
unsafe fn multiply<L: RankLanes, const REGISTERS: usize>(
    sums: &mut Sums<L::V, REGISTERS>,
    rows: Words<'_>,
    columns: Words<'_>,
    steps: std::ops::Range<usize>,
) {
    let (rows, columns) = (rows.as_ptr(), columns.as_ptr());
    let mut local = *sums;
    // SAFETY: the caller's promise.
    unsafe {
        each_step!(L, local, steps, |at, row, register| L::multiply(
            local[row][register],
            L::splat(*rows.add(at + row)),
            L::load(columns.add(at + register * L::LEN)),
        ));
    }
    *sums = local;
}

/// # Safety
/// The caller gives what [`multiply`] demands.
#[inline(always)]
unsafe fn count<L: RankLanes, const REGISTERS: usize, const ENTER: bool>(
    sums: &mut Sums<L::V, REGISTERS>,
    rows: Words<'_>,
    columns: Words<'_>,
    steps: std::ops::Range<usize>,
) {
    let (rows, columns) = (rows.as_ptr(), columns.as_ptr());
    let mut local = *sums;
    // SAFETY: the caller's promise.
    unsafe {
        each_step!(L, local, steps, |at, row, register| {
            let differ = L::differences(
                L::splat(*rows.add(at + row)),
                L::load(columns.add(at + register * L::LEN)),
            );
            if ENTER {
                L::add(local[row][register], differ)
            } else {
                L::subtract(local[row][register], differ)
            }
        });
    }
    *sums = local;
}

/// # Safety
/// The caller gives what [`multiply`] demands, of words and masks.
#[inline(always)]
unsafe fn balance<L: RankLanes, const REGISTERS: usize, const ENTER: bool>(
    sums: &mut Sums<L::V, REGISTERS>,
    (rows, columns): (Words<'_>, Words<'_>),
    (row_masks, column_masks): (Words<'_>, Words<'_>),
    steps: std::ops::Range<usize>,
) {
    let (rows, columns) = (rows.as_ptr(), columns.as_ptr());
    let (row_masks, column_masks) = (row_masks.as_ptr(), column_masks.as_ptr());
    let mut local = *sums;
    // SAFETY: the caller's promise.
    unsafe {
        each_step!(L, local, steps, |at, row, register| {
            let column = at + register * L::LEN;
            let balance = L::balance(
                L::splat(*rows.add(at + row)),
                L::load(columns.add(column)),
                L::splat(*row_masks.add(at + row)),
                L::load(column_masks.add(column)),
            );
            if ENTER {
                L::add(local[row][register], balance)
            } else {
                L::subtract(local[row][register], balance)
            }
        });
    }
    *sums = local;
}

/// The walk of a tile; see [`super::hits`].
///
/// # Safety
/// The processor has the registers; slices are as long as `super::check` demands.
#[inline(always)]
pub(super) unsafe fn hits<L: RankLanes, const REGISTERS: usize, const MAGNITUDE: bool>(
    walk: &RankWalk<'_>,
    filter: &RankFilter<'_>,
    hits: &mut Vec<RankHit>,
) {
    // SAFETY: words of any bits are numbers.
    let zero = unsafe { [[L::splat(0); REGISTERS]; ROWS] };
    let mut all = [zero; PARTS];
    let mut from = 0;
    for window in 0..walk.windows {
        let anew = window == 0 || walk.direct;
        let (entering, leaving) = match anew {
            true => (walk.first, 0),
            false => (walk.further, walk.further),
        };
        let (enter, leave) = (
            from..from + entering,
            from + entering..from + entering + leaving,
        );
        from = leave.end;
        for part in 0..PARTS {
            let mut sums = if anew { zero } else { all[part] };
            // SAFETY: the caller's promise.
            unsafe {
                let linear = match &walk.words {
                    TileWords::Ranks { rows, columns, fit } if *fit < entering => {
                        let words = (rows[part], *columns);
                        long_sums::<L, REGISTERS, MAGNITUDE>(
                            words,
                            *fit,
                            enter.clone(),
                            filter,
                            (window, part),
                            hits,
                        );
                        continue;
                    }
                    TileWords::Ranks { rows, columns, .. } => {
                        multiply::<L, REGISTERS>(&mut sums, rows[part], columns, enter.clone());
                        Linear {
                            offset: 0.0,
                            factor: 1.0,
                        }
                    }
                    TileWords::Signs { rows, columns, all } => {
                        let rows = rows[part];
                        count::<L, REGISTERS, true>(&mut sums, rows, columns, enter.clone());
                        count::<L, REGISTERS, false>(&mut sums, rows, columns, leave.clone());
                        Linear {
                            offset: *all as f32,
                            factor: -2.0,
                        }
                    }
                    TileWords::TiedSigns {
                        rows,
                        columns,
                        row_masks,
                        column_masks,
                    } => {
                        let words = (rows[part], *columns);
                        let masks = (row_masks[part], *column_masks);
                        balance::<L, REGISTERS, true>(&mut sums, words, masks, enter.clone());
                        balance::<L, REGISTERS, false>(&mut sums, words, masks, leave.clone());
                        Linear {
                            offset: 0.0,
                            factor: 1.0,
                        }
                    }
                };
                all[part] = sums;
                select::<L, REGISTERS, MAGNITUDE>(
                    &sums,
                    linear,
                    walk,
                    filter,
                    (window, part),
                    hits,
                );
            }
        }
    }
}

/// Looks for sums of a part that reach their limits.
///
/// # Safety
/// The caller gives what [`hits`] demands.
#[inline(always)]
unsafe fn select<L: RankLanes, const REGISTERS: usize, const MAGNITUDE: bool>(
    sums: &Sums<L::V, REGISTERS>,
    linear: Linear,
    walk: &RankWalk<'_>,
    filter: &RankFilter<'_>,
    (window, part): (usize, usize),
    hits: &mut Vec<RankHit>,
) {
    let scales = filter.scales[window * LANES..].as_ptr();
    for row in 0..ROWS {
        let limit = filter.limits[window * HEIGHT + part * ROWS + row];
        for register in 0..REGISTERS {
            // SAFETY: the caller's promise.
            let mut mask = unsafe {
                let scale = scales.add(register * L::LEN);
                L::reaches::<MAGNITUDE>(sums[row][register], linear, scale, limit)
            };
            if mask == 0 {
                continue;
            }
            let mut stored = [0_i32; LANES];
            // SAFETY: a register has at most `LANES` lanes.
            unsafe { L::store(stored.as_mut_ptr(), sums[row][register]) }
            let first = (part * ROWS + row) * REGISTERS * L::LEN + register * L::LEN;
            while mask != 0 {
                let lane = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let sum = i64::from(stored[lane]);
                hits.push(RankHit {
                    window: window as u32,
                    place: (first + lane) as u32,
                    sum: match walk.words {
                        TileWords::Signs { all, .. } => i64::from(all) - 2 * sum,
                        _ => sum,
                    },
                });
            }
        }
    }
}

/// Sums of products that 32 bits do not hold: in stretches of `fit` steps, which are then added in 64 bits.
///
/// # Safety
/// The caller gives what [`hits`] demands.
#[inline(always)]
unsafe fn long_sums<L: RankLanes, const REGISTERS: usize, const MAGNITUDE: bool>(
    (rows, columns): (Words<'_>, Words<'_>),
    fit: usize,
    steps: std::ops::Range<usize>,
    filter: &RankFilter<'_>,
    (window, part): (usize, usize),
    hits: &mut Vec<RankHit>,
) {
    let width = REGISTERS * L::LEN;
    let mut totals = [0_i64; ROWS * LANES];
    let mut from = steps.start;
    while from < steps.end {
        let to = steps.end.min(from + fit);
        // SAFETY: the caller's promise; a row of sums has at most `LANES` lanes.
        unsafe {
            let mut sums = [[L::splat(0); REGISTERS]; ROWS];
            multiply::<L, REGISTERS>(&mut sums, rows, columns, from..to);
            let mut stored = [0_i32; ROWS * LANES];
            for row in 0..ROWS {
                for register in 0..REGISTERS {
                    let at = row * width + register * L::LEN;
                    L::store(stored.as_mut_ptr().add(at), sums[row][register]);
                }
            }
            for (total, sum) in totals.iter_mut().zip(stored) {
                *total += i64::from(sum);
            }
        }
        from = to;
    }
    let scales = &filter.scales[window * LANES..];
    for row in 0..ROWS {
        let limit = filter.limits[window * HEIGHT + part * ROWS + row];
        for column in 0..width {
            let sum = totals[row * width + column];
            let value = sum as f32 * scales[column];
            if (if MAGNITUDE { value.abs() } else { value }) >= limit {
                hits.push(RankHit {
                    window: window as u32,
                    place: ((part * ROWS + row) * width + column) as u32,
                    sum,
                });
            }
        }
    }
}
