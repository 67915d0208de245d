//! Voltage: an `ElectricalSeries` of int16, read a stretch at a time.

mod clock;
mod places;

use std::path::Path;

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::memory;
use betz_sort::{MAX_CHANNELS, Voltage};

use super::hdf5::{File, Stored};

/// What voltage is, by `neurodata_type`.
const TYPE: &str = "ElectricalSeries";
/// Most microvolts a bit: a volt is a conversion that nobody gave.
const MOST_MICROVOLTS: f64 = 1e5;

/// Bytes that reading may hold.
#[derive(Clone, Copy)]
struct Budget {
    /// Samples that are kept, where chunks allow: as much is read at once.
    window: usize,
    /// Samples that are kept where chunks are large.
    most_window: usize,
    /// A chunk, or chunks that are open at once.
    chunks: usize,
}

const BUDGET: Budget = Budget {
    window: 16 << 20,
    most_window: 128 << 20,
    chunks: 128 << 20,
};

/// Voltage in an NWB file: a series of samples, (time, channels), of which stretches are read as they are asked for.
///
/// Memory does not grow with the recording, but for the list of its chunks: a window of samples is kept (16 MiB, or the
/// rows of a chunk where those are more, up to 128 MiB), and while it is read the chunks it lies in (128 MiB at most).
///
/// ```no_run
/// use betz_interop::nwb::ElectricalSeries;
/// use betz_sort::Voltage;
///
/// let mut voltage = ElectricalSeries::open("session.nwb".as_ref(), None)?;
/// let mut second = vec![0; voltage.rate_hz() as usize * voltage.channels()];
/// let rows = voltage.read(0, &mut second)?;
/// # Ok::<(), betz_base::Error>(())
/// ```
pub struct ElectricalSeries {
    file: File,
    name: String,
    /// Path of the file, for errors.
    of: String,
    data: String,
    channels: usize,
    rows: u64,
    /// Whether the data have no axis of channels.
    flat: bool,
    clock: clock::Clock,
    microvolts: Option<f64>,
    places: Option<Vec<Option<[f32; 2]>>>,
    notes: Vec<String>,
    stretch: Stretch,
    /// Samples of the rows from `window_from` on.
    window: Vec<i16>,
    window_from: u64,
    /// Some channels of a window.
    columns: Vec<i16>,
}

impl ElectricalSeries {
    /// Opens the voltage `series` (its name, or its path in the file) of the NWB file at `path`; without a name the only
    /// `ElectricalSeries` that lies in `acquisition` itself.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; [`ErrorKind::InvalidArgument`] where several could be meant or none is called so, listing those
    /// there are; [`ErrorKind::InsufficientData`] without voltage; [`ErrorKind::InvalidRecording`] for what is damaged,
    /// breaks NWB, or is no int16 at regular times with one conversion for all channels; [`ErrorKind::OutOfMemory`].
    pub fn open(path: &Path, series: Option<&str>) -> Result<Self> {
        Self::open_within(path, series, BUDGET).map_err(|e| e.at(path.display()))
    }

    fn open_within(path: &Path, series: Option<&str>, budget: Budget) -> Result<Self> {
        let file = File::open(path)?;
        let name = chosen(&file, series)?;
        let data = format!("{name}/data");
        let stored = (file.stored(&data)?)
            .ok_or_else(|| Error::recording(format!("{data}: expected it, got none")))?;
        let (rows, channels) = shape(&data, &stored)?;
        let (places, mut notes) = places::read(&file, &name, rows, channels)?;
        let microvolts = microvolts(&file, &name, channels)?;
        let clock = clock::read(&file, &name, rows as u64)?;
        notes.extend(clock.note.clone());
        let stretch = Stretch::new(&data, rows, channels, stored.chunk.as_deref(), budget)?;
        memory::plan(&data, stretch.bytes(channels))?;
        Ok(Self {
            of: path.display().to_string(),
            window: memory::room(&data, stretch.height * channels)?,
            columns: Vec::new(),
            flat: stored.shape.len() == 1,
            rows: rows as u64,
            window_from: 0,
            file,
            name,
            data,
            channels,
            clock,
            microvolts,
            places,
            notes,
            stretch,
        })
    }

    /// Path of the series in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Samples of a channel a second.
    pub fn rate_hz(&self) -> f64 {
        self.clock.rate_hz
    }

    /// Time of the first sample in seconds, on the file's clock.
    pub fn start_seconds(&self) -> f64 {
        self.clock.start_seconds
    }

    /// Microvolts a bit; `None` where the file gives no conversion (or that of 1, which stands for none).
    pub fn microvolts(&self) -> Option<f64> {
        self.microvolts
    }

