//! Writing files so that nobody ever sees half of one, and so that nothing is lost by it.
//!
//! ```text
//! FilePlan   before any work: which files are read, which written, and that no two of them are one
//! write_atomically, create_atomically   after it: beside the old file, then in its place; into a pipe as it is
//! ```

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::memory;

/// Bytes of a stream that are read at once.
const BLOCK: usize = 1 << 20;

/// The whole file `path`, or all that comes through a pipe; `-` is standard input.
///
/// With `begins`, a stream that begins otherwise is left off at once: a device may never end. Memory
/// grows with what comes and is planned ([`memory`]); a stream that outgrows it is refused.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io), also for a directory;
/// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
pub fn read_all(path: &Path, begins: Option<&[u8]>) -> Result<Vec<u8>> {
    let io = |e: io::Error| Error::io("reading", path, &e);
    let mut stream: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).map_err(io)?;
        let about = file.metadata().map_err(io)?;
        if about.is_dir() {
            return Err(io(io::Error::new(
                io::ErrorKind::IsADirectory,
                "expected a file, got a directory",
            )));
        }
        Box::new(file)
    };
    let mut all: Vec<u8> = Vec::new();
    loop {
        if all.capacity() - all.len() < BLOCK {
            let more = all.len().max(BLOCK);
            memory::plan(path.display(), (all.len() + more) as u128)?;
            all.try_reserve_exact(more)
                .map_err(|_| Error::no_memory(path.display(), all.len() + more))?;
        }
        let before = all.len();
        let got = (&mut stream)
            .take(BLOCK as u64)
            .read_to_end(&mut all)
            .map_err(io)?;
        let start = &all[..all.len().min(begins.map_or(0, <[u8]>::len))];
        if got == 0 || begins.is_some_and(|b| before == 0 && !b.starts_with(start)) {
            return Ok(all);
        }
    }
}

/// Symbolic links that are followed, as the system does.
const MAX_LINKS: usize = 40;

/// Lets `fill` write a temporary file beside `path`, syncs it, then renames it to `path`.
///
/// A failure at any point leaves the old file, if there was one, as it was, and nothing else behind.
/// The new file has the old one's mode (and owner, where the system allows it). Where `path` is a
/// symbolic link, what it points to is replaced and the link stays. A pipe, a terminal or another
/// character device, and an open descriptor (`/dev/fd/1`, `/dev/stdout`) are written to, after `fill`
/// is done; they are never replaced.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io) naming `path`, also when `path` is a directory, a block
/// device or a socket.
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

/// [`write_atomically`] for what opens its file by name: `fill` is given the temporary file's, which is there and empty.
///
/// # Errors
/// Those of `fill`, and as [`write_atomically`].
pub fn create_atomically(path: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let io = |e: io::Error| Error::io("writing", path, &e);
    match Target::of(path).map_err(io)? {
        Target::New(real) => {
            let temporary = beside(&real, None, BY_NAME).map_err(io)?;
            fill(temporary.path())?;
            in_place(temporary, &real).map_err(io)
        }
        Target::Regular(real, old) => {
            let temporary = beside(&real, Some(&old), BY_NAME).map_err(io)?;
            fill(temporary.path())?;
            in_place(temporary, &real).map_err(io)
        }
        Target::Stream(stream) => {
            let whole = temporary(BY_NAME).tempfile().map_err(io)?;
            fill(whole.path())?;
            let copy = || -> io::Result<()> {
                let (mut from, mut to) = (File::open(whole.path())?, stream.open()?);
                io::copy(&mut from, &mut to)?;
                to.flush()
            };
            copy().map_err(io)
        }
    }
}

fn replace(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let (real, old) = match Target::of(path)? {
        Target::New(real) => (real, None),
        Target::Regular(real, old) => (real, Some(old)),
        Target::Stream(stream) => return pour(&stream, fill),
    };
    let temporary = beside(&real, old.as_ref(), SUFFIX)?;
    let mut writer = BufWriter::new(temporary.as_file());
    fill(&mut writer)?;
    writer.flush()?;
    drop(writer);
    in_place(temporary, &real)
}

