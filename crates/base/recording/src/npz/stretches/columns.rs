//! The large arrays of a streamed recording, read between two ticks or samples.

use std::ops::Range;

use super::super::column::Column;
use super::super::header::Header;
use super::super::number::Element;
use super::super::read::entries_of;
use crate::behavior::{extend, missing_ranges};
use crate::check::{check_some_value, check_times, check_values};
use crate::gaps::{median_interval, sampled_intervals};
use crate::step_clock::StepClock;
use crate::{Behavior, SpikeForm, Spikes};
use betz_base::error::{Error, Result};

/// Values that are read together to find those that are missing.
const VALUES_AT_ONCE: u64 = 1 << 18;

/// Stored spikes.
pub(super) enum Columns {
    Events { ticks: Column, channels: Column },
    Matrix(Column),
}

/// Stored behaviour samples.
pub(super) struct Samples {
    pub(super) values: Column,
    pub(super) times: Option<Column>,
    pub(super) count: u64,
    /// Samples with a NaN, as ascending ranges that do not touch.
    missing: Vec<Range<u64>>,
}

impl Columns {
    /// Reads the spikes, or the entries of the matrix, at the ticks `start..stop`.
    pub(super) fn between(&mut self, start: i64, stop: i64, form: SpikeForm) -> Result<Spikes> {
        match self {
            Self::Events { ticks, channels } => {
                let count = ticks.shape()[0];
                let range = ticks.below(count, start)?..ticks.below(count, stop)?;
                Ok(Spikes::new(
                    ticks.read(range.clone())?,
                    channels.read(range)?,
                ))
            }
            Self::Matrix(matrix) => {
                let (rows, width) = ((stop - start) as u64, matrix.shape()[1]);
                let header = Header {
                    descr: matrix.descr().to_owned(),
                    fortran_order: matrix.is_fortran(),
                    shape: vec![rows, width],
                };
                let bytes = if matrix.is_fortran() {
                    let height = matrix.shape()[0];
                    let mut bytes = Vec::new();
                    for channel in 0..width {
                        let from = channel * height + start as u64;
                        bytes.append(&mut matrix.bytes(from..from + rows)?);
                    }
                    bytes
                } else {
                    matrix.bytes(start as u64 * width..stop as u64 * width)?
                };
                let (data, likely) = (&mut &bytes[..], bytes.len());
                let (mut entries, ..) = match (form, header.descr.as_str()) {
                    (SpikeForm::Signal, _) => entries_of::<f32>(&header, data, likely)?,
                    (_, u8::DESCR) => entries_of::<u8>(&header, data, likely)?,
                    _ => entries_of::<u16>(&header, data, likely)?,
                };
                entries.ticks.iter_mut().for_each(|tick| *tick += start);
                Ok(entries)
            }
        }
    }
}

impl Samples {
    /// The samples in `values` with their `times`. Reads all values once, to find those that are missing.
    ///
    /// # Errors
    /// Refuses behaviour without samples or outputs, or with NaN in every sample, and a number of times that differs from
    /// the number of samples.
    pub(super) fn new(values: Column, times: Option<Column>) -> Result<Self> {
        let mut samples = Self {
            count: values.shape()[0],
            values,
            times,
            missing: Vec::new(),
        };
        samples.check()?;
        samples.missing = samples.find_missing()?;
        check_some_value(&samples.missing, samples.count)?;
        Ok(samples)
    }

    fn find_missing(&mut self) -> Result<Vec<Range<u64>>> {
        let width = self.values.shape()[1];
        let at_once = (VALUES_AT_ONCE / width).max(1);
        let mut missing = Vec::new();
        let mut first = 0;
        while first < self.count {
            let stop = (first + at_once).min(self.count);
            let values = self.read_values(first..stop)?;
            for range in missing_ranges(&values, width as usize) {
                let later = |sample: usize| first + sample as u64;
                extend(&mut missing, later(range.start)..later(range.end));
            }
            first = stop;
        }
        Ok(missing)
    }

    /// The range of missing samples that contains `sample`.
    fn missing_around(&self, sample: u64) -> Option<&Range<u64>> {
        let at = self.missing.partition_point(|range| range.end <= sample);
        self.missing.get(at).filter(|range| range.start <= sample)
    }

    /// The samples of `rows` that are missing, counted from the first of `rows`.
    pub(super) fn missing_in(&self, rows: &Range<u64>) -> Vec<Range<usize>> {
        let first = self
            .missing
            .partition_point(|range| range.end <= rows.start);
        let inside = (self.missing[first..].iter()).take_while(|range| range.start < rows.end);
        let from_first = |sample: u64| (sample.clamp(rows.start, rows.end) - rows.start) as usize;
        inside
            .map(|range| from_first(range.start)..from_first(range.end))
            .collect()
    }

