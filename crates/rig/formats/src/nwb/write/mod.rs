//! Recordings as NWB files; what becomes of what is in `docs/connect.md`.

mod lines;
mod live;
mod series;
mod source;
mod tables;
mod units;
mod voltage;

use std::path::Path;

use betz_base::error::{Error, Result};
use betz_base::file::create_atomically;
use betz_base::hash::Fnv1a;
use betz_recording::{OutputInfo, Recording, Stretches};

use super::LONGEST_SECONDS;
use super::hdf5_write::{CORE, NewFile, Value};
use super::own::{self, Own};
use super::session::{Moment, Session};
pub use lines::LineUse;
pub use live::{
    ReadRows, SeriesKind, SessionElectrodes, SessionParts, SessionSeries, SessionTrial,
    SessionUnit, TakeRows,
};
use source::{InStretches, Source, Whole};
pub use voltage::{WrittenVoltage, write_voltage};

/// The version of NWB that is written.
const VERSION: &str = "2.8.0";
/// Memory that writing takes unless it is told otherwise.
const MEMORY: u64 = 256 << 20;

/// Options for writing a recording as NWB.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOptions {
    /// The session that the file tells of.
    pub session: Session,
    /// Creation time in the file. With the same time, equal recordings give equal bytes.
    pub created: Moment,
    /// Decoded movement, to stand beside the recording.
    pub decoded: Option<DecodedOutputs>,
    /// About how many bytes of memory are used beside the recording's own.
    pub memory: u64,
}

impl WriteOptions {
    /// A file of `session`, made now.
    pub fn new(session: Session) -> Self {
        Self {
            session,
            created: Moment::now(),
            decoded: None,
            memory: MEMORY,
        }
    }
}

/// Outputs of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedOutputs {
    /// Name and description of the model that decoded them.
    pub by: String,
    /// One entry per output.
    pub outputs: Vec<OutputInfo>,
    /// Time of each estimate in seconds, ascending.
    pub times: Vec<f64>,
    /// Estimates, row-major (times, outputs).
    pub values: Vec<f32>,
}

/// Writes `recording` to `path` as an NWB 2 file, which appears whole or not at all.
///
/// [`read`](super::read) gives it back as it was, but for the order of spikes in one tick: they come back by channel.
/// Takes, beside the recording, the memory of `options`; with less, the recording is gone through more often.
///
/// # Errors
/// The errors of [`Recording::check`]. [`ErrorKind::InvalidRecording`] for more than 10⁸ s, more than 65,535 spikes in
/// a bin, or text with a NUL in it. [`ErrorKind::InvalidArgument`] for a session that begins after the file is made,
/// and for decoded outputs that are not finite or have the wrong length. [`ErrorKind::Io`] if the file cannot be
/// written.
///
/// [`ErrorKind::InvalidRecording`]: betz_base::ErrorKind::InvalidRecording
/// [`ErrorKind::InvalidArgument`]: betz_base::ErrorKind::InvalidArgument
/// [`ErrorKind::Io`]: betz_base::ErrorKind::Io
///
/// ```
/// use betz_formats::nwb::{self, Moment, Session, WriteOptions};
/// # let recording = betz_recording::Recording {
/// #     tick_seconds: 0.001,
/// #     ticks: 2_000,
/// #     spikes: betz_recording::Spikes::new(vec![10, 10, 1_500], vec![0, 1, 0]),
/// #     channel_names: vec!["left".into(), "right".into()],
/// #     behavior: None,
/// #     segments: vec![betz_recording::Segment { start: 0, stop: 2_000 }],
/// #     electrode_um: None,
/// #     form: betz_recording::SpikeForm::Events,
/// #     meta: None,
/// # };
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("session.nwb");
/// let session = Session::begun(Moment::parse("2020-10-19T13:00:00+01:00")?);
/// nwb::write(&recording, &path, &WriteOptions::new(session))?;
/// assert_eq!(nwb::read(&path, &Default::default())?.0, recording);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(recording: &Recording, path: &Path, options: &WriteOptions) -> Result<()> {
    write_session(recording, path, options, &mut SessionParts::default())
}

