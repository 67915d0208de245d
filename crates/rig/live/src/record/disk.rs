//! The recorder's thread: frames from the ring to segments, also on a disk that is full.

use betz_base::lock::lock;
use std::fs::File;
use std::io::{ErrorKind as IoKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use betz_base::Error;
use betz_base::file::write_all_at;
use ringbuf::HeapCons;
use ringbuf::traits::Consumer;

use super::frame::{self, Head, Kind};
use super::log::{Disk, Log};
use super::segments::{Segments, allocate};
use crate::plan::OnFull;

/// Time between two writes.
const EVERY: Duration = Duration::from_millis(20);
/// Time between two flushes to the disk itself.
const SYNC: Duration = Duration::from_millis(500);
/// Bytes that are written at once at most, but for a longer frame.
const AT_ONCE: usize = 1 << 20;

/// State that the recorder's thread shares with the loop.
#[derive(Default)]
pub(super) struct WriterState {
    pub(super) stop: AtomicBool,
    pub(super) written: AtomicU64,
    /// Frames that the loop handed over and that are in no file.
    pub(super) left_out: AtomicU64,
    /// True once nothing more is written.
    pub(super) ended: AtomicBool,
    pub(super) failed: Mutex<Option<Error>>,
    /// Number of the frame after the last one that is in a file, and of the next segment.
    pub(super) next_frame: AtomicU64,
    pub(super) next_segment: AtomicU64,
    /// Missing frames that a frame tells of.
    pub(super) told: AtomicU64,
    disk: AtomicU8,
}

impl WriterState {
    pub(super) fn disk(&self) -> Disk {
        match self.disk.load(Ordering::Relaxed) {
            0 => Disk::Room,
            1 => Disk::KeepsSmall,
            _ => Disk::Full,
        }
    }

    fn set_disk(&self, disk: Disk) {
        self.disk.store(disk as u8, Ordering::Relaxed);
    }
}

/// Room for the last frames of a recording whose disk is full. The file is written in place and becomes the last segment.
pub(super) struct Spare {
    file: File,
    path: PathBuf,
}

impl Spare {
    /// Bytes of the file: a block of most file systems.
    const BYTES: usize = 1 << 12;

    /// Makes the file in a recording's folder; `None` if there is no room for it.
    pub(super) fn open(folder: &Path) -> Option<Self> {
        let path = folder.join("spare");
        let mut file = File::create(&path).ok()?;
        file.write_all(&[0; Self::BYTES]).ok()?;
        Some(Self { file, path })
    }

    /// Writes frames into the file, which becomes the segment `path`.
    pub(super) fn write_as(&self, path: &Path, frames: &mut [u8]) -> std::io::Result<()> {
        frame::seal_all(frames);
        write_all_at(&self.file, frames, 0)?;
        self.file.set_len(frames.len() as u64)?;
        self.file.sync_data()?;
        std::fs::rename(&self.path, path)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        // It is gone if it was used, or if the folder is.
        let _ = std::fs::remove_file(&self.path);
    }
}

type WriteResult = std::result::Result<(), DiskFault>;

/// Reason for which nothing more is recorded.
enum DiskFault {
    FullDisk,
    Failed(Error),
}

/// True for an error of a disk, a quota or a file that may not grow.
fn is_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        IoKind::StorageFull | IoKind::QuotaExceeded | IoKind::FileTooLarge
    )
}

/// Room that is set aside on the disk: a file without a name, so that a session which is killed leaves none behind. `None` if the
/// system has no room, or cannot set any aside.
fn reserve(folder: &Path, bytes: u64) -> Option<File> {
    let path = folder.join("reserve");
    let file = (bytes > 0)
        .then(|| File::create_new(&path).ok())
        .flatten()?;
    let removed = std::fs::remove_file(&path);
    removed.ok().and_then(|()| allocate(&file, bytes, false))?;
    Some(file)
}

/// The thread's work.
pub(super) struct Writer {
    segments: Segments,
    on_full: OnFull,
    reserve: Option<File>,
    shared: Arc<WriterState>,
    log: Log,
    /// Bytes from the ring, of which the first `filled` are frames that are to be written.
    bytes: Vec<u8>,
    filled: usize,
}

