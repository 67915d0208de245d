//! Sample numbers of a device: the gaps of a recording.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use betz_base::file::open_file;
use betz_base::{Error, Result};

use super::Gap;

/// Numbers that are read at once.
const AT_ONCE: usize = 1 << 16;
/// Most gaps of a stream; a recording with more is damaged.
const MOST_GAPS: usize = 1 << 20;
/// First bytes of a `.npy` file.
const MAGIC: &[u8] = b"\x93NUMPY";

/// Gaps that the numbers in a file tell of.
pub(super) struct SampleNumbers {
    /// Number of samples that have a number.
    pub(super) count: u64,
    pub(super) gaps: Vec<Gap>,
}

/// Reads the sample numbers in the `.npy` file at `path`, 64-bit integers. `None` for a file of floats, which are times.
///
/// # Errors
/// `Io`; `InvalidRecording` for a file of another kind, and for numbers that do not ascend.
pub(super) fn read(path: &Path) -> Result<Option<SampleNumbers>> {
    let io = |e: std::io::Error| Error::io("reading", path, &e);
    let bad = |what: String| Error::recording(format!("{}: {what}", path.display()));
    let mut file = BufReader::new(open_file(path)?);
    let header = header(&mut file).map_err(io)?;
    let header = header.ok_or_else(|| bad("expected a .npy file, got another".to_owned()))?;
    if header.contains("'<f8'") {
        return Ok(None);
    }
    if !header.contains("'<i8'") || header.contains("'fortran_order': True, 'shape': (2") {
        return Err(bad(format!(
            "expected 64-bit integers, the device's sample numbers, got {}",
            header.trim()
        )));
    }
    let mut numbers = SampleNumbers {
        count: 0,
        gaps: Vec::new(),
    };
    let mut before: Option<(i64, i64)> = None;
    let mut bytes = vec![0; 8 * AT_ONCE];
    loop {
        let got = fill(&mut file, &mut bytes).map_err(io)?;
        let (words, rest) = bytes[..got].as_chunks::<8>();
        if !rest.is_empty() {
            return Err(bad(
                "expected whole numbers of 8 bytes, got a part".to_owned()
            ));
        }
        for word in words {
            let number = i64::from_le_bytes(*word);
            let (first, last) = before.unwrap_or((number, number.wrapping_sub(1)));
            let step = i128::from(number) - i128::from(last);
            if step < 1 {
                return Err(bad(format!(
                    "expected sample numbers that ascend, got {number} after {last} at row {}; cut the recording there, and read its parts",
                    numbers.count
                ))
                .with_position(numbers.count as usize));
            }
            if step > 1 {
                if numbers.gaps.len() == MOST_GAPS {
                    return Err(bad(format!("expected at most {MOST_GAPS} gaps, got more")));
                }
                numbers.gaps.push(Gap {
                    start: (i128::from(last) + 1 - i128::from(first)) as u64,
                    length: (step - 1) as u64,
                });
            }
            before = Some((first, number));
            numbers.count += 1;
        }
        if got < bytes.len() {
            return Ok(Some(numbers));
        }
    }
}

/// The header of a `.npy` file; `None` if it is none.
fn header(file: &mut BufReader<File>) -> std::io::Result<Option<String>> {
    let mut start = [0; 8];
    if fill(file, &mut start)? < start.len() || !start.starts_with(MAGIC) {
        return Ok(None);
    }
    let length = if start[6] == 1 {
        let mut length = [0; 2];
        file.read_exact(&mut length)?;
        usize::from(u16::from_le_bytes(length))
    } else {
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        (u32::from_le_bytes(length) as usize).min(1 << 16)
    };
    let mut header = vec![0; length];
    file.read_exact(&mut header)?;
    Ok(Some(String::from_utf8_lossy(&header).into_owned()))
}

/// Fills `bytes` up to the end of the file; how many there were.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
