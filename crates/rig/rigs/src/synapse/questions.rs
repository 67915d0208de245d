//! Questions for the time of a Synapse device, over UDP.
//!
//! The device returns a question with the times at which it came and went (`synapse.TimeSyncPacket`):
//!
//! | field | type | content |
//! |---|---|---|
//! | 1, 2 | fixed32 | number of the client, number of the question |
//! | 3, 6 | fixed64 | the client's times of the question and of the answer, in ns; 6 stays empty |
//! | 4, 5 | fixed64 | the device's times of the question and of the answer, in ns |

use std::net::UdpSocket;

use betz_base::{Error, ErrorKind, Result};

use crate::rig::host_ns;
use crate::rig::protobuf::{Value, put_fixed32, put_fixed64, take_field};

/// Port at which devices answer, if the address names none.
const PORT: u16 = 52340;
/// Nanoseconds between two questions, and after which an answer is no longer waited for.
const QUESTION_NS: i64 = 250_000_000;
const ANSWER_NS: i64 = 1_000_000_000;
/// Most bytes of an answer.
const LARGEST: usize = 1 << 10;

/// A question, or its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TimePacket {
    pub(crate) client: u32,
    pub(crate) sequence: u32,
    /// Fields 3 to 6.
    pub(crate) times: [u64; 4],
}

impl TimePacket {
    /// Reads a packet; `None` if it is damaged.
    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut packet = Self::default();
        while !bytes.is_empty() {
            match take_field(&mut bytes)? {
                (1, Value::Fixed32(client)) => packet.client = client,
                (2, Value::Fixed32(sequence)) => packet.sequence = sequence,
                (field @ 3..=6, Value::Fixed64(time)) => packet.times[field as usize - 3] = time,
                (1..=6, _) => return None,
                _ => {}
            }
        }
        Some(packet)
    }

    /// Bytes of the packet.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(46);
        put_fixed32(&mut bytes, 1, self.client);
        put_fixed32(&mut bytes, 2, self.sequence);
        for (field, time) in (3..).zip(self.times) {
            if time > 0 {
                put_fixed64(&mut bytes, field, time);
            }
        }
        bytes
    }
}

/// The device's time at some moment between two times of the host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) asked_ns: i64,
    pub(super) device_ns: u64,
    pub(super) answered_ns: i64,
}

/// Questions for the device's time.
pub(super) struct TimeQuestions {
    socket: UdpSocket,
    packet: TimePacket,
    /// Host time of a question that waits for its answer.
    asked_ns: Option<i64>,
    /// Host time of the newest question.
    last_ns: i64,
}

impl TimeQuestions {
    /// Questions to `device`, `HOST` or `HOST:PORT`.
    pub(super) fn new(device: &str) -> Result<Self> {
        let device = match device.contains(':') {
            true => crate::bus::resolve(device)?,
            false => crate::bus::resolve(&format!("{device}:{PORT}"))?,
        };
        let any = match device.is_ipv4() {
            true => "0.0.0.0:0",
            false => "[::]:0",
        };
        let io = |e| Error::new(ErrorKind::Io, format!("asking {device} for its time: {e}"));
        let socket = UdpSocket::bind(any).map_err(io)?;
        // Only the device's own datagrams are taken.
        socket.connect(device).map_err(io)?;
        socket.set_nonblocking(true).map_err(io)?;
        Ok(Self {
            socket,
            packet: TimePacket {
                client: std::process::id(),
                ..TimePacket::default()
            },
            asked_ns: None,
            last_ns: i64::MIN / 2,
        })
    }

    /// Asks for the device's time, if it is time to.
    pub(super) fn ask(&mut self) {
        let now = host_ns();
        let waits = self.asked_ns.is_some_and(|asked| now - asked < ANSWER_NS);
        if waits || now - self.last_ns < QUESTION_NS {
            return;
        }
        self.last_ns = now;
        self.packet.sequence = self.packet.sequence.wrapping_add(1);
        self.packet.times[0] = now.unsigned_abs();
        // A device that is away refuses; the next question may find it.
        let is_sent = self.socket.send(&self.packet.to_bytes()).is_ok();
        self.asked_ns = is_sent.then_some(now);
    }

    /// Takes the answers that came; returns that of the newest question, and adds damaged ones to `malformed`.
    pub(super) fn take(&mut self, malformed: &mut u64) -> Option<Answer> {
        let mut bytes = [0; LARGEST];
        let mut answer = None;
        // An error ends it until the next time: a refusal of an earlier question, for one, while the device is away.
        while let Ok(length) = self.socket.recv(&mut bytes) {
            let answered_ns = host_ns();
            let Some(packet) = TimePacket::read(&bytes[..length]) else {
                *malformed += 1;
                continue;
            };
            let [_, came, went, _] = packet.times;
            let is_own =
                (packet.client, packet.sequence) == (self.packet.client, self.packet.sequence);
            if !is_own || (came, went) == (0, 0) {
                continue;
            }
            if let Some(asked_ns) = self.asked_ns.take() {
                answer = Some(Answer {
                    asked_ns,
                    device_ns: if came > 0 { came } else { went },
                    answered_ns,
                });
            }
        }
        answer
    }
}
