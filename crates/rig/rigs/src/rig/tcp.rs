//! A connection to a recording system, made again when it is lost.

use std::io::{ErrorKind as Io, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::waiting;

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(200);
/// Bytes read at once at most.
const PIECE: usize = 1 << 16;

/// A connected stream, and the bytes that came and are not used yet.
pub(crate) struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
    used: usize,
    patience: Option<Duration>,
}

impl Connection {
    pub(crate) fn open(place: SocketAddr, within: Duration) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&place, within)?;
        // Where nobody listens, the system may connect a port of its own choice with itself.
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(Io::ConnectionRefused.into());
        }
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(Duration::from_secs(2)))?;
        Ok(Self {
            stream,
            bytes: Vec::new(),
            used: 0,
            patience: None,
        })
    }

    /// Bytes that came and are not used yet.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Marks bytes as used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.used = (self.used + count).min(self.bytes.len());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Waits at most `patience` for more bytes; false if none came. The end of the stream is an error.
    pub(crate) fn read_more(&mut self, patience: Duration) -> std::io::Result<bool> {
        if self.used > 0 {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        let patience = patience.max(Duration::from_micros(1));
        if self.patience != Some(patience) && !waiting::ASKS_AGAIN {
            self.stream.set_read_timeout(Some(patience))?;
            self.patience = Some(patience);
        }
        let held = self.bytes.len();
        self.bytes.resize(held + PIECE, 0);
        let room = &mut self.bytes[held..];
        let read = match waiting::ASKS_AGAIN {
            true => waiting::read_within(&self.stream, room, patience)
                .and_then(|read| read.ok_or_else(|| Io::WouldBlock.into())),
            false => self.stream.read(room),
        };
        self.bytes.truncate(held + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(Io::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(e) if matches!(e.kind(), Io::WouldBlock | Io::TimedOut | Io::Interrupted) => {
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }
}

/// Spaces attempts to connect, and counts how often a lost connection was made again.
#[derive(Default)]
pub(crate) struct Attempts {
    last: Option<Instant>,
    connected: bool,
}

impl Attempts {
    /// True if it is time for another attempt; otherwise sleeps until then, at most `patience`.
    pub(crate) fn is_due(&mut self, patience: Duration) -> bool {
        let left = self
            .last
            .map_or(Duration::ZERO, |t| RETRY.saturating_sub(t.elapsed()));
        if !left.is_zero() {
            std::thread::sleep(left.min(patience));
            return false;
        }
        self.last = Some(Instant::now());
        true
    }

    /// Notes a connection; returns 1 if it is not the first.
    pub(crate) fn succeed(&mut self) -> u64 {
        u64::from(std::mem::replace(&mut self.connected, true))
    }
}
