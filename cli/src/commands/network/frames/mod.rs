//! Signals as pictures: raw frames, a folder of images, a TIFF of many pages, or a video.

mod bmp;
mod ffmpeg;
mod pgm;
mod png;
mod tiff;
mod view;

use std::fs;
use std::path::{Path, PathBuf};

use betz::network::file::Positions;
use betz::recording::arrays::{Samples, Values};
use betz::{Error, ErrorKind, Result};

pub(crate) use view::Channel;
pub(super) use view::View;

/// Endings of images that a folder may hold.
const IMAGES: [&str; 6] = ["bmp", "pgm", "png", "ppm", "tif", "tiff"];

/// Endings of videos that ffmpeg decodes.
const VIDEOS: [&str; 9] = [
    "avi", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "webm", "wmv",
];

/// A picture, row by row.
pub(super) struct Frame<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Samples per pixel: 1 (grey), or 3 (red, green, blue).
    pub(super) channels: usize,
    pub(super) samples: FrameSamples<'a>,
}

/// Samples of a frame, of the type that its file has.
#[derive(Clone, Copy)]
pub(super) enum FrameSamples<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
    I16(&'a [i16]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl FrameSamples<'_> {
    fn len(self) -> usize {
        match self {
            Self::U8(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
        }
    }

    fn at(self, at: usize) -> f64 {
        match self {
            Self::U8(v) => f64::from(v[at]),
            Self::U16(v) => f64::from(v[at]),
            Self::I16(v) => f64::from(v[at]),
            Self::F32(v) => f64::from(v[at]),
            Self::F64(v) => v[at],
        }
    }
}

macro_rules! of_numbers {
    ($($kind:ident of $number:ty),*) => {$(
        impl<'a> From<&'a [$number]> for FrameSamples<'a> {
            fn from(samples: &'a [$number]) -> Self {
                Self::$kind(samples)
            }
        }
    )*};
}
of_numbers!(U8 of u8, U16 of u16, I16 of i16, F32 of f32, F64 of f64);

/// The signal that a view makes of frames.
pub(super) struct Pixels {
    /// (frames, pixels).
    pub(super) samples: Samples,
    /// Place of each pixel, in pixels of the frame.
    pub(super) positions: Positions,
    /// Time from frame to frame, if the file gives it.
    pub(super) sample_seconds: Option<f64>,
}

/// True if `path` is read as frames, and not as an array or a table.
pub(super) fn holds(path: &Path) -> bool {
    path.is_dir() || ends(path, &IMAGES) || ends(path, &VIDEOS)
}

fn ends(path: &Path, endings: &[&str]) -> bool {
    let of = path.extension();
    of.is_some_and(|of| endings.iter().any(|e| of.eq_ignore_ascii_case(e)))
}

/// The frames of a folder, an image or a video.
///
/// # Errors
/// A folder without images, or with images of several formats or sizes; a file that cannot be decoded, with file and
/// frame.
pub(super) fn read(path: &Path, view: View) -> Result<Pixels> {
    let mut stack = Stack::new(view);
    let mut sample_seconds = None;
    if path.is_dir() {
        for file in images(path)? {
            image(&file, &mut stack)?;
        }
    } else if ends(path, &VIDEOS) {
        sample_seconds = ffmpeg::read(path, &mut stack)?;
    } else {
        image(path, &mut stack)?;
    }
    let mut pixels = stack.finish()?;
    pixels.sample_seconds = sample_seconds;
    Ok(pixels)
}

/// Frames of `height` × `width` bytes, one behind the other.
///
/// # Errors
/// `InvalidRecording` for a length that is not a whole number of frames.
pub(super) fn raw(path: &Path, (height, width): (usize, usize), view: View) -> Result<Pixels> {
    let bytes = fs::read(path).map_err(|e| Error::io("read", path, &e))?;
    let pixels = height.saturating_mul(width);
    if bytes.is_empty() || !bytes.len().is_multiple_of(pixels) {
        return Err(Error::recording(format!(
            "--frames: expected a whole number of frames of {height} × {width} bytes, got {} bytes",
            bytes.len()
        )));
    }
    array(
        Samples {
            shape: vec![bytes.len() / pixels, height, width],
            values: Values::U8(bytes),
        },
        view,
    )
}

/// Frames as an array: (frames, height, width), or (frames, height, width, 3) in red, green and blue.
///
/// # Errors
/// Another shape; a view that does not fit.
pub(super) fn array(samples: Samples, view: View) -> Result<Pixels> {
    let (height, width, channels) = match samples.shape[..] {
        [_, height, width] => (height, width, 1),
        [_, height, width, 3] => (height, width, 3),
        _ => {
            return Err(Error::recording(format!(
                "expected (frames, height, width) or (frames, height, width, 3), got {:?}",
                samples.shape
            )));
        }
    };
    if view.is_whole() && channels == 1 {
        // Nothing is copied.
        let pixels = height * width;
        return Ok(Pixels {
            positions: view.positions(width, height),
            samples: Samples {
                shape: vec![samples.shape[0], pixels],
                values: samples.values,
            },
            sample_seconds: None,
        });
    }
    let mut stack = Stack::new(view);
    let size = height * width * channels;
    macro_rules! frames {
        ($of:expr) => {
            for samples in $of.chunks_exact(size.max(1)) {
                stack.push(&Frame {
                    width,
                    height,
                    channels,
                    samples: samples.into(),
                })?;
            }
        };
    }
    match &samples.values {
        Values::U8(v) => frames!(v),
        Values::U16(v) => frames!(v),
        Values::I16(v) => frames!(v),
        Values::F32(v) => frames!(v),
        Values::F64(v) => frames!(v),
    }
    stack.finish()
}

/// The images of a folder, all of one format, by the numbers in their names.
///
/// # Errors
/// A folder that cannot be read, without images or with images of several formats.
fn images(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|e| Error::io("read", folder, &e))?;
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::io("read", folder, &e))?.path();
        if ends(&path, &IMAGES) && path.is_file() {
            files.push(path);
        }
    }
    files.sort_by_cached_key(|path| natural(&path.to_string_lossy()));
    let Some(first) = files.first() else {
        return Err(Error::recording(
            "expected a folder of images (.png, .tif, .bmp, .pgm or .ppm), got none",
        ));
    };
    if let Some(other) = files.iter().find(|path| format(path) != format(first)) {
        return Err(Error::recording(format!(
            "expected images of one format, got {} and {}",
            first.file_name().unwrap_or_default().display(),
            other.file_name().unwrap_or_default().display()
        )));
    }
    Ok(files)
}

