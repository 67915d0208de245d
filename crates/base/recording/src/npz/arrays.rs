//! Named arrays of any kind in `.npz` files, for exchange with NumPy.

use std::io::{self, BufReader, Cursor, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;

use super::archive::{Archive, ArchiveWriter, c_order};
use super::header::Header;
use super::npy;
use betz_base::error::{Error, Result};
use betz_base::file::write_atomically;

pub use super::number::{Element, Number};

/// An array: its shape, and its elements in C order. A single value has the shape `&[]`.
#[derive(Debug, Clone, Copy)]
pub enum Array<'a> {
    /// `uint8`.
    U8(&'a [usize], &'a [u8]),
    /// `uint16`.
    U16(&'a [usize], &'a [u16]),
    /// `uint32`.
    U32(&'a [usize], &'a [u32]),
    /// `uint64`.
    U64(&'a [usize], &'a [u64]),
    /// `int16`.
    I16(&'a [usize], &'a [i16]),
    /// `int64`.
    I64(&'a [usize], &'a [i64]),
    /// `float32`.
    F32(&'a [usize], &'a [f32]),
    /// `float64`.
    F64(&'a [usize], &'a [f64]),
    /// Unicode strings, padded to the longest.
    Text(&'a [usize], &'a [String]),
}

/// Evaluates the same expression for every variant.
macro_rules! whichever {
    ($array:expr, ($shape:ident, $values:ident) => $numbers:expr, $text:expr) => {
        match $array {
            Array::U8($shape, $values) => $numbers,
            Array::U16($shape, $values) => $numbers,
            Array::U32($shape, $values) => $numbers,
            Array::U64($shape, $values) => $numbers,
            Array::I16($shape, $values) => $numbers,
            Array::I64($shape, $values) => $numbers,
            Array::F32($shape, $values) => $numbers,
            Array::F64($shape, $values) => $numbers,
            Array::Text($shape, $values) => $text,
        }
    };
}