impl Writer {
    /// A writer with a reserve of `room` bytes, if a full disk is to keep small frames. All of its files are open afterwards.
    pub(super) fn new(
        segments: Segments,
        on_full: OnFull,
        room: u64,
        shared: Arc<WriterState>,
    ) -> Self {
        let keeps = on_full == OnFull::KeepSmall;
        Self {
            log: Log::open(&segments.folder),
            reserve: keeps.then(|| reserve(&segments.folder, room)).flatten(),
            segments,
            on_full,
            shared,
            bytes: vec![0; AT_ONCE],
            filled: 0,
        }
    }

    /// Writes what comes until it is told to stop and nothing is left.
    pub(super) fn run(mut self, mut ring: HeapCons<u8>) {
        let mut synced = Instant::now();
        loop {
            // Looked at before the ring: what was put before the stop is written.
            let stop = self.shared.stop.load(Ordering::Acquire);
            let (got, is_all) = self.fill(&mut ring);
            let mut done = self.put_whole();
            if done.is_ok() && (synced.elapsed() >= SYNC || (stop && got == 0)) {
                done = self.sync();
                synced = Instant::now();
            }
            if let Err(fault) = done {
                return self.end(fault, &mut ring);
            }
            self.log.flush();
            if stop && got == 0 {
                return self.log.end();
            }
            if is_all && !stop {
                std::thread::sleep(EVERY);
            }
        }
    }

    /// Takes bytes from the ring: how many, and true if they are all.
    fn fill(&mut self, ring: &mut HeapCons<u8>) -> (usize, bool) {
        if self.filled == self.bytes.len() {
            // A frame that is longer than what is written at once.
            self.bytes.resize(2 * self.filled, 0);
        }
        let room = &mut self.bytes[self.filled..];
        let got = ring.pop_slice(room);
        let is_all = got < room.len();
        self.filled += got;
        (got, is_all)
    }

    /// Writes the whole frames of what was taken, and keeps the rest.
    fn put_whole(&mut self) -> WriteResult {
        let mut bytes = std::mem::take(&mut self.bytes);
        let whole = frame::whole(&bytes[..self.filled]);
        frame::seal_all(&mut bytes[..whole]);
        self.log.hear_all(&bytes[..whole]);
        let done = self.put(&bytes[..whole]);
        self.bytes = bytes;
        self.drop_first(whole);
        done
    }

    fn drop_first(&mut self, bytes: usize) {
        self.bytes.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
    }

    /// Writes frames. On a full disk, goes on with small ones in the reserve.
    fn put(&mut self, frames: &[u8]) -> WriteResult {
        if self.shared.disk() == Disk::KeepsSmall {
            return self.put_small(frames);
        }
        let (written, done) = self.segments.write(frames);
        // A frame that was cut off is written again, whole, in the next segment.
        let whole = self.note_written(&frames[..written]);
        match done {
            Ok(()) => Ok(()),
            Err(error) => self.go_on_small(&error, &frames[whole..]),
        }
    }

    fn sync(&mut self) -> WriteResult {
        let deleted = self.segments.deleted();
        if deleted > 0 {
            self.shared.left_out.fetch_add(deleted, Ordering::Relaxed);
            let path = self.segments.newest().display();
            return Err(DiskFault::Failed(Error::new(
                betz_base::ErrorKind::Io,
                format!(
                    "{path}: expected the recording that is written to, but it was deleted: {deleted} frames are gone"
                ),
            )));
        }
        match self.segments.sync() {
            Ok(()) => Ok(()),
            Err(error) => self.go_on_small(&error, &[]),
        }
    }

    /// Goes on without voltage after an error of the disk, if that is what the plan wants of a full one.
    fn go_on_small(&mut self, error: &std::io::Error, left: &[u8]) -> WriteResult {
        let may_go_on = self.on_full == OnFull::KeepSmall && self.shared.disk() == Disk::Room;
        if !may_go_on || !is_full(error) {
            return Err(self.refuse(error, left));
        }
        if let Some(reserve) = self.reserve.take() {
            // Room that it does not give back is not there to be written to.
            let _ = reserve.set_len(0);
        }
        self.shared.set_disk(Disk::KeepsSmall);
        self.log.note_disk(Disk::KeepsSmall);
        self.segments.take_no_room();
        match self.segments.begin_next() {
            Ok(()) => self.put_small(left),
            Err(error) => Err(self.refuse(&error, left)),
        }
    }

