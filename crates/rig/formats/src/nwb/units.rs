//! The table of units: spike times and positions of electrodes.

use std::ops::Range;

use betz_base::error::{Error, Result};
use betz_base::memory;

use super::hdf5::File;

/// Times of all spikes, unit by unit.
pub(super) const TIMES: &str = "units/spike_times";

/// Spike times of units, concatenated, and the end of each unit's times.
#[derive(Debug, Clone, PartialEq)]
pub struct Units {
    /// Times in seconds, unit by unit.
    pub times: Vec<f64>,
    /// Unit k has the times from `ends[k − 1]` (0 for the first) to `ends[k]`.
    pub ends: Vec<usize>,
    /// One name per unit: `unit` and its id.
    pub names: Vec<String>,
    /// (x, y) of the first electrode of each unit in micrometres, NaN if unknown; `None` if no unit has one.
    pub electrode_um: Option<Vec<[f32; 2]>>,
}

/// The table of units without the spike times.
pub(super) struct Table {
    /// One name per unit that is read.
    pub(super) names: Vec<String>,
    /// Row of each unit in the file's table.
    pub(super) rows: Vec<usize>,
    /// Remarks on the table, one sentence each.
    pub(super) notes: Vec<String>,
    /// (x, y) of the first electrode of each unit.
    pub(super) electrode_um: Option<Vec<[f32; 2]>>,
    /// Range of each unit's times in the file's list.
    times: Vec<Range<usize>>,
}

/// The units of `file` that are called as `wanted` says, all where it says nothing; `None` where it has none.
pub(super) fn table(file: &File, wanted: &[String]) -> Result<Option<Table>> {
    let Some(shape) = file.shape(TIMES)? else {
        return Ok(None);
    };
    let [len] = shape[..] else {
        return Err(Error::recording(format!(
            "{TIMES}: expected one axis, got a shape of {shape:?}"
        )));
    };
    let Some(ends) = file.numbers("units/spike_times_index")? else {
        return Err(Error::recording(
            "units/spike_times: expected units/spike_times_index as well, found none",
        ));
    };
    let ends = offsets("units/spike_times_index", &ends.values, len)?;
    let ids = file.numbers("units/id")?.map(|ids| ids.values);
    let names = (0..ends.len()).map(|k| {
        let id = ids.as_ref().and_then(|ids| ids.get(k));
        id.map_or_else(|| format!("unit{k}"), |id| format!("unit{id}"))
    });
    let mut names: Vec<String> = names.collect();
    let mut notes = Vec::new();
    notes.extend(tell_apart(&mut names));
    let places = electrodes(file, ends.len(), &mut notes)?;
    let begins = [0].into_iter().chain(ends.iter().copied());
    let mut table = Table {
        electrode_um: places,
        rows: (0..ends.len()).collect(),
        notes,
        times: begins.zip(&ends).map(|(begin, end)| begin..*end).collect(),
        names,
    };
    if !wanted.is_empty() {
        table.keep(wanted)?;
    }
    Ok(Some(table))
}

/// Adds a number to each name that an earlier unit has; a note on them.
fn tell_apart(names: &mut [String]) -> Option<String> {
    let all: std::collections::HashSet<String> = names.iter().cloned().collect();
    if all.len() == names.len() {
        return None;
    }
    let mut taken = all;
    let mut seen = std::collections::HashSet::new();
    let mut renamed = Vec::new();
    for (row, name) in names.iter_mut().enumerate() {
        if seen.insert(name.clone()) {
            continue;
        }
        let other = (2..).map(|k| format!("{name}_{k}"));
        let free = other.into_iter().find(|other| !taken.contains(other));
        let free = free.unwrap_or_default();
        taken.insert(free.clone());
        renamed.push(format!("{name} of row {row} is {free}"));
        name.clone_from(&free);
        seen.insert(free);
    }
    Some(format!(
        "units/id: expected one id per unit, got some twice: {}",
        renamed.join(", ")
    ))
}

/// Tables with spike times elsewhere in the file.
pub(super) fn elsewhere(file: &File) -> Vec<String> {
    let times = file.datasets().filter(|path| *path != TIMES);
    let tables = times.filter_map(|path| path.strip_suffix("/spike_times"));
    let own = tables.filter(|table| file.canonical(table) == *table);
    own.map(str::to_owned).collect()
}

