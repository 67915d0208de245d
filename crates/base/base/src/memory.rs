//! Available memory: work that needs more is refused before it begins, not killed while it runs.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::error::{Error, ErrorKind, Result};

/// Bytes that this process can still get: the least of what the machine, its control group and the
/// process' own limits (`ulimit -v`, `ulimit -d`) leave. `None` where the system does not say.
///
/// Reads a few files of `/proc` and `/sys`; about 50 µs.
pub fn available() -> Option<u64> {
    let machine = field("/proc/meminfo", "MemAvailable:").map(|kib| kib << 10);
    [
        machine,
        of_limit("Max address space", "VmSize:"),
        of_limit("Max data size", "VmData:"),
        of_group(),
    ]
    .into_iter()
    .flatten()
    .min()
}

/// Bytes of addresses that a limit of the process (`ulimit -v`) leaves it; `None` where there is none. An
/// allocator reserves addresses for each thread that it never touches, so few of them are few threads.
pub fn addresses() -> Option<u64> {
    of_limit("Max address space", "VmSize:")
}

/// Bytes that a copy of `names` takes, with what an allocator adds to each: glibc gives pieces of whole 16 bytes,
/// 8 of them its own, and none of fewer than 32.
pub fn of_names(names: &[String]) -> u128 {
    let piece = |bytes: usize| match bytes {
        0 => 0,
        _ => (bytes + 8).next_multiple_of(16).max(32),
    };
    let each = |name: &String| (size_of::<String>() + piece(name.len())) as u128;
    names.iter().map(each).sum()
}

/// Left over beside anything planned, for what is too small to plan.
const RESERVE: u64 = 4 << 20;

/// Refuses `what`, which needs `bytes` at once, when there is less (of a megabyte or more: when less than
/// 4 MB would be left beside it). Allocates nothing of it.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`] with both numbers.
pub fn plan(what: impl fmt::Display, bytes: u128) -> Result<()> {
    let reserve = if bytes < 1 << 20 { 0 } else { RESERVE };
    match available() {
        Some(there) if bytes.saturating_add(u128::from(reserve)) > u128::from(there) => {
            let needed = u64::try_from(bytes).unwrap_or(u64::MAX);
            Err(Error::new(
                ErrorKind::OutOfMemory,
                format!(
                    "{what}: expected {} of free memory, got {}",
                    size(needed),
                    size(there)
                ),
            )
            .with_needed_bytes(needed)
            .with_available_bytes(there))
        }
        _ => Ok(()),
    }
}

/// `len` copies of `value`, or an error where the system has no memory for them.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`].
pub fn filled<T: Clone>(what: impl fmt::Display, value: T, len: usize) -> Result<Vec<T>> {
    let mut all = room(what, len)?;
    all.resize(len, value);
    Ok(all)
}

/// An empty list with room for `len`, or an error where the system has no memory for them.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`].
pub fn room<T>(what: impl fmt::Display, len: usize) -> Result<Vec<T>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len)
        .map_err(|_| Error::no_memory(what, len.saturating_mul(size_of::<T>())))?;
    Ok(all)
}

/// Tries to get `bytes` at once, and gives them back: asked before work whose parts are not each asked for.
/// Asks the allocator of the program, which a host may limit more strictly than the system does.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`].
pub fn expect(what: impl fmt::Display, bytes: usize) -> Result<()> {
    let mut all = room::<u8>(what, bytes)?;
    // An allocation that is never used may otherwise be left out.
    core::hint::black_box(all.as_mut_ptr());
    Ok(())
}

/// `bytes` for people: `34.0 GB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{:.1} TB", bytes as f64 / 1e12),
    }
}

/// The number behind `name` in a file of lines `name number …`.
fn field(file: &str, name: &str) -> Option<u64> {
    let text = text_of(file)?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(feature = "std")]
fn text_of(file: &str) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

/// Without an operating system, nothing says how much memory there is.
#[cfg(not(feature = "std"))]
fn text_of(_file: &str) -> Option<String> {
    None
}

/// Bytes that a limit of the process still leaves.
fn of_limit(limit: &str, used: &str) -> Option<u64> {
    let most = field("/proc/self/limits", limit)?;
    let used = field("/proc/self/status", used)? << 10;
    Some(most.saturating_sub(used))
}

/// Bytes that the control group still leaves; pages of files that it could give back count as free.
fn of_group() -> Option<u64> {
    let number = |file: &str| text_of(file)?.trim().parse::<u64>().ok();
    let most = number("/sys/fs/cgroup/memory.max")?;
    let used = number("/sys/fs/cgroup/memory.current")?;
    let files = field("/sys/fs/cgroup/memory.stat", "inactive_file ").unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        plan("a byte", 1).unwrap();
        if available().is_none() {
            std::eprintln!("this system does not say how much memory there is: skipped");
            return;
        }
        let error = plan("Γ of 10 channels", 1 << 70).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(
            error.message().starts_with("Γ of 10 channels: expected "),
            "{error}"
        );
        assert!(error.needed_bytes() > error.available_bytes());
        let error = filled("a list", 0_u64, usize::MAX / 16).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(filled("a list", 7_u8, 3).unwrap(), [7; 3]);
        expect("a megabyte", 1 << 20).unwrap();
        let error = expect("half of all addresses", usize::MAX / 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(of_names(&["ab".into(), String::new()]), 24 + 32 + 24);
    }

    #[test]
    fn sizes_are_read_easily() {
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(34_000_000_000), "34.0 GB");
        assert_eq!(size(u64::MAX), "18446744.1 TB");
    }
}
