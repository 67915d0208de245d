//! The large arrays of a streamed recording, read between two ticks or samples.

use std::ops::Range;

use super::super::column::Column;
use super::super::header::Header;
use super::super::number::Element;
use super::super::read::entries_of;
use crate::check::check_times;
use crate::gaps::{median_interval, sampled_intervals};
use crate::step_clock::StepClock;
use crate::{Behavior, SpikeForm, Spikes};
use betz_base::error::{Error, Result};

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
    /// Refuses behaviour without samples or outputs, and a number of times that differs from the number of samples.
    pub(super) fn check(&self) -> Result<()> {
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
    /// and one more on either side.
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
        Ok(from..to.saturating_add(2).clamp(from + 1, count))
    }

    /// Reads the samples `rows`; `named` gives the outputs.
    pub(super) fn read(&mut self, rows: Range<u64>, named: &Behavior) -> Result<Behavior> {
        let width = named.outputs.len() as u64;
        let values: Vec<f32> = if self.values.is_fortran() {
            let column = |o: u64| o * self.count + rows.start..o * self.count + rows.end;
            let columns = (0..width).map(|o| self.values.read::<f32>(column(o)));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let row = |i: usize| columns.iter().map(move |column| column[i]);
            (0..(rows.end - rows.start) as usize)
                .flat_map(row)
                .collect()
        } else {
            self.values.read(rows.start * width..rows.end * width)?
        };
        if let Some(i) = values.iter().position(|v| !v.is_finite()) {
            let (row, column) = (rows.start + i as u64 / width, i as u64 % width);
            return Err(Error::recording(format!(
                "array `behavior`: [{row}, {column}] (`{}`) = {}: expected a finite value; leave out samples that are missing, and give the times of the others as `behavior_times`",
                named.outputs[column as usize].name, values[i]
            )));
        }
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
