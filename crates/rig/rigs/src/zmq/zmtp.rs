//! ZMTP 3.0 (rfc.zeromq.org/spec/23), without security: what SUB and PUB sockets need of ZeroMQ, and the side of SUB.

use std::io::{ErrorKind as Io, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use crate::waiting;

/// Most bytes of a message.
const LARGEST: usize = 1 << 26;
/// Bytes read at once at most.
pub(crate) const PIECE: usize = 1 << 16;
/// Time that a handshake may take.
pub(super) const GREETS_IN: Duration = Duration::from_secs(2);
pub(super) const GREETING: usize = 64;
pub(super) const MORE: u8 = 1;
pub(super) const LONG: u8 = 2;
pub(super) const COMMAND: u8 = 4;

pub(super) fn wrong(what: &str) -> std::io::Error {
    std::io::Error::new(Io::InvalidData, what.to_string())
}

/// A subscription to all that a publisher sends.
pub(crate) struct Subscriber {
    stream: TcpStream,
    /// Room for bytes, of which those from `used` to `end` came and were not received as messages.
    buffer: Vec<u8>,
    used: usize,
    end: usize,
    patience: Option<Duration>,
}

impl Subscriber {
    /// Connects to `place`, HOST:PORT, and subscribes to everything.
    pub(crate) fn connect(place: std::net::SocketAddr, within: Duration) -> std::io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&place, within)?;
        // Where nobody listens on a port that the system gives out, it may be given to this very connection, which then
        // has itself at its other end, and keeps the peer from it.
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(std::io::ErrorKind::ConnectionRefused.into());
        }
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GREETS_IN))?;
        stream.write_all(&greeting())?;
        let mut theirs = [0; GREETING];
        stream.read_exact(&mut theirs)?;
        greets(&theirs)?;
        stream.write_all(&ready(b"SUB"))?;
        // A subscription is a message of 1 and what messages are to begin with: nothing.
        stream.write_all(&[0, 1, 1])?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            used: 0,
            end: 0,
            patience: None,
        })
    }

    /// The parts of the next message; none in time. After an error the connection is gone.
    pub(crate) fn receive(&mut self, patience: Duration) -> std::io::Result<Option<Vec<Vec<u8>>>> {
        loop {
            match message(&self.buffer[self.used..self.end])? {
                Some((parts, taken)) => {
                    self.used += taken;
                    if !parts.is_empty() {
                        return Ok(Some(parts));
                    }
                }
                None if self.read_more(patience)? == 0 => return Ok(None),
                None => {}
            }
        }
    }

    /// The next part that has come as a whole, be it a message of its own or not; reads nothing. After an error the
    /// connection is gone.
    #[cfg(feature = "rig")]
    pub(crate) fn next_part(&mut self) -> std::io::Result<Option<&[u8]>> {
        while let Some((flags, body)) = frame(&self.buffer[self.used..self.end], LARGEST)? {
            let at = self.used;
            self.used += body.end;
            if flags & COMMAND == 0 {
                return Ok(Some(&self.buffer[at + body.start..at + body.end]));
            }
        }
        Ok(None)
    }

    /// Waits at most `patience` for more bytes; returns how many came, 0 if none did in time. The end of the connection
    /// is an error.
    pub(crate) fn read_more(&mut self, patience: Duration) -> std::io::Result<usize> {
        if self.patience != Some(patience) && !waiting::ASKS_AGAIN {
            let waited = self.patience.is_none_or(|before| !before.is_zero());
            if waited == patience.is_zero() {
                self.stream.set_nonblocking(waited)?;
            }
            if !patience.is_zero() {
                let least = patience.max(Duration::from_micros(1));
                self.stream.set_read_timeout(Some(least))?;
            }
            self.patience = Some(patience);
        }
        self.buffer.copy_within(self.used..self.end, 0);
        (self.used, self.end) = (0, self.end - self.used);
        if self.buffer.len() < self.end + PIECE {
            self.buffer.resize(self.end + PIECE, 0);
        }
        let room = &mut self.buffer[self.end..self.end + PIECE];
        let read = match waiting::ASKS_AGAIN {
            true => waiting::read_within(&self.stream, room, patience)
                .and_then(|read| read.ok_or_else(|| Io::WouldBlock.into())),
            false => self.stream.read(room),
        };
        match read {
            Ok(0) => Err(Io::UnexpectedEof.into()),
            Ok(read) => {
                self.end += read;
                Ok(read)
            }
            Err(e) if matches!(e.kind(), Io::WouldBlock | Io::TimedOut | Io::Interrupted) => Ok(0),
            Err(e) => Err(e),
        }
    }
}

