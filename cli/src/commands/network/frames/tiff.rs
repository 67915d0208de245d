//! TIFF of any number of pages: 8 or 16 bits, with a sign or without, or floats; grey, or in colour with the
//! samples of a pixel together. Transparency beside colours is left out.

use std::io::BufReader;
use std::path::Path;

use ::tiff::ColorType;
use ::tiff::decoder::{Decoder, DecodingResult};
use betz::{Error, Result};

use super::png::opaque;
use super::{Frame, FrameSamples, Stack};

pub(super) fn read(path: &Path, stack: &mut Stack) -> Result<()> {
    let wrong = |page: usize, e: &dyn std::fmt::Display| {
        Error::recording(format!("page {page}: expected a TIFF ({e})"))
    };
    let file = BufReader::new(betz::file::open_file(path)?);
    let mut decoder = Decoder::new(file).map_err(|e| wrong(0, &e))?;
    let mut page = 0;
    loop {
        let colour = decoder.colortype().map_err(|e| wrong(page, &e))?;
        let channels = match colour {
            ColorType::Gray(_) | ColorType::GrayA(_) => 1,
            ColorType::RGB(_) | ColorType::RGBA(_) => 3,
            other => {
                return Err(Error::recording(format!(
                    "page {page}: expected grey, or red, green and blue, got {other:?}"
                )));
            }
        };
        if !matches!(colour.bit_depth(), 8 | 16 | 32 | 64) {
            return Err(Error::recording(format!(
                "page {page}: expected 8, 16, 32 or 64 bits per sample, got {}",
                colour.bit_depth()
            )));
        }
        let (width, height) = decoder.dimensions().map_err(|e| wrong(page, &e))?;
        let size = (width as usize, height as usize, channels);
        let image = decoder.read_image().map_err(|e| wrong(page, &e))?;
        let pushed = match &image {
            DecodingResult::U8(v) => push(stack, size, v),
            DecodingResult::U16(v) => push(stack, size, v),
            DecodingResult::I8(v) => {
                let wide: Vec<i16> = v.iter().map(|v| i16::from(*v)).collect();
                push(stack, size, &wide)
            }
            DecodingResult::I16(v) => push(stack, size, v),
            DecodingResult::F32(v) => push(stack, size, v),
            DecodingResult::F64(v) => push(stack, size, v),
            DecodingResult::U32(v) => {
                let wide: Vec<f64> = v.iter().map(|v| f64::from(*v)).collect();
                push(stack, size, &wide)
            }
            DecodingResult::I32(v) => {
                let wide: Vec<f64> = v.iter().map(|v| f64::from(*v)).collect();
                push(stack, size, &wide)
            }
            _ => Err(Error::recording(
                "expected whole numbers of up to 32 bits, or floats of 32 or 64 bits, got others",
            )),
        };
        pushed.map_err(|e| match e.kind() {
            betz::ErrorKind::InvalidArgument => e,
            _ => e.at(format_args!("page {page}")),
        })?;
        if !decoder.more_images() {
            return Ok(());
        }
        page += 1;
        decoder.next_image().map_err(|e| wrong(page, &e))?;
    }
}

fn push<'a, T: Copy>(
    stack: &mut Stack,
    (width, height, channels): (usize, usize, usize),
    samples: &'a [T],
) -> Result<()>
where
    for<'b> FrameSamples<'b>: From<&'b [T]>,
{
    // Of transparency there may be one sample per pixel.
    let pixels = width.saturating_mul(height).max(1);
    let stored = samples.len() / pixels;
    let kept;
    let samples = if stored == channels + 1 && samples.len() == stored * pixels {
        kept = opaque(samples, stored, channels);
        &kept[..]
    } else {
        samples
    };
    stack.push(&Frame {
        width,
        height,
        channels,
        samples: samples.into(),
    })
}
