//! Voltage from a stream of Lab Streaming Layer, by its name. liblsl is looked for at run time.
//!
//! A sample is a row. int16 is taken as it is; float32, which holds µV, becomes int16. A block is what came in about a
//! millisecond, because a program may send each sample alone.
//!
//! Samples have times and no numbers, so [`Block::first`] counts the rows that came and those that are known to be
//! missing. Across a reconnection, and where times leave a gap in the regular rate, the missing rows are counted by the
//! times. Each such count is flagged as a lower bound: a program that stamps rows when it sends them shows no row that
//! the device lost before. If times jitter, as those of such a program do, a loss is told half a second late, when all
//! rows since are late. In the first second of a connection the jitter is measured, and no loss is counted. Times that go
//! back by more than a second, or forward by more than ten, begin another epoch.
//!
//! There are no probes. liblsl measures the difference between the clocks of two computers. A probe states which row the
//! device had at an instant. That needs the delay from the device to the program that stamps its rows, which LSL does
//! not know, so a probe would claim a bound that may be wrong.
//!
//! Emulated from public sources (liblsl itself), not tried on hardware.

use std::time::{Duration, Instant};

use betz_base::{Error, Result};

use super::Search;
use super::library::{Format, Inlet, Room};
use super::times::{Place, RowTimes};
use crate::order::LONGEST_SECONDS;
use crate::rig::{
    Arrival, Block, Loss, LossReport, MICROVOLTS, Rig, RigCounts, Samples, Signal, check_given,
    host_ns, to_bits,
};

/// Most values of a block.
const MOST_VALUES: usize = 1 << 19;
/// Most rows of a block.
const MOST_ROWS: usize = 1 << 14;
/// Samples per second for which there is room if nobody states the rate.
const UNKNOWN_RATE: f64 = 1000.0;
/// Time between two reads, in which the samples of a block gather.
const GATHERED: Duration = Duration::from_millis(1);

/// Values of rows, as the stream sends them.
enum Values {
    Int16(Vec<i16>),
    Float32(Vec<f32>),
}

/// An open stream, and the rows of it that came.
struct Connection {
    inlet: Inlet,
    values: Values,
    times: Vec<f64>,
    /// Rows that came, and the number of those that were given.
    rows: usize,
    given: usize,
    /// Arrival of the newest rows, and when the next read is due.
    arrival: i64,
    next_read: Option<Instant>,
    is_gone: bool,
}

impl Connection {
    fn new(inlet: Inlet, values: fn(usize) -> Values) -> Self {
        let rows = (MOST_VALUES / inlet.channels.max(1)).clamp(1, MOST_ROWS);
        Self {
            values: values(rows * inlet.channels),
            times: vec![0.0; rows],
            rows: 0,
            given: 0,
            arrival: 0,
            next_read: None,
            is_gone: false,
            inlet,
        }
    }

    /// Waits at most `patience` for rows, and takes all that are there; those from before must all be given.
    fn read(&mut self, patience: Duration) {
        (self.rows, self.given) = (0, 0);
        let started = Instant::now();
        let pause = self
            .next_read
            .map_or(Duration::ZERO, |due| due.saturating_duration_since(started));
        if !pause.is_zero() {
            std::thread::sleep(pause.min(patience));
            if pause > patience {
                return;
            }
        }
        let all = self.times.len();
        self.pull(all, Duration::ZERO);
        let left = patience.saturating_sub(started.elapsed());
        if self.rows == 0 && !self.is_gone && !left.is_zero() {
            // A chunk waits until it is full, so the wait is for one row.
            self.pull(1, left);
            if self.rows > 0 {
                self.pull(all - 1, Duration::ZERO);
            }
        }
        if self.rows > 0 {
            self.arrival = host_ns();
            // More rows than fit may be there already.
            self.next_read = (self.rows < all).then(|| Instant::now() + GATHERED);
        }
    }

