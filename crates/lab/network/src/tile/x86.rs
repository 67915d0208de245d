//! AVX-512 and AVX2.

use std::arch::x86_64::*;

use super::walk::{self, Lanes};
use super::{Filter, Hits, Rebuild, Walk};

/// Operations that are one intrinsic each.
macro_rules! forward {
    ($lanes:ty: $($name:ident($($argument:ident: $kind:ty),*) = $intrinsic:ident;)*) => { $(
        #[inline(always)]
        unsafe fn $name($($argument: $kind),*) -> $lanes {
            // SAFETY: the contract of the trait.
            unsafe { $intrinsic($($argument),*) }
        }
    )* };
}

macro_rules! entry_points {
    ($lanes:ty, $rows:literal, $registers:literal, $features:literal) => {
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn edges(
            walk: &Walk<'_>,
            filter: &Filter<'_>,
            rebuild: Rebuild<'_>,
            hits: &mut Hits,
        ) {
            // SAFETY: the caller's promise is passed on.
            unsafe {
                if filter.magnitude {
                    walk::edges::<$lanes, $rows, $registers, true>(walk, filter, rebuild, hits)
                } else {
                    walk::edges::<$lanes, $rows, $registers, false>(walk, filter, rebuild, hits)
                }
            }
        }

        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn sums(
            walk: &Walk<'_>,
            rebuild: Rebuild<'_>,
            sums: &mut [f32],
        ) {
            // SAFETY: the caller's promise is passed on.
            unsafe { walk::sums::<$lanes, $rows, $registers>(walk, rebuild, sums) }
        }
    };
}

pub(super) mod avx512 {
    use super::*;

    pub(in super::super) struct Zmm;

    // SAFETY of the blocks below: the trait's contract (AVX-512F and DQ, readable and writable pointers).
    impl Lanes for Zmm {
        type V = __m512;
        const LEN: usize = 16;

        forward! { __m512:
            splat(value: f32) = _mm512_set1_ps;
            load(from: *const f32) = _mm512_loadu_ps;
            add(a: __m512, b: __m512) = _mm512_add_ps;
            mul(a: __m512, b: __m512) = _mm512_mul_ps;
            fma(a: __m512, b: __m512, c: __m512) = _mm512_fmadd_ps;
            max(a: __m512, b: __m512) = _mm512_max_ps;
            min(a: __m512, b: __m512) = _mm512_min_ps;
        }

        #[inline(always)]
        unsafe fn store(to: *mut f32, value: __m512) {
            // SAFETY: see above.
            unsafe { _mm512_storeu_ps(to, value) }
        }

        #[inline(always)]
        unsafe fn magnitude(a: __m512, b: __m512) -> __m512 {
            // SAFETY: see above. 0b1011: the larger magnitude, sign cleared.
            unsafe { _mm512_range_ps::<0b1011>(a, b) }
        }

        #[inline(always)]
        unsafe fn gather(from: *const f32, stride: usize) -> __m512 {
            // SAFETY: see above. Strides are those of tiles, far below 2³¹ / 16.
            unsafe {
                let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
                let at = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(stride as i32));
                _mm512_i32gather_ps::<4>(at, from.cast())
            }
        }

        #[inline(always)]
        unsafe fn compress(to: *mut f32, value: __m512, mask: u32) {
            // SAFETY: see above.
            unsafe { _mm512_storeu_ps(to, _mm512_maskz_compress_ps(mask as u16, value)) }
        }

        #[inline(always)]
        unsafe fn count(to: *mut u32, mask: u32) {
            // SAFETY: see above.
            unsafe {
                let before = _mm512_loadu_si512(to.cast_const().cast());
                let one = _mm512_set1_epi32(1);
                let after = _mm512_mask_add_epi32(before, mask as u16, before, one);
                _mm512_storeu_si512(to.cast(), after);
            }
        }

        #[inline(always)]
        unsafe fn reaches(a: __m512, b: __m512) -> u32 {
            // SAFETY: see above.
            unsafe { _mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, b).into() }
        }
    }

    entry_points!(Zmm, 12, 2, "avx512f,avx512dq,avx2,fma,popcnt,bmi1,bmi2");
}

pub(super) mod avx2 {
    use super::*;

    pub(in super::super) struct Ymm;

    // SAFETY of the blocks below: the trait's contract (AVX2 and FMA, readable and writable pointers).
    impl Lanes for Ymm {
        type V = __m256;
        const LEN: usize = 8;

        forward! { __m256:
            splat(value: f32) = _mm256_set1_ps;
            load(from: *const f32) = _mm256_loadu_ps;
            add(a: __m256, b: __m256) = _mm256_add_ps;
            mul(a: __m256, b: __m256) = _mm256_mul_ps;
            fma(a: __m256, b: __m256, c: __m256) = _mm256_fmadd_ps;
            max(a: __m256, b: __m256) = _mm256_max_ps;
            min(a: __m256, b: __m256) = _mm256_min_ps;
        }

        #[inline(always)]
        unsafe fn store(to: *mut f32, value: __m256) {
            // SAFETY: see above.
            unsafe { _mm256_storeu_ps(to, value) }
        }

        #[inline(always)]
        unsafe fn magnitude(a: __m256, b: __m256) -> __m256 {
            // SAFETY: see above.
            unsafe {
                let sign = _mm256_set1_ps(-0.0);
                _mm256_max_ps(_mm256_andnot_ps(sign, a), _mm256_andnot_ps(sign, b))
            }
        }

        #[inline(always)]
        unsafe fn gather(from: *const f32, stride: usize) -> __m256 {
            // SAFETY: see above. Strides are those of tiles, far below 2³¹ / 8.
            unsafe {
                let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let at = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(stride as i32));
                _mm256_i32gather_ps::<4>(from, at)
            }
        }

        #[inline(always)]
        unsafe fn compress(to: *mut f32, value: __m256, mask: u32) {
            // SAFETY: see above.
            unsafe {
                let mut lanes = [0.0; 8];
                _mm256_storeu_ps(lanes.as_mut_ptr(), value);
                walk::compress(to, &lanes, mask);
            }
        }

        #[inline(always)]
        unsafe fn count(to: *mut u32, mask: u32) {
            // SAFETY: see above.
            unsafe { walk::count::<8>(to, mask) }
        }

        #[inline(always)]
        unsafe fn reaches(a: __m256, b: __m256) -> u32 {
            // SAFETY: see above.
            unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(a, b)) as u32 }
        }
    }

    entry_points!(Ymm, 6, 2, "avx2,fma,popcnt,bmi1,bmi2");
}