/// [`write()`] with the parts that a session adds to its recording.
///
/// # Errors
/// As [`write()`]; `Mismatch` for voltage of another number of channels than the recording's, which needs counts or a
/// signal; those of reading the voltage.
pub fn write_session(
    recording: &Recording,
    path: &Path,
    options: &WriteOptions,
    parts: &mut SessionParts<'_>,
) -> Result<()> {
    recording.check()?;
    file(&mut Whole(recording), path, options, parts)
}

/// [`write()`] for a recording that is read in stretches: it need not fit in memory. Goes through it three times or
/// more.
///
/// # Errors
/// As [`write()`], and those of reading.
pub fn write_stretches(
    stretches: &mut Stretches,
    path: &Path,
    options: &WriteOptions,
) -> Result<()> {
    // An entry takes up to 16 bytes, and a stretch has half of the memory.
    let mut source = InStretches::new(stretches, (options.memory / 32).max(1))?;
    file(&mut source, path, options, &mut SessionParts::default())
}

fn file(
    source: &mut dyn Source,
    path: &Path,
    options: &WriteOptions,
    parts: &mut SessionParts<'_>,
) -> Result<()> {
    check(source.outline())?;
    if let Some(decoded) = &options.decoded {
        decoded.check()?;
    }
    begins_before_it_is_made(options)?;
    let mut survey = source::survey(source)?;
    if let Some(decoded) = &options.decoded {
        survey.hash = decoded.hash(survey.hash);
    }
    let fill = |file: &NewFile| {
        root(file, &options.session, &options.created, survey.hash)?;
        // A spike's time takes 8 bytes.
        units::write(
            file,
            source,
            &survey,
            options.memory / 16,
            &parts.electrodes,
        )?;
        let series = series::behavior(file, source, &survey)?;
        let outline = source.outline();
        let segments = match parts.trials.is_empty() {
            true => "trials",
            false => "segments",
        };
        tables::trials(file, outline, segments)?;
        let more: usize = parts.electrodes.iter().map(|of| of.channels).sum();
        live::write(file, parts, outline.channels() + more)?;
        if let Some(decoded) = &options.decoded {
            series::decoded(file, decoded)?;
            live::write_status(file, &parts.status)?;
        }
        if let Some(meta) = &outline.meta {
            file.text("/general/notes", meta)?;
        }
        let own = Own {
            form: outline.form,
            tick_seconds: outline.tick_seconds,
            ticks: outline.ticks,
            places: outline.electrode_um.is_some(),
            meta: outline.meta.is_some(),
            timed: survey.timed,
            segments: segments.to_owned(),
            series,
        };
        file.group("/scratch")?;
        file.text(&format!("/{}", own::PATH), &own.text())?
            .of(CORE, "ScratchData")?
            .with("notes", Value::Text(own::NOTES))
            .map(drop)
    };
    create_atomically(path, |name| {
        NewFile::create(name, survey.hash, fill).map_err(|e| e.at(path.display()))
    })
}

fn begins_before_it_is_made(options: &WriteOptions) -> Result<()> {
    let start = &options.session.start;
    if start.seconds() > options.created.seconds() {
        return Err(Error::argument(format!(
            "session: expected a start before the file is made ({}), got {}",
            options.created.text(),
            start.text()
        )));
    }
    Ok(())
}

