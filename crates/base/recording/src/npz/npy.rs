//! The elements of a `.npy` array: plain numbers and `<U` strings.
//!
//! No length in a header is trusted before the data arrive: memory grows with the data.

use std::io::Read;

use betz_base::error::{Error, Result};
use betz_base::memory;

use super::header::{Header, fill};
use super::number::{Element, Number, NumberFormat, Value};

/// Largest number of strings of width 0, which have no bytes to prove their number.
const MOST_EMPTY: usize = 1 << 16;
/// Bytes read at once.
const BLOCK: usize = 1 << 20;

/// Position of element `flat`, as NumPy indexes it.
fn place(header: &Header, mut flat: u64) -> String {
    let mut axes: Vec<(usize, u64)> = header.shape.iter().copied().enumerate().collect();
    if !header.fortran_order {
        axes.reverse();
    }
    let mut index = vec![0; axes.len()];
    for (axis, length) in axes {
        index[axis] = flat % length.max(1);
        flat /= length.max(1);
    }
    let index: Vec<String> = index.iter().map(u64::to_string).collect();
    format!("[{}]", index.join(", "))
}

/// True if `header` describes numbers that [`for_each_number`] can read.
pub(super) fn is_number(header: &Header) -> bool {
    NumberFormat::of(&header.descr).is_some()
}

/// Calls [`for_each_block`] with numbers converted from the header's plain type (integer, float or bool, in either byte
/// order); refuses a number that does not fit, with its position.
pub(super) fn for_each_number<T: Number>(
    header: &Header,
    reader: &mut dyn Read,
    elements: usize,
    mut take: impl FnMut(&[T]) -> Result<()>,
) -> Result<()> {
    if header.descr == T::DESCR {
        return for_each_block(reader, elements, take);
    }
    let Some(stored) = NumberFormat::of(&header.descr) else {
        return Err(Error::recording(format!(
            "expected {} ({}) or other plain numbers, got dtype `{}`",
            T::NAME,
            T::DESCR,
            header.descr
        )));
    };
    let bytes = elements.checked_mul(stored.size).ok_or_else(|| {
        Error::recording(format!(
            "expected a shape that memory can hold, got {}",
            header.shape_text()
        ))
    })?;
    let mut done = 0_u64;
    let mut block = Vec::new();
    // A block of bytes is a whole number of elements: both are powers of two.
    for_each_block(reader, bytes, |raw: &[u8]| {
        block.clear();
        if T::of_integers(&header.descr, raw, &mut block) {
            done += block.len() as u64;
            return take(&block);
        }
        for bytes in raw.chunks_exact(stored.size) {
            let value = stored.value(bytes);
            let fits = match value {
                Value::Integer(value) => T::of_integer(value),
                Value::Float(value) => T::of_float(value),
            };
            block.push(fits.ok_or_else(|| {
                Error::recording(format!(
                    "{} = {value}: expected a number that {} holds",
                    place(header, done),
                    T::NAME
                ))
                .with_position(done as usize)
            })?);
            done += 1;
        }
        take(&block)
    })
}

/// Passes `reader`'s next `elements` elements to `take`, block by block, then checks that nothing follows (which also
/// makes the archive verify its checksum).
pub(super) fn for_each_block<T: Element>(
    reader: &mut dyn Read,
    elements: usize,
    mut take: impl FnMut(&[T]) -> Result<()>,
) -> Result<()> {
    let size = size_of::<T>();
    let mut bytes = vec![0_u8; BLOCK.min(elements.saturating_mul(size))];
    let mut block = Vec::with_capacity(bytes.len() / size);
    let mut left = elements;
    while left > 0 {
        let now = left.min(BLOCK / size);
        fill(reader, &mut bytes[..now * size], "the data").map_err(|e| {
            e.at(format_args!(
                "after {} of {elements} elements",
                elements - left
            ))
        })?;
        block.clear();
        T::decode(&bytes[..now * size], &mut block);
        take(&block)?;
        left -= now;
    }
    expect_end(reader)
}

