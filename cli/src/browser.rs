//! Opening a browser without putting the token into a list of processes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A file that leads to the page; only its owner may read it, and it goes when this is dropped.
pub(crate) struct Door(PathBuf);

impl Door {
    /// Writes the file and asks the system to open it; what does not work is said, and is no failure.
    pub(crate) fn open(url: &str) -> Option<Self> {
        match Self::write(url) {
            Ok(door) => {
                let opener = if cfg!(target_os = "macos") {
                    "open"
                } else if cfg!(windows) {
                    "explorer"
                } else {
                    "xdg-open"
                };
                let opened = Command::new(opener)
                    .arg(&door.0)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn();
                if opened.is_err() {
                    eprintln!("no browser could be opened: open the address above");
                }
                Some(door)
            }
            Err(e) => {
                eprintln!("no browser could be opened ({e}): open the address above");
                None
            }
        }
    }

    fn write(url: &str) -> std::io::Result<Self> {
        let folder =
            std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = folder.join("betz");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("open-{}.html", std::process::id()));
        // A file of that name is somebody else's: it is not written into.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // Elsewhere the folder of temporary files is the user's own.
        let mut file = options.open(&path)?;
        let door = Self(path);
        // The address is of this program's making: digits, letters and a few signs.
        writeln!(
            file,
            "<!doctype html><meta name=referrer content=no-referrer><meta http-equiv=refresh content=\"0;url={url}\"><title>Betz</title>"
        )?;
        Ok(door)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
