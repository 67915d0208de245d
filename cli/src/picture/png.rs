//! Pictures as PNG.

use std::path::Path;

use betz::{Error, ErrorKind, Result};
use png::{BitDepth, ColorType, Encoder, EncodingError, PixelDimensions, Unit};
use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::Tree;

use super::fault;
use crate::files::DRAWN_BY;

/// Pixels per point of the drawing: 192 per inch, so that text stays sharp on paper and on dense displays.
const SCALE: f32 = 2.0;
/// Points of a drawing per metre, at 96 per inch.
const PER_METRE: f32 = 96.0 / 0.0254;

/// `tree` on white, for the file at `path`, with a note inside.
pub(super) fn draw(tree: &Tree, note: Option<&str>, path: &Path) -> Result<Vec<u8>> {
    let size = tree.size();
    let [width, height] = [size.width(), size.height()].map(|side| (side * SCALE).ceil() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or_else(|| {
        Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "{}: expected a picture that fits into memory, got {width} x {height} pixels; write .svg or .pdf",
                path.display()
            ),
        )
    })?;
    pixels.fill(Color::WHITE);
    let scale = Transform::from_scale(SCALE, SCALE);
    resvg::render(tree, scale, &mut pixels.as_mut());
    // All pixels are opaque, so their colours are as they are drawn.
    let opaque = pixels.data().chunks_exact(4);
    let colours: Vec<u8> = opaque.flat_map(|p| [p[0], p[1], p[2]]).collect();
    encode(&colours, (width, height), Some(PER_METRE * SCALE), note).map_err(|e| fault(path, &e))
}

/// The file of an image of `width` × `height` pixels, each of three bytes, with how many there are per metre.
pub(crate) fn encode(
    colours: &[u8],
    (width, height): (u32, u32),
    per_metre: Option<f32>,
    note: Option<&str>,
) -> std::result::Result<Vec<u8>, EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_pixel_dims(per_metre.map(|per_metre| PixelDimensions {
        xppu: per_metre.round() as u32,
        yppu: per_metre.round() as u32,
        unit: Unit::Meter,
    }));
    encoder.add_text_chunk("Software".to_owned(), DRAWN_BY.to_owned())?;
    if let Some(note) = note {
        encoder.add_text_chunk("Comment".to_owned(), note.to_owned())?;
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(colours)?;
    writer.finish()?;
    Ok(bytes)
}
