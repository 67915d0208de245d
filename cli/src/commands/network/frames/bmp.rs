//! Windows bitmaps without compression: 8 bits with a palette, 24 and 32 bits.

use std::fs;
use std::path::Path;

use betz::{Error, Result};

use super::{Frame, Stack};

pub(super) fn read(path: &Path, stack: &mut Stack) -> Result<()> {
    let file = fs::read(path).map_err(|e| Error::io("read", path, &e))?;
    let image = decode(&file)?;
    stack.push(&Frame {
        width: image.width,
        height: image.height,
        channels: image.channels,
        samples: image.samples[..].into(),
    })
}

struct Image {
    width: usize,
    height: usize,
    channels: usize,
    samples: Vec<u8>,
}

fn decode(file: &[u8]) -> Result<Image> {
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?))
    };
    let header = || {
        Some((
            word(10)?,
            word(14)?,
            word(18)?,
            word(22)?,
            word(28)?,
            word(30)?,
        ))
    };
    let Some((offset, header, width, height, bits, packed)) = header() else {
        return Err(Error::recording(format!(
            "expected a bitmap, got {} bytes, fewer than its header has",
            file.len()
        )));
    };
    let bits = bits & 0xffff;
    // A negative height says that the top row comes first.
    let (top_first, height) = ((height as i32) < 0, (height as i32).unsigned_abs());
    if !file.starts_with(b"BM") || header < 40 || !matches!(bits, 8 | 24 | 32) || packed != 0 {
        return Err(Error::recording(format!(
            "expected a bitmap of 8, 24 or 32 bits without compression, got {bits} bits of compression {packed}"
        )));
    }
    let (width, height) = (width as usize, height as usize);
    let size = bits as usize / 8;
    let line = (width.checked_mul(size)).and_then(|line| line.checked_next_multiple_of(4));
    let bytes = line.and_then(|line| line.checked_mul(height));
    let all = file.get(offset as usize..).unwrap_or(&[]);
    let (Some(line), Some(bytes)) = (line, bytes.filter(|n| *n > 0 && *n <= all.len())) else {
        return Err(Error::recording(format!(
            "expected {width} × {height} pixels of {bits} bits, got {} bytes",
            all.len()
        )));
    };
    let palette = if bits == 8 {
        let used = word(46)
            .filter(|used| (1..=256).contains(used))
            .unwrap_or(256) as usize;
        let at = 14 + header as usize;
        let entries = at.checked_add(4 * used).and_then(|end| file.get(at..end));
        let (entries, _) = entries.unwrap_or(&[]).as_chunks::<4>();
        entries.iter().map(|[b, g, r, _]| [*r, *g, *b]).collect()
    } else {
        Vec::new()
    };
    let grey = bits == 8 && palette.iter().all(|[r, g, b]| r == g && g == b);
    let channels = if grey { 1 } else { 3 };
    let mut samples = Vec::new();
    let rows = all[..bytes].chunks_exact(line);
    let mut take = |row: &[u8]| -> Result<()> {
        for pixel in row[..width * size].chunks_exact(size) {
            let rgb = match *pixel {
                [at] => *palette.get(usize::from(at)).ok_or_else(|| {
                    Error::recording(format!(
                        "expected a palette of more than {at} colours, got {}",
                        palette.len()
                    ))
                })?,
                [b, g, r, ..] => [r, g, b],
                _ => [0; 3],
            };
            samples.extend_from_slice(&rgb[..channels]);
        }
        Ok(())
    };
    if top_first {
        rows.into_iter().try_for_each(&mut take)?;
    } else {
        rows.rev().try_for_each(&mut take)?;
    }
    Ok(Image {
        width,
        height,
        channels,
        samples,
    })
}
