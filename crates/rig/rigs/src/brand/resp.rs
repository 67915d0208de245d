//! The part of Redis' protocol that a node needs: sending commands and reading replies.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Time that a server may take to answer, in addition to the wait that a command asks for.
const ANSWERS_IN: Duration = Duration::from_secs(2);
/// Largest text, longest list and deepest nesting that is accepted.
const LARGEST: usize = 1 << 26;
const LONGEST: usize = 1 << 20;
const DEEPEST: usize = 8;
/// Entries that are asked for at once.
const AT_ONCE: &[u8] = b"64";
/// Longest wait of a command, in milliseconds.
const LONGEST_WAIT_MS: u128 = 1000;

trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// Answer of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Text(Vec<u8>),
    Error(String),
    Number(i64),
    List(Vec<Reply>),
    Nil,
}

impl Reply {
    pub(crate) fn list(&self) -> &[Reply] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            _ => &[],
        }
    }

    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(n) => Some(*n),
            _ => None,
        }
    }

    /// Value that follows `name` in a list of names and values.
    pub(crate) fn get(&self, name: &str) -> Option<&Reply> {
        (self.list().chunks_exact(2))
            .find(|pair| pair[0].bytes() == name.as_bytes())
            .map(|pair| &pair[1])
    }
}

#[cfg(unix)]
fn socket(place: &str) -> std::io::Result<Box<dyn Duplex>> {
    let stream = UnixStream::connect(place)?;
    stream.set_read_timeout(Some(ANSWERS_IN))?;
    stream.set_write_timeout(Some(ANSWERS_IN))?;
    Ok(Box::new(stream))
}

#[cfg(not(unix))]
fn socket(place: &str) -> std::io::Result<Box<dyn Duplex>> {
    Err(std::io::Error::other(format!(
        "{place}: expected HOST:PORT, got a socket's path, which this system has not"
    )))
}

/// A server's refusal of a command.
#[derive(Debug)]
pub(super) struct Refusal;

/// A connection, which is unusable after an error.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Duplex>>,
    command: Vec<u8>,
}

impl Connection {
    /// Connects to a socket's path, or to HOST:PORT.
    pub(crate) fn open(place: &str) -> std::io::Result<Self> {
        let stream: Box<dyn Duplex> = if place.starts_with('/') {
            socket(place)?
        } else {
            let stream = TcpStream::connect(place)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWERS_IN))?;
            stream.set_write_timeout(Some(ANSWERS_IN))?;
            Box::new(stream)
        };
        Ok(Self {
            stream: BufReader::with_capacity(1 << 16, stream),
            command: Vec::new(),
        })
    }

    /// Sends a command and returns the answer, which may be a server's refusal.
    pub(crate) fn ask(&mut self, parts: &[&[u8]]) -> std::io::Result<Reply> {
        self.command.clear();
        write!(self.command, "*{}\r\n", parts.len())?;
        for part in parts {
            write!(self.command, "${}\r\n", part.len())?;
            self.command.extend_from_slice(part);
            self.command.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&self.command)?;
        read(&mut self.stream, 0)
    }

    /// The name of the newest entry of `stream`; `0-0` if it has none.
    pub(super) fn newest_entry(&mut self, stream: &str) -> std::io::Result<Vec<u8>> {
        let newest = ["XREVRANGE", stream, "+", "-", "COUNT", "1"];
        let reply = self.ask(&newest.map(str::as_bytes))?;
        let name = reply.list().first().and_then(|entry| entry.list().first());
        Ok(name.map_or_else(|| b"0-0".to_vec(), |name| name.bytes().to_vec()))
    }

    /// The entries of `stream` after the one called `last`, for which it waits at most `patience`; `last` becomes the newest of
    /// them. The error of the server as `Err` within `Ok`: it loads its data, or the key is no stream, and not for ever.
    pub(super) fn next_entries(
        &mut self,
        stream: &str,
        last: &mut Vec<u8>,
        patience: Duration,
    ) -> std::io::Result<Result<Vec<Reply>, Refusal>> {
        let wait = patience.as_millis().clamp(1, LONGEST_WAIT_MS).to_string();
        let reply = self.ask(&[
            b"XREAD",
            b"COUNT",
            AT_ONCE,
            b"BLOCK",
            wait.as_bytes(),
            b"STREAMS",
            stream.as_bytes(),
            last,
        ])?;
        let mut streams = match reply {
            Reply::List(streams) => streams,
            Reply::Nil => return Ok(Ok(Vec::new())),
            _ => return Ok(Err(Refusal)),
        };
        let Some(Reply::List(mut stream)) = streams.pop() else {
            return Ok(Ok(Vec::new()));
        };
        let Some(Reply::List(entries)) = stream.pop() else {
            return Ok(Ok(Vec::new()));
        };
        if let Some(name) = entries.last().and_then(|entry| entry.list().first()) {
            *last = name.bytes().to_vec();
        }
        Ok(Ok(entries))
    }
}

