//! Arrays as a Zarr v3 directory: <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>.
//!
//! A group, whose attributes hold the texts (`meta` as JSON, `node_name` as a list), and an array for each list of
//! numbers: regular chunks of whole rows, little-endian bytes, not compressed. Any Zarr v3 reader takes it;
//! read here is what is written here.

use std::fs;
use std::path::{Path, PathBuf};

use betz_base::{Error, ErrorKind, Result};
use betz_recording::arrays::{Array, Number, Numbers};
use serde_json::{Value, json};

/// Bytes of a chunk, about.
pub(super) const CHUNK: usize = 16 << 20;

/// Writes `arrays`, and what `more` adds to the directory that it gets, to the directory at `path`, over an earlier
/// network: whole or not at all.
pub(super) fn write(
    path: &Path,
    arrays: &[(&str, Array<'_>)],
    more: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<()> {
    if path.symlink_metadata().is_ok() && !super::NetworkFile::is_one(path) {
        return Err(Error::new(
            ErrorKind::Io,
            format!(
                "{}: expected an earlier network to replace, or nothing, got something else; choose another name",
                path.display()
            ),
        ));
    }
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy();
    let beside = |what: &str| path.with_file_name(format!(".{name}.{}.{what}", std::process::id()));
    let (part, old) = (beside("part"), beside("old"));
    let written = write_to(&part, arrays)
        .and_then(|()| more(&part))
        .and_then(|()| replace(&part, path, &old));
    if written.is_err() {
        // An incomplete directory is of no use. The first error is the one to report.
        let _ = fs::remove_dir_all(&part);
    }
    written
}

/// Gives the directory `part` the name `path`; an earlier network of that name waits at `old` until it is there.
fn replace(part: &Path, path: &Path, old: &Path) -> Result<()> {
    let failed = |e| Error::io("write", path, &e);
    let earlier = match fs::rename(path, old) {
        Ok(()) => true,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
        Err(e) => return Err(failed(e)),
    };
    let renamed = fs::rename(part, path).map_err(failed);
    if earlier && path.symlink_metadata().is_err() {
        // The earlier network stays; the first error is the one to report.
        let _ = fs::rename(old, path);
    } else if earlier {
        fs::remove_dir_all(old).map_err(|e| Error::io("remove", old, &e))?;
    }
    renamed
}

fn write_to(root: &Path, arrays: &[(&str, Array<'_>)]) -> Result<()> {
    fs::create_dir(root).map_err(|e| Error::io("write", root, &e))?;
    let mut attributes = serde_json::Map::new();
    for (name, array) in arrays {
        let at = root.join(name);
        match array {
            Array::U8(shape, v) => put(&at, "uint8", shape, v, |v| v.to_le_bytes())?,
            Array::U16(shape, v) => put(&at, "uint16", shape, v, |v| v.to_le_bytes())?,
            Array::U32(shape, v) => put(&at, "uint32", shape, v, |v| v.to_le_bytes())?,
            Array::U64(shape, v) => put(&at, "uint64", shape, v, |v| v.to_le_bytes())?,
            Array::I16(shape, v) => put(&at, "int16", shape, v, |v| v.to_le_bytes())?,
            Array::I64(shape, v) => put(&at, "int64", shape, v, |v| v.to_le_bytes())?,
            Array::F32(shape, v) => put(&at, "float32", shape, v, |v| v.to_le_bytes())?,
            Array::F64(shape, v) => put(&at, "float64", shape, v, |v| v.to_le_bytes())?,
            Array::Text(shape, texts) => {
                let value = match (shape.len(), *texts) {
                    (0, [text]) => serde_json::from_str(text).unwrap_or(json!(text)),
                    (_, texts) => json!(texts),
                };
                attributes.insert((*name).to_owned(), value);
            }
            // An array of a later version of the recording crate.
            #[allow(unreachable_patterns)]
            _ => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("array `{name}`: expected a type that Zarr has"),
                ));
            }
        }
    }
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
    save(&root.join("zarr.json"), group.to_string().as_bytes())
}

fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|e| Error::io("write", path, &e))
}

/// Makes the directory of an array, with its description.
pub(super) fn describe(
    at: &Path,
    data_type: &str,
    shape: &[usize],
    chunk_shape: &[usize],
    fill: &Value,
) -> Result<()> {
    let about = json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
    });
    fs::create_dir(at).map_err(|e| Error::io("write", at, &e))?;
    save(&at.join("zarr.json"), about.to_string().as_bytes())
}