/// A temporary file beside `real`, with the mode and owner of the `old` one.
fn beside(real: &Path, old: Option<&Metadata>, suffix: &str) -> io::Result<NamedTempFile> {
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

/// Gives a finished file its name.
fn in_place(temporary: NamedTempFile, real: &Path) -> io::Result<()> {
    temporary.as_file().sync_all()?;
    temporary.persist(real).map_err(|e| e.error)?;
    // The name is in the folder, which has to reach the disk as well. Some file systems cannot sync one.
    #[cfg(unix)]
    if let Ok(folder) = File::open(folder_of(real)) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Names of temporary files begin and end so.
const PREFIX: &str = ".betz-";
const SUFFIX: &str = ".tmp";
/// The end of those that are opened by name. They are neither locked, which the library that opens them may
/// do itself, nor swept.
const BY_NAME: &str = ".part";

fn temporary(suffix: &str) -> tempfile::Builder<'static, '_> {
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

/// Lets `fill` finish a file that has no name, then copies it to `stream`, which need not seek.
fn pour(
    stream: &Stream,
    fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut whole = tempfile::tempfile()?;
    let mut writer = BufWriter::new(&whole);
    fill(&mut writer)?;
    writer.flush()?;
    drop(writer);
    whole.rewind()?;
    let mut open = stream.open()?;
    io::copy(&mut whole, &mut open)?;
    open.flush()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// What a path that is to be written leads to.
enum Target {
    /// Nothing yet: a file of this name.
    New(PathBuf),
    /// This regular file, at the end of all links.
    Regular(PathBuf, Metadata),
    /// Something that is written to and stays.
    Stream(Stream),
}

/// A pipe, a character device, or a descriptor of this process.
enum Stream {
    Path(PathBuf, Metadata),
    #[cfg_attr(
        not(unix),
        expect(dead_code, reason = "descriptors have no paths there")
    )]
    Descriptor(u32, PathBuf, Metadata),
}

impl Stream {
    fn metadata(&self) -> &Metadata {
        let (Self::Path(_, metadata) | Self::Descriptor(_, _, metadata)) = self;
        metadata
    }

    fn open(&self) -> io::Result<File> {
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
    fn of(path: &Path) -> io::Result<Self> {
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

/// What tells one file from another, whatever they are called.
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
    /// Whether files are replaced whatever they hold.
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
        temporary(SUFFIX)
            .tempfile_in(folder_of(real))
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
                "the file that is there is read-only; --force replaces it",
            ));
        }
        if old.len() > 0 && !earlier(path) {
            return Err(Error::argument(
                "the file that is there holds something else than an earlier result of this kind; --force replaces it",
            ));
        }
        Ok(())
    }
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
    fn what_interrupted_writes_left_is_swept_and_what_is_being_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(60);
        let left = |name: &str| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(old).unwrap();
            file
        };
        let held = left(".betz-held.tmp");
        held.lock().unwrap();
        drop(left(".betz-killed.tmp"));
        drop(left("theirs.tmp"));
        File::create(folder.path().join(".betz-young.tmp")).unwrap();
        write_atomically(&folder.path().join("new"), |w| w.write_all(b"1")).unwrap();
        let mut names: Vec<String> = (fs::read_dir(folder.path()).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected = [".betz-held.tmp", ".betz-young.tmp", "new", "theirs.tmp"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_file_made_by_name_takes_the_place_of_the_old_one_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        create_atomically(&path, |name| {
            assert_eq!(fs::read(name).unwrap(), b"");
            fs::write(name, "old").map_err(|e| Error::io("writing", name, &e))
        })
        .unwrap();
        let failed = create_atomically(&path, |name| {
            fs::write(name, "half").unwrap();
            Err(Error::recording("no more of it"))
        });
        assert_eq!(failed.unwrap_err().message(), "no more of it");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(create_atomically(folder.path(), |_| Ok(())).is_err());
        assert!(create_atomically(&path.join("no"), |_| Ok(())).is_err());
    }

    #[test]
    fn a_directory_and_a_missing_folder_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_atomically(folder.path(), |_| Ok(())).unwrap_err();
        assert!(error.message().contains("got a directory"), "{error}");
        let missing = folder.path().join("no").join("file");
        assert!(write_atomically(&missing, |_| Ok(())).is_err());
    }

    #[cfg(unix)]
    mod unix {
        use super::*;
        use std::os::unix::fs::{PermissionsExt, symlink};

        fn mode(path: &Path) -> u32 {
            fs::metadata(path).unwrap().permissions().mode() & 0o7777
        }

        #[test]
        fn a_link_stays_and_its_file_keeps_its_mode() {
            let folder = tempfile::tempdir().unwrap();
            let (real, link) = (folder.path().join("real"), folder.path().join("link"));
            fs::write(&real, "old").unwrap();
            fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
            symlink("real", &link).unwrap();
            write_atomically(&link, |w| w.write_all(b"new")).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(
                (fs::read(&real).unwrap(), mode(&real)),
                (b"new".into(), 0o600)
            );
            // A link to nothing makes what it points to; one to itself is refused.
            symlink("later", folder.path().join("ahead")).unwrap();
            write_atomically(&folder.path().join("ahead"), |w| w.write_all(b"x")).unwrap();
            assert_eq!(fs::read(folder.path().join("later")).unwrap(), b"x");
            symlink("round", folder.path().join("round")).unwrap();
            let error = write_atomically(&folder.path().join("round"), |_| Ok(())).unwrap_err();
            assert!(error.message().contains("symbolic links"), "{error}");
        }

        #[test]
        fn pipes_and_character_devices_are_written_to_and_stay() {
            let folder = tempfile::tempdir().unwrap();
            let pipe = folder.path().join("pipe");
            assert!(
                std::process::Command::new("mkfifo")
                    .arg(&pipe)
                    .status()
                    .unwrap()
                    .success()
            );
            let from = pipe.clone();
            let reader = std::thread::spawn(move || {
                let mut text = String::new();
                File::open(from).unwrap().read_to_string(&mut text).unwrap();
                text
            });
            write_atomically(&pipe, |w| w.write_all(b"through")).unwrap();
            assert_eq!(reader.join().unwrap(), "through");
            assert!(!fs::metadata(&pipe).unwrap().is_file());
            write_atomically(Path::new("/dev/null"), |w| w.write_all(b"gone")).unwrap();
            assert!(!fs::metadata("/dev/null").unwrap().is_file());
        }

        #[test]
        fn two_names_of_one_file_are_found_out() {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::write(at("a"), "data").unwrap();
            symlink("a", at("soft")).unwrap();
            fs::hard_link(at("a"), at("hard")).unwrap();
            fs::create_dir(at("in")).unwrap();
            for name in ["a", "soft", "hard", "in/../a"] {
                let mut plan = FilePlan::new(true);
                plan.reads("DATA", &at("a"));
                let error = plan.writes("--out", &at(name), &|_| true).unwrap_err();
                assert!(
                    error.message().contains("another file than DATA"),
                    "{error}"
                );
            }
            let mut plan = FilePlan::new(false);
            plan.writes("--out", &at("new"), &|_| true).unwrap();
            symlink("new", at("to-new")).unwrap();
            for name in ["new", "in/../new", "to-new"] {
                let error = plan.writes("--csv", &at(name), &|_| true).unwrap_err();
                assert!(
                    error.message().contains("another file than --out"),
                    "{error}"
                );
            }
            // Outputs may share what keeps nothing.
            plan.writes("--x", Path::new("/dev/null"), &|_| false)
                .unwrap();
            plan.writes("--y", Path::new("/dev/null"), &|_| false)
                .unwrap();
        }

        #[test]
        fn a_strange_file_is_replaced_only_by_force() {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::write(at("mine"), "years of work").unwrap();
            fs::write(at("empty"), "").unwrap();
            fs::write(at("kept"), "result").unwrap();
            fs::set_permissions(at("kept"), fs::Permissions::from_mode(0o444)).unwrap();
            let result = |path: &Path| fs::read(path).unwrap() == b"result";
            let tries =
                |name: &str, force: bool| FilePlan::new(force).writes("--out", &at(name), &result);
            assert!(
                tries("mine", false)
                    .unwrap_err()
                    .message()
                    .contains("--force")
            );
            assert!(
                tries("kept", false)
                    .unwrap_err()
                    .message()
                    .contains("read-only")
            );
            for (name, force) in [("mine", true), ("kept", true), ("empty", false)] {
                tries(name, force).unwrap();
            }
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
            assert!(
                FilePlan::new(true)
                    .writes("--out", folder.path(), &|_| true)
                    .is_err()
            );
        }
    }
}