/// Parts of a message, and the bytes that it takes.
type Message = (Vec<Vec<u8>>, usize);

/// The first frame of `bytes`: its flags, and where its body is; none where it is not there as a whole.
pub(super) fn frame(bytes: &[u8], largest: usize) -> std::io::Result<Option<(u8, Range<usize>)>> {
    let Some(&flags) = bytes.first() else {
        return Ok(None);
    };
    if flags > 7 {
        return Err(wrong("expected a ZeroMQ frame"));
    }
    let header = if flags & LONG != 0 { 9 } else { 2 };
    if bytes.len() < header {
        return Ok(None);
    }
    let length = bytes[1..header]
        .iter()
        .fold(0_u64, |n, b| n << 8 | u64::from(*b));
    let length = usize::try_from(length).ok().filter(|n| *n <= largest);
    let Some(length) = length else {
        return Err(wrong(&format!(
            "expected a frame of at most {largest} bytes"
        )));
    };
    Ok((bytes.len() >= header + length).then_some((flags, header..header + length)))
}

/// The first message of `bytes`, whole, and how many bytes it takes; a command is a message without parts.
fn message(bytes: &[u8]) -> std::io::Result<Option<Message>> {
    let (mut parts, mut at) = (Vec::new(), 0);
    while let Some((flags, body)) = frame(&bytes[at..], LARGEST.saturating_sub(at))? {
        let end = at + body.end;
        if flags & COMMAND != 0 {
            return Ok(Some((Vec::new(), end)));
        }
        parts.push(bytes[at + body.start..end].to_vec());
        at = end;
        if flags & MORE == 0 {
            return Ok(Some((parts, at)));
        }
    }
    Ok(None)
}

/// Greeting of each side: version 3.0, without security.
pub(super) fn greeting() -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    greeting[0] = 0xff;
    greeting[9..12].copy_from_slice(&[0x7f, 3, 0]);
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// True if a peer's greeting is understood.
pub(super) fn greets(theirs: &[u8]) -> std::io::Result<()> {
    let sound = theirs.len() >= GREETING
        && theirs[0] == 0xff
        && theirs[9] == 0x7f
        && theirs[10] >= 3
        && theirs[12..17] == *b"NULL\0";
    sound
        .then_some(())
        .ok_or_else(|| wrong("expected a ZeroMQ peer of version 3 without security"))
}

/// The command that follows a greeting: which kind of socket this is.
pub(super) fn ready(socket: &[u8; 3]) -> Vec<u8> {
    let properties = b"\x05READY\x0bSocket-Type\0\0\0\x03";
    let mut ready = vec![COMMAND, (properties.len() + socket.len()) as u8];
    ready.extend(properties);
    ready.extend(socket);
    ready
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_or_not_yet() -> std::io::Result<()> {
        let bytes = b"\x01\x02ab\x02\0\0\0\0\0\0\0\x01c\x04\x01x";
        for cut in 0..14 {
            assert_eq!(message(&bytes[..cut])?, None, "{cut}");
        }
        let expected = vec![b"ab".to_vec(), b"c".to_vec()];
        assert_eq!(message(bytes)?, Some((expected, 14)));
        assert_eq!(message(&bytes[14..])?, Some((Vec::new(), 3)));
        assert!(
            message(b"\x08").is_err() && message(b"\x02\xff\xff\xff\xff\xff\xff\xff\xff").is_err()
        );
        Ok(())
    }
}
