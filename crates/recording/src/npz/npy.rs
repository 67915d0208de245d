//! The `.npy` array inside a `.npz` archive: its header and its elements.
//!
//! Only what the recording schema needs: plain little-endian numbers and `<U` strings. A header is
//! a claim, not a fact, so no length in it is trusted before the bytes have come: sizes are
//! multiplied with overflow checks and memory grows with the data.

use std::io::{Read, Write};

use betz_base::error::{Error, Result};
use betz_base::memory;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header text accepted; NumPy writes under 200 bytes for a plain array.
const MAX_HEADER: usize = 1 << 16;
/// Bytes read at once.
const BLOCK: usize = 1 << 20;

/// What a `.npy` header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// NumPy's type string, such as `<f4`.
    pub(super) descr: String,
    /// True when the first axis runs fastest.
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<u64>,
}

impl Header {
    /// Product of the shape, if it fits in memory at all.
    pub(super) fn elements(&self) -> Result<usize> {
        self.shape
            .iter()
            .try_fold(1_usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
            .ok_or_else(|| {
                Error::recording(format!(
                    "shape {} is larger than any memory",
                    self.shape_text()
                ))
            })
    }

    /// The shape as NumPy prints it.
    pub(super) fn shape_text(&self) -> String {
        let inner: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        if inner.len() == 1 {
            format!("({},)", inner[0])
        } else {
            format!("({})", inner.join(", "))
        }
    }

    /// Reads magic, version and header text; `reader` then stands at the first element.
    pub(super) fn read(reader: &mut dyn Read) -> Result<Self> {
        let mut start = [0_u8; 8];
        fill(reader, &mut start, "the .npy header")?;
        if &start[..6] != MAGIC {
            return Err(Error::recording(
                "no .npy array (its magic bytes are not there)",
            ));
        }
        let length = match start[6] {
            1 => {
                let mut b = [0_u8; 2];
                fill(reader, &mut b, "the .npy header")?;
                usize::from(u16::from_le_bytes(b))
            }
            2 | 3 => {
                let mut b = [0_u8; 4];
                fill(reader, &mut b, "the .npy header")?;
                u32::from_le_bytes(b) as usize
            }
            v => {
                return Err(Error::recording(format!(
                    "expected .npy format version 1 to 3, got {v}"
                )));
            }
        };
        if length > MAX_HEADER {
            return Err(Error::recording(format!(
                "expected a .npy header of at most {MAX_HEADER} bytes, got {length}"
            )));
        }
        let mut text = vec![0_u8; length];
        fill(reader, &mut text, "the .npy header")?;
        let text = std::str::from_utf8(&text)
            .map_err(|_| Error::recording("the .npy header is not text"))?;
        Parser::new(text).header()
    }

    /// Writes magic, version 1.0 and header text, padded to a multiple of 64 bytes as NumPy does.
    pub(super) fn write(&self, writer: &mut dyn Write) -> std::io::Result<()> {
        let order = if self.fortran_order { "True" } else { "False" };
        let mut text = format!(
            "{{'descr': '{}', 'fortran_order': {order}, 'shape': {}, }}",
            self.descr,
            self.shape_text()
        );
        let unpadded = MAGIC.len() + 4 + text.len() + 1;
        text.extend(std::iter::repeat_n(
            ' ',
            unpadded.next_multiple_of(64) - unpadded,
        ));
        text.push('\n');
        let length = u16::try_from(text.len()).map_err(std::io::Error::other)?;
        writer.write_all(MAGIC)?;
        writer.write_all(&[1, 0])?;
        writer.write_all(&length.to_le_bytes())?;
        writer.write_all(text.as_bytes())
    }
}

/// Fills `out`, or says how much of `what` was missing.
fn fill(reader: &mut dyn Read, out: &mut [u8], what: &str) -> Result<()> {
    let mut have = 0;
    while have < out.len() {
        match reader.read(&mut out[have..]) {
            Ok(0) => {
                return Err(Error::recording(format!(
                    "{what} is truncated: expected {} more bytes, got {have}",
                    out.len()
                )));
            }
            Ok(n) => have += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::recording(format!("damaged or truncated: {e}"))),
        }
    }
    Ok(())
}

/// A number that has a NumPy type of its own here.
pub trait Element: Copy {
    /// NumPy's type string.
    const DESCR: &'static str;
    /// Its name for people.
    const NAME: &'static str;
    /// Appends the numbers in `bytes` (whole elements, little-endian) to `out`.
    fn decode(bytes: &[u8], out: &mut Vec<Self>);
    /// Appends the bytes of `values` to `out`.
    fn encode(values: &[Self], out: &mut Vec<u8>);
}

