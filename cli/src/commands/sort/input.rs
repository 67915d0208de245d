//! Raw voltage, with what its header, its file or the options say of it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use betz::sort::{Sorter, Voltage};
use betz::text::count;
use betz::{Error, ErrorKind, Result};
use betz_formats::is_hdf5;
use betz_formats::nwb::ElectricalSeries;
use betz_formats::voltage::{VoltageRecording, VoltageStream, likely_channels, read_probe};

use super::args::{Raw, VoltagePart};
use crate::report;

/// Distance of channels without positions, in micrometres: each is sorted by itself.
const APART_UM: f32 = 1000.0;
/// Value of `--probe` that sorts each channel by itself.
const NO_PROBE: &str = "none";

/// Facts about the voltage that are known before a sample is read.
pub(super) struct Info {
    /// The stream that was chosen.
    pub(super) stream: VoltageStream,
    /// File of the samples.
    pub(super) path: PathBuf,
    /// Samples per second of each channel.
    pub(super) rate_hz: f64,
    /// Samples of a row.
    pub(super) channels: usize,
    /// Microvolts a bit.
    pub(super) microvolts: f64,
    /// True if a header describes the channels.
    described: bool,
}

/// Location of the samples.
pub(super) enum Source {
    /// In a file of nothing else.
    Flat,
    /// In a series of an NWB file.
    Series(Box<ElectricalSeries>),
}

/// The stream that was chosen, and its series if it lies in an NWB file, which stays open.
struct StreamChoice {
    stream: VoltageStream,
    series: Option<Box<ElectricalSeries>>,
}

impl StreamChoice {
    /// Chooses a stream of the file's header; `None` without a header.
    fn of(args: &Raw) -> Result<Option<Self>> {
        let wanted = args.part.stream.as_deref();
        if is_hdf5(&args.raw) {
            let series = ElectricalSeries::open(&args.raw, wanted).map_err(|e| match e.kind() {
                ErrorKind::InvalidArgument if wanted.is_none() => {
                    let words = format!("{}; --stream takes its name or its path", e.message());
                    e.in_words(words)
                }
                _ => e,
            })?;
            return Ok(Some(Self {
                stream: VoltageStream::of_series(&args.raw, &series),
                series: Some(Box::new(series)),
            }));
        }
        match (VoltageRecording::read(&args.raw)?, wanted) {
            (Some(recording), _) => Ok(Some(Self {
                stream: recording.stream(wanted)?.clone(),
                series: None,
            })),
            (None, Some(name)) => Err(Error::argument(format!(
                "--stream {name}: expected an NWB file, or a header of SpikeGLX or Open Ephys, got {}",
                args.raw.display()
            ))),
            (None, None) => Ok(None),
        }
    }
}

/// True if the file at `path` or a header beside it describes the samples.
pub(super) fn has_header(path: &Path) -> Result<bool> {
    Ok(is_hdf5(path) || VoltageRecording::read(path)?.is_some())
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
    fn of(args: &Raw, chosen: Option<&StreamChoice>) -> Result<Self> {
        let raw = args.raw.display();
        let (who, lack) = match chosen {
            Some(chosen) if chosen.series.is_some() => ("the file", format!("{raw} does not say")),
            Some(_) => (
                "the header beside the samples",
                format!("the header of {raw} does not say"),
            ),
            None => (
                "the header beside the samples",
                format!("{raw} has no header"),
            ),
        };
        let stream = chosen.map(|chosen| &chosen.stream);
        Ok(Self {
            who,
            lack,
            rate_hz: stream.map(|s| s.rate_hz),
            channels: stream.map(|s| s.row_channels),
            microvolts: stream.map_or(Ok(None), VoltageStream::microvolts)?,
        })
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
        // A file that is missing has no header either: that is not what to name.
        std::fs::metadata(&args.raw).map_err(|e| Error::io("reading", &args.raw, &e))?;
        let chosen = StreamChoice::of(args)?;
        let said = Header::of(args, chosen.as_ref())?;
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
        let described = chosen.is_some();
        let (stream, source) = match chosen {
            Some(StreamChoice {
                stream,
                series: Some(series),
            }) => (stream, Source::Series(series)),
            Some(chosen) => (chosen.stream, Source::Flat),
            None => (
                VoltageStream::flat(&args.raw, rate_hz, channels, microvolts)?,
                Source::Flat,
            ),
        };
        let info = Self {
            path: stream.path().to_owned(),
            stream,
            rate_hz,
            channels,
            microvolts,
            described,
        };
        if let Some(sorter) = sorter {
            info.same(sorter)?;
        }
        for note in &info.stream.notes {
            report::remark(format!("{}: {note}", args.raw.display()));
        }
        Ok((info, source))
    }

    /// Position of each channel of a row: those of `probe`, else those of the header.
    pub(super) fn places(&self, probe: Option<&Path>) -> Result<Vec<Option<[f32; 2]>>> {
        let alone = probe.is_some_and(|probe| probe.as_os_str() == NO_PROBE);
        if let Some(probe) = probe.filter(|_| !alone) {
            let places = read_probe(probe, self.channels)?;
            return Ok(places);
        }
        if let Some(places) = self.stream.places().filter(|_| !alone) {
            return Ok(places);
        }
        let electrodes = self.stream.channels.iter().filter(|c| c.used);
        let electrodes: Vec<usize> = electrodes.map(|c| c.column).collect();
        let headed = self.described && self.stream.flat_offset().is_some();
        if headed && !alone && electrodes.len() > 1 {
            return Err(Error::argument(format!(
                "--probe: expected a file with the positions of the {} electrodes of {}, because the header does not give them; --probe none sorts each by itself",
                electrodes.len(),
                self.stream.name
            )));
        }
        if !alone && electrodes.len() > 1 {
            report::remark(format!(
                "{}: positions of the {} are unknown: each is sorted by itself; --probe FILE gives them",
                self.path.display(),
                count(electrodes.len() as u128, "channel")
            ));
        }
        let mut places = vec![None; self.channels];
        for column in electrodes {
            places[column] = Some([column as f32 * APART_UM, 0.0]);
        }
        Ok(places)
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
    pub(super) fn open(
        self,
        info: &Info,
        part: &VoltagePart,
    ) -> Result<(Box<dyn Voltage>, Range<u64>)> {
        let mut voltage: Box<dyn Voltage> = match self {
            Self::Series(series) => series,
            Self::Flat => info.stream.open(part.truncate)?,
        };
        if let Some(likely) = likely_channels(voltage.as_mut())? {
            report::remark(format!(
                "{}: {} given, but samples repeat as those of {} do: check --channels",
                info.path.display(),
                count(info.channels as u128, "channel"),
                count(likely as u128, "channel")
            ));
        }
        let (rows, length) = (voltage.rows(), info.stream.length());
        let row = |option: &str, seconds: f64| {
            if !(seconds.is_finite() && seconds >= 0.0) {
                return Err(Error::argument(format!(
                    "{option}: expected seconds, 0 or more, got {seconds}"
                )));
            }
            let at = (seconds * info.rate_hz).round().min(length as f64) as u64;
            Ok(info.stream.row_at(at).min(rows))
        };
        let from = row("--from", part.from)?;
        let until = match part.until {
            Some(seconds) => row("--until", seconds)?,
            None => rows,
        };
        if from >= until {
            return Err(Error::argument(format!(
                "--from, --until: expected some of the {:.3} s, got none",
                length as f64 / info.rate_hz
            )));
        }
        Ok((voltage, from..until))
    }
}
