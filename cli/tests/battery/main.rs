//! More than a thousand damaged, odd, huge and hostile inputs through the built binary, some with little
//! memory: each ends by itself with a code of 0 to 2, without a panic, and no input is changed. A refusal
//! names a file or an option, says what was expected, and leaves nothing; results that are made are whole.
//!
//! A run takes every fifth case; `BETZ_BATTERY=all` runs all, as does `BETZ_EXHAUSTIVE=1`.
//!
//! All cases are made from seeds; a failure prints its command, which can be run again in the folder that
//! `BETZ_BATTERY_KEEP` names.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod archives;
mod cases;
mod mistaken;
mod outcome;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One run of the binary.
pub(crate) struct Case {
    pub(crate) arguments: String,
    /// Address space in MB.
    pub(crate) memory: Option<u32>,
    /// File that standard input is read from.
    pub(crate) stdin: Option<String>,
}

/// A run that is not exhaustive takes one case in so many.
const EVERY: usize = 5;

/// Kilobytes of the program for which the limits of memory are chosen.
const PROGRAM: u64 = 66_000;

/// The longest that a case may take on a machine that is busy with others.
const LONGEST: Duration = Duration::from_secs(100);

/// Runs a case; the error says what went wrong.
fn run(folder: &Path, number: usize, case: &Case) -> Result<i32, String> {
    let (out, err) = (format!("{number}.stdout"), format!("{number}.stderr"));
    // A larger program gets as much more: its work then ends at the same place.
    let program = fs::metadata(env!("CARGO_BIN_EXE_betz")).map_or(0, |m| m.len() / 1000);
    let more = program.saturating_sub(PROGRAM);
    let limit = case.memory.map_or_else(String::new, |mb| {
        format!("ulimit -v {} && ", u64::from(mb) * 1000 + more)
    });
    let stdin = match &case.stdin {
        Some(file) => Stdio::from(fs::File::open(folder.join(file)).unwrap()),
        None => Stdio::null(),
    };
    let to = |name: &str| Stdio::from(fs::File::create(folder.join("said").join(name)).unwrap());
    let mut child = Command::new("sh")
        .current_dir(folder)
        .env("BETZ_CACHE", folder.join("cache"))
        // Each thread asks for memory of its own: the same number everywhere.
        .env("RAYON_NUM_THREADS", "2")
        .arg("-c")
        .arg(format!(
            "{limit}exec \"$BETZ\" {}",
            case.arguments.replace("OUT", &format!("made/{number}"))
        ))
        .env("BETZ", env!("CARGO_BIN_EXE_betz"))
        .stdin(stdin)
        .stdout(to(&out))
        .stderr(to(&err))
        .spawn()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > LONGEST {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("did not end in {LONGEST:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let read = |name: &str| fs::read(folder.join("said").join(name)).unwrap();
    let said = String::from_utf8_lossy(&read(&err)).into_owned();
    if let Some(signal) = status.signal() {
        return Err(format!("killed by signal {signal}: {said}"));
    }
    if said.contains("panicked") || said.contains("overflowed its stack") {
        return Err(said);
    }
    match status.code() {
        Some(0) => {}
        Some(code @ 1..=2) if said.is_empty() => return Err(format!("code {code} without a word")),
        Some(1..=2) => {}
        code => return Err(format!("ended with {code:?}: {said}")),
    }
    let done = status.success();
    let fault = match done {
        true => None,
        false => outcome::fault_of_refusal(case, &said),
    };
    if let Some(fault) = fault.or_else(|| outcome::fault_of_files(folder, number, done)) {
        return Err(fault);
    }
    if let Some(long) = said.lines().find(|l| l.len() > 2000) {
        return Err(format!("a line of {} bytes: {}…", long.len(), &long[..200]));
    }
    Ok(status.code().unwrap_or(0))
}

/// Name and bytes of every input.
fn inputs(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn nothing_is_lost_and_nothing_aborts() {
    let temporary = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("BETZ_BATTERY_KEEP").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(temporary.path());
    for name in ["made", "said"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    archives::write_all(folder);
    cases::prepare(folder);
    let mut cases = cases::all(folder);
    assert!(cases.len() >= 900, "{} cases", cases.len());
    let all = std::env::var_os("BETZ_BATTERY").is_some_and(|cases| cases == "all");
    if !all && std::env::var_os("BETZ_EXHAUSTIVE").is_none() {
        cases = cases.into_iter().step_by(EVERY).collect();
    }
    let before = inputs(folder);
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let codes = Mutex::new([0_usize; 3]);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else {
                        break;
                    };
                    match run(folder, number, case) {
                        Ok(code) => codes.lock().unwrap()[code as usize] += 1,
                        Err(why) => failed.lock().unwrap().push(format!(
                            "betz {} (memory {:?} MB): {why}",
                            case.arguments, case.memory
                        )),
                    }
                }
            });
        }
    });
    let [done, refused, misused] = *codes.lock().unwrap();
    eprintln!(
        "{} cases: {done} done, {refused} failed with a word, {misused} refused as wrong usage",
        cases.len()
    );
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} of {}:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
    let after = inputs(folder);
    for (path, bytes) in &before {
        assert!(
            after.get(path) == Some(bytes),
            "{} was changed",
            path.display()
        );
    }
    assert_eq!(
        before.len(),
        after.len(),
        "something was left among the inputs"
    );
}
