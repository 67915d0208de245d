//! Voltage and spikes from Intan RHX, which serves them over TCP (commands at port 5000, waveforms at 5001, spikes at
//! 5002).
//!
//! Waveforms come in blocks: the number 0x2ef07a08, then 128 times the number of the sample, u32, and a u16 for each
//! enabled signal. A spike is 14 bytes: the number 0x3ae2710f, the name of the channel in five characters, the number
//! of the sample, u32, and the unit, u8. With a list of channels (`enable=`) the rig enables their output, stops all
//! others, and starts the controller; without one it changes nothing, and takes what was enabled in RHX.
//!
//! Losses of voltage are exact, by the numbers of the samples. Those of spikes are unknown. RHX writes blocks of 4.27
//! ms at 30 kHz at the least, which is the delay of this source.
//!
//! Emulated from public sources (Intan-RHX 3.4), not tried on hardware.

#[cfg(feature = "emulate")]
pub(crate) mod emulate;
#[cfg(all(test, feature = "emulate"))]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use betz_base::{Error, Result};

use crate::order::rows::RowOrder;
use crate::rig::tcp::{Attempts, Connection};
use crate::rig::{
    Arrival, Block, Loss, LossReport, Rig, RigCounts, RigSpike, Samples, Signal, host_ns,
};
use crate::udp::word;

pub(super) const WAVEFORMS: u32 = 0x2ef0_7a08;
pub(super) const SPIKE: u32 = 0x3ae2_710f;
/// Samples of a block.
pub(super) const ROWS: usize = 128;
/// Bytes of a spike.
pub(super) const SPIKE_BYTES: usize = 14;
/// Microvolts per bit.
const MICROVOLTS: f64 = 0.195;
/// Most signals of a sample.
const MOST_SIGNALS: usize = 8192;
/// Time that a reply may take.
const REPLY: Duration = Duration::from_secs(2);
/// Identity of a spike that is an artefact, and of one that belongs to no unit.
const ARTEFACT: u8 = 0x80;
const UNCLASSIFIED: u8 = 0x40;

/// Signals that a rig takes from RHX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RhxBand {
    /// All frequencies.
    Wide,
    /// Below RHX' low-pass.
    Low,
    /// Above RHX' high-pass.
    High,
    /// Spikes that RHX found.
    Spikes,
}

impl RhxBand {
    /// Parses `wide`, `low`, `high` or `spikes`.
    ///
    /// # Errors
    /// `InvalidArgument` for any other text.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "wide" => Ok(Self::Wide),
            "low" => Ok(Self::Low),
            "high" => Ok(Self::High),
            "spikes" => Ok(Self::Spikes),
            _ => Err(Error::argument(format!(
                "band of Intan RHX: expected wide, low, high or spikes, got {name}"
            ))),
        }
    }

    /// End of the name of the setting that enables it for a channel.
    fn setting(self) -> &'static str {
        match self {
            Self::Wide => "TCPDataOutputEnabled",
            Self::Low => "TCPDataOutputEnabledLow",
            Self::High => "TCPDataOutputEnabledHigh",
            Self::Spikes => "TCPDataOutputEnabledSpike",
        }
    }
}

/// Settings of an [`RhxRig`].
#[derive(Debug, Clone, PartialEq)]
pub struct RhxOptions {
    /// Signals to take.
    pub band: RhxBand,
    /// Names of the channels to enable, such as `A-000`, in the order of a row; none: RHX is left as it is.
    pub enable: Vec<String>,
    /// Blocks of 128 samples that RHX collects before it writes them.
    pub blocks: u32,
    /// Channels of a row, if none are named; the first ones of those that come.
    pub channels: Option<usize>,
    /// Ports of waveforms and of spikes.
    pub ports: [u16; 2],
}

impl Default for RhxOptions {
    fn default() -> Self {
        Self {
            band: RhxBand::Wide,
            enable: Vec::new(),
            blocks: 1,
            channels: None,
            ports: [5001, 5002],
        }
    }
}

/// Source of voltage or spikes of Intan RHX. It waits for RHX.
pub struct RhxRig {
    place: SocketAddr,
    options: RhxOptions,
    commands: Option<Connection>,
    data: Option<Connection>,
    attempts: Attempts,
    rate: Option<f64>,
    /// Signals of a sample, once a block was recognised.
    signals: Option<usize>,
    /// Rows of the first block that are already given.
    given: usize,
    /// True while bytes are passed over until a block is found.
    is_searching: bool,
    /// Number of the newest sample, with what 32 bits have gone round.
    newest: Option<u64>,
    order: RowOrder,
    counts: RigCounts,
}

