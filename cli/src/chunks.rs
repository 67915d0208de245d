//! Recordings that are read in chunks (`--memory`), so that they need not fit in memory.

use std::path::Path;

use betz::recording::{AlignOptions, AlignReport, Stretches};
use betz::train::long::File;
use betz::{Error, Result};

use crate::common_args::Part;
use crate::data;
use crate::parse;
use crate::report;

/// Refuses `option` for a file that cannot be read in chunks.
pub(crate) fn expect_npz(path: &Path, option: &str) -> Result<()> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if ending.eq_ignore_ascii_case("npz") {
        return Ok(());
    }
    Err(Error::argument(format!(
        "{option}: expected a recording that is read in chunks (.npz), got {}",
        path.display()
    )))
}

/// Refuses, for `why`, each option that was given although the command reads its recording in chunks.
pub(crate) fn refuse(options: &[(&str, bool)], why: &str) -> Result<()> {
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Error::argument(format!("{option}: expected none {why}"))),
        None => Ok(()),
    }
}

/// Opens the `part` of the recording at `path`, and reports on its behaviour. `view` selects channels or groups of it
/// and returns the step in seconds.
pub(crate) fn open(
    path: &Path,
    part: &Part,
    memory: u64,
    view: impl FnOnce(Stretches) -> Result<(Stretches, f64)>,
) -> Result<(File, AlignReport)> {
    expect_npz(path, "--memory")?;
    part.behavior.none_in_stretches()?;
    refuse(
        &[("--velocity", !part.velocity.is_empty())],
        "with --memory, which trains and scores linear decoders: they have no use for it",
    )?;
    let at = |e: Error| e.at(path.display());
    let mut stretches = Stretches::open(path)?;
    let whole = stretches.outline();
    report::note(&format!(
        "{}: {}, {:.1} s, {}, read in chunks",
        path.display(),
        report::count(whole.channels() as u128, "channel"),
        whole.seconds(),
        report::count(whole.segments.len() as u128, "segment"),
    ));
    if let Some(list) = &part.segments {
        let wanted = parse::ranges("--segments", list, whole.segments.len())?;
        let segments = wanted.iter().map(|&i| whole.segments[i]).collect();
        stretches = stretches.with_segments(segments)?;
    }
    data::check_gap(part)?;
    let (mut stretches, step_seconds) = view(stretches).map_err(at)?;
    let options = AlignOptions {
        step_seconds,
        max_gap_seconds: part.max_gap,
    };
    if part.from.is_some() || part.until.is_some() {
        let (from, until) = (
            part.from.unwrap_or(0.0),
            part.until.unwrap_or(f64::INFINITY),
        );
        stretches = stretches.between(&options, from, until).map_err(at)?;
    }
    let mut file = File::new(stretches, options, memory).map_err(at)?;
    let aligned = file.align_report()?;
    data::tell_aligned(&aligned);
    Ok((file, aligned))
}
