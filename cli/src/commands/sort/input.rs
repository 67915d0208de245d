//! Raw voltage, with what its header, its file or the options say of it.

use std::ops::Range;
use std::path::PathBuf;

use betz::sort::raw::{RawFile, RawInfo, likely_channels};
use betz::sort::{Sorter, Voltage};
use betz::text::count;
use betz::{Error, ErrorKind, Result};
use betz_interop::is_hdf5;
use betz_interop::nwb::ElectricalSeries;

use super::args::Raw;

/// Facts about the voltage that are known before a sample is read.
pub(super) struct Info {
    /// File of the samples.
    pub(super) path: PathBuf,
    /// Samples of a channel a second.
    pub(super) rate_hz: f64,
    /// Samples of a row.
    pub(super) channels: usize,
    /// Microvolts a bit.
    pub(super) microvolts: f64,
    /// Place of each channel, (x, y) in micrometres, where the file says; `None`: not an electrode, or nobody knows.
    pub(super) places: Option<Vec<Option<[f32; 2]>>>,
}

/// Place of the samples.
pub(super) enum Source {
    /// In a file of nothing else, after so many bytes.
    Flat { offset: u64 },
    /// In a series of an NWB file.
    Series(Box<ElectricalSeries>),
}

/// The series of voltage that is asked for, in an NWB file.
fn series(args: &Raw) -> Result<ElectricalSeries> {
    ElectricalSeries::open(&args.raw, args.part.series.as_deref()).map_err(|e| match e.kind() {
        ErrorKind::InvalidArgument if args.part.series.is_none() => {
            let words = format!("{}; --series takes its name or its path", e.message());
            e.in_words(words)
        }
        _ => e,
    })
}

/// Facts that a file gives about its samples.
struct Header {
    /// The file, in words, and its fault if it lacks a fact.
    who: &'static str,
    lack: String,
    rate_hz: Option<f64>,
    channels: Option<usize>,
    microvolts: Option<f64>,
}

impl Header {
    fn of(args: &Raw, series: Option<&ElectricalSeries>, header: Option<&RawInfo>) -> Self {
        let raw = args.raw.display();
        let (who, lack) = match series {
            Some(_) => ("the file", format!("{raw} does not say")),
            None => (
                "the header beside the samples",
                format!("{raw} has no header"),
            ),
        };
        let (rate_hz, channels, microvolts) = match (series, header) {
            (Some(series), _) => (
                Some(series.rate_hz()),
                Some(series.channels()),
                series.microvolts(),
            ),
            (None, Some(header)) => (
                Some(header.rate_hz),
                Some(header.channels),
                Some(header.microvolts),
            ),
            (None, None) => (None, None, None),
        };
        Self {
            who,
            lack,
            rate_hz,
            channels,
            microvolts,
        }
    }

    /// A fact that the user, the file or the sorter knows, in this order; the first two must not differ.
    fn fact(
        &self,
        option: &str,
        asked: Option<f64>,
        said: Option<f64>,
        sorter: Option<f64>,
    ) -> Result<f64> {
        if let (Some(asked), Some(said)) = (asked, said)
            && (asked - said).abs() > 1e-6 * said.abs()
        {
            let who = self.who;
            return Err(Error::argument(format!(
                "{option}: {who} says {said}, got {asked}"
            )));
        }
        asked.or(said).or(sorter).ok_or_else(|| {
            let lack = &self.lack;
            Error::argument(format!("{option}: expected it, because {lack}"))
        })
    }

    /// The number of channels. The sorter's own is no answer: it fits every file whose length it divides.
    fn channels(&self, args: &Raw, sorter: Option<&Sorter>) -> Result<usize> {
        let [asked, said] = [args.part.channels, self.channels].map(|n| n.map(|n| n as f64));
        let channels = self.fact("--channels", asked, said, None);
        let channels = channels.map_err(|e| match sorter {
            Some(sorter) => {
                let trained = count(sorter.layout().row_channels as u128, "channel");
                let words = format!("{}; the sorter was trained on {trained}", e.message());
                e.in_words(words)
            }
            None => e,
        })?;
        Ok(channels as usize)
    }
}

