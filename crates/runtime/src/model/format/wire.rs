//! Numbers, texts and lists as bytes: what a model file's content is made of.
//!
//! A length that promises more than is there is refused before anything is allocated for it, and what is
//! allocated is asked for: no memory is an error, not an abort.

use betz_base::error::{Error, ErrorKind, Result};

/// Appends to a list of bytes; little-endian.
pub(crate) struct Writer<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self { bytes }
    }
}

impl Writer<'_> {
    pub(crate) fn flag(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn f64s(&mut self, values: &[f64]) {
        self.u64(values.len() as u64);
        values.iter().for_each(|v| self.f64(*v));
    }

    pub(crate) fn f32s(&mut self, values: &[f32]) {
        self.u64(values.len() as u64);
        (values.iter()).for_each(|v| self.bytes.extend_from_slice(&v.to_le_bytes()));
    }

    /// An integer as bincode's standard configuration writes it: one byte below 251, else a byte that
    /// says how many follow.
    pub(super) fn varint(&mut self, value: u64) {
        match value {
            0..=250 => self.bytes.push(value as u8),
            251..=0xFFFF => {
                self.bytes.push(251);
                self.bytes.extend_from_slice(&(value as u16).to_le_bytes());
            }
            0x1_0000..=0xFFFF_FFFF => {
                self.bytes.push(252);
                self.bytes.extend_from_slice(&(value as u32).to_le_bytes());
            }
            _ => {
                self.bytes.push(253);
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
    }

    /// A signed integer, zigzag.
    pub(super) fn signed(&mut self, value: i64) {
        self.varint(((value << 1) ^ (value >> 63)) as u64);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

/// Takes what a [`Writer`] wrote, in the same order; each call names what it reads, for the message.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes not yet read.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn take(&mut self, count: u64, what: &str) -> Result<&'a [u8]> {
        let split = usize::try_from(count).ok();
        let Some((head, rest)) = split.and_then(|n| self.bytes.split_at_checked(n)) else {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!(
                    "the model's content does not decode: {what}: expected {count} more bytes, got {}",
                    self.bytes.len()
                ),
            ));
        };
        self.bytes = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let bytes = self.take(N as u64, what)?;
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        Ok(array)
    }

    pub(crate) fn flag(&mut self, what: &str) -> Result<bool> {
        match self.array::<1>(what)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(nonsense(what, "0 or 1", u64::from(other))),
        }
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn f64(&mut self, what: &str) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn f64s(&mut self, what: &str) -> Result<Vec<f64>> {
        let count = self.u64(what)?;
        self.list_of(count, what)
    }

    pub(crate) fn f32s(&mut self, what: &str) -> Result<Vec<f32>> {
        let count = self.u64(what)?;
        let bytes = self.take(count.saturating_mul(4), what)?;
        let mut list = list(bytes.len() / 4, what)?;
        let (words, _) = bytes.as_chunks::<4>();
        list.extend(words.iter().map(|w| f32::from_le_bytes(*w)));
        Ok(list)
    }

    /// `count` numbers.
    pub(super) fn list_of(&mut self, count: u64, what: &str) -> Result<Vec<f64>> {
        let bytes = self.take(count.saturating_mul(8), what)?;
        let mut list = list(bytes.len() / 8, what)?;
        let (words, _) = bytes.as_chunks::<8>();
        list.extend(words.iter().map(|w| f64::from_le_bytes(*w)));
        Ok(list)
    }

    pub(super) fn varint(&mut self, what: &str) -> Result<u64> {
        Ok(match self.array::<1>(what)? {
            [251] => u64::from(u16::from_le_bytes(self.array(what)?)),
            [252] => u64::from(u32::from_le_bytes(self.array(what)?)),
            [253] => u64::from_le_bytes(self.array(what)?),
            [other @ 254..=255] => return Err(nonsense(what, "an integer", u64::from(other))),
            [small] => u64::from(small),
        })
    }

    /// An integer of at most 32 bits.
    pub(super) fn small(&mut self, what: &str) -> Result<u32> {
        let value = self.varint(what)?;
        u32::try_from(value).map_err(|_| nonsense(what, "at most 32 bits", value))
    }

    pub(super) fn signed(&mut self, what: &str) -> Result<i64> {
        let value = self.varint(what)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn text(&mut self, what: &str) -> Result<String> {
        let length = self.varint(what)?;
        let bytes = self.take(length, what)?;
        let text = std::str::from_utf8(bytes).map_err(|_| {
            Error::new(
                ErrorKind::InvalidModel,
                format!("the model's content does not decode: {what}: expected UTF-8"),
            )
        })?;
        let mut own = String::new();
        own.try_reserve_exact(text.len())
            .map_err(|_| Error::no_memory(what, text.len()))?;
        own.push_str(text);
        Ok(own)
    }

    /// The length of a list of at most `most` items that take at least `least` bytes each, and room
    /// for it.
    pub(super) fn many<T>(
        &mut self,
        (least, most): (usize, usize),
        what: &str,
    ) -> Result<(usize, Vec<T>)> {
        let count = self.varint(what)?;
        let most = (self.left() / least).min(most) as u64;
        if count > most {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!(
                    "the model's content does not decode: {what}: expected at most {most} items, got {count}"
                ),
            ));
        }
        Ok((count as usize, list(count as usize, what)?))
    }

    /// Refuses what lies behind the last thing read.
    pub(crate) fn end(&self, what: &str) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidModel,
            format!("{what}: expected its end, got {} more bytes", self.left()),
        ))
    }
}

/// An empty list with room for `count`.
pub(super) fn list<T>(count: usize, what: &str) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(count)
        .map_err(|_| Error::no_memory(what, count.saturating_mul(size_of::<T>())))?;
    Ok(list)
}

fn nonsense(what: &str, expected: &str, got: u64) -> Error {
    Error::new(
        ErrorKind::InvalidModel,
        format!("the model's content does not decode: {what}: expected {expected}, got {got}"),
    )
}
