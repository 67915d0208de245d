//! Reads a `.npz` archive into a [`Recording`].

use std::io::Read;
use std::path::Path;

use super::archive::{Archive, expect_dims};
use super::header::Header;
use super::npy;
use super::number::{Element, Number};
use crate::check::{MAX_SPIKES, MAX_TICKS, too_many_spikes};
use crate::{Behavior, OutputInfo, Recording, Segment, SpikeForm, Spikes};
use betz_base::error::{Error, Result};
use betz_base::memory;

impl Recording {
    /// Reads and checks the recording in the `.npz` archive at `path` (see the schema in the
    /// [`recording`](crate) module's documentation).
    ///
    /// Memory: 12 bytes per spike, 16 per nonempty bin or per sample of a signal, 4 per behaviour value. A matrix is
    /// never held whole unless it is in Fortran order.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::error::ErrorKind::Io) if the file cannot be opened or is a folder;
    /// [`ErrorKind::InvalidRecording`](betz_base::error::ErrorKind::InvalidRecording) if the archive is damaged or
    /// breaks the schema, with file, array and position;
    /// [`ErrorKind::InsufficientData`](betz_base::error::ErrorKind::InsufficientData) if it has no channel or no time.
    pub fn read_npz(path: &Path) -> Result<Self> {
        Archive::open(path)
            .and_then(|mut archive| read(&mut archive))
            .map_err(|e| {
                let named = e.message().contains(&*path.to_string_lossy());
                if named { e } else { e.at(path.display()) }
            })
    }

    /// Reads the free text of the archive at `path` ([`Recording::meta`]) without the rest.
    ///
    /// # Errors
    /// The errors of [`Recording::read_npz`] that concern this text.
    pub fn read_meta(path: &Path) -> Result<Option<String>> {
        Archive::open(path)
            .and_then(|mut archive| archive.read_strings("meta", 0))
            .map(|meta| meta.and_then(|mut m| m.pop()))
            .map_err(|e| e.at(path.display()))
    }
}

fn read(archive: &mut Archive) -> Result<Recording> {
    let form = form_of(archive)?;
    let behavior = read_behavior(archive)?;
    let segments = read_segments(archive)?;
    let names_given = archive.read_strings("channel_names", 1)?;
    let electrode_um = read_electrodes(archive)?;
    let tick_seconds = tick_seconds(archive, form)?;
    let (spikes, ticks, width) = match form {
        SpikeForm::Counts => {
            let (spikes, bins, channels) = read_matrix(archive, "counts")?;
            (spikes, bins, Some(channels))
        }
        SpikeForm::Signal => {
            let (values, samples, channels) = read_matrix(archive, "signal")?;
            (values, samples, Some(channels))
        }
        SpikeForm::Events => {
            let spikes = read_events(archive)?;
            let duration = archive.read_scalar::<i64>("duration_ticks")?;
            let ticks = match duration {
                Some(ticks) => ticks,
                None => last_tick(
                    spikes.ticks.iter().max().copied(),
                    behavior.as_ref().map(|b| {
                        let last = |times: &Vec<f64>| times.last().copied().unwrap_or(0.0);
                        (b.samples() as u64, b.times.as_ref().map(last))
                    }),
                    segments.as_deref(),
                    tick_seconds,
                )?,
            };
            (spikes, ticks, None)
        }
    };
    let most = spikes.channels.iter().max().copied();
    let recording = Recording {
        tick_seconds,
        ticks,
        channel_names: names(names_given, width, electrode_um.as_deref(), most)?,
        spikes,
        behavior,
        segments: segments.unwrap_or_else(|| {
            vec![Segment {
                start: 0,
                stop: ticks,
            }]
        }),
        electrode_um,
        form,
        meta: archive.read_strings("meta", 0)?.and_then(|mut m| m.pop()),
    };
    recording.check()?;
    Ok(recording)
}

/// Form in which the archive stores spikes.
pub(super) fn form_of(archive: &Archive) -> Result<SpikeForm> {
    let forms = [
        ("counts", SpikeForm::Counts),
        ("spike_ticks", SpikeForm::Events),
        ("signal", SpikeForm::Signal),
    ];
    let mut found = forms.into_iter().filter(|(array, _)| archive.has(array));
    match (found.next(), found.next()) {
        (Some((_, form)), None) => Ok(form),
        (Some((one, _)), Some((other, _))) => Err(Error::recording(format!(
            "expected one of `counts`, `spike_ticks` and `signal`, got both arrays `{one}` and `{other}`"
        ))),
        _ => Err(Error::recording(
            "expected an array `counts` (u8 or u16), `spike_ticks` (i64) or `signal` (f32), got none of these; docs/recordings.md lists the arrays of a recording",
        )),
    }
}

/// Length of a tick, a bin or a sample, in seconds.
pub(super) fn tick_seconds(archive: &mut Archive, form: SpikeForm) -> Result<f64> {
    let arrays: &[&str] = match form {
        SpikeForm::Counts => &["step_seconds"],
        SpikeForm::Signal => &["sample_seconds", "step_seconds"],
        SpikeForm::Events => &["tick_seconds"],
    };
    for array in arrays {
        if let Some(seconds) = archive.read_scalar(array)? {
            return Ok(seconds);
        }
    }
    require(None, arrays[0], "f64")
}

