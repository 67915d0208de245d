//! Reading HDF5 for NWB, with sizes checked before anything is read. With `hdf5_write.rs`, `hdf5_error.rs` and
//! `links.rs` the only files that know the HDF5 crate.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use betz_base::error::{Error, Result};
use betz_base::memory;
use rust_hdf5::format::messages::datatype::DatatypeMessage;
use rust_hdf5::{H5Dataset, H5File, StorageLayout};

use super::hdf5_error::guarded;
use super::links::{self, LinkTarget};

/// Most times that deflate makes data smaller.
const MOST_DEFLATED: u64 = 1040;
/// Numbers that are read at once where there are many.
const STRETCH: usize = 1 << 20;
/// Bytes of the address of a chunk, one per chunk.
const ADDRESS: u64 = 8;
/// Bytes that are always there.
const FEW: u128 = 1 << 20;
/// Bytes that the crate remembers of a chunk, at most.
const OF_CHUNK: u128 = 64;

/// An open file.
pub(super) struct File {
    file: H5File,
    /// Total size of the file and of the files that its external links point to.
    bytes: u64,
    datasets: BTreeSet<String>,
    linked: Vec<LinkTarget>,
    /// Soft links: their paths, and the paths that they lead to.
    aliases: Vec<(String, String)>,
    /// External links whose files are missing, one sentence each.
    dangling: Vec<String>,
}

/// Numbers as they are stored, row-major, as f64.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Numbers {
    pub(super) values: Vec<f64>,
    pub(super) shape: Vec<usize>,
}

/// Layout of a stored dataset.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DatasetLayout {
    pub(super) shape: Vec<usize>,
    /// Extent of a chunk; `None` if the data are in one piece.
    pub(super) chunk: Option<Vec<usize>>,
    /// NumPy's name of the element type, without byte order.
    pub(super) element: String,
}

