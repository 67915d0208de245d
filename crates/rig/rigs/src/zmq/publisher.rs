//! The publisher's side of ZMTP: subscribers come and go, and none is waited for.

use std::io::{ErrorKind as Io, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::zmtp::{
    COMMAND, GREETING, GREETS_IN, LONG, MORE, frame, greeting, greets, ready, wrong,
};

/// Most subscribers; more are turned away.
const MOST_PEERS: usize = 64;
/// Bytes that wait for a subscriber at most.
const ROOM: usize = 1 << 20;
/// Largest frame of a subscriber: what it wants to hear begins with so many bytes at most.
const LARGEST: usize = 1 << 12;
/// Most subscriptions of a subscriber.
const MOST_TOPICS: usize = 1 << 10;
/// Time that the last messages may take at the end.
const ENDS_IN: Duration = Duration::from_millis(500);

/// Fate of a message.
pub(crate) struct Dispatch {
    /// Subscribers that it went to.
    pub(crate) to: u64,
    /// Subscribers that had no room for it.
    pub(crate) without_room: u64,
}

/// A bound PUB socket.
pub(crate) struct Publisher {
    listener: TcpListener,
    peers: Vec<Peer>,
}

struct Peer {
    stream: TcpStream,
    since: Instant,
    greeted: bool,
    ready: bool,
    /// Bytes of a message that is not yet whole.
    come: Vec<u8>,
    /// Bytes that the system did not take yet.
    go: Vec<u8>,
    /// Beginnings of the topics that it subscribed to, once for each time.
    topics: Vec<Vec<u8>>,
}

impl Publisher {
    pub(crate) fn bind(place: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(place)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            peers: Vec::new(),
        })
    }

    /// Sends the message of two parts to all that subscribed to its topic.
    pub(super) fn send(&mut self, topic: &[u8], body: &[u8]) -> Dispatch {
        self.send_parts(&[topic, body])
    }

    /// True if somebody has subscribed to something.
    #[cfg(feature = "emulate")]
    pub(crate) fn has_subscriber(&self) -> bool {
        self.peers.iter().any(|peer| !peer.topics.is_empty())
    }

    /// Address to which it is bound.
    #[cfg(feature = "emulate")]
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Sends the message to all that subscribed to its topic, which is its first part.
    pub(crate) fn send_parts(&mut self, parts: &[&[u8]]) -> Dispatch {
        let Some((last, rest)) = parts.split_last() else {
            return Dispatch {
                to: 0,
                without_room: 0,
            };
        };
        let topic = parts[0];
        let length: usize = parts.iter().map(|part| part.len() + 9).sum();
        let mut sent = Dispatch {
            to: 0,
            without_room: 0,
        };
        self.peers.retain_mut(|peer| {
            let asked = peer.topics.iter().any(|start| topic.starts_with(start));
            if !asked {
                return true;
            }
            if peer.go.len() + length > ROOM {
                sent.without_room += 1;
                return peer.flush().is_ok();
            }
            for part in rest {
                put(&mut peer.go, MORE, part);
            }
            put(&mut peer.go, 0, last);
            let there = peer.flush().is_ok();
            sent.to += u64::from(there);
            there
        });
        sent
    }

    /// Takes new subscribers in, and reads what they ask for; how many were none, and were left.
    pub(crate) fn attend(&mut self) -> u64 {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.peers.len() < MOST_PEERS
                && let Ok(peer) = Peer::new(stream)
            {
                self.peers.push(peer);
            }
        }
        let mut wrong = 0;
        self.peers.retain_mut(|peer| match peer.attend() {
            Ok(there) => there,
            Err(error) => {
                wrong += u64::from(error.kind() == Io::InvalidData);
                false
            }
        });
        wrong
    }
}

