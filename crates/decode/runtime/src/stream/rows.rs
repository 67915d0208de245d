//! Sums of weight rows: what the spikes of a tick drive the filters with.

use wide::{i8x16, i16x16, u16x8};

use crate::width::{Width, for_every_width};

/// Lanes of a row in memory: up to 4 as they are, more in whole vectors of 8.
pub(super) fn padded(lanes: usize) -> usize {
    if lanes <= 4 {
        lanes
    } else {
        lanes.next_multiple_of(8)
    }
}

for_every_width! {
    at width;
    /// `drive` = the sum of the rows of `spikes`, channels, one entry per spike; those that are not below
    /// `channels` have no row and are left out. How many have one is `known`.
    fn sum_spikes(drive: &mut [f64], rows: &[f64], spikes: &[u32], channels: u32, known: &mut u64) {
        sum(width, drive, rows, spikes.iter().map(|&channel| (channel as usize, 1.0)));
        *known = spikes.iter().filter(|&&channel| channel < channels).count() as u64;
    }
}

for_every_width! {
    at width;
    /// `drive` = the sum of the rows of `fired`, (channel, how often), times how often.
    fn sum_fired(drive: &mut [f64], rows: &[f64], fired: &[(u32, f64)]) {
        sum(width, drive, rows, fired.iter().map(|&(channel, count)| (channel as usize, count)));
    }
}

/// Lanes of a block of [`sum_fired_short`]: a multiple of what rows are padded to.
const SHORT_BLOCK: usize = 64;

/// Largest count that [`sum_fired_short`] takes as it is, and the negative of the least: sums stay finite.
pub(super) const LARGEST_COUNT: f64 = 1e20;

for_every_width! {
    /// As [`sum_fired`], of rows in f32, summed in f32: half the memory to read per spike.
    fn sum_fired_short(drive: &mut [f64], rows: &[f32], fired: &[(u32, f64)]) {
        let stride = drive.len();
        let mut at = 0;
        while at < stride {
            at += match stride - at {
                SHORT_BLOCK.. => short_block::<SHORT_BLOCK>(&mut drive[at..], at, stride, rows, fired),
                32.. => short_block::<32>(&mut drive[at..], at, stride, rows, fired),
                16.. => short_block::<16>(&mut drive[at..], at, stride, rows, fired),
                8.. => short_block::<8>(&mut drive[at..], at, stride, rows, fired),
                _ => short_block::<1>(&mut drive[at..], at, stride, rows, fired),
            };
        }
    }
}

/// The lanes from `at` on of [`sum_fired_short`]; how many they are.
#[inline(always)]
fn short_block<const LANES: usize>(
    drive: &mut [f64],
    at: usize,
    stride: usize,
    rows: &[f32],
    fired: &[(u32, f64)],
) -> usize {
    let mut sum = [0.0f32; LANES];
    for &(channel, count) in fired {
        let row = rows.get(channel as usize * stride + at..);
        let Some(row) = row.and_then(|row| row.first_chunk::<LANES>()) else {
            continue;
        };
        let count = count.clamp(-LARGEST_COUNT, LARGEST_COUNT) as f32;
        for (sum, weight) in sum.iter_mut().zip(row) {
            *sum += count * weight;
        }
    }
    for (drive, sum) in drive.iter_mut().zip(sum) {
        *drive = f64::from(sum);
    }
    LANES
}

for_every_width! {
    at width;
    /// As [`sum_fired`], from the counts themselves, whose sum is `known`, in one pass over them: for rows [of
    /// one block](is_one_block).
    fn sum_counts(drive: &mut [f64], rows: &[f64], counts: &[u16], known: &mut u64) {
        *known = match drive.len() {
            1 => sum_rows::<1>(drive, rows, counts),
            2 => sum_rows::<2>(drive, rows, counts),
            3 => sum_rows::<3>(drive, rows, counts),
            4 => sum_rows::<4>(drive, rows, counts),
            8 if width.is_wide() => sum_rows::<8>(drive, rows, counts),
            16 if width.is_wide() => sum_rows::<16>(drive, rows, counts),
            32 if width.is_wide() => sum_rows::<32>(drive, rows, counts),
            40 if width.is_wide() => sum_rows::<40>(drive, rows, counts),
            48 if width.is_wide() => sum_rows::<48>(drive, rows, counts),
            _ => 0,
        };
    }
}