fn put<T: Copy, const BYTES: usize>(
    at: &Path,
    data_type: &str,
    shape: &[usize],
    values: &[T],
    bytes: impl Fn(T) -> [u8; BYTES],
) -> Result<()> {
    let row: usize = shape.iter().skip(1).product();
    let rows = shape.first().copied().unwrap_or(1);
    if shape.is_empty() || rows.checked_mul(row) != Some(values.len()) {
        return Err(Error::mismatch(format!(
            "array: expected as many elements as {shape:?} has, got {}",
            values.len()
        )));
    }
    // At least a row, at most all, and never 0.
    let length = (CHUNK / (row * BYTES).max(1)).clamp(1, rows.max(1));
    let mut chunk_shape: Vec<usize> = shape.iter().map(|n| (*n).max(1)).collect();
    chunk_shape[0] = length;
    describe(at, data_type, shape, &chunk_shape, &json!(0))?;
    let mut out = Vec::new();
    for (number, chunk) in values.chunks((length * row).max(1)).enumerate() {
        out.clear();
        out.extend(chunk.iter().flat_map(|v| bytes(*v)));
        // Every chunk of a regular grid is whole.
        out.resize(length * row * BYTES, 0);
        let mut key = at.join("c").join(number.to_string());
        for _ in 1..shape.len() {
            key.push("0");
        }
        let folder = key.parent().unwrap_or(at);
        fs::create_dir_all(folder).map_err(|e| Error::io("write", folder, &e))?;
        save(&key, &out)?;
    }
    Ok(())
}

/// The description of an array.
struct ArrayDescription {
    shape: Vec<usize>,
    chunk_shape: Vec<usize>,
    about: Value,
}

/// A directory as [`write`] makes it.
pub(super) struct Store {
    root: PathBuf,
    attributes: Value,
}

impl Store {
    pub(super) fn open(root: &Path) -> Result<Self> {
        let about = read_description(&root.join("zarr.json"), "group")?;
        Ok(Self {
            root: root.to_owned(),
            attributes: about.get("attributes").cloned().unwrap_or_default(),
        })
    }

    pub(super) fn names(&self) -> Vec<String> {
        let here = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut names: Vec<String> = here
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|name| name != "zarr.json")
            .collect();
        names.sort();
        names
    }

    pub(super) fn strings(&self, name: &str, dims: usize) -> Result<Option<Vec<String>>> {
        let Some(value) = self.attributes.get(name) else {
            return Ok(None);
        };
        if dims == 0 {
            return Ok(Some(vec![value.to_string()]));
        }
        let texts = value.as_array().map(|list| {
            let texts = list.iter().map(|text| text.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>()
        });
        match texts.flatten() {
            Some(texts) => Ok(Some(texts)),
            None => Err(Error::recording(format!(
                "attribute `{name}`: expected a list of texts"
            ))),
        }
    }

    /// Shape and shape of a chunk of the array `name`, and its description; `None` if it is not there.
    fn described(&self, name: &str, dims: usize) -> Result<Option<ArrayDescription>> {
        let at = self.root.join(name);
        if !at.is_dir() {
            return Ok(None);
        }
        let wrong = |what: String| Error::recording(format!("array `{name}`: {what}"));
        let about = read_description(&at.join("zarr.json"), "array")?;
        let sizes = |value: &Value| -> Option<Vec<usize>> {
            let sizes = value.as_array()?.iter();
            sizes.map(|n| usize::try_from(n.as_u64()?).ok()).collect()
        };
        let shape = sizes(&about["shape"]);
        let shape = shape.filter(|s| s.len() == dims).ok_or_else(|| {
            wrong(format!(
                "expected a shape of {dims} dimensions, got {}",
                about["shape"]
            ))
        })?;
        let chunk_shape = sizes(&about["chunk_grid"]["configuration"]["chunk_shape"]);
        let chunk_shape = chunk_shape
            .filter(|chunk| chunk.len() == dims && chunk.iter().all(|n| *n > 0))
            .ok_or_else(|| {
                wrong(format!(
                    "expected chunks of {dims} dimensions, got {}",
                    about["chunk_grid"]
                ))
            })?;
        if about["codecs"] != json!([{"name": "bytes", "configuration": {"endian": "little"}}]) {
            return Err(wrong(format!(
                "expected little-endian bytes, not compressed, got {}",
                about["codecs"]
            )));
        }
        Ok(Some(ArrayDescription {
            shape,
            chunk_shape,
            about,
        }))
    }

    /// Shape of the array `name` of two dimensions if its chunks hold parts of rows, or it is larger than a file of arrays;
    /// `None` otherwise, or if it is not there.
    pub(super) fn shape_of_parts(&self, name: &str) -> Result<Option<Vec<usize>>> {
        let described = self.described(name, 2)?;
        let is_large =
            |of: &[usize]| of[0] as u128 * of[1] as u128 * 4 > u128::from(super::LARGEST);
        let parts = described.filter(|of| of.chunk_shape[1] < of.shape[1] || is_large(&of.shape));
        Ok(parts.map(|of| of.shape))
    }

    /// The row `row` of the array `name` of f32 numbers in two dimensions.
    pub(super) fn row(&self, name: &str, row: usize) -> Result<Option<Vec<f32>>> {
        let Some(of) = self.described(name, 2)? else {
            return Ok(None);
        };
        let wrong = |what: String| Error::recording(format!("array `{name}`: {what}"));
        let (&[rows, length], &[height, width]) = (&of.shape[..], &of.chunk_shape[..]) else {
            return Err(wrong("expected two dimensions".to_owned()));
        };
        if of.about["data_type"] != "float32" {
            return Err(wrong(format!(
                "expected float32, got {}",
                of.about["data_type"]
            )));
        }
        if row >= rows {
            return Err(Error::argument(format!(
                "array `{name}`: expected one of {rows} rows, got {row}"
            )));
        }
        let chunk_bytes = (height.checked_mul(width)).and_then(|n| n.checked_mul(4));
        let chunk_bytes = chunk_bytes.ok_or_else(|| wrong("too large".to_owned()))?;
        let mut values: Vec<f32> = Vec::new();
        for number in 0..length.div_ceil(width) {
            let key = self.root.join(name).join("c");
            let key = key
                .join((row / height).to_string())
                .join(number.to_string());
            let bytes = fs::read(&key).map_err(|e| Error::io("read", &key, &e))?;
            if bytes.len() != chunk_bytes {
                return Err(wrong(format!(
                    "chunk {}/{number}: expected {chunk_bytes} bytes, got {}",
                    row / height,
                    bytes.len()
                )));
            }
            let some = width.min(length - values.len());
            values
                .try_reserve(some)
                .map_err(|_| Error::no_memory(name, some.saturating_mul(4)))?;
            let (numbers, _) = bytes[row % height * width * 4..].as_chunks::<4>();
            values.extend(numbers.iter().take(some).map(|b| f32::from_le_bytes(*b)));
        }
        Ok(Some(values))
    }

    pub(super) fn numbers<T: Number>(&self, name: &str, dims: usize) -> Result<Option<Numbers<T>>> {
        let Some(ArrayDescription {
            shape,
            chunk_shape,
            about,
        }) = self.described(name, dims)?
        else {
            return Ok(None);
        };
        let at = self.root.join(name);
        let wrong = |what: String| Error::recording(format!("array `{name}`: {what}"));
        let rows_whole = (chunk_shape[1..].iter().zip(&shape[1..])).all(|(c, s)| *c == (*s).max(1));
        if !rows_whole {
            return Err(wrong(format!(
                "expected chunks of whole rows, got {}",
                about["chunk_grid"]
            )));
        }
        let data_type = about["data_type"].as_str().unwrap_or("");
        let (size, one) = decoder::<T>(data_type)
            .ok_or_else(|| wrong(format!("expected numbers, got {data_type:?}")))?;
        let product = |of: &[usize]| of.iter().try_fold(1_usize, |a, b| a.checked_mul(*b));
        let sizes = product(&shape).zip(product(&chunk_shape).and_then(|n| n.checked_mul(size)));
        let (total, chunk_bytes) = sizes.ok_or_else(|| wrong("too large".to_owned()))?;
        let mut values = Vec::new();
        let mut number = 0;
        while values.len() < total {
            let mut key = at.join("c").join(number.to_string());
            (1..dims).for_each(|_| key.push("0"));
            let bytes = fs::read(&key).map_err(|e| Error::io("read", &key, &e))?;
            if bytes.len() != chunk_bytes {
                return Err(wrong(format!(
                    "chunk {number}: expected {chunk_bytes} bytes, got {}",
                    bytes.len()
                )));
            }
            // Memory is taken as chunks are there, not as a header says.
            let some = (total - values.len()).min(bytes.len() / size);
            values
                .try_reserve(some)
                .map_err(|_| Error::no_memory(name, some.saturating_mul(size_of::<T>())))?;
            for bytes in bytes.chunks_exact(size).take(some) {
                let value = one(bytes).ok_or_else(|| {
                    wrong(format!(
                        "[{}]: expected a number that fits, got another",
                        values.len()
                    ))
                })?;
                values.push(value);
            }
            number += 1;
        }
        Ok(Some(Numbers { shape, values }))
    }
}

