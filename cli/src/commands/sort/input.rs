//! Raw voltage, with what its header or the options say of it.

use std::ops::Range;

use betz::sort::raw::{RawFile, RawInfo};
use betz::sort::{Sorter, Voltage};
use betz::{Error, Result};

use crate::sort_args::Raw;

/// What is known of the recording that was asked for; `sorter` knows what is not said.
pub(super) fn info(args: &Raw, sorter: Option<&Sorter>) -> Result<RawInfo> {
    let header = RawInfo::of(&args.raw)?;
    let known = |option: &str, said: Option<f64>, header: Option<f64>, sorter: Option<f64>| {
        if let (Some(said), Some(header)) = (said, header)
            && (said - header).abs() > 1e-6 * header.abs()
        {
            return Err(Error::argument(format!(
                "{option}: the header beside the samples says {header}, got {said}"
            )));
        }
        said.or(header).or(sorter).ok_or_else(|| {
            Error::argument(format!(
                "{option}: expected it, because {} has no header",
                args.raw.display()
            ))
        })
    };
    let by_header = |of: &dyn Fn(&RawInfo) -> f64| header.as_ref().map(of);
    let settings = sorter.map(Sorter::settings);
    let rate_hz = known(
        "--rate",
        args.rate,
        by_header(&|h| h.rate_hz),
        settings.map(|s| s.rate_hz),
    )?;
    let channels = known(
        "--channels",
        args.channels.map(|c| c as f64),
        by_header(&|h| h.channels as f64),
        sorter.map(|s| s.layout().row_channels as f64),
    )?;
    let microvolts = known(
        "--gain",
        args.gain,
        by_header(&|h| h.microvolts),
        settings.map(|s| s.microvolts),
    )?;
    let (path, places, offset) = match header {
        Some(header) => (header.path, header.places, header.offset),
        None => (args.raw.clone(), None, 0),
    };
    let info = RawInfo {
        path,
        rate_hz,
        channels: channels as usize,
        microvolts,
        places,
        offset,
    };
    if let Some(sorter) = sorter {
        same(&info, sorter)?;
    }
    Ok(info)
}

/// Refuses a recording that the sorter was not trained for.
fn same(info: &RawInfo, sorter: &Sorter) -> Result<()> {
    let expected = sorter.settings();
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs();
    if info.channels == sorter.layout().row_channels
        && near(info.rate_hz, expected.rate_hz)
        && near(info.microvolts, expected.microvolts)
    {
        return Ok(());
    }
    Err(Error::mismatch(format!(
        "{}: the sorter expects {} channels at {} Hz and {} µV a bit, got {} at {} Hz and {} µV",
        info.path.display(),
        sorter.layout().row_channels,
        expected.rate_hz,
        expected.microvolts,
        info.channels,
        info.rate_hz,
        info.microvolts
    )))
}

/// The samples, and the rows of them that were asked for.
pub(super) fn open(args: &Raw, info: &RawInfo) -> Result<(RawFile, Range<u64>)> {
    let file = RawFile::open(info)?;
    let row = |option: &str, seconds: f64| {
        if !(seconds.is_finite() && seconds >= 0.0) {
            return Err(Error::argument(format!(
                "{option}: expected seconds, 0 or more, got {seconds}"
            )));
        }
        Ok((seconds * info.rate_hz).round().min(file.rows() as f64) as u64)
    };
    let from = row("--from", args.from)?;
    let until = match args.until {
        Some(seconds) => row("--until", seconds)?,
        None => file.rows(),
    };
    if from >= until {
        return Err(Error::argument(format!(
            "--from, --until: expected some of the {:.3} s, got none",
            file.rows() as f64 / info.rate_hz
        )));
    }
    Ok((file, from..until))
}