impl Info {
    /// Facts about the recording, and its location; `sorter` supplies those that are not given.
    pub(super) fn of(args: &Raw, sorter: Option<&Sorter>) -> Result<(Self, Source)> {
        let series = match is_hdf5(&args.raw) {
            true => Some(series(args)?),
            false => None,
        };
        if let (Some(name), None) = (&args.part.series, &series) {
            return Err(Error::argument(format!(
                "--series {name}: expected an NWB file, got {}",
                args.raw.display()
            )));
        }
        let header = match &series {
            Some(_) => None,
            None => RawInfo::of(&args.raw)?,
        };
        let said = Header::of(args, series.as_ref(), header.as_ref());
        let settings = sorter.map(Sorter::settings);
        let rate_hz = said.fact(
            "--rate",
            args.part.rate,
            said.rate_hz,
            settings.map(|s| s.rate_hz),
        )?;
        let channels = said.channels(args, sorter)?;
        let sorters = settings.map(|s| s.microvolts);
        let microvolts = said.fact("--gain", args.part.gain, said.microvolts, sorters)?;
        let (path, places, source) = match (series, header) {
            (Some(series), _) => (
                args.raw.clone(),
                series.places().map(<[_]>::to_vec),
                Source::Series(Box::new(series)),
            ),
            (None, Some(header)) => (
                header.path,
                header.places,
                Source::Flat {
                    offset: header.offset,
                },
            ),
            (None, None) => (args.raw.clone(), None, Source::Flat { offset: 0 }),
        };
        let info = Self {
            path,
            rate_hz,
            channels,
            microvolts,
            places,
        };
        if let Some(sorter) = sorter {
            info.same(sorter)?;
        }
        if let Source::Series(series) = &source {
            for note in series.notes() {
                eprintln!("{}: {note}", info.path.display());
            }
        }
        Ok((info, source))
    }

    /// Refuses a recording that the sorter was not trained for.
    fn same(&self, sorter: &Sorter) -> Result<()> {
        let expected = sorter.settings();
        let near = |a: f64, b: f64, part: f64| (a - b).abs() <= part * b.abs();
        // Rates that were measured differ from day to day, as clocks do.
        if self.channels == sorter.layout().row_channels
            && near(self.rate_hz, expected.rate_hz, 1e-4)
            && near(self.microvolts, expected.microvolts, 1e-6)
        {
            return Ok(());
        }
        Err(Error::mismatch(format!(
            "{}: the sorter expects {} channels at {} Hz and {} µV per bit, got {} at {} Hz and {} µV",
            self.path.display(),
            sorter.layout().row_channels,
            expected.rate_hz,
            expected.microvolts,
            self.channels,
            self.rate_hz,
            self.microvolts
        )))
    }
}

impl Source {
    /// The samples that `info` tells of, and the rows of them that were asked for.
    pub(super) fn open(self, info: &Info, args: &Raw) -> Result<(Box<dyn Voltage>, Range<u64>)> {
        let mut voltage: Box<dyn Voltage> = match self {
            Self::Series(series) => series,
            Self::Flat { offset } => Box::new(RawFile::open(&RawInfo {
                path: info.path.clone(),
                rate_hz: info.rate_hz,
                channels: info.channels,
                microvolts: info.microvolts,
                places: None,
                offset,
            })?),
        };
        let all = voltage.rows();
        if let Some(likely) = likely_channels(voltage.as_mut())? {
            eprintln!(
                "{}: {} given, but samples repeat as those of {} do: check --channels",
                info.path.display(),
                count(info.channels as u128, "channel"),
                count(likely as u128, "channel")
            );
        }
        let row = |option: &str, seconds: f64| {
            if !(seconds.is_finite() && seconds >= 0.0) {
                return Err(Error::argument(format!(
                    "{option}: expected seconds, 0 or more, got {seconds}"
                )));
            }
            Ok((seconds * info.rate_hz).round().min(all as f64) as u64)
        };
        let from = row("--from", args.part.from)?;
        let until = match args.part.until {
            Some(seconds) => row("--until", seconds)?,
            None => all,
        };
        if from >= until {
            return Err(Error::argument(format!(
                "--from, --until: expected some of the {:.3} s, got none",
                all as f64 / info.rate_hz
            )));
        }
        Ok((voltage, from..until))
    }
}