/// True if a folder's file of this name is one of its frames.
pub(super) fn is_image(path: &Path) -> bool {
    ends(path, &IMAGES)
}

/// The format that an ending stands for.
fn format(path: &Path) -> String {
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    match ending.to_ascii_lowercase().as_str() {
        "tif" => "tiff".to_owned(),
        "ppm" => "pgm".to_owned(),
        ending => ending.to_owned(),
    }
}

/// Adds the frames of an image to `stack`.
pub(super) fn image(path: &Path, stack: &mut Stack) -> Result<()> {
    match format(path).as_str() {
        "bmp" => bmp::read(path, stack),
        "png" => png::read(path, stack),
        "tiff" => tiff::read(path, stack),
        _ => pgm::read(path, stack),
    }
    .map_err(|e| {
        let named = e.message().contains(&*path.to_string_lossy());
        // A view that does not fit the frame is the caller's.
        let of_view = e.kind() == ErrorKind::InvalidArgument;
        if named || of_view {
            e
        } else {
            e.at(path.display())
        }
    })
}

/// A name in parts, so that frame 10 comes after frame 9.
pub(super) fn natural(name: &str) -> Vec<(u128, String)> {
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

/// Size and kind of a frame.
#[derive(Clone, Copy, PartialEq)]
struct Shape {
    width: usize,
    height: usize,
    channels: usize,
    kind: &'static str,
}

impl Shape {
    fn of(frame: &Frame<'_>) -> Self {
        Self {
            width: frame.width,
            height: frame.height,
            channels: frame.channels,
            kind: match frame.samples {
                FrameSamples::U8(_) => "8 bits",
                FrameSamples::U16(_) => "16 bits",
                FrameSamples::I16(_) => "16 bits with a sign",
                FrameSamples::F32(_) => "32-bit floats",
                FrameSamples::F64(_) => "64-bit floats",
            },
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let colour = if self.channels == 1 {
            "grey"
        } else {
            "red, green and blue"
        };
        write!(
            f,
            "{} × {} pixels (width × height) in {colour} of {}",
            self.width, self.height, self.kind
        )
    }
}

/// Frames of one size, as a view has them, one behind the other.
pub(super) struct Stack {
    view: View,
    first: Option<Shape>,
    frames: usize,
    values: Option<Values>,
}

impl Stack {
    pub(super) fn new(view: View) -> Self {
        Self {
            view,
            first: None,
            frames: 0,
            values: None,
        }
    }

    /// The values of the frames since the last call, one behind the other.
    pub(super) fn take_values(&mut self) -> Option<Values> {
        self.values.take()
    }

    /// Positions of the nodes; `None` before the first frame.
    pub(super) fn positions(&self) -> Option<Positions> {
        let first = self.first?;
        Some(self.view.positions(first.width, first.height))
    }

    /// Number of frames so far.
    fn frames(&self) -> usize {
        self.frames
    }

    /// Adds a frame.
    ///
    /// # Errors
    /// A frame unlike the first, or samples that are no whole frame; a view that does not fit it; no memory.
    pub(super) fn push(&mut self, frame: &Frame<'_>) -> Result<()> {
        let shape = Shape::of(frame);
        let first = *self.first.get_or_insert(shape);
        if first != shape {
            return Err(Error::recording(format!(
                "frame {}: expected {first} as in frame 0, got {shape}",
                self.frames
            )));
        }
        let samples = (frame.width.checked_mul(frame.height))
            .and_then(|pixels| pixels.checked_mul(frame.channels));
        let got = frame.samples.len();
        if samples != Some(got) || got == 0 {
            return Err(Error::recording(format!(
                "frame {}: expected {shape}, got {got} samples",
                self.frames
            )));
        }
        self.view.take(frame, &mut self.values)?;
        self.frames += 1;
        Ok(())
    }

    fn finish(self) -> Result<Pixels> {
        let (Some(first), Some(values)) = (self.first, self.values) else {
            return Err(Error::recording("expected a frame, got none"));
        };
        let positions = self.view.positions(first.width, first.height);
        Ok(Pixels {
            samples: Samples {
                shape: vec![self.frames, positions.values.len() / 2],
                values,
            },
            positions,
            sample_seconds: None,
        })
    }
}

#[cfg(test)]
mod tests;
