//! Sources of rows: what they give, and which there are.

use std::path::Path;
use std::time::Duration;

use betz::network::file::Positions;
use betz::recording::arrays::Values;
use betz::{Error, Result};

use super::args::{Live, LiveInput};
use super::folder::FolderFeed;
use super::pipe::PipeFeed;
use super::rig::RigFeed;

/// Facts about the rows of a source.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    pub(super) nodes: usize,
    pub(super) sample_seconds: Option<f64>,
    pub(super) positions: Option<Positions>,
}

/// A piece of a signal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// Known before the first rows.
    Facts(Facts),
    /// Rows, one behind the other.
    Rows(Values),
    /// Rows are missing: so many, or an unknown number (0).
    Gap(u64),
}

/// Answer of a source.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Pieces,
    /// Nothing came in the allowed time.
    Nothing,
    /// Nothing more will come.
    Ended,
}

/// Counts of a source besides rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FeedCounts {
    /// Images that came after a later one, and spikes of bins that were given before; they are left out.
    pub(super) late: u64,
    /// Images, or messages, that could not be read.
    pub(super) unreadable: u64,
}

/// A source of rows.
pub(super) trait Feed: Send {
    /// Waits for about `patience` at most, and appends what has come to `pieces`.
    ///
    /// # Errors
    /// Faults that waiting cannot remove.
    fn next(&mut self, pieces: &mut Vec<Piece>, patience: Duration) -> Result<Answer>;

    /// True if the source waits for its reader, so that nothing has to be left out.
    fn waits(&self) -> bool;

    fn counts(&self) -> FeedCounts {
        FeedCounts::default()
    }
}

/// Opens the source that `args` name.
///
/// # Errors
/// Another source; options that are not this source's; errors of the source.
pub(super) fn open(args: &Live) -> Result<Box<dyn Feed>> {
    let source = args.source.to_string_lossy();
    let from = &args.from;
    if source == "-" {
        of_frames(from, false)?;
        return Ok(Box::new(PipeFeed::new(Box::new(std::io::stdin()), from)?));
    }
    if source.contains("://") || source.starts_with("pipe:") {
        of_rig(from)?;
        return Ok(Box::new(RigFeed::open(&source, from)?));
    }
    let path: &Path = &args.source;
    if path.is_dir() {
        of_frames(from, true)?;
        return Ok(Box::new(FolderFeed::new(path, from)));
    }
    if crate::files::is_stream(path) {
        of_frames(from, false)?;
        return Ok(Box::new(PipeFeed::open(path, from)?));
    }
    Err(Error::argument(format!(
        "SOURCE: expected an address such as openephys://127.0.0.1:5556?channels=64, a folder of images, a named pipe or - for \
         standard input, got {source}{}",
        match path.exists() {
            true => "; `betz network compute` reads files",
            false => ", which is not there",
        }
    )))
}

/// Refuses options that are not for frames.
fn of_frames(from: &LiveInput, folder: bool) -> Result<()> {
    if from.bin.is_some() {
        return Err(Error::argument(
            "--bin: expected a source of spikes, got frames",
        ));
    }
    if folder && from.frames.is_some() {
        return Err(Error::argument(
            "--frames: expected raw frames on standard input, got a folder of images",
        ));
    }
    if !folder && from.settle.is_some() {
        return Err(Error::argument(
            "--settle: expected a folder of images, got a pipe",
        ));
    }
    Ok(())
}

/// Refuses options that are for frames alone.
fn of_rig(from: &LiveInput) -> Result<()> {
    for (option, given) in [
        ("--frames", from.frames.is_some()),
        ("--region", from.region.is_some()),
        ("--channel", from.channel.is_some()),
        ("--downsample", from.downsample.is_some()),
        ("--settle", from.settle.is_some()),
    ] {
        if given {
            return Err(Error::argument(format!(
                "{option}: expected frames, got a source whose nodes are no pixels"
            )));
        }
    }
    if from.bin.is_some() && from.average.is_some() {
        return Err(Error::argument(
            "--average: expected a source of samples, got spikes, whose --bin may be longer",
        ));
    }
    Ok(())
}