impl File {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(|e| Error::io("reading", path, &e))?;
        links::check_length(path, metadata.len())?;
        let file = guarded("HDF5", || H5File::options().no_locking().open(path))?;
        let mut datasets = links::dataset_names(&file)?;
        let links::Links {
            linked,
            dangling,
            aliases,
        } = links::read(&file, path)?;
        let mut bytes = metadata.len();
        for link in &linked {
            bytes = bytes.saturating_add(link.bytes);
            datasets.extend(link.datasets()?);
        }
        // A link may lead to a group with links.
        for _ in 0..links::DEEPEST_CHAIN {
            let behind = links::behind(&aliases, &datasets);
            let before = datasets.len();
            datasets.extend(behind);
            if datasets.len() == before {
                break;
            }
        }
        Ok(Self {
            file,
            bytes,
            datasets,
            linked,
            aliases,
            dangling,
        })
    }

    /// External links whose files are missing, one sentence each.
    pub(super) fn dangling(&self) -> &[String] {
        &self.dangling
    }

    /// The path of the same object without soft links.
    pub(super) fn canonical(&self, path: &str) -> String {
        let mut path = path.trim_matches('/').to_owned();
        for _ in 0..links::DEEPEST_CHAIN {
            let mut links = self.aliases.iter();
            let next = links.find_map(|(at, target)| {
                let rest = path.strip_prefix(at.as_str())?;
                (rest.is_empty() || rest.starts_with('/')).then(|| format!("{target}{rest}"))
            });
            match next {
                Some(next) => path = next,
                None => break,
            }
        }
        path
    }

    /// The file that has `path`, and the path there: another one's behind an external link.
    fn resolve<'a>(&'a self, path: &'a str) -> (&'a H5File, Cow<'a, str>) {
        let mut links = self.linked.iter();
        match links.find_map(|link| Some((&link.file, link.inside(path)?))) {
            Some((file, inside)) => (file, Cow::Owned(inside)),
            None => (&self.file, Cow::Borrowed(path)),
        }
    }

    /// Paths of all datasets, ascending. Those behind soft links may be missing.
    pub(super) fn datasets(&self) -> impl Iterator<Item = &str> {
        self.datasets.iter().map(String::as_str)
    }

    /// The dataset at `path`; soft links are followed.
    fn dataset(&self, path: &str) -> Option<H5Dataset> {
        let (file, inside) = self.resolve(path);
        catch_unwind(AssertUnwindSafe(|| file.dataset(&inside).ok())).ok()?
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.datasets.contains(path) || self.dataset(path).is_some()
    }

    /// The numbers at `path` as f64: floats, integers of any width, and booleans, which h5py stores as an
    /// enumeration. `None` where there is no such dataset.
    pub(super) fn numbers(&self, path: &str) -> Result<Option<Numbers>> {
        let Some(dataset) = self.dataset(path) else {
            return Ok(None);
        };
        let bytes = self.check_structure(path, &dataset)?;
        plan(path, bytes, dataset.element_size())?;
        let shape = guarded(path, || Ok(dataset.shape()))?;
        if bytes > (8 * STRETCH) as u128
            && let Some(values) = self.in_stretches(path, &dataset, &shape)?
        {
            return Ok(Some(Numbers { values, shape }));
        }
        let values = guarded(path, || {
            if let Ok(values) = dataset.read_numeric_as::<f64>() {
                return Ok(values);
            }
            if let Ok(values) = dataset.read_numeric_as::<i64>() {
                return Ok(values.into_iter().map(|v| v as f64).collect());
            }
            if dataset.element_size() == 1 {
                let bytes = dataset.read_raw_bytes()?;
                return Ok(bytes.into_iter().map(|b| f64::from(b as i8)).collect());
            }
            dataset.read_numeric_as::<f64>()
        })?;
        if shape.iter().product::<usize>() != values.len() {
            return Err(Error::recording(format!(
                "{path}: expected {shape:?} values, got {}",
                values.len()
            )));
        }
        Ok(Some(Numbers { values, shape }))
    }

    /// Numbers of which a copy as they are stored would be large, a stretch after the other; `None` for what is read whole
    /// alone (booleans, and rows that are no rows).
    fn in_stretches(
        &self,
        path: &str,
        dataset: &H5Dataset,
        shape: &[usize],
    ) -> Result<Option<Vec<f64>>> {
        let datatype = guarded(path, || dataset.datatype())?;
        let numeric = matches!(
            datatype,
            DatatypeMessage::FixedPoint { .. } | DatatypeMessage::FloatingPoint { .. }
        );
        let of_row: usize = shape.iter().skip(1).product();
        if !numeric || of_row == 0 {
            return Ok(None);
        }
        let tall = self.tall(path, dataset)?;
        let rows = (STRETCH / of_row / tall).max(1) * tall;
        let mut values = memory::room(path, shape[0] * of_row)?;
        let (mut first, mut count) = (vec![0; shape.len()], shape.to_vec());
        for row in (0..shape[0]).step_by(rows) {
            (first[0], count[0]) = (row, rows.min(shape[0] - row));
            values.extend(self.block(path, &first, &count)?);
        }
        Ok(Some(values))
    }

    /// Rows of a chunk.
    fn tall(&self, path: &str, dataset: &H5Dataset) -> Result<usize> {
        let chunk = guarded(path, || Ok(dataset.chunk_dims()))?;
        Ok(chunk
            .and_then(|chunk| chunk.first().copied())
            .map_or(1, |n| n.max(1)))
    }

    /// Elements of the list at `path` that are best read at once: whole chunks.
    pub(super) fn stretch(&self, path: &str) -> Result<usize> {
        let tall = self.tall(path, &self.needed(path)?)?;
        Ok((STRETCH / tall).max(1) * tall)
    }

    /// Fills `values` with the numbers of the list at `path`, from `first` on.
    pub(super) fn fill(&self, path: &str, first: usize, values: &mut [f64]) -> Result<()> {
        let dataset = self.needed(path)?;
        if element(&guarded(path, || dataset.datatype())?) != "float64" {
            let read = self.block(path, &[first], &[values.len()])?;
            return match read.len() == values.len() {
                true => {
                    values.copy_from_slice(&read);
                    Ok(())
                }
                false => Err(Error::recording(format!(
                    "{path}: expected {} values, got {}",
                    values.len(),
                    read.len()
                ))),
            };
        }
        self.check_structure(path, &dataset)?;
        let count = [values.len()];
        guarded(path, || dataset.read_slice_into(values, &[first], &count))
    }

    /// Shape of the dataset at `path`; `None` if it does not exist.
    pub(super) fn shape(&self, path: &str) -> Result<Option<Vec<usize>>> {
        let Some(dataset) = self.dataset(path) else {
            return Ok(None);
        };
        guarded(path, || Ok(dataset.shape())).map(Some)
    }

    /// Layout of the dataset at `path`; `None` if it does not exist.
    pub(super) fn stored(&self, path: &str) -> Result<Option<DatasetLayout>> {
        let Some(dataset) = self.dataset(path) else {
            return Ok(None);
        };
        self.check_structure(path, &dataset)?;
        guarded(path, || {
            Ok(DatasetLayout {
                shape: dataset.shape(),
                chunk: dataset.chunk_dims(),
                element: element(&dataset.datatype()?),
            })
        })
        .map(Some)
    }

    /// Reads a block of the numbers at `path`, from the element `first`, with `count` elements along each axis,
    /// row-major. Takes memory for the block and for the chunks that contain it.
    pub(super) fn block(&self, path: &str, first: &[usize], count: &[usize]) -> Result<Vec<f64>> {
        let dataset = self.needed(path)?;
        self.check_structure(path, &dataset)?;
        let element = dataset.element_size();
        plan(path, product(count, element), element)?;
        guarded(path, || {
            if let Ok(values) = dataset.read_numeric_slice_as::<f64>(first, count) {
                return Ok(values);
            }
            let values = dataset.read_numeric_slice_as::<i64>(first, count)?;
            Ok(values.into_iter().map(|v| v as f64).collect())
        })
    }

    /// Fills `samples` with the block of the int16 at `path` that begins at `first` and has `count` along each axis.
    ///
    /// Memory is that of the chunks it lies in. Whether there is so much is for the caller to plan, once.
    pub(super) fn samples(
        &self,
        path: &str,
        first: &[usize],
        count: &[usize],
        samples: &mut [i16],
    ) -> Result<()> {
        let dataset = self.needed(path)?;
        guarded(path, || dataset.read_slice_into(samples, first, count))
    }

    fn needed(&self, path: &str) -> Result<H5Dataset> {
        let none = || Error::recording(format!("{path}: expected a dataset, got none"));
        self.dataset(path).ok_or_else(none)
    }

    /// True if `path` is a dataset of numbers or booleans.
    pub(super) fn is_numeric(&self, path: &str) -> bool {
        let datatype = self.dataset(path).map(|d| guarded(path, || d.datatype()));
        matches!(
            datatype,
            Some(Ok(DatatypeMessage::FixedPoint { .. }
                | DatatypeMessage::FloatingPoint { .. }
                | DatatypeMessage::Enum { .. }))
        )
    }

    /// Strings at `path`; `None` if there are none.
    pub(super) fn strings(&self, path: &str) -> Result<Option<Vec<String>>> {
        let Some(dataset) = self.dataset(path) else {
            return Ok(None);
        };
        let bytes = self.check_structure(path, &dataset)?;
        plan(path, bytes, dataset.element_size())?;
        let read = || match dataset.datatype() {
            // Short ones would be taken for places of texts of variable length.
            Ok(DatatypeMessage::FixedString { .. }) => dataset.read_strings_lossy(),
            _ => dataset
                .read_vlen_strings()
                .or_else(|_| dataset.read_strings_lossy()),
        };
        Ok(guarded(path, read).ok())
    }

    /// A text attribute of the dataset at `path`.
    pub(super) fn text(&self, path: &str, attribute: &str) -> Option<String> {
        let dataset = self.dataset(path)?;
        guarded(path, || dataset.attr(attribute)?.read_string()).ok()
    }

    /// A text attribute of the group at `path`.
    pub(super) fn group_text(&self, path: &str, attribute: &str) -> Option<String> {
        let (file, inside) = self.resolve(path);
        guarded(path, || {
            file.root_group().group(&inside)?.attr_string(attribute)
        })
        .ok()
    }

    /// A number that is an attribute of the dataset at `path`. One of 32 bits is the shortest decimal that these bits
    /// stand for: 30000.39 Hz, not 30000.390625.
    pub(super) fn number(&self, path: &str, attribute: &str) -> Option<f64> {
        let dataset = self.dataset(path)?;
        let read = || {
            let attribute = dataset.attr(attribute)?;
            if let Ok(DatatypeMessage::FloatingPoint { size: 4, .. }) = attribute.datatype() {
                let values = attribute.read_numeric_as::<f64>()?;
                let decimal = |v: &f64| format!("{}", *v as f32).parse().unwrap_or(*v);
                return Ok(values.iter().map(decimal).collect());
            }
            attribute.read_numeric_as::<f64>().or_else(|_| {
                Ok(attribute
                    .read_numeric_as::<i64>()?
                    .iter()
                    .map(|v| *v as f64)
                    .collect())
            })
        };
        guarded(path, read).ok()?.first().copied()
    }

    /// Refuses a dataset that is larger than the file can hold, or has more chunks than it can list, and one that is put
    /// together from others; how many bytes it has.
    fn check_structure(&self, path: &str, dataset: &H5Dataset) -> Result<u128> {
        let (shape, element, chunk, layout) = guarded(path, || {
            Ok((
                dataset.shape(),
                dataset.element_size(),
                dataset.chunk_dims(),
                dataset.storage_layout()?,
            ))
        })?;
        if layout == StorageLayout::Virtual {
            return Err(Error::recording(format!(
                "{path}: expected data of this file, got a virtual dataset of others (h5repack copies them into one)"
            )));
        }
        let claimed = product(&shape, element);
        let most = u128::from(self.bytes)
            * match chunk {
                Some(_) => u128::from(MOST_DEFLATED),
                None => 1,
            };
        if claimed > most {
            return Err(Error::recording(format!(
                "{path}: expected at most {most} bytes, which a file of {} can hold, got a shape of {shape:?}",
                self.bytes
            )));
        }
        if let Some(chunk) = chunk {
            // One is opened whole, however little of it is data.
            let of_chunk = product(&chunk, element);
            if of_chunk > most {
                return Err(Error::recording(format!(
                    "{path}: expected chunks of at most {most} bytes, which a file of {} can hold, got {chunk:?}",
                    self.bytes
                )));
            }
            let along = shape.iter().zip(&chunk);
            let chunks = along.fold(1, |all: u128, (n, of)| {
                all.saturating_mul(n.div_ceil((*of).max(1)) as u128)
            });
            if chunks > u128::from(self.bytes / ADDRESS) {
                return Err(Error::recording(format!(
                    "{path}: expected at most {} chunks, which a file of {} bytes can list, got {chunks} of {chunk:?}",
                    self.bytes / ADDRESS,
                    self.bytes
                )));
            }
            needs(path, of_chunk + chunks * OF_CHUNK)?;
        }
        Ok(claimed)
    }
}

fn product(shape: &[usize], element: usize) -> u128 {
    let sizes = shape.iter().map(|&n| n as u128);
    sizes.fold(element.max(1) as u128, u128::saturating_mul)
}

/// Refuses data that do not fit in memory, as stored and as f64.
fn plan(path: &str, bytes: u128, element: usize) -> Result<()> {
    needs(path, bytes + bytes / element.max(1) as u128 * 8)
}

/// Refuses bytes that there are not. Of few the system is not asked, which takes longer than to read them.
fn needs(path: &str, bytes: u128) -> Result<()> {
    match bytes > FEW {
        true => memory::plan(path, bytes),
        false => Ok(()),
    }
}

/// NumPy's name of a type.
fn element(of: &DatatypeMessage) -> String {
    match of {
        DatatypeMessage::FixedPoint { size, signed, .. } => {
            format!("{}int{}", if *signed { "" } else { "u" }, 8 * size)
        }
        DatatypeMessage::FloatingPoint { size, .. } => format!("float{}", 8 * size),
        other => other.to_string(),
    }
}
