//! The front end that a recording's `meta` names, handed to the model that is trained on it. `betz run` reads it.

use betz::Result;
use betz::model::{Attachment, Decoder};

/// Section of a model file, as `betz_live::FrontEnd` reads it.
const TAG: [u8; 4] = *b"frnt";

/// `model` with the front end that `meta` names, if it names one.
///
/// # Errors
/// The errors of [`Decoder::new`].
pub(crate) fn attach(meta: Option<&str>, model: Decoder) -> Result<Decoder> {
    let named = meta
        .and_then(|meta| serde_json::from_str::<serde_json::Value>(meta).ok())
        .and_then(|mut meta| Some(meta.get_mut("front_end")?.take()))
        .filter(|front_end| front_end.get("feature").is_some());
    let Some(front_end) = named else {
        return Ok(model);
    };
    let mut parts = model.into_parts();
    parts.attachments.retain(|a| a.tag != TAG);
    parts.attachments.push(Attachment {
        tag: TAG,
        bytes: front_end.to_string().into_bytes(),
    });
    Decoder::new(parts)
}
