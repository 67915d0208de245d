//! A shard of a network as a file: a [frame](betz_base::frame) with its checksum around, all numbers little-endian:
//!
//! ```text
//! length u32, JSON (UTF-8): shard, shards, windows of all, number of the first window, windows of a run, samples
//!                           between them; `meta` of the network's file; node names; what floats are to the last bit
//! window_seconds f64 each, positions f64 each, as the JSON says
//! windows, edges and undefined nodes, in words u64
//! ```

use std::io::Write;
use std::path::Path;

use betz_base::file::{read_all, write_atomically};
use betz_base::frame::{self, Content};
use betz_base::team::Shard;
use betz_base::wire::Writer;
use betz_base::{Error, ErrorKind, Result};

use super::{Head, Part};
use crate::file::{NetworkFile, Positions, header, read};
use crate::network::{Meta, Network};
use crate::words::{absorb, to_words};

/// The first bytes of a shard's file.
pub const PART_MAGIC: [u8; 8] = *b"BETZNETP";

pub(super) const CONTENT: Content = Content {
    magic: PART_MAGIC,
    name: "a shard of a network",
    damaged: ErrorKind::InvalidRecording,
};

pub(super) const VERSION: u32 = 1;

impl NetworkFile {
    /// The whole network in bytes, to hand on to another process. [`from_bytes`](Self::from_bytes) gives it back.
    ///
    /// # Errors
    /// [`Mismatch`](ErrorKind::Mismatch) for values of all pairs, which are not kept; [`Internal`](ErrorKind::Internal) when
    /// a number cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Part::of_whole(self.clone())?.to_bytes()
    }

    /// The network of the bytes that [`to_bytes`](Self::to_bytes) made, or of the only shard of one.
    ///
    /// # Errors
    /// The errors of [`Part::from_bytes`] and [`Part::join`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Part::join(vec![Part::from_bytes(bytes)?])
    }
}

impl Part {
    /// The bytes of its file.
    ///
    /// # Errors
    /// [`Internal`](ErrorKind::Internal) when a number cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(&self.head)
            .map_err(|e| Error::new(ErrorKind::Internal, format!("a shard of a network: {e}")))?;
        let words = to_words(&self.file.network);
        let mut to = Writer::framed();
        to.bytes
            .reserve_exact(text.len() + 8 * words.len() + frame::OVERHEAD);
        to.u32(text.len() as u32);
        to.bytes.extend_from_slice(&text);
        let seconds = self.file.window_seconds.iter().flatten();
        let places = self.file.positions.iter().flat_map(|p| &p.values);
        seconds.chain(places).for_each(|number| to.f64(*number));
        words.into_iter().for_each(|word| to.u64(word));
        Ok(to.seal(CONTENT, VERSION))
    }

    /// The shard in `bytes`, checked as a network's file is.
    ///
    /// # Errors
    /// [`InvalidRecording`](ErrorKind::InvalidRecording) for bytes that are none, are damaged or cut short, or hold what
    /// no network can; [`UnsupportedVersion`](ErrorKind::UnsupportedVersion).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (_, mut from) = CONTENT.read(bytes, VERSION..=VERSION)?;
        let damaged = |what: &dyn std::fmt::Display| CONTENT.error(what);
        let length = from.u32()?;
        let text = from.bytes(u64::from(length))?;
        let mut head: Head = serde_json::from_slice(text).map_err(|e| damaged(&e))?;
        let number = |bits: Option<u64>| bits.map(f64::from_bits);
        [
            head.meta.threshold,
            head.meta.density,
            head.meta.sample_seconds,
        ] = head.exact.map(number);
        let shard = Shard::new(head.shard, head.shards).map_err(|e| damaged(&e.message()))?;
        let meta = header::meta(&head.meta).map_err(|e| damaged(&e.message()))?;
        let window_seconds = match head.timed {
            true => Some(from.f64_list(head.own_windows as u64)?),
            false => None,
        };
        let positions = match head.axes {
            Some(axes) => Some(Positions {
                values: from.f64_list(meta.nodes.saturating_mul(axes) as u64)?,
                axes,
            }),
            None => None,
        };
        let words = from.u64_list(from.rest().len().div_ceil(8) as u64)?;
        // The words have what was counted.
        let mut network = Network::empty(Meta {
            rechecked: 0,
            rebuilt: 0,
            extreme: 0,
            ..meta
        });
        absorb(&mut network, &words).map_err(|e| damaged(&e.message()))?;
        if network.len() != head.own_windows {
            return Err(damaged(&format_args!(
                "expected {} windows, got {}",
                head.own_windows,
                network.len()
            )));
        }
        read::check(&network).map_err(|e| damaged(&e.message()))?;
        let file = NetworkFile {
            network,
            names: head.names.clone(),
            positions,
            window_seconds,
            source: head.meta.source.clone(),
            chance: head.meta.chance.clone(),
            complete: true,
            compact: head.meta.compact,
            full: None,
        };
        (file.nodes().check(file.network.nodes())).map_err(|e| damaged(&e.message()))?;
        Ok(Self {
            name: format!("shard {shard}"),
            shard,
            head,
            file,
        })
    }

    /// Writes the file `path`: complete, or not at all.
    ///
    /// # Errors
    /// As [`to_bytes`](Self::to_bytes); [`Io`](ErrorKind::Io).
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes()?;
        write_atomically(path, |file| file.write_all(&bytes))
    }

    /// Reads the file `path`.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes), and [`Io`](ErrorKind::Io); messages begin with the path.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = read_all(path, Some(&PART_MAGIC))?;
        let mut part = Self::from_bytes(&bytes).map_err(|e| e.at(path.display()))?;
        part.name = path.display().to_string();
        Ok(part)
    }
}
