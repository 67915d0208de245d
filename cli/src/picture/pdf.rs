//! Pictures as PDF: one page, with text that can be searched and copied.

use std::path::Path;

use betz::Result;
use krilla::geom::Size;
use krilla::metadata::Metadata;
use krilla::page::PageSettings;
use krilla_svg::{SurfaceExt, SvgSettings};
use resvg::usvg::Tree;

use super::fault;
use crate::files::DRAWN_BY;

/// Points of a page, of which an inch has 72, per point of a drawing, of which it has 96.
const SCALE: f32 = 0.75;

/// `tree` on a page of its size, for the file at `path`, with a note inside.
pub(super) fn draw(tree: &Tree, note: Option<&str>, path: &Path) -> Result<Vec<u8>> {
    let (width, height) = (tree.size().width() * SCALE, tree.size().height() * SCALE);
    let size = Size::from_wh(width, height).ok_or_else(|| fault(path, &"no size"))?;
    let mut document = krilla::Document::new();
    let mut metadata = Metadata::new().creator(DRAWN_BY.to_owned());
    if let Some(note) = note {
        metadata = metadata.description(note.to_owned());
    }
    document.set_metadata(metadata);
    let mut page = document.start_page_with(PageSettings::new(size));
    let mut surface = page.surface();
    let drawn = surface.draw_svg(tree, size, SvgSettings::default());
    surface.finish();
    page.finish();
    drawn.ok_or_else(|| fault(path, &"the drawing could not be laid out"))?;
    document
        .finish()
        .map_err(|e| fault(path, &format!("{e:?}")))
}
