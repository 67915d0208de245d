//! The confusion of held-out steps, as it travels with a model.

use super::ClassScores;
use betz_base::error::Result;
use betz_runtime::model::{Attachment, Decoder};

/// Section of a model file with the confusion of its training: u64, little-endian, steps by true class (row) and most
/// probable class (column), row-major. The page reads it, too.
const TAG: [u8; 4] = *b"conf";

/// `decoder` with the confusion of `scores`.
///
/// # Errors
/// The errors of [`Decoder::new`].
pub(crate) fn attach(decoder: Decoder, scores: &ClassScores) -> Result<Decoder> {
    let counts = scores.confusion.iter().flatten();
    let mut parts = decoder.into_parts();
    parts.attachments.retain(|a| a.tag != TAG);
    parts.attachments.push(Attachment {
        tag: TAG,
        bytes: counts.flat_map(|count| count.to_le_bytes()).collect(),
    });
    Decoder::new(parts)
}
