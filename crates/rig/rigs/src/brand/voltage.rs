//! Voltage from a BRAND graph (Ali et al. 2024), as its adapter of Cerebus writes it to a Redis stream.
//!
//! An entry has `samples`, int16 by channel, (channels, n), and `timestamps`, one per row: u32 or u64 of the device's
//! clock, in 1/30,000 s or nanoseconds. Rows are numbered by these times, so that losses are exact: those before Redis,
//! and entries that Redis let go before they were read. The rig is a node of the graph, and says so in its state.
//!
//! Emulated from public sources (BRAND's adapter and its notes on streams), not tried with a graph.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use betz_base::{Error, Result};

use super::resp::Reply;
use super::{Entries, Place};
use crate::clock::host_ns;
use crate::order::rows::RowOrder;
use crate::rig::{Arrival, Block, Loss, MISFITS, Rig, RigCounts, Samples, Signal, check_given};

/// Ticks per second of Cerebus' clock, and of one that counts nanoseconds.
const TICKS: f64 = 30_000.0;
const NANOSECONDS: f64 = 1e9;
/// Rows per second, unless given.
const RATE: f64 = 30_000.0;

/// Source of voltage of a BRAND graph. A Redis that goes away is waited for.
pub struct BrandRig {
    entries: Entries,
    /// Node and Redis, for errors.
    address: String,
    channels: usize,
    rate: f64,
    microvolts: Option<f64>,
    /// Ticks per second of the times, once two of them were seen; before, the first of them.
    ticks: Option<f64>,
    first_time: Option<u64>,
    /// The newest time of 32 bits, and what its overflows add up to.
    newest: u32,
    overflows: u64,
    /// The newest row's time and number.
    row: Option<(u64, u64)>,
    /// Samples of the newest entry, by channel; and its runs of rows that follow each other, with the number of the first.
    columns: Vec<u8>,
    runs: VecDeque<(u64, Range<usize>)>,
    host_ns: i64,
    misfits: u32,
    order: RowOrder,
    counts: RigCounts,
}

impl BrandRig {
    /// Voltage of `channels` with `rate` rows per second (30,000 if none are given) from the input stream of the node at
    /// `place`. `microvolts` are those per bit.
    ///
    /// # Errors
    /// `InvalidArgument` without channels, or for a rate that is not above 0.
    pub fn new(
        place: Place,
        channels: usize,
        rate: Option<f64>,
        microvolts: Option<f64>,
    ) -> Result<Self> {
        let address = place.to_string();
        check_given(format_args!("{address}"), Some(channels), rate)?;
        let rate = rate.unwrap_or(RATE);
        Ok(Self {
            entries: Entries::new(place),
            address,
            channels,
            rate,
            microvolts,
            ticks: None,
            first_time: None,
            newest: 0,
            overflows: 0,
            row: None,
            columns: Vec::new(),
            runs: VecDeque::new(),
            host_ns: 0,
            misfits: 0,
            order: RowOrder::at_rate(rate),
            counts: RigCounts::default(),
        })
    }

