//! PNG of any depth, grey or in colour, with a palette or without. Transparency is left out.

use std::io::BufReader;
use std::path::Path;

use betz::{Error, Result, memory};

use super::{Frame, Stack};

pub(super) fn read(path: &Path, stack: &mut Stack) -> Result<()> {
    let wrong = |e: ::png::DecodingError| Error::recording(format!("expected a PNG ({e})"));
    let mut decoder = ::png::Decoder::new(BufReader::new(betz::file::open_file(path)?));
    // Palettes become colours, and levels of fewer than 8 bits bytes.
    decoder.set_transformations(::png::Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(wrong)?;
    let size = reader.output_buffer_size().ok_or_else(|| {
        Error::recording("expected an image that memory can hold, got a larger one")
    })?;
    memory::plan("the image", size as u128)?;
    let mut bytes = memory::filled("the image", 0_u8, size)?;
    let info = reader.next_frame(&mut bytes).map_err(wrong)?;
    let stored = info.color_type.samples();
    let channels = if stored < 3 { 1 } else { 3 };
    let bytes = &bytes[..info.buffer_size()];
    let (narrow, wide): (Vec<u8>, Vec<u16>);
    let samples = if info.bit_depth == ::png::BitDepth::Sixteen {
        let (pairs, _) = bytes.as_chunks::<2>();
        let words: Vec<u16> = pairs.iter().map(|p| u16::from_be_bytes(*p)).collect();
        wide = opaque(&words, stored, channels);
        wide[..].into()
    } else {
        narrow = opaque(bytes, stored, channels);
        narrow[..].into()
    };
    stack.push(&Frame {
        width: info.width as usize,
        height: info.height as usize,
        channels,
        samples,
    })
}

/// The first `channels` of every `stored` samples.
pub(super) fn opaque<T: Copy>(samples: &[T], stored: usize, channels: usize) -> Vec<T> {
    (samples.chunks_exact(stored))
        .flat_map(|pixel| &pixel[..channels])
        .copied()
        .collect()
}
