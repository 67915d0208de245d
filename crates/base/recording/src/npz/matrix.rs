//! Matrices of f32 or f64 in `.npy` files, read and written block by block: they may be larger than memory.

use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::header::Header;
use betz_base::error::{Error, Result};
use betz_base::file::{create_atomically, read_exact_at, write_all_at};

/// A number that such a file holds.
pub trait Float: Copy + Default + Send + Sync {
    /// NumPy's type string: `<f4` or `<f8`.
    const DESCR: &'static str;
    /// Appends its bytes as a file has them.
    #[doc(hidden)]
    fn put(self, to: &mut Vec<u8>);
    /// The number of as many bytes.
    #[doc(hidden)]
    fn of(bytes: &[u8]) -> Self;
}

macro_rules! float {
    ($($type:ty = $descr:literal),*) => {$(
        impl Float for $type {
            const DESCR: &'static str = $descr;

            fn put(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn of(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(Self::NAN, Self::from_le_bytes)
            }
        }
    )*};
}

float!(f32 = "<f4", f64 = "<f8");

/// A matrix in a `.npy` file.
#[derive(Debug)]
pub struct NpyMatrix {
    file: File,
    path: PathBuf,
    descr: String,
    rows: usize,
    columns: usize,
    fortran_order: bool,
    /// Bytes before the first element.
    offset: u64,
}

impl NpyMatrix {
    /// Opens a matrix. Reads its header alone.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::ErrorKind::Io); [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording)
    /// for a file that is no `.npy`, does not hold f32 or f64 (little-endian), has not two dimensions or ends early.
    pub fn open(path: &Path) -> Result<Self> {
        let io = |e: std::io::Error| Error::io("reading", path, &e);
        let at = |e: Error| e.at(path.display());
        let file = File::open(path).map_err(io)?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(at(Error::recording(
                "expected a regular file, because blocks of it are read in any order",
            )));
        }
        let mut reader = BufReader::new(&file);
        let header = Header::read(&mut reader).map_err(at)?;
        let read = std::io::Seek::stream_position(&mut reader).map_err(io)?;
        if ![f32::DESCR, f64::DESCR].contains(&header.descr.as_str()) {
            return Err(at(Error::recording(format!(
                "expected a matrix of float32 or float64, got dtype `{}`; convert it with array.astype(\"float32\")",
                header.descr
            ))));
        }
        let &[rows, columns] = header.shape.as_slice() else {
            return Err(at(Error::recording(format!(
                "expected a matrix with two dimensions, got shape {}",
                header.shape_text()
            ))));
        };
        let elements = header.elements().map_err(at)? as u64;
        let size = if header.descr == f32::DESCR { 4 } else { 8 };
        let needed = read.saturating_add(elements.saturating_mul(size));
        let length = file.metadata().map_err(io)?.len();
        if length < needed {
            return Err(at(Error::recording(format!(
                "expected {needed} bytes for shape {}, got {length}: the file ends early",
                header.shape_text()
            ))));
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            descr: header.descr,
            rows: rows as usize,
            columns: columns as usize,
            fortran_order: header.fortran_order,
            offset: read,
        })
    }

    /// Number of rows.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// NumPy's type string.
    pub fn descr(&self) -> &str {
        &self.descr
    }

    /// Writes a block, row-major, to `target`, which holds as many values.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for another type than the file's;
    /// [`ErrorKind::Io`](betz_base::ErrorKind::Io).
    pub fn read<T: Float>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        target: &mut [T],
    ) -> Result<()> {
        if self.descr != T::DESCR {
            return Err(Error::mismatch(format!(
                "{}: expected dtype {}, got {}",
                self.path.display(),
                T::DESCR,
                self.descr
            )));
        }
        match self.fortran_order {
            false => self.read_lines(self.columns, rows, &columns, |line, i, value| {
                target[line * columns.len() + i] = value;
            }),
            true => self.read_lines(self.rows, columns.clone(), &rows, |line, i, value| {
                target[i * columns.len() + line] = value;
            }),
        }
    }

    /// Reads `part` of each of `lines`, which are `length` values long in the file; `take` gets the line's and the value's
    /// place in the block.
    fn read_lines<T: Float>(
        &self,
        length: usize,
        lines: Range<usize>,
        part: &Range<usize>,
        mut take: impl FnMut(usize, usize, T),
    ) -> Result<()> {
        let size = size_of::<T>();
        let io = |e: std::io::Error| Error::io("reading", &self.path, &e);
        // Whole lines lie one behind the other.
        let at_once = match part.len() == length {
            true => ((8 << 20) / (size * length).max(1)).max(1),
            false => 1,
        };
        let mut bytes = Vec::new();
        let mut first = lines.start;
        while first < lines.end {
            let some = at_once.min(lines.end - first);
            bytes.resize(some * part.len() * size, 0);
            let at = (first * length + part.start) as u64 * size as u64;
            read_exact_at(&self.file, &mut bytes, self.offset + at).map_err(io)?;
            for (i, value) in bytes.chunks_exact(size).enumerate() {
                let line = first - lines.start + i / part.len().max(1);
                take(line, i % part.len().max(1), T::of(value));
            }
            first += some;
        }
        Ok(())
    }
}

/// A matrix that is being written.
#[derive(Debug)]
pub struct NpyMatrixWriter<'a> {
    file: &'a File,
    path: &'a Path,
    columns: usize,
    offset: u64,
}

