//! Ranks of samples within every window, as words of two.

use super::order::Order;
use super::tile::LANES;
use super::{Block, Shape};
use crate::window::Chunk;

/// Twice the deviation from the mean rank is Σ sgn(x − xᵤ) over the window's samples: a whole number, also with ties.
type Ranks = Vec<[i32; LANES]>;

/// The words of a block: (window, pair of samples, lane).
#[inline(always)]
pub(super) fn prepare(order: &Order, chunk: &Chunk, shape: &Shape, used: usize) -> Block {
    let (w, s, windows) = (chunk.window.length, chunk.window.step, chunk.windows);
    let mut words = vec![0; shape.words(windows) * LANES];
    let mut squares = vec![[0; LANES]; windows];
    // Ranks of the window at work by instant, the rest as they were.
    let mut ranks: Ranks = vec![[0; LANES]; chunk.samples()];
    for q in 0..windows {
        let from = q * s;
        if q > 0 && slides(w, s) {
            for by in 0..s {
                slide(&order.codes, &mut ranks, from - s + by, w);
            }
        } else {
            sort(
                &order.codes[from..from + w],
                &mut ranks[from..from + w],
                used,
            );
        }
        let window = &ranks[from..from + w];
        for rank in window {
            for lane in 0..LANES {
                squares[q][lane] += i64::from(rank[lane]) * i64::from(rank[lane]);
            }
        }
        let words = &mut words[q * shape.first * LANES..][..shape.first * LANES];
        write(window, shape.shift, words);
    }
    Block {
        words,
        masks: Vec::new(),
        squares,
    }
}

/// True when it is less work to change ranks by what enters and leaves than to sort.
fn slides(w: usize, s: usize) -> bool {
    s < w && s <= 10 * (w.ilog2() as usize + 1)
}

/// Moves the window of `w` samples at `from` on by one.
#[inline(always)]
fn slide(codes: &[[i32; LANES]], ranks: &mut Ranks, from: usize, w: usize) {
    let (old, new) = (codes[from], codes[from + w]);
    let mut entered = [0_i32; LANES];
    for t in from + 1..from + w {
        let (code, rank) = (&codes[t], &mut ranks[t]);
        for lane in 0..LANES {
            let above_new = i32::from(code[lane] > new[lane]) - i32::from(code[lane] < new[lane]);
            let above_old = i32::from(code[lane] > old[lane]) - i32::from(code[lane] < old[lane]);
            rank[lane] += above_new - above_old;
            entered[lane] -= above_new;
        }
    }
    ranks[from + w] = entered;
}

/// Ranks of one window.
fn sort(codes: &[[i32; LANES]], ranks: &mut [[i32; LANES]], used: usize) {
    let count = codes.len();
    let mut sorted: Vec<(i32, u32)> = Vec::with_capacity(count);
    for lane in 0..used {
        sorted.clear();
        sorted.extend((0..).zip(codes).map(|(t, code)| (code[lane], t)));
        sorted.sort_unstable();
        let mut below = 0;
        for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
            let twice = (2 * below + equal.len()) as i32 - count as i32;
            for (_, t) in equal {
                ranks[*t as usize][lane] = twice;
            }
            below += equal.len();
        }
    }
}

/// Two samples' ranks in every word.
#[inline(always)]
fn write(ranks: &[[i32; LANES]], shift: u32, words: &mut [u32]) {
    let none = [0; LANES];
    for (pair, words) in ranks.chunks(2).zip(words.chunks_exact_mut(LANES)) {
        let (a, b) = (&pair[0], pair.get(1).unwrap_or(&none));
        for lane in 0..LANES {
            let half = |rank: i32| u32::from((rank >> shift) as u16);
            words[lane] = half(a[lane]) | half(b[lane]) << 16;
        }
    }
}
