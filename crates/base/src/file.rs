//! Writing files so that nobody ever sees half of one.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Lets `fill` write a temporary file beside `path`, syncs it, then renames it to `path`.
///
/// A failure at any point leaves the old file, if there was one, as it was, and nothing else behind.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io) naming `path`, also when `path` is a directory.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use betz_base::file::write_atomically;
/// use std::io::Write;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("result.csv");
/// write_atomically(&path, |file| writeln!(file, "x,y\n1,2"))?;
/// assert_eq!(std::fs::read_to_string(&path).unwrap(), "x,y\n1,2\n");
/// # Ok(())
/// # }
/// ```
pub fn write_atomically(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<()> {
    replace(path, fill).map_err(|e| Error::io("writing", path, &e))
}

fn replace(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "expected a file, got a directory",
        ));
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".betz-").suffix(".tmp");
    #[cfg(unix)]
    {
        // Temporary files are private by default; a result gets what the user's umask allows.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let temporary = builder.tempfile_in(folder)?;
    let mut writer = BufWriter::new(temporary.as_file());
    fill(&mut writer)?;
    writer.flush()?;
    drop(writer);
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        write_atomically(&path, |w| w.write_all(b"old")).unwrap();
        let failed = write_atomically(&path, |w| {
            w.write_all(b"half")?;
            Err(io::Error::other("disk full"))
        });
        assert!(failed.unwrap_err().message().contains("kept: disk full"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_and_a_missing_folder_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_atomically(folder.path(), |_| Ok(())).unwrap_err();
        assert!(error.message().contains("got a directory"), "{error}");
        let missing = folder.path().join("no").join("file");
        assert!(write_atomically(&missing, |_| Ok(())).is_err());
    }
}