    /// Writes frames but for voltage, in place of which a frame says how many are missing.
    fn put_small(&mut self, frames: &[u8]) -> WriteResult {
        let mut small = Vec::new();
        let mut gap: Option<Head> = None;
        for frame in frame::each(frames) {
            match Head::read(frame) {
                Some(head) if head.kind == Kind::Voltage => {
                    self.shared.left_out.fetch_add(1, Ordering::Relaxed);
                    let missing = gap.map_or(0, |gap| gap.count) + 1;
                    gap = Some(Head {
                        source: 0,
                        kind: Kind::Unrecorded,
                        first: u64::from(missing),
                        count: missing,
                        ..head
                    });
                }
                _ => {
                    append_gap(&mut small, gap.take());
                    small.extend_from_slice(frame);
                }
            }
        }
        append_gap(&mut small, gap);
        frame::seal_all(&mut small);
        let (written, done) = self.segments.write(&small);
        let whole = self.note_written(&small[..written]);
        done.map_err(|e| self.refuse(&e, &small[whole..]))
    }

    /// Counts the whole frames at the start of `bytes`, which are in a file; returns their length.
    fn note_written(&mut self, bytes: &[u8]) -> usize {
        let (mut whole, mut frames) = (0, 0);
        for frame in frame::each(bytes) {
            whole += frame.len();
            let Some(head) = Head::read(frame) else {
                continue;
            };
            if head.kind == Kind::Unrecorded {
                self.shared.told.fetch_add(head.first, Ordering::Relaxed);
            } else {
                frames += 1;
            }
            (self.shared.next_frame).store(head.number + 1, Ordering::Relaxed);
        }
        self.segments.frames += frames;
        self.segments.all_frames += frames;
        (self.shared.written).fetch_add(whole as u64, Ordering::Relaxed);
        whole
    }

    /// Counts frames that are in no file.
    fn refuse(&self, error: &std::io::Error, frames: &[u8]) -> DiskFault {
        self.leave_out(frames);
        match is_full(error) {
            true => DiskFault::FullDisk,
            false => DiskFault::Failed(Error::io("writing", self.segments.newest(), error)),
        }
    }

    /// Counts frames that the loop handed over and that are in no file.
    fn leave_out(&self, frames: &[u8]) {
        let heads = frame::each(frames).filter_map(Head::read);
        let count = heads.filter(|head| head.kind != Kind::Unrecorded).count() as u64;
        self.shared.left_out.fetch_add(count, Ordering::Relaxed);
    }

    /// Ends the recording after an error of the disk. What is still handed over is counted.
    fn end(&mut self, fault: DiskFault, ring: &mut HeapCons<u8>) {
        match fault {
            DiskFault::FullDisk => {
                self.shared.set_disk(Disk::Full);
                self.log.note_disk(Disk::Full);
            }
            DiskFault::Failed(error) => {
                self.log.note_failure(error.message());
                *lock(&self.shared.failed) = Some(error);
            }
        }
        (self.shared.next_segment).store(self.segments.next, Ordering::SeqCst);
        self.shared.ended.store(true, Ordering::SeqCst);
        loop {
            let stop = self.shared.stop.load(Ordering::Acquire);
            let (got, _) = self.fill(ring);
            let whole = frame::whole(&self.bytes[..self.filled]);
            self.leave_out(&self.bytes[..whole]);
            self.drop_first(whole);
            self.log.flush();
            match (got, stop) {
                (0, true) => return self.log.end(),
                // The loop may not have seen yet that nothing more is written.
                (0, false) => std::thread::sleep(EVERY),
                _ => {}
            }
        }
    }
}

/// Appends the frame that says how many are missing, without check sums.
fn append_gap(frames: &mut Vec<u8>, gap: Option<Head>) {
    if let Some(gap) = gap {
        frames.extend_from_slice(&gap.to_bytes(0));
    }
}