    fn check(&self) -> Result<()> {
        let (count, width) = (self.count, self.values.shape()[1]);
        if count == 0 || width == 0 {
            return Err(Error::recording(format!(
                "array `behavior`: expected samples and outputs, got shape ({count}, {width})"
            )));
        }
        match &self.times {
            Some(times) if times.shape()[0] != count => Err(Error::recording(format!(
                "array `behavior_times`: expected {count} times, one per row of `behavior`, got {}",
                times.shape()[0]
            ))),
            _ => Ok(()),
        }
    }

    /// Number of samples and, if they have times, the last one's time.
    pub(super) fn last(&mut self) -> Result<(u64, Option<f64>)> {
        let count = self.count;
        let time = match &mut self.times {
            Some(times) => Some(times.element(count - 1)?),
            None => None,
        };
        Ok((count, time))
    }

    /// Samples from which behaviour at the ends of `steps` is interpolated: those between the first end and the last,
    /// and one more with a value on either side, if it exists.
    pub(super) fn around(
        &mut self,
        clock: &StepClock,
        tick_seconds: f64,
        steps: &Range<i64>,
    ) -> Result<Range<u64>> {
        let count = self.count;
        let ends = [steps.start, steps.end].map(|step| clock.end_seconds(step));
        let [from, to] = match (&mut self.times, clock.whole) {
            (Some(times), _) => [times.below(count, ends[0])?, times.below(count, ends[1])?],
            (None, Some(n)) => {
                let row = |step: i64| (step * n).max(0) as u64;
                [row(steps.start), row(steps.end)]
            }
            (None, None) => ends.map(|end| (end / tick_seconds).floor().max(0.0) as u64),
        };
        // Samples with equal times belong together.
        let from = from.saturating_sub(2).min(count - 1);
        let to = to.saturating_add(2).clamp(from + 1, count);
        let before =
            (self.missing_around(from)).map_or(from, |range| range.start.saturating_sub(1));
        let after = (self.missing_around(to - 1)).map_or(to, |range| (range.end + 1).min(count));
        Ok(before..after)
    }

    /// Reads the values of the samples `rows`, row-major.
    fn read_values(&mut self, rows: Range<u64>) -> Result<Vec<f32>> {
        let width = self.values.shape()[1];
        if self.values.is_fortran() {
            let column = |o: u64| o * self.count + rows.start..o * self.count + rows.end;
            let columns = (0..width).map(|o| self.values.read::<f32>(column(o)));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let row = |i: usize| columns.iter().map(move |column| column[i]);
            Ok((0..(rows.end - rows.start) as usize)
                .flat_map(row)
                .collect())
        } else {
            self.values.read(rows.start * width..rows.end * width)
        }
    }

    /// Reads the samples `rows`; `named` gives the outputs.
    pub(super) fn read(&mut self, rows: Range<u64>, named: &Behavior) -> Result<Behavior> {
        let values = self.read_values(rows.clone())?;
        check_values(&values, &named.outputs, rows.start as usize)?;
        Ok(Behavior {
            outputs: named.outputs.clone(),
            values,
            times: self.times(rows)?,
        })
    }

    /// Times of the samples `rows`, checked to ascend; `None` if samples have no times.
    pub(super) fn times(&mut self, rows: Range<u64>) -> Result<Option<Vec<f64>>> {
        let Some(times) = &mut self.times else {
            return Ok(None);
        };
        let times = times.read::<f64>(rows.clone())?;
        check_times(&times, (rows.end - rows.start) as usize)
            .map_err(|e| e.at(format_args!("from sample {}", rows.start)))?;
        Ok(Some(times))
    }

    /// Usual interval between samples, by the method of [`typical_interval`](crate::gaps::typical_interval).
    pub(super) fn interval(&mut self) -> Result<Option<f64>> {
        let Some(times) = &mut self.times else {
            return Ok(None);
        };
        let mut intervals = Vec::new();
        for i in sampled_intervals(self.count as usize) {
            let pair = times.read::<f64>(i as u64..i as u64 + 2)?;
            intervals.push(pair[1] - pair[0]);
        }
        Ok(median_interval(intervals.into_iter()))
    }
}

/// The greatest number in a column.
pub(super) fn greatest(column: &mut Column) -> Result<Option<u32>> {
    const AT_ONCE: u64 = 1 << 20;
    let (mut most, count) = (None, column.shape()[0]);
    let mut from = 0;
    while from < count {
        let to = (from + AT_ONCE).min(count);
        most = most.max(column.read::<u32>(from..to)?.into_iter().max());
        from = to;
    }
    Ok(most)
}