    /// (x, y) of each channel in micrometres, `None` for one whose place is not known; `None` where none is.
    pub fn places(&self) -> Option<&[Option<[f32; 2]>]> {
        self.places.as_deref()
    }

    /// What was chosen or made of what the file says, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Reads the window that `row` lies in.
    fn load(&mut self, row: u64) -> Result<()> {
        let (from, until) = self.stretch.around(row, self.rows);
        let (n, first, rows) = (self.channels, from as usize, (until - from) as usize);
        // What fails halfway is no window.
        self.window.clear();
        self.window.resize(rows * n, 0);
        let read = |count: &[usize], channel: usize, into: &mut [i16]| {
            let first = [first, channel];
            (self.file).samples(&self.data, &first[..count.len()], count, into)
        };
        let mut read_all = || {
            if self.flat {
                return read(&[rows], 0, &mut self.window);
            }
            if self.stretch.columns >= n {
                return read(&[rows, n], 0, &mut self.window);
            }
            for channel in (0..n).step_by(self.stretch.columns) {
                let width = self.stretch.columns.min(n - channel);
                self.columns.resize(rows * width, 0);
                read(&[rows, width], channel, &mut self.columns)?;
                let into = self.window.chunks_exact_mut(n);
                for (row, of) in into.zip(self.columns.chunks_exact(width)) {
                    row[channel..channel + width].copy_from_slice(of);
                }
            }
            Ok(())
        };
        let done = read_all();
        if done.is_err() {
            self.window.clear();
        }
        self.window_from = from;
        done.map_err(|e| e.at(&self.of))
    }
}

