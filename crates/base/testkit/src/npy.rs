//! NumPy's files, byte by byte as NumPy writes them, also those that Betz would refuse.

use std::io::{Cursor, Write};

use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

/// One array of an archive.
#[derive(Debug, Clone)]
pub struct Array {
    /// Its name in the archive.
    pub name: String,
    /// The type of its elements, as NumPy writes it (`<f8`).
    pub descr: String,
    /// Its shape, as Python prints it (`(4, 3)`).
    pub shape: String,
    /// True if the elements of a column lie side by side.
    pub fortran: bool,
    /// Its elements.
    pub data: Vec<u8>,
}

impl Array {
    /// An array in which the elements of a row lie side by side.
    pub fn new(name: &str, descr: &str, shape: &str, data: Vec<u8>) -> Self {
        Self {
            name: name.into(),
            descr: descr.into(),
            shape: shape.into(),
            fortran: false,
            data,
        }
    }

    /// The array as a file.
    pub fn npy(&self) -> Vec<u8> {
        let order = if self.fortran { "True" } else { "False" };
        let mut head = format!(
            "{{'descr': '{}', 'fortran_order': {order}, 'shape': {}, }}",
            self.descr, self.shape
        );
        while !(10 + head.len() + 1).is_multiple_of(64) {
            head.push(' ');
        }
        head.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((head.len() as u16).to_le_bytes());
        bytes.extend(head.bytes());
        bytes.extend(&self.data);
        bytes
    }
}

/// A file of numbers in one dimension.
pub fn npy<T: Number>(values: &[T]) -> Vec<u8> {
    let shape = format!("({},)", values.len());
    Array::new("", T::DESCR, &shape, bytes(values)).npy()
}

/// An archive of arrays.
pub fn npz(arrays: &[Array], method: CompressionMethod) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for array in arrays {
        zip.start_file(format!("{}.npy", array.name), options)
            .unwrap();
        zip.write_all(&array.npy()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The bytes of texts of type `<U` and `width`.
pub fn text(width: usize, texts: &[&str]) -> Vec<u8> {
    let padded = |text: &&str| {
        let mut characters: Vec<u32> = text.chars().map(u32::from).collect();
        characters.resize(width, 0);
        bytes(&characters)
    };
    texts.iter().flat_map(padded).collect()
}

/// The bytes of numbers.
pub fn bytes<T: Number>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(|value| value.bytes()).collect()
}

/// A number that NumPy knows.
pub trait Number: Copy {
    /// Its type, as NumPy writes it.
    const DESCR: &'static str;

    /// Its bytes, the lowest first.
    fn bytes(self) -> impl Iterator<Item = u8>;
}

macro_rules! numbers {
    ($($number:ty: $descr:literal),*) => {$(
        impl Number for $number {
            const DESCR: &'static str = $descr;

            fn bytes(self) -> impl Iterator<Item = u8> {
                self.to_le_bytes().into_iter()
            }
        }
    )*};
}
numbers!(u8: "|u1", u16: "<u2", u32: "<u4", i32: "<i4", i64: "<i8", f32: "<f4", f64: "<f8");
