//! Writing files so that nobody ever sees half of one, and so that nothing is lost by it.
//!
//! ```text
//! FilePlan   before any work: which files are read, which written, and that no two of them are one
//! write_atomically, create_atomically   after it: whole, then in the old file's place; into a pipe as it is
//! wait_for_disk   whether finished files reach the disk before they take their names
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::Path;
use std::prelude::rust_2024::*;

mod place;
mod plan;
mod target;
mod temporary;

pub use place::{read_exact_at, write_all_at};
pub use plan::FilePlan;
use target::{Stream, Target};
pub use temporary::wait_for_disk;
use temporary::{BY_NAME, NewFile, beside, in_place, temporary};

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

/// Opens the file at `path` to be read at any place of it.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io), also for a folder, a device and a pipe, which is not opened: that would wait
/// for its writer.
pub fn open_file(path: &Path) -> Result<File> {
    let io = |e: io::Error| Error::io("reading", path, &e);
    let kind = std::fs::metadata(path).map_err(io)?.file_type();
    if !kind.is_file() {
        let got = if kind.is_dir() {
            "a folder"
        } else {
            "a pipe or a device"
        };
        let words = format!("expected a file, got {got}");
        return Err(io(io::Error::new(io::ErrorKind::InvalidInput, words)));
    }
    File::open(path).map_err(io)
}

/// Lets `fill` write a file without a name, syncs it (see [`wait_for_disk`]), then gives it the name `path`. On file
/// systems without such files it has a temporary name beside `path`, which a later write removes if the process is killed.
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
/// The errors of `fill` and of [`write_atomically`].
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
    let new_file = NewFile::new(&real, old.as_ref())?;
    let mut writer = BufWriter::new(new_file.file());
    fill(&mut writer)?;
    writer.flush()?;
    drop(writer);
    new_file.finish(&real)
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

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
