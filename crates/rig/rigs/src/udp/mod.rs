//! Datagrams in Betz' own plain format, and the socket that receives datagrams of any format.
//!
//! The plain datagram is little-endian, one per step:
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | `BETZ` |
//! | 4 | version, 1 |
//! | 5 | content: 1 counts (u16), 2 features (f32), 3 channels that fired (u32, one entry per spike), 16 outputs (f32) |
//! | 6–7 | entries, u16 |
//! | 8–15 | number of the step, u64 |
//! | 16–23 | the sender's time, i64 in ns; comes back with the outputs |
//! | 24–27 | status of the step, u32 (`StepStatus`); 0 in what is sent to Betz |
//! | 28–31 | 0 |
//! | 32– | the entries |
//!
//! Content 4 is rows of voltage and 5 to 7 are labels, marks and trials, see [`rig`](crate::rig).

#[cfg(feature = "emulate")]
pub(crate) mod emulate;
#[cfg(feature = "rig")]
pub(crate) mod rows;
#[cfg(all(test, feature = "emulate"))]
mod tests;

use std::io::ErrorKind as Io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use betz_base::{Error, ErrorKind, Result};

use crate::bus::plain::{self, MAGIC, VERSION};
use crate::bus::{
    Content, Counts, Estimate, Frame, Order, Reception, Sink, Source, Tally, resolve,
};
use crate::waiting;

/// Bytes before the entries.
pub const HEADER: usize = plain::HEADER;
/// Largest datagram of IPv4.
pub(crate) const LARGEST: usize = 65_507;

/// A socket bound to `address`, and its buffer.
pub(crate) struct Receiver {
    socket: UdpSocket,
    patience: Option<Duration>,
    /// Time that a wait asks again and again before the thread sleeps.
    spin: Duration,
    blocks: bool,
    /// Datagrams since the system's table was read, and the drops in it.
    #[cfg(feature = "rig")]
    unread: u8,
    #[cfg(feature = "rig")]
    dropped: Option<u64>,
    pub(crate) buffer: Vec<u8>,
}

impl Receiver {
    pub(crate) fn bind(address: &str) -> Result<Self> {
        let socket = UdpSocket::bind(resolve(address)?)
            .map_err(|e| Error::new(ErrorKind::Io, format!("listening at {address}: {e}")))?;
        Ok(Self {
            socket,
            patience: None,
            spin: Duration::ZERO,
            blocks: true,
            #[cfg(feature = "rig")]
            unread: 0,
            #[cfg(feature = "rig")]
            dropped: None,
            buffer: vec![0; LARGEST + 1],
        })
    }

    pub(crate) fn spinning(mut self, spin: Duration) -> Self {
        self.spin = spin;
        self
    }

    /// Sends a datagram from where it listens; false if the system does not take it.
    #[cfg(feature = "rig")]
    pub(crate) fn send(&self, datagram: &[u8], to: SocketAddr) -> bool {
        self.socket.send_to(datagram, to).is_ok()
    }

    /// Asks the system for a buffer of so many bytes; returns the size that it gives, if it tells.
    #[cfg(feature = "rig")]
    pub(crate) fn buffering(&self, bytes: usize) -> Option<usize> {
        #[cfg(target_os = "linux")]
        {
            use rustix::net::sockopt;
            // Above the system's limit, where this process may.
            if sockopt::set_socket_recv_buffer_size_force(&self.socket, bytes).is_err() {
                sockopt::set_socket_recv_buffer_size(&self.socket, bytes).ok()?;
            }
            // Linux doubles the number for its own needs, and tells the doubled one.
            let doubled = sockopt::socket_recv_buffer_size(&self.socket).ok()?;
            Some(doubled / 2)
        }
        #[cfg(not(target_os = "linux"))]
        {
            use rustix::net::sockopt;
            sockopt::set_socket_recv_buffer_size(&self.socket, bytes).ok()?;
            sockopt::socket_recv_buffer_size(&self.socket).ok()
        }
    }

    /// Counts the datagrams that the system drops, for [`Receiver::dropped`].
    #[cfg(feature = "rig")]
    pub(crate) fn counting_drops(mut self) -> Self {
        self.dropped = Some(0);
        self
    }