/// Names of channels in `A-000..A-031,B-004`.
///
/// # Errors
/// `InvalidArgument` if a name is not a letter, `-` and three digits, or a range runs backwards or over two ports.
pub(super) fn channel_names(list: &str) -> Result<Vec<String>> {
    let refused = |got: &str| {
        Error::argument(format!(
            "channels of Intan RHX: expected names such as A-000 or A-000..A-031, separated by commas, got \"{got}\""
        ))
    };
    let parse = |name: &str| {
        let (port, number) = name.split_once('-')?;
        let is_name = port.len() == 1 && number.len() == 3;
        let is_port = port.bytes().all(|b| b.is_ascii_uppercase());
        (is_name && is_port).then_some(())?;
        number
            .parse::<u32>()
            .ok()
            .map(|number| (port.to_string(), number))
    };
    let mut names = Vec::new();
    for part in list.split(',') {
        let (from, to) = part.split_once("..").unwrap_or((part, part));
        let (Some(from), Some(to)) = (parse(from), parse(to)) else {
            return Err(refused(part));
        };
        if from.0 != to.0 || from.1 > to.1 {
            return Err(refused(part));
        }
        names.extend((from.1..=to.1).map(|n| format!("{}-{n:03}", from.0)));
    }
    Ok(names)
}

impl RhxRig {
    /// RHX whose commands are at `place`, `HOST:PORT`.
    ///
    /// # Errors
    /// `InvalidArgument` if `place` cannot be parsed, or for spikes without names of channels.
    pub fn new(place: &str, options: RhxOptions) -> Result<Self> {
        if options.band == RhxBand::Spikes && options.enable.is_empty() {
            return Err(Error::argument(format!(
                "rhx://{place}: expected enable=A-000..A-031 with band=spikes, because spikes name their channels, \
                 got none"
            )));
        }
        let mut options = options;
        if options.channels.is_none() && !options.enable.is_empty() {
            options.channels = Some(options.enable.len());
        }
        Ok(Self {
            place: crate::bus::resolve(place)?,
            options,
            commands: None,
            data: None,
            attempts: Attempts::default(),
            rate: None,
            signals: None,
            given: 0,
            is_searching: true,
            newest: None,
            order: RowOrder::new(u64::MAX),
            counts: RigCounts::default(),
        })
    }

