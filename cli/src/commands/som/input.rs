//! Samples for a map, from arrays and pictures.

use std::io::{BufReader, Read};
use std::path::Path;

use betz::recording::arrays::Arrays;
use betz::{Error, Result, memory};

/// Samples, row by row.
pub(super) struct Data {
    pub(super) values: Vec<f32>,
    pub(super) dims: usize,
}

/// Most pixels of a picture.
const MOST_PIXELS: u64 = 1 << 28;

pub(super) fn read(path: &Path, array: Option<&str>) -> Result<Data> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    let picture = match ending.to_ascii_lowercase().as_str() {
        "png" => png(path)?,
        "bmp" => bmp(path)?,
        _ => return arrays(path, array),
    };
    match array {
        Some(name) => Err(Error::argument(format!(
            "--array {name}: expected an .npz, got a picture"
        ))),
        None => Ok(picture),
    }
}

fn arrays(path: &Path, array: Option<&str>) -> Result<Data> {
    let mut arrays = Arrays::open(path)?;
    let name = match array {
        Some(name) => name.to_owned(),
        None => {
            let usual = ["data", "signal"].into_iter().find(|n| arrays.has(n));
            let names = arrays.names();
            match (usual, names.as_slice()) {
                (Some(name), _) => name.to_owned(),
                (None, [only]) => only.clone(),
                (None, several) => {
                    return Err(Error::argument(format!(
                        "--array: expected the name of one of {}",
                        several.join(", ")
                    )));
                }
            }
        }
    };
    let numbers = arrays.numbers::<f32>(&name, 2)?.ok_or_else(|| {
        Error::argument(format!(
            "{}: expected an array `{name}`, got none",
            path.display()
        ))
    })?;
    Ok(Data {
        dims: numbers.shape[1],
        values: numbers.values,
    })
}

fn bad(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::recording(format!("{}: {what}", path.display()))
}

fn png(path: &Path) -> Result<Data> {
    let file = betz::file::open_file(path)?;
    let mut decoder = png::Decoder::new(BufReader::new(file));
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(|e| bad(path, e))?;
    let pixels = u64::from(reader.info().width) * u64::from(reader.info().height);
    if pixels > MOST_PIXELS {
        return Err(bad(
            path,
            format!("expected at most {MOST_PIXELS} pixels, got {pixels}"),
        ));
    }
    let size = reader.output_buffer_size().ok_or_else(|| {
        bad(
            path,
            "expected a picture that memory can hold, got a larger one",
        )
    })?;
    memory::plan("the picture", size as u128 + 12 * u128::from(pixels))?;
    let mut bytes = memory::filled("the picture", 0_u8, size)?;
    let frame = reader.next_frame(&mut bytes).map_err(|e| bad(path, e))?;
    let bytes = &bytes[..frame.buffer_size()];
    let values = match frame.color_type {
        png::ColorType::Rgb => bytes.iter().map(|b| level(*b)).collect(),
        png::ColorType::Rgba => bytes
            .chunks_exact(4)
            .flat_map(|p| [0, 1, 2].map(|i| level(p[i])))
            .collect(),
        png::ColorType::Grayscale => bytes.iter().flat_map(|b| [level(*b); 3]).collect(),
        png::ColorType::GrayscaleAlpha => bytes
            .chunks_exact(2)
            .flat_map(|p| [level(p[0]); 3])
            .collect(),
        png::ColorType::Indexed => {
            return Err(bad(path, "expected colours, got indices of a palette"));
        }
    };
    Ok(Data { values, dims: 3 })
}

fn level(byte: u8) -> f32 {
    f32::from(byte) / 255.0
}

/// A Windows bitmap of 24 bits without compression, in the order of the file (the bottom row first), as Galbraith
/// 2010 presents it; its listings take a sample beyond the last, which is no pixel.
fn bmp(path: &Path) -> Result<Data> {
    let mut file = betz::file::open_file(path)?;
    let mut bytes = Vec::new();
    let most = 54 + 4 * MOST_PIXELS;
    let read = (&mut file).take(most).read_to_end(&mut bytes);
    read.map_err(|e| Error::io("reading", path, &e))?;
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    };
    let (Some(offset), Some(width), Some(height), Some(kind), Some(packed)) =
        (word(10), word(18), word(22), word(26), word(30))
    else {
        return Err(bad(
            path,
            "expected a bitmap, got a file that ends in its header",
        ));
    };
    let (width, height) = (u64::from(width), u64::from((height as i32).unsigned_abs()));
    if !bytes.starts_with(b"BM") || kind >> 16 != 24 || packed != 0 || width == 0 || height == 0 {
        return Err(bad(
            path,
            "expected a bitmap of 24 bits without compression",
        ));
    }
    if width.saturating_mul(height) > MOST_PIXELS {
        return Err(bad(
            path,
            format!("expected at most {MOST_PIXELS} pixels, got {width} x {height}"),
        ));
    }
    let line = (3 * width as usize).next_multiple_of(4);
    let all = bytes.get(offset as usize..).unwrap_or(&[]);
    if all.len() < line * height as usize {
        return Err(bad(
            path,
            format!(
                "expected {width} x {height} pixels, got {} bytes of them",
                all.len()
            ),
        ));
    }
    let mut values = memory::room("the picture", (3 * width * height) as usize)?;
    for row in all.chunks_exact(line).take(height as usize) {
        for pixel in row[..3 * width as usize].chunks_exact(3) {
            values.extend([level(pixel[2]), level(pixel[1]), level(pixel[0])]);
        }
    }
    Ok(Data { values, dims: 3 })
}
