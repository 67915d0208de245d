//! Random numbers of training: splitmix64 (Steele, Lea and Flood 2014), one generator per network.

use pulp::Arch;

/// Difference of the states of successive numbers.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Numbers that are drawn side by side.
const NUMBERS: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct Random(u64);

/// The number that follows from a state.
#[inline(always)]
fn mixed(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Mean 0, variance 1: the sum of four 16-bit uniforms. Regularisation needs no finer noise.
#[inline(always)]
fn noise(z: u64) -> f32 {
    let sum = (z & 0xFFFF) + ((z >> 16) & 0xFFFF) + ((z >> 32) & 0xFFFF) + (z >> 48);
    sum as i32 as f32 * (1.732_050_8 / 65_536.0) - 2.0 * 1.732_050_8
}

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
        self.0 = (self.0).wrapping_add(numbers.wrapping_mul(STEP));
    }

    #[inline(always)]
    pub(super) fn bits(&mut self) -> u64 {
        self.skip(1);
        mixed(self.0)
    }

    /// Writes the next numbers to `to`.
    pub(super) fn fill(&mut self, arch: Arch, to: &mut [u64]) {
        let state = self.0;
        self.skip(to.len() as u64);
        arch.dispatch(|| {
            for (number, to) in (1u64..).zip(to) {
                *to = mixed(state.wrapping_add(number.wrapping_mul(STEP)));
            }
        });
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

    /// Mean 0, variance 1.
    #[cfg(test)]
    pub(super) fn noise(&mut self) -> f32 {
        noise(self.bits())
    }

    /// Adds noise of variance `deviation`² to each of `to`.
    pub(super) fn add_noise(&mut self, arch: Arch, to: &mut [f32], deviation: f32) {
        let state = self.0;
        self.skip(to.len() as u64);
        arch.dispatch(|| {
            for (number, to) in (1u64..).zip(to) {
                let bits = mixed(state.wrapping_add(number.wrapping_mul(STEP)));
                *to += deviation * noise(bits);
            }
        });
    }

    /// Sets each of `mask` to 0 with the probability `dropped`, else to 1/(1 − dropped).
    pub(super) fn drop_out<T: Copy>(
        &mut self,
        arch: Arch,
        mask: &mut [T],
        dropped: f32,
        [gone, kept]: [T; 2],
    ) {
        let threshold = (dropped * 65_536.0) as u16;
        let mut numbers = [0; NUMBERS];
        for part in mask.chunks_mut(4 * NUMBERS) {
            let numbers = &mut numbers[..part.len().div_ceil(4)];
            self.fill(arch, numbers);
            // Four values of each number, from its low bits up.
            let mut lanes = [[0u16; 4]; NUMBERS];
            for (lanes, bits) in lanes.iter_mut().zip(numbers) {
                *lanes = [0, 16, 32, 48].map(|shift| (*bits >> shift) as u16);
            }
            arch.dispatch(|| {
                for (value, &lane) in part.iter_mut().zip(lanes.as_flattened()) {
                    *value = if lane < threshold { gone } else { kept };
                }
            });
        }
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_side_by_side_are_those_drawn_one_by_one() {
        let arch = Arch::new();
        let mut together = Random::new(3, 1);
        let mut single = together.clone();
        for length in [0, 1, 7, 64, 300] {
            let mut numbers = vec![0; length];
            together.fill(arch, &mut numbers);
            assert!(numbers.iter().all(|bits| *bits == single.bits()));
            let mut noisy = vec![1.0; length];
            together.add_noise(arch, &mut noisy, 0.5);
            assert!(noisy.iter().all(|v| *v == 1.0 + 0.5 * single.noise()));
            let mut mask = vec![9.0; length];
            together.drop_out(arch, &mut mask, 0.25, [0.0, 2.0]);
            for four in mask.chunks(4) {
                let bits = single.bits();
                for (i, value) in four.iter().enumerate() {
                    let is_gone = (bits >> (16 * i)) & 0xFFFF < 16_384;
                    assert_eq!(*value, if is_gone { 0.0 } else { 2.0 });
                }
            }
            assert_eq!(together.state(), single.state());
        }
    }
}
