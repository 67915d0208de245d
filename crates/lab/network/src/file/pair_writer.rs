//! The array `full` of a directory whose values are written a block at a time, and read a window at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use betz_base::{Error, ErrorKind, Result};
use serde_json::json;

use super::zarr::{self, CHUNK, Store};
use super::{NetworkFile, is_zarr};
use crate::every_pair::PairValues;

/// Name of the array.
const NAME: &str = "full";

/// Writes the values of all pairs to a directory, in any order, in chunks of a part of one window.
pub struct PairWriter {
    at: PathBuf,
    windows: usize,
    pairs: usize,
    /// Pairs of a chunk.
    chunk: usize,
    /// Number of values so far.
    written: u64,
}

impl PairWriter {
    fn new(root: &Path, windows: usize, pairs: usize, largest: usize) -> Result<Self> {
        let chunk = pairs.clamp(1, (largest / 4).max(1));
        let at = root.join(NAME);
        zarr::describe(
            &at,
            "float32",
            &[windows, pairs],
            &[1, chunk],
            &json!("NaN"),
        )?;
        Ok(Self {
            at,
            windows,
            pairs,
            chunk,
            written: 0,
        })
    }

    /// Writes a block.
    ///
    /// # Errors
    /// [`Mismatch`](ErrorKind::Mismatch) for windows or pairs that the network does not have, and for another number
    /// of values; [`Io`](ErrorKind::Io).
    pub fn put(&mut self, block: &PairValues<'_>) -> Result<()> {
        let (windows, pairs) = (&block.windows, &block.pairs);
        let within = windows.end <= self.windows && pairs.end <= self.pairs;
        if !within || block.values.len() != windows.len() * pairs.len() {
            return Err(Error::mismatch(format!(
                "full: expected values within {} windows of {} pairs, got {} values of windows {windows:?} and pairs {pairs:?}",
                self.windows,
                self.pairs,
                block.values.len()
            )));
        }
        let mut bytes = Vec::new();
        for (window, row) in windows.clone().zip(block.values.chunks(pairs.len().max(1))) {
            let mut from = pairs.start;
            while from < pairs.end {
                let number = from / self.chunk;
                let to = pairs.end.min((number + 1) * self.chunk);
                bytes.clear();
                let values = &row[from - pairs.start..to - pairs.start];
                bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
                self.put_bytes(window, number, from - number * self.chunk, &bytes)?;
                from = to;
            }
        }
        self.written += block.values.len() as u64;
        Ok(())
    }

    /// Writes bytes to a chunk of a window, from its pair `first` on.
    fn put_bytes(&self, window: usize, number: usize, first: usize, bytes: &[u8]) -> Result<()> {
        let folder = self.at.join("c").join(window.to_string());
        let key = folder.join(number.to_string());
        let failed = |e: std::io::Error| Error::io("write", &key, &e);
        let open = || OpenOptions::new().write(true).open(&key);
        let mut file: File = match open() {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                fs::create_dir_all(&folder).map_err(failed)?;
                let file = File::create(&key).map_err(failed)?;
                // Every chunk of a regular grid is whole.
                file.set_len(4 * self.chunk as u64).map_err(failed)?;
                file
            }
            opened => opened.map_err(failed)?,
        };
        file.seek(SeekFrom::Start(4 * first as u64))
            .and_then(|_| file.write_all(bytes))
            .map_err(failed)
    }

    /// Checks that every value was written.
    fn finish(self) -> Result<()> {
        let all = self.windows as u64 * self.pairs as u64;
        if self.written == all {
            return Ok(());
        }
        Err(Error::mismatch(format!(
            "full: expected {all} values, got {}",
            self.written
        )))
    }
}

impl NetworkFile {
    /// Writes the network to the directory at `path`, as [`NetworkFile::write`] does, with the value of every pair:
    /// `put` gives them to the writer block by block, so that they need not be in memory together.
    /// [`Plan::stream_pairs`](crate::Plan::stream_pairs) makes such blocks.
    ///
    /// # Errors
    /// As for [`NetworkFile::write`]; [`InvalidArgument`](ErrorKind::InvalidArgument) for a path that does not end in
    /// `.zarr`, and if this holds values of all pairs itself; [`Mismatch`](ErrorKind::Mismatch) if values are missing;
    /// errors of `put`.
    pub fn write_with_pairs(
        &self,
        path: &Path,
        put: &mut dyn FnMut(&mut PairWriter) -> Result<()>,
    ) -> Result<()> {
        self.write_with_pairs_in(path, CHUNK, put)
    }

    pub(super) fn write_with_pairs_in(
        &self,
        path: &Path,
        largest: usize,
        put: &mut dyn FnMut(&mut PairWriter) -> Result<()>,
    ) -> Result<()> {
        if !is_zarr(path) || self.full.is_some() {
            return Err(Error::argument(format!(
                "{}: expected a directory (.zarr), and values of all pairs that are not in memory",
                path.display()
            )));
        }
        self.write_and(path, &mut |root| {
            let mut writer = PairWriter::new(root, self.network.len(), self.pairs(), largest)?;
            put(&mut writer)?;
            writer.finish()
        })
    }

    /// The values of all pairs in window `k` of the network at `path`, by (i, j), NaN where undefined; `None` if the
    /// file does not have them.
    ///
    /// # Errors
    /// As for [`NetworkFile::read`]; [`InvalidArgument`](ErrorKind::InvalidArgument) for a window that does not exist.
    pub fn read_pairs(path: &Path, k: usize) -> Result<Option<Vec<f32>>> {
        if is_zarr(path) || path.is_dir() {
            let row = Store::open(path).and_then(|store| store.row(NAME, k));
            return row.map_err(|e| match e.message().contains(&*path.to_string_lossy()) {
                true => e,
                false => e.at(path.display()),
            });
        }
        let file = Self::read(path)?;
        let (windows, pairs) = (file.network.len(), file.pairs());
        if k >= windows {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("window: expected one of {windows}, got {k}"),
            ));
        }
        Ok(file.full.map(|full| full[k * pairs..][..pairs].to_vec()))
    }
}
