//! Frames of a folder that fills.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use betz::{Error, ErrorKind, Result};

use super::super::frames::{Stack, View, image, is_image, natural};
use super::args::LiveInput;
use super::feed::{Answer, Facts, Feed, FeedCounts, Piece};

/// Time between two looks at the folder.
const LOOK: Duration = Duration::from_millis(20);
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
    /// Images that were taken or left out.
    known: HashSet<PathBuf>,
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
            last: None,
            pending: None,
            begun: false,
            counts: FeedCounts::default(),
        }
    }

    /// Images that are not known yet, in order.
    fn images(&mut self) -> Result<Vec<(Order, PathBuf)>> {
        let entries =
            fs::read_dir(&self.folder).map_err(|e| Error::io("read", &self.folder, &e))?;
        let mut found = Vec::new();
        for entry in entries {
            let path = (entry.map_err(|e| Error::io("read", &self.folder, &e))?).path();
            if !is_image(&path) || self.known.contains(&path) || !path.is_file() {
                continue;
            }
            let order = natural(&path.to_string_lossy());
            match self.last.as_ref().map(|last| order.cmp(last)) {
                Some(Ordering::Less | Ordering::Equal) => {
                    self.counts.late += 1;
                    self.known.insert(path);
                }
                _ => found.push((order, path)),
            }
        }
        found.sort();
        Ok(found)
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
        let read = image(&path, &mut self.stack);
        self.known.insert(path);
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
            let mut images = self.images()?;
            if let Some((_, last)) = images.last()
                && !self.is_settled(&last.clone())
            {
                images.pop();
            }
            // A few at a time: frames that are in line are bounded.
            for image in images.into_iter().take(16) {
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