/// The parts of every NWB file.
fn root(file: &NewFile, session: &Session, created: &Moment, hash: u64) -> Result<()> {
    file.mark("/", CORE, "NWBFile")?;
    file.said("/", "nwb_version", VERSION)?;
    let identifier = match session.identifier.as_str() {
        "" => format!("betz-{hash:016x}"),
        given => given.to_owned(),
    };
    let zero = session.zero.as_ref().unwrap_or(&session.start);
    for (name, text) in [
        ("/identifier", identifier.as_str()),
        ("/session_description", &session.description),
        ("/session_start_time", session.start.text()),
        ("/timestamps_reference_time", zero.text()),
    ] {
        file.text(name, text)?;
    }
    file.texts("/file_create_date", &[created.text()])?;
    for group in [
        "/acquisition",
        "/analysis",
        "/general",
        "/processing",
        "/stimulus",
        "/stimulus/presentation",
        "/stimulus/templates",
        "/general/subject",
    ] {
        file.group(group)?;
    }
    let betz = concat!("Betz ", env!("CARGO_PKG_VERSION"));
    file.text("/general/source_script", betz)?
        .with("file_name", Value::Text("betz"))?;
    file.mark("/general/subject", CORE, "Subject")?;
    let subject = &session.subject;
    for (name, text) in [
        ("subject_id", &subject.id),
        ("species", &subject.species),
        ("sex", &subject.sex),
        ("age", &subject.age),
    ] {
        if !text.is_empty() {
            let written = file.text(&format!("/general/subject/{name}"), text)?;
            if name == "age" {
                written.with("reference", Value::Text("birth"))?;
            }
        }
    }
    Ok(())
}

/// Refuses what NWB, or HDF5, has no way to say.
fn check(outline: &Recording) -> Result<()> {
    let seconds = outline.seconds();
    if seconds > LONGEST_SECONDS {
        return Err(Error::recording(format!(
            "expected at most {LONGEST_SECONDS:e} s, got {seconds} s"
        )));
    }
    let outputs = outline.behavior.iter().flat_map(|b| &b.outputs);
    let of_outputs = outputs.flat_map(|o| [&o.name, &o.unit]);
    let texts = (outline.channel_names.iter().chain(of_outputs)).chain(&outline.meta);
    for text in texts {
        if text.contains('\0') {
            return Err(Error::recording(format!(
                "names and meta: expected text without NUL, got {text:?}"
            )));
        }
    }
    Ok(())
}

impl DecodedOutputs {
    /// A hash of a recording with what was decoded of it.
    fn hash(&self, recording: u64) -> u64 {
        let mut hash = Fnv1a::new();
        hash.word(recording);
        hash.bytes(self.by.as_bytes());
        self.times.iter().for_each(|time| hash.number(*time));
        self.values.iter().for_each(|v| hash.number(f64::from(*v)));
        hash.finish()
    }

    fn check(&self) -> Result<()> {
        let expected = self.times.len() * self.outputs.len();
        if self.outputs.is_empty() || self.times.is_empty() || self.values.len() != expected {
            return Err(Error::argument(format!(
                "decoded: expected an estimate at least, {} outputs at each of {} times, got {} values",
                self.outputs.len(),
                self.times.len(),
                self.values.len()
            )));
        }
        if let Some(i) = self.values.iter().position(|v| !v.is_finite()) {
            let (row, output) = (i / self.outputs.len(), i % self.outputs.len());
            return Err(Error::argument(format!(
                "decoded: [{row}, {output}] (`{}`) = {}: expected a finite value",
                self.outputs[output].name, self.values[i]
            ))
            .with_position(i));
        }
        Ok(())
    }
}

/// A recording's clock in seconds.
struct Clock {
    tick_seconds: f64,
    /// Ticks per second, where they are a whole number: dividing by it gives times as they are written down.
    rate: Option<f64>,
}

impl Clock {
    fn new(tick_seconds: f64) -> Self {
        let rate = (1.0 / tick_seconds).round();
        Self {
            tick_seconds,
            rate: (rate >= 1.0 && 1.0 / rate == tick_seconds).then_some(rate),
        }
    }

    fn seconds(&self, tick: i64) -> f64 {
        match self.rate {
            Some(rate) => tick as f64 / rate,
            None => tick as f64 * self.tick_seconds,
        }
    }
}
