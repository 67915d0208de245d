//! A new HDF5 file as NWB wants it. With `hdf5.rs`, which reads, the only file that knows the HDF5 crate.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::path::Path;

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::hash::Fnv1a;
use rust_hdf5::format::messages::datatype::DatatypeMessage;
use rust_hdf5::types::VarLenUnicode;
use rust_hdf5::{H5Dataset, H5File, H5Group, Hdf5Error};

pub(super) use rust_hdf5::types::H5Type;

/// The namespaces of NWB's types.
pub(super) const CORE: &str = "core";
pub(super) const COMMON: &str = "hdmf-common";
/// Level of deflate: what h5py's default is.
const DEFLATE: u32 = 4;
/// Most bytes of a chunk.
const CHUNK_BYTES: usize = 1 << 19;

/// Value of an attribute.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Text(&'a str),
    F32(f32),
    F64(f64),
    I32(i32),
    /// A reference to what stands at a path.
    Object(&'a str),
}

/// A file being written. Paths begin with `/`; what is above them is there already.
pub(super) struct NewFile {
    file: H5File,
    /// Seed of the identities of its objects.
    seed: u64,
    /// Groups that were made; the file cannot be asked while it is written.
    groups: RefCell<BTreeSet<String>>,
}

/// A dataset being written.
pub(super) struct NewDataset<'a> {
    dataset: H5Dataset,
    path: String,
    file: &'a NewFile,
}

/// A dataset that grows along its first dimension.
pub(super) struct GrowingDataset<'a, T> {
    dataset: NewDataset<'a>,
    element: PhantomData<T>,
}

/// The crate's error, as an error about `path` in the file.
fn failed(path: &str) -> impl FnOnce(Hdf5Error) -> Error {
    move |error| match error {
        Hdf5Error::Io(e) => Error::io("writing", path.as_ref(), &e),
        other => Error::new(ErrorKind::Io, format!("writing {path}: {other}")),
    }
}

/// Folder and name of a path.
fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => ("/", path),
    }
}

impl NewFile {
    /// A new file at `path` of what `fill` writes, whose objects have identities made from `seed`. It is complete, but
    /// not synced.
    pub(super) fn create(
        path: &Path,
        seed: u64,
        fill: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        let created = H5File::options().no_locking().create(path);
        let file = Self {
            file: created.map_err(failed("/"))?,
            seed,
            groups: RefCell::default(),
        };
        let filled = fill(&file);
        // Closed in any case: left to be dropped, a file that cannot be completed is told of on standard error.
        let closed = file.file.close_no_sync().map_err(failed("/"));
        filled.and(closed)
    }

    fn at(&self, path: &str) -> Result<H5Group> {
        match path.trim_start_matches('/') {
            "" => Ok(self.file.root_group()),
            inside => self.file.root_group().group(inside).map_err(failed(path)),
        }
    }

    /// A group without a type.
    pub(super) fn group(&self, path: &str) -> Result<()> {
        let (folder, name) = split(path);
        let made = self.at(folder)?.create_group(name);
        self.groups.borrow_mut().insert(path.to_owned());
        made.map(drop).map_err(failed(path))
    }

    /// A group without a type, unless it is there already.
    pub(super) fn group_if_missing(&self, path: &str) -> Result<()> {
        if self.groups.borrow().contains(path) {
            return Ok(());
        }
        self.group(path)
    }

    /// A group of one of NWB's types.
    pub(super) fn object(&self, path: &str, namespace: &str, kind: &str) -> Result<()> {
        self.group(path)?;
        self.mark(path, namespace, kind)
    }

    /// Makes the group at `path` an object of one of NWB's types.
    pub(super) fn mark(&self, path: &str, namespace: &str, kind: &str) -> Result<()> {
        self.said(path, "namespace", namespace)?;
        self.said(path, "neurodata_type", kind)?;
        self.said(path, "object_id", &self.identity(path))
    }

    /// A text attribute of the group at `path`.
    pub(super) fn said(&self, path: &str, name: &str, text: &str) -> Result<()> {
        let group = self.at(path)?;
        group.set_attr_string(name, text).map_err(failed(path))
    }

    /// The names of a table's columns, in their order.
    pub(super) fn columns(&self, path: &str, names: &[&str]) -> Result<()> {
        let group = self.at(path)?;
        let set = group.set_attr_string_array("colnames", names);
        set.map_err(failed(path))
    }

    /// A soft link at `path` to `target`.
    pub(super) fn link(&self, path: &str, target: &str) -> Result<()> {
        let (folder, name) = split(path);
        let made = self.at(folder)?.create_soft_link(name, target);
        made.map_err(failed(path))
    }

