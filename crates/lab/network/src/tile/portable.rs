//! Four numbers side by side, as the compiler makes them of plain loops.

use super::walk::{self, Lanes};
use super::{Filter, Hits, Rebuild, Walk};

struct Four;

/// 64-bit ARM has 32 registers of four and fuses multiply-adds; the least x86-64 has 16 and does not.
pub(super) const ROWS: usize = if cfg!(target_arch = "aarch64") { 12 } else { 4 };

#[inline(always)]
fn each(a: [f32; 4], b: [f32; 4], f: impl Fn(f32, f32) -> f32) -> [f32; 4] {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}

// SAFETY of the blocks below: the trait's contract (readable and writable pointers).
impl Lanes for Four {
    type V = [f32; 4];
    const LEN: usize = 4;

    #[inline(always)]
    unsafe fn splat(value: f32) -> [f32; 4] {
        [value; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 4] {
        // SAFETY: see above.
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, value: [f32; 4]) {
        // SAFETY: see above.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(value) }
    }

    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        each(a, b, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn mul(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        each(a, b, |a, b| a * b)
    }

    /// Rounded twice where a fused multiply-add would be a library call.
    #[inline(always)]
    unsafe fn fma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        if cfg!(target_arch = "aarch64") {
            let fused = |i: usize| a[i].mul_add(b[i], c[i]);
            return [fused(0), fused(1), fused(2), fused(3)];
        }
        let product = each(a, b, |a, b| a * b);
        each(product, c, |p, c| p + c)
    }

    #[inline(always)]
    unsafe fn max(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        each(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    unsafe fn magnitude(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        each(
            a,
            b,
            |a, b| if a.abs() > b.abs() { a.abs() } else { b.abs() },
        )
    }

    #[inline(always)]
    unsafe fn min(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        each(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    unsafe fn gather(from: *const f32, stride: usize) -> [f32; 4] {
        // SAFETY: see above.
        unsafe { [0, 1, 2, 3].map(|lane: usize| *from.add(lane * stride)) }
    }

    #[inline(always)]
    unsafe fn compress(to: *mut f32, value: [f32; 4], mask: u32) {
        // SAFETY: see above.
        unsafe { walk::compress(to, &value, mask) }
    }

    #[inline(always)]
    unsafe fn count(to: *mut u32, mask: u32) {
        // SAFETY: see above.
        unsafe { walk::count::<4>(to, mask) }
    }

    #[inline(always)]
    unsafe fn reaches(a: [f32; 4], b: [f32; 4]) -> u32 {
        u32::from(a[0] >= b[0])
            | u32::from(a[1] >= b[1]) << 1
            | u32::from(a[2] >= b[2]) << 2
            | u32::from(a[3] >= b[3]) << 3
    }
}

pub(super) unsafe fn edges(
    walk: &Walk<'_>,
    filter: &Filter<'_>,
    rebuild: Rebuild<'_>,
    hits: &mut Hits,
) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        if filter.magnitude {
            walk::edges::<Four, ROWS, 2, true>(walk, filter, rebuild, hits)
        } else {
            walk::edges::<Four, ROWS, 2, false>(walk, filter, rebuild, hits)
        }
    }
}

pub(super) unsafe fn sums(walk: &Walk<'_>, rebuild: Rebuild<'_>, sums: &mut [f32]) {
    // SAFETY: the caller's promise is passed on.
    unsafe { walk::sums::<Four, ROWS, 2>(walk, rebuild, sums) }
}
