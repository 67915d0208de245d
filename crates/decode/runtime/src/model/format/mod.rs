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
//! Files of older versions never change meaning: payload v1 stays as it is, a section that grows gets a
//! new tag, and `tests/fixtures` keeps a file of each version.

mod sampled;
mod v1;

use super::{Attachment, DecoderParts, Head, Limits, ModelBlend};
use crate::psc::FilterBank;
use alloc::vec::Vec;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::wire::{Reader, Writer};

/// Largest model file that is read or written, in bytes: a bound on what a damaged or hostile file
/// can make a loader take.
pub const MAX_BYTES: usize = 1 << 30;

/// Section of the channels' means. Readers that do not know it refuse the file: their filters would start elsewhere.
const MEANS_TAG: [u8; 4] = *b"MEAN";
/// The version that is written.
pub(super) const NEWEST: u32 = 2;
/// The oldest version that is read.
const OLDEST: u32 = 1;

/// The payload of `parts` in the newest version, after `head` bytes left for the frame.
pub(super) fn encode(parts: &DecoderParts, head: usize) -> Vec<u8> {
    let mut to = Writer {
        bytes: vec![0; head],
    };
    v1::write(parts, &mut to);
    if !parts.bank.sampled().is_empty() {
        section(&mut to, sampled::TAG, |to| {
            sampled::write(parts.bank.sampled(), to);
        });
    }
    if !parts.channel_means.is_empty() {
        section(&mut to, MEANS_TAG, |to| to.f64s(&parts.channel_means));
    }
    if let Some(tag) = parts.head.tag() {
        section(&mut to, tag, |to| parts.head.write(to));
    }
    if parts.limits.blanking.is_some() {
        section(&mut to, Limits::TAG, |to| parts.limits.write(to));
    }
    if !parts.limits.ranges.is_empty() {
        section(&mut to, Limits::RANGES_TAG, |to| {
            parts.limits.write_ranges(to);
        });
    }
    if !parts.limits.count_caps.is_empty() {
        section(&mut to, Limits::COUNT_CAPS_TAG, |to| {
            to.f32s(&parts.limits.count_caps);
        });
    }
    for Attachment {
        tag,
        bytes: content,
    } in &parts.attachments
    {
        section(&mut to, *tag, |to| to.bytes.extend_from_slice(content));
    }
    to.bytes
}

/// Takes apart bytes of a model.
pub(crate) fn reader(bytes: &[u8]) -> Reader<'_> {
    Reader::new(
        bytes,
        ErrorKind::InvalidModel,
        "the model's content does not decode",
    )
}

fn section(to: &mut Writer, tag: [u8; 4], content: impl FnOnce(&mut Writer)) {
    let start = to.bytes.len();
    to.bytes.extend_from_slice(&tag);
    to.u64(0);
    content(to);
    let length = (to.bytes.len() - start - 12) as u64;
    to.bytes[start + 4..start + 12].copy_from_slice(&length.to_le_bytes());
    to.u32(crc32fast::hash(&to.bytes[start..]));
}

/// The content of a payload of `version`. It is well-formed, not yet checked for sense.
pub(super) fn decode(version: u32, payload: &[u8]) -> Result<DecoderParts> {
    decode_at(version, payload, false)
}

/// The same for the payload of a blend's member, which is no blend itself: blends are not nested, however a file was made.
pub(super) fn decode_member(payload: &[u8]) -> Result<DecoderParts> {
    decode_at(NEWEST, payload, true)
}

fn decode_at(version: u32, payload: &[u8], is_member: bool) -> Result<DecoderParts> {
    let mut from = reader(payload);
    match version {
        1 => {
            let parts = v1::read(&mut from)?;
            from.at("the model's content").end()?;
            Ok(parts)
        }
        2 => {
            let mut parts = v1::read(&mut from)?;
            let mut seen = SectionFlags {
                is_member,
                ..SectionFlags::default()
            };
            while !from.rest().is_empty() {
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
struct SectionFlags {
    /// The payload is that of a blend's member.
    is_member: bool,
    sampled: bool,
    means: bool,
    head: bool,
    limits: bool,
    ranges: bool,
    count_caps: bool,
}

fn read_section(
    from: &mut Reader<'_>,
    payload: &[u8],
    parts: &mut DecoderParts,
    seen: &mut SectionFlags,
) -> Result<()> {
    let start = payload.len() - from.rest().len();
    let mut tag = [0; 4];
    tag.copy_from_slice(from.at("a section's tag").bytes(4)?);
    let name = tag.escape_ascii();
    check_letters(tag)?;
    let length = from.at("a section's length").u64()?;
    let content = from.at("a section").bytes(length)?;
    let end = payload.len() - from.rest().len();
    let stored = from.at("a section's checksum").u32()?;
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
        if core::mem::replace(again, true) {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!("section {name}: expected it once, found it twice"),
            ));
        }
        Ok(())
    };
    if seen.is_member && tag == ModelBlend::SECTION_TAG {
        return Err(Error::new(
            ErrorKind::InvalidModel,
            format!("section {name}: expected a member that is no blend itself, got a blend"),
        ));
    }
    let mut content = reader(content);
    if tag == sampled::TAG {
        twice(&mut seen.sampled)?;
        let filters = parts.bank.filters().to_vec();
        parts.bank = FilterBank::unchecked(filters, sampled::read(&mut content)?);
    } else if tag == MEANS_TAG {
        twice(&mut seen.means)?;
        parts.channel_means = content.at("channel_means").f64s()?;
    } else if let Some(head) = Head::read(tag, &mut content)? {
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
        parts.limits.count_caps = content.at("count_caps").f32s()?;
    } else if is_optional(tag) {
        let all = content.rest();
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(all.len())
            .map_err(|_| Error::no_memory("a section", all.len()))?;
        bytes.extend_from_slice(content.bytes(all.len() as u64)?);
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
    content.at("a section").end()
}

/// True if a reader that does not know `tag` may go on without it.
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
