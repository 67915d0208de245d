//! Rows of int16 in POSIX shared memory, written by another program of this machine.
//!
//! | at | content |
//! |---|---|
//! | 0 | `BETZSHM1` |
//! | 8 | channels, u32 |
//! | 16 | rows per second, f64 |
//! | 24 | microvolts per bit, f64 |
//! | 32 | rows of room, u64, a power of two |
//! | 64 | head: rows written since the beginning, u64, stored after the rows (release) |
//! | 128 | host time of the head in ns, i64, see [`host_ns`] |
//! | 4096 | the rows, int16; row r at r modulo the room |
//!
//! A writer stores at most an eighth of the room before it moves the head. A reader that is more than seven eighths
//! behind has lost exactly the rows beyond them: it looks at the head again after it has copied. On Linux shared
//! memory is a file of `/dev/shm`, which is read as one: that needs no unsafe code and no mapping.

#[cfg(feature = "emulate")]
pub(crate) mod emulate;
#[cfg(all(test, feature = "emulate"))]
mod tests;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use betz_base::{Error, ErrorKind, Result};

use crate::rig::{Arrival, Block, Loss, Rig, RigCounts, Samples, Signal, append_words};
use crate::udp::word;

pub(super) const MAGIC: [u8; 8] = *b"BETZSHM1";
pub(super) const HEAD: u64 = 64;
pub(super) const TIME: u64 = 128;
pub(super) const DATA: u64 = 4096;
/// Most bytes of a block.
const LARGEST: usize = 1 << 20;
/// Between two looks at the head.
const PAUSE: Duration = Duration::from_micros(50);

/// Source of rows of int16 in shared memory.
pub struct SharedRig {
    name: String,
    file: File,
    signal: Signal,
    room: u64,
    /// Rows that no writer is storing.
    reach: u64,
    next: u64,
    epoch: u32,
    bytes: Vec<u8>,
    counts: RigCounts,
}

/// The file of the shared memory `name`.
pub(super) fn path(name: &str) -> Result<PathBuf> {
    let plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    if !plain {
        return Err(Error::argument(format!(
            "shared memory \"{name}\": expected a name without /, as in shm:///NAME"
        )));
    }
    Ok(PathBuf::from("/dev/shm").join(name))
}

impl SharedRig {
    /// The shared memory `name`. Reading begins with the newest row.
    ///
    /// # Errors
    /// `InvalidArgument` for a name with slashes, `Io` if there is no such memory, `Mismatch` if it does not begin as
    /// above.
    pub fn open(name: &str) -> Result<Self> {
        let io = |e| Error::new(ErrorKind::Io, format!("shared memory /{name}: {e}"));
        let file = File::open(path(name)?).map_err(io)?;
        let mut head = [0; 40];
        file.read_exact_at(&mut head, 0).map_err(io)?;
        let channels = u32::from_le_bytes(word(&head, 8)) as usize;
        let rate = f64::from_le_bytes(word(&head, 16));
        let microvolts = f64::from_le_bytes(word(&head, 24));
        let room = u64::from_le_bytes(word(&head, 32));
        let length = file.metadata().map_err(io)?.len();
        let size = room
            .checked_mul(2 * channels as u64)
            .and_then(|n| n.checked_add(DATA));
        let sound = head[..8] == MAGIC
            && (1..=1 << 14).contains(&channels)
            && (rate.is_finite() && rate > 0.0)
            && room.is_power_of_two()
            && room >= 2
            && size.is_some_and(|size| size <= length);
        if !sound {
            return Err(Error::mismatch(format!(
                "shared memory /{name}: expected BETZSHM1 with channels, a rate and a power of two of rows that fit, got {:?} with {channels} channels at {rate} Hz, {room} rows in {length} bytes",
                String::from_utf8_lossy(&head[..8])
            )));
        }
        let mut rig = Self {
            name: name.into(),
            file,
            signal: Signal {
                channels,
                rate,
                microvolts: (microvolts.is_finite() && microvolts > 0.0).then_some(microvolts),
                clock_bits: 64,
            },
            room,
            reach: room - room.div_ceil(8),
            next: 0,
            epoch: 0,
            bytes: Vec::new(),
            counts: RigCounts::default(),
        };
        rig.next = rig.head()?;
        Ok(rig)
    }

    /// Sets the microvolts per bit, if the memory states none.
    pub fn with_microvolts(mut self, microvolts: Option<f64>) -> Self {
        self.signal.microvolts = self.signal.microvolts.or(microvolts);
        self
    }

    fn read(&self, into: &mut [u8], at: u64) -> Result<()> {
        (self.file.read_exact_at(into, at)).map_err(|e| {
            Error::new(
                ErrorKind::Io,
                format!("shared memory /{}: at byte {at}: {e}", self.name),
            )
        })
    }

    /// The head; read until two looks agree, because a look may meet a store.
    fn head(&self) -> Result<u64> {
        let look = || {
            let mut head = [0; 8];
            self.read(&mut head, HEAD)
                .map(|()| u64::from_le_bytes(head))
        };
        let mut before = look()?;
        for _ in 0..16 {
            let now = look()?;
            if now == before {
                break;
            }
            before = now;
        }
        Ok(before)
    }

    fn copy(&mut self, rows: u64) -> Result<()> {
        let row = 2 * self.signal.channels as u64;
        let at = self.next % self.room;
        let until_end = rows.min(self.room - at);
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize((rows * row) as usize, 0);
        let (first, second) = bytes.split_at_mut((until_end * row) as usize);
        self.read(first, DATA + at * row)?;
        self.read(second, DATA)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Rig for SharedRig {
    fn signal(&self) -> Option<Signal> {
        Some(self.signal.clone())
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let started = Instant::now();
        let mut head = self.head()?;
        while head == self.next {
            if started.elapsed() >= patience {
                return Ok(Arrival::Nothing);
            }
            std::thread::sleep(PAUSE.min(patience));
            head = self.head()?;
        }
        if head < self.next {
            // Another writer has begun.
            (self.next, self.epoch) = (0, self.epoch + 1);
            self.counts.restarts += 1;
        }
        let row = 2 * self.signal.channels;
        let most = (LARGEST / row).max(1) as u64;
        let mut lost = (head - self.next).saturating_sub(self.reach);
        self.next += lost;
        let rows = (head - self.next).min(most);
        self.copy(rows)?;
        let mut time = [0; 8];
        self.read(&mut time, TIME)?;
        // Rows that were overwritten while they were copied.
        let after = self.head()?;
        let torn = (after.max(head) - self.next)
            .saturating_sub(self.reach)
            .min(rows);
        lost += torn;
        let mut voltage = block.take_voltage();
        append_words(&mut voltage, &self.bytes[torn as usize * row..]);
        *block = Block {
            epoch: self.epoch,
            first: self.next + torn,
            rows: (rows - torn) as usize,
            host_ns: i64::from_le_bytes(time),
            lost_before: Loss {
                count: lost,
                at_least: false,
            },
            samples: Samples::Voltage(voltage),
        };
        self.next += rows;
        if block.rows == 0 {
            // The loss is told with the rows that come next.
            self.next -= rows + (lost - torn);
            return Ok(Arrival::Nothing);
        }
        self.counts.lost = self.counts.lost.saturating_add(lost);
        self.counts.blocks += 1;
        self.counts.rows += block.rows as u64;
        Ok(Arrival::Block)
    }

    fn counts(&self) -> RigCounts {
        self.counts
    }
}