impl Table {
    /// Keeps the units of these names, in the order of the file.
    fn keep(&mut self, wanted: &[String]) -> Result<()> {
        if let Some(name) = wanted.iter().find(|name| !self.names.contains(name)) {
            return Err(Error::argument(format!(
                "units: expected some of [{}], got '{name}'",
                self.names.join(", ")
            )));
        }
        let kept: Vec<usize> = (0..self.names.len())
            .filter(|k| wanted.contains(&self.names[*k]))
            .collect();
        self.names = kept.iter().map(|k| self.names[*k].clone()).collect();
        self.rows = kept.iter().map(|k| self.rows[*k]).collect();
        self.times = kept.iter().map(|k| self.times[*k].clone()).collect();
        let places = self.electrode_um.as_ref();
        self.electrode_um = places.map(|of| kept.iter().map(|k| of[*k]).collect());
        Ok(())
    }

    /// Number of spikes of all units.
    pub(super) fn spikes(&self) -> usize {
        self.times.iter().map(Range::len).sum()
    }

    /// Hands the times on as they are stored, unit by unit, of each a stretch after the other: memory is that of a
    /// stretch, and what no unit has is not read.
    pub(super) fn each(
        &self,
        file: &File,
        each: &mut dyn FnMut(usize, &[f64]) -> Result<()>,
    ) -> Result<()> {
        let height = file.stretch(TIMES)?;
        let mut buffer = Vec::new();
        let mut units = self.times.iter().enumerate().peekable();
        while let Some((unit, times)) = units.next() {
            // Adjacent units are read together.
            let first = unit;
            let mut end = times.end;
            while let Some((_, next)) = units.next_if(|(_, next)| next.start == end) {
                end = next.end;
            }
            let (mut at, mut unit) = (times.start, first);
            while at < end {
                let until = ((at / height + 1) * height).min(end);
                buffer.resize(until - at, 0.0);
                file.fill(TIMES, at, &mut buffer)?;
                let mut from = at;
                while from < until {
                    let to = self.times[unit].end.min(until);
                    if to > from {
                        each(unit, &buffer[from - at..to - at])?;
                    }
                    from = to.max(from);
                    unit += usize::from(from == self.times[unit].end && from < end);
                }
                at = until;
            }
        }
        Ok(())
    }
}

/// The units of `file` with their times; `None` where it has none.
pub(super) fn read(file: &File) -> Result<Option<Units>> {
    let Some(table) = table(file, &[])? else {
        return Ok(None);
    };
    let mut times = memory::room(TIMES, table.spikes())?;
    table.each(file, &mut |_, stretch| {
        times.extend_from_slice(stretch);
        Ok(())
    })?;
    Ok(Some(Units {
        times,
        ends: table.times.iter().map(|times| times.end).collect(),
        names: table.names,
        electrode_um: table.electrode_um,
    }))
}

/// Offsets of a ragged column, of whatever width they are stored in: ascending, and none beyond `len`.
pub(super) fn offsets(path: &str, values: &[f64], len: usize) -> Result<Vec<usize>> {
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

/// Position of each unit's first electrode: `x` and `y` of the table of electrodes, else `rel_x` and `rel_y`; and a note
/// if there is a table but no position.
fn electrodes(file: &File, units: usize, notes: &mut Vec<String>) -> Result<Option<Vec<[f32; 2]>>> {
    let table = "general/extracellular_ephys/electrodes";
    let Some(of) = file.numbers("units/electrodes")? else {
        return Ok(None);
    };
    for (x, y) in [("x", "y"), ("rel_x", "rel_y")] {
        let column = |name: &str| file.numbers(&format!("{table}/{name}"));
        let (Some(x), Some(y)) = (column(x)?, column(y)?) else {
            continue;
        };
        let places = first_places(file, units, &of.values, [&x.values, &y.values])?;
        if places.iter().flatten().any(|v| v.is_finite()) {
            return Ok(Some(places));
        }
    }
    notes.push(format!(
        "{table}: expected positions (x and y, or rel_x and rel_y), got none"
    ));
    Ok(None)
}

/// Position of each unit's first electrode; `of` has the rows of all units in the table of electrodes.
fn first_places(
    file: &File,
    units: usize,
    of: &[f64],
    [x, y]: [&[f64]; 2],
) -> Result<Vec<[f32; 2]>> {
    let ends = match file.numbers("units/electrodes_index")? {
        Some(ends) => offsets("units/electrodes_index", &ends.values, of.len())?,
        None => (1..=of.len()).collect(),
    };
    if ends.len() != units {
        return Err(Error::recording(format!(
            "units/electrodes: expected those of {units} units, got those of {}",
            ends.len()
        )));
    }
    let place = |k: usize| {
        let first = if k == 0 { 0 } else { ends[k - 1] };
        let row = (first < ends[k]).then(|| of[first] as usize);
        let at = |column: &[f64]| {
            row.and_then(|row| column.get(row))
                .map_or(f32::NAN, |v| *v as f32)
        };
        [at(x), at(y)]
    };
    Ok((0..units).map(place).collect())
}
