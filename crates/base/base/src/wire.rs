//! Numbers, texts and lists as little-endian bytes: one bounded reader and one writer for every format of Betz.
//!
//! A length that promises more than is there is refused before anything is allocated for it, and what is
//! allocated is asked for: no memory is an error, not an abort.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{Display, Write};

use crate::error::{Error, ErrorKind, Result};

/// Appends to a list of bytes.
#[derive(Debug, Default)]
pub struct Writer {
    /// The bytes written so far.
    pub bytes: Vec<u8>,
}

impl Writer {
    /// One byte: 1 for true.
    pub fn flag(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    /// A number of 4 bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A number of 8 bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A signed number of 8 bytes.
    pub fn i64(&mut self, value: i64) {
        self.u64(value as u64);
    }

    /// A number of 4 bytes.
    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    /// A number of 8 bytes.
    pub fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    /// The length as 8 bytes, then the numbers.
    pub fn f64s(&mut self, values: &[f64]) {
        self.u64(values.len() as u64);
        values.iter().for_each(|v| self.f64(*v));
    }

    /// The length as 8 bytes, then the numbers.
    pub fn f32s(&mut self, values: &[f32]) {
        self.u64(values.len() as u64);
        values.iter().for_each(|v| self.f32(*v));
    }

    /// UTF-8 after its length in bytes, a [`u32`](Self::u32).
    pub fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// An integer as bincode's standard configuration writes it: one byte below 251, else a byte that
    /// gives the number of bytes that follow.
    pub fn varint(&mut self, value: u64) {
        let (tag, bytes) = match value {
            0..=250 => return self.bytes.push(value as u8),
            251..=0xFFFF => (251, 2),
            0x1_0000..=0xFFFF_FFFF => (252, 4),
            _ => (253, 8),
        };
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&value.to_le_bytes()[..bytes]);
    }

    /// A signed integer, zigzag, as a [`varint`](Self::varint).
    pub fn signed(&mut self, value: i64) {
        self.varint(((value << 1) ^ (value >> 63)) as u64);
    }

    /// UTF-8 after its length in bytes, a [`varint`](Self::varint).
    pub fn var_text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

/// Takes from the front of a list of bytes what a [`Writer`] wrote, in the same order. Every method fails
/// with the kind and the name that the reader was made with when the bytes do not hold what is asked for.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    kind: ErrorKind,
    /// The name of the whole, as messages begin.
    name: &'static str,
    /// The name of what is read next; empty: none.
    field: &'static str,
}