    /// Pulls at most `rows` behind those that came.
    fn pull(&mut self, rows: usize, patience: Duration) {
        let (from, width) = (self.rows, self.inlet.channels);
        let times = &mut self.times[from..from + rows];
        let part = from * width..(from + rows) * width;
        let pulled = match &mut self.values {
            Values::Int16(values) => self.inlet.pull_chunk(&mut values[part], times, patience),
            Values::Float32(values) => self.inlet.pull_chunk(&mut values[part], times, patience),
        };
        match pulled {
            Some(pulled) => self.rows += pulled,
            None => self.is_gone = true,
        }
    }

    /// Appends the first `channels` values of a row to `voltage`.
    fn append(&self, row: usize, channels: usize, bits: f32, voltage: &mut Vec<i16>) {
        let part = row * self.inlet.channels..row * self.inlet.channels + channels;
        match &self.values {
            Values::Int16(values) => voltage.extend(&values[part]),
            Values::Float32(values) => {
                voltage.extend(values[part].iter().map(|value| to_bits(*value, bits)));
            }
        }
    }
}

/// Source of voltage of a stream. It waits for the stream.
pub struct LslRig {
    name: String,
    search: Search,
    channels: Option<usize>,
    rate: Option<f64>,
    microvolts: Option<f64>,
    connection: Option<Connection>,
    /// Signal and format, of the first connection.
    signal: Option<(Signal, Format)>,
    times: Option<RowTimes>,
    /// Place of the next row, if it is judged and not given.
    place: Option<Place>,
    epoch: u32,
    next: u64,
    counts: RigCounts,
}

impl LslRig {
    /// The stream called `name`: its first `channels`, or all. `rate` is that of a stream of irregular rate.
    ///
    /// # Errors
    /// `Io` where there is no liblsl; `InvalidArgument` for a name with a zero byte, 0 channels, or a rate that is not
    /// above 0.
    pub fn named(name: &str, channels: Option<usize>, rate: Option<f64>) -> Result<Self> {
        check_given(format_args!("lsl://{name}"), channels, rate)?;
        Ok(Self {
            name: name.into(),
            search: Search::new(name)?,
            channels,
            rate,
            microvolts: None,
            connection: None,
            signal: None,
            times: None,
            place: None,
            epoch: 0,
            next: 0,
            counts: RigCounts::default(),
        })
    }

    /// Sets the microvolts per bit: of int16 as it comes, or of the int16 that float32 becomes.
    pub fn with_microvolts(mut self, microvolts: Option<f64>) -> Self {
        self.microvolts = microvolts;
        self
    }

    /// Looks for the stream, and opens it if it is there.
    fn connect(&mut self, patience: Duration) -> Result<()> {
        let room = Room {
            seconds: LONGEST_SECONDS,
            irregular_rate: self.rate.unwrap_or(UNKNOWN_RATE),
        };
        let Some(inlet) = self.search.open(room, patience)? else {
            return Ok(());
        };
        let values: fn(usize) -> Values = match inlet.format {
            Format::INT16 => |count| Values::Int16(vec![0; count]),
            Format::FLOAT32 => |count| Values::Float32(vec![0.0; count]),
            other => {
                let name = other.name();
                return Err(self.mismatch(format_args!("expected int16 or float32, got {name}")));
            }
        };
        let signal = self.signal_of(&inlet)?;
        match &self.signal {
            None => {
                self.times = Some(RowTimes::new(signal.rate));
                self.signal = Some((signal, inlet.format));
            }
            Some((before, format)) if *before == signal && *format == inlet.format => {
                self.counts.reconnects += 1;
                if let Some(times) = &mut self.times {
                    times.reconnect();
                }
            }
            Some((before, format)) => {
                return Err(self.mismatch(format_args!(
                    "expected {} channels of {} at {} Hz as before, got {} of {} at {}: begin again",
                    before.channels,
                    format.name(),
                    before.rate,
                    signal.channels,
                    inlet.format.name(),
                    signal.rate
                )));
            }
        }
        self.connection = Some(Connection::new(inlet, values));
        Ok(())
    }

