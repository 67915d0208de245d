//! The folder of a recording: plan, model, facts of the source.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use betz_base::{Error, Result};
use betz_rigs::rig::Signal;
use betz_runtime::model::Decoder;
use serde::{Deserialize, Serialize};

use super::reader::segments;
use super::segments::give_back_room;
use super::writer::{Continuation, RecorderRing};
use super::{Reader, Record, Recorder, RecorderOptions};
use crate::plan::{At, Feature, OnFull, Plan};
use crate::scheduling::ThreadPlace;

/// The plan as it was used, and the model, in a recording's folder.
const PLAN: &str = "resolved.toml";
const MODEL: &str = "model.betz";
const SORTER: &str = "sorter.betz";
/// Locked while a session that is kept records.
const LOCK: &str = "lock";
/// Beginning of a folder's name.
const PREFIX: &str = "run-";
/// Seconds of data that the ring holds while the disk is slow, and its bounds in bytes.
const RING_SECONDS: f64 = 4.0;
const RING: (usize, usize) = (4 << 20, 256 << 20);

/// Versions of the format: the second has several sources.
pub(crate) const VERSIONS: [u32; 2] = [1, 2];

/// Facts of a session, and of a source, that its replay needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Version of the format.
    pub version: u32,
    /// Channels of a row.
    pub channels: usize,
    /// Rows per second.
    pub rate: f64,
    /// Microvolts per bit.
    pub microvolts: Option<f64>,
    /// True for voltage; false for features and spikes.
    pub voltage: bool,
    /// Noise of each channel at the start, if it was known.
    pub noise: Option<Vec<f32>>,
    /// Start of the session in seconds since 1970.
    pub unix_seconds: f64,
}

/// Bytes of the ring of a recorder that begins with a source of so many channels and rows per second.
pub(crate) fn ring_bytes(channels: usize, rate: f64) -> usize {
    let bytes = channels as f64 * rate * 2.0 * RING_SECONDS;
    (bytes as usize).clamp(RING.0, RING.1)
}

impl Facts {
    /// The facts as JSON.
    ///
    /// # Errors
    /// `Internal` if they cannot be written.
    pub(crate) fn to_json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|e| Error::new(betz_base::ErrorKind::Internal, format!("writing JSON: {e}")))
    }

    /// The facts that a recording has as JSON.
    ///
    /// # Errors
    /// `InvalidRecording` for other text, and for another version of the format.
    pub fn from_json(json: &str) -> Result<Self> {
        let refuse = |got: String| {
            Error::recording(format!(
                "recording: expected the facts of a source, got {got}"
            ))
        };
        let facts: Self = serde_json::from_str(json).map_err(|e| refuse(e.to_string()))?;
        match VERSIONS.contains(&facts.version) {
            true => Ok(facts),
            false => Err(refuse(format!("version {} of the format", facts.version))),
        }
    }

    /// The signal.
    pub fn signal(&self) -> Signal {
        Signal {
            channels: self.channels,
            rate: self.rate,
            microvolts: self.microvolts,
            clock_bits: 64,
        }
    }
}

/// The recorder's settings.
fn options(plan: &Plan, facts: &Facts) -> RecorderOptions {
    let of = plan.record.as_ref();
    RecorderOptions {
        ring: ring_bytes(facts.channels, facts.rate),
        segment: of.map_or(1024, |r| r.segment_mib) << 20,
        on_full: of.map_or(OnFull::StopRecording, |r| r.on_full),
        reserve: of.map_or(0, |r| r.reserve_mib) << 20,
        place: ThreadPlace::of_recorder(plan),
    }
}

/// Makes the folder of a session in `to`, and starts its recorder.
///
/// # Errors
/// `Io` if the folder cannot be made or written.
pub fn start(
    to: &Path,
    plan: &Plan,
    model: &Decoder,
    facts: &Facts,
    host_ns: i64,
) -> Result<Recorder> {
    start_with(to, plan, model, facts, (host_ns, None))
}

/// As [`start`], with the host's time and a ring that was made before.
///
/// # Errors
/// As [`start`].
pub(crate) fn start_with(
    to: &Path,
    plan: &Plan,
    model: &Decoder,
    facts: &Facts,
    (host_ns, ring): (i64, Option<RecorderRing>),
) -> Result<Recorder> {
    let folder = create(to)?;
    model.save(&folder.join(MODEL))?;
    if plan.voltage.sorter.is_some() {
        plan.load_sorter()?.save(&folder.join(SORTER))?;
    }
    let resolved = plan.with_files(MODEL, SORTER).resolved()?;
    betz_base::file::write_atomically(&folder.join(PLAN), |out| {
        out.write_all(resolved.as_bytes())
    })?;
    let (options, from) = (options(plan, facts), Continuation::default());
    let mut recorder = Recorder::open(&folder, &options, from, ring)?;
    recorder.configuration(0, &facts.to_json()?, host_ns);
    Ok(recorder)
}