impl Voltage for ElectricalSeries {
    fn channels(&self) -> usize {
        self.channels
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn read(&mut self, from: u64, samples: &mut [i16]) -> Result<usize> {
        let n = self.channels;
        let left = self.rows.saturating_sub(from);
        let wanted = left.min((samples.len() / n) as u64) as usize;
        let mut done = 0;
        while done < wanted {
            let row = from + done as u64;
            let held = (self.window.len() / n) as u64;
            if !(self.window_from..self.window_from + held).contains(&row) {
                self.load(row)?;
            }
            let there = &self.window[(row - self.window_from) as usize * n..];
            let now = (there.len() / n).min(wanted - done);
            samples[done * n..(done + now) * n].copy_from_slice(&there[..now * n]);
            done += now;
        }
        Ok(wanted)
    }
}

/// Paths of the series of voltage: those in `acquisition` itself, and those in containers and in `processing` (`LFP`,
/// `FilteredEphys`), which are taken by name alone.
pub(super) fn found(file: &File) -> (Vec<String>, Vec<String>) {
    let data = file
        .datasets()
        .filter_map(|path| path.strip_suffix("/data"));
    let voltage = data
        .filter(|path| path.starts_with("acquisition/") || path.starts_with("processing/"))
        .filter(|path| file.group_text(path, "neurodata_type").as_deref() == Some(TYPE));
    voltage
        .map(str::to_owned)
        .partition(|path| path.starts_with("acquisition/") && path.matches('/').count() == 1)
}

/// The path of the series that is meant.
fn chosen(file: &File, wanted: Option<&str>) -> Result<String> {
    let (mut there, others) = found(file);
    let Some(wanted) = wanted.map(|w| w.trim_matches('/')) else {
        return match (there.len(), others.is_empty()) {
            (1, _) => Ok(there.remove(0)),
            (0, true) => Err(Error::new(
                ErrorKind::InsufficientData,
                format!("expected voltage (an {TYPE} in acquisition), got none"),
            )),
            (0, false) => Err(Error::argument(format!(
                "series: expected an {TYPE} in acquisition, got none; by name there are [{}]",
                others.join(", ")
            ))),
            _ => Err(Error::argument(format!(
                "series: expected the name of one of [{}], because there are several",
                there.join(", ")
            ))),
        };
    };
    there.extend(others);
    let named = |path: &&String| {
        let before = path.strip_suffix(wanted);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let exact = there.iter().find(|path| *path == wanted);
    let mut of_name: Vec<&String> = match exact {
        Some(path) => vec![path],
        None => there.iter().filter(named).collect(),
    };
    match of_name.len() {
        1 => Ok(of_name.remove(0).clone()),
        0 => {
            let ending = format!("/{wanted}/data");
            let mut all = file.datasets();
            let other =
                all.find_map(|path| path.ends_with(&ending).then(|| &path[..path.len() - 5]));
            let path = other.unwrap_or(wanted);
            match file.group_text(path, "neurodata_type").as_deref() {
                // Behind a soft link.
                Some(TYPE) => Ok(path.to_owned()),
                Some(other) if !path.is_empty() => Err(Error::argument(format!(
                    "series: expected an {TYPE}, got '{path}', which is of type {other}"
                ))),
                _ => Err(Error::argument(format!(
                    "series: expected one of [{}], got '{wanted}'",
                    there.join(", ")
                ))),
            }
        }
        _ => Err(Error::argument(format!(
            "series: expected the path of one series, got '{wanted}', the name of {}",
            of_name
                .iter()
                .map(|p| p.as_str())
                .collect::<Vec<_>>()
                .join(" and ")
        ))),
    }
}

/// Rows and channels.
fn shape(data: &str, stored: &Stored) -> Result<(usize, usize)> {
    if stored.element != "int16" {
        return Err(Error::recording(format!(
            "{data}: expected int16, got {}; write the samples as int16, with the volts a bit as their conversion",
            stored.element
        )));
    }
    let (rows, channels) = match stored.shape[..] {
        [rows] => (rows, 1),
        [rows, channels] => (rows, channels),
        _ => {
            return Err(Error::recording(format!(
                "{data}: expected (time, channels), got a shape of {:?}",
                stored.shape
            )));
        }
    };
    if channels == 0 || channels > MAX_CHANNELS || rows == 0 {
        return Err(Error::recording(format!(
            "{data}: expected (time, channels) with samples of 1 to {MAX_CHANNELS} channels, got a shape of {:?}",
            stored.shape
        )));
    }
    Ok((rows, channels))
}

/// Microvolts a bit, the same for all channels; `None` where that is not said.
fn microvolts(file: &File, series: &str, channels: usize) -> Result<Option<f64>> {
    let data = format!("{series}/data");
    let offset = file.number(&data, "offset").unwrap_or(0.0);
    if offset != 0.0 {
        return Err(Error::recording(format!(
            "{data}: expected an offset of 0, got {offset}; take it from the samples, and write them with 0"
        )));
    }
    if let Some(unit) = file.text(&data, "unit")
        && !["volts", "volt", "V"].contains(&unit.as_str())
    {
        return Err(Error::recording(format!(
            "{data}: expected the unit volts, got '{unit}'"
        )));
    }
    let mut volts = file.number(&data, "conversion").unwrap_or(1.0);
    let own = format!("{series}/channel_conversion");
    if let Some(factors) = file.numbers(&own)? {
        let factors = factors.values;
        if factors.len() != channels {
            return Err(Error::recording(format!(
                "{own}: expected {channels} factors, one a channel, got {}",
                factors.len()
            )));
        }
        let first = factors[0];
        if let Some(channel) = factors.iter().position(|f| *f != first) {
            return Err(Error::recording(format!(
                "{own}: expected the same factor for all channels, got {first} for channel 0 and {} for channel {channel}; write samples of one conversion",
                factors[channel]
            ))
            .with_channel(channel));
        }
        volts *= first;
    }
    if volts == 1.0 {
        return Ok(None);
    }
    let microvolts = volts * 1e6;
    if !(microvolts > 0.0 && microvolts <= MOST_MICROVOLTS) {
        return Err(Error::recording(format!(
            "{data}: expected a conversion above 0 and at most {} V a bit, got {volts}",
            MOST_MICROVOLTS * 1e-6
        )));
    }
    // What was given in microvolts, and went through volts, is what it was.
    let decimal = (microvolts * 1e9).round() / 1e9;
    Ok(Some(
        if (decimal - microvolts).abs() <= 1e-12 * microvolts {
            decimal
        } else {
            microvolts
        },
    ))
}

/// What is read at once: windows of so many rows, so many channels at a time, so that chunks are opened once each where
/// they are small enough, and never more of them than there is room for.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    /// Rows of a window.
    height: usize,
    /// Windows begin anew after so many rows.
    period: usize,
    /// Channels that are read at once.
    columns: usize,
    /// Samples of the chunks that are open at once.
    open: usize,
}

impl Stretch {
    fn new(
        data: &str,
        rows: usize,
        channels: usize,
        chunk: Option<&[usize]>,
        budget: Budget,
    ) -> Result<Self> {
        let (tall, wide) = match chunk {
            Some([tall]) => (*tall, 1),
            Some([tall, wide]) => (*tall, *wide),
            _ => (1, channels),
        };
        let (tall, wide) = (tall.max(1), wide.max(1));
        let of_chunk = 2 * tall as u128 * wide as u128;
        if of_chunk > budget.chunks as u128 {
            return Err(Error::recording(format!(
                "{data}: expected chunks of at most {}, got {} ({tall} × {wide}); h5repack -l CHUNK=… writes smaller ones",
                memory::size(budget.chunks as u64),
                memory::size(of_chunk.min(u128::from(u64::MAX)) as u64)
            )));
        }
        let row = 2 * channels;
        // Rows of chunks that fit, one at least; of a row that does not fit, as much as does.
        let (height, period) = match (budget.window / row / tall).max(1) * tall {
            height if height * row <= budget.most_window || tall == 1 => (height, height),
            _ => ((budget.most_window / row).max(1), tall),
        };
        let height = height.min(rows);
        let tall_open = height.div_ceil(tall) * tall;
        let columns = ((budget.chunks / 2 / tall_open / wide).max(1) * wide).min(channels);
        Ok(Self {
            height,
            period,
            columns,
            open: match chunk {
                Some(_) => tall_open * columns.div_ceil(wide) * wide,
                None => 0,
            },
        })
    }

