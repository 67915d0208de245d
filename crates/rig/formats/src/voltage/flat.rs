//! Files of 16-bit samples, read a block at a time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use betz_base::file::open_file;
use betz_base::{Error, Result};
use betz_sort::{MAX_CHANNELS, Voltage};

use super::SAMPLE;

/// A file of 16-bit little-endian samples, (rows, channels), read a block at a time.
#[derive(Debug)]
pub struct FlatFile {
    file: File,
    path: PathBuf,
    channels: usize,
    rows: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl FlatFile {
    /// Opens the samples of `channels` that begin after `offset` bytes. `truncate` ignores a partial row at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::ErrorKind::Io); `InvalidRecording` for a file without whole rows, and without
    /// `truncate` for one that ends within a row.
    pub fn open(path: &Path, channels: usize, offset: u64, truncate: bool) -> Result<Self> {
        let file = open_file(path)?;
        let metadata = file
            .metadata()
            .map_err(|e| Error::io("reading", path, &e))?;
        if channels == 0 || channels > MAX_CHANNELS {
            return Err(Error::argument(format!(
                "channels: expected 1 to {MAX_CHANNELS}, got {channels}"
            )));
        }
        let bytes = metadata.len().saturating_sub(offset);
        let row = SAMPLE * channels as u64;
        if bytes < row || (!truncate && !bytes.is_multiple_of(row)) {
            let way = match bytes < row {
                true => "",
                false => "; --truncate reads the whole rows",
            };
            return Err(Error::recording(format!(
                "{}: expected rows of {channels} channels of 16 bits ({row} bytes each), got {bytes} bytes, {} more than whole rows{way}",
                path.display(),
                bytes % row
            )));
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            channels,
            rows: bytes / row,
            offset,
            bytes: Vec::new(),
        })
    }

    /// At most the first `rows` rows.
    pub(super) fn with_most_rows(mut self, rows: u64) -> Self {
        self.rows = self.rows.min(rows);
        self
    }
}

impl Voltage for FlatFile {
    fn channels(&self) -> usize {
        self.channels
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn read(&mut self, from: u64, samples: &mut [i16]) -> Result<usize> {
        let io = |e: std::io::Error| Error::io("reading", &self.path, &e);
        let left = self
            .rows
            .saturating_sub(from)
            .min((samples.len() / self.channels) as u64);
        let count = left as usize * self.channels;
        self.bytes.resize(2 * count, 0);
        let at = self.offset + from * SAMPLE * self.channels as u64;
        self.file.seek(SeekFrom::Start(at)).map_err(io)?;
        self.file.read_exact(&mut self.bytes).map_err(io)?;
        let (pairs, _) = self.bytes.as_chunks::<2>();
        for (sample, pair) in samples.iter_mut().zip(pairs) {
            *sample = i16::from_le_bytes(*pair);
        }
        Ok(left as usize)
    }
}
