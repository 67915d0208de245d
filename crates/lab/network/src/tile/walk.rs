//! The walk, once for all kinds of registers.

use std::ops::Range;

use super::{Filter, Hits, MAX_PAIRS, Rebuild, Run, Walk};

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
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// One bit a lane: a ≥ b.
    unsafe fn reaches(a: Self::V, b: Self::V) -> u32;
    /// The numbers at `from`, `from + stride`, ….
    unsafe fn gather(from: *const f32, stride: usize) -> Self::V;
    /// The lanes of `mask` side by side; up to [`Lanes::LEN`] numbers are written.
    unsafe fn compress(to: *mut f32, value: Self::V, mask: u32);
    /// Adds one where `mask` says.
    unsafe fn count(to: *mut u32, mask: u32);
}

/// [`Lanes::compress`] by plain loops.
///
/// # Safety
/// The conditions of [`Lanes::compress`].
#[inline(always)]
pub(super) unsafe fn compress(mut to: *mut f32, lanes: &[f32], mask: u32) {
    for (lane, value) in lanes.iter().enumerate() {
        // SAFETY: `to` advances by at most one number per lane.
        unsafe {
            // Always written, kept if wanted: no branch to guess.
            *to = *value;
            to = to.add((mask >> lane & 1) as usize);
        }
    }
}

/// [`Lanes::count`] by plain loops.
///
/// # Safety
/// The conditions of [`Lanes::count`].
#[inline(always)]
pub(super) unsafe fn count<const LEN: usize>(to: *mut u32, mask: u32) {
    for lane in 0..LEN {
        // SAFETY: as the caller promises.
        unsafe { *to.add(lane) += mask >> lane & 1 };
    }
}

/// Windows that go through the filter together; those of one pair fill a register of at most this many.
const MAX_GROUP: usize = 16;
/// Registers of the largest sums of a group: rows three by three (or two by two) times columns by registers.
const MAX_PARTS: usize = 8;

/// Rows that are looked at together.
const fn rows_of_a_part(rows: usize) -> usize {
    if rows.is_multiple_of(3) { 3 } else { 2 }
}

/// The sums of a group of windows, (window, row, column).
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Group {
    sums: [f32; MAX_GROUP * MAX_PAIRS],
    /// Sums of the last window.
    last: [f32; MAX_PAIRS],
}

impl Default for Group {
    fn default() -> Self {
        Self {
            sums: [0.0; MAX_GROUP * MAX_PAIRS],
            last: [0.0; MAX_PAIRS],
        }
    }
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

/// Stores a tile's sums.
#[inline(always)]
unsafe fn put<L: Lanes, const ROWS: usize, const REGISTERS: usize>(
    sums: &[[L::V; REGISTERS]; ROWS],
    to: *mut f32,
) {
    for (i, sums) in sums.iter().enumerate() {
        for (v, sum) in sums.iter().enumerate() {
            // SAFETY: the caller has room for a tile.
            unsafe { L::store(to.add((i * REGISTERS + v) * L::LEN), *sum) };
        }
    }
}

/// Takes the last sums through more windows, of which none is flagged, and stores those of each if told to.
///
/// A loop in which nothing else is done: every sum then stays in its register.
#[inline(always)]
unsafe fn slide<
    L: Lanes,
    const ROWS: usize,
    const REGISTERS: usize,
    const TWO: bool,
    const STORE: bool,
>(
    walk: &Walk<'_>,
    windows: Range<usize>,
    group: *mut Group,
) {
    let pairs = ROWS * REGISTERS * L::LEN;
    // SAFETY: `check` found the panels long enough for all windows.
    unsafe {
        let last = (&raw mut (*group).last).cast::<f32>();
        let to = (&raw mut (*group).sums).cast::<f32>();
        let mut sums = [[L::splat(0.0); REGISTERS]; ROWS];
        for (i, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = L::load(last.add((i * REGISTERS + v) * L::LEN));
            }
        }
        let at = walk.first + (windows.start - 1) * walk.further;
        let mut rows = walk.rows.as_ptr().add(at * ROWS);
        let mut columns = walk.columns.as_ptr().add(at * REGISTERS * L::LEN);
        let steps = if TWO { 2 } else { walk.further };
        for q in windows {
            add_steps::<L, ROWS, REGISTERS>(&mut sums, rows, columns, steps);
            rows = rows.add(steps * ROWS);
            columns = columns.add(steps * REGISTERS * L::LEN);
            if STORE {
                put::<L, ROWS, REGISTERS>(&sums, to.add(q % L::LEN * pairs));
            }
        }
        put::<L, ROWS, REGISTERS>(&sums, last);
    }
}

