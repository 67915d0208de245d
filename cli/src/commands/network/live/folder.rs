//! Frames of a folder that fills.

use std::cmp::Ordering;
use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use betz::{Error, ErrorKind, Result};

use super::super::frames::{Stack, View, image, is_image, natural};
use super::args::LiveInput;
use super::feed::{Answer, Facts, Feed, FeedCounts, Piece};

/// Least time between two looks at the folder.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two looks, in times that a look takes.
const LOOKS: u32 = 10;
/// Images at a time: frames that are in line are bounded.
const AT_ONCE: usize = 16;
/// Time for which the last image must keep its size.
const SETTLE: Duration = Duration::from_millis(200);

/// Name of an image in parts, by which images are ordered.
type Order = Vec<(u128, String)>;

/// A folder, and the images of it that were taken.
pub(super) struct FolderFeed {
    folder: PathBuf,
    stack: Stack,
    settle: Duration,
    sample_seconds: Option<f64>,
    /// Names in the folder that were taken or left out.
    known: HashSet<OsString>,
    /// Images that were found and not taken yet, in order.
    found: VecDeque<(Order, PathBuf)>,
    /// Time of the next look.
    next_look: Instant,
    last: Option<Order>,
    /// The image that nothing follows yet, its size, and the time at which that was seen first.
    pending: Option<(PathBuf, u64, Instant)>,
    begun: bool,
    counts: FeedCounts,
}

impl FolderFeed {
    pub(super) fn new(folder: &Path, from: &LiveInput) -> Self {
        Self {
            folder: folder.to_owned(),
            stack: Stack::new(View::of(&from.as_input())),
            settle: from.settle.map_or(SETTLE, Duration::from_secs_f64),
            sample_seconds: from.sample_seconds,
            known: HashSet::new(),
            found: VecDeque::new(),
            next_look: Instant::now(),
            last: None,
            pending: None,
            begun: false,
            counts: FeedCounts::default(),
        }
    }

    /// Finds the images that are not known yet.
    fn look(&mut self) -> Result<()> {
        let begun = Instant::now();
        let entries =
            fs::read_dir(&self.folder).map_err(|e| Error::io("read", &self.folder, &e))?;
        let (mut found, mut known) = (Vec::new(), HashSet::new());
        for entry in entries {
            let name = (entry.map_err(|e| Error::io("read", &self.folder, &e))?).file_name();
            if self.known.contains(&name) {
                known.insert(name);
                continue;
            }
            let path = self.folder.join(&name);
            if !is_image(&path) {
                continue;
            }
            let order = natural(&path.to_string_lossy());
            match self.last.as_ref().map(|last| order.cmp(last)) {
                Some(Ordering::Less | Ordering::Equal) => {
                    self.counts.late += u64::from(path.is_file());
                    known.insert(name);
                }
                _ => found.push((order, path)),
            }
        }
        found.sort();
        // Names that have left the folder are forgotten.
        (self.known, self.found) = (known, found.into());
        self.next_look = Instant::now() + LOOK.max(begun.elapsed() * LOOKS);
        Ok(())
    }

    /// The next image, if it is whole.
    fn next_image(&mut self) -> Option<(Order, PathBuf)> {
        let last = self.found.len() == 1;
        let path = self.found.front()?.1.clone();
        if last && !self.is_settled(&path) {
            return None;
        }
        self.found.pop_front()
    }

    /// True if the last image has kept its size for long enough.
    fn is_settled(&mut self, path: &Path) -> bool {
        let size = path.metadata().map_or(0, |m| m.len());
        match &self.pending {
            Some((pending, before, since)) if pending == path && *before == size => {
                size > 0 && since.elapsed() >= self.settle
            }
            _ => {
                self.pending = Some((path.to_owned(), size, Instant::now()));
                false
            }
        }
    }