/// Writes `arrays` to `path` as a deflated `.npz`: whole or not at all.
///
/// ```
/// use betz_recording::arrays::{Array, Arrays, write};
/// let path = std::env::temp_dir().join("betz-arrays.npz");
/// write(&path, &[("x", Array::F64(&[2], &[0.5, 1.5]))])?;
/// let mut arrays = Arrays::open(&path)?;
/// let x = arrays.numbers::<f64>("x", 1)?.expect("it was written");
/// assert_eq!((x.shape, x.values), (vec![2], vec![0.5, 1.5]));
/// assert!(arrays.numbers::<f64>("y", 1)?.is_none());
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), betz_base::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Io`](betz_base::ErrorKind::Io) if the file cannot be written;
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if a shape does not fit the number of
/// elements.
pub fn write(path: &Path, arrays: &[(&str, Array<'_>)]) -> Result<()> {
    for (name, array) in arrays {
        let (shape, elements) =
            whichever!(array, (shape, values) => (*shape, values.len()), (*shape, values.len()));
        if shape.iter().product::<usize>() != elements {
            return Err(Error::argument(format!(
                "array `{name}`: expected as many elements as the shape {shape:?} has, got {elements}"
            )));
        }
    }
    write_atomically(path, |file| {
        let mut archive = ArchiveWriter::new(file);
        for some in in_groups(arrays) {
            // A large array takes long to deflate: those that follow each other do it side by side.
            let deflated = match some {
                [_] => None,
                some => Some(thread::scope(|scope| {
                    let work = |array| scope.spawn(move || deflated(array));
                    let all: Vec<_> = some.iter().map(work).collect();
                    let done = all.into_iter().map(|one| {
                        one.join()
                            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    });
                    done.collect::<io::Result<Vec<_>>>()
                })?),
            };
            match deflated {
                None => some.iter().try_for_each(|array| put(&mut archive, array))?,
                Some(all) => all.iter().try_for_each(|one| archive.append(one))?,
            }
        }
        archive.finish()
    })
}

/// Elements from which on an array counts as large.
const LARGE: usize = 1 << 20;

/// Arrays side by side: large ones that follow each other, up to four at once, and each other array by itself.
fn in_groups<'a, 'b>(
    arrays: &'a [(&'b str, Array<'b>)],
) -> impl Iterator<Item = &'a [(&'b str, Array<'b>)]> {
    let large = |array: &(&str, Array<'_>)| {
        let elements = whichever!(&array.1, (_shape, values) => values.len(), values.len());
        elements >= LARGE
    };
    arrays
        .chunk_by(move |a, b| large(a) && large(b))
        .flat_map(|group| group.chunks(4))
}

fn put<W: Write + Seek>(
    archive: &mut ArchiveWriter<W>,
    (name, array): &(&str, Array<'_>),
) -> io::Result<()> {
    whichever!(
        array,
        (shape, values) => archive.write(name, shape, values),
        archive.write_strings(name, shape, values)
    )
}

/// An archive of one array.
fn deflated(array: &(&str, Array<'_>)) -> io::Result<Vec<u8>> {
    let mut bytes = Cursor::new(Vec::new());
    let mut archive = ArchiveWriter::new(&mut bytes);
    put(&mut archive, array)?;
    archive.finish()?;
    Ok(bytes.into_inner())
}

/// A shape and its numbers in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers<T> {
    /// Lengths along the axes; empty for a single number.
    pub shape: Vec<usize>,
    /// Values; their number is the product of the shape.
    pub values: Vec<T>,
}

/// Numbers in the smallest of five types that holds all values of the file's type.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Values of `uint8` and bool arrays.
    U8(Vec<u8>),
    /// Values of `uint16` arrays.
    U16(Vec<u16>),
    /// Values of `int8` and `int16` arrays.
    I16(Vec<i16>),
    /// Values of `float16` and `float32` arrays.
    F32(Vec<f32>),
    /// Values of `float64` arrays, and of longer integers if f64 represents them.
    F64(Vec<f64>),
}

/// A shape and its values in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// Lengths along the axes.
    pub shape: Vec<usize>,
    /// Values; their number is the product of the shape.
    pub values: Values,
}

/// The arrays of an `.npz` archive, read one at a time. Sizes in headers are not trusted before the data arrive; errors
/// name file, array and position.
pub struct Arrays {
    archive: Archive,
    path: PathBuf,
}

impl Arrays {
    /// Opens the archive at `path` (`-`: standard input).
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::ErrorKind::Io) if the file cannot be read;
    /// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording) if it is not an `.npz` archive.
    pub fn open(path: &Path) -> Result<Self> {
        let archive = Archive::open(path).map_err(|e| placed(path, e))?;
        Ok(Self {
            archive,
            path: path.to_owned(),
        })
    }

    /// Names of the arrays, in arbitrary order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.archive.names().collect();
        names.sort_unstable();
        names
    }

    /// True if an array of this name exists.
    pub fn has(&self, name: &str) -> bool {
        self.archive.has(name)
    }

    /// Reads the array `name` of `dims` dimensions; `None` if it does not exist. Accepts any plain number type if each
    /// value fits `T`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording) for another number of dimensions, a type
    /// that is not numeric, a number that does not fit, or damage;
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory) if there is no memory for the array.
    pub fn numbers<T: Number>(&mut self, name: &str, dims: usize) -> Result<Option<Numbers<T>>> {
        let read = self.archive.read::<T>(name, dims);
        let found = read.map_err(|e| placed(&self.path, e))?;
        Ok(found.map(|(shape, values)| Numbers {
            shape: shape.iter().map(|&d| d as usize).collect(),
            values,
        }))
    }

    /// Reads the single number in the array `name`; `None` if the array does not exist.
    ///
    /// # Errors
    /// The errors of [`Arrays::numbers`].
    pub fn number<T: Number>(&mut self, name: &str) -> Result<Option<T>> {
        let read = self.archive.read_scalar(name);
        read.map_err(|e| placed(&self.path, e))
    }

    /// Reads the strings of the array `name` of `dims` dimensions (0 or 1); `None` if it does not exist.
    ///
    /// # Errors
    /// The errors of [`Arrays::numbers`].
    pub fn strings(&mut self, name: &str, dims: usize) -> Result<Option<Vec<String>>> {
        let read = self.archive.read_strings(name, dims);
        read.map_err(|e| placed(&self.path, e))
    }

    /// Reads the array `name` of any shape, in a type that holds its own; `None` if it does not exist.
    ///
    /// # Errors
    /// The errors of [`Arrays::numbers`].
    pub fn samples(&mut self, name: &str) -> Result<Option<Samples>> {
        let read = self.archive.with(name, samples);
        read.map_err(|e| placed(&self.path, e))
    }
}

/// Reads the array in the `.npy` file at `path`.
///
/// # Errors
/// The errors of [`Arrays::open`] and [`Arrays::numbers`].
pub fn read_npy(path: &Path) -> Result<Samples> {
    let io = |e: std::io::Error| Error::io("reading", path, &e);
    let file = betz_base::file::open_file(path)?;
    let likely = file.metadata().map_err(io)?.len().min(1 << 40) as usize;
    let mut file = BufReader::with_capacity(1 << 18, file);
    Header::read(&mut file)
        .and_then(|header| samples(&header, &mut file, likely))
        .map_err(|e| placed(path, e))
}

fn samples(header: &Header, data: &mut dyn std::io::Read, likely: usize) -> Result<Samples> {
    fn of<T: Number>(
        header: &Header,
        data: &mut dyn std::io::Read,
        likely: usize,
    ) -> Result<Vec<T>> {
        let likely = npy::likely_elements(header, likely);
        Ok(c_order(header, npy::read_all(header, data, likely)?))
    }
    let values = match header.descr.get(1..).unwrap_or("") {
        "u1" | "b1" => Values::U8(of(header, data, likely)?),
        "u2" => Values::U16(of(header, data, likely)?),
        "i1" | "i2" => Values::I16(of(header, data, likely)?),
        "f2" | "f4" => Values::F32(of(header, data, likely)?),
        // `of` refuses types that are not numeric.
        _ => Values::F64(of(header, data, likely)?),
    };
    Ok(Samples {
        shape: header.shape.iter().map(|&d| d as usize).collect(),
        values,
    })
}

/// Adds the file's name to an error, once.
fn placed(path: &Path, error: Error) -> Error {
    let named = error.message().contains(&*path.to_string_lossy());
    if named {
        error
    } else {
        error.at(path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_arrays_deflated_side_by_side_come_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.npz");
        let values = |seed: usize| -> Vec<u16> {
            (0..LARGE + seed)
                .map(|at| (at * (seed + 3) % 9_973) as u16)
                .collect()
        };
        let (names, all): (Vec<_>, Vec<_>) = (0..6).map(|n| (format!("a{n}"), values(n))).unzip();
        let shapes: Vec<[usize; 1]> = all.iter().map(|v| [v.len()]).collect();
        let mut arrays = vec![("few", Array::U8(&[2], &[1, 2]))];
        for (n, name) in names.iter().enumerate() {
            arrays.push((name.as_str(), Array::U16(&shapes[n], &all[n])));
        }
        arrays.push(("text", Array::Text(&[1], std::slice::from_ref(&names[0]))));
        let groups: Vec<usize> = in_groups(&arrays).map(<[_]>::len).collect();
        assert_eq!(groups, [1, 4, 2, 1]);
        write(&path, &arrays).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let mut back = Arrays::open(&path).unwrap();
        for (name, values) in names.iter().zip(&all) {
            assert_eq!(
                back.numbers::<u16>(name, 1).unwrap().unwrap().values,
                *values
            );
        }
        assert_eq!(back.names().len(), arrays.len());
        write(&path, &arrays).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn every_kind_comes_back_and_what_is_not_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.npz");
        let text = ["a".to_owned(), "longer".to_owned()];
        write(
            &path,
            &[
                ("u8", Array::U8(&[2, 2], &[1, 2, 3, 255])),
                ("u16", Array::U16(&[2], &[1, 65_535])),
                ("u32", Array::U32(&[1], &[u32::MAX])),
                ("u64", Array::U64(&[], &[u64::MAX])),
                ("i16", Array::I16(&[2], &[-32_768, 5])),
                ("f32", Array::F32(&[1, 1, 2], &[0.5, f32::NAN])),
                ("text", Array::Text(&[2], &text)),
            ],
        )
        .unwrap();
        let mut arrays = Arrays::open(&path).unwrap();
        assert_eq!(
            arrays.names(),
            ["f32", "i16", "text", "u16", "u32", "u64", "u8"]
        );
        assert_eq!(arrays.number::<u64>("u64").unwrap(), Some(u64::MAX));
        assert_eq!(arrays.number::<u64>("none").unwrap(), None);
        let small = arrays.samples("u8").unwrap().unwrap();
        assert_eq!(
            (small.shape, small.values),
            (vec![2, 2], Values::U8(vec![1, 2, 3, 255]))
        );
        let i16s = arrays.samples("i16").unwrap().unwrap().values;
        assert_eq!(i16s, Values::I16(vec![-32_768, 5]));
        let wide = arrays.numbers::<f64>("u16", 1).unwrap().unwrap();
        assert_eq!(wide.values, [1.0, 65_535.0]);
        let Values::F32(floats) = arrays.samples("f32").unwrap().unwrap().values else {
            panic!("expected f32");
        };
        assert!(floats[0] == 0.5 && floats[1].is_nan());
        assert_eq!(arrays.strings("text", 1).unwrap().unwrap(), text);
        for error in [
            arrays.numbers::<u8>("u16", 1).unwrap_err(),
            arrays.numbers::<u8>("u8", 1).unwrap_err(),
            arrays.samples("text").unwrap_err(),
        ] {
            let said = error.message();
            assert!(
                said.contains("all.npz") && said.contains("array `"),
                "{said}"
            );
        }
        assert!(write(&path, &[("x", Array::U8(&[3], &[1]))]).is_err());
    }

    #[test]
    fn three_axes_in_fortran_order_come_back_in_c_order() {
        let header = Header {
            descr: "|u1".into(),
            fortran_order: true,
            shape: vec![2, 3, 2],
        };
        let mut stored = vec![0; 12];
        for (a, b, c) in
            (0..2).flat_map(|a| (0..3).flat_map(move |b| (0..2).map(move |c| (a, b, c))))
        {
            stored[a + 2 * b + 6 * c] = a * 6 + b * 2 + c;
        }
        let expected: Vec<usize> = (0..12).collect();
        assert_eq!(c_order(&header, stored), expected);
    }

    #[test]
    fn an_npy_file_is_read_and_a_short_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let mut bytes = Vec::new();
        let header = Header {
            descr: ">f4".into(),
            fortran_order: false,
            shape: vec![2, 2],
        };
        header.write(&mut bytes).unwrap();
        for v in [1.0_f32, 2.0, 3.0, 4.0] {
            bytes.extend(v.to_be_bytes());
        }
        std::fs::write(&path, &bytes).unwrap();
        let read = read_npy(&path).unwrap();
        assert_eq!(read.values, Values::F32(vec![1.0, 2.0, 3.0, 4.0]));
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let error = read_npy(&path).unwrap_err();
        assert!(error.message().contains("x.npy") && error.message().contains("truncated"));
        assert!(read_npy(&folder.path().join("none.npy")).is_err());
    }
}