/// True when no pair can be wanted in any window of group `g`, in none of which the tile is flagged: sums
/// change by the products of its steps, and Σ|pᵢ pⱼ| ≤ |pᵢ|·|pⱼ|.
#[inline(always)]
unsafe fn quiet<L: Lanes, const ROWS: usize, const REGISTERS: usize, const MAGNITUDE: bool>(
    filter: &Filter<'_>,
    g: usize,
    group: *const Group,
) -> bool {
    let columns = REGISTERS * L::LEN;
    // SAFETY: the caller found the filter long enough for all groups.
    unsafe {
        let last = (&raw const (*group).last).cast::<f32>();
        let least =
            L::splat(filter.least_of_group.get_unchecked(g) * filter.row_least.get_unchecked(g));
        let norm = L::splat(*filter.row_norm.get_unchecked(g));
        let mut any = 0;
        for v in 0..REGISTERS {
            let at = g * columns + v * L::LEN;
            let mut largest = L::load(last.add(v * L::LEN));
            largest = larger::<L, MAGNITUDE>(largest, largest);
            for i in 1..ROWS {
                let sum = L::load(last.add((i * REGISTERS + v) * L::LEN));
                largest = larger::<L, MAGNITUDE>(largest, sum);
            }
            let change = L::load(filter.column_norm.as_ptr().add(at));
            let bound = L::mul(least, L::load(filter.column_least.as_ptr().add(at)));
            any |= L::reaches(L::fma(norm, change, largest), bound);
        }
        any == 0
    }
}

/// See [`super::edges`].
///
/// # Safety
/// The conditions of [`super::edges`]; the caller has compared the lengths, and `hits` has room for all pairs of all windows.
#[inline(always)]
pub(super) unsafe fn edges<
    L: Lanes,
    const ROWS: usize,
    const REGISTERS: usize,
    const MAGNITUDE: bool,