/// Goes on with the recording in `folder`.
///
/// # Errors
/// `Io` if the next segment cannot be made.
pub(crate) fn go_on(
    folder: &Path,
    plan: &Plan,
    facts: &Facts,
    from: Continuation,
    ring: Option<RecorderRing>,
) -> Result<Recorder> {
    if let Some(last) = segments(folder)?.pop() {
        give_back_room(&last);
    }
    Recorder::open(folder, &options(plan, facts), from, ring)
}

/// Locks a recording for this process, until the file is dropped; `None` if another process has it. File systems without
/// locks refuse nobody.
///
/// # Errors
/// `Io` if the folder cannot be written.
pub(crate) fn lock(folder: &Path) -> Result<Option<File>> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(|e| Error::io("creating", &path, &e))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(None),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(file)),
    }
}

/// The newest recording in `to`, by its name.
///
/// # Errors
/// `Io` if the folder cannot be read.
pub(crate) fn newest(to: &Path) -> Result<Option<PathBuf>> {
    let entries = match std::fs::read_dir(to) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("reading", to, &e)),
    };
    let mut newest: Option<((String, usize), PathBuf)> = None;
    for entry in entries {
        let path = entry.map_err(|e| Error::io("reading", to, &e))?.path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
            continue;
        };
        // A second folder of a second has a number behind its name.
        let stem = name.get(..PREFIX.len() + 15).unwrap_or(name).to_owned();
        if !name.starts_with(PREFIX) || !path.is_dir() {
            continue;
        }
        let number = name.get(stem.len() + 1..).and_then(|n| n.parse().ok());
        let order = (stem, number.unwrap_or(0_usize));
        if newest.as_ref().is_none_or(|(best, _)| *best < order) {
            newest = Some((order, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// Time at which the recording in `folder` was last written; `None` if the system does not tell.
pub(crate) fn last_written(folder: &Path) -> Option<SystemTime> {
    let last = segments(folder).ok()?.pop()?;
    std::fs::metadata(last).ok()?.modified().ok()
}

/// Number of the segment after the last one.
///
/// # Errors
/// As [`Reader::open`]; `InvalidRecording` if the last segment's name is no number.
pub(crate) fn next_segment(folder: &Path) -> Result<u64> {
    let last = segments(folder)?.pop().unwrap_or_default();
    let number =
        (last.file_stem().and_then(|stem| stem.to_str())).and_then(|stem| stem.parse::<u64>().ok());
    number.map(|n| n + 1).ok_or_else(|| {
        Error::recording(format!(
            "expected a segment with a number as its name, got {}",
            last.display()
        ))
    })
}

/// True if a session of this plan, model and sorter made the folder.
///
/// # Errors
/// The errors of writing them.
pub(crate) fn is_of(folder: &Path, plan: &Plan, model: &Decoder) -> Result<bool> {
    let read = |name| std::fs::read(folder.join(name)).ok();
    let sorter = match plan.voltage.sorter {
        Some(_) => Some(plan.load_sorter()?.to_bytes()),
        None => None,
    };
    Ok(
        read(PLAN) == Some(plan.with_files(MODEL, SORTER).resolved()?.into_bytes())
            && read(MODEL) == Some(model.to_bytes()?)
            && read(SORTER) == sorter,
    )
}

/// A new folder in `to`, named by the time of day; with a number behind it if there is one of that second.
fn create(to: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(to).map_err(|e| Error::io("creating", to, &e))?;
    let name = format!("{PREFIX}{}", timestamp(unix_seconds() as u64));
    for attempt in 0..1000 {
        let path = match attempt {
            0 => to.join(&name),
            n => to.join(format!("{name}-{n}")),
        };
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Error::io("creating", &path, &e)),
        }
    }
    Err(Error::argument(format!(
        "{}: expected a free name for a folder, got a thousand folders of this second",
        to.join(name).display()
    )))
}

/// Refuses a place in which [`start`] could make no folder. A folder is made there and taken away.
///
/// # Errors
/// `Io`.
pub(crate) fn check_place(to: &Path) -> Result<()> {
    let existing = (to.ancestors())
        .find(|place| place.exists())
        .unwrap_or(Path::new(""));
    let probe = existing.join(format!(".betz-check-{}", std::process::id()));
    std::fs::create_dir(&probe)
        .and_then(|()| std::fs::remove_dir(&probe))
        .map_err(|e| Error::io("creating a folder in", existing, &e))
}

/// Bytes that are free where `to` is, or will be; `None` if the system does not tell.
#[cfg(unix)]
pub(crate) fn free_bytes(to: &Path) -> Option<u64> {
    // A relative path ends with the empty one, which stands for the current folder.
    let existing = (to.ancestors()).find(|place| place.as_os_str().is_empty() || place.exists())?;
    let existing = match existing.as_os_str().is_empty() {
        true => Path::new("."),
        false => existing,
    };
    let disk = rustix::fs::statvfs(existing).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

/// As on other systems: bytes that this user may still write.
#[cfg(windows)]
#[allow(unsafe_code)]
pub(crate) fn free_bytes(to: &Path) -> Option<u64> {
    use std::os::windows::ffi::OsStrExt;
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetDiskFreeSpaceExW(
            folder: *const u16,
            free_to_caller: *mut u64,
            bytes: *mut u64,
            free: *mut u64,
        ) -> i32;
    }
    let existing = (to.ancestors()).find(|place| place.as_os_str().is_empty() || place.is_dir())?;
    let existing = match existing.as_os_str().is_empty() {
        true => Path::new("."),
        false => existing,
    };
    let name: Vec<u16> = existing.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    let (bytes, all_free) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the name ends with 0, and what is not wanted may be NULL.
    let done = unsafe { GetDiskFreeSpaceExW(name.as_ptr(), &raw mut free, bytes, all_free) };
    (done != 0).then_some(free)
}

#[cfg(not(any(unix, windows)))]
pub(crate) fn free_bytes(_: &Path) -> Option<u64> {
    None
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> f64 {
    (SystemTime::now().duration_since(UNIX_EPOCH)).map_or(0.0, |d| d.as_secs_f64())
}

/// `YYYYMMDD-HHMMSS` in UTC.
fn timestamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days to a date of the Gregorian calendar, in eras of 400 years from 1 March 0000.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}{month:02}{date:02}-{:02}{:02}{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// A recording that is open: its plan, model and facts, and the reader behind them.
pub struct Recording {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// The plan as it was used.
    pub plan: Plan,
    /// The model of the start.
    pub model: Decoder,
    /// Facts of the source.
    pub facts: Facts,
    /// The rest of the recording.
    pub reader: Reader,
    /// Labels that [`bin_recording`](crate::bin_recording) has read, by their steps; the last one of a step counts.
    pub labels: BTreeMap<u64, Vec<f32>>,
}

impl Recording {
    /// Opens the recording in `folder`.
    ///
    /// # Errors
    /// `Io`; `InvalidRecording` if its first frame is not whole; the errors of the plan and the model.
    pub fn open(folder: &Path) -> Result<Self> {
        // Another folder than a recording's has no segments: that is told, rather than that it has no plan.
        let mut reader = Reader::open(folder)?;
        let plan = Plan::read(&folder.join(PLAN), &[])?;
        let model = plan.load_model()?;
        let refuse = |got: String| {
            Error::recording(format!(
                "{}: expected a recording that begins with the session's facts, got {got}",
                folder.display()
            ))
        };
        let facts = match reader.next_record()? {
            Some(Record::Configuration(0, json)) => {
                Facts::from_json(&json).map_err(|e| refuse(e.message().into()))?
            }
            Some(_) => return Err(refuse("another frame".into())),
            None => return Err(refuse("no whole frame".into())),
        };
        Ok(Self {
            folder: folder.to_owned(),
            plan,
            model,
            facts,
            reader,
            labels: BTreeMap::new(),
        })
    }

    /// Changes the front end that [`bin_recording`](crate::bin_recording) runs over the recorded voltage, by keys of `[voltage]`
    /// such as `voltage.threshold=-4`. The recorded noise is used if it is of the same filter, reference and rule of crossings;
    /// otherwise it is measured again.
    ///
    /// # Errors
    /// `InvalidArgument` for other keys, for values that the plan refuses, and for a recording without voltage.
    pub fn change_front_end(&mut self, changes: &[String]) -> Result<()> {
        for change in changes {
            if !change.trim_start().starts_with("voltage.") {
                return Err(Error::argument(format!(
                    "--set {change}: expected a key of [voltage], such as voltage.threshold=-4, because the rest of a session has been recorded"
                )));
            }
        }
        if !self.facts.voltage {
            return Err(Error::argument(format!(
                "{}: expected recorded voltage to run another front end over, got a recording of features or spikes",
                self.folder.display()
            )));
        }
        let plan = self.plan.with_front_end(changes)?;
        let (before, now) = (&self.plan.voltage, &plan.voltage);
        let is_same = now.feature == Feature::Crossings
            && before.feature == Feature::Crossings
            && now.at == At::Once
            && (now.band, now.reference) == (before.band, before.reference);
        if !is_same {
            self.facts.noise = None;
        }
        self.plan = plan;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_named_by_their_date() {
        for (seconds, name) in [
            (0, "19700101-000000"),
            (951_782_400, "20000229-000000"),
            (1_795_600_000, "20261125-094640"),
            (4_107_542_399, "21000228-235959"),
            (4_107_542_400, "21000301-000000"),
        ] {
            assert_eq!(super::timestamp(seconds), name);
        }
    }
}
