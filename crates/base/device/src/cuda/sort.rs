//! Sorting keys on the device, by some of their bits.

use std::ops::Range;

use super::context::Context;
use super::memory::Buffer;
use betz_base::error::{Error, Result};
use betz_kernels::In;
use betz_kernels::sort::{MOST_BITS, SortCount, SortPlace, THREADS, TILE};

impl Context {
    /// The first `len` of `keys` sorted by their `bits`, counted from the lowest; keys that agree in those stay in
    /// their order. Does not wait. Allocates 8 bytes a key for the result and, while it works, as much again and a
    /// quarter of a byte a key for counts.
    ///
    /// # Errors
    /// `InvalidArgument` for 2³² keys or more; those of the device.
    pub fn sorted_by_bits(
        &self,
        keys: &Buffer<u64>,
        len: usize,
        bits: Range<u32>,
    ) -> Result<Buffer<u64>> {
        let Ok(count) = u32::try_from(len) else {
            let most = "expected fewer than 2^32";
            return Err(Error::argument(format!("sorting {len} keys: {most}")));
        };
        let digits = digits(bits);
        if len == 0 || digits.is_empty() {
            let mut sorted = self.alloc(keys.len())?;
            self.copy(keys, &mut sorted)?;
            return Ok(sorted);
        }
        let tiles = len.div_ceil(TILE);
        let grid = (tiles as u32, 1, 1);
        let (count_keys, place_keys) = (
            self.load::<SortCount>(&[], 0)?,
            self.load::<SortPlace>(&[], 0)?,
        );
        let most = digits.iter().map(|d| 1_usize << d.len()).max().unwrap_or(1);
        let mut places: Buffer<u32> = self.alloc(most * tiles)?;
        let pass = |from: In<'_, u64>, to: &mut Buffer<u64>, places: &mut Buffer<u32>, digit| {
            let Range { start: shift, end } = digit;
            let values = 1_u32 << (end - shift);
            count_keys.launch(
                grid,
                THREADS,
                SortCount {
                    keys: from,
                    count,
                    shift,
                    values,
                    counts: places.write(),
                },
            )?;
            self.exclusive_sums(places, values as usize * tiles)?;
            place_keys.launch(
                grid,
                THREADS,
                SortPlace {
                    keys: from,
                    count,
                    shift,
                    values,
                    places: places.read(),
                    sorted: to.write(),
                },
            )
        };
        let mut digits = digits.into_iter();
        let mut sorted = self.alloc(len)?;
        if let Some(first) = digits.next() {
            pass(keys.read(), &mut sorted, &mut places, first)?;
        }
        let mut spare = None;
        for digit in digits {
            let mut to = match spare.take() {
                Some(spare) => spare,
                None => self.alloc(len)?,
            };
            pass(sorted.read(), &mut to, &mut places, digit)?;
            spare = Some(std::mem::replace(&mut sorted, to));
        }
        Ok(sorted)
    }
}

/// `bits` cut into digits of about as many bits each, the lowest first.
fn digits(bits: Range<u32>) -> Vec<Range<u32>> {
    let width = bits.end.saturating_sub(bits.start);
    let many = width.div_ceil(MOST_BITS);
    let bound = |digit: u32| bits.start + width * digit / many;
    (0..many).map(|d| bound(d)..bound(d + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_all_bits_once_and_none_is_too_long() {
        for start in [0, 3, 17] {
            for width in 0..=(64 - start) {
                let digits = digits(start..start + width);
                let mut next = start;
                for digit in &digits {
                    assert_eq!(digit.start, next);
                    assert!((1..=MOST_BITS).contains(&(digit.end - digit.start)));
                    next = digit.end;
                }
                assert_eq!(next, start + width);
                assert_eq!(digits.len() as u32, width.div_ceil(MOST_BITS));
            }
        }
    }

    #[test]
    fn cuda_keys_are_sorted_as_on_the_host() {
        let context = match Context::open(0) {
            Ok(context) => context,
            Err(error) => {
                eprintln!("skipped: {}", error.message());
                return;
            }
        };
        let mut word = 1_u64;
        let mut next = || {
            word = word
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            word ^ word >> 29
        };
        let lens = [
            1,
            2,
            31,
            33,
            TILE - 1,
            TILE,
            TILE + 1,
            5 * TILE + 77,
            300_000,
        ];
        for len in lens {
            for bits in [0..0, 0..1, 5..6, 0..8, 3..12, 6..38, 0..64, 60..64] {
                // Few different ones too, so that many agree.
                for mask in [u64::MAX, 0x1010_0000_0101_0021] {
                    let keys: Vec<u64> = (0..len).map(|_| next() & mask).collect();
                    let there = context.upload(&keys).unwrap();
                    let sorted = context.sorted_by_bits(&there, len, bits.clone()).unwrap();
                    let mut expected = keys;
                    let width = bits.end - bits.start;
                    let digit = |key: &u64| match width {
                        0 => 0,
                        _ => (key >> bits.start) & (u64::MAX >> (64 - width)),
                    };
                    expected.sort_by_key(digit);
                    let found = context.download(&sorted, len).unwrap();
                    assert!(found == expected, "{len} keys by {bits:?}, {mask:x}");
                }
            }
        }
    }
}
