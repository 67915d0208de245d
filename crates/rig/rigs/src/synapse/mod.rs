//! Voltage and spike counts of Synapse devices (Science Corporation), from one of their taps: a ZeroMQ publisher of
//! messages in Protocol Buffers. `synapsectl taps list` names the taps of a device, with port and kind of message.
//!
//! A message is a row: one sample of all electrodes (`synapse.BroadbandFrame`), or the spikes of each channel in a bin
//! (`synapse.SpiketrainFrame`). A block is what came in about a millisecond, because 30,000 messages per second would
//! otherwise be 30,000 blocks. It never mixes rows that do not follow each other. Each part of a ZeroMQ message is read as
//! a message, because devices may send several together.
//!
//! The number of a message is the number of its row, so losses are exact. Numbers that go back, or forward by more than
//! ten seconds, begin another epoch. Times in messages only place the device's answers to questions for its time
//! ([`SynapseRig::with_probe`]).
//!
//! Voltage is the number that the device's converter gave, which must fit int16. A message with another value is
//! malformed, and its row counts as lost. A device that sends unsigned numbers of 16 bits needs an offset of 32,768
//! ([`SynapseRig::with_offset`]). General-purpose inputs behind the electrodes are left out.
//!
//! Emulated from public sources (Science's synapse-api and synapse-python), not tried on hardware.

#[cfg(feature = "emulate")]
pub(crate) mod emulate;
mod questions;
mod row;
#[cfg(all(test, feature = "emulate"))]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use betz_base::{Error, Result};

use self::questions::TimeQuestions;
use self::row::{Misfit, Row};
use crate::order::LONGEST_SECONDS;
use crate::order::rows::RowOrder;
use crate::rig::MISFITS;
use crate::rig::tcp::Attempts;
use crate::rig::{
    Arrival, Block, Loss, Probe, Rig, RigCounts, RigSpike, Samples, Signal, check_given, host_ns,
};
use crate::zmq::{PIECE, Subscriber};

#[cfg(feature = "emulate")]
pub(super) use self::questions::TimePacket;

/// Time that connecting may take.
const CONNECT: Duration = Duration::from_millis(500);
/// Time between two reads, in which the messages of a block gather.
const GATHERED: Duration = Duration::from_millis(1);
/// Nanoseconds after the newest row in which the device is asked for its time.
const ALIVE_NS: i64 = 1_000_000_000;

/// Rows that follow each other, on their way into a block.
#[derive(Default)]
struct Run {
    epoch: u32,
    first: u64,
    rows: usize,
    lost: u64,
}

/// Source of voltage or spike counts of a tap. It waits for the device.
pub struct SynapseRig {
    place: SocketAddr,
    subscriber: Option<Subscriber>,
    attempts: Attempts,
    has_spikes: bool,
    /// Channels, rate and microvolts per bit that were given.
    channels: Option<usize>,
    rate: Option<f64>,
    microvolts: Option<f64>,
    offset: i64,
    signal: Option<Signal>,
    /// Channels of a message.
    width: usize,
    /// The newest message, and whether its row is yet to be given.
    row: Row,
    waits: bool,
    /// Number and device time of the newest row.
    newest: Option<(u64, u64)>,
    /// Consecutive messages that are no rows for the same reason, and the reason.
    misfits: u32,
    misfit: Misfit,
    /// Host time of the newest bytes, and when the next are due.
    arrival: i64,
    next_read: Option<Instant>,
    questions: Option<TimeQuestions>,
    probe: Option<Probe>,
    order: RowOrder,
    counts: RigCounts,
}

impl SynapseRig {
    /// Voltage of the tap at `place`, `HOST:PORT`: of the first `channels` electrodes, or of all. `rate` stands in for a
    /// device that does not state one.
    ///
    /// # Errors
    /// `InvalidArgument` if `place` cannot be parsed, or for 0 channels or a rate that is not above 0.
    pub fn voltage(place: &str, channels: Option<usize>, rate: Option<f64>) -> Result<Self> {
        check_given(format_args!("synapse://{place}"), channels, rate)?;
        Ok(Self {
            place: crate::bus::resolve(place)?,
            subscriber: None,
            attempts: Attempts::default(),
            has_spikes: false,
            channels,
            rate,
            microvolts: None,
            offset: 0,
            signal: None,
            width: 0,
            row: Row::default(),
            waits: false,
            newest: None,
            misfits: 0,
            misfit: Misfit::Damage,
            arrival: 0,
            next_read: None,
            questions: None,
            probe: None,
            order: RowOrder::new(u64::MAX),
            counts: RigCounts::default(),
        })
    }

    /// Spikes of the tap at `place`, which sends the counts of bins. A tick is a bin; `rate` is bins per second.
    ///
    /// # Errors
    /// The errors of [`voltage`](Self::voltage).
    pub fn spikes(place: &str, channels: Option<usize>, rate: Option<f64>) -> Result<Self> {
        let mut rig = Self::voltage(place, channels, rate)?;
        rig.has_spikes = true;
        Ok(rig)
    }

