//! The files of one piece of work, checked before it begins.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::prelude::rust_2024::*;

use super::target::{Target, folder_of};
use crate::error::{Error, Result};

/// Identity of a file, whatever its path is called.
#[derive(PartialEq, Eq)]
enum Identity {
    /// Device and inode.
    #[cfg(unix)]
    There(u64, u64),
    /// The path without links.
    #[cfg(not(unix))]
    There(PathBuf),
    /// Not there yet: a name in a folder.
    New(Box<Identity>, OsString),
}

impl Identity {
    #[cfg(unix)]
    fn of(_: &Path, metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        // Two may share a terminal, or /dev/null.
        (!metadata.file_type().is_char_device())
            .then(|| Self::There(metadata.dev(), metadata.ino()))
    }

    #[cfg(not(unix))]
    fn of(path: &Path, _: &Metadata) -> Option<Self> {
        fs::canonicalize(path).ok().map(Self::There)
    }

    fn of_new(path: &Path) -> Option<Self> {
        let folder = folder_of(path);
        let within = Self::of(folder, &fs::metadata(folder).ok()?)?;
        Some(Self::New(Box::new(within), path.file_name()?.to_owned()))
    }
}

/// The files of one piece of work, checked before it begins.
///
/// An output is no input and no other output: they are told by device and inode, so links and other
/// spellings of a path do not hide that two are one. A file that is there is replaced only when it is
/// an earlier result of the same kind, is empty, or the caller insists.
///
/// ```
/// use betz_base::file::FilePlan;
/// let folder = tempfile::tempdir()?;
/// let table = folder.path().join("table.csv");
/// std::fs::write(&table, "mine")?;
/// let mut plan = FilePlan::new(false);
/// plan.reads("TABLE", &table);
/// let refused = plan.writes("--out", &table, &|_| true).unwrap_err();
/// assert!(refused.message().contains("is what TABLE"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct FilePlan {
    /// True if files are replaced whatever they hold.
    force: bool,
    known: Vec<(String, PathBuf, Identity)>,
}

impl FilePlan {
    /// A plan of no files; with `force`, outputs replace whatever is there (but never an input).
    #[must_use]
    pub fn new(force: bool) -> Self {
        Self {
            force,
            known: Vec::new(),
        }
    }

    /// `path`, which the user knows as `name`, is read. `-` is standard input. A file that is not
    /// there is told of when it is read.
    pub fn reads(&mut self, name: &str, path: &Path) {
        let stdin = path == Path::new("-");
        let looked_at = if stdin { Path::new("/dev/stdin") } else { path };
        let identity = fs::metadata(looked_at)
            .ok()
            .and_then(|m| Identity::of(looked_at, &m));
        if let Some(identity) = identity {
            self.known
                .push((name.to_owned(), path.to_owned(), identity));
        }
    }

    /// `path`, which the user knows as `name`, will be written. `earlier` tells whether a file that is
    /// there is an earlier result of the same kind. Creates and removes a file beside it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when the file is an input or
    /// another output, holds something else, or cannot be a file;
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when its folder takes no new files.
    pub fn writes(
        &mut self,
        name: &str,
        path: &Path,
        earlier: &dyn Fn(&Path) -> bool,
    ) -> Result<()> {
        let place = || format!("{name} {}", path.display());
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(Error::argument(format!(
                "{}: expected a file, got a folder; add the file's name",
                place()
            )));
        }
        let target = Target::of(path).map_err(|e| Error::argument(format!("{}: {e}", place())))?;
        let identity = match &target {
            Target::New(real) => {
                let folder = folder_of(real);
                if !folder.is_dir() {
                    return Err(Error::argument(format!(
                        "{}: expected a folder that is there, got {}",
                        place(),
                        folder.display()
                    )));
                }
                Identity::of_new(real)
            }
            Target::Regular(real, metadata) => Identity::of(real, metadata),
            Target::Stream(stream) => Identity::of(path, stream.metadata()),
        };
        if let Some(identity) = identity {
            if let Some((other, its, _)) = self.known.iter().find(|k| k.2 == identity) {
                return Err(Error::argument(format!(
                    "{}: it is what {other} ({}) names: expected another file than {other}",
                    place(),
                    its.display()
                )));
            }
            self.known
                .push((name.to_owned(), path.to_owned(), identity));
        }
        let real = match &target {
            Target::Stream(_) => return Ok(()),
            Target::New(real) => real,
            Target::Regular(real, metadata) => {
                self.may_replace(real, metadata, earlier)
                    .map_err(|e| e.at(place()))?;
                real
            }
        };
        tempfile::tempfile_in(folder_of(real))
            .map(drop)
            .map_err(|e| Error::io("writing beside", path, &e).at(name))
    }

    fn may_replace(
        &self,
        path: &Path,
        old: &Metadata,
        earlier: &dyn Fn(&Path) -> bool,
    ) -> Result<()> {
        if self.force {
            return Ok(());
        }
        if old.permissions().readonly() {
            return Err(Error::argument(
                "expected that the file that is there may be written, got a read-only one; --force replaces it",
            ));
        }
        if old.len() > 0 && !earlier(path) {
            return Err(Error::argument(
                "expected an earlier result of this kind in the file that is there, got something else; --force replaces it",
            ));
        }
        Ok(())
    }
}
