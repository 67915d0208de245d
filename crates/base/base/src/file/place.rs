//! Reading and writing at a place of a file, whatever its cursor; threads may do so at once.

#[cfg(unix)]
use std::os::unix::fs::FileExt;
#[cfg(unix)]
use std::{fs::File, io};

/// Fills `bytes` from byte `at` of `file` on.
///
/// # Errors
/// The errors of reading; [`io::ErrorKind::UnexpectedEof`] if the file ends before.
#[cfg(unix)]
pub fn read_exact_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    file.read_exact_at(bytes, at)
}

/// Writes all of `bytes` from byte `at` of `file` on.
///
/// # Errors
/// The errors of writing.
#[cfg(unix)]
pub fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    file.write_all_at(bytes, at)
}

#[cfg(windows)]
pub use windows::{read_exact_at, write_all_at};

#[cfg(windows)]
mod windows {
    use std::fs::File;
    use std::io::{Error, ErrorKind, Result};
    use std::os::windows::fs::FileExt;

    /// Fills `bytes` from byte `at` of `file` on.
    ///
    /// # Errors
    /// The errors of reading; [`ErrorKind::UnexpectedEof`] if the file ends before.
    pub fn read_exact_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> Result<()> {
        while !bytes.is_empty() {
            let read = file.seek_read(bytes, at)?;
            if read == 0 {
                return Err(Error::from(ErrorKind::UnexpectedEof));
            }
            bytes = &mut bytes[read..];
            at += read as u64;
        }
        Ok(())
    }

    /// Writes all of `bytes` from byte `at` of `file` on.
    ///
    /// # Errors
    /// The errors of writing; [`ErrorKind::WriteZero`] if nothing is taken.
    pub fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> Result<()> {
        while !bytes.is_empty() {
            let written = file.seek_write(bytes, at)?;
            if written == 0 {
                return Err(Error::from(ErrorKind::WriteZero));
            }
            bytes = &bytes[written..];
            at += written as u64;
        }
        Ok(())
    }
}
