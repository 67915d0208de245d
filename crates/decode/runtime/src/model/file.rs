//! The model file: a [`frame`](betz_base::frame) around a versioned payload.

use alloc::vec::Vec;
#[cfg(feature = "std")]
use std::{
    io::{Read, Write},
    path::Path,
};

use super::Decoder;
use super::format::{self, MAX_BYTES};
use betz_base::error::{Error, ErrorKind, Result};
#[cfg(feature = "std")]
use betz_base::file::write_atomically;
use betz_base::frame::{self, Content};

/// The newest model format: what [`Decoder::to_bytes`] writes.
pub const FORMAT_VERSION: u32 = format::NEWEST;

const MODEL: Content = Content {
    magic: *b"BETZMODL",
    name: "a Betz model",
    damaged: ErrorKind::InvalidModel,
};

impl Decoder {
    /// The decoder as the bytes of a model file. Equal decoders give equal bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] when the decoder would take more than [`MAX_BYTES`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = format::encode(self.parts(), frame::HEADER);
        bytes.extend_from_slice(&[0; frame::OVERHEAD - frame::HEADER]);
        if bytes.len() > MAX_BYTES {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!(
                    "expected a model of at most {MAX_BYTES} bytes, got {}",
                    bytes.len()
                ),
            ));
        }
        frame::seal(MODEL, format::NEWEST, &mut bytes);
        Ok(bytes)
    }

    /// The decoder in the bytes of a model file, checked.
    ///
    /// Never panics and never takes memory out of proportion to `bytes`, whatever they hold.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for bytes that are damaged, cut short, no model, or a model that
    /// [`Decoder::new`] refuses; [`ErrorKind::UnsupportedVersion`] for an intact model of
    /// a format this version of Betz does not know.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MAX_BYTES {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!(
                    "expected a model of at most {MAX_BYTES} bytes, got {}",
                    bytes.len()
                ),
            ));
        }
        let (version, payload) = frame::open(MODEL, bytes)?;
        Self::new(format::decode(version, payload)?)
    }

    /// Writes the model file `path`: complete, or not at all.
    ///
    /// # Errors
    /// As [`Decoder::to_bytes`], and [`ErrorKind::Io`] when the file cannot be written.
    #[cfg(feature = "std")]
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes().map_err(|e| e.at(path.display()))?;
        write_atomically(path, |file| file.write_all(&bytes))
    }

    /// Reads the model file `path`.
    ///
    /// # Errors
    /// As [`Decoder::from_bytes`], and [`ErrorKind::Io`] when the file cannot be read; messages
    /// begin with the path.
    #[cfg(feature = "std")]
    pub fn load(path: &Path) -> Result<Self> {
        let read = || {
            // Looked at before it is opened: opening a pipe waits for somebody to write into it.
            let about = std::fs::metadata(path)?;
            if !about.is_file() {
                return Err(std::io::Error::other("expected a regular file"));
            }
            if about.len() > MAX_BYTES as u64 {
                let text = format!("expected at most {MAX_BYTES} bytes, got {}", about.len());
                return Err(std::io::Error::other(text));
            }
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(about.len() as usize)?;
            // It may have grown meanwhile.
            let most = MAX_BYTES as u64 + 1;
            std::fs::File::open(path)?
                .take(most)
                .read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|e| Error::io("reading the model", path, &e))?;
        Self::from_bytes(&bytes).map_err(|e| e.at(path.display()))
    }
}
