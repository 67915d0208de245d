//! One array of an archive, with random access. An array that is stored plainly is read from the archive itself; a
//! deflated one is unpacked once to an unnamed temporary file.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use zip::{CompressionMethod, ZipArchive};

use super::archive::expect_dims;
use super::header::Header;
use super::npy;
use super::number::{Number, NumberFormat};
use betz_base::error::{Error, Result};
use betz_base::memory;

/// Up to this many elements are read without checking the available memory.
const FEW: usize = 1 << 16;

/// Numbers of an array; any range of them can be read.
pub(super) struct Column {
    array: &'static str,
    file: File,
    /// Offset of the first element in `file`.
    start: u64,
    header: Header,
    stored: NumberFormat,
}

impl Column {
    /// Opens the array `array` of `dims` dimensions in the archive at `path`; `None` if it does not exist. Reads all of
    /// it once, to verify its checksum and to unpack it if it is deflated. The unpacked file is in the archive's folder
    /// or, if that cannot be written, in the system's folder for temporary files.
    pub(super) fn open(path: &Path, array: &'static str, dims: usize) -> Result<Option<Self>> {
        let at = |e: Error| e.at(format_args!("array `{array}`"));
        let io = |e: io::Error| Error::io("reading", path, &e);
        let file = betz_base::file::open_file(path)?;
        let source = BufReader::with_capacity(1 << 18, file.try_clone().map_err(io)?);
        let damaged = |e| {
            Error::recording(format!(
                "damaged archive: expected arrays that can be read, got: {e}"
            ))
        };
        let mut zip = ZipArchive::new(source).map_err(damaged)?;
        let name = format!("{array}.npy");
        if zip.index_for_name(&name).is_none() {
            return Ok(None);
        }
        let mut member = zip.by_name(&name).map_err(damaged).map_err(at)?;
        let plain = member.compression() == CompressionMethod::Stored;
        let begins = member.data_start();
        let mut counted = ByteCounter {
            reader: &mut member,
            bytes: 0,
        };
        let header = Header::read(&mut counted).map_err(at)?;
        let head = counted.bytes;
        expect_dims(&header, dims).map_err(at)?;
        let Some(stored) = NumberFormat::of(&header.descr) else {
            return Err(at(Error::recording(format!(
                "expected plain numbers, got dtype `{}`",
                header.descr
            ))));
        };
        let expected = (header.elements().map_err(at)? as u64).checked_mul(stored.size as u64);
        let damaged = |e| {
            at(Error::recording(format!(
                "damaged: expected data that can be read, got: {e}"
            )))
        };
        let (file, start, came) = match begins {
            Some(begins) if plain => {
                let came = io::copy(&mut member, &mut io::sink()).map_err(damaged)?;
                (file, begins + head, came)
            }
            _ => {
                // An error of the disk is not a fault of the recording.
                let mut to = UnpackTarget {
                    file: unnamed(path)?,
                    failed: None,
                };
                let came = io::copy(&mut member, &mut to);
                if let Some(e) = to.failed {
                    return Err(at(Error::io("unpacking", path, &e)));
                }
                (to.file, 0, came.map_err(damaged)?)
            }
        };
        if Some(came) != expected {
            return Err(at(Error::recording(format!(
                "expected the elements of shape {}, got {came} bytes",
                header.shape_text()
            ))));
        }
        Ok(Some(Self {
            array,
            file,
            start,
            header,
            stored,
        }))
    }

    /// Lengths along the axes.
    pub(super) fn shape(&self) -> &[u64] {
        &self.header.shape
    }

    /// NumPy's type string.
    pub(super) fn descr(&self) -> &str {
        &self.header.descr
    }

    /// True if the first axis varies fastest.
    pub(super) fn is_fortran(&self) -> bool {
        self.header.fortran_order && self.header.shape.len() > 1
    }

