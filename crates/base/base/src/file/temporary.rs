//! Temporary files beside the ones that they replace, and what interrupted writes left of them.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;
use std::prelude::rust_2024::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::target::folder_of;

/// A file that is being written and has not its name yet.
pub(super) enum NewFile {
    /// It has no name at all, so nothing is left of it if the process is killed.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// A temporary name beside the final one. Some file systems have nothing else.
    Named(NamedTempFile),
}

impl NewFile {
    /// A file for the place of `real`, with the mode and owner of the `old` one.
    pub(super) fn new(real: &Path, old: Option<&Metadata>) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed(folder_of(real)) {
            sweep(folder_of(real));
            hold(&file);
            resemble(&file, old)?;
            return Ok(Self::Unnamed(file));
        }
        beside(real, old, SUFFIX).map(Self::Named)
    }

    pub(super) fn file(&self) -> &File {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }

    /// Gives the finished file its name.
    pub(super) fn finish(self, real: &Path) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => on_disk(&file, real, || give_name(&file, real)),
            Self::Named(file) => in_place(file, real),
        }
    }
}

/// A file of `folder` without a name. `None` where the file system has no such files, or where it could not be named later.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};
    if !Path::new(DESCRIPTORS).exists() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    open(folder, flags, Mode::from_raw_mode(0o666))
        .ok()
        .map(File::from)
}

/// The folder through which a file without a name gets one.
#[cfg(target_os = "linux")]
const DESCRIPTORS: &str = "/proc/self/fd";

#[cfg(target_os = "linux")]
fn give_name(file: &File, real: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd;
    let from = Path::new(DESCRIPTORS).join(file.as_raw_fd().to_string());
    let link = |to: &Path| linkat(CWD, &from, CWD, to, AtFlags::SYMLINK_FOLLOW);
    match link(real) {
        Err(e) if e == rustix::io::Errno::EXIST => {}
        done => return Ok(done?),
    }
    // A link replaces no file; a rename does.
    let named = temporary(SUFFIX).make_in(folder_of(real), |to| Ok(link(to)?))?;
    named.persist(real).map(drop).map_err(|e| e.error)
}

/// Locks a file while it is written, so that nobody sweeps it away. Some file systems have no locks.
fn hold(file: &File) {
    let _ = file.try_lock();
}

/// Gives a file the owner and mode of the `old` one.
fn resemble(file: &File, old: Option<&Metadata>) -> io::Result<()> {
    let Some(old) = old else { return Ok(()) };
    keep_owner(file, old);
    file.set_permissions(old.permissions())
}

/// A temporary file beside `real`, with the mode and owner of the `old` one.
pub(super) fn beside(
    real: &Path,
    old: Option<&Metadata>,
    suffix: &str,
) -> io::Result<NamedTempFile> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "modes are Unix's"))]
    let mut builder = temporary(suffix);
    #[cfg(unix)]
    {
        // Temporary files are private by default; a result gets what the user's umask allows.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    sweep(folder_of(real));
    let temporary = builder.tempfile_in(folder_of(real))?;
    if suffix == SUFFIX {
        hold(temporary.as_file());
    }
    resemble(temporary.as_file(), old)?;
    Ok(temporary)
}

/// Temporary files younger than this may not be locked yet.
const YOUNG: Duration = Duration::from_secs(10);
/// Files that are opened by name have no lock of ours: those that were changed less than this ago may have a writer.
const YOUNG_BY_NAME: Duration = Duration::from_secs(3600);

/// Removes the temporary files of processes that ended while they wrote. Nothing of this can fail a write.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let young = match name.strip_prefix(PREFIX) {
            Some(rest) if rest.ends_with(SUFFIX) => YOUNG,
            Some(rest) if rest.ends_with(BY_NAME) => YOUNG_BY_NAME,
            _ => continue,
        };
        let old = |about: &Metadata| {
            let age = about.modified().ok().and_then(|at| at.elapsed().ok());
            about.is_file() && age.is_some_and(|age| age > young)
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
    let file = temporary.as_file().try_clone()?;
    on_disk(&file, real, || {
        // Where locks bind readers, nobody finds the result locked under its name.
        #[cfg(windows)]
        let _ = file.unlock();
        temporary.persist(real).map(drop).map_err(|e| e.error)
    })
}

/// Lets `name` give `file` the name `real`. Both reach the disk, unless the process does not wait for that.
fn on_disk(file: &File, real: &Path, name: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let wait = WAITS_FOR_DISK.load(Ordering::Relaxed);
    if wait {
        file.sync_all()?;
    }
    name()?;
    if !wait {
        return Ok(());
    }
    // The name is in the folder, which has to reach the disk as well. Some file systems cannot sync one.
    let folder = folder_of(real);
    #[cfg(unix)]
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// Names of temporary files begin and end so.
const PREFIX: &str = ".betz-";
pub(super) const SUFFIX: &str = ".tmp";
/// The end of those that are opened by name. They are not locked, which the library that opens them may do itself.
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_takes_its_name_when_it_is_whole_with_and_without_another_name_before() {
        let folder = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let has_unnamed = unnamed(folder.path()).is_some();
        for is_named in [false, true] {
            let real = folder.path().join("result");
            for text in ["first", "second"] {
                let old = fs::metadata(&real).ok();
                let (before, expected) = (names(), usize::from(is_named || !has_unnamed));
                let new_file = match is_named {
                    false => NewFile::new(&real, old.as_ref()).unwrap(),
                    true => NewFile::Named(beside(&real, old.as_ref(), SUFFIX).unwrap()),
                };
                new_file.file().write_all(text.as_bytes()).unwrap();
                assert_eq!(names() - before, expected, "{text}");
                new_file.finish(&real).unwrap();
                assert_eq!(fs::read_to_string(&real).unwrap(), text);
                assert_eq!(names(), 1);
                if let Some(old) = old {
                    assert_eq!(
                        fs::metadata(&real).unwrap().permissions(),
                        old.permissions()
                    );
                } else {
                    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
                }
            }
            fs::remove_file(&real).unwrap();
        }
        // Those of killed writers go with the next write; those that may have a writer, or another's names, stay.
        let left = |name: &str, hours: u64| {
            let file = File::create(folder.path().join(name)).unwrap();
            let at = std::time::SystemTime::now() - Duration::from_secs(3600 * hours + 60);
            file.set_modified(at).unwrap();
        };
        left(".betz-killed.part", 1);
        left(".betz-written.part", 0);
        left(".betz-killed.tmp", 0);
        left("of-another.part", 9);
        drop(NewFile::new(&folder.path().join("never"), None).unwrap());
        let mut stay: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        stay.sort();
        assert_eq!(stay, [".betz-written.part", "of-another.part"]);
        stay.iter()
            .for_each(|name| fs::remove_file(folder.path().join(name)).unwrap());
        // Nobody gives it a name: nothing is left.
        drop(NewFile::new(&folder.path().join("never"), None).unwrap());
        assert_eq!(names(), 0);
    }
}
