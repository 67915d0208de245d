//! Binary PGM and PPM: grey, or red, green and blue, of 8 or 16 bits.

use std::fs;
use std::path::Path;

use betz::{Error, Result};

use super::{Frame, Stack};

pub(super) fn read(path: &Path, stack: &mut Stack) -> Result<()> {
    let file = fs::read(path).map_err(|e| Error::io("read", path, &e))?;
    let image = Image::of(&file)?;
    let words: Vec<u16>;
    let samples = if image.wide {
        let (pairs, _) = image.pixels.as_chunks::<2>();
        words = pairs.iter().map(|p| u16::from_be_bytes(*p)).collect();
        words[..].into()
    } else {
        image.pixels.into()
    };
    stack.push(&Frame {
        width: image.width,
        height: image.height,
        channels: image.channels,
        samples,
    })
}

struct Image<'a> {
    width: usize,
    height: usize,
    channels: usize,
    /// Two bytes per sample, the high one first.
    wide: bool,
    pixels: &'a [u8],
}

impl<'a> Image<'a> {
    /// `P5` or `P6`, width, height and largest value parted by blanks and comments, one blank, pixels.
    fn of(file: &'a [u8]) -> Result<Self> {
        let wrong = |what: &str| {
            Error::recording(format!(
                "expected a binary PGM (P5) or PPM (P6), got {what}"
            ))
        };
        let (channels, mut rest) = match (file.strip_prefix(b"P5"), file.strip_prefix(b"P6")) {
            (Some(rest), _) => (1, rest),
            (_, Some(rest)) => (3, rest),
            _ => return Err(wrong("something else")),
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
            .and_then(|n| n.checked_mul(channels * (1 + usize::from(wide))));
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
            channels,
            wide,
            pixels,
        })
    }
}
