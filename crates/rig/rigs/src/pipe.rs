//! Rows of int16 from a pipe or a file: nothing but the rows. Losses cannot be told.

use std::fs::File;
use std::io::{ErrorKind as Io, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};

use crate::rig::{
    Arrival, Block, Loss, LossReport, Rig, RigCounts, Samples, Signal, append_words, host_ns,
};

/// A named pipe, opened by the first read, because opening waits for a writer.
pub struct Fifo {
    path: PathBuf,
    file: Option<File>,
}

impl Fifo {
    /// The pipe at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            file: None,
        }
    }
}

impl Read for Fifo {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path)?,
        };
        self.file.insert(file).read(buffer)
    }
}

/// Number of reads that wait to be taken; with more the pipe waits.
const WAITING: usize = 256;

/// Result of a read: rows and their arrival, an end within a row, or a failure.
enum Piece {
    Rows(Vec<u8>, i64),
    Torn,
    Failed(std::io::Error),
}

/// Source of rows of int16 from a pipe. A thread of its own reads it, because a read may block.
pub struct PipeRig {
    pieces: Receiver<Piece>,
    signal: Signal,
    next: u64,
    counts: RigCounts,
}

impl PipeRig {
    /// Rows of `channels` at `rate` per second out of `pipe`.
    ///
    /// # Errors
    /// `InvalidArgument` for no channels or no rate, `Io` if the system gives no thread.
    pub fn new(
        pipe: Box<dyn Read + Send>,
        channels: usize,
        rate: f64,
        microvolts: Option<f64>,
    ) -> Result<Self> {
        if channels == 0 || !(rate.is_finite() && rate > 0.0) {
            return Err(Error::argument(format!(
                "pipe: expected channels=N&rate=HZ above 0, got {channels} and {rate}"
            )));
        }
        let (give, pieces) = sync_channel(WAITING);
        let row = 2 * channels;
        // About a millisecond.
        let most = ((rate / 1000.0).ceil() as usize).clamp(1, 1 << 20) * row;
        std::thread::Builder::new()
            .name("betz-pipe".into())
            .spawn(move || read(pipe, row, most, &give))
            .map_err(|e| Error::new(ErrorKind::Io, format!("pipe: starting a thread: {e}")))?;
        Ok(Self {
            pieces,
            signal: Signal {
                channels,
                rate,
                microvolts,
                clock_bits: 64,
            },
            next: 0,
            counts: RigCounts::default(),
        })
    }
}

fn read(mut pipe: Box<dyn Read + Send>, row: usize, most: usize, give: &SyncSender<Piece>) {
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        let held = bytes.len();
        bytes.resize(most.max(row), 0);
        let read = match pipe.read(&mut bytes[held..]) {
            Ok(read) => read,
            Err(e) if e.kind() == Io::Interrupted => {
                bytes.truncate(held);
                continue;
            }
            Err(e) => {
                let _ = give.send(Piece::Failed(e));
                return;
            }
        };
        bytes.truncate(held + read);
        if read == 0 {
            if !bytes.is_empty() {
                let _ = give.send(Piece::Torn);
            }
            return;
        }
        let whole = bytes.len() - bytes.len() % row;
        if whole > 0 {
            let rest = bytes.split_off(whole);
            let rows = std::mem::replace(&mut bytes, rest);
            if give.send(Piece::Rows(rows, host_ns())).is_err() {
                return;
            }
        }
    }
}

impl Rig for PipeRig {
    fn signal(&self) -> Option<Signal> {
        Some(self.signal.clone())
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let (bytes, host_ns) = match self.pieces.recv_timeout(patience) {
            Ok(Piece::Rows(bytes, host_ns)) => (bytes, host_ns),
            Ok(Piece::Torn) => {
                self.counts.malformed += 1;
                return Ok(Arrival::Ended);
            }
            Ok(Piece::Failed(e)) => {
                return Err(Error::new(ErrorKind::Io, format!("reading the pipe: {e}")));
            }
            Err(RecvTimeoutError::Timeout) => return Ok(Arrival::Nothing),
            Err(RecvTimeoutError::Disconnected) => return Ok(Arrival::Ended),
        };
        let rows = bytes.len() / (2 * self.signal.channels);
        let mut voltage = block.take_voltage();
        append_words(&mut voltage, &bytes);
        *block = Block {
            epoch: 0,
            first: self.next,
            rows,
            host_ns,
            lost_before: Loss::default(),
            samples: Samples::Voltage(voltage),
        };
        self.next += rows as u64;
        self.counts.blocks += 1;
        self.counts.rows += rows as u64;
        Ok(Arrival::Block)
    }

    fn loss_report(&self) -> LossReport {
        LossReport::Unknown
    }

    fn counts(&self) -> RigCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte at a time.
    struct Drops(Vec<u8>);

    impl Read for Drops {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            buffer[0] = self.0.remove(0);
            Ok(1)
        }
    }

    #[test]
    fn rows_come_whole_a_byte_at_a_time_and_a_torn_end_is_counted() -> Result<()> {
        let samples: Vec<i16> = (0..300).map(|i| i * 7 - 900).collect();
        let mut bytes: Vec<u8> = samples.iter().flat_map(|s| s.to_le_bytes()).collect();
        bytes.pop();
        let mut rig = PipeRig::new(Box::new(Drops(bytes)), 3, 30_000.0, None)?;
        let (mut block, mut found) = (Block::new(), Vec::<i16>::new());
        while rig.take(&mut block, Duration::from_secs(10))? == Arrival::Block {
            assert_eq!(block.first as usize, found.len() / 3);
            if let Samples::Voltage(voltage) = &block.samples {
                found.extend(voltage);
            }
        }
        assert_eq!(found, samples[..297]);
        assert_eq!((rig.counts().rows, rig.counts().malformed), (99, 1));
        assert!(PipeRig::new(Box::new(Drops(Vec::new())), 0, 1.0, None).is_err());
        Ok(())
    }
}