macro_rules! element {
    ($($t:ty, $descr:literal, $name:literal;)*) => {$(
        impl Element for $t {
            const DESCR: &'static str = $descr;
            const NAME: &'static str = $name;
            fn decode(bytes: &[u8], out: &mut Vec<Self>) {
                out.extend(bytes.as_chunks().0.iter().map(|b| <$t>::from_le_bytes(*b)));
            }
            fn encode(values: &[Self], out: &mut Vec<u8>) {
                out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            }
        }
    )*};
}
element! {
    u8, "|u1", "uint8";
    u16, "<u2", "uint16";
    u32, "<u4", "uint32";
    u64, "<u8", "uint64";
    i16, "<i2", "int16";
    i64, "<i8", "int64";
    f32, "<f4", "float32";
    f64, "<f8", "float64";
}

/// A number that any of NumPy's is taken for where it fits.
pub trait Number: Element {
    /// The number that `value` is; `None` where there is none.
    fn of_integer(value: i128) -> Option<Self>;
    /// The number that `value` is, to this type's precision; `None` where there is none.
    fn of_float(value: f64) -> Option<Self>;
}

macro_rules! integer {
    ($($t:ty)*) => {$(
        impl Number for $t {
            fn of_integer(value: i128) -> Option<Self> {
                value.try_into().ok()
            }
            fn of_float(value: f64) -> Option<Self> {
                // Within ±2⁶⁴ the cast is exact for what has no fraction.
                (value.fract() == 0.0 && value.abs() <= u64::MAX as f64)
                    .then(|| (value as i128).try_into().ok())?
            }
        }
    )*};
}
integer! { u8 u16 u32 u64 i16 i64 }

impl Number for f32 {
    fn of_integer(value: i128) -> Option<Self> {
        Some(value as Self)
    }
    fn of_float(value: f64) -> Option<Self> {
        let near = value as Self;
        (near.is_finite() || !value.is_finite()).then_some(near)
    }
}

impl Number for f64 {
    fn of_integer(value: i128) -> Option<Self> {
        let near = value as Self;
        (near as i128 == value).then_some(near)
    }
    fn of_float(value: f64) -> Option<Self> {
        Some(value)
    }
}

/// A dtype of plain numbers, in either byte order.
#[derive(Clone, Copy)]
struct Stored {
    /// NumPy's letter: b, i, u or f.
    kind: u8,
    size: usize,
    big_endian: bool,
}

/// One number as it was stored.
enum Value {
    Integer(i128),
    Float(f64),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

impl Stored {
    fn of(descr: &str) -> Option<Self> {
        let (order, rest) = descr.split_at_checked(1)?;
        let (kind, size) = rest.split_at_checked(1)?;
        let stored = Self {
            kind: kind.as_bytes()[0],
            size: size.parse().ok()?,
            big_endian: match order {
                "<" | "|" | "=" => false,
                ">" => true,
                _ => return None,
            },
        };
        let sizes: &[usize] = match stored.kind {
            b'b' => &[1],
            b'i' | b'u' => &[1, 2, 4, 8],
            b'f' => &[2, 4, 8],
            _ => return None,
        };
        sizes.contains(&stored.size).then_some(stored)
    }

    /// The number in `bytes`, as many as one takes.
    fn value(self, bytes: &[u8]) -> Value {
        let mut bits = 0_u64;
        for (i, &byte) in bytes.iter().enumerate() {
            let place = if self.big_endian {
                self.size - 1 - i
            } else {
                i
            };
            bits |= u64::from(byte) << (8 * place);
        }
        let unused = 64 - 8 * self.size as u32;
        match (self.kind, self.size) {
            (b'b', _) => Value::Integer(i128::from(bits != 0)),
            (b'i', _) => Value::Integer(i128::from((bits << unused) as i64 >> unused)),
            (b'u', _) => Value::Integer(i128::from(bits)),
            (_, 2) => Value::Float(half(bits as u16)),
            (_, 4) => Value::Float(f64::from(f32::from_bits(bits as u32))),
            _ => Value::Float(f64::from_bits(bits)),
        }
    }
}

/// The value of an IEEE half-precision number.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    }
}

/// The place of the element that comes as number `flat`, as NumPy indexes it.
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

/// True when `header` is of numbers that [`for_each_number`] reads.
pub(super) fn is_number(header: &Header) -> bool {
    Stored::of(&header.descr).is_some()
}