    /// The window of `row`.
    fn around(&self, row: u64, rows: u64) -> (u64, u64) {
        let (height, period) = (self.height as u64, self.period as u64);
        let begin = row / period * period;
        let from = begin + (row - begin) / height * height;
        (from, (from + height).min(begin + period).min(rows))
    }

    /// Bytes that reading takes: the window, the channels of it that are read at once, and their chunks.
    fn bytes(&self, channels: usize) -> u128 {
        let some = if self.columns < channels {
            self.height * self.columns
        } else {
            0
        };
        2 * (self.height * channels + some + self.open) as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name)
    }

    fn all(voltage: &mut ElectricalSeries, at_once: usize) -> Vec<i16> {
        let n = voltage.channels();
        let mut samples = vec![0; voltage.rows() as usize * n];
        let mut row = 0;
        for block in samples.chunks_mut(at_once * n) {
            row += voltage.read(row as u64, block).unwrap();
        }
        assert_eq!(row as u64, voltage.rows());
        samples
    }

    /// Chunks are of 4096 rows and 3 of 4 channels.
    #[test]
    fn samples_do_not_depend_on_how_much_is_read_at_once() {
        let path = fixture("voltage.nwb");
        let mut whole = ElectricalSeries::open(&path, None).unwrap();
        assert_eq!(whole.stretch.columns, 4);
        let expected = all(&mut whole, 40_000);
        let mut heights = Vec::new();
        for (window, most_window, chunks) in [
            (1 << 20, 1 << 20, 1 << 20),
            (100_000, 100_000, 25_000),
            (1, 33_000, 25_000),
            (1, 5_000, 25_000),
            (1, 8 * 1000, 1 << 20),
        ] {
            let budget = Budget {
                window,
                most_window,
                chunks,
            };
            let mut voltage = ElectricalSeries::open_within(&path, None, budget).unwrap();
            heights.push((voltage.stretch.height, voltage.stretch.columns));
            for at_once in [40_000, 4096, 1001, 77] {
                assert!(all(&mut voltage, at_once) == expected, "{heights:?}");
            }
            // Backwards, and beyond the end.
            let mut row = [0; 4];
            for at in [39_999, 4096, 4095, 0] {
                assert_eq!(voltage.read(at, &mut row).unwrap(), 1);
                assert_eq!(row[..], expected[4 * at as usize..][..4]);
            }
            assert_eq!(voltage.read(40_000, &mut row).unwrap(), 0);
            assert!(voltage.window.capacity() * 2 <= most_window.max(window));
        }
        assert_eq!(
            heights,
            [(40_000, 4), (12_288, 3), (4096, 3), (625, 3), (1000, 4)]
        );
        let small = Budget {
            chunks: 1000,
            ..BUDGET
        };
        let error = ElectricalSeries::open_within(&path, None, small).err();
        assert!(
            error
                .unwrap()
                .message()
                .contains("chunks of at most 1.0 kB")
        );
    }

    #[test]
    fn windows_are_of_whole_chunks_that_fit() {
        let of = |rows, channels, chunk: Option<&[usize]>| {
            Stretch::new("x", rows, channels, chunk, BUDGET).unwrap()
        };
        // In one piece.
        let plain = of(1 << 30, 384, None);
        assert_eq!((plain.height, plain.columns), (21_845, 384));
        assert!(plain.bytes(384) <= 16 << 20);
        // What neuroconv makes by default.
        let common = of(1 << 30, 384, Some(&[81_920, 64]));
        assert_eq!((common.height, common.columns), (81_920, 384));
        // A chunk a channel.
        let tall = of(1 << 30, 384, Some(&[1 << 20, 1]));
        assert_eq!((tall.period, tall.columns), (1 << 20, 64));
        assert!(tall.height * 384 * 2 <= 128 << 20);
        for stretch in [plain, common, tall] {
            assert!(stretch.bytes(384) <= 384 << 20, "{stretch:?}");
            let (mut row, mut windows) = (0, 0);
            while row < 3_000_000 {
                let (from, until) = stretch.around(row, 3_000_000);
                assert!(from == row && until > row && until - from <= stretch.height as u64);
                (row, windows) = (until, windows + 1);
            }
            assert!(windows >= 3);
        }
    }
}
