//! The segments of a recording: files of a bounded size, one after another, whose room is taken from the disk when they begin.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind as IoKind, Write};
use std::path::{Path, PathBuf};

use betz_base::{Error, Result};

use super::folder::free_bytes;

/// A file of frames. Room that it did not need goes back to the disk when it ends.
struct Segment {
    file: File,
    path: PathBuf,
    length: u64,
    /// True if the disk gave it all of its room when it began.
    has_room: bool,
}

impl Segment {
    fn create(path: PathBuf, room: u64) -> std::io::Result<Self> {
        let file = File::create_new(&path)?;
        let free = path.parent().and_then(free_bytes).unwrap_or(0);
        // As much again stays free for other files and other recordings.
        let fits = room > 0 && free / 2 >= room;
        Ok(Self {
            has_room: fits && allocate(&file, room, true).is_some(),
            file,
            path,
            length: 0,
        })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.has_room {
            give_back(&self.file, self.length);
        }
    }
}

/// The segments of a folder: files of a bounded size, one after another.
pub(super) struct Segments {
    pub(super) folder: PathBuf,
    most: u64,
    pub(super) next: u64,
    newest: Segment,
    takes_room: bool,
    /// Frames in the newest segment, and in all.
    pub(super) frames: u64,
    pub(super) all_frames: u64,
}

impl Segments {
    /// Makes the segment number `first` in a folder, with room for `most` bytes if the disk has twice as much.
    ///
    /// # Errors
    /// `Io` if it cannot be made.
    pub(super) fn new(folder: &Path, most: u64, first: u64) -> Result<Self> {
        let path = Self::path(folder, first);
        let newest =
            Segment::create(path.clone(), most).map_err(|e| Error::io("creating", &path, &e))?;
        Ok(Self {
            folder: folder.to_owned(),
            most,
            next: first + 1,
            newest,
            takes_room: true,
            frames: 0,
            all_frames: 0,
        })
    }

    /// Frames that are gone because somebody has deleted the file that is written to, or the folder.
    pub(super) fn deleted(&self) -> u64 {
        if !self.folder.exists() {
            return self.all_frames;
        }
        match self.newest.path.exists() {
            true => 0,
            false => self.frames,
        }
    }

    pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
        folder.join(format!("{number:06}.blog"))
    }

    /// The file that is written to.
    pub(super) fn newest(&self) -> &Path {
        &self.newest.path
    }

    /// Takes no room for later segments: the disk has none.
    pub(super) fn take_no_room(&mut self) {
        self.takes_room = false;
    }

    /// Goes on in a new file: a segment is never appended to once its end may be torn.
    pub(super) fn begin_next(&mut self) -> std::io::Result<()> {
        let path = Self::path(&self.folder, self.next);
        let room = if self.takes_room { self.most } else { 0 };
        self.newest = Segment::create(path, room)?;
        self.next += 1;
        self.frames = 0;
        Ok(())
    }

    /// Waits until what was written is on the disk.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        self.newest.file.sync_data()
    }

    /// Writes `bytes`; also returns how many of them are in a file.
    pub(super) fn write(&mut self, bytes: &[u8]) -> (usize, std::io::Result<()>) {
        if self.newest.length >= self.most && !bytes.is_empty() {
            let begun = self.sync().and_then(|()| self.begin_next());
            if begun.is_err() {
                return (0, begun);
            }
        }
        let mut written = 0;
        let newest = &mut self.newest;
        while written < bytes.len() {
            match newest.file.write(&bytes[written..]) {
                Ok(0) => return (written, Err(IoKind::WriteZero.into())),
                Ok(n) => (written, newest.length) = (written + n, newest.length + n as u64),
                Err(e) if e.kind() == IoKind::Interrupted => {}
                Err(e) => return (written, Err(e)),
            }
        }
        (written, Ok(()))
    }
}

/// Gives the disk the room that the last segment of a killed session did not need.
pub(super) fn give_back_room(last: &Path) {
    let opened = OpenOptions::new().write(true).open(last);
    if let Ok(file) = opened
        && let Ok(about) = file.metadata()
    {
        give_back(&file, about.len());
    }
}

/// Takes room of a file from the disk; with `keeps_length`, its length stays. `None` if the system cannot.
#[cfg(target_os = "linux")]
pub(super) fn allocate(file: &File, bytes: u64, keeps_length: bool) -> Option<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = match keeps_length {
        true => FallocateFlags::KEEP_SIZE,
        false => FallocateFlags::empty(),
    };
    fallocate(file, flags, 0, bytes).ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn allocate(_: &File, _: u64, _: bool) -> Option<()> {
    None
}

/// Gives back the room behind `length`, which the file keeps. A system that refuses keeps the room as well.
#[cfg(target_os = "linux")]
fn give_back(file: &File, length: u64) {
    let _ = rustix::fs::ftruncate(file, length);
}

#[cfg(not(target_os = "linux"))]
fn give_back(_: &File, _: u64) {}