/// Names of the channels: `given`, or generated ones. Their number is then the width of the matrix, the number of
/// electrodes, or the greatest channel number of a spike plus one.
pub(super) fn names(
    given: Option<Vec<String>>,
    width: Option<usize>,
    electrodes: Option<&[[f32; 2]]>,
    most: Option<u32>,
) -> Result<Vec<String>> {
    let channels = match (width, &given, electrodes) {
        (Some(c), ..) => c,
        (None, Some(names), _) => names.len(),
        (None, None, Some(places)) => places.len(),
        (None, None, None) => most.map_or(0, |c| c as usize + 1),
    };
    let channel_names = match given {
        Some(names) => names,
        // A channel number in a file cannot be trusted: one spike could ask for 2^32 names.
        None if channels > 1 << 24 => {
            return Err(Error::recording(format!(
                "array `spike_channels`: expected an array `channel_names` with the names of {channels} channels"
            )));
        }
        None => {
            // Memory of the names, and of the table that finds repeated ones.
            memory::plan("names of the channels", channels as u128 * 80)?;
            crate::channels::invented_names(channels)
        }
    };
    if channel_names.len() != channels {
        return Err(Error::recording(format!(
            "array `channel_names`: expected {channels} names, one per channel, got {}",
            channel_names.len()
        )));
    }
    Ok(channel_names)
}

fn require<T>(value: Option<T>, array: &str, what: &str) -> Result<T> {
    value.ok_or_else(|| Error::recording(format!("expected an array `{array}` ({what}), got none")))
}

fn read_events(archive: &mut Archive) -> Result<Spikes> {
    let (_, ticks) = require(archive.read::<i64>("spike_ticks", 1)?, "spike_ticks", "i64")?;
    let channels = archive.read::<u32>("spike_channels", 1)?;
    let (_, channels) = require(channels, "spike_channels", "u16 or u32")?;
    Ok(Spikes::new(ticks, channels))
}

/// Reads a matrix of counts or of a signal; returns its entries in (bin, channel) order, and the numbers of bins and
/// channels.
fn read_matrix(archive: &mut Archive, array: &str) -> Result<(Spikes, i64, usize)> {
    let signal = array == "signal";
    let read = archive.with(array, |header, data, likely| {
        expect_dims(header, 2)?;
        match header.descr.as_str() {
            _ if signal => entries_of::<f32>(header, data, likely),
            u8::DESCR => entries_of::<u8>(header, data, likely),
            _ => entries_of::<u16>(header, data, likely),
        }
    })?;
    require(read, array, if signal { "f32" } else { "u8 or u16" })
}

/// Entries for all nonzero values; weights only if one is not 1.
pub(super) fn entries_of<T: Number + Into<f32> + Default + PartialEq>(
    header: &Header,
    data: &mut dyn Read,
    likely: usize,
) -> Result<(Spikes, i64, usize)> {
    let elements = header.elements()?;
    let (bins, channels) = (header.shape[0] as usize, header.shape[1] as usize);
    let mut entries = Spikes::default();
    let mut push = |bin: usize, channel: usize, value: f32| {
        let len = entries.len();
        if len == MAX_SPIKES {
            return Err(too_many_spikes(bin, channel));
        }
        // Grow by hand: a list that cannot grow must give an error, not abort the process.
        if entries.ticks.capacity() == len {
            let more = len.max(1 << 12);
            memory::plan("spikes", more as u128 * 16)?;
            grow(&mut entries.ticks, more)?;
            grow(&mut entries.channels, more)?;
            if !entries.weights.is_empty() {
                grow(&mut entries.weights, more)?;
            }
        }
        if entries.weights.is_empty() && value != 1.0 {
            let room = entries.ticks.capacity();
            memory::plan("spikes", room as u128 * 4)?;
            entries.weights = memory::room("spikes", room)?;
            entries.weights.resize(len, 1.0);
            entries.weights.push(value);
        } else if !entries.weights.is_empty() {
            entries.weights.push(value);
        }
        entries.ticks.push(bin as i64);
        entries.channels.push(channel as u32);
        Ok(())
    };
    if elements == 0 {
        // A matrix (huge, 0) has no data, so its height proves nothing.
    } else if header.fortran_order {
        let all: Vec<T> = npy::read_all(header, data, npy::likely_elements(header, likely))?;
        for bin in 0..bins {
            for channel in 0..channels {
                let value = all[channel * bins + bin];
                if value != T::default() {
                    push(bin, channel, value.into())?;
                }
            }
        }
    } else {
        let mut first = 0;
        npy::for_each_number(header, data, elements, |block: &[T]| {
            // Most bins are empty: skip them sixteen at a time.
            for (i, group) in block.chunks(16).enumerate() {
                if group.iter().all(|c| *c == T::default()) {
                    continue;
                }
                for (j, &value) in group.iter().enumerate() {
                    if value != T::default() {
                        let at = first + i * 16 + j;
                        push(at / channels, at % channels, value.into())?;
                    }
                }
            }
            first += block.len();
            Ok(())
        })?;
    }
    Ok((entries, bins as i64, channels))
}