fn wrong(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, format!("reply: {what}"))
}

fn line(from: &mut impl Read) -> std::io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        from.read_exact(&mut byte)?;
        match byte[0] {
            b'\n' if line.last() == Some(&b'\r') => {
                line.pop();
                return String::from_utf8(line).map_err(|_| wrong("expected text"));
            }
            _ if line.len() > 4096 => return Err(wrong("expected a line of at most 4096 bytes")),
            other => line.push(other),
        }
    }
}

/// Reads the next reply; `depth` is the number of lists around it. A command is a list of texts.
pub(crate) fn read(from: &mut impl Read, depth: usize) -> std::io::Result<Reply> {
    let line = line(from)?;
    let (kind, rest) = line
        .split_at_checked(1)
        .ok_or_else(|| wrong("expected a kind, got an empty line"))?;
    let number = || {
        rest.parse::<i64>()
            .map_err(|_| wrong(&format!("expected a number, got \"{rest}\"")))
    };
    match kind {
        "+" => Ok(Reply::Text(rest.as_bytes().to_vec())),
        "-" => Ok(Reply::Error(rest.into())),
        ":" => Ok(Reply::Number(number()?)),
        "$" => match number()? {
            -1 => Ok(Reply::Nil),
            length => {
                let length = usize::try_from(length).ok().filter(|l| *l <= LARGEST);
                let length = length.ok_or_else(|| wrong("expected at most 64 MiB"))?;
                let mut text = Vec::new();
                // Memory grows with the data that arrive, not with the announced length.
                from.take(length as u64 + 2).read_to_end(&mut text)?;
                if text.len() != length + 2 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                text.truncate(length);
                Ok(Reply::Text(text))
            }
        },
        "*" => match number()? {
            -1 => Ok(Reply::Nil),
            length if (0..=LONGEST as i64).contains(&length) && depth < DEEPEST => (0..length)
                .map(|_| read(from, depth + 1))
                .collect::<std::io::Result<_>>()
                .map(Reply::List),
            _ => Err(wrong("expected a list of at most 2^20, 8 deep")),
        },
        other => Err(wrong(&format!("expected + - : $ or *, got {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_or_refused() {
        let read = |text: &str| read(&mut text.as_bytes(), 0).map_err(|e| e.to_string());
        let list = read("*3\r\n$2\r\nab\r\n:7\r\n*-1\r\n");
        let expected = vec![Reply::Text(b"ab".to_vec()), Reply::Number(7), Reply::Nil];
        assert_eq!(list, Ok(Reply::List(expected)));
        assert_eq!(read("-ERR no\r\n"), Ok(Reply::Error("ERR no".into())));
        let deep = "*1\r\n".repeat(20);
        for wrong in [
            "",
            "\r\n",
            "$5\r\nab",
            "$-2\r\n",
            "$99999999999\r\n",
            "*2\r\n:1\r\n",
            "?\r\n",
            ":x\r\n",
            "é\r\n",
            &deep,
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
