//! Named arrays of any kind in an `.npz` file, for NumPy to read.

use std::path::Path;

use super::archive::ArchiveWriter;
use betz_base::error::Result;
use betz_base::file::write_atomically;

/// A shape and its elements in C order; `&[]` is the shape of a single one.
#[derive(Debug, Clone, Copy)]
pub enum Array<'a> {
    /// `float64`.
    F64(&'a [usize], &'a [f64]),
    /// `int64`.
    I64(&'a [usize], &'a [i64]),
    /// Unicode strings, padded to the longest.
    Text(&'a [usize], &'a [String]),
}

/// Writes `arrays` to `path` as a deflated `.npz`: whole or not at all.
///
/// ```
/// use betz_recording::arrays::{Array, write};
/// let folder = std::env::temp_dir().join("betz-arrays.npz");
/// write(&folder, &[("x", Array::F64(&[2], &[0.5, 1.5]))])?;
/// # std::fs::remove_file(folder).ok();
/// # Ok::<(), betz_base::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Io`](betz_base::ErrorKind::Io); [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument)
/// when a shape does not say how many elements there are.
pub fn write(path: &Path, arrays: &[(&str, Array<'_>)]) -> Result<()> {
    for (name, array) in arrays {
        let (shape, elements) = match array {
            Array::F64(shape, values) => (*shape, values.len()),
            Array::I64(shape, values) => (*shape, values.len()),
            Array::Text(shape, values) => (*shape, values.len()),
        };
        if shape.iter().product::<usize>() != elements {
            return Err(betz_base::Error::argument(format!(
                "array `{name}`: expected as many elements as the shape {shape:?} has, got {elements}"
            )));
        }
    }
    write_atomically(path, |file| {
        let mut archive = ArchiveWriter::new(file);
        for (name, array) in arrays {
            match array {
                Array::F64(shape, values) => archive.write(name, shape, values)?,
                Array::I64(shape, values) => archive.write(name, shape, values)?,
                Array::Text(shape, values) => archive.write_strings(name, shape, values)?,
            }
        }
        archive.finish()
    })
}
