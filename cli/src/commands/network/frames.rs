//! Signals as pictures: raw frames, or a directory of images.

use std::fs;
use std::path::{Path, PathBuf};

use betz::recording::arrays::{Samples, Values};
use betz::{Error, Result};

/// Frames of `height` × `width` bytes, one behind the other.
///
/// # Errors
/// `InvalidRecording` for a length that is not a whole number of frames.
pub(super) fn raw(path: &Path, (height, width): (usize, usize)) -> Result<Samples> {
    let bytes = fs::read(path).map_err(|e| Error::io("read", path, &e))?;
    let pixels = height.saturating_mul(width);
    if bytes.is_empty() || !bytes.len().is_multiple_of(pixels) {
        return Err(Error::recording(format!(
            "--frames: expected a whole number of frames of {height} × {width} bytes, got {} bytes",
            bytes.len()
        )));
    }
    Ok(Samples {
        shape: vec![bytes.len() / pixels, height, width],
        values: Values::U8(bytes),
    })
}

/// The binary grey images (`.pgm`, of 8 or 16 bits) of a directory, by the numbers in their names.
///
/// # Errors
/// A directory without one, and images of several sizes.
pub(super) fn images(folder: &Path) -> Result<Samples> {
    let entries = fs::read_dir(folder).map_err(|e| Error::io("read", folder, &e))?;
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::io("read", folder, &e))?.path();
        if path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("pgm"))
        {
            files.push(path);
        }
    }
    files.sort_by_cached_key(|path| natural(&path.to_string_lossy()));
    let mut first: Option<(usize, usize, bool)> = None;
    let (mut bytes, mut words) = (Vec::new(), Vec::new());
    for path in &files {
        let file = fs::read(path).map_err(|e| Error::io("read", path, &e))?;
        let image = Image::of(&file).map_err(|e| e.at(path.display()))?;
        let shape = (image.height, image.width, image.wide);
        let of = *first.get_or_insert(shape);
        if of != shape {
            return Err(Error::recording(format!(
                "{}: expected {} × {} pixels of {} bits as in the first image, got {} × {} of {}",
                path.display(),
                of.0,
                of.1,
                if of.2 { 16 } else { 8 },
                shape.0,
                shape.1,
                if shape.2 { 16 } else { 8 },
            )));
        }
        if image.wide {
            let (pairs, _) = image.pixels.as_chunks::<2>();
            words.extend(pairs.iter().map(|p| u16::from_be_bytes(*p)));
        } else {
            bytes.extend_from_slice(image.pixels);
        }
    }
    let Some((height, width, wide)) = first else {
        return Err(Error::recording(
            "expected a directory of images (.pgm), got none",
        ));
    };
    Ok(Samples {
        shape: vec![files.len(), height, width],
        values: if wide {
            Values::U16(words)
        } else {
            Values::U8(bytes)
        },
    })
}

/// A name in parts, so that frame 10 comes after frame 9.
fn natural(name: &str) -> Vec<(u128, String)> {
    let mut parts = vec![(0, String::new())];
    let mut digits = String::new();
    for c in name.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            parts.push((
                digits.parse().unwrap_or(u128::MAX),
                std::mem::take(&mut digits),
            ));
            parts.push((0, String::new()));
        }
        if let Some((_, text)) = parts.last_mut() {
            text.push(c);
        }
    }
    parts
}

struct Image<'a> {
    width: usize,
    height: usize,
    /// Two bytes per pixel, the high one first.
    wide: bool,
    pixels: &'a [u8],
}

impl<'a> Image<'a> {
    /// A binary PGM: `P5`, width, height and largest value parted by blanks and comments, one blank, pixels.
    fn of(file: &'a [u8]) -> Result<Self> {
        let wrong =
            |what: &str| Error::recording(format!("expected a binary PGM (P5), got {what}"));
        let Some(mut rest) = file.strip_prefix(b"P5") else {
            return Err(wrong("something else"));
        };
        let mut number = || -> Result<usize> {
            loop {
                match rest.first() {
                    Some(b'#') => {
                        let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                        rest = &rest[end..];
                    }
                    Some(b) if b.is_ascii_whitespace() => rest = &rest[1..],
                    _ => break,
                }
            }
            let end = rest
                .iter()
                .position(|b| !b.is_ascii_digit())
                .unwrap_or(rest.len());
            let text = std::str::from_utf8(&rest[..end]).unwrap_or("");
            rest = &rest[end..];
            text.parse()
                .map_err(|_| wrong("a head without its three numbers"))
        };
        let (width, height, most) = (number()?, number()?, number()?);
        let pixels = rest.get(1..).unwrap_or(&[]);
        let wide = most > 255;
        let bytes = height
            .checked_mul(width)
            .and_then(|n| n.checked_mul(1 + usize::from(wide)));
        if width == 0 || height == 0 || !(1..=65_535).contains(&most) || bytes != Some(pixels.len())
        {
            return Err(Error::recording(format!(
                "expected {height} × {width} pixels of at most {most}, got {} bytes",
                pixels.len()
            )));
        }
        Ok(Self {
            width,
            height,
            wide,
            pixels,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_come_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        for (name, grey) in [("f10.pgm", 3), ("f9.pgm", 2), ("f1.PGM", 1)] {
            let file = [b"P5 # a comment\n2 1\n255\n".as_slice(), &[grey, 0]].concat();
            fs::write(folder.path().join(name), file).unwrap();
        }
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        let samples = images(folder.path()).unwrap();
        assert_eq!(samples.shape, [3, 1, 2]);
        assert!(matches!(samples.values, Values::U8(v) if v == [1, 0, 2, 0, 3, 0]));
        fs::write(
            folder.path().join("f11.pgm"),
            b"P5 2 1 65535\n\x01\x02\x03\x04",
        )
        .unwrap();
        let error = images(folder.path()).err().unwrap();
        assert!(error.message().contains("got 1 × 2 of 16"), "{error}");
        let one = tempfile::tempdir().unwrap();
        assert!(images(one.path()).is_err());
        fs::write(one.path().join("f.pgm"), b"P5 2 1 65535\n\x01\x02\x03\x04").unwrap();
        let samples = images(one.path()).unwrap();
        assert!(matches!(samples.values, Values::U16(v) if v == [0x102, 0x304]));
        for wrong in [
            "",
            "P2 1 1 255\n1",
            "P5 2 2 255\n123",
            "P5 2 x",
            "P5 0 1 255\n",
            "P5 99999999999 99999999999 255\n",
        ] {
            fs::write(one.path().join("f.pgm"), wrong).unwrap();
            assert!(images(one.path()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn raw_frames_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("video.raw");
        fs::write(&path, [1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        assert_eq!(raw(&path, (1, 4)).unwrap().shape, [2, 1, 4]);
        assert!(raw(&path, (1, 3)).is_err() && raw(&path, (usize::MAX, 2)).is_err());
    }
}