/// Lists of little-endian numbers.
macro_rules! number_lists {
    ($($name:ident: $number:ty),*) => { $(
        #[doc = concat!("`count` numbers of type ", stringify!($number), ".")]
        ///
        /// # Errors
        /// As [`bytes`](Self::bytes); `OutOfMemory`.
        pub fn $name(&mut self, count: u64) -> Result<Vec<$number>> {
            const BYTES: usize = size_of::<$number>();
            let (words, _) = self.bytes(count.saturating_mul(BYTES as u64))?.as_chunks::<BYTES>();
            self.collect(words.iter().map(|w| <$number>::from_le_bytes(*w)))
        }
    )* };
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; errors are of `kind`, and their messages begin with `name`.
    pub fn new(bytes: &'a [u8], kind: ErrorKind, name: &'static str) -> Self {
        Self {
            rest: bytes,
            kind,
            name,
            field: "",
        }
    }

    /// Names what is read from here on, for messages.
    pub fn at(&mut self, field: &'static str) -> &mut Self {
        self.field = field;
        self
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The error for a value that cannot be.
    pub fn error(&self, problem: impl Display) -> Error {
        let mut message = self.name.to_owned();
        if !self.field.is_empty() {
            message.push_str(": ");
            message.push_str(self.field);
        }
        // Writing to a string does not fail.
        let _ = write!(message, ": {problem}");
        Error::new(self.kind, message)
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// Refuses to read more bytes than are left.
    pub fn bytes(&mut self, count: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(count).ok();
        let Some((head, rest)) = split.and_then(|n| self.rest.split_at_checked(n)) else {
            let left = self.rest.len();
            return Err(self.error(format_args!("expected {count} more bytes, got {left}")));
        };
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), as all methods that follow.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N as u64)?);
        Ok(array)
    }

    /// One byte.
    ///
    /// # Errors
    /// For a byte other than 0 and 1.
    pub fn flag(&mut self) -> Result<bool> {
        match self.array::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(self.error(format_args!("expected 0 or 1, got {other}"))),
        }
    }

    /// A number of 4 bytes.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of 8 bytes.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A signed number of 8 bytes.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// A number of 8 bytes, whatever its value.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn f64(&mut self) -> Result<f64> {
        self.array().map(f64::from_le_bytes)
    }

    number_lists!(u32_list: u32, f32_list: f32, f64_list: f64, u64_list: u64);

    /// Numbers after their count, a [`u64`](Self::u64).
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes); `OutOfMemory`.
    pub fn f64s(&mut self) -> Result<Vec<f64>> {
        let count = self.u64()?;
        self.f64_list(count)
    }

    /// Numbers after their count, a [`u64`](Self::u64).
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes); `OutOfMemory`.
    pub fn f32s(&mut self) -> Result<Vec<f32>> {
        let count = self.u64()?;
        self.f32_list(count)
    }

    /// UTF-8 after its length in bytes, a [`u32`](Self::u32).
    ///
    /// # Errors
    /// Refuses bytes that are not UTF-8; `OutOfMemory`.
    pub fn text(&mut self) -> Result<String> {
        let length = u64::from(self.u32()?);
        self.utf8(length)
    }

    /// An integer that [`Writer::varint`] wrote.
    ///
    /// # Errors
    /// For a first byte that begins no such integer.
    pub fn varint(&mut self) -> Result<u64> {
        Ok(match self.array::<1>()? {
            [251] => u64::from(u16::from_le_bytes(self.array()?)),
            [252] => u64::from(self.u32()?),
            [253] => self.u64()?,
            [other @ 254..=255] => {
                return Err(self.error(format_args!("expected an integer, got {other}")));
            }
            [small] => u64::from(small),
        })
    }

    /// A [`varint`](Self::varint) of at most 32 bits.
    ///
    /// # Errors
    /// Refuses larger integers.
    pub fn small(&mut self) -> Result<u32> {
        let value = self.varint()?;
        u32::try_from(value)
            .map_err(|_| self.error(format_args!("expected at most 32 bits, got {value}")))
    }

    /// An integer that [`Writer::signed`] wrote.
    ///
    /// # Errors
    /// As [`varint`](Self::varint).
    pub fn signed(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// UTF-8 after its length in bytes, a [`varint`](Self::varint).
    ///
    /// # Errors
    /// Refuses bytes that are not UTF-8; `OutOfMemory`.
    pub fn var_text(&mut self) -> Result<String> {
        let length = self.varint()?;
        self.utf8(length)
    }

    /// The length of a list, a [`varint`](Self::varint), of at most `most` items that take at least
    /// `least` bytes each; and an empty list with room for it.
    ///
    /// # Errors
    /// Refuses longer lists; `OutOfMemory`.
    pub fn many<T>(&mut self, least: usize, most: usize) -> Result<(usize, Vec<T>)> {
        let count = self.varint()?;
        let most = (self.rest.len() / least.max(1)).min(most);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok((count, self.list(count)?)),
            _ => Err(self.error(format_args!("expected at most {most} items, got {count}"))),
        }
    }

    /// `count` as a size, if so many `items` of at least `size` bytes may follow.
    ///
    /// # Errors
    /// Refuses a count for which the bytes left have no room.
    pub fn room(&self, count: u64, size: usize, items: &str) -> Result<usize> {
        let most = self.rest.len() / size.max(1);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(self.error(format_args!("expected at most {most} {items}, got {count}"))),
        }
    }

    /// Checks that nothing follows.
    ///
    /// # Errors
    /// Refuses further bytes.
    pub fn end(&self) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(self.error(format_args!("expected its end, got {more} more bytes"))),
        }
    }

    fn utf8(&mut self, length: u64) -> Result<String> {
        let bytes = self.bytes(length)?;
        let text =
            core::str::from_utf8(bytes).map_err(|_| self.error("expected texts in UTF-8"))?;
        let mut own = String::new();
        own.try_reserve_exact(text.len())
            .map_err(|_| Error::no_memory(self.what(), text.len()))?;
        own.push_str(text);
        Ok(own)
    }

    fn collect<T>(&self, items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
        let mut list = self.list(items.len())?;
        list.extend(items);
        Ok(list)
    }

    /// An empty list with room for `count`.
    fn list<T>(&self, count: usize) -> Result<Vec<T>> {
        let mut list = Vec::new();
        list.try_reserve_exact(count)
            .map_err(|_| Error::no_memory(self.what(), count.saturating_mul(size_of::<T>())))?;
        Ok(list)
    }

    fn what(&self) -> &'static str {
        if self.field.is_empty() {
            self.name
        } else {
            self.field
        }
    }
}
