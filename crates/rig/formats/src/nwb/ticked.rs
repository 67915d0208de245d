//! Spikes of a table of units on a clock of ticks, in order.

use std::ops::Range;

use betz_base::error::{Error, Result};
use betz_base::memory;
use betz_recording::{Behavior, Spikes};

use super::hdf5::File;
use super::units::{TIMES, Table};
use crate::Report;

/// Spikes of which parts are sorted beside each other.
const MANY: usize = 1 << 18;
/// Most such parts.
const MOST_PARTS: usize = 8;

/// Spikes in the order of their ticks, and of their units within one, in the memory that they take at last: a key each, the
/// tick above the unit.
pub(super) struct SpikeKeys {
    keys: Vec<i64>,
    /// Bits of a unit.
    bits: u32,
}

impl SpikeKeys {
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
pub(super) struct TickedSpikes {
    pub(super) spikes: Spikes,
    /// The file's time that is tick 0.
    pub(super) low: f64,
    /// The latest time.
    pub(super) high: f64,
}

/// Highest rate of a unit, in Hz, at which spike times look like milliseconds.
const SLOW_HZ: f64 = 0.02;
/// Spikes per unit from which on rates say something.
const ENOUGH: usize = 10;
/// Behaviour this many times shorter than the spikes says so, too.
const SHORTER: f64 = 100.0;

impl TickedSpikes {
    /// A warning if the times of `units` look like milliseconds.
    pub(super) fn looks_like_milliseconds(
        &self,
        units: usize,
        behavior: Option<&Behavior>,
    ) -> Option<String> {
        let mut counts = vec![0_usize; units];
        for channel in &self.spikes.channels {
            counts[*channel as usize] += 1;
        }
        let (seconds, most) = (self.high - self.low, *counts.iter().max()?);
        if most < ENOUGH || seconds <= 0.0 {
            return None;
        }
        let times = behavior.and_then(|b| b.times.as_ref());
        let of_behavior = times.and_then(|t| Some(t.last()? - t.first()?));
        let longer = of_behavior.is_some_and(|of| of > 0.0 && seconds > SHORTER * of);
        let fastest = most as f64 / seconds;
        (fastest < SLOW_HZ || longer).then(|| {
            format!(
                "warning: {TIMES}: the spikes span {seconds:.0} s, at most {fastest:.4} Hz per unit{}: they look like milliseconds; NWB wants seconds",
                of_behavior.map_or(String::new(), |of| format!(", and behaviour {of:.0} s"))
            )
        })
    }
}

/// The spikes of `table` within `window` (seconds, half-open) in ticks from `low` on, or from the earliest where that lies
/// before; times that are no numbers are left out and counted.
pub(super) fn read(
    file: &File,
    table: &Table,
    low: f64,
    tick_seconds: f64,
    window: &Range<f64>,
    report: &mut Report,
) -> Result<TickedSpikes> {
    // Of a part of the time nobody knows how many there are.
    let all = window.start == f64::NEG_INFINITY && window.end == f64::INFINITY;
    let room = if all { table.spikes() } else { 0 };
    let mut sorted = SpikeKeys::room(room, table.names.len())?;
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
                "left out: {}, not finite",
                betz_base::text::count(lost as u128, "spike time")
            ));
        }
        if unsorted > 0 {
            report.notes.push(format!(
                "sorted: spike times of {}, which were out of order",
                betz_base::text::count(unsorted as u128, "unit")
            ));
        }
        return Ok(TickedSpikes {
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
            let mut sorted = SpikeKeys::room(units * each, units).unwrap();
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
        let mut sorted = SpikeKeys::room(4, 1 << 20).unwrap();
        assert!(sorted.push((1 << 43) - 1, (1 << 20) - 1).is_ok());
        assert!(sorted.push(1 << 43, 0).is_err() && sorted.push(-1, 0).is_err());
        let spikes = sorted.spikes().unwrap();
        assert_eq!(
            (spikes.ticks[0], spikes.channels[0]),
            ((1 << 43) - 1, (1 << 20) - 1)
        );
    }
}
