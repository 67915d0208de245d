//! The frame around everything Betz writes as bytes: what it is, which version, how long, intact.
//!
//! ```text
//! offset 0   magic      8 bytes    what this is
//!        8   version    u32 LE     version of the payload's format
//!       12   length     u64 LE     length of the payload in bytes
//!       20   payload
//!        …   checksum   u32 LE     CRC-32 (IEEE) of everything before it, header included
//! ```
//!
//! The frame itself never changes, so a reader tells a damaged file from one that is only newer.
//! CRC-32 finds every error that fits in 32 consecutive bits, so every flipped byte, wherever it is;
//! the length finds every truncation and everything appended.

use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::{Error, ErrorKind, Result};
use crate::wire::{Reader, Writer};

/// Bytes before the payload.
pub const HEADER: usize = 20;
/// Bytes around the payload.
pub const OVERHEAD: usize = HEADER + 4;

/// Kind of content: the magic of its frame, and its name in messages.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// The first eight bytes.
    pub magic: [u8; 8],
    /// "a model", for messages.
    pub name: &'static str,
    /// Kind of the error for a damaged frame.
    pub damaged: ErrorKind,
}

/// Writes header and checksum around a payload that lies at `bytes[HEADER..len - 4]` already.
/// Does not allocate. `bytes` is at least [`OVERHEAD`] long.
pub fn seal(content: Content, version: u32, bytes: &mut [u8]) {
    let payload = bytes.len().saturating_sub(OVERHEAD) as u64;
    bytes[..8].copy_from_slice(&content.magic);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12..HEADER].copy_from_slice(&payload.to_le_bytes());
    let end = bytes.len() - 4;
    let checksum = crc32fast::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
}

/// Checks the frame and gives version and payload. Allocates only for an error's message.
pub fn open(content: Content, bytes: &[u8]) -> Result<(u32, &[u8])> {
    let Content {
        magic,
        name,
        damaged,
    } = content;
    let refuse = |reason: String| Err(Error::new(damaged, reason));
    if bytes.is_empty() {
        return refuse(format!("expected {name}, got nothing at all (0 bytes)"));
    }
    let begin = bytes.len().min(magic.len());
    if bytes[..begin] != magic[..begin] {
        let archive = match bytes.starts_with(b"PK\x03\x04") {
            true => ", an archive such as a recording (.npz)",
            false => "",
        };
        return refuse(format!(
            "not {name}: expected it to begin with \"{}\", got \"{}\"{archive}",
            magic.escape_ascii(),
            bytes[..begin].escape_ascii()
        ));
    }
    let (Some(version), Some(length)) = (word::<4>(bytes, 8), word::<8>(bytes, 12)) else {
        return refuse(format!(
            "{name} cut short: expected a header of {HEADER} bytes, got {} bytes in all",
            bytes.len()
        ));
    };
    let length = u64::from_le_bytes(length);
    let expected = u128::from(length) + OVERHEAD as u128;
    if expected != bytes.len() as u128 {
        if u128::from(length.swap_bytes()) + OVERHEAD as u128 == bytes.len() as u128 {
            return refuse(format!(
                "{name}: expected little-endian numbers, got big-endian ones"
            ));
        }
        return refuse(format!(
            "{name} cut short or damaged: expected {expected} bytes, as its header says, got {}",
            bytes.len()
        ));
    }
    let end = bytes.len() - 4;
    let stored = u32::from_le_bytes(word(bytes, end).unwrap_or_default());
    let found = crc32fast::hash(&bytes[..end]);
    if stored != found {
        return refuse(format!(
            "{name} is damaged: expected checksum {stored:#010x}, got {found:#010x}"
        ));
    }
    Ok((u32::from_le_bytes(version), &bytes[HEADER..end]))
}

impl Content {
    /// The error for what such a frame holds and no such thing can.
    pub fn error(self, what: impl core::fmt::Display) -> Error {
        Error::new(self.damaged, format!("{}: {what}", self.name))
    }

    /// The payload of `bytes`, whose version must be one of `versions`, to be taken apart; with the version.
    ///
    /// # Errors
    /// As [`open`]; [`ErrorKind::UnsupportedVersion`].
    pub fn read(self, bytes: &[u8], versions: RangeInclusive<u32>) -> Result<(u32, Reader<'_>)> {
        let (version, rest) = open(self, bytes)?;
        if versions.contains(&version) {
            return Ok((version, Reader::new(rest, self.damaged, self.name)));
        }
        let (from, to) = (versions.start(), versions.end());
        let expected = match from == to {
            true => to.to_string(),
            false => format!("{from} to {to}"),
        };
        Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!("{}: expected version {expected}, got {version}", self.name),
        ))
    }
}

/// `N` bytes from `offset`; `None` when there are not so many.
fn word<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

impl Writer {
    /// A writer of a frame's payload, to be finished with [`seal`](Self::seal).
    pub fn framed() -> Self {
        Self {
            bytes: vec![0; HEADER],
        }
    }

    /// The whole frame around the payload written so far.
    pub fn seal(mut self, content: Content, version: u32) -> Vec<u8> {
        self.bytes.extend_from_slice(&[0; OVERHEAD - HEADER]);
        seal(content, version, &mut self.bytes);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

    const CONTENT: Content = Content {
        magic: *b"BETZTEST",
        name: "a test",
        damaged: ErrorKind::InvalidModel,
    };

    #[test]
    fn fields_come_in_their_order_and_what_is_missing_is_said() {
        let mut to = Writer::framed();
        to.u32(7);
        to.i64(-3);
        to.f64(2.5);
        to.text("aµ");
        let bytes = to.seal(CONTENT, 2);
        let (version, mut fields) = CONTENT.read(&bytes, 1..=2).unwrap();
        assert_eq!(version, 2);
        assert_eq!((fields.u32().unwrap(), fields.i64().unwrap()), (7, -3));
        assert_eq!(fields.f64().unwrap(), 2.5);
        assert_eq!(fields.room(1, 7, "things").unwrap(), 1);
        let said = |result: Result<usize>| result.unwrap_err().message().to_owned();
        assert_eq!(
            said(fields.room(2, 7, "things")),
            "a test: expected at most 1 things, got 2"
        );
        assert!(fields.end().is_err());
        assert_eq!(fields.text().unwrap(), "aµ");
        fields.end().unwrap();
        let missing = fields.u64().unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::InvalidModel);
        assert_eq!(missing.message(), "a test: expected 8 more bytes, got 0");
    }

    #[test]
    fn a_length_that_is_a_claim_takes_no_memory_and_other_versions_are_refused() {
        let mut to = Writer::framed();
        to.u32(u32::MAX);
        let bytes = to.seal(CONTENT, 3);
        let (_, mut fields) = CONTENT.read(&bytes, 3..=3).unwrap();
        assert!(fields.text().is_err());
        assert!(fields.bytes(u64::MAX).is_err());
        for (versions, expected) in [(1..=2, "1 to 2"), (4..=4, "4")] {
            let refused = CONTENT.read(&bytes, versions).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::UnsupportedVersion);
            let said = format!("a test: expected version {expected}, got 3");
            assert_eq!(refused.message(), said);
        }
    }
}