    /// Number of datagrams that the system dropped because the buffer was full, where it tells: as of the last time that none
    /// waited, or of one of the last 256. Reading the system's table takes longer than receiving a datagram.
    #[cfg(feature = "rig")]
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.unwrap_or(0)
    }

    #[cfg(feature = "rig")]
    fn count_dropped(&self) -> u64 {
        let Ok(address) = self.socket.local_addr() else {
            return 0;
        };
        let table = if address.is_ipv4() { "udp" } else { "udp6" };
        let table = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        dropped_at(&table, address.port())
    }

    /// Receives a datagram into the buffer and returns its length; `None` if none arrives in time.
    pub(crate) fn receive(&mut self, patience: Duration) -> Result<Option<usize>> {
        let length = self.receive_within(patience)?;
        #[cfg(feature = "rig")]
        {
            self.unread = self.unread.wrapping_add(u8::from(length.is_some()));
            if self.dropped.is_some() && (length.is_none() || self.unread == 0) {
                self.dropped = Some(self.count_dropped());
            }
        }
        Ok(length)
    }

    fn receive_within(&mut self, patience: Duration) -> Result<Option<usize>> {
        if !self.spin.is_zero() {
            self.block(false)?;
            let started = Instant::now();
            loop {
                if let Some(length) = self.ask()? {
                    return Ok(Some(length));
                }
                if started.elapsed() >= self.spin.min(patience) {
                    break;
                }
                std::hint::spin_loop();
            }
            if self.spin >= patience {
                return Ok(None);
            }
        }
        let patience = patience - self.spin;
        if waiting::ASKS_AGAIN {
            self.block(false)?;
            return waiting::again(patience, || self.ask());
        }
        self.block(true)?;
        if self.patience != Some(patience) {
            let least = patience.max(Duration::from_micros(1));
            self.socket
                .set_read_timeout(Some(least))
                .map_err(wait_error)?;
            self.patience = Some(patience);
        }
        self.ask()
    }

    fn block(&mut self, blocks: bool) -> Result<()> {
        if self.blocks != blocks {
            self.socket.set_nonblocking(!blocks).map_err(wait_error)?;
            self.blocks = blocks;
        }
        Ok(())
    }

    fn ask(&mut self) -> Result<Option<usize>> {
        match self.socket.recv(&mut self.buffer) {
            Ok(length) => Ok(Some(length)),
            Err(e) if matches!(e.kind(), Io::WouldBlock | Io::TimedOut | Io::Interrupted) => {
                Ok(None)
            }
            // Answer to an earlier datagram of ours.
            Err(e) if matches!(e.kind(), Io::ConnectionRefused | Io::ConnectionReset) => Ok(None),
            Err(e) => Err(Error::new(
                ErrorKind::Io,
                format!("receiving datagrams: {e}"),
            )),
        }
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        (self.socket.local_addr()).map_err(|e| Error::new(ErrorKind::Io, format!("socket: {e}")))
    }
}

/// Drops of the sockets at `port` in Linux' table of sockets: its last column.
#[cfg(feature = "rig")]
fn dropped_at(table: &str, port: u16) -> u64 {
    let port = format!("{port:04X}");
    let lines = table.lines().skip(1).filter(|line| {
        let local = line.split_whitespace().nth(1);
        local
            .and_then(|l| l.split_once(':'))
            .is_some_and(|l| l.1 == port)
    });
    lines
        .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
        .sum()
}

fn wait_error(e: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("waiting for datagrams: {e}"))
}

/// Source of plain datagrams. The kernel's buffer is the queue; datagrams that do not fit leave a gap in the numbers.
pub struct UdpSource {
    receiver: Receiver,
    channels: usize,
    order: Order,
    tally: Tally,
}

impl UdpSource {
    /// Listens at `address`, `HOST:PORT`, for a model of `channels`.
    ///
    /// # Errors
    /// `InvalidArgument` if `address` cannot be parsed, `Io` if it cannot be bound.
    pub fn bind(address: &str, channels: usize) -> Result<Self> {
        Ok(Self {
            receiver: Receiver::bind(address)?,
            channels,
            order: Order::default(),
            tally: Tally::default(),
        })
    }