/// Reads all numbers that `header` describes, of any plain type. Memory grows with the data; `likely` elements are
/// reserved at once.
pub(super) fn read_all<T: Number>(
    header: &Header,
    reader: &mut dyn Read,
    likely: usize,
) -> Result<Vec<T>> {
    let elements = header.elements()?;
    let likely = elements.min(likely);
    memory::plan("the numbers", likely as u128 * size_of::<T>() as u128)?;
    let mut all = memory::room("the numbers", likely)?;
    for_each_number(header, reader, elements, |block: &[T]| {
        all.try_reserve(block.len()).map_err(|_| {
            Error::no_memory("the numbers", elements.saturating_mul(size_of::<T>()))
        })?;
        all.extend_from_slice(block);
        Ok(())
    })?;
    Ok(all)
}

/// Likely number of elements of an array of `header`, limited by `bytes`, the most that can follow.
pub(super) fn likely_elements(header: &Header, bytes: usize) -> usize {
    NumberFormat::of(&header.descr).map_or(0, |stored| bytes / stored.size)
}

/// Reads `elements` strings of `width` UTF-32 code units each, zero-padded.
pub(super) fn read_strings(
    reader: &mut dyn Read,
    elements: usize,
    width: usize,
) -> Result<Vec<String>> {
    let units = elements.checked_mul(width).ok_or_else(|| {
        Error::recording("expected strings that memory can hold, got larger ones")
    })?;
    if width == 0 && elements > MOST_EMPTY {
        return Err(Error::recording(format!(
            "{elements} strings of no characters"
        )));
    }
    let mut strings: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut zeros = 0;
    let mut at = 0;
    for_each_block(reader, units, |block: &[u32]| {
        for &unit in block {
            if unit == 0 {
                zeros += 1;
            } else {
                let c = char::from_u32(unit).ok_or_else(|| {
                    Error::recording(format!(
                        "[{}]: {unit:#x} is no Unicode character",
                        strings.len()
                    ))
                })?;
                // Zeros inside a string are characters; only those at its end are padding.
                if current.capacity() - current.len() < zeros + 4 {
                    let more = zeros + current.len().max(12);
                    memory::plan("a string", more as u128)?;
                    current
                        .try_reserve_exact(more)
                        .map_err(|_| Error::no_memory("a string", more))?;
                }
                current.extend(std::iter::repeat_n('\0', zeros));
                zeros = 0;
                current.push(c);
            }
            at += 1;
            if at == width {
                if strings.len() == strings.capacity() {
                    let more = strings.len().max(64);
                    memory::plan("strings", more as u128 * 64)?;
                    strings
                        .try_reserve_exact(more)
                        .map_err(|_| Error::no_memory("strings", more * 24))?;
                }
                strings.push(std::mem::take(&mut current));
                (zeros, at) = (0, 0);
            }
        }
        Ok(())
    })?;
    strings.resize(elements, String::new());
    Ok(strings)
}

