//! AVX-512 and AVX2.

use std::arch::x86_64::*;

use super::walk::{self, Linear, RankLanes};
use super::{RankFilter, RankHit, RankWalk};

macro_rules! entry_point {
    ($lanes:ty, $registers:literal, $features:literal) => {
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn hits(
            walk: &RankWalk<'_>,
            filter: &RankFilter<'_>,
            hits: &mut Vec<RankHit>,
        ) {
            // SAFETY: the caller's promise is passed on.
            unsafe {
                if filter.magnitude {
                    walk::hits::<$lanes, $registers, true>(walk, filter, hits)
                } else {
                    walk::hits::<$lanes, $registers, false>(walk, filter, hits)
                }
            }
        }
    };
}

pub(super) mod avx512 {
    use super::*;

    pub(in super::super) struct Zmm;

    // SAFETY of the blocks below: the trait's contract (AVX-512 F, BW, DQ, VNNI and VPOPCNTDQ).
    impl RankLanes for Zmm {
        type V = __m512i;
        const LEN: usize = 16;

        #[inline(always)]
        unsafe fn splat(word: u32) -> __m512i {
            // SAFETY: see above.
            unsafe { _mm512_set1_epi32(word as i32) }
        }

        #[inline(always)]
        unsafe fn load(from: *const u32) -> __m512i {
            // SAFETY: see above.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut i32, value: __m512i) {
            // SAFETY: see above.
            unsafe { _mm512_storeu_si512(to.cast(), value) }
        }

        #[inline(always)]
        unsafe fn add(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: see above.
            unsafe { _mm512_add_epi32(a, b) }
        }

        #[inline(always)]
        unsafe fn subtract(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: see above.
            unsafe { _mm512_sub_epi32(a, b) }
        }

        #[inline(always)]
        unsafe fn multiply(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: see above.
            unsafe { _mm512_dpwssd_epi32(sum, a, b) }
        }

        #[inline(always)]
        unsafe fn differences(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: see above.
            unsafe { _mm512_popcnt_epi32(_mm512_xor_si512(a, b)) }
        }

        #[inline(always)]
        unsafe fn balance(a: __m512i, b: __m512i, a_mask: __m512i, b_mask: __m512i) -> __m512i {
            // SAFETY: see above.
            unsafe {
                let both = _mm512_and_si512(a_mask, b_mask);
                let differ = _mm512_xor_si512(a, b);
                let disagree = _mm512_popcnt_epi32(_mm512_and_si512(both, differ));
                let agree = _mm512_popcnt_epi32(_mm512_andnot_si512(differ, both));
                _mm512_sub_epi32(agree, disagree)
            }
        }

        #[inline(always)]
        unsafe fn reaches<const MAGNITUDE: bool>(
            sum: __m512i,
            of_sum: Linear,
            scale: *const f32,
            limit: f32,
        ) -> u32 {
            // SAFETY: see above.
            unsafe {
                let sum = _mm512_cvtepi32_ps(sum);
                let (factor, offset) =
                    (_mm512_set1_ps(of_sum.factor), _mm512_set1_ps(of_sum.offset));
                let sum = _mm512_fmadd_ps(sum, factor, offset);
                let mut value = _mm512_mul_ps(sum, _mm512_loadu_ps(scale));
                if MAGNITUDE {
                    value = _mm512_abs_ps(value);
                }
                _mm512_cmp_ps_mask::<_CMP_GE_OQ>(value, _mm512_set1_ps(limit)).into()
            }
        }
    }

    entry_point!(
        Zmm,
        4,
        "avx512f,avx512bw,avx512dq,avx512vnni,avx512vpopcntdq,avx2,fma,popcnt,bmi1,bmi2"
    );
}

pub(super) mod avx2 {
    use super::*;

    pub(in super::super) struct Ymm;

    /// The number of bits of every word.
    #[inline(always)]
    unsafe fn ones(words: __m256i) -> __m256i {
        // SAFETY: AVX2, by the contract of the trait.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
            ));
            let nibble = _mm256_set1_epi8(15);
            let low = _mm256_and_si256(words, nibble);
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(words), nibble);
            let bytes = _mm256_add_epi8(
                _mm256_shuffle_epi8(table, low),
                _mm256_shuffle_epi8(table, high),
            );
            let pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1));
            _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
        }
    }

    // SAFETY of the blocks below: the trait's contract (AVX2 and FMA).
    impl RankLanes for Ymm {
        type V = __m256i;
        const LEN: usize = 8;

        #[inline(always)]
        unsafe fn splat(word: u32) -> __m256i {
            // SAFETY: see above.
            unsafe { _mm256_set1_epi32(word as i32) }
        }

        #[inline(always)]
        unsafe fn load(from: *const u32) -> __m256i {
            // SAFETY: see above.
            unsafe { _mm256_loadu_si256(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut i32, value: __m256i) {
            // SAFETY: see above.
            unsafe { _mm256_storeu_si256(to.cast(), value) }
        }

        #[inline(always)]
        unsafe fn add(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: see above.
            unsafe { _mm256_add_epi32(a, b) }
        }

        #[inline(always)]
        unsafe fn subtract(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: see above.
            unsafe { _mm256_sub_epi32(a, b) }
        }

        #[inline(always)]
        unsafe fn multiply(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: see above.
            unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)) }
        }

        #[inline(always)]
        unsafe fn differences(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: see above.
            unsafe { ones(_mm256_xor_si256(a, b)) }
        }

        #[inline(always)]
        unsafe fn balance(a: __m256i, b: __m256i, a_mask: __m256i, b_mask: __m256i) -> __m256i {
            // SAFETY: see above.
            unsafe {
                let both = _mm256_and_si256(a_mask, b_mask);
                let differ = _mm256_xor_si256(a, b);
                let disagree = ones(_mm256_and_si256(both, differ));
                let agree = ones(_mm256_andnot_si256(differ, both));
                _mm256_sub_epi32(agree, disagree)
            }
        }

        #[inline(always)]
        unsafe fn reaches<const MAGNITUDE: bool>(
            sum: __m256i,
            of_sum: Linear,
            scale: *const f32,
            limit: f32,
        ) -> u32 {
            // SAFETY: see above.
            unsafe {
                let sum = _mm256_cvtepi32_ps(sum);
                let (factor, offset) =
                    (_mm256_set1_ps(of_sum.factor), _mm256_set1_ps(of_sum.offset));
                let sum = _mm256_fmadd_ps(sum, factor, offset);
                let mut value = _mm256_mul_ps(sum, _mm256_loadu_ps(scale));
                if MAGNITUDE {
                    value = _mm256_andnot_ps(_mm256_set1_ps(-0.0), value);
                }
                let reach = _mm256_cmp_ps::<_CMP_GE_OQ>(value, _mm256_set1_ps(limit));
                _mm256_movemask_ps(reach) as u32
            }
        }
    }

    entry_point!(Ymm, 2, "avx2,fma,popcnt,bmi1,bmi2");
}