/// [`for_each_block`] from whichever plain number type `header` says, integers, floats and bool, in
/// either byte order; a number that does not fit is refused with its place.
pub(super) fn for_each_number<T: Number>(
    header: &Header,
    reader: &mut dyn Read,
    elements: usize,
    mut take: impl FnMut(&[T]) -> Result<()>,
) -> Result<()> {
    if header.descr == T::DESCR {
        return for_each_block(reader, elements, take);
    }
    let Some(stored) = Stored::of(&header.descr) else {
        return Err(Error::recording(format!(
            "expected {} ({}) or other plain numbers, got dtype `{}`",
            T::NAME,
            T::DESCR,
            header.descr
        )));
    };
    let bytes = elements.checked_mul(stored.size).ok_or_else(|| {
        Error::recording(format!(
            "shape {} is larger than any memory",
            header.shape_text()
        ))
    })?;
    let mut done = 0_u64;
    let mut block = Vec::new();
    // A block of bytes is a whole number of elements: both are powers of two.
    for_each_block(reader, bytes, |raw: &[u8]| {
        block.clear();
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

/// Hands `reader`'s next `elements` elements to `take`, a block at a time, then checks that nothing
/// follows (which also makes the archive check its checksum).
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

/// Reads the numbers that `header` tells of, of whichever type. Memory grows with the data that comes:
/// `likely` elements at once.
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

/// Elements that an array of `header` is likely to have, of which no more than `bytes` can come.
pub(super) fn likely_elements(header: &Header, bytes: usize) -> usize {
    Stored::of(&header.descr).map_or(0, |stored| bytes / stored.size)
}

/// Reads `elements` strings of `width` UTF-32 code units each, zero-padded.
pub(super) fn read_strings(
    reader: &mut dyn Read,
    elements: usize,
    width: usize,
) -> Result<Vec<String>> {
    let units = elements
        .checked_mul(width)
        .ok_or_else(|| Error::recording("strings larger than any memory"))?;
    // Strings of width 0 have no bytes, so their number is a mere claim.
    if width == 0 && elements > MAX_HEADER {
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
                // Zeros inside a string are characters of it; only those at its end are padding.
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
        Ok(_) => Err(Error::recording("holds more data than its shape says")),
        Err(e) => Err(Error::recording(format!("damaged or truncated: {e}"))),
    }
}

/// Reads the Python dictionary that a `.npy` header is. No recursion: a plain array's header has
/// none.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    fn wrong(&self, expected: &str) -> Error {
        let shown: String = self.rest.chars().take(24).collect();
        Error::recording(format!(
            "malformed .npy header: expected {expected} at `{}`",
            shown.trim_end()
        ))
    }

    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.wrong(&format!("`{token}`")))
        }
    }

    fn string(&mut self) -> Result<&'a str> {
        for quote in ["'", "\""] {
            if self.eat(quote)
                && let Some((inside, rest)) = self.rest.split_once(quote)
            {
                self.rest = rest;
                return Ok(inside);
            }
        }
        Err(self.wrong("a string (structured types are not read)"))
    }

    fn shape(&mut self) -> Result<Vec<u64>> {
        self.expect("(")?;
        let mut shape = Vec::new();
        while !self.eat(")") {
            self.rest = self.rest.trim_start();
            let digits = self
                .rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(digits);
            shape.push(number.parse().map_err(|_| self.wrong("a length"))?);
            self.rest = rest;
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(shape)
    }

    fn header(mut self) -> Result<Header> {
        let (mut descr, mut order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.eat("}") {
            let key = self.string()?;
            self.expect(":")?;
            match key {
                "descr" => descr = Some(self.string()?.to_owned()),
                "fortran_order" => {
                    order = Some(self.eat("True"));
                    if order == Some(false) {
                        self.expect("False")?;
                    }
                }
                "shape" => shape = Some(self.shape()?),
                _ => return Err(self.wrong("one of descr, fortran_order, shape")),
            }
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        match (descr, order, shape) {
            (Some(descr), Some(fortran_order), Some(shape)) => Ok(Header {
                descr,
                fortran_order,
                shape,
            }),
            _ => Err(Error::recording(
                "malformed .npy header: expected descr, fortran_order and shape",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Header> {
        Parser::new(text).header()
    }

    #[test]
    fn reads_what_numpy_writes() {
        let h = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }   \n").unwrap();
        assert_eq!(h.descr, "<f4");
        assert!(!h.fortran_order);
        assert_eq!(h.shape, [3, 2]);
        assert_eq!(
            parse("{'descr': '<U5', 'fortran_order': True, 'shape': ()}")
                .unwrap()
                .shape,
            [0_u64; 0]
        );
        assert_eq!(
            parse("{\"shape\":(7,),'descr':'<i8','fortran_order':False}")
                .unwrap()
                .shape,
            [7]
        );
    }

    #[test]
    fn refuses_what_numpy_does_not_write() {
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_shape_larger_than_memory_is_an_error_not_an_overflow() {
        let h = Header {
            descr: "<f8".into(),
            fortran_order: false,
            shape: vec![1 << 40, 1 << 40],
        };
        assert!(h.elements().is_err());
        // A lying length costs no more memory than the data that comes.
        let h = Header {
            shape: vec![u64::MAX / 16],
            ..h
        };
        assert!(read_all::<f64>(&h, &mut &[0_u8; 80][..], 10).is_err());
    }

    #[test]
    fn header_is_padded_and_read_back() {
        for shape in [vec![], vec![5], vec![5, 0], vec![123_456_789, 95]] {
            let h = Header {
                descr: "<u2".into(),
                fortran_order: false,
                shape,
            };
            let mut bytes = Vec::new();
            h.write(&mut bytes).unwrap();
            assert_eq!(bytes.len() % 64, 0);
            assert_eq!(Header::read(&mut &bytes[..]).unwrap(), h);
        }
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
        // Halves: 1.5, the least above 0, -2, and infinity.
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
