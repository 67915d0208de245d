//! Sums of weight rows: what the spikes of a tick drive the filters with.

use wide::u16x8;

use crate::width::for_every_width;

/// Lanes of a row in memory: up to 4 as they are, more in whole vectors of 8.
pub(super) fn padded(lanes: usize) -> usize {
    if lanes <= 4 {
        lanes
    } else {
        lanes.next_multiple_of(8)
    }
}

for_every_width! {
    /// `drive` = the sum of the rows of `channels`, one entry per spike; channels that have no row are left
    /// out. Rows are as long as `drive`.
    fn sum_spikes(drive: &mut [f64], rows: &[f64], channels: &[u32]) {
        sum(drive, rows, channels.iter().map(|&channel| (channel as usize, 1.0)));
    }
}

for_every_width! {
    /// `drive` = the sum of the rows of `fired`, (channel, how often), times how often.
    fn sum_fired(drive: &mut [f64], rows: &[f64], fired: &[(u32, f64)]) {
        sum(drive, rows, fired.iter().map(|&(channel, count)| (channel as usize, count)));
    }
}

for_every_width! {
    /// As [`sum_fired`], from the counts themselves, whose sum is `known`, in one pass over them: for rows [of
    /// one block](is_one_block). Where there are as many spikes as channels, channels that are silent are not
    /// told apart: a count of 0 adds ±0 to a sum that is never −0, so the bits are the same.
    fn sum_counts(drive: &mut [f64], rows: &[f64], counts: &[u16], known: &mut u64) {
        // No sum of so many counts overflows 32 bits.
        let parts = counts.chunks(1 << 15);
        let sums = parts.map(|part| part.iter().map(|&count| u32::from(count)).sum::<u32>());
        *known = sums.map(u64::from).sum();
        match drive.len() {
            1 => sum_rows::<1>(drive, rows, counts, *known),
            2 => sum_rows::<2>(drive, rows, counts, *known),
            3 => sum_rows::<3>(drive, rows, counts, *known),
            4 => sum_rows::<4>(drive, rows, counts, *known),
            8 => sum_rows::<8>(drive, rows, counts, *known),
            16 => sum_rows::<16>(drive, rows, counts, *known),
            32 => sum_rows::<32>(drive, rows, counts, *known),
            40 => sum_rows::<40>(drive, rows, counts, *known),
            48 => sum_rows::<48>(drive, rows, counts, *known),
            _ => {}
        }
    }
}

/// The sum of the rows of `counts`, a row being one block.
#[inline(always)]
fn sum_rows<const LANES: usize>(drive: &mut [f64], rows: &[f64], counts: &[u16], known: u64) {
    let rows = rows.as_chunks::<LANES>().0;
    let mut sum = [0.0; LANES];
    if known >= counts.len() as u64 {
        for (count, row) in counts.iter().zip(rows) {
            add(&mut sum, *count, row);
        }
    } else {
        // Loops and not `non_zero`, whose state between two channels took as long as a row.
        for (block, rows) in counts.chunks(64).zip(rows.chunks(64)) {
            let mut fired = fired(block);
            while fired != 0 {
                let j = fired.trailing_zeros() as usize;
                fired &= fired - 1;
                if let (Some(count), Some(row)) = (block.get(j), rows.get(j)) {
                    add(&mut sum, *count, row);
                }
            }
        }
    }
    if let Some(drive) = drive.first_chunk_mut::<LANES>() {
        *drive = sum;
    }
}

#[inline(always)]
fn add<const LANES: usize>(sum: &mut [f64; LANES], count: u16, row: &[f64; LANES]) {
    let count = f64::from(count);
    for (sum, weight) in sum.iter_mut().zip(row) {
        *sum += count * weight;
    }
}

/// Whether the sums of a row of so many lanes all stay in registers.
#[inline(always)]
pub(super) fn is_one_block(lanes: usize) -> bool {
    matches!(lanes, 1..=4 | 8 | 16 | 32 | 40 | 48)
}

/// In blocks of lanes whose sums stay in registers while the rows pass. Each lane's sum is in the order of
/// `fired`, whatever the block.
#[inline(always)]
fn sum(drive: &mut [f64], rows: &[f64], fired: impl Iterator<Item = (usize, f64)> + Clone) {
    let lanes = drive.len();
    match lanes {
        1 => return sum_block::<1>(drive, 0, rows, fired),
        2 => return sum_block::<2>(drive, 0, rows, fired),
        3 => return sum_block::<3>(drive, 0, rows, fired),
        4 => return sum_block::<4>(drive, 0, rows, fired),
        40 => return sum_block::<40>(drive, 0, rows, fired),
        48 => return sum_block::<48>(drive, 0, rows, fired),
        _ => {}
    }
    let mut at = 0;
    while at + 32 <= lanes {
        sum_block::<32>(drive, at, rows, fired.clone());
        at += 32;
    }
    if at + 16 <= lanes {
        sum_block::<16>(drive, at, rows, fired.clone());
        at += 16;
    }
    if at < lanes {
        sum_block::<8>(drive, at, rows, fired);
    }
}

