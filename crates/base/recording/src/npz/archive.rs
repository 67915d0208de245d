//! A `.npz` archive: a zip of named `.npy` arrays, read and written one array at a time.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::header::Header;
use super::npy;
use super::number::{Element, Number};
use betz_base::error::{Error, Result};
use betz_base::file::read_all;

/// Deflate never shrinks data by more than this factor.
const MAX_DEFLATE_RATIO: u64 = 1032;

/// An open archive.
pub(super) struct Archive {
    zip: ZipArchive<Box<dyn Source>>,
}

/// A seekable source of a zip: its directory is at its end, so a pipe does not work.
trait Source: Read + Seek {}
impl<T: Read + Seek> Source for T {}

/// The kind of a file of Betz's own that is no recording, by how it begins.
fn own_kind(path: &Path) -> Option<&'static str> {
    let mut start = [0; 8];
    if !path.metadata().is_ok_and(|m| m.is_file()) {
        return None;
    }
    File::open(path).ok()?.read_exact(&mut start).ok()?;
    match &start {
        b"BETZMODL" => Some("a Betz model"),
        b"BETZSUMS" => Some("sums of Betz"),
        b"BETZSORT" => Some("a Betz sorter"),
        other if other.starts_with(b"BETZ") => Some("another file of Betz"),
        _ => None,
    }
}

/// The likely content of a file that is no whole archive.
fn refused_content(path: &Path, error: &str) -> String {
    let mut start = [0; 8];
    let bytes = path.metadata().map_or(0, |m| m.len());
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    let start = &start[..read.unwrap_or(0)];
    if path.metadata().is_ok_and(|m| m.is_file()) && bytes == 0 {
        return "an empty file".to_owned();
    }
    if start.starts_with(b"PK") {
        return format!("one that was cut short or damaged ({error}); copy the file again");
    }
    format!(
        "a file of another kind, which begins with \"{}\"; betz convert reads CSV and NWB",
        start.escape_ascii()
    )
}

impl Archive {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let io = |e: io::Error| Error::io("reading", path, &e);
        let source: Box<dyn Source> = if path.metadata().is_ok_and(|m| m.is_file()) {
            let file = File::open(path).map_err(io)?;
            Box::new(BufReader::with_capacity(1 << 18, file))
        } else {
            Box::new(io::Cursor::new(read_all(path, Some(b"PK"))?))
        };
        let zip = ZipArchive::new(source).map_err(|e| {
            let got = match own_kind(path) {
                Some(kind) => format!("{kind}; give the recording that it belongs to"),
                None => refused_content(path, &e.to_string()),
            };
            Error::recording(format!("expected a .npz archive, got {got}"))
        })?;
        Ok(Self { zip })
    }

    /// Names of the arrays in the archive, if they can be read.
    pub(super) fn names(&self) -> impl Iterator<Item = String> + '_ {
        let files = self.zip.file_names().filter_map(|name| name.ok());
        files.map(|name| name.strip_suffix(".npy").unwrap_or(&name).to_owned())
    }

    /// True if the archive contains `array`.
    pub(super) fn has(&self, array: &str) -> bool {
        self.zip.index_for_name(&format!("{array}.npy")).is_some()
    }

    /// Opens `array` and passes its header, data and likely size in bytes to `read`; `None` if the archive has no such
    /// array. Errors name the array.
    pub(super) fn with<R>(
        &mut self,
        array: &str,
        read: impl FnOnce(&Header, &mut dyn Read, usize) -> Result<R>,
    ) -> Result<Option<R>> {
        if !self.has(array) {
            return Ok(None);
        }
        let inner = || {
            let mut member = self.zip.by_name(&format!("{array}.npy")).map_err(|e| {
                Error::recording(format!(
                    "damaged archive: expected arrays that can be read, got: {e}"
                ))
            })?;
            // Neither size can be trusted. Together with the largest ratio of deflate, they limit the memory to reserve
            // before the data arrive.
            let likely = member
                .size()
                .min(member.compressed_size().saturating_mul(MAX_DEFLATE_RATIO))
                .min(1 << 32);
            let header = Header::read(&mut member)?;
            read(&header, &mut member, likely as usize)
        };
        inner()
            .map(Some)
            .map_err(|e| e.at(format_args!("array `{array}`")))
    }

    /// Reads `array` of element type `T` and `dims` dimensions, in C order; `None` if it does not exist.
    pub(super) fn read<T: Number>(
        &mut self,
        array: &str,
        dims: usize,
    ) -> Result<Option<(Vec<u64>, Vec<T>)>> {
        self.with(array, |header, data, likely| {
            expect_number::<T>(header)?;
            expect_dims(header, dims)?;
            let values = npy::read_all(header, data, npy::likely_elements(header, likely))?;
            Ok((header.shape.clone(), c_order(header, values)))
        })
    }

    /// Reads one number: shape (), or one element of any shape.
    pub(super) fn read_scalar<T: Number>(&mut self, array: &str) -> Result<Option<T>> {
        self.with(array, |header, data, likely| {
            expect_number::<T>(header)?;
            if header.elements()? != 1 {
                return Err(Error::recording(format!(
                    "expected one number, got shape {}",
                    header.shape_text()
                )));
            }
            let likely = npy::likely_elements(header, likely);
            Ok(npy::read_all(header, data, likely)?[0])
        })
    }

    /// Reads an array of strings of `dims` dimensions (0 or 1).
    pub(super) fn read_strings(&mut self, array: &str, dims: usize) -> Result<Option<Vec<String>>> {
        self.with(array, |header, data, _| {
            let width = header
                .descr
                .strip_prefix("<U")
                .and_then(|w| w.parse::<usize>().ok())
                .ok_or_else(|| wrong_type(header, "unicode strings (<U)"))?;
            expect_dims(header, dims)?;
            npy::read_strings(data, header.elements()?, width)
        })
    }
}