>(
    walk: &Walk<'_>,
    filter: &Filter<'_>,
    rebuild: Rebuild<'_>,
    hits: &mut Hits,
) {
    const { assert!(ROWS * REGISTERS * L::LEN <= MAX_PAIRS && L::LEN <= MAX_GROUP) };
    const { assert!(ROWS / rows_of_a_part(ROWS) * REGISTERS <= MAX_PARTS) };
    let pairs = ROWS * REGISTERS * L::LEN;
    let group = &raw mut *hits.group;
    // SAFETY: `check` and the asserts beside it found every slice long enough for the windows below; a
    // group has room for the sums of each of its windows.
    unsafe {
        let last = (&raw mut (*group).last).cast::<f32>();
        let first = (&raw mut (*group).sums).cast::<f32>();
        let flagged = |q: usize| {
            *walk.row_anchor.get_unchecked(q) | *walk.column_anchor.get_unchecked(q) != 0
        };
        for g in 0..walk.windows.div_ceil(L::LEN) {
            let begin = g * L::LEN;
            let end = (begin + L::LEN).min(walk.windows);
            let mut q = begin;
            while q < end {
                if q > 0 && !walk.direct && !flagged(q) {
                    let mut to = q + 1;
                    while to < end && !flagged(to) {
                        to += 1;
                    }
                    let all = q <= begin.max(1) && to == end;
                    if all && quiet::<L, ROWS, REGISTERS, MAGNITUDE>(filter, g, group) {
                        if walk.further == 2 {
                            slide::<L, ROWS, REGISTERS, true, false>(walk, q..to, group);
                        } else {
                            slide::<L, ROWS, REGISTERS, false, false>(walk, q..to, group);
                        }
                        // Nothing to take from this group.
                        break;
                    }
                    if walk.further == 2 {
                        slide::<L, ROWS, REGISTERS, true, true>(walk, q..to, group);
                    } else {
                        slide::<L, ROWS, REGISTERS, false, true>(walk, q..to, group);
                    }
                    q = to;
                    continue;
                }
                let (rows, columns, steps) = if q > 0 && flagged(q) {
                    let (rows, columns) = rebuild(q);
                    (rows, columns, walk.first)
                } else if q > 0 {
                    let at = walk.first + (q - 1) * walk.further;
                    (
                        walk.rows.as_ptr().add(at * ROWS),
                        walk.columns.as_ptr().add(at * REGISTERS * L::LEN),
                        walk.further,
                    )
                } else {
                    (walk.rows.as_ptr(), walk.columns.as_ptr(), walk.first)
                };
                let sums = whole::<L, ROWS, REGISTERS>(rows, columns, steps);
                put::<L, ROWS, REGISTERS>(&sums, last);
                put::<L, ROWS, REGISTERS>(&sums, first.add(q % L::LEN * pairs));
                q += 1;
            }
            if q == end {
                take::<L, ROWS, REGISTERS, MAGNITUDE>(filter, begin..end, group, hits);
            }
        }
    }
}

/// A bit for each lane of each part of a few rows: true if a pair of it may be wanted in any window of the group.
#[inline(always)]
unsafe fn reaching<L: Lanes, const ROWS: usize, const REGISTERS: usize, const MAGNITUDE: bool>(
    filter: &Filter<'_>,
    windows: Range<usize>,
    sums: *const f32,
) -> [u64; MAX_PARTS / 4] {
    let columns = REGISTERS * L::LEN;
    let pairs = ROWS * columns;
    let part_rows = rows_of_a_part(ROWS);
    let g = windows.start / L::LEN;
    // SAFETY: the caller's: `sums` has those of all windows, and limits are padded to whole groups.
    unsafe {
        // The largest of a few rows in any window of the group.
        let mut largest = [[L::splat(0.0); REGISTERS]; MAX_PARTS];
        for (part, largest) in largest.iter_mut().enumerate().take(ROWS / part_rows) {
            for (v, largest) in largest.iter_mut().enumerate() {
                *largest = L::load(sums.add((part * part_rows * REGISTERS + v) * L::LEN));
                *largest = larger::<L, MAGNITUDE>(*largest, *largest);
            }
        }
        for at in 0..windows.len() {
            let sums = sums.add(at * pairs);
            for (part, largest) in largest.iter_mut().enumerate().take(ROWS / part_rows) {
                for row in part * part_rows..(part + 1) * part_rows {
                    for (v, largest) in largest.iter_mut().enumerate() {
                        let sum = L::load(sums.add((row * REGISTERS + v) * L::LEN));
                        *largest = larger::<L, MAGNITUDE>(*largest, sum);
                    }
                }
            }
        }
        let least =
            L::splat(filter.least_of_group.get_unchecked(g) * filter.row_least.get_unchecked(g));
        let mut any = [0_u64; MAX_PARTS / 4];
        for v in 0..REGISTERS {
            let column_least = filter.column_least.as_ptr().add(g * columns + v * L::LEN);
            let bound = L::mul(least, L::load(column_least));
            for (part, largest) in largest.iter().enumerate().take(ROWS / part_rows) {
                // One bit per lane, of at most 16.
                let found = u64::from(L::reaches(largest[v], bound));
                let bits = part * REGISTERS + v;
                any[bits / 4] |= found << (bits % 4 * 16);
            }
        }
        any
    }
}