/// Bytes of a number, and what makes one of them.
type Decoder<T> = (usize, fn(&[u8]) -> Option<T>);

fn decoder<T: Number>(data_type: &str) -> Option<Decoder<T>> {
    macro_rules! integer {
        ($of:ty) => {
            Some((size_of::<$of>(), |bytes| {
                T::of_integer(<$of>::from_le_bytes(bytes.try_into().ok()?).into())
            }))
        };
    }
    match data_type {
        "uint8" => integer!(u8),
        "uint16" => integer!(u16),
        "uint32" => integer!(u32),
        "uint64" => integer!(u64),
        "int16" => integer!(i16),
        "int64" => integer!(i64),
        "float32" => Some((4, |bytes| {
            T::of_float(f32::from_le_bytes(bytes.try_into().ok()?).into())
        })),
        "float64" => Some((8, |bytes| {
            T::of_float(f64::from_le_bytes(bytes.try_into().ok()?))
        })),
        _ => None,
    }
}

fn read_description(path: &Path, node: &str) -> Result<Value> {
    let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, &e))?;
    let about: Value = serde_json::from_str(&text)
        .map_err(|e| Error::recording(format!("{}: expected JSON ({e})", path.display())))?;
    if about["zarr_format"] != 3 || about["node_type"] != node {
        return Err(Error::recording(format!(
            "{}: expected a Zarr v3 {node}, got format {} of {}",
            path.display(),
            about["zarr_format"],
            about["node_type"]
        )));
    }
    Ok(about)
}
