//! Pictures as files. Commands draw SVG; the file's ending decides if that is written as it is, or as PNG or PDF.

#[cfg(feature = "pictures")]
mod font;
#[cfg(feature = "pictures")]
mod pdf;
#[cfg(feature = "pictures")]
pub(crate) mod png;

use std::io::Write;
use std::path::Path;

#[cfg(feature = "pictures")]
use betz::ErrorKind;
use betz::file::write_atomically;
use betz::{Error, Result};

use crate::files::{DRAWN, INCOMPLETE, is_partial};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Svg,
    Png,
    Pdf,
}

impl Format {
    /// The format of a picture at `path`, by its ending: that of `x.png.partial` is PNG. A pipe or a device, which has
    /// no ending, takes SVG.
    fn of(path: &Path) -> Self {
        let whole = if is_partial(path) {
            path.with_extension("")
        } else {
            path.to_owned()
        };
        let ending = whole.extension().and_then(|e| e.to_str()).unwrap_or("");
        match ending.to_ascii_lowercase().as_str() {
            "png" => Self::Png,
            "pdf" => Self::Pdf,
            _ => Self::Svg,
        }
    }
}

/// Writes a picture to `path` in the format of its ending; a partial one says inside that it is incomplete.
pub(crate) fn write(path: &Path, svg: &str) -> Result<()> {
    let incomplete = is_partial(path).then_some(INCOMPLETE);
    match Format::of(path) {
        Format::Svg => write_svg(path, svg, incomplete),
        format => write_rendered(path, svg, incomplete, format),
    }
}

/// Writes a picture as PNG or PDF.
#[cfg(feature = "pictures")]
fn write_rendered(path: &Path, svg: &str, incomplete: Option<&str>, format: Format) -> Result<()> {
    let tree = font::lay_out(path, svg)?;
    let bytes = match format {
        Format::Pdf => pdf::draw(&tree, incomplete, path)?,
        _ => png::draw(&tree, incomplete, path)?,
    };
    write_atomically(path, |file| file.write_all(&bytes))
}

/// Refuses a picture that this build cannot write.
#[cfg(not(feature = "pictures"))]
fn write_rendered(path: &Path, _: &str, _: Option<&str>, _: Format) -> Result<()> {
    Err(Error::argument(format!(
        "{}: expected a picture that ends in .svg, because this build of betz only decodes; a build with every floor writes .png and .pdf",
        path.display()
    )))
}

fn write_svg(path: &Path, svg: &str, incomplete: Option<&str>) -> Result<()> {
    write_atomically(path, |file| {
        writeln!(file, "{DRAWN}")?;
        file.write_all(svg.as_bytes())?;
        if let Some(note) = incomplete {
            writeln!(file, "<!-- {note} -->")?;
        }
        Ok(())
    })
}

/// The error of a drawing that does not become a file.
#[cfg(feature = "pictures")]
fn fault(path: &Path, why: &dyn std::fmt::Display) -> Error {
    let message = format!("drawing {}: {why}", path.display());
    Error::new(ErrorKind::Internal, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_the_format() {
        for (name, format) in [
            ("a.svg", Format::Svg),
            ("a.PNG", Format::Png),
            ("a.b.pdf", Format::Pdf),
            ("a.png.partial", Format::Png),
            ("/dev/stdout", Format::Svg),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
    }
}
