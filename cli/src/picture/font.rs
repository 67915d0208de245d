//! The font of pictures' text. A machine may have no fonts, so one is part of the program; the machine's own serve the
//! characters that it lacks.

use std::path::Path;
use std::sync::Arc;

use betz::Result;
use resvg::usvg::{self, Group, Node, Text, fontdb};

use super::fault;

/// A subset of DejaVu Sans: Latin, Greek, Cyrillic and symbols. Its licence is beside it.
const DATA: &[u8] = include_bytes!("DejaVuSans.ttf");
/// The name of the font inside the file.
const FAMILY: &str = "DejaVu Sans";

/// The shapes and glyphs of `svg`, which goes to `path`. Says which characters no font has.
pub(super) fn lay_out(path: &Path, svg: &str) -> Result<usvg::Tree> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(DATA.to_vec());
    for set in [
        fontdb::Database::set_sans_serif_family,
        fontdb::Database::set_serif_family,
        fontdb::Database::set_monospace_family,
    ] {
        set(&mut fonts, FAMILY);
    }
    let tree = parse(path, svg, &fonts)?;
    if without_glyph(tree.root()).is_empty() {
        return Ok(tree);
    }
    fonts.load_system_fonts();
    let tree = parse(path, svg, &fonts)?;
    let missing = without_glyph(tree.root());
    if !missing.is_empty() {
        eprintln!(
            "warning: {}: no font of this machine has {missing}, drawn as boxes; install a font that has them, or write \
             .svg, which is drawn with the viewer's fonts",
            path.display()
        );
    }
    Ok(tree)
}

fn parse(path: &Path, svg: &str, fonts: &fontdb::Database) -> Result<usvg::Tree> {
    let options = usvg::Options {
        font_family: FAMILY.to_owned(),
        fontdb: Arc::new(fonts.clone()),
        ..usvg::Options::default()
    };
    usvg::Tree::from_str(svg, &options).map_err(|e| fault(path, &e))
}

/// Characters of texts in `group` that no font has, each once.
fn without_glyph(group: &Group) -> String {
    let mut missing = String::new();
    for_each_text(group, &mut |text| {
        for glyph in text.layouted().iter().flat_map(|s| &s.positioned_glyphs) {
            if glyph.id.0 == 0 && !missing.contains(&glyph.text) {
                missing += &glyph.text;
            }
        }
    });
    missing
}

fn for_each_text(group: &Group, on: &mut impl FnMut(&Text)) {
    for node in group.children() {
        match node {
            Node::Group(inner) => for_each_text(inner, on),
            Node::Text(text) => on(text),
            Node::Path(_) | Node::Image(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_of_our_pictures_has_a_glyph() {
        let svg = |words: &str| {
            format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"><text>{words}</text></svg>"
            )
        };
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(DATA.to_vec());
        let missing = |words: &str| {
            without_glyph(
                parse(Path::new("x.png"), &svg(words), &fonts)
                    .unwrap()
                    .root(),
            )
        };
        assert_eq!(
            missing("0123 aZ R² ° − → µ – · × σ λ Γ Υ é ß Ł ж … ≤ ≥ ± ∞"),
            ""
        );
        assert_eq!(missing("a 日 b 日"), "日");
    }
}