/// The sum of the rows of `counts`, a row being one block; how many spikes there are.
///
/// Where most channels of a block of 64 have fired and rows are short, those that are silent are not told apart: a
/// count of 0 adds ±0 to a sum that is never −0, so the bits are the same.
#[inline(always)]
fn sum_rows<const LANES: usize>(drive: &mut [f64], rows: &[f64], counts: &[u16]) -> u64 {
    let rows = rows.as_chunks::<LANES>().0;
    let mut sum = [0.0; LANES];
    let mut known = 0;
    // Loops and no iterator, whose state between two channels took as long as a row.
    for (block, rows) in counts.chunks(64).zip(rows.chunks(64)) {
        let mut fired = fired(block);
        // A row of more lanes takes longer than finding the next channel.
        if LANES <= 4 && 4 * fired.count_ones() as usize >= 3 * block.len() {
            for (count, row) in block.iter().zip(rows) {
                known += u64::from(*count);
                add(&mut sum, f64::from(*count), row);
            }
            continue;
        }
        while fired != 0 {
            let j = fired.trailing_zeros() as usize;
            fired &= fired - 1;
            if let (Some(count), Some(row)) = (block.get(j), rows.get(j)) {
                known += u64::from(*count);
                add(&mut sum, f64::from(*count), row);
            }
        }
    }
    if let Some(drive) = drive.first_chunk_mut::<LANES>() {
        *drive = sum;
    }
    known
}

#[inline(always)]
fn add<const LANES: usize>(sum: &mut [f64; LANES], count: f64, row: &[f64; LANES]) {
    for (sum, weight) in sum.iter_mut().zip(row) {
        *sum += count * weight;
    }
}

/// True if the sums of a row of so many lanes all stay in registers.
#[inline(always)]
pub(super) fn is_one_block(width: Width, lanes: usize) -> bool {
    matches!(lanes, 1..=4) || width.is_wide() && matches!(lanes, 8 | 16 | 32 | 40 | 48)
}

