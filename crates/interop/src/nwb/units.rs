//! The table of units: spike times, and where the electrodes are.

use std::ops::Range;

use betz_base::error::{Error, Result};
use betz_base::memory;
use betz_recording::Spikes;

use super::hdf5::File;
use crate::Report;

/// Times of all spikes, unit by unit.
const TIMES: &str = "units/spike_times";
/// Spikes of which parts are sorted beside each other.
const MANY: usize = 1 << 18;
/// Most such parts.
const MOST_PARTS: usize = 8;

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

/// The table of units, but for the times of their spikes.
pub(super) struct Table {
    /// One name per unit that is read.
    pub(super) names: Vec<String>,
    /// (x, y) of their first electrodes.
    pub(super) electrode_um: Option<Vec<[f32; 2]>>,
    /// Where the times of each stand in the file.
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
            "units/spike_times: expected units/spike_times_index beside it, got none",
        ));
    };
    let ends = offsets("units/spike_times_index", &ends.values, len)?;
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
    let begins = [0].into_iter().chain(ends.iter().copied());
    let mut table = Table {
        electrode_um: electrodes(file, ends.len())?,
        times: begins.zip(&ends).map(|(begin, end)| begin..*end).collect(),
        names,
    };
    if !wanted.is_empty() {
        table.keep(wanted)?;
    }
    Ok(Some(table))
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
        self.times = kept.iter().map(|k| self.times[*k].clone()).collect();
        let places = self.electrode_um.as_ref();
        self.electrode_um = places.map(|of| kept.iter().map(|k| of[*k]).collect());
        Ok(())
    }

    /// Spikes of all units.
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
            // What follows without a gap is read with it.
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

/// Spikes in the order of their ticks, and of their units within one, in the memory that they take at last: a key each, the
/// tick above the unit.
pub(super) struct Sorted {
    keys: Vec<i64>,
    /// Bits of a unit.
    bits: u32,
}

impl Sorted {
    /// Room for `spikes` of `units`.
    pub(super) fn room(spikes: usize, units: usize) -> Result<Self> {
        memory::plan("spikes", spikes as u128 * 12)?;
        Ok(Self {
            keys: memory::room("spikes", spikes)?,
            bits: usize::BITS - units.saturating_sub(1).leading_zeros(),
        })
    }

    /// Puts a spike of `unit` into `tick`.
    pub(super) fn push(&mut self, tick: i64, unit: usize) -> Result<()> {
        let most = i64::MAX >> self.bits;
        if !(0..=most).contains(&tick) {
            return Err(Error::recording(format!(
                "{TIMES}: expected times from tick 0 to {most}, got tick {tick}; ask for longer ticks"
            )));
        }
        self.keys.push(tick << self.bits | unit as i64);
        Ok(())
    }

    fn clear(&mut self) {
        self.keys.clear();
    }

    /// The spikes.
    pub(super) fn spikes(mut self) -> Result<Spikes> {
        sort(&mut self.keys);
        let unit = (1_i64 << self.bits) - 1;
        let mut channels = memory::room("spikes", self.keys.len())?;
        for key in &mut self.keys {
            channels.push((*key & unit) as u32);
            *key >>= self.bits;
        }
        Ok(Spikes::new(self.keys, channels))
    }
}

/// Sorts, many with a thread for each processor. Units one after the other, each in order, are runs, and so are sorted
/// parts: a stable sort merges them.
fn sort(keys: &mut [i64]) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if keys.len() >= MANY && processors > 1 {
        let part = keys.len().div_ceil(processors.min(MOST_PARTS));
        std::thread::scope(|scope| {
            for part in keys.chunks_mut(part) {
                // Where there is no thread, what follows sorts this part, too.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || part.sort());
            }
        });
    }
    keys.sort();
}

/// Spikes on a clock of ticks, and between which times they lie.
pub(super) struct Ticked {
    pub(super) spikes: Spikes,
    /// The file's time that is tick 0.
    pub(super) low: f64,
    /// The latest time.
    pub(super) high: f64,
}

/// The spikes of `table` within `window` (seconds, half-open) in ticks from `low` on, or from the earliest where that lies
/// before; times that are no numbers are left out and counted.
pub(super) fn ticked(
    file: &File,
    table: &Table,
    low: f64,
    tick_seconds: f64,
    window: &Range<f64>,
    report: &mut Report,
) -> Result<Ticked> {
    // Of a part of the time nobody knows how many there are.
    let all = window.start == f64::NEG_INFINITY && window.end == f64::INFINITY;
    let room = if all { table.spikes() } else { 0 };
    let mut sorted = Sorted::room(room, table.names.len())?;
    let (mut low, mut least, mut high) = (low, low, low);
    loop {
        let (mut lost, mut unsorted) = (0_usize, 0_usize);
        // The unit that is read, its last time, and whether one came out of order.
        let (mut of, mut last, mut mixed) = (usize::MAX, f64::NEG_INFINITY, false);
        table.each(file, &mut |unit, times| {
            if unit != of {
                (of, last, mixed) = (unit, f64::NEG_INFINITY, false);
            }
            for &time in times {
                if !time.is_finite() {
                    lost += 1;
                    continue;
                }
                if time < last && !mixed {
                    (unsorted, mixed) = (unsorted + 1, true);
                }
                last = time;
                if !window.contains(&time) {
                    continue;
                }
                (least, high) = (least.min(time), high.max(time));
                // Where one lies before tick 0, all are read again, from the earliest on.
                if least >= low {
                    super::check_span(least, high)?;
                    if !all && sorted.keys.len() == sorted.keys.capacity() {
                        memory::plan("spikes", sorted.keys.len().max(1 << 12) as u128 * 16)?;
                    }
                    sorted.push(tick(time - low, tick_seconds), unit)?;
                }
            }
            Ok(())
        })?;
        super::check_span(least, high)?;
        if least < low {
            low = least;
            sorted.clear();
            continue;
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
        return Ok(Ticked {
            spikes: sorted.spikes()?,
            low,
            high,
        });
    }
}

/// The tick that covers `seconds`; a time that was a whole number of ticks before it was rounded is that tick.
pub(super) fn tick(seconds: f64, tick_seconds: f64) -> i64 {
    (seconds / tick_seconds + 1e-6).floor() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_come_in_the_order_of_ticks_and_units() {
        for (units, each) in [(1, 5), (3, 1000), (7, 1 << 17)] {
            let mut sorted = Sorted::room(units * each, units).unwrap();
            let mut expected = Vec::new();
            for unit in (0..units).rev() {
                // Every other unit goes back in time.
                for i in 0..each as i64 {
                    let tick = if unit % 2 == 0 {
                        i * 3
                    } else {
                        2 * (each as i64 - i)
                    };
                    sorted.push(tick, unit).unwrap();
                    expected.push((tick, unit as u32));
                }
            }
            expected.sort_unstable();
            let spikes = sorted.spikes().unwrap();
            let got = spikes.ticks.into_iter().zip(spikes.channels);
            assert!(got.eq(expected), "{units} units of {each}");
        }
    }

    #[test]
    fn ticks_that_do_not_fit_are_refused() {
        let mut sorted = Sorted::room(4, 1 << 20).unwrap();
        assert!(sorted.push((1 << 43) - 1, (1 << 20) - 1).is_ok());
        assert!(sorted.push(1 << 43, 0).is_err() && sorted.push(-1, 0).is_err());
        let spikes = sorted.spikes().unwrap();
        assert_eq!(
            (spikes.ticks[0], spikes.channels[0]),
            ((1 << 43) - 1, (1 << 20) - 1)
        );
    }
}