    /// Value of a setting of RHX.
    fn get(commands: &mut Connection, name: &str) -> std::io::Result<String> {
        commands.write(format!("get {name};").as_bytes())?;
        let started = Instant::now();
        loop {
            // `Return: NAME VALUE`, without an end that could be relied on: all that came at once.
            let text = String::from_utf8_lossy(commands.bytes()).into_owned();
            let value = text
                .rsplit_once("Return: ")
                .and_then(|(_, rest)| rest.split_once(' '));
            if let Some((_, value)) = value.filter(|v| !v.1.trim().is_empty()) {
                commands.consume(text.len());
                return Ok(value.trim().trim_end_matches(';').to_string());
            }
            if text.len() > 1 << 12 {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            if started.elapsed() > REPLY {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            commands.read_more(REPLY)?;
        }
    }

    /// Connects to commands and data, and configures RHX if channels are named.
    fn open(&mut self) -> std::io::Result<()> {
        let mut commands = Connection::open(self.place, REPLY)?;
        let rate = Self::get(&mut commands, "sampleratehertz")?.parse::<f64>();
        let Some(rate) = rate.ok().filter(|r| r.is_finite() && *r > 0.0) else {
            return Err(std::io::ErrorKind::InvalidData.into());
        };
        let is_running = Self::get(&mut commands, "runmode")?.eq_ignore_ascii_case("run");
        let spikes = self.options.band == RhxBand::Spikes;
        let configures = !self.options.enable.is_empty() && !is_running;
        if configures {
            let mut text = "execute ClearAllDataOutputs;".to_string();
            text += &format!("set TCPNumberDataBlocksPerWrite {};", self.options.blocks);
            for name in &self.options.enable {
                text += &format!("set {name}.{} true;", self.options.band.setting());
            }
            commands.write(text.as_bytes())?;
        }
        let connect = if spikes {
            "execute ConnectTCPSpikeDataOutput;"
        } else {
            "execute ConnectTCPWaveformDataOutput;"
        };
        commands.write(connect.as_bytes())?;
        let port = self.options.ports[usize::from(spikes)];
        self.data = Some(Connection::open(
            SocketAddr::new(self.place.ip(), port),
            REPLY,
        )?);
        if configures {
            commands.write(b"set runmode run;")?;
        }
        self.commands = Some(commands);
        if self.rate != Some(rate) {
            self.rate = Some(rate);
            self.order.set_rate(rate);
        }
        (self.is_searching, self.given, self.signals) = (true, 0, None);
        self.counts.reconnects += self.attempts.succeed();
        Ok(())
    }

    fn lose(&mut self, error: &std::io::Error) {
        self.counts.malformed += u64::from(error.kind() == std::io::ErrorKind::InvalidData);
        (self.commands, self.data) = (None, None);
    }

    /// The number of a sample, unwrapped.
    fn unwrap(&mut self, number: u32) -> u64 {
        let unwrapped = match self.newest {
            Some(newest) => {
                let since = number.wrapping_sub(newest as u32) as i32;
                newest.saturating_add_signed(i64::from(since))
            }
            None => u64::from(number),
        };
        self.newest = Some(unwrapped);
        unwrapped
    }

    /// Gives the next rows of the first block of the bytes that came, if it is whole.
    fn give_rows(&mut self, block: &mut Block) -> std::io::Result<bool> {
        if self.is_searching && !self.search()? {
            return Ok(false);
        }
        let (Some(signals), Some(data)) = (self.signals, &mut self.data) else {
            return Ok(false);
        };
        let (row, size) = (4 + 2 * signals, block_size(signals));
        let bytes = data.bytes();
        if bytes.len() < size {
            return Ok(false);
        }
        if u32::from_le_bytes(word(bytes, 0)) != WAVEFORMS {
            self.counts.malformed += 1;
            self.is_searching = true;
            return Ok(true);
        }
        // Rows of the block that follow each other.
        let number = |r: usize| u32::from_le_bytes(word(bytes, 4 + r * row));
        let from = self.given;
        let until = (from + 1..ROWS)
            .find(|r| number(*r) != number(*r - 1).wrapping_add(1))
            .unwrap_or(ROWS);
        let first = number(from);
        let channels = self.options.channels.unwrap_or(signals).min(signals);
        let mut voltage = block.take_voltage();
        for r in from..until {
            let at = 4 + r * row + 4;
            let words = bytes[at..at + 2 * channels].chunks_exact(2);
            // Offset binary: the middle is 32,768.
            voltage.extend(words.map(|b| (u16::from_le_bytes([b[0], b[1]]) ^ 0x8000) as i16));
        }
        self.given = until;
        if until == ROWS {
            self.given = 0;
            data.consume(size);
        }
        let (before, first, rows) = (self.newest, self.unwrap(first), until - from);
        if before.is_some_and(|newest| first <= newest) {
            // A stream keeps its order, so that the controller has begun anew.
            self.order.restart(&mut self.counts);
        }
        let lost = self.order.judge(first, rows as u64, &mut self.counts);
        self.newest = Some(first + rows as u64 - 1);
        *block = Block {
            epoch: self.order.epoch,
            first,
            rows: if lost.is_some() { rows } else { 0 },
            host_ns: host_ns(),
            lost_before: Loss {
                count: lost.unwrap_or(0),
                at_least: false,
            },
            samples: Samples::Voltage(voltage),
        };
        if lost.is_some() {
            self.counts.blocks += 1;
            self.counts.rows += rows as u64;
        }
        Ok(true)
    }

    /// Finds a block: its number, and another number where the next one begins. Passes bytes over; false if none is
    /// found yet.
    fn search(&mut self) -> std::io::Result<bool> {
        let Some(data) = &mut self.data else {
            return Ok(false);
        };
        let bytes = data.bytes();
        let (mut at, magic) = (0, WAVEFORMS.to_le_bytes());
        while let Some(found) = find(&bytes[at..], &magic) {
            let start = at + found;
            let sizes = match self.signals {
                Some(signals) => Some(block_size(signals)),
                None => next_block(&bytes[start..]),
            };
            let Some(size) = sizes else {
                // Its end has not come, or it is no block at all.
                if bytes.len() - start > block_size(MOST_SIGNALS) {
                    at = start + 1;
                    continue;
                }
                data.consume(start);
                return Ok(false);
            };
            if bytes.len() < start + size + 4 {
                data.consume(start);
                return Ok(false);
            }
            if bytes[start + size..].starts_with(&magic) {
                let signals = (size - 4) / ROWS / 2 - 2;
                self.signals = Some(signals);
                // The rows keep their width, whatever is enabled later.
                self.options.channels.get_or_insert(signals);
                self.is_searching = false;
                self.given = 0;
                data.consume(start);
                return Ok(true);
            }
            at = start + 1;
        }
        // The last bytes may be the beginning of a number.
        let passed = bytes.len().saturating_sub(3);
        data.consume(passed.max(at.min(bytes.len())));
        Ok(false)
    }

    /// Gives the spikes of the bytes that came; false if there is none.
    fn give_spikes(&mut self, block: &mut Block) -> bool {
        let mut spikes = block.take_spikes();
        while let Some(data) = &mut self.data
            && data.bytes().len() >= SPIKE_BYTES
        {
            let bytes: [u8; SPIKE_BYTES] = word(data.bytes(), 0);
            if u32::from_le_bytes(word(&bytes, 0)) != SPIKE {
                // Out of step: the next byte at which a spike may begin.
                self.counts.malformed += 1;
                let rest = &data.bytes()[1..];
                let next = find(rest, &SPIKE.to_le_bytes()).unwrap_or(rest.len().saturating_sub(3));
                data.consume(1 + next);
                continue;
            }
            data.consume(SPIKE_BYTES);
            let name = std::str::from_utf8(&bytes[4..9]).unwrap_or("");
            let channel = self.options.enable.iter().position(|n| n == name);
            let tick = self.unwrap(u32::from_le_bytes(word(&bytes, 9)));
            let unit = match bytes[13] {
                UNCLASSIFIED => Some(0),
                ARTEFACT => Some(u8::MAX),
                unit if unit.is_power_of_two() => Some(unit.trailing_zeros() as u8 + 1),
                _ => None,
            };
            let (Some(channel), Some(unit)) = (channel, unit) else {
                self.counts.malformed += 1;
                continue;
            };
            spikes.push(RigSpike {
                tick,
                channel: channel as u32,
                unit,
            });
        }
        spikes.sort_by_key(|spike| spike.tick);
        let count = spikes.len() as u64;
        self.counts.rows += count;
        self.counts.blocks += u64::from(count > 0);
        *block = Block {
            epoch: self.order.epoch,
            first: spikes.first().map_or(0, |s| s.tick),
            rows: 0,
            host_ns: host_ns(),
            lost_before: Loss::default(),
            samples: Samples::Spikes(spikes),
        };
        count > 0
    }

    /// Refuses fewer signals than a row has.
    fn check_signals(&self) -> Result<()> {
        let (Some(signals), Some(expected)) = (self.signals, self.options.channels) else {
            return Ok(());
        };
        if signals < expected {
            return Err(Error::mismatch(format!(
                "rhx://{}: expected {expected} signals in a sample, got {signals}: enable their TCP output in RHX, or \
                 stop the controller, so that enable=… can",
                self.place
            )));
        }
        Ok(())
    }

    /// Gives what came, or reads more; true if `block` was filled.
    fn step(&mut self, block: &mut Block, patience: Duration) -> std::io::Result<bool> {
        if self.options.band == RhxBand::Spikes {
            if self.give_spikes(block) {
                return Ok(true);
            }
        } else {
            while self.give_rows(block)? {
                if !self.is_searching && block.rows > 0 {
                    return Ok(true);
                }
            }
        }
        if let Some(data) = &mut self.data {
            data.read_more(patience)?;
        }
        Ok(false)
    }
}

/// Bytes of a block.
fn block_size(signals: usize) -> usize {
    4 + ROWS * (4 + 2 * signals)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|part| part == what)
}

/// Size of the block at the beginning of `bytes`, by where the next one begins; none if that has not come.
fn next_block(bytes: &[u8]) -> Option<usize> {
    let magic = WAVEFORMS.to_le_bytes();
    let mut at = block_size(1);
    while let Some(found) = bytes.get(at..).and_then(|rest| find(rest, &magic)) {
        let size = at + found;
        let is_size = (size - 4).is_multiple_of(2 * ROWS);
        let signals = ((size - 4) / ROWS / 2).saturating_sub(2);
        if is_size && (1..=MOST_SIGNALS).contains(&signals) {
            // Two samples must follow each other in the block.
            let number = |r: usize| u32::from_le_bytes(word(bytes, 4 + r * (4 + 2 * signals)));
            if number(1) == number(0).wrapping_add(1) {
                return Some(size);
            }
        }
        at = size + 1;
    }
    None
}

impl Rig for RhxRig {
    fn signal(&self) -> Option<Signal> {
        let channels = match (self.options.band, self.signals) {
            (RhxBand::Spikes, _) => self.options.enable.len(),
            (_, signals) => self.options.channels.unwrap_or(usize::MAX).min(signals?),
        };
        Some(Signal {
            channels,
            rate: self.rate?,
            microvolts: Some(MICROVOLTS),
            clock_bits: 64,
        })
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let started = Instant::now();
        loop {
            let left = patience.saturating_sub(started.elapsed());
            if self.data.is_none() && self.attempts.is_due(left) {
                if let Err(e) = self.open() {
                    self.lose(&e);
                }
            } else if self.data.is_some() {
                match self.step(block, left) {
                    Ok(true) => {
                        self.check_signals()?;
                        return Ok(Arrival::Block);
                    }
                    Ok(false) => {}
                    Err(e) => self.lose(&e),
                }
            }
            if started.elapsed() >= patience {
                return Ok(Arrival::Nothing);
            }
        }
    }

    fn loss_report(&self) -> LossReport {
        match self.options.band {
            RhxBand::Spikes => LossReport::Unknown,
            _ => LossReport::Exact,
        }
    }

    fn counts(&self) -> RigCounts {
        self.counts
    }
}