    /// Sets the microvolts per bit.
    pub fn with_microvolts(mut self, microvolts: Option<f64>) -> Self {
        self.microvolts = microvolts;
        self
    }

    /// Sets the number that is subtracted from each value of voltage.
    pub fn with_offset(mut self, offset: u32) -> Self {
        self.offset = i64::from(offset);
        self
    }

    /// Asks the device at `device`, `HOST` or `HOST:PORT`, for its time four times per second. The port is 52340 unless
    /// another is given. Beside its subscription, this is all that the rig sends.
    ///
    /// # Errors
    /// `InvalidArgument` if `device` cannot be parsed, `Io` if the system gives no socket.
    pub fn with_probe(mut self, device: &str) -> Result<Self> {
        self.questions = Some(TimeQuestions::new(device)?);
        Ok(self)
    }

    /// Reads a message into `self.row`; false if it is no row, which is counted.
    fn read_message(&mut self, message: &[u8]) -> bool {
        let read = match self.has_spikes {
            true => self.row.read_spikes(message),
            false => self.row.read_voltage(message, self.offset),
        };
        match read.and_then(|()| self.fit()) {
            Ok(()) => self.misfits = 0,
            Err(misfit) => {
                self.counts.malformed += 1;
                let again = self.misfits > 0 && misfit.is_like(self.misfit);
                self.misfits = if again {
                    self.misfits.saturating_add(1)
                } else {
                    1
                };
                self.misfit = misfit;
            }
        }
        self.misfits == 0
    }

    /// Compares the message with the ones before. The first one tells the signal.
    fn fit(&mut self) -> std::result::Result<(), Misfit> {
        let width = self.row.voltage.len().max(self.row.spikes.len());
        let rate = match self.row.rate > 0.0 {
            true => self.row.rate,
            false => self.rate.ok_or(Misfit::NoRate)?,
        };
        if let Some(signal) = &self.signal {
            if width != self.width {
                return Err(Misfit::Width(width));
            }
            return match rate == signal.rate {
                true => Ok(()),
                false => Err(Misfit::Rate(rate)),
            };
        }
        let channels = self.channels.unwrap_or(width);
        if width < channels {
            return Err(Misfit::Width(width));
        }
        self.width = width;
        self.order.set_rate(rate);
        self.signal = Some(Signal {
            channels,
            rate,
            microvolts: self.microvolts,
            clock_bits: 64,
        });
        Ok(())
    }

    /// An error if messages are none of the expected kind again and again. Once rows have come, only another
    /// configuration of the device is one.
    fn check_misfits(&self) -> Result<()> {
        if self.misfits < MISFITS {
            return Ok(());
        }
        let kind = match self.has_spikes {
            true => "SpiketrainFrame",
            false => "BroadbandFrame",
        };
        let expected = self
            .signal
            .as_ref()
            .map_or(self.channels, |_| Some(self.width));
        let complaint = match self.misfit {
            Misfit::Width(width) => format!(
                "expected messages of {} channels, got {width}: change channels=N or the device's configuration, and \
                 begin again",
                expected.unwrap_or(1)
            ),
            Misfit::Rate(rate) => format!(
                "expected {} messages per second as before, got {rate}: begin again",
                self.signal.as_ref().map_or(0.0, |signal| signal.rate)
            ),
            _ if self.counts.rows > 0 => return Ok(()),
            Misfit::NoRate => {
                "expected the rate in each message or as rate=HZ, got neither: add rate=HZ".into()
            }
            Misfit::Value(value) => format!(
                "expected values of int16, got {value}: add offset=32768 if the device sends unsigned numbers"
            ),
            Misfit::Damage => format!(
                "expected messages synapse.{kind}, got others: `synapsectl taps list` names the port of each kind"
            ),
        };
        Err(Error::mismatch(format!(
            "synapse://{}: {complaint}",
            self.place
        )))
    }

    /// Fills `block` with the rows that came and follow each other; false if there are none.
    fn fill(&mut self, subscriber: &mut Subscriber, block: &mut Block) -> std::io::Result<bool> {
        let mut samples = match self.has_spikes {
            true => Samples::Spikes(block.take_spikes()),
            false => Samples::Voltage(block.take_voltage()),
        };
        let mut run = Run::default();
        loop {
            if !self.waits {
                match subscriber.next_part() {
                    Ok(Some(message)) => self.waits = self.read_message(message),
                    Ok(None) => break,
                    // Rows from before the damage are given first; the next call meets the damage again.
                    Err(_) if run.rows > 0 => break,
                    Err(e) => return Err(e),
                }
            }
            if self.waits && !self.gather(&mut run, &mut samples) {
                break;
            }
        }
        if run.rows == 0 {
            block.samples = samples;
            return Ok(false);
        }
        self.counts.blocks += 1;
        self.counts.rows += run.rows as u64;
        *block = Block {
            epoch: run.epoch,
            first: run.first,
            rows: run.rows,
            host_ns: self.arrival,
            lost_before: Loss {
                count: run.lost,
                at_least: false,
            },
            samples,
        };
        Ok(true)
    }