fn expect_end(reader: &mut dyn Read) -> Result<()> {
    let mut one = [0_u8];
    match reader.read(&mut one) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Error::recording(
            "expected as much data as its shape says, got more data",
        )),
        Err(e) => Err(Error::recording(format!(
            "damaged or truncated: expected data that can be read, got: {e}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_larger_than_memory_is_an_error_not_an_overflow() {
        let h = Header {
            descr: "<f8".into(),
            fortran_order: false,
            shape: vec![1 << 40, 1 << 40],
        };
        assert!(h.elements().is_err());
        // A false length costs no more memory than the data that arrive.
        let h = Header {
            shape: vec![u64::MAX / 16],
            ..h
        };
        assert!(read_all::<f64>(&h, &mut &[0_u8; 80][..], 10).is_err());
    }

    #[test]
    fn strings_keep_inner_zeros_and_drop_padding() {
        let units: Vec<u32> = "a\0b\0\0\0é𝄞"
            .chars()
            .map(u32::from)
            .chain([0, 0])
            .collect();
        let mut bytes = Vec::new();
        u32::encode(&units, &mut bytes);
        assert_eq!(
            read_strings(&mut &bytes[..], 2, 5).unwrap(),
            ["a\0b", "\0é𝄞"]
        );
        bytes[0..4].copy_from_slice(&0xD800_u32.to_le_bytes());
        assert!(read_strings(&mut &bytes[..], 2, 5).is_err());
    }

    fn read<T: Number>(descr: &str, shape: &[u64], bytes: &[u8]) -> Result<Vec<T>> {
        let header = Header {
            descr: descr.to_owned(),
            fortran_order: false,
            shape: shape.to_vec(),
        };
        read_all(&header, &mut &*bytes, bytes.len())
    }

    #[test]
    fn every_plain_number_is_taken_where_it_fits() {
        assert_eq!(read::<u16>("|b1", &[3], &[0, 1, 1]).unwrap(), [0, 1, 1]);
        assert_eq!(read::<i64>("|i1", &[2], &[0xFF, 5]).unwrap(), [-1, 5]);
        assert_eq!(read::<u32>(">i4", &[1], &[0, 1, 0, 2]).unwrap(), [65_538]);
        assert_eq!(
            read::<u8>("<u8", &[1], &200_u64.to_le_bytes()).unwrap(),
            [200]
        );
        assert_eq!(
            read::<u16>("<f8", &[1], &7.0_f64.to_le_bytes()).unwrap(),
            [7]
        );
        assert_eq!(
            read::<f32>("<f8", &[1], &0.1_f64.to_le_bytes()).unwrap(),
            [0.1]
        );
        assert_eq!(
            read::<f32>(">f4", &[1], &0.1_f32.to_be_bytes()).unwrap(),
            [0.1]
        );
        assert_eq!(
            read::<f64>("<i8", &[1], &(-3_i64).to_le_bytes()).unwrap(),
            [-3.0]
        );
        // Half-precision values: 1.5, the smallest above 0, -2, and infinity.
        let halves = [0x3E00_u16, 1, 0xC000, 0x7C00]
            .map(u16::to_le_bytes)
            .concat();
        let values = read::<f64>("<f2", &[4], &halves).unwrap();
        assert_eq!(values, [1.5, 2_f64.powi(-24), -2.0, f64::INFINITY]);
    }

    #[test]
    fn a_number_that_does_not_fit_is_named_with_its_place() {
        let refused = |error: Error, says: &str| {
            assert!(error.message().contains(says), "{error} should say {says}");
        };
        let bytes = [1_i32, 2, 3, 70_000].map(i32::to_le_bytes).concat();
        refused(
            read::<u16>("<i4", &[2, 2], &bytes).unwrap_err(),
            "[1, 1] = 70000: expected a number that uint16",
        );
        refused(
            read::<u16>("|i1", &[2], &[1, 0xFF]).unwrap_err(),
            "[1] = -1",
        );
        refused(
            read::<u32>("<f8", &[1], &0.5_f64.to_le_bytes()).unwrap_err(),
            "[0] = 0.5",
        );
        refused(
            read::<u32>("<f8", &[1], &f64::NAN.to_le_bytes()).unwrap_err(),
            "[0] = NaN",
        );
        refused(
            read::<f32>("<f8", &[1], &1e300_f64.to_le_bytes()).unwrap_err(),
            "[0] = 1e300",
        );
        refused(
            read::<f64>("<i8", &[1], &i64::MAX.to_le_bytes()).unwrap_err(),
            "float64",
        );
        for descr in ["<c8", "<U3", "|O", "<M8[ns]", "|S4", "<f16", "", "<", "é"] {
            refused(
                read::<u16>(descr, &[1], &[0; 16]).unwrap_err(),
                "plain numbers",
            );
        }
        let fortran = Header {
            descr: "<i4".into(),
            fortran_order: true,
            shape: vec![2, 3],
        };
        assert_eq!(place(&fortran, 3), "[1, 1]");
    }
}
