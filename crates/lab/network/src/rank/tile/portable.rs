//! Four words side by side, as the compiler makes them of plain loops.

use super::walk::{self, Linear, RankLanes};
use super::{RankFilter, RankHit, RankWalk};

struct Four;

#[inline(always)]
fn each(a: [u32; 4], b: [u32; 4], f: impl Fn(u32, u32) -> u32) -> [u32; 4] {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}

/// The product of two numbers of 16 bits, in 32.
#[inline(always)]
fn product(a: u32, b: u32) -> u32 {
    (i32::from(a as i16) * i32::from(b as i16)) as u32
}

// SAFETY of the blocks below: the trait's contract (readable and writable pointers).
impl RankLanes for Four {
    type V = [u32; 4];
    const LEN: usize = 4;

    #[inline(always)]
    unsafe fn splat(word: u32) -> [u32; 4] {
        [word; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> [u32; 4] {
        // SAFETY: see above.
        unsafe { from.cast::<[u32; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut i32, value: [u32; 4]) {
        // SAFETY: see above.
        unsafe { to.cast::<[u32; 4]>().write_unaligned(value) }
    }

    #[inline(always)]
    unsafe fn add(a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        each(a, b, u32::wrapping_add)
    }

    #[inline(always)]
    unsafe fn subtract(a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        each(a, b, u32::wrapping_sub)
    }

    #[inline(always)]
    unsafe fn multiply(sum: [u32; 4], a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        let products = each(a, b, |a, b| {
            product(a, b).wrapping_add(product(a >> 16, b >> 16))
        });
        each(sum, products, u32::wrapping_add)
    }

    #[inline(always)]
    unsafe fn differences(a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        each(a, b, |a, b| (a ^ b).count_ones())
    }

    #[inline(always)]
    unsafe fn balance(a: [u32; 4], b: [u32; 4], a_mask: [u32; 4], b_mask: [u32; 4]) -> [u32; 4] {
        let differ = each(a, b, |a, b| a ^ b);
        let both = each(a_mask, b_mask, |a, b| a & b);
        each(both, differ, |both, differ| {
            ((both & !differ).count_ones()).wrapping_sub((both & differ).count_ones())
        })
    }

    #[inline(always)]
    unsafe fn reaches<const MAGNITUDE: bool>(
        sum: [u32; 4],
        of_sum: Linear,
        scale: *const f32,
        limit: f32,
    ) -> u32 {
        // SAFETY: see above.
        let scale = unsafe { scale.cast::<[f32; 4]>().read_unaligned() };
        let mut mask = 0;
        for lane in 0..4 {
            let value = (of_sum.offset + of_sum.factor * (sum[lane] as i32) as f32) * scale[lane];
            let size = if MAGNITUDE { value.abs() } else { value };
            mask |= u32::from(size >= limit) << lane;
        }
        mask
    }
}

/// # Safety
/// The conditions of [`super::hits`].
pub(super) unsafe fn hits(walk: &RankWalk<'_>, filter: &RankFilter<'_>, hits: &mut Vec<RankHit>) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        if filter.magnitude {
            walk::hits::<Four, 2, true>(walk, filter, hits)
        } else {
            walk::hits::<Four, 2, false>(walk, filter, hits)
        }
    }
}