    /// Puts the row that waits behind those gathered so far; false if it does not follow them and still waits.
    fn gather(&mut self, run: &mut Run, samples: &mut Samples) -> bool {
        let number = self.row.sequence;
        if run.rows > 0 && number != run.first.wrapping_add(run.rows as u64) {
            return false;
        }
        self.waits = false;
        // A connection keeps its order: numbers that go back are counted anew, but for one that a tap repeats.
        if self.newest.is_some_and(|(newest, _)| number == newest) {
            self.counts.duplicates += 1;
            return true;
        }
        self.newest = Some((number, self.row.time_ns));
        let Some(gap) = self.order.judge(number, 1, &mut self.counts) else {
            return true;
        };
        if run.rows == 0 {
            (run.epoch, run.first, run.lost) = (self.order.epoch, number, gap);
        }
        run.rows += 1;
        let channels = self.signal.as_ref().map_or(0, |signal| signal.channels);
        match samples {
            Samples::Voltage(voltage) => voltage.extend(&self.row.voltage[..channels]),
            Samples::Spikes(spikes) => {
                for (channel, count) in (0..).zip(&self.row.spikes[..channels]) {
                    let spike = RigSpike {
                        tick: number,
                        channel,
                        unit: 0,
                    };
                    spikes.extend(std::iter::repeat_n(spike, *count as usize));
                }
            }
            Samples::Features(_) => {}
        }
        true
    }

    /// Waits at most `patience` for more bytes, after a pause in which they gather.
    fn read_more(
        &mut self,
        subscriber: &mut Subscriber,
        patience: Duration,
    ) -> std::io::Result<()> {
        let started = Instant::now();
        let pause = self
            .next_read
            .map_or(Duration::ZERO, |due| due.saturating_duration_since(started));
        if !pause.is_zero() {
            std::thread::sleep(pause.min(patience));
            if pause >= patience {
                return Ok(());
            }
        }
        let left = patience.saturating_sub(started.elapsed());
        // Whole milliseconds, because another patience costs a call of the system.
        let left = Duration::from_millis(left.as_micros().div_ceil(1000) as u64);
        let came = subscriber.read_more(left)?;
        if came > 0 {
            self.arrival = host_ns();
            // More than one read takes is there already.
            self.next_read = (came < PIECE).then(|| Instant::now() + GATHERED);
        }
        Ok(())
    }

    /// Fills `block` with rows that are there, or come at the next read; false if there are none.
    fn wait_for_rows(
        &mut self,
        subscriber: &mut Subscriber,
        block: &mut Block,
        patience: Duration,
    ) -> std::io::Result<bool> {
        if self.fill(subscriber, block)? {
            return Ok(true);
        }
        self.read_more(subscriber, patience)?;
        self.fill(subscriber, block)
    }

    /// Asks the device for its time while rows come, and takes its answers.
    fn attend_clock(&mut self) {
        let (Some(questions), Some((number, row_ns)), Some(signal)) =
            (&mut self.questions, self.newest, &self.signal)
        else {
            return;
        };
        if let Some(answer) = questions.take(&mut self.counts.malformed) {
            let nanoseconds = (i128::from(answer.device_ns) - i128::from(row_ns)) as f64;
            if nanoseconds.abs() > LONGEST_SECONDS * 1e9 {
                // Another clock than that of the messages.
                self.counts.malformed += 1;
            } else {
                let rows = (nanoseconds * 1e-9 * signal.rate).round() as i64;
                self.probe = Some(Probe {
                    asked_ns: answer.asked_ns,
                    device: number.saturating_add_signed(rows),
                    answered_ns: answer.answered_ns,
                });
            }
        }
        if host_ns() - self.arrival < ALIVE_NS {
            questions.ask();
        }
    }
}

impl Rig for SynapseRig {
    fn signal(&self) -> Option<Signal> {
        self.signal.clone()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let started = Instant::now();
        loop {
            self.attend_clock();
            let left = patience.saturating_sub(started.elapsed());
            if let Some(mut subscriber) = self.subscriber.take() {
                let is_filled = match self.wait_for_rows(&mut subscriber, block, left) {
                    Ok(is_filled) => {
                        self.subscriber = Some(subscriber);
                        is_filled
                    }
                    Err(e) => {
                        let is_damaged = e.kind() == std::io::ErrorKind::InvalidData;
                        self.counts.malformed += u64::from(is_damaged);
                        false
                    }
                };
                if is_filled {
                    return Ok(Arrival::Block);
                }
                self.check_misfits()?;
            } else if self.attempts.is_due(left) {
                self.subscriber = Subscriber::connect(self.place, CONNECT).ok();
                if self.subscriber.is_some() {
                    self.counts.reconnects += self.attempts.succeed();
                }
            }
            if started.elapsed() >= patience {
                return Ok(Arrival::Nothing);
            }
        }
    }

    fn probe(&mut self) -> Option<Probe> {
        self.probe.take()
    }

    fn counts(&self) -> RigCounts {
        self.counts
    }
}
