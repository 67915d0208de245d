//! A recording in its own ticks, and numbers of a part of it.

use std::ops::Range;

use betz_base::error::{Error, Result};
use betz_recording::{Recording, Segment, SpikeForm, Spikes};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::expected::Fit;
use crate::explore::recorded::DecodedRecording;
use crate::frame::{Kind, Section, Writer};

/// Length of the windows of a Fano factor, in seconds, unless a tick is longer.
const FANO_SECONDS: f64 = 0.1;
/// A deviation from a whole tick, in ticks, that is rounding.
const ROUNDING: f64 = 1e-6;
/// Largest numbers of rows, columns and cells of an overview.
const MOST_ROWS: u32 = 4_096;
const MOST_COLUMNS: i64 = 8_192;
const MOST_CELLS: i64 = 1 << 23;

/// Part of a recording that is counted in cells.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub(crate) struct OverviewQuery {
    /// Steps, half-open; they are widened to whole cells.
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// Steps per cell.
    pub(crate) cell: i64,
    /// Channels, half-open.
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) rows: u32,
}

impl DecodedRecording {
    pub(crate) fn tick_seconds(&self) -> f64 {
        let times = self.times.as_ref();
        times.map_or(self.dataset.step_seconds, |t| t.tick_seconds)
    }

    /// The spikes of these steps in the recording's own ticks, with all segments, as `betz-explore` takes them.
    /// Without finer times a tick is a step.
    pub(crate) fn native(&self, steps: Range<i64>) -> Recording {
        let (data, tick_seconds) = (&self.dataset, self.tick_seconds());
        let per_step = data.step_seconds / tick_seconds;
        let of = &data.spikes;
        let part = of.range(steps.start, steps.end);
        let ticks = match &self.times {
            None => of.ticks[part.clone()].to_vec(),
            Some(times) => part
                .clone()
                .map(|i| {
                    let step = of.ticks[i] as f64 + f64::from(times.offsets[i]);
                    (step * per_step).round() as i64
                })
                .collect(),
        };
        let weights = match of.weights.is_empty() {
            true => Vec::new(),
            false => of.weights[part.clone()].to_vec(),
        };
        let (form, segments) = match &self.times {
            Some(times) => (SpikeForm::Events, times.segments.clone()),
            None => (SpikeForm::Counts, data.segments.clone()),
        };
        Recording {
            tick_seconds,
            ticks: (data.steps as f64 * per_step - ROUNDING).ceil() as i64,
            spikes: Spikes {
                weights,
                ..Spikes::new(ticks, of.channels[part].to_vec())
            },
            channel_names: data.channel_names.clone(),
            behavior: None,
            segments,
            electrode_um: None,
            form,
            meta: None,
        }
    }

    /// Seconds between two times that were left out on request or are not known.
    fn left_out_seconds(&self, from: f64, to: f64) -> f64 {
        let step = self.dataset.step_seconds;
        let overlap =
            |s: &Segment| (to.min(s.stop as f64 * step) - from.max(s.start as f64 * step)).max(0.0);
        self.left_out.iter().map(overlap).sum()
    }

    /// Rates and Fano factors of all channels, and how well each output is decoded, from one time to another in
    /// seconds.
    ///
    /// # Errors
    /// `InvalidArgument` unless the times are finite and the first is before the second; the errors of
    /// [`betz_explore::fano`].
    pub(crate) fn statistics(&self, from: f64, to: f64) -> Result<Value> {
        if !(from.is_finite() && to.is_finite() && from < to) {
            return Err(Error::argument(format!(
                "range: expected finite times in seconds, the first before the second, got {from} and {to}"
            )));
        }
        let (step, tick) = (self.dataset.step_seconds, self.tick_seconds());
        let first_step = (from / step).floor() as i64;
        let last_step = (to / step).ceil() as i64;
        let mut recording = self.native(first_step.saturating_sub(1)..last_step.saturating_add(1));
        let edge = |seconds: f64| (seconds / tick - ROUNDING).ceil().max(0.0) as i64;
        let (start, stop) = (
            edge(from).min(recording.ticks),
            edge(to).min(recording.ticks),
        );
        clip(&mut recording, start, stop);
        let mut spikes = vec![0.0; recording.channels()];
        for (i, &channel) in recording.spikes.channels.iter().enumerate() {
            spikes[channel as usize] += f64::from(recording.spikes.weight(i));
        }
        let (start, stop) = (start as f64 * tick, stop as f64 * tick);
        let seconds = stop - start - self.left_out_seconds(start, stop);
        let rate: Vec<Option<f64>> = (spikes.iter())
            .map(|n| (seconds > ROUNDING * tick).then(|| n / seconds))
            .collect();
        let window = FANO_SECONDS.max(tick);
        let all: Vec<usize> = (0..recording.channels()).collect();
        // JSON writes NaN as null.
        let fano = match recording.segments.is_empty() || all.is_empty() {
            true => vec![f64::NAN; all.len()],
            false => betz_explore::fano(&recording, &all, window)?,
        };
        Ok(json!({
            "from": start, "to": stop, "seconds": seconds, "window_seconds": window,
            "spikes": spikes, "rate": rate, "fano": fano, "outputs": self.fits(from, to),
        }))
    }

