//! Voltage: an `ElectricalSeries` of 16 bits per sample, read a stretch at a time.

mod choice;
mod clock;
mod places;
mod stretch;

use std::path::Path;

use betz_base::error::{Error, Result};
use betz_base::memory;
use betz_sort::{MAX_CHANNELS, Voltage};

use super::hdf5::{DatasetLayout, File};
pub(super) use choice::found;
use stretch::{BUDGET, Budget, Stretch};

/// Most microvolts a bit: a volt is a conversion that nobody gave.
const MOST_MICROVOLTS: f64 = 1e5;

/// Voltage in an NWB file: a series of samples, (time, channels), of which stretches are read as they are asked for.
///
/// Samples of uint16 are read as int16, 32,768 less. What is added to all samples alike (that, or an `offset`) is left
/// out, and the notes say so: a band-pass takes it away.
///
/// Memory does not grow with the recording, but for the list of its chunks: a window of samples is kept (16 MiB, or the
/// rows of a chunk where those are more, up to 128 MiB), and while it is read the chunks it lies in (128 MiB at most).
///
/// ```no_run
/// use betz_formats::nwb::ElectricalSeries;
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
    /// True if the data have no axis of channels.
    flat: bool,
    /// True if the data are uint16, of which the middle becomes 0.
    unsigned: bool,
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
    /// `Io`; `InvalidArgument` where several could be meant or none is called so, listing those
    /// there are; `InsufficientData` without voltage; `InvalidRecording` for what is damaged,
    /// breaks NWB, or is not of 16 bits at regular times with one conversion for all channels; `OutOfMemory`.
    pub fn open(path: &Path, series: Option<&str>) -> Result<Self> {
        Self::open_within(path, series, BUDGET).map_err(|e| e.at(path.display()))
    }

    fn open_within(path: &Path, series: Option<&str>, budget: Budget) -> Result<Self> {
        let file = File::open(path)?;
        let name = choice::chosen(&file, series)?;
        let data = format!("{name}/data");
        let stored = (file.stored(&data)?)
            .ok_or_else(|| Error::recording(format!("{data}: expected it, got none")))?;
        let (rows, channels) = shape(&data, &stored)?;
        let (places, mut notes) = places::read(&file, &name, rows, channels)?;
        let unsigned = stored.element == "uint16";
        let microvolts = microvolts(&file, &name, channels)?;
        notes.extend(constant(&file, &data, microvolts, unsigned)?);
        let clock = clock::read(&file, &name, rows as u64)?;
        notes.extend(clock.note.clone());
        let stretch = Stretch::new(&data, rows, channels, stored.chunk.as_deref(), budget)?;
        memory::plan(&data, stretch.bytes(channels))?;
        Ok(Self {
            of: path.display().to_string(),
            window: memory::room(&data, stretch.height * channels)?,
            columns: Vec::new(),
            flat: stored.shape.len() == 1,
            unsigned,
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

    /// Samples per second of each channel.
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

    /// Choices and changes that reading made, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Reads the window that `row` lies in.
    fn load(&mut self, row: u64) -> Result<()> {
        let (from, until) = self.stretch.around(row, self.rows);
        let (n, first, rows) = (self.channels, from as usize, (until - from) as usize);
        // A window that fails halfway is none.
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
        if self.unsigned {
            self.window
                .iter_mut()
                .for_each(|sample| *sample ^= i16::MIN);
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

/// Rows and channels.
fn shape(data: &str, stored: &DatasetLayout) -> Result<(usize, usize)> {
    if !["int16", "uint16"].contains(&stored.element.as_str()) {
        return Err(Error::recording(format!(
            "{data}: expected int16 or uint16, got {}; write the samples as int16, with the volts a bit as their conversion",
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

/// Note about an offset of all samples, which is left as it is.
fn constant(
    file: &File,
    data: &str,
    microvolts: Option<f64>,
    unsigned: bool,
) -> Result<Option<String>> {
    let offset = file.number(data, "offset").unwrap_or(0.0);
    if !offset.is_finite() {
        return Err(Error::recording(format!(
            "{data}: expected a finite offset, got {offset}"
        )));
    }
    let bit = microvolts.unwrap_or(1.0);
    let middle = if unsigned { 32_768.0 * bit } else { 0.0 };
    let added = offset * 1e6 + middle;
    Ok((added.abs() > 0.5 * bit).then(|| {
        format!("{data}: {added:.1} µV more on every sample are left out: the band-pass takes what does not change away")
    }))
}

/// Microvolts a bit, the same for all channels; `None` where that is not said.
fn microvolts(file: &File, series: &str, channels: usize) -> Result<Option<f64>> {
    let data = format!("{series}/data");
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
                "{own}: expected {channels} factors, one per channel, got {}",
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
    // A gain that was given in microvolts, and went through volts, is restored.
    let decimal = (microvolts * 1e9).round() / 1e9;
    Ok(Some(
        if (decimal - microvolts).abs() <= 1e-12 * microvolts {
            decimal
        } else {
            microvolts
        },
    ))
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
}