    fn made(&self, path: &str, dataset: H5Dataset) -> NewDataset<'_> {
        NewDataset {
            dataset,
            path: path.to_owned(),
            file: self,
        }
    }

    /// A text: of fixed length, as the crate writes those of variable length as lists alone.
    pub(super) fn text(&self, path: &str, text: &str) -> Result<NewDataset<'_>> {
        let (folder, name) = split(path);
        let bytes = if text.is_empty() { "\0" } else { text };
        let kind = DatatypeMessage::FixedString {
            size: u32::try_from(bytes.len()).map_err(|_| {
                Error::argument(format!(
                    "{path}: expected a text of less than 4 GiB, got {} bytes",
                    bytes.len()
                ))
            })?,
            // Padded with zeros, UTF-8.
            padding: 1,
            charset: 1,
        };
        let group = self.at(folder)?;
        let builder = group.new_dataset::<u8>().scalar().datatype(kind);
        let dataset = builder.create(name).map_err(failed(path))?;
        let written = dataset.write_raw_bytes(bytes.as_bytes());
        written.map_err(failed(path))?;
        Ok(self.made(path, dataset))
    }

    /// A list of texts.
    pub(super) fn texts<S: AsRef<str>>(&self, path: &str, texts: &[S]) -> Result<NewDataset<'_>> {
        let (folder, name) = split(path);
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let made = self.at(folder)?.write_vlen_strings(name, &texts);
        made.map(|d| self.made(path, d)).map_err(failed(path))
    }

    /// One number.
    pub(super) fn number(&self, path: &str, value: f64) -> Result<NewDataset<'_>> {
        let (folder, name) = split(path);
        let builder = self.at(folder)?.new_dataset::<f64>().scalar();
        let dataset = builder.create(name).map_err(failed(path))?;
        dataset.write_raw(&[value]).map_err(failed(path))?;
        Ok(self.made(path, dataset))
    }

    /// A list of numbers.
    pub(super) fn numbers<T: H5Type>(&self, path: &str, values: &[T]) -> Result<NewDataset<'_>> {
        self.rows(path, &[values.len()], values)
    }

    /// Numbers of a shape, row-major.
    pub(super) fn rows<T: H5Type>(
        &self,
        path: &str,
        shape: &[usize],
        values: &[T],
    ) -> Result<NewDataset<'_>> {
        let (folder, name) = split(path);
        let builder = self.at(folder)?.new_dataset::<T>().shape(shape);
        let dataset = builder.create(name).map_err(failed(path))?;
        if !values.is_empty() {
            dataset.write_raw(values).map_err(failed(path))?;
        }
        Ok(self.made(path, dataset))
    }

    /// A list of references to objects, all to the one at `target`.
    pub(super) fn references(
        &self,
        path: &str,
        target: &str,
        count: usize,
    ) -> Result<NewDataset<'_>> {
        let (folder, name) = split(path);
        let builder = self.at(folder)?.new_dataset::<u64>().object_references();
        let dataset = builder.shape([count]).create(name).map_err(failed(path))?;
        let targets = vec![target; count];
        dataset
            .write_object_references(&targets)
            .map_err(failed(path))?;
        Ok(self.made(path, dataset))
    }

    /// A deflated dataset of rows `width` wide (a list, where there is none), about `rows` of them, that grows.
    pub(super) fn growing<T: H5Type>(
        &self,
        path: &str,
        width: Option<usize>,
        rows: u64,
    ) -> Result<GrowingDataset<'_, T>> {
        let (folder, name) = split(path);
        let row_bytes = T::element_size() * width.unwrap_or(1);
        let at_once = (CHUNK_BYTES / row_bytes.max(1)).max(1) as u64;
        let chunk = rows.clamp(1, at_once) as usize;
        let group = self.at(folder)?;
        let builder = group.new_dataset::<T>();
        let builder = match width {
            Some(width) => builder
                .shape([0, width])
                .chunk(&[chunk, width])
                .max_shape(&[None, Some(width)]),
            None => builder.shape([0]).chunk(&[chunk]).max_shape(&[None]),
        };
        let dataset = builder.shuffle_deflate(DEFLATE).create(name);
        Ok(GrowingDataset {
            dataset: self.made(path, dataset.map_err(failed(path))?),
            element: PhantomData,
        })
    }

    /// The identity of the object at `path`: equal files have equal ones. A UUID of version 8, whose bits are ours.
    fn identity(&self, path: &str) -> String {
        let half = |which: u64| {
            let mut hash = Fnv1a::new();
            hash.word(which);
            hash.word(self.seed);
            hash.bytes(path.as_bytes());
            // The last bytes taken in have hardly been spread by now.
            hash.word(which);
            hash.finish()
        };
        let (high, low) = (half(1), half(2));
        format!(
            "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }
}

impl NewDataset<'_> {
    /// Gives the dataset an attribute.
    pub(super) fn with(self, name: &str, value: Value<'_>) -> Result<Self> {
        let failed = failed(&self.path);
        let dataset = &self.dataset;
        let set = match value {
            Value::Text(text) => (dataset.new_attr::<VarLenUnicode>().shape(()).create(name))
                .and_then(|a| a.write_string(text)),
            Value::F32(value) => (dataset.new_attr::<f32>().shape(()).create(name))
                .and_then(|a| a.write_numeric(&value)),
            Value::F64(value) => (dataset.new_attr::<f64>().shape(()).create(name))
                .and_then(|a| a.write_numeric(&value)),
            Value::I32(value) => (dataset.new_attr::<i32>().shape(()).create(name))
                .and_then(|a| a.write_numeric(&value)),
            Value::Object(path) => (dataset.new_attr::<u64>().shape(()).create(name))
                .and_then(|a| a.write_object_references(&[path])),
        };
        set.map_err(failed)?;
        Ok(self)
    }

    /// Makes the dataset one of NWB's types.
    pub(super) fn of(self, namespace: &str, kind: &str) -> Result<Self> {
        let identity = self.file.identity(&self.path);
        self.with("namespace", Value::Text(namespace))?
            .with("neurodata_type", Value::Text(kind))?
            .with("object_id", Value::Text(&identity))
    }

    /// Makes the dataset a table's column.
    pub(super) fn column(self, about: &str) -> Result<Self> {
        self.of(COMMON, "VectorData")?
            .with("description", Value::Text(about))
    }
}

impl<'a, T: H5Type> GrowingDataset<'a, T> {
    /// Appends whole rows.
    pub(super) fn push(&mut self, rows: &[T]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let appended = self.dataset.dataset.append(rows);
        appended.map_err(failed(&self.dataset.path))
    }

    /// The dataset, to give it attributes.
    pub(super) fn whole(self) -> NewDataset<'a> {
        self.dataset
    }
}