/// Stores the wanted pairs of a group of windows: all windows of a pair at once.
#[inline(always)]
unsafe fn take<L: Lanes, const ROWS: usize, const REGISTERS: usize, const MAGNITUDE: bool>(
    filter: &Filter<'_>,
    windows: Range<usize>,
    group: *const Group,
    hits: &mut Hits,
) {
    let columns = REGISTERS * L::LEN;
    let pairs = ROWS * columns;
    let part_rows = rows_of_a_part(ROWS);
    let begin = windows.start;
    // SAFETY: lanes behind the last window hold what was there before and are left out; scales and limits
    // are padded to whole groups; `hits` has room for every pair of every window and a register behind it.
    unsafe {
        let sums = (&raw const (*group).sums).cast::<f32>();
        let any = reaching::<L, ROWS, REGISTERS, MAGNITUDE>(filter, windows.clone(), sums);
        if any == [0; MAX_PARTS / 4] {
            return;
        }
        let valid = ((1_u64 << windows.len()) - 1) as u32;
        let least = L::load(filter.least.as_ptr().add(begin));
        let clear = L::load(filter.clear.as_ptr().add(begin));
        let defined = L::splat(f32::MIN_POSITIVE);
        let (one, minus_one) = (L::splat(1.0), L::splat(-1.0));
        let sign = if filter.negative { minus_one } else { one };
        let mut len = hits.values.len();
        for (word, mut any) in any.into_iter().enumerate() {
            while any != 0 {
                let bit = any.trailing_zeros() as usize + 64 * word;
                any &= any - 1;
                let (part, lane) = (bit / 16, bit % 16);
                let column = part % REGISTERS * L::LEN + lane;
                let scales = filter.column_scale.as_ptr();
                let column_scale = L::load(scales.add(column * filter.stride + begin));
                for row in part / REGISTERS * part_rows..(part / REGISTERS + 1) * part_rows {
                    let place = row * columns + column;
                    let scales = filter.row_scale.as_ptr();
                    let row_scale = L::load(scales.add(row * filter.stride + begin));
                    let scale = L::mul(row_scale, column_scale);
                    let value = L::mul(L::gather(sums.add(place), pairs), scale);
                    let size = if MAGNITUDE {
                        L::magnitude(value, value)
                    } else {
                        value
                    };
                    let wanted = L::reaches(size, least) & L::reaches(scale, defined) & valid;
                    if wanted == 0 {
                        continue;
                    }
                    let value = L::mul(sign, L::max(minus_one, L::min(one, value)));
                    L::compress(hits.values.as_mut_ptr().add(len), value, wanted);
                    L::count(hits.counts.as_mut_ptr().add(begin), wanted);
                    let mut doubtful = wanted & !L::reaches(size, clear);
                    while doubtful != 0 {
                        let lane = doubtful.trailing_zeros();
                        doubtful &= doubtful - 1;
                        let before = (wanted & ((1 << lane) - 1)).count_ones() as usize;
                        hits.doubtful
                            .push((len + before, begin + lane as usize, place));
                    }
                    hits.runs.push(Run {
                        begin: begin as u32,
                        place: place as u16,
                        windows: wanted as u16,
                    });
                    len += wanted.count_ones() as usize;
                }
            }
        }
        hits.values.set_len(len);
    }
}

/// See [`super::sums`].
///
/// # Safety
/// The conditions of [`super::sums`]; the caller has compared the lengths.
#[inline(always)]
pub(super) unsafe fn sums<L: Lanes, const ROWS: usize, const REGISTERS: usize>(
    walk: &Walk<'_>,
    mut rebuild: Rebuild<'_>,
    out: &mut [f32],
) {
    let mut out = out.as_mut_ptr();
    // SAFETY: `check` found the slices long enough; `out` has rows × columns numbers per window.
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
