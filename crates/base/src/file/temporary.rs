//! Temporary files beside the ones that they replace, and what interrupted writes left of them.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;
use std::prelude::rust_2024::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::target::folder_of;

/// A temporary file beside `real`, with the mode and owner of the `old` one.
pub(super) fn beside(
    real: &Path,
    old: Option<&Metadata>,
    suffix: &str,
) -> io::Result<NamedTempFile> {
    let mut builder = temporary(suffix);
    #[cfg(unix)]
    {
        // Temporary files are private by default; a result gets what the user's umask allows.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    sweep(folder_of(real));
    let temporary = builder.tempfile_in(folder_of(real))?;
    #[cfg(unix)]
    if suffix == SUFFIX {
        // Held while it is written: nobody sweeps it away. Some file systems have no locks.
        let _ = temporary.as_file().try_lock();
    }
    if let Some(old) = old {
        keep_owner(temporary.as_file(), old);
        temporary.as_file().set_permissions(old.permissions())?;
    }
    Ok(temporary)
}

/// Temporary files younger than this may not be locked yet.
const YOUNG: Duration = Duration::from_secs(10);

/// Removes the temporary files of processes that ended while they wrote. Nothing of this can fail a write.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if !name.starts_with(PREFIX) || !name.ends_with(SUFFIX) {
            continue;
        }
        let old = |about: &Metadata| {
            let age = about.modified().ok().and_then(|at| at.elapsed().ok());
            about.is_file() && age.is_some_and(|age| age > YOUNG)
        };
        // Not through a link, and not where a writer holds it.
        let path = entry.path();
        if entry.metadata().is_ok_and(|about| old(&about))
            && File::open(&path).is_ok_and(|file| file.try_lock().is_ok())
        {
            let _ = fs::remove_file(&path);
        }
    }
}

/// True while finished files reach the disk before they take their names.
static WAITS_FOR_DISK: AtomicBool = AtomicBool::new(true);

/// Says whether the files that this process writes from now on reach the disk before they take their names.
///
/// They do unless a program says otherwise. Without the wait a result is as whole for every reader and after a killed
/// process, but a power failure within seconds may lose it: for results that can be made again.
pub fn wait_for_disk(wait: bool) {
    WAITS_FOR_DISK.store(wait, Ordering::Relaxed);
}

/// Gives a finished file its name.
pub(super) fn in_place(temporary: NamedTempFile, real: &Path) -> io::Result<()> {
    let wait = WAITS_FOR_DISK.load(Ordering::Relaxed);
    if wait {
        temporary.as_file().sync_all()?;
    }
    temporary.persist(real).map_err(|e| e.error)?;
    if !wait {
        return Ok(());
    }
    // The name is in the folder, which has to reach the disk as well. Some file systems cannot sync one.
    #[cfg(unix)]
    if let Ok(folder) = File::open(folder_of(real)) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Names of temporary files begin and end so.
const PREFIX: &str = ".betz-";
pub(super) const SUFFIX: &str = ".tmp";
/// The end of those that are opened by name. They are neither locked, which the library that opens them may
/// do itself, nor swept.
pub(super) const BY_NAME: &str = ".part";

pub(super) fn temporary(suffix: &str) -> tempfile::Builder<'static, '_> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(suffix);
    builder
}

/// The new file belongs to whom the old one did; who may not give files away keeps it.
fn keep_owner(file: &File, old: &Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if file
            .metadata()
            .is_ok_and(|new| (new.uid(), new.gid()) != (old.uid(), old.gid()))
        {
            let _ = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()));
        }
    }
    #[cfg(not(unix))]
    let _ = (file, old);
}
