//! The payload of a model file.
//!
//! ```text
//! format 1   payload v1
//! format 2   payload v1 │ section │ section │ …
//! section    tag 4 bytes │ length u64 LE │ content │ CRC-32 of all before it in the section, u32 LE
//! ```
//!
//! A tag is four ASCII letters. The first one's case says what a reader does that does not know it, as in
//! PNG: upper case, the file is refused (its decoder would not be the same without); lower case, the
//! section is kept as an [`Attachment`] and otherwise ignored. Sections may come in any order, each tag
//! once.
//!
//! What a version wrote never changes meaning: payload v1 stays as it is, a section that grows gets
//! another tag, and `tests/fixtures` keeps a file of each version.

mod v1;
pub(crate) mod wire;

use super::{Attachment, DecoderParts, Head, Limits};
use betz_base::error::{Error, ErrorKind, Result};
use wire::{Reader, Writer};

/// Largest model file that is read or written, in bytes: a bound on what a damaged or hostile file
/// can make a loader take.
pub const MAX_BYTES: usize = 1 << 30;

/// The version that is written.
pub(super) const NEWEST: u32 = 2;
/// The oldest version that is read.
const OLDEST: u32 = 1;

/// The payload of `parts` in the newest version, after `head` bytes left for the frame.
pub(super) fn encode(parts: &DecoderParts, head: usize) -> Vec<u8> {
    let mut bytes = vec![0; head];
    v1::write(parts, &mut Writer { bytes: &mut bytes });
    if let Some(tag) = parts.head.tag() {
        section(&mut bytes, tag, |to| parts.head.write(to));
    }
    if parts.limits.blanking.is_some() {
        section(&mut bytes, Limits::TAG, |to| parts.limits.write(to));
    }
    if !parts.limits.ranges.is_empty() {
        section(&mut bytes, Limits::RANGES_TAG, |to| {
            parts.limits.write_ranges(to);
        });
    }
    if !parts.limits.count_caps.is_empty() {
        section(&mut bytes, Limits::COUNT_CAPS_TAG, |to| {
            to.f32s(&parts.limits.count_caps);
        });
    }
    for Attachment {
        tag,
        bytes: content,
    } in &parts.attachments
    {
        section(&mut bytes, *tag, |to| to.bytes.extend_from_slice(content));
    }
    bytes
}

fn section(bytes: &mut Vec<u8>, tag: [u8; 4], content: impl FnOnce(&mut Writer<'_>)) {
    let start = bytes.len();
    bytes.extend_from_slice(&tag);
    bytes.extend_from_slice(&[0; 8]);
    content(&mut Writer { bytes });
    let length = (bytes.len() - start - 12) as u64;
    bytes[start + 4..start + 12].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[start..]);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// What a payload of `version` holds. It is well-formed, not yet checked for sense.
pub(super) fn decode(version: u32, payload: &[u8]) -> Result<DecoderParts> {
    let mut from = Reader::new(payload);
    match version {
        1 => {
            let parts = v1::read(&mut from)?;
            from.end("the model's content")?;
            Ok(parts)
        }
        2 => {
            let mut parts = v1::read(&mut from)?;
            let mut seen = Seen::default();
            while from.left() > 0 {
                read_section(&mut from, payload, &mut parts, &mut seen)?;
            }
            Ok(parts)
        }
        newer if newer > NEWEST => Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!(
                "model format {newer}: this is Betz {}, which reads formats {OLDEST} to {NEWEST}; load it with a newer Betz",
                env!("CARGO_PKG_VERSION")
            ),
        )),
        other => Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!(
                "model format {other}: never written by any version of Betz (expected {OLDEST} to {NEWEST})"
            ),
        )),
    }
}

/// Which sections there were.
#[derive(Default)]
struct Seen {
    head: bool,
    limits: bool,
    ranges: bool,
    count_caps: bool,
}

fn read_section(
    from: &mut Reader<'_>,
    payload: &[u8],
    parts: &mut DecoderParts,
    seen: &mut Seen,
) -> Result<()> {
    let start = payload.len() - from.left();
    let mut tag = [0; 4];
    tag.copy_from_slice(from.take(4, "a section's tag")?);
    let name = tag.escape_ascii();
    check_letters(tag)?;
    let length = from.u64("a section's length")?;
    let content = from.take(length, "a section")?;
    let end = payload.len() - from.left();
    let stored = from.u32("a section's checksum")?;
    let found = crc32fast::hash(&payload[start..end]);
    if stored != found {
        return Err(Error::new(
            ErrorKind::InvalidModel,
            format!(
                "section {name} is damaged: expected checksum {stored:#010x}, got {found:#010x}"
            ),
        ));
    }
    let twice = |again: &mut bool| {
        if std::mem::replace(again, true) {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!("section {name}: expected one of its sort, got a second"),
            ));
        }
        Ok(())
    };
    let mut content = Reader::new(content);
    if let Some(head) = Head::read(tag, &mut content)? {
        twice(&mut seen.head)?;
        parts.head = head;
    } else if tag == Limits::TAG {
        twice(&mut seen.limits)?;
        parts.limits.blanking = Limits::read(&mut content)?;
    } else if tag == Limits::RANGES_TAG {
        twice(&mut seen.ranges)?;
        parts.limits.ranges = Limits::read_ranges(&mut content)?;
    } else if tag == Limits::COUNT_CAPS_TAG {
        twice(&mut seen.count_caps)?;
        parts.limits.count_caps = content.f32s("count_caps")?;
    } else if is_optional(tag) {
        let mut bytes = wire::list(content.left(), "a section")?;
        bytes.extend_from_slice(content.take(content.left() as u64, "a section")?);
        parts.attachments.push(Attachment { tag, bytes });
    } else {
        return Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!(
                "the model needs its section {name}, which this Betz {} does not know; load it with a newer Betz",
                env!("CARGO_PKG_VERSION")
            ),
        ));
    }
    content.end("a section")
}

/// Whether a reader that does not know `tag` may go on without it.
pub(super) fn is_optional(tag: [u8; 4]) -> bool {
    tag[0].is_ascii_lowercase()
}

pub(super) fn check_letters(tag: [u8; 4]) -> Result<()> {
    if tag.iter().all(u8::is_ascii_alphabetic) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidModel,
        format!(
            "section {}: expected a tag of four ASCII letters",
            tag.escape_ascii()
        ),
    ))
}