    /// Accuracy of each output over the steps that begin between two times.
    fn fits(&self, from: f64, to: f64) -> Value {
        let step = self.dataset.step_seconds;
        let steps = i64::try_from(self.dataset.steps).unwrap_or(i64::MAX);
        let edge = |s: f64| ((s / step - ROUNDING).ceil().max(0.0) as i64).min(steps);
        let mut fits = vec![Fit::default(); self.source.outputs.len()];
        for at in edge(from)..edge(to) {
            let (Some(estimate), Some(truth)) = (self.estimate(at), self.truth(at)) else {
                continue;
            };
            for (fit, (&estimate, &truth)) in fits.iter_mut().zip(estimate.iter().zip(truth)) {
                if !(estimate.is_nan() || truth.is_nan()) {
                    fit.add(truth, estimate);
                }
            }
        }
        let all = (self.source.outputs.iter().zip(&fits)).map(|(output, fit)| {
            json!({
                "name": output.name, "unit": output.unit, "steps": fit.rows, "r2": fit.r2(), "rmse": fit.rmse(),
            })
        });
        all.collect()
    }

    /// A frame with the number of spikes per cell, and the least and greatest value of each output per column.
    ///
    /// # Errors
    /// `InvalidArgument` for a range that is empty or has too many cells.
    pub(crate) fn overview(&self, asked: OverviewQuery) -> Result<Bytes> {
        let channels = u32::try_from(self.dataset.channels()).unwrap_or(u32::MAX);
        let last = asked.last.min(channels);
        let steps = i64::try_from(self.dataset.steps).unwrap_or(i64::MAX);
        let (from, to) = (asked.from.clamp(0, steps), asked.to.clamp(0, steps));
        let (begin, end) = match asked.cell {
            1.. => (from / asked.cell, (to - 1).div_euclid(asked.cell) + 1),
            _ => (0, 0),
        };
        let (columns, rows) = (
            end - begin,
            asked.rows.min(last.saturating_sub(asked.first)),
        );
        let fits = from < to
            && (1..=MOST_COLUMNS).contains(&columns)
            && (1..=MOST_ROWS).contains(&rows)
            && columns * i64::from(rows) <= MOST_CELLS;
        if !fits {
            return Err(Error::argument(format!(
                "overview: expected 1 to {MOST_COLUMNS} columns and 1 to {MOST_ROWS} rows, at most {MOST_CELLS} cells, got {columns} and {rows}"
            )));
        }
        let first = begin * asked.cell;
        let mut counts = vec![0_u32; (columns * i64::from(rows)) as usize];
        let spikes = &self.dataset.spikes;
        let of_channels = u64::from(last - asked.first);
        for i in spikes.range(first, end * asked.cell) {
            let Some(place) = spikes.channels[i].checked_sub(asked.first) else {
                continue;
            };
            let row = u64::from(place) * u64::from(rows) / of_channels;
            let column = (spikes.ticks[i] - first) / asked.cell;
            if u64::from(place) < of_channels {
                counts[column as usize * rows as usize + row as usize] +=
                    spikes.weight(i).round() as u32;
            }
        }
        let head = [
            asked.first,
            last,
            rows,
            columns as u32,
            u32::try_from(asked.cell).unwrap_or(u32::MAX),
        ];
        let ticks = u32::try_from(columns * asked.cell).unwrap_or(u32::MAX);
        let mut frame = Writer::new(Kind::Again, 0, channels, first, ticks, 4 * counts.len());
        frame.u32(Section::DENSITY, &[&head[..], &counts].concat());
        for (section, row) in [
            (Section::ESTIMATE, Self::estimate as Row),
            (Section::TRUTH, Self::truth as Row),
        ] {
            frame.f32(section, &self.extremes(first, columns, asked.cell, row));
        }
        Ok(frame.finish())
    }

    /// Least, then greatest value of each output in each column; NaN if a column has none. Empty if no column has one.
    fn extremes(&self, first: i64, columns: i64, cell: i64, row: Row) -> Vec<f32> {
        let width = self.source.outputs.len();
        let mut found = vec![f32::NAN; 2 * width * columns as usize];
        let mut any = false;
        for (column, both) in found.chunks_exact_mut(2 * width.max(1)).enumerate() {
            let begin = first + column as i64 * cell;
            let (low, high) = both.split_at_mut(width);
            for values in (begin..begin + cell).filter_map(|step| row(self, step)) {
                for (k, &v) in values.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
                    // `min` and `max` ignore a NaN.
                    (low[k], high[k], any) = (low[k].min(v), high[k].max(v), true);
                }
            }
        }
        found.truncate(if any { found.len() } else { 0 });
        found
    }
}

type Row = fn(&DecodedRecording, i64) -> Option<&[f32]>;

/// Cuts spikes and segments to the ticks from `start` to `stop`.
fn clip(recording: &mut Recording, start: i64, stop: i64) {
    let inside = recording.spikes.range(start, stop);
    let spikes = &mut recording.spikes;
    spikes.ticks = spikes.ticks[inside.clone()].to_vec();
    spikes.channels = spikes.channels[inside.clone()].to_vec();
    if !spikes.weights.is_empty() {
        spikes.weights = spikes.weights[inside].to_vec();
    }
    for segment in &mut recording.segments {
        segment.start = segment.start.clamp(start, stop);
        segment.stop = segment.stop.clamp(start, stop);
    }
    recording.segments.retain(|s| s.start < s.stop);
}