    /// Reads the elements `range`, in the order of the file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording) for a number that `T` cannot represent,
    /// and for a file that has become shorter; [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub(super) fn read<T: Number>(&mut self, range: Range<u64>) -> Result<Vec<T>> {
        let count = range.end.saturating_sub(range.start) as usize;
        let mut all = Vec::new();
        if count > FEW {
            let bytes = count as u128 * size_of::<T>() as u128;
            memory::plan("a stretch", bytes).map_err(|e| self.named(e, range.start))?;
        }
        all.try_reserve_exact(count)
            .map_err(|_| Error::no_memory("a stretch", count.saturating_mul(size_of::<T>())))?;
        self.visit(range, |block| {
            all.extend_from_slice(block);
            Ok(())
        })?;
        Ok(all)
    }

    /// Passes the elements `range` to `take`, block by block.
    fn visit<T: Number>(
        &mut self,
        range: Range<u64>,
        take: impl FnMut(&[T]) -> Result<()>,
    ) -> Result<()> {
        let (from, count) = (range.start, range.end.saturating_sub(range.start));
        let size = self.stored.size as u64;
        let header = Header {
            shape: vec![count],
            ..self.header.clone()
        };
        let place = SeekFrom::Start(self.start + from * size);
        let sought = self.file.seek(place);
        let read = sought
            .map_err(|e| {
                Error::recording(format!("damaged: expected data that can be read, got: {e}"))
            })
            .and_then(|_| {
                let mut reader = (&mut self.file).take(count * size);
                npy::for_each_number(&header, &mut reader, count as usize, take)
            });
        read.map_err(|e| self.named(e, from))
    }

    fn named(&self, error: Error, from: u64) -> Error {
        error.at(format_args!("array `{}` from [{from}]", self.array))
    }

    /// Reads the bytes of the elements `range`.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub(super) fn bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        let size = self.stored.size as u64;
        let count = range.end.saturating_sub(range.start).saturating_mul(size);
        let at = |e: Error| e.at(format_args!("array `{}`", self.array));
        memory::plan("a stretch", u128::from(count)).map_err(at)?;
        let mut bytes = memory::filled("a stretch", 0_u8, count as usize).map_err(at)?;
        (self
            .file
            .seek(SeekFrom::Start(self.start + range.start * size)))
        .and_then(|_| self.file.read_exact(&mut bytes))
        .map_err(|e| {
            at(Error::recording(format!(
                "damaged or truncated: expected data that can be read, got: {e}"
            )))
        })?;
        Ok(bytes)
    }

    /// Reads the element `at`.
    pub(super) fn element<T: Number>(&mut self, at: u64) -> Result<T> {
        let mut one = None;
        self.visit(at..at + 1, |block| {
            one = block.first().copied();
            Ok(())
        })?;
        one.ok_or_else(|| Error::recording("expected an element, got none"))
    }

    /// Number of elements below `limit` among `count` ascending ones, by a binary search in the file.
    pub(super) fn below<T: Number + PartialOrd>(&mut self, count: u64, limit: T) -> Result<u64> {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.element::<T>(middle)? < limit {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

/// Creates a temporary file that disappears when it is closed.
fn unnamed(beside: &Path) -> Result<File> {
    let folder = beside.parent().filter(|f| !f.as_os_str().is_empty());
    let near = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")));
    near.or_else(|_| tempfile::tempfile())
        .map_err(|e| Error::io("unpacking", beside, &e))
}

/// Target file of an unpacking, and the error that stopped it.
struct UnpackTarget {
    file: File,
    failed: Option<io::Error>,
}

impl Write for UnpackTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|e| {
            let kind = e.kind();
            self.failed = (kind != io::ErrorKind::Interrupted).then_some(e);
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that counts the bytes read.
struct ByteCounter<R> {
    reader: R,
    bytes: u64,
}

impl<R: Read> Read for ByteCounter<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(to)?;
        self.bytes += read as u64;
        Ok(read)
    }
}