fn wrong_type(header: &Header, expected: &str) -> Error {
    Error::recording(format!("expected {expected}, got dtype `{}`", header.descr))
}

fn expect_number<T: Number>(header: &Header) -> Result<()> {
    if npy::is_number(header) {
        Ok(())
    } else {
        Err(wrong_type(
            header,
            &format!("{} ({}) or other plain numbers", T::NAME, T::DESCR),
        ))
    }
}

/// Refuses `header` unless it has `dims` dimensions.
pub(super) fn expect_dims(header: &Header, dims: usize) -> Result<()> {
    if header.shape.len() == dims {
        Ok(())
    } else {
        Err(Error::recording(format!(
            "expected {dims} dimension{}, got shape {}",
            if dims == 1 { "" } else { "s" },
            header.shape_text()
        )))
    }
}

/// Brings `values` from the file's order into C order if necessary.
pub(super) fn c_order<T: Copy>(header: &Header, values: Vec<T>) -> Vec<T> {
    if !header.fortran_order || header.shape.len() < 2 || values.is_empty() {
        return values;
    }
    let shape: Vec<usize> = header.shape.iter().map(|&d| d as usize).collect();
    let mut strides = vec![1; shape.len()];
    for axis in 1..shape.len() {
        strides[axis] = strides[axis - 1] * shape[axis - 1];
    }
    let (last, outer) = (shape.len() - 1, values.len() / shape[shape.len() - 1]);
    let mut index = vec![0; last];
    let mut ordered = Vec::with_capacity(values.len());
    for _ in 0..outer {
        let at: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        ordered.extend(values[at..].iter().step_by(strides[last]).take(shape[last]));
        for axis in (0..last).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    ordered
}

/// An archive that is being written.
pub(super) struct ArchiveWriter<W: Write + Seek> {
    /// `None` after it is finished.
    zip: Option<ZipWriter<W>>,
    buffer: Vec<u8>,
}

impl<W: Write + Seek> ArchiveWriter<W> {
    pub(super) fn new(writer: W) -> Self {
        Self {
            zip: Some(ZipWriter::new(writer)),
            buffer: Vec::new(),
        }
    }

    fn zip(&mut self) -> io::Result<&mut ZipWriter<W>> {
        let finished = || io::Error::other("the archive is finished");
        self.zip.as_mut().ok_or_else(finished)
    }

    /// Starts `array`; [`ArchiveWriter::push`] then adds its elements.
    pub(super) fn start(&mut self, array: &str, descr: &str, shape: &[usize]) -> io::Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(3))
            // The archive's bytes must depend on the recording alone.
            .last_modified_time(zip::DateTime::default())
            .large_file(true);
        let zip = self.zip()?;
        zip.start_file(format!("{array}.npy"), options)?;
        let header = Header {
            descr: descr.to_owned(),
            fortran_order: false,
            shape: shape.iter().map(|&d| d as u64).collect(),
        };
        header.write(zip)
    }

    /// Appends elements to the array started last.
    pub(super) fn push<T: Element>(&mut self, values: &[T]) -> io::Result<()> {
        for block in values.chunks(1 << 16) {
            self.buffer.clear();
            T::encode(block, &mut self.buffer);
            let buffer = std::mem::take(&mut self.buffer);
            self.zip()?.write_all(&buffer)?;
            self.buffer = buffer;
        }
        Ok(())
    }

    /// Writes a whole array of numbers.
    pub(super) fn write<T: Element>(
        &mut self,
        array: &str,
        shape: &[usize],
        values: &[T],
    ) -> io::Result<()> {
        self.start(array, T::DESCR, shape)?;
        self.push(values)
    }

    /// Writes a whole array of strings; `shape` is `[]` for one string.
    pub(super) fn write_strings<S: AsRef<str>>(
        &mut self,
        array: &str,
        shape: &[usize],
        strings: &[S],
    ) -> io::Result<()> {
        let width = strings
            .iter()
            .map(|s| s.as_ref().chars().count())
            .max()
            .unwrap_or(0)
            .max(1);
        self.start(array, &format!("<U{width}"), shape)?;
        let mut units = Vec::with_capacity(width);
        for s in strings {
            units.clear();
            units.extend(s.as_ref().chars().map(u32::from));
            units.resize(width, 0);
            self.push(&units)?;
        }
        Ok(())
    }

    /// Appends the arrays of another archive as they are.
    pub(super) fn append(&mut self, archive: &[u8]) -> io::Result<()> {
        let mut other = ZipArchive::new(io::Cursor::new(archive))?;
        for member in 0..other.len() {
            self.zip()?.raw_copy_file(other.by_index_raw(member)?)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        let finished = self.zip.take().map(ZipWriter::finish);
        finished.transpose().map(drop).map_err(Into::into)
    }
}

/// Drops an unfinished zip without finishing it: that would fail again and print to standard error, and the caller
/// already has the error. The zip's buffers leak.
impl<W: Write + Seek> Drop for ArchiveWriter<W> {
    fn drop(&mut self) {
        std::mem::forget(self.zip.take());
    }
}
