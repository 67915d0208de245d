//! What every use has to leave: a refusal that says enough, or whole results.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Case;

/// Words of refusals that say what is wrong without "expected".
const OTHER_WORDS: [&str; 13] = [
    // Little memory: how much is needed, and how much there is.
    " of memory",
    // Files: the system's words, and those about damage.
    "(os error ",
    "damaged",
    "cut short",
    "larger than any memory",
    "the file that is there holds something else",
    // Options: clap's words.
    "unexpected argument",
    "cannot be used",
    "required arguments",
    // Data and numbers that leave nothing to work on, with the remedy.
    "nothing is left to decode from",
    "choose a longer step",
    "holds no whole tick",
    "cannot be expressed in ticks",
];

/// Fault of a refusal `said` of `case`: it must name a file or an option of the command line, and say what was expected.
pub(crate) fn fault_of_refusal(case: &Case, said: &str) -> Option<String> {
    let begins = |line: &&str| line.starts_with("betz: ") || line.starts_with("error: ");
    let Some(first) = said.lines().find(begins) else {
        return Some(format!(
            "no line that begins with betz: or error:, but {said}"
        ));
    };
    let refusal = &said[said.find(first).unwrap_or(0)..];
    let expected = |words: &&str| refusal.contains(words);
    if !refusal.contains("xpected") && !OTHER_WORDS.iter().any(|w| expected(&w)) {
        return Some(format!("does not say what was expected: {first}"));
    }
    let names = case.arguments.split_whitespace().skip(1);
    let named = names
        .map(|name| name.split('=').next().unwrap_or(name).trim_matches('\''))
        .chain(case.stdin.is_some().then_some("-"))
        .filter(|name| name.len() > 1 || *name == "-")
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
    let whole = match ending.as_str() {
        "npz" => zip::ZipArchive::new(std::io::Cursor::new(&bytes[..]))
            .is_ok_and(|mut zip| (0..zip.len()).all(|i| readable(&mut zip, i))),
        "betz" | "sums" => bytes.starts_with(b"BETZ") && bytes.len() > 24,
        "nwb" => bytes.starts_with(b"\x89HDF"),
        "svg" => bytes.starts_with(b"<svg") && bytes.trim_ascii_end().ends_with(b"</svg>"),
        "onnx" => bytes.len() > 100,
        "csv" => std::str::from_utf8(&bytes).is_ok_and(|text| text.ends_with('\n')),
        other => return Some(format!("left a .{other}: {}", path.display())),
    };
    (!whole).then(|| format!("{} is not whole", path.display()))
}

/// True if the array `i` of an archive can be read to its end, with the right checksum.
fn readable(zip: &mut zip::ZipArchive<std::io::Cursor<&[u8]>>, i: usize) -> bool {
    let file = zip.by_index(i);
    file.is_ok_and(|mut file| std::io::copy(&mut file, &mut std::io::sink()).is_ok())
}