impl Drop for Publisher {
    /// Sends waiting messages, if they are taken soon.
    fn drop(&mut self) {
        for peer in &mut self.peers {
            let in_time = peer.stream.set_nonblocking(false).is_ok()
                && peer.stream.set_write_timeout(Some(ENDS_IN)).is_ok();
            if in_time {
                let _ = peer.stream.write_all(&peer.go);
            }
        }
    }
}

/// Puts a frame behind what is in `to`.
fn put(to: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => to.extend([flags, length]),
        Err(_) => {
            to.push(flags | LONG);
            to.extend((body.len() as u64).to_be_bytes());
        }
    }
    to.extend(body);
}

impl Peer {
    fn new(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut go = greeting().to_vec();
        go.extend(ready(b"PUB"));
        let mut peer = Self {
            stream,
            since: Instant::now(),
            greeted: false,
            ready: false,
            come: Vec::new(),
            go,
            topics: Vec::new(),
        };
        peer.flush()?;
        Ok(peer)
    }

    /// Hands on what the system takes.
    fn flush(&mut self) -> std::io::Result<()> {
        let mut done = 0;
        while done < self.go.len() {
            match self.stream.write(&self.go[done..]) {
                Ok(0) => return Err(Io::WriteZero.into()),
                Ok(n) => done += n,
                Err(e) if e.kind() == Io::WouldBlock => break,
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.go.drain(..done);
        Ok(())
    }

    /// True if it is still there, after its messages were read and waiting ones sent.
    fn attend(&mut self) -> std::io::Result<bool> {
        let mut more = [0; LARGEST];
        loop {
            match self.stream.read(&mut more) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    self.come.extend_from_slice(&more[..n]);
                    self.take()?;
                }
                Err(e) if e.kind() == Io::WouldBlock => break,
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.flush()?;
        match self.ready || self.since.elapsed() < GREETS_IN {
            true => Ok(true),
            false => Err(wrong("expected a subscriber, got silence")),
        }
    }

    /// Takes what is whole of what came.
    fn take(&mut self) -> std::io::Result<()> {
        if !self.greeted {
            if self.come.len() < GREETING {
                return Ok(());
            }
            greets(&self.come)?;
            self.come.drain(..GREETING);
            self.greeted = true;
        }
        let come = std::mem::take(&mut self.come);
        let mut at = 0;
        while let Some((flags, body)) = frame(&come[at..], LARGEST)? {
            let part = &come[at + body.start..at + body.end];
            at += body.end;
            match flags & COMMAND != 0 {
                true => self.command(part)?,
                false => match part.split_first() {
                    Some((1, topic)) => self.subscribe(topic)?,
                    Some((0, topic)) => self.cancel(topic),
                    // Other messages of a subscriber are for nobody.
                    _ => {}
                },
            }
        }
        self.come = come[at..].to_vec();
        Ok(())
    }

    fn command(&mut self, body: &[u8]) -> std::io::Result<()> {
        let name = body.first().map_or(0, |n| usize::from(*n)) + 1;
        let (Some(name), Some(rest)) = (body.get(1..name), body.get(name..)) else {
            return Err(wrong("expected a command with its name"));
        };
        match name {
            b"READY" => {
                // The value stands behind its length: SUB or XSUB.
                let is = |kind: &[u8]| rest.windows(kind.len()).any(|part| part == kind);
                self.ready = is(b"\0\0\0\x03SUB") || is(b"\0\0\0\x04XSUB");
                if !self.ready {
                    return Err(wrong("expected a SUB socket"));
                }
            }
            b"SUBSCRIBE" => self.subscribe(rest)?,
            b"CANCEL" => self.cancel(rest),
            // A question if we are still there: the bytes behind two bytes of time come back.
            b"PING" => {
                let mut pong = b"\x04PONG".to_vec();
                pong.extend(rest.get(2..).unwrap_or_default());
                if self.go.len() + pong.len() < ROOM {
                    put(&mut self.go, COMMAND, &pong);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn subscribe(&mut self, topic: &[u8]) -> std::io::Result<()> {
        if self.topics.len() == MOST_TOPICS {
            return Err(wrong("expected fewer subscriptions"));
        }
        self.topics.push(topic.to_vec());
        Ok(())
    }

    fn cancel(&mut self, topic: &[u8]) {
        if let Some(at) = self.topics.iter().position(|held| held == topic) {
            self.topics.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::zmtp::Subscriber;
    use super::*;

    /// A publisher, and what attends to it until `done`.
    fn attended<T: Send>(work: impl FnOnce(SocketAddr) -> T + Send) -> (Publisher, T) {
        let mut publisher = Publisher::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let place = publisher.listener.local_addr().unwrap();
        let done = std::thread::scope(|scope| {
            let work = scope.spawn(move || work(place));
            while !work.is_finished() {
                publisher.attend();
                std::thread::yield_now();
            }
            work.join().unwrap()
        });
        (publisher, done)
    }

    #[test]
    fn what_was_subscribed_to_comes() {
        let (mut publisher, mut subscriber) =
            attended(|place| Subscriber::connect(place, GREETS_IN).unwrap());
        while publisher.peers.iter().all(|peer| peer.topics.is_empty()) {
            publisher.attend();
        }
        let long = vec![7; 300];
        for body in [&b"short"[..], &long] {
            assert_eq!(publisher.send(b"betz", body).to, 1);
            let parts = subscriber.receive(GREETS_IN).unwrap().unwrap();
            assert_eq!(parts, [b"betz".to_vec(), body.to_vec()]);
        }
        // A subscriber that does not read has room for a while, and then none.
        let much = vec![0; ROOM / 3];
        let mut given = 0;
        loop {
            let sent = publisher.send(b"betz", &much);
            if sent.to == 0 {
                assert_eq!(sent.without_room, 1);
                break;
            }
            given += 1;
        }
        drop(subscriber);
        while !publisher.peers.is_empty() {
            publisher.attend();
        }
        assert!(given > 0);
        assert_eq!(publisher.send(b"betz", b"x").to, 0);
    }

    #[test]
    fn subscriptions_are_beginnings_and_are_taken_back() {
        let (mut publisher, stream) = attended(|place| {
            let mut stream = TcpStream::connect(place).unwrap();
            stream.write_all(&greeting()).unwrap();
            stream.write_all(&ready(b"SUB")).unwrap();
            stream
                .write_all(b"\0\x03\x01be\x04\x0f\x09SUBSCRIBEother")
                .unwrap();
            stream
                .write_all(b"\0\x03\0be\x04\x09\x04PING\0\x01ab")
                .unwrap();
            stream.set_read_timeout(Some(GREETS_IN)).unwrap();
            let mut theirs = [0; GREETING + 27 + 9];
            stream.read_exact(&mut theirs).unwrap();
            assert_eq!(theirs[GREETING + 27..], *b"\x04\x07\x04PONGab");
            stream
        });
        assert_eq!(publisher.send(b"betz", b"x").to, 0);
        assert_eq!(publisher.send(b"others", b"x").to, 1);
        drop(stream);
    }

    #[test]
    fn what_is_no_subscriber_is_left() {
        let mut hello = greeting().to_vec();
        hello.extend(ready(b"REQ"));
        let mut broken = greeting().to_vec();
        broken.extend([9; 40]);
        let mut long = greeting().to_vec();
        long.extend(b"\x02\xff\xff\xff\xff\xff\xff\xff\xff");
        for said in [b"GET / HTTP/1.1\r\n".repeat(9), hello, broken, long] {
            let mut publisher = Publisher::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let mut stream = TcpStream::connect(publisher.listener.local_addr().unwrap()).unwrap();
            stream.write_all(&said).unwrap();
            let mut wrong = 0;
            while wrong == 0 {
                wrong += publisher.attend();
            }
            assert!(wrong == 1 && publisher.peers.is_empty());
        }
    }
}
