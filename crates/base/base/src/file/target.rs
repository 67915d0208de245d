//! The target of a path that is to be written: a new file, a regular one, or a stream.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Symbolic links that are followed, as the system does.
const MAX_LINKS: usize = 40;

/// The end of a path that is to be written.
pub(super) enum Target {
    /// Nothing yet: a file of this name.
    New(PathBuf),
    /// This regular file, at the end of all links.
    Regular(PathBuf, Metadata),
    /// Something that is written to and stays.
    Stream(Stream),
}

/// A pipe, a character device, or a descriptor of this process.
pub(super) enum Stream {
    Path(PathBuf, Metadata),
    #[cfg_attr(
        not(unix),
        expect(dead_code, reason = "descriptors have no paths there")
    )]
    Descriptor(u32, PathBuf, Metadata),
}

impl Stream {
    pub(super) fn metadata(&self) -> &Metadata {
        let (Self::Path(_, metadata) | Self::Descriptor(_, _, metadata)) = self;
        metadata
    }

    pub(super) fn open(&self) -> io::Result<File> {
        let path = match self {
            // A copy of the descriptor goes on where it stands; opened anew, a file would begin again.
            #[cfg(unix)]
            Self::Descriptor(1, ..) => {
                use std::os::fd::AsFd;
                return io::stdout().as_fd().try_clone_to_owned().map(File::from);
            }
            #[cfg(unix)]
            Self::Descriptor(2, ..) => {
                use std::os::fd::AsFd;
                return io::stderr().as_fd().try_clone_to_owned().map(File::from);
            }
            Self::Descriptor(_, path, _) | Self::Path(path, _) => path,
        };
        OpenOptions::new().append(true).open(path)
    }
}

impl Target {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut at = path.to_path_buf();
        for _ in 0..=MAX_LINKS {
            if let Some(number) = descriptor(&at) {
                let metadata = fs::metadata(&at)?;
                writable(&metadata)?;
                return Ok(Self::Stream(Stream::Descriptor(number, at, metadata)));
            }
            let metadata = match fs::symlink_metadata(&at) {
                Ok(metadata) => metadata,
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::New(at)),
                Err(e) => return Err(e),
            };
            if metadata.is_symlink() {
                let to = fs::read_link(&at)?;
                at = folder_of(&at).join(to);
                continue;
            }
            writable(&metadata)?;
            return Ok(if metadata.is_file() {
                Self::Regular(at, metadata)
            } else {
                Self::Stream(Stream::Path(at, metadata))
            });
        }
        Err(io::Error::other(format!(
            "more than {MAX_LINKS} symbolic links lead on from it"
        )))
    }
}

/// Refuses what is neither a file nor a stream of characters.
fn writable(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "expected a file, got a directory",
        ));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_block_device() {
            return Err(io::Error::other("expected a file, got a block device"));
        }
        if kind.is_socket() {
            return Err(io::Error::other("expected a file, got a socket"));
        }
    }
    Ok(())
}

/// The number of the descriptor that `path` names, such as `/dev/fd/1`.
#[cfg(unix)]
fn descriptor(path: &Path) -> Option<u32> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let folder = path.parent()?;
    let own = || Some(fs::canonicalize(folder).ok()? == fs::canonicalize("/proc/self/fd").ok()?);
    (folder == Path::new("/dev/fd") || own() == Some(true)).then_some(number)
}

#[cfg(not(unix))]
fn descriptor(_: &Path) -> Option<u32> {
    None
}

/// The folder that `path` lies in.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