    /// Takes the rows of an entry; the reason why it has none.
    fn read(&mut self, fields: &Reply) -> std::result::Result<(), String> {
        let field = |name| fields.get(name).map_or(&[][..], Reply::bytes);
        let (samples, times) = (field("samples"), field("timestamps"));
        let row = 2 * self.channels;
        if samples.is_empty() || !samples.len().is_multiple_of(row) {
            return Err(format!(
                "samples: expected int16 of {} channels, got {} bytes; change channels=N or the graph",
                self.channels,
                samples.len()
            ));
        }
        let rows = samples.len() / row;
        let times: Vec<u64> = match times.len() {
            length if length == 4 * rows => {
                // Nanoseconds would overflow every four seconds.
                self.ticks.get_or_insert(TICKS);
                self.unwrapped(times)
            }
            length if length == 8 * rows => times
                .as_chunks()
                .0
                .iter()
                .map(|t| u64::from_le_bytes(*t))
                .collect(),
            length => {
                return Err(format!(
                    "timestamps: expected 4 or 8 bytes for each of {rows} rows, got {length} bytes; change channels=N or the graph"
                ));
            }
        };
        // Nothing tells the unit of one time: that row is left out.
        let Some(ticks) = self.ticks_per_second(&times) else {
            return Ok(());
        };
        self.columns.clear();
        self.columns.extend_from_slice(samples);
        let numbers: Vec<u64> = times.iter().map(|time| self.number(*time, ticks)).collect();
        let mut begin = 0;
        for run in numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
            self.runs.push_back((run[0], begin..begin + run.len()));
            begin += run.len();
        }
        Ok(())
    }

    /// Times of 32 bits with their overflows: after 39.8 h a clock of 30,000 Hz begins at 0 again. A fall of less than half of
    /// the range is another clock.
    fn unwrapped(&mut self, times: &[u8]) -> Vec<u64> {
        let (times, _) = times.as_chunks();
        let unwrap = |bytes: &[u8; 4]| {
            let time = u32::from_le_bytes(*bytes);
            if self.newest.saturating_sub(time) > u32::MAX / 2 {
                self.overflows += 1 << 32;
            }
            self.newest = time;
            self.overflows + u64::from(time)
        };
        times.iter().map(unwrap).collect()
    }

    /// Ticks per second of times of 64 bits: those of Cerebus or nanoseconds, whichever is nearer to the least that two rows
    /// are apart. `None` after the first row alone.
    fn ticks_per_second(&mut self, times: &[u64]) -> Option<f64> {
        if self.ticks.is_none() {
            let before = *self.first_time.get_or_insert(times[0]);
            let all = std::iter::once(&before).chain(times);
            let apart = all.zip(times).map(|(a, b)| b.abs_diff(*a));
            let least = apart.filter(|ticks| *ticks > 0).min()? as f64;
            let middle = (TICKS * NANOSECONDS).sqrt();
            let is_ticks = least * self.rate < middle;
            self.ticks = Some(if is_ticks { TICKS } else { NANOSECONDS });
        }
        self.ticks
    }

    /// Number of the row at `time`: by the time since the row before, so that times which are rounded, or whose rate is not
    /// quite the stated one, make no gaps.
    fn number(&mut self, time: u64, ticks: f64) -> u64 {
        let rows_in = |ticks_since: f64| (ticks_since / ticks * self.rate).round();
        let number = match self.row {
            Some((before, number)) => {
                let since = i128::from(time) - i128::from(before);
                number.saturating_add_signed(rows_in(since as f64) as i64)
            }
            None => rows_in(time as f64) as u64,
        };
        self.row = Some((time, number));
        number
    }

    /// Writes a run of rows to `voltage`, row by row.
    fn transpose(&self, rows: Range<usize>, voltage: &mut Vec<i16>) {
        let all = self.columns.len() / (2 * self.channels);
        let (samples, _) = self.columns.as_chunks();
        for row in rows {
            let of_row = samples.iter().skip(row).step_by(all);
            voltage.extend(of_row.map(|s| i16::from_le_bytes(*s)));
        }
    }
}

impl Rig for BrandRig {
    fn signal(&self) -> Option<Signal> {
        self.ticks.map(|_| Signal {
            channels: self.channels,
            rate: self.rate,
            microvolts: self.microvolts,
            clock_bits: 64,
        })
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        if self.runs.is_empty() {
            let is_new = !self.entries.are_waiting();
            let Some(fields) = self.entries.next(patience)? else {
                return Ok(Arrival::Nothing);
            };
            if is_new {
                self.host_ns = host_ns();
            }
            match self.read(&fields) {
                Ok(()) => self.misfits = 0,
                Err(complaint) => {
                    self.counts.malformed += 1;
                    self.misfits += 1;
                    if self.ticks.is_none() && self.misfits == MISFITS {
                        return Err(Error::mismatch(format!("{}: {complaint}", self.address)));
                    }
                }
            }
        }
        while let Some((first, rows)) = self.runs.pop_front() {
            let Some(lost) = self.order.judge(first, rows.len() as u64, &mut self.counts) else {
                continue;
            };
            let mut voltage = block.take_voltage();
            self.transpose(rows.clone(), &mut voltage);
            *block = Block {
                epoch: self.order.epoch,
                first,
                rows: rows.len(),
                host_ns: self.host_ns,
                lost_before: Loss {
                    count: lost,
                    at_least: false,
                },
                samples: Samples::Voltage(voltage),
            };
            self.counts.blocks += 1;
            self.counts.rows += rows.len() as u64;
            return Ok(Arrival::Block);
        }
        Ok(Arrival::Nothing)
    }

    fn counts(&self) -> RigCounts {
        let of_redis = self.entries.tally.counts();
        RigCounts {
            malformed: self.counts.malformed + of_redis.malformed,
            reconnects: of_redis.reconnects,
            ..self.counts
        }
    }
}
