//! Checks of a use: its refusal says enough, or its results are whole.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Case;

/// Words of others in refusals that say what is wrong without "expected".
const OTHER_WORDS: [&str; 2] = [
    // The system's words about a file.
    "(os error ",
    // The parser's words about two options.
    "cannot be used",
];

/// Fault of a refusal `said` of `case`: it must say what was expected, and where: a file, an option or an argument.
pub(crate) fn fault_of_refusal(case: &Case, said: &str) -> Option<String> {
    let begins = |line: &&str| line.starts_with("betz: ") || line.starts_with("error: ");
    let Some(first) = said.lines().find(begins) else {
        return Some(format!(
            "no line that begins with betz: or error:, but {said}"
        ));
    };
    let refusal = &said[said.find(first).unwrap_or(0)..];
    if !refusal.contains("xpected") && !OTHER_WORDS.iter().any(|words| refusal.contains(words)) {
        return Some(format!("does not say what was expected: {first}"));
    }
    // Of `betz: kind: subject: expected ...` the subject.
    let subject = |rest: &str| {
        rest.split_once(": expected")
            .is_some_and(|(subject, _)| !subject.is_empty())
    };
    let mut parts = first.splitn(3, ": ").skip(2);
    let named = ["out of memory", "device unavailable"]
        .iter()
        .any(|kind| first.contains(kind))
        || parts.any(subject)
        || case
            .arguments
            .split_whitespace()
            .skip(1)
            .map(|name| name.split('=').next().unwrap_or(name).trim_matches('\''))
            .chain(case.stdin.is_some().then_some("-"))
            .filter(|name| !name.is_empty())
            .any(|name| refusal.contains(&name.replace("OUT", "")));
    (!named).then(|| format!("does not say where: {first}"))
}

/// Files that the use `number` has made in `folder`.
fn made(folder: &Path, number: usize) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.join("made")).unwrap();
    let own = [format!("{number}."), format!("{number}-")];
    files
        .map(|file| file.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            own.iter().any(|own| name.starts_with(own))
        })
        .collect()
}

/// Fault of the files that the use `number` leaves: none where it was refused, whole ones where it was done.
pub(crate) fn fault_of_files(folder: &Path, number: usize, done: bool) -> Option<String> {
    let files = made(folder, number);
    if !done {
        return (!files.is_empty()).then(|| format!("refused, and left {files:?}"));
    }
    files.iter().find_map(|path| fault_of_file(path))
}

/// Fault of a result: it is not what its ending says.
fn fault_of_file(path: &Path) -> Option<String> {
    let ending = path.extension()?.to_string_lossy().into_owned();
    let bytes = fs::read(path).ok()?;
    let ends = |with: &[u8]| bytes.trim_ascii_end().ends_with(with);
    let whole = match ending.as_str() {
        "npz" => zip::ZipArchive::new(std::io::Cursor::new(&bytes[..]))
            .is_ok_and(|mut zip| (0..zip.len()).all(|i| readable(&mut zip, i))),
        "betz" | "sums" => bytes.starts_with(b"BETZ") && bytes.len() > 24,
        "nwb" => bytes.starts_with(b"\x89HDF"),
        "svg" => bytes.starts_with(b"<!-- drawn by betz -->") && ends(b"</svg>"),
        "onnx" => bytes.len() > 100,
        "csv" | "txt" => std::str::from_utf8(&bytes).is_ok_and(|text| {
            // A list of nothing is empty.
            text.is_empty() || text.ends_with('\n')
        }),
        other => return Some(format!("left a .{other}: {}", path.display())),
    };
    (!whole).then(|| format!("{} is not whole", path.display()))
}

/// True if the array `i` of an archive can be read to its end, with the right checksum.
fn readable(zip: &mut zip::ZipArchive<std::io::Cursor<&[u8]>>, i: usize) -> bool {
    let file = zip.by_index(i);
    file.is_ok_and(|mut file| std::io::copy(&mut file, &mut std::io::sink()).is_ok())
}