/// Writes a matrix of `rows` × `columns` to `path`, whole or not at all: `fill` writes its blocks in any order.
///
/// # Errors
/// [`ErrorKind::Io`](betz_base::ErrorKind::Io), and the errors of `fill`.
pub fn write_npy_matrix<T: Float, R>(
    path: &Path,
    rows: usize,
    columns: usize,
    fill: impl FnOnce(&NpyMatrixWriter<'_>) -> Result<R>,
) -> Result<R> {
    let io = |e: std::io::Error| Error::io("writing", path, &e);
    let mut result = None;
    create_atomically(path, |temporary| {
        let file = File::options().write(true).open(temporary).map_err(io)?;
        let header = Header {
            descr: T::DESCR.to_owned(),
            fortran_order: false,
            shape: vec![rows as u64, columns as u64],
        };
        let mut head = Vec::new();
        header.write(&mut head).map_err(io)?;
        write_all_at(&file, &head, 0).map_err(io)?;
        let bytes = (rows as u64)
            .saturating_mul(columns as u64)
            .saturating_mul(size_of::<T>() as u64);
        let offset = head.len() as u64;
        file.set_len(offset.saturating_add(bytes)).map_err(io)?;
        let writer = NpyMatrixWriter {
            file: &file,
            path,
            columns,
            offset,
        };
        result = Some(fill(&writer)?);
        Ok(())
    })?;
    result.ok_or_else(|| {
        Error::new(
            betz_base::error::ErrorKind::Internal,
            "a matrix was not written",
        )
    })
}

impl NpyMatrixWriter<'_> {
    /// Writes a block, row-major.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::ErrorKind::Io).
    pub fn write<T: Float>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        values: &[T],
    ) -> Result<()> {
        let io = |e: std::io::Error| Error::io("writing", self.path, &e);
        let mut bytes = Vec::new();
        for (row, values) in rows.zip(values.chunks_exact(columns.len().max(1))) {
            bytes.clear();
            values.iter().for_each(|value| value.put(&mut bytes));
            let at = (row * self.columns + columns.start) as u64 * size_of::<T>() as u64;
            write_all_at(self.file, &bytes, self.offset + at).map_err(io)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_written_and_read_back_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.npy");
        let (rows, columns) = (7, 5);
        let value = |i: usize, j: usize| (10 * i + j) as f32;
        write_npy_matrix::<f32, _>(&path, rows, columns, |to| {
            for part in [3..7, 0..3] {
                for range in [2..5, 0..2] {
                    let block: Vec<f32> = part
                        .clone()
                        .flat_map(|i| range.clone().map(move |j| value(i, j)))
                        .collect();
                    to.write(part.clone(), range.clone(), &block)?;
                }
            }
            Ok(())
        })
        .unwrap();
        let matrix = NpyMatrix::open(&path).unwrap();
        assert_eq!(
            (matrix.rows(), matrix.columns(), matrix.descr()),
            (rows, columns, "<f4")
        );
        for (part, range) in [(0..7, 0..5), (2..6, 1..4), (3..4, 0..5), (5..7, 4..5)] {
            let mut block = vec![0.0; part.len() * range.len()];
            matrix
                .read(part.clone(), range.clone(), &mut block)
                .unwrap();
            let expected: Vec<f32> = part
                .flat_map(|i| range.clone().map(move |j| value(i, j)))
                .collect();
            assert_eq!(block, expected);
        }
        let refused = matrix.read::<f64>(0..1, 0..1, &mut [0.0]).unwrap_err();
        assert!(
            refused.message().contains("expected dtype <f8, got <f4"),
            "{refused}"
        );
    }

    /// A file as NumPy writes it, column by column.
    #[test]
    fn fortran_order_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.npy");
        let header = Header {
            descr: "<f8".into(),
            fortran_order: true,
            shape: vec![3, 4],
        };
        let mut bytes = Vec::new();
        header.write(&mut bytes).unwrap();
        for j in 0..4 {
            for i in 0..3 {
                f64::put(f64::from(10 * i + j), &mut bytes);
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let matrix = NpyMatrix::open(&path).unwrap();
        let mut block = vec![0.0; 4];
        matrix.read(1..3, 2..4, &mut block).unwrap();
        assert_eq!(block, [12.0, 13.0, 22.0, 23.0]);
        let mut all = vec![0.0; 12];
        matrix.read(0..3, 0..4, &mut all).unwrap();
        assert_eq!(all[..5], [0.0, 1.0, 2.0, 3.0, 10.0]);
        // Cut short, of another type, of one dimension, no array at all.
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(
            NpyMatrix::open(&path)
                .unwrap_err()
                .message()
                .contains("ends early")
        );
        for (descr, shape, said) in [
            ("<i4", vec![3, 4], "float32"),
            ("<f8", vec![12], "two dimensions"),
        ] {
            let mut bytes = Vec::new();
            let header = Header {
                descr: descr.into(),
                fortran_order: false,
                shape,
            };
            header.write(&mut bytes).unwrap();
            bytes.resize(bytes.len() + 96, 0);
            std::fs::write(&path, &bytes).unwrap();
            let refused = NpyMatrix::open(&path).unwrap_err();
            assert!(refused.message().contains(said), "{refused}");
        }
        std::fs::write(&path, b"words").unwrap();
        assert!(NpyMatrix::open(&path).is_err());
        assert!(NpyMatrix::open(folder.path()).is_err());
    }
}