/// In blocks of lanes whose sums stay in registers while the rows pass. Each lane's sum is in the order of
/// `fired`, whatever the block.
#[inline(always)]
fn sum(
    width: Width,
    drive: &mut [f64],
    rows: &[f64],
    fired: impl Iterator<Item = (usize, f64)> + Clone,
) {
    let lanes = drive.len();
    match lanes {
        1 => return sum_whole::<1>(drive, rows, fired),
        2 => return sum_whole::<2>(drive, rows, fired),
        3 => return sum_whole::<3>(drive, rows, fired),
        4 => return sum_whole::<4>(drive, rows, fired),
        8 if width.is_wide() => return sum_whole::<8>(drive, rows, fired),
        16 if width.is_wide() => return sum_whole::<16>(drive, rows, fired),
        32 if width.is_wide() => return sum_whole::<32>(drive, rows, fired),
        40 if width.is_wide() => return sum_whole::<40>(drive, rows, fired),
        48 if width.is_wide() => return sum_whole::<48>(drive, rows, fired),
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

/// Rows of one block.
#[inline(always)]
fn sum_whole<const LANES: usize>(
    drive: &mut [f64],
    rows: &[f64],
    fired: impl Iterator<Item = (usize, f64)>,
) {
    let rows = rows.as_chunks::<LANES>().0;
    let mut sum = [0.0; LANES];
    for (channel, count) in fired {
        if let Some(row) = rows.get(channel) {
            add(&mut sum, count, row);
        }
    }
    if let Some(drive) = drive.first_chunk_mut::<LANES>() {
        *drive = sum;
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

/// Lists the channels of `counts` that fired and their counts, ascending, in `list`; returns their number. Counts are
/// read 64 at a time: a silent block costs a few instructions, and a bit mask of those that fired spares a branch per
/// channel.
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

/// Lists every channel and its count.
#[inline(always)]
pub(super) fn list_all<T: Copy + Into<f64>>(counts: &[T], list: &mut [(u32, f64)]) {
    for ((entry, channel), &count) in list.iter_mut().zip(0..).zip(counts) {
        *entry = (channel, count.into());
    }
}

/// Takes the channels' `means` off the values of a list of every channel. Not among the code of a step of spikes.
#[inline(never)]
pub(super) fn take_off(means: &[f64], list: &mut [(u32, f64)]) {
    for ((_, value), mean) in list.iter_mut().zip(means) {
        *value -= mean;
    }
}

/// Bit j is set where `block[j]` is not zero; at most 64 counts.
#[inline(always)]
fn fired(block: &[u16]) -> u64 {
    if let Ok(whole) = <&[u16; 64]>::try_from(block) {
        return fired_of_64(whole);
    }
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

/// Of a length that the compiler knows: four comparisons of sixteen, without a loop.
#[inline(always)]
fn fired_of_64(block: &[u16; 64]) -> u64 {
    let mut silent = 0;
    for (i, sixteen) in block.as_chunks::<16>().0.iter().enumerate() {
        let equal = i16x16::from(sixteen.map(u16::cast_signed)).simd_eq(i16x16::ZERO);
        let equal = i8x16::from_i16x16_saturate(equal);
        silent |= u64::from(equal.to_bitmask() & 0xFFFF) << (16 * i);
    }
    !silent
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn short_rows_sum_as_long_ones_and_alike_on_every_processor() {
        let random = &mut ChaCha8Rng::seed_from_u64(2);
        for stride in [1, 3, 8, 24, 48, 64, 192, 200] {
            let rows: Vec<f32> = (0..20 * stride)
                .map(|_| random.random_range(-1.0..1.0))
                .collect();
            let long: Vec<f64> = rows.iter().map(|&w| f64::from(w)).collect();
            let fired: Vec<(u32, f64)> = (0..9)
                .map(|i| (random.random_range(0..20), f64::from(i)))
                .collect();
            let mut expected = vec![7.0; stride];
            sum_fired(Width::Baseline, &mut expected, &long, &fired);
            let sums = [Width::Baseline, Width::detect()].map(|width| {
                let mut sum = vec![8.0; stride];
                sum_fired_short(width, &mut sum, &rows, &fired);
                sum
            });
            assert_eq!(sums[0], sums[1]);
            for (got, expected) in sums[0].iter().zip(&expected) {
                assert!(
                    (got - expected).abs() < 2e-5,
                    "{stride} lanes: {got} {expected}"
                );
            }
        }
    }

    #[test]
    fn counts_give_the_bits_of_their_list_however_many_have_fired() {
        let random = &mut ChaCha8Rng::seed_from_u64(1);
        let widths = [Width::Baseline, Width::detect()];
        for lanes in [1, 2, 3, 4, 8, 16, 32, 40, 48] {
            assert!(is_one_block(Width::detect(), lanes) || !Width::detect().is_wide());
            for channels in [1, 63, 64, 142, 200] {
                for (most, silent) in [(1u16, 0), (2, 0), (9, 0), (9, 64), (2, 100)] {
                    let rows: Vec<f64> = (0..channels * lanes)
                        .map(|_| random.random_range(-1.0..1.0))
                        .collect();
                    let counts: Vec<u16> = (0..channels)
                        .map(|channel| {
                            let count = random.random_range(0..=most * 4 / 3) % (most + 1);
                            if channel < silent { 0 } else { count }
                        })
                        .collect();
                    let mut list = vec![(0, 0.0); channels];
                    let fired = list_fired(&counts, &mut list);
                    for width in widths {
                        let (mut from_list, mut from_counts) = (vec![7.0; lanes], vec![8.0; lanes]);
                        let mut known = 0;
                        sum_fired(width, &mut from_list, &rows, &list[..fired]);
                        if !is_one_block(width, lanes) {
                            continue;
                        }
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
