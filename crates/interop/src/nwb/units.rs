//! The table of units: spike times, and where the electrodes are.

use betz_base::error::{Error, Result};
use betz_recording::Spikes;

use super::hdf5::File;
use crate::Report;

/// Spike times of units, one after the other, and where each unit's end.
#[derive(Debug, Clone, PartialEq)]
pub struct Units {
    /// Times in seconds, unit by unit.
    pub times: Vec<f64>,
    /// Unit k has the times from `ends[k − 1]` (0 for the first) to `ends[k]`.
    pub ends: Vec<usize>,
    /// One name per unit: `unit` and its id.
    pub names: Vec<String>,
    /// (x, y) of the first electrode of each unit in micrometres, NaN where unknown; `None` where no unit has one.
    pub electrode_um: Option<Vec<[f32; 2]>>,
}

/// The units of `file`; `None` where it has none.
pub(super) fn read(file: &File) -> Result<Option<Units>> {
    let Some(times) = file.numbers("units/spike_times")? else {
        return Ok(None);
    };
    let Some(ends) = file.numbers("units/spike_times_index")? else {
        return Err(Error::recording(
            "units/spike_times: expected units/spike_times_index beside it, got none",
        ));
    };
    let ends = offsets("units/spike_times_index", &ends.values, times.values.len())?;
    let ids = file.numbers("units/id")?.map(|ids| ids.values);
    let names = (0..ends.len()).map(|k| {
        let id = ids.as_ref().and_then(|ids| ids.get(k));
        id.map_or_else(|| format!("unit{k}"), |id| format!("unit{id}"))
    });
    let mut names: Vec<String> = names.collect();
    let mut seen = std::collections::HashSet::new();
    if !names.iter().all(|name| seen.insert(name.clone())) {
        names = (0..ends.len()).map(|k| format!("unit{k}")).collect();
    }
    Ok(Some(Units {
        electrode_um: electrodes(file, ends.len())?,
        times: times.values,
        names,
        ends,
    }))
}

/// Offsets of a ragged column, of whatever width they are stored in: ascending, and none beyond `len`.
fn offsets(path: &str, values: &[f64], len: usize) -> Result<Vec<usize>> {
    let mut last = 0;
    let checked = values.iter().enumerate().map(|(i, &end)| {
        let sound = end >= last as f64 && end <= len as f64 && end.fract() == 0.0;
        if !sound {
            return Err(Error::recording(format!(
                "{path}: [{i}] = {end}: expected an end from {last} to {len}"
            ))
            .with_position(i));
        }
        last = end as usize;
        Ok(last)
    });
    let ends: Vec<usize> = checked.collect::<Result<_>>()?;
    if last != len {
        return Err(Error::recording(format!(
            "{path}: expected a last end of {len}, got {last}"
        )));
    }
    Ok(ends)
}

/// The place of each unit's first electrode.
fn electrodes(file: &File, units: usize) -> Result<Option<Vec<[f32; 2]>>> {
    let table = "general/extracellular_ephys/electrodes";
    let (x, y) = (
        file.numbers(&format!("{table}/x"))?,
        file.numbers(&format!("{table}/y"))?,
    );
    let of = file.numbers("units/electrodes")?;
    let (Some(x), Some(y), Some(of)) = (x, y, of) else {
        return Ok(None);
    };
    let ends = match file.numbers("units/electrodes_index")? {
        Some(ends) => offsets("units/electrodes_index", &ends.values, of.values.len())?,
        None => (1..=of.values.len()).collect(),
    };
    if ends.len() != units {
        return Err(Error::recording(format!(
            "units/electrodes: expected those of {units} units, got those of {}",
            ends.len()
        )));
    }
    let place = |k: usize| {
        let first = if k == 0 { 0 } else { ends[k - 1] };
        let row = (first < ends[k]).then(|| of.values[first] as usize);
        let at = |column: &[f64]| {
            row.and_then(|row| column.get(row))
                .map_or(f32::NAN, |v| *v as f32)
        };
        [at(&x.values), at(&y.values)]
    };
    let places: Vec<[f32; 2]> = (0..units).map(place).collect();
    let known = places.iter().flatten().any(|v| v.is_finite());
    Ok(known.then_some(places))
}

impl Units {
    /// The earliest and the latest finite spike time.
    pub(super) fn span(&self) -> Option<(f64, f64)> {
        let finite = self.times.iter().copied().filter(|t| t.is_finite());
        finite.fold(None, |span, t| {
            let (low, high) = span.unwrap_or((t, t));
            Some((low.min(t), high.max(t)))
        })
    }

    /// Spikes in ticks after `origin`, in order; times that are no numbers are left out and counted.
    pub(super) fn spikes(&self, origin: f64, tick_seconds: f64, report: &mut Report) -> Spikes {
        let mut events: Vec<(i64, u32)> = Vec::with_capacity(self.times.len());
        let (mut lost, mut unsorted, mut first) = (0_usize, 0_usize, 0);
        for (unit, &end) in self.ends.iter().enumerate() {
            let times = &self.times[first..end];
            first = end;
            unsorted += usize::from(times.windows(2).any(|pair| pair[1] < pair[0]));
            for &time in times {
                match time.is_finite() {
                    true => events.push((tick(time - origin, tick_seconds), unit as u32)),
                    false => lost += 1,
                }
            }
        }
        if lost > 0 {
            report.notes.push(format!(
                "{lost} spike times that are no finite numbers were left out"
            ));
        }
        if unsorted > 0 {
            report.notes.push(format!(
                "spike times of {unsorted} units were out of order and have been sorted"
            ));
        }
        events.sort_unstable();
        let (ticks, channels) = events.into_iter().unzip();
        Spikes::new(ticks, channels)
    }
}

/// The tick that covers `seconds`; a time that was a whole number of ticks before it was rounded is that tick.
pub(super) fn tick(seconds: f64, tick_seconds: f64) -> i64 {
    (seconds / tick_seconds + 1e-6).floor() as i64
}
