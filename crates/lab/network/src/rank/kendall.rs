//! Signs of the differences of all pairs of samples of a window, as bits: those of the pairs that enter from window to
//! window, and those that leave.

use super::order::Order;
use super::tile::LANES;
use super::{Block, Shape};
use crate::window::Chunk;

/// Pairs of samples of a window of `w`.
pub(crate) fn all_pairs(w: usize) -> usize {
    w * (w - 1) / 2
}

/// Pairs that enter with each window that moves on by `s` < `w`; as many leave.
pub(crate) fn new_pairs(w: usize, s: usize) -> usize {
    s * (2 * w - s - 1) / 2
}

/// Writes bits into words, [`LANES`] side by side.
struct Bits<'a> {
    codes: &'a [[i32; LANES]],
    words: &'a mut [u32],
    masks: &'a mut [u32],
    /// The word at work.
    step: usize,
    bit: u32,
    /// Pairs of different samples since [`Bits::take_count`].
    unequal: [i64; LANES],
}

impl Bits<'_> {
    /// The pairs of `t` with each of `others`, which lie before it (or, with `LATER`, behind it).
    #[inline(always)]
    fn put<const LATER: bool>(&mut self, t: usize, others: std::ops::Range<usize>) {
        let one = self.codes[t];
        for other in &self.codes[others] {
            let at = self.step * LANES;
            let words = &mut self.words[at..at + LANES];
            let masks = &mut self.masks[at..at + LANES];
            for lane in 0..LANES {
                let rises = if LATER {
                    other[lane] > one[lane]
                } else {
                    one[lane] > other[lane]
                };
                let differs = u32::from(one[lane] != other[lane]);
                words[lane] |= u32::from(rises) << self.bit;
                masks[lane] |= differs << self.bit;
            }
            self.bit += 1;
            if self.bit == 32 {
                self.count(at);
                self.bit = 0;
                self.step += 1;
            }
        }
    }

    #[inline(always)]
    fn count(&mut self, at: usize) {
        for (unequal, mask) in self.unequal.iter_mut().zip(&self.masks[at..at + LANES]) {
            *unequal += i64::from(mask.count_ones());
        }
    }

    /// Ends a list of pairs with a whole word; the pairs of different samples in it.
    #[inline(always)]
    fn end(&mut self) -> [i64; LANES] {
        if self.bit > 0 {
            self.count(self.step * LANES);
            self.bit = 0;
            self.step += 1;
        }
        std::mem::replace(&mut self.unequal, [0; LANES])
    }
}

/// The words of a block: (window, 32 pairs of samples, lane).
#[inline(always)]
pub(super) fn prepare(order: &Order, chunk: &Chunk, shape: &Shape, used: usize) -> Block {
    let (w, s, windows) = (chunk.window.length, chunk.window.step, chunk.windows);
    let length = shape.words(windows) * LANES;
    let (mut words, mut masks) = (vec![0; length], vec![0; length]);
    let mut bits = Bits {
        codes: &order.codes,
        words: &mut words,
        masks: &mut masks,
        step: 0,
        bit: 0,
        unequal: [0; LANES],
    };
    let mut squares = vec![[0_i64; LANES]; windows];
    let mut tied = false;
    for q in 0..windows {
        let from = q * s;
        if q == 0 || shape.direct {
            (from + 1..from + w).for_each(|t| bits.put::<false>(t, from..t));
            squares[q] = bits.end();
        } else {
            (from + w - s..from + w).for_each(|t| bits.put::<false>(t, from..t));
            let entered = bits.end();
            (from - s..from).for_each(|t| bits.put::<true>(t, t + 1..from - s + w));
            let left = bits.end();
            for lane in 0..LANES {
                squares[q][lane] = squares[q - 1][lane] + entered[lane] - left[lane];
                tied |= lane < used && entered[lane] != shape.new_pairs as i64;
            }
        }
        tied |= squares[q][..used].iter().any(|n| *n != all_pairs(w) as i64);
    }
    if !tied {
        masks = Vec::new();
    }
    Block {
        words,
        masks,
        squares,
    }
}
