//! Writer of rows of int16 in POSIX shared memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use betz_base::{Error, ErrorKind, Result};

use super::{DATA, HEAD, MAGIC, TIME, path};
use crate::rig::emulate::{Emulator, whole_rows};
use crate::rig::host_ns;

/// Writes rows of int16 to shared memory, as [`SharedRig`](crate::rig::SharedRig) reads them. Removes the memory at
/// the end.
pub struct SharedWriter {
    file: File,
    path: PathBuf,
    channels: usize,
    room: u64,
    next: u64,
}

impl SharedWriter {
    /// The shared memory `name` with rows of `channels` and room for `room` of them, a power of two.
    ///
    /// # Errors
    /// `InvalidArgument` for another name, no channels or another room, `Io` if the memory cannot be made.
    pub fn create(
        name: &str,
        channels: usize,
        rate: f64,
        microvolts: f64,
        room: u64,
    ) -> Result<Self> {
        if channels == 0 || !room.is_power_of_two() {
            return Err(Error::argument(format!(
                "shared memory \"{name}\": expected channels and room for a power of two of rows, got {channels} and {room}"
            )));
        }
        let path = path(name)?;
        let io = |e| Error::new(ErrorKind::Io, format!("shared memory /{name}: {e}"));
        let file = File::create(&path).map_err(io)?;
        file.set_len(DATA + room * 2 * channels as u64)
            .map_err(io)?;
        let mut head = [0; 40];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&(channels as u32).to_le_bytes());
        head[16..24].copy_from_slice(&rate.to_le_bytes());
        head[24..32].copy_from_slice(&microvolts.to_le_bytes());
        head[32..40].copy_from_slice(&room.to_le_bytes());
        file.write_all_at(&head, 0).map_err(io)?;
        Ok(Self {
            file,
            path,
            channels,
            room,
            next: 0,
        })
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(|e| {
            Error::new(
                ErrorKind::Io,
                format!("{}: writing at byte {at}: {e}", self.path.display()),
            )
        })
    }

    /// Writes bytes somewhere, as damage; returns those that were there.
    #[cfg(test)]
    pub(crate) fn overwrite(&self, at: u64, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut before = vec![0; bytes.len()];
        let file = File::open(&self.path).and_then(|f| f.read_exact_at(&mut before, at));
        file.map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", self.path.display())))?;
        self.write(bytes, at)?;
        Ok(before)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|n| n.to_str()).unwrap_or("")
    }

    fn set_head(&self) -> Result<()> {
        self.write(&host_ns().to_le_bytes(), TIME)?;
        self.write(&self.next.to_le_bytes(), HEAD)
    }
}

impl Emulator for SharedWriter {
    fn send(&mut self, voltage: &[i16]) -> Result<()> {
        whole_rows(voltage, self.channels)?;
        // At most an eighth of the room before the head moves.
        let most = (self.room / 8).max(1) as usize * self.channels;
        for part in voltage.chunks(most) {
            for row in part.chunks(self.channels) {
                let at = DATA + self.next % self.room * 2 * self.channels as u64;
                let bytes: Vec<u8> = row.iter().flat_map(|v| v.to_le_bytes()).collect();
                self.write(&bytes, at)?;
                self.next += 1;
            }
            self.set_head()?;
        }
        Ok(())
    }

    /// A writer loses nothing; the rows stay as they were.
    fn lose(&mut self, rows: u64) -> Result<()> {
        self.next += rows;
        self.set_head()
    }

    fn restart(&mut self) -> Result<()> {
        self.next = 0;
        self.set_head()
    }

    fn next_row(&self) -> u64 {
        self.next
    }
}

impl Drop for SharedWriter {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