#[inline(always)]
fn sum_block<const LANES: usize>(
    drive: &mut [f64],
    at: usize,
    rows: &[f64],
    fired: impl Iterator<Item = (usize, f64)>,
) {
    let stride = drive.len();
    let mut sum = [0.0; LANES];
    for (channel, count) in fired {
        let Some(row) = rows.get(channel * stride + at..) else {
            continue;
        };
        let Some(row) = row.first_chunk::<LANES>() else {
            continue;
        };
        for (sum, weight) in sum.iter_mut().zip(row) {
            *sum += count * weight;
        }
    }
    if let Some(drive) = drive[at..].first_chunk_mut::<LANES>() {
        *drive = sum;
    }
}

/// The channels that fired and how often, ascending. Counts are looked at 64 at a time: blocks that
/// are silent cost a few instructions, and a bit mask of those that fired spares a branch a channel.
#[inline(always)]
pub fn non_zero(counts: &[u16]) -> impl Iterator<Item = (usize, u16)> {
    counts.chunks(64).enumerate().flat_map(|(i, block)| {
        let mut fired = fired(block);
        std::iter::from_fn(move || {
            let j = fired.trailing_zeros() as usize;
            let count = *block.get(j)?;
            fired &= fired - 1;
            Some((i * 64 + j, count))
        })
    })
}

/// Lists the channels of `counts` that fired and how often, in the room of `list`; how many there are.
#[inline(always)]
pub(super) fn list_fired(counts: &[u16], list: &mut [(u32, f64)]) -> usize {
    let mut length = 0;
    for (i, block) in counts.chunks(64).enumerate() {
        let mut fired = fired(block);
        while fired != 0 {
            let j = fired.trailing_zeros() as usize;
            fired &= fired - 1;
            if let (Some(entry), Some(count)) = (list.get_mut(length), block.get(j)) {
                *entry = ((i * 64 + j) as u32, f64::from(*count));
                length += 1;
            }
        }
    }
    length
}

/// As [`list_fired`], for counts of another type.
#[inline(always)]
pub(super) fn list_fired_any<T: Copy + Into<f64>>(counts: &[T], list: &mut [(u32, f64)]) -> usize {
    let mut length = 0;
    for (channel, &count) in counts.iter().enumerate() {
        let count: f64 = count.into();
        if let Some(entry) = list.get_mut(length) {
            *entry = (channel as u32, count);
            length += usize::from(count != 0.0);
        }
    }
    length
}

/// Bit j is set where `block[j]` is not zero; at most 64 counts.
#[inline(always)]
fn fired(block: &[u16]) -> u64 {
    let (eights, rest) = block.as_chunks::<8>();
    let mut mask = 0;
    for (i, eight) in eights.iter().enumerate() {
        let silent = u16x8::from(*eight).simd_eq(u16x8::ZERO).to_bitmask();
        mask |= u64::from(!silent & 0xFF) << (8 * i);
    }
    for (j, count) in rest.iter().enumerate() {
        mask |= u64::from(*count != 0) << (8 * eights.len() + j);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::width::Width;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn counts_give_the_bits_of_their_list_however_many_have_fired() {
        let random = &mut ChaCha8Rng::seed_from_u64(1);
        let widths = [Width::Baseline, Width::detect()];
        for lanes in [1, 2, 3, 4, 8, 16, 32, 40, 48] {
            assert!(is_one_block(lanes));
            for channels in [1, 63, 64, 142, 200] {
                for most in [1u16, 2, 9] {
                    let rows: Vec<f64> = (0..channels * lanes)
                        .map(|_| random.random_range(-1.0..1.0))
                        .collect();
                    let counts: Vec<u16> = (0..channels)
                        .map(|_| random.random_range(0..=most * 4 / 3) % (most + 1))
                        .collect();
                    let mut list = vec![(0, 0.0); channels];
                    let fired = list_fired(&counts, &mut list);
                    for width in widths {
                        let (mut from_list, mut from_counts) = (vec![7.0; lanes], vec![8.0; lanes]);
                        let mut known = 0;
                        sum_fired(width, &mut from_list, &rows, &list[..fired]);
                        sum_counts(width, &mut from_counts, &rows, &counts, &mut known);
                        let spikes: u64 = counts.iter().map(|&count| u64::from(count)).sum();
                        assert_eq!(known, spikes);
                        let bits = |sums: &[f64]| -> Vec<u64> {
                            sums.iter().map(|x| x.to_bits()).collect()
                        };
                        assert_eq!(
                            bits(&from_list),
                            bits(&from_counts),
                            "{lanes} lanes, {channels} channels, {spikes} spikes"
                        );
                    }
                }
            }
        }
    }
}