    /// Polls for `spin` before the thread sleeps, so that a step does not wait for the thread to wake up. Use it for a
    /// loop with a core of its own.
    pub fn spinning(mut self, spin: Duration) -> Self {
        self.receiver = self.receiver.spinning(spin);
        self
    }

    /// Address on which it listens.
    ///
    /// # Errors
    /// An error of the system.
    pub fn address(&self) -> Result<SocketAddr> {
        self.receiver.address()
    }
}

/// The bytes of `of` from `at` on; `of` is that long.
pub(crate) fn word<const N: usize>(of: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&of[at..at + N]);
    bytes
}

/// Parses a datagram of inputs into `frame`; returns its number, or `None` if it is not such a datagram.
fn parse(datagram: &[u8], channels: usize, frame: &mut Frame) -> Option<u64> {
    if datagram.len() < HEADER || datagram[..4] != MAGIC || datagram[4] != VERSION {
        return None;
    }
    let entries = usize::from(u16::from_le_bytes(word(datagram, 6)));
    let body = &datagram[HEADER..];
    let (size, fits) = match datagram[5] {
        1 => (2, entries == channels),
        2 => (4, entries == channels),
        3 => (4, true),
        _ => return None,
    };
    if !fits || body.len() != entries * size {
        return None;
    }
    frame.clear();
    frame.sent = i64::from_le_bytes(word(datagram, 16));
    match datagram[5] {
        1 => {
            frame.content = Content::Counts;
            let values = body
                .chunks_exact(2)
                .map(|b| u16::from_le_bytes([b[0], b[1]]));
            frame.counts.extend(values);
        }
        2 => {
            frame.content = Content::Features;
            let values = body.chunks_exact(4).map(|b| f32::from_le_bytes(word(b, 0)));
            frame.features.extend(values);
            if !frame.features.iter().all(|v| v.is_finite()) {
                return None;
            }
        }
        _ => {
            frame.content = Content::Spikes;
            let values = body.chunks_exact(4).map(|b| u32::from_le_bytes(word(b, 0)));
            frame.spikes.extend(values);
        }
    }
    Some(u64::from_le_bytes(word(datagram, 8)))
}

impl Source for UdpSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        let Some(length) = self.receiver.receive(patience)? else {
            return Ok(Reception::Nothing);
        };
        self.tally.messages.add(1);
        let Some(sequence) = parse(&self.receiver.buffer[..length], self.channels, frame) else {
            self.tally.malformed.add(1);
            return Ok(Reception::Nothing);
        };
        if !self.order.judge(sequence, frame, &self.tally) {
            return Ok(Reception::Nothing);
        }
        self.tally.steps.add(1);
        Ok(Reception::Step)
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}

/// Sink for plain datagrams to one address. It never waits: a datagram that the system does not take at once is unsent.
pub struct UdpSink {
    socket: UdpSocket,
    to: SocketAddr,
    datagram: Vec<u8>,
    tally: Tally,
}

impl UdpSink {
    /// Creates a sink that sends the outputs of a model of `outputs` to `address`, `HOST:PORT`.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid address or more outputs than a datagram holds, `Io` if no socket can be opened.
    pub fn to(address: &str, outputs: usize) -> Result<Self> {
        if HEADER + 4 * outputs > LARGEST {
            return Err(Error::argument(format!(
                "datagrams: expected at most {} outputs, got {outputs}",
                (LARGEST - HEADER) / 4
            )));
        }
        let to = resolve(address)?;
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let io = |e| Error::new(ErrorKind::Io, format!("sending to {address}: {e}"));
        let socket = UdpSocket::bind(any).map_err(io)?;
        socket.set_nonblocking(true).map_err(io)?;
        Ok(Self {
            socket,
            to,
            datagram: Vec::with_capacity(HEADER + 4 * outputs),
            tally: Tally::default(),
        })
    }
}

impl Sink for UdpSink {
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()> {
        plain::outputs(decoded, &mut self.datagram);
        match self.socket.send_to(&self.datagram, self.to) {
            Ok(_) => {
                self.tally.messages.add(1);
                self.tally.steps.add(1);
            }
            Err(_) => self.tally.unsent.add(1),
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}