fn grow<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    let needed = (list.len() + more).saturating_mul(size_of::<T>());
    list.try_reserve_exact(more)
        .map_err(|_| Error::no_memory("spikes", needed))
}

fn read_behavior(archive: &mut Archive) -> Result<Option<Behavior>> {
    let Some((shape, values)) = archive.read::<f32>("behavior", 2)? else {
        for array in ["behavior_times", "behavior_names", "behavior_units"] {
            if archive.has(array) {
                return Err(Error::recording(format!(
                    "array `{array}` is there, but `behavior` is not"
                )));
            }
        }
        return Ok(None);
    };
    let outputs = outputs(archive, [shape[0], shape[1]])?;
    let times = archive.read::<f64>("behavior_times", 1)?.map(|(_, t)| t);
    Ok(Some(Behavior {
        outputs,
        values,
        times,
    }))
}

/// Names and units of the columns of `behavior`, (samples, outputs).
pub(super) fn outputs(
    archive: &mut Archive,
    [samples, width]: [u64; 2],
) -> Result<Vec<OutputInfo>> {
    let count = width as usize;
    let mut strings = |array: &str| match archive.read_strings(array, 1)? {
        Some(s) if s.len() != count && s.len() as u64 == samples => Err(Error::recording(format!(
            "array `behavior`: expected (samples, outputs), got {samples} samples of {width} outputs with {samples} strings in \
             `{array}`: it is transposed"
        ))),
        Some(s) if s.len() != count => Err(Error::recording(format!(
            "array `{array}`: expected {count} strings, one per column of `behavior`, got {}",
            s.len()
        ))),
        other => Ok(other),
    };
    let names = strings("behavior_names")?;
    let units = strings("behavior_units")?;
    // A matrix (0, huge) has no data, so its width proves nothing.
    if samples == 0 || width == 0 {
        return Err(Error::recording(format!(
            "array `behavior`: expected samples and outputs, got shape ({samples}, {width})"
        )));
    }
    let pick = |list: &Option<Vec<String>>, i: usize| list.as_ref().map(|l| l[i].clone());
    Ok((0..count)
        .map(|i| OutputInfo {
            name: pick(&names, i).unwrap_or_else(|| format!("output{i}")),
            unit: pick(&units, i).unwrap_or_default(),
        })
        .collect())
}

pub(super) fn read_segments(archive: &mut Archive) -> Result<Option<Vec<Segment>>> {
    let Some((shape, values)) = archive.read::<i64>("segments", 2)? else {
        return Ok(None);
    };
    if shape[1] != 2 {
        return Err(Error::recording(format!(
            "array `segments`: expected shape (n, 2), got ({}, {})",
            shape[0], shape[1]
        )));
    }
    let pairs = values.as_chunks::<2>().0;
    Ok(Some(
        pairs
            .iter()
            .map(|&[start, stop]| Segment { start, stop })
            .collect(),
    ))
}

pub(super) fn read_electrodes(archive: &mut Archive) -> Result<Option<Vec<[f32; 2]>>> {
    let Some((shape, values)) = archive.read::<f32>("electrode_um", 2)? else {
        return Ok(None);
    };
    if shape[1] != 2 {
        return Err(Error::recording(format!(
            "array `electrode_um`: expected shape (channels, 2), got ({}, {})",
            shape[0], shape[1]
        )));
    }
    Ok(Some(values.as_chunks::<2>().0.to_vec()))
}

/// End of a recording of spike times in a file without `duration_ticks`: after its last spike, its last segment and its
/// last sample of behaviour. `samples` is the number of samples, with the last one's time if samples have times.
pub(super) fn last_tick(
    last_spike: Option<i64>,
    samples: Option<(u64, Option<f64>)>,
    segments: Option<&[Segment]>,
    tick_seconds: f64,
) -> Result<i64> {
    let last_spike = last_spike.map_or(0, |t| t.saturating_add(1));
    let last_segment = segments
        .and_then(|s| s.iter().map(|s| s.stop).max())
        .unwrap_or(0);
    let last_sample = match samples {
        Some((_, Some(last))) => {
            let last = last / tick_seconds;
            if last.is_finite() && last >= MAX_TICKS as f64 {
                return Err(Error::recording(format!(
                    "array `behavior_times`: expected times below {MAX_TICKS} ticks of {tick_seconds} s, got {:e} s",
                    last * tick_seconds
                )));
            }
            // The cast saturates; `check` refuses a time that is not finite.
            (last.floor() as i64).saturating_add(1)
        }
        Some((count, None)) => i64::try_from(count).unwrap_or(i64::MAX),
        None => 0,
    };
    Ok(last_spike.max(last_segment).max(last_sample))
}