    fn take(&mut self, (order, path): (Order, PathBuf), pieces: &mut Vec<Piece>) -> Result<()> {
        self.known.extend(path.file_name().map(OsString::from));
        if !path.is_file() {
            return Ok(());
        }
        let read = image(&path, &mut self.stack);
        self.last = Some(order);
        match read {
            Ok(()) => {}
            // A view that does not fit the frames fits none.
            Err(e) if e.kind() == ErrorKind::InvalidArgument => return Err(e),
            Err(e) => {
                if self.counts.unreadable == 0 {
                    eprintln!("an image is left out: {}", e.message());
                }
                self.counts.unreadable += 1;
                // Frames of the image before the fault are not used, either.
                self.stack.take_values();
                pieces.push(Piece::Gap(1));
                return Ok(());
            }
        }
        push_frames(
            &mut self.stack,
            &mut self.begun,
            self.sample_seconds,
            pieces,
        );
        Ok(())
    }
}

/// Appends the frames that `stack` has taken, behind the facts if they are the first ones.
pub(super) fn push_frames(
    stack: &mut Stack,
    begun: &mut bool,
    sample_seconds: Option<f64>,
    pieces: &mut Vec<Piece>,
) {
    let (Some(values), Some(positions)) = (stack.take_values(), stack.positions()) else {
        return;
    };
    if !*begun {
        *begun = true;
        pieces.push(Piece::Facts(Facts {
            nodes: positions.values.len() / positions.axes,
            sample_seconds,
            positions: Some(positions),
        }));
    }
    pieces.push(Piece::Rows(values));
}

impl Feed for FolderFeed {
    fn next(&mut self, pieces: &mut Vec<Piece>, patience: Duration) -> Result<Answer> {
        let begun = Instant::now();
        loop {
            // The last image may have been followed by others.
            if self.found.len() <= 1 && Instant::now() >= self.next_look {
                self.look()?;
            }
            for _ in 0..AT_ONCE {
                let Some(image) = self.next_image() else {
                    break;
                };
                self.take(image, pieces)?;
            }
            if !pieces.is_empty() {
                return Ok(Answer::Pieces);
            }
            if begun.elapsed() >= patience {
                return Ok(Answer::Nothing);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn waits(&self) -> bool {
        true
    }

    fn counts(&self) -> FeedCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        from: LiveInput,
    }

    #[test]
    fn a_folder_is_listed_once_for_all_images_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |n: u8| {
            let path = folder.path().join(format!("frame_{n}.pgm"));
            fs::write(path, [&b"P5 1 1 255\n"[..], &[n]].concat()).unwrap();
        };
        (10..60).for_each(write);
        fs::create_dir(folder.path().join("frame_5.pgm")).unwrap();
        let line = Line::parse_from(["x", "--settle", "1ms"]);
        let mut feed = FolderFeed::new(folder.path(), &line.from);
        let (mut pieces, mut values) = (Vec::new(), Vec::new());
        let mut taken = |feed: &mut FolderFeed, until: usize| {
            while values.len() < until {
                feed.next(&mut pieces, LOOK).unwrap();
                for piece in pieces.drain(..) {
                    if let Piece::Rows(betz::recording::arrays::Values::U8(v)) = piece {
                        values.extend(v);
                    }
                }
            }
            values.clone()
        };
        taken(&mut feed, 15);
        // The folder is a place in the list; those behind it wait there.
        assert_eq!(feed.found.len(), 51 - AT_ONCE);
        write(7);
        // It is late, which the next look sees.
        assert_eq!(feed.counts.late, 0);
        taken(&mut feed, 50);
        write(60);
        let values = taken(&mut feed, 51);
        assert_eq!(values, (10..=60).collect::<Vec<u8>>());
        assert_eq!(feed.counts.late, 1);
        // Names that are gone are forgotten.
        fs::remove_file(folder.path().join("frame_30.pgm")).unwrap();
        feed.look().unwrap();
        assert!(!feed.known.contains(&OsString::from("frame_30.pgm")));
        assert_eq!((feed.known.len(), feed.found.len()), (52, 0));
    }
}