    /// The signal of a stream.
    fn signal_of(&self, inlet: &Inlet) -> Result<Signal> {
        let channels = self.channels.unwrap_or(inlet.channels);
        if inlet.channels < channels || channels == 0 {
            return Err(self.mismatch(format_args!(
                "expected at least {} channels, got {}: change channels=N",
                channels.max(1),
                inlet.channels
            )));
        }
        let stated = Some(inlet.rate).filter(|rate| rate.is_finite() && *rate > 0.0);
        let Some(rate) = stated.or(self.rate) else {
            return Err(self.mismatch(format_args!(
                "expected the rate in the stream or as rate=HZ, got neither: add rate=HZ"
            )));
        };
        let default = (inlet.format == Format::FLOAT32).then_some(MICROVOLTS);
        Ok(Signal {
            channels,
            rate,
            microvolts: self.microvolts.or(default),
            clock_bits: 64,
        })
    }

    fn mismatch(&self, complaint: std::fmt::Arguments<'_>) -> Error {
        Error::mismatch(format!("lsl://{}: {complaint}", self.name))
    }

    /// Fills `block` with the rows that came and follow each other; false if there are none.
    fn give(&mut self, block: &mut Block) -> bool {
        let (Some(connection), Some((signal, _)), Some(times)) =
            (&mut self.connection, &self.signal, &mut self.times)
        else {
            return false;
        };
        let from = connection.given;
        if from == connection.rows {
            return false;
        }
        let place = match self.place.take() {
            Some(place) => place,
            None => times.judge(connection.times[from]),
        };
        let mut lost_before = Loss::default();
        match place {
            Place::Next => {}
            Place::After(loss) => {
                lost_before = loss;
                self.next += loss.count;
                self.counts.lost += loss.count;
                self.counts.bounds += 1;
            }
            Place::OtherClock => {
                self.counts.restarts += 1;
                (self.epoch, self.next) = (self.epoch + 1, 0);
            }
        }
        let bits = (1.0 / signal.microvolts.unwrap_or(1.0)) as f32;
        let mut voltage = block.take_voltage();
        let mut row = from;
        loop {
            connection.append(row, signal.channels, bits, &mut voltage);
            row += 1;
            if row == connection.rows {
                break;
            }
            match times.judge(connection.times[row]) {
                Place::Next => {}
                place => {
                    self.place = Some(place);
                    break;
                }
            }
        }
        connection.given = row;
        *block = Block {
            epoch: self.epoch,
            first: self.next,
            rows: row - from,
            host_ns: connection.arrival,
            lost_before,
            samples: Samples::Voltage(voltage),
        };
        self.next += block.rows as u64;
        self.counts.blocks += 1;
        self.counts.rows += block.rows as u64;
        true
    }
}

impl Rig for LslRig {
    fn signal(&self) -> Option<Signal> {
        self.signal.as_ref().map(|(signal, _)| signal.clone())
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let started = Instant::now();
        loop {
            if self.give(block) {
                return Ok(Arrival::Block);
            }
            let left = patience.saturating_sub(started.elapsed());
            match &mut self.connection {
                Some(connection) if connection.is_gone => self.connection = None,
                Some(connection) => connection.read(left),
                None => self.connect(left)?,
            }
            if self.give(block) {
                return Ok(Arrival::Block);
            }
            if started.elapsed() >= patience {
                return Ok(Arrival::Nothing);
            }
        }
    }

    /// Losses that times show are flagged as lower bounds. Losses before the stream show nowhere.
    fn loss_report(&self) -> LossReport {
        LossReport::Unknown
    }

    fn counts(&self) -> RigCounts {
        self.counts
    }
}
