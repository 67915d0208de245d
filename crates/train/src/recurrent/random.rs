//! Random numbers of training: splitmix64 (Steele, Lea and Flood 2014), one generator per network.

#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The generator of member `member` of the networks of `seed`.
    pub(super) fn new(seed: u64, member: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ member.wrapping_mul(7919));
        for _ in 0..8 {
            random.bits();
        }
        random
    }

    /// The state that the next numbers follow from: number k after state s is a function of s + (k + 1)·G.
    pub(super) const fn state(&self) -> u64 {
        self.0
    }

    /// As if `numbers` had been drawn.
    pub(super) const fn skip(&mut self, numbers: u64) {
        self.0 = (self.0).wrapping_add(numbers.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }

    #[inline(always)]
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    #[inline(always)]
    pub(super) fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 24) as f32
    }

    /// Uniform in 0..`below`; 0 for none.
    pub(super) fn below(&mut self, below: usize) -> usize {
        (((self.bits() >> 32) * below as u64) >> 32) as usize
    }

    /// Mean 0, variance 1: the sum of four 16-bit uniforms. Regularisation needs no finer noise.
    #[inline(always)]
    pub(super) fn noise(&mut self) -> f32 {
        let z = self.bits();
        let sum = (z & 0xFFFF) + ((z >> 16) & 0xFFFF) + ((z >> 32) & 0xFFFF) + (z >> 48);
        sum as f32 * (1.732_050_8 / 65_536.0) - 2.0 * 1.732_050_8
    }

    /// Sets each of `mask` to 0 with the probability `dropped`, else to 1/(1 − dropped).
    pub(super) fn drop_out<T: Copy>(&mut self, mask: &mut [T], dropped: f32, [gone, kept]: [T; 2]) {
        let threshold = (dropped * 65_536.0) as u64;
        for four in mask.chunks_mut(4) {
            let bits = self.bits();
            for (i, value) in four.iter_mut().enumerate() {
                let is_gone = (bits >> (16 * i)) & 0xFFFF < threshold;
                *value = if is_gone { gone } else { kept };
            }
        }
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}
