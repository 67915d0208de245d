//! Questions for the time of a Cerebus device.

use std::net::SocketAddr;

use betz_base::Result;

use super::Protocol;
use crate::clock::host_ns;
use crate::rig::Probe;
use crate::udp::{Receiver, word};

/// Types of the question for the device's time and of its answer, and the bytes of their payload. The time is 16 bytes
/// into that of the answer.
const QUESTION: u16 = 0xdc;
pub(super) const ANSWER: u16 = 0x5c;
const QUESTION_BYTES: usize = 1008;
/// Nanoseconds between two questions, and after which none is waited for any more.
const QUESTION_NS: i64 = 250_000_000;
const ANSWER_NS: i64 = 1_000_000_000;

/// Questions for the device's time, and the newest answer.
pub(super) struct ClockQuestions {
    device: SocketAddr,
    /// Host time of a question that waits for its answer.
    asked_ns: Option<i64>,
    /// Host time of the newest question.
    last_ns: i64,
    pub(super) answer: Option<Probe>,
}

impl ClockQuestions {
    /// Questions to `device`, `HOST:PORT`.
    pub(super) fn new(device: &str) -> Result<Self> {
        Ok(Self {
            device: crate::bus::resolve(device)?,
            asked_ns: None,
            last_ns: i64::MIN / 2,
            answer: None,
        })
    }

    /// Asks for the device's time, if it is time to.
    pub(super) fn ask(&mut self, protocol: Protocol, receiver: &Receiver) {
        let now = host_ns();
        let waits = self.asked_ns.is_some_and(|asked| now - asked < ANSWER_NS);
        if waits || now - self.last_ns < QUESTION_NS || protocol == Protocol::V311 {
            return;
        }
        self.last_ns = now;
        let is_sent = receiver.send(&clock_question(protocol), self.device);
        self.asked_ns = is_sent.then_some(now);
    }

    /// Takes an answer, whose time `device` turns into that of blocks.
    pub(super) fn take(
        &mut self,
        header: u64,
        payload: &[u8],
        arrival: i64,
        device: impl Fn(u64) -> Option<u64>,
    ) {
        // Older devices leave the field empty; their header is then somewhat stale.
        let time = payload
            .get(16..24)
            .map_or(0, |_| u64::from_le_bytes(word(payload, 16)));
        let time = if time == 0 { header } else { time };
        if let (Some(asked_ns), Some(device)) = (self.asked_ns.take(), device(time)) {
            self.answer = Some(Probe {
                asked_ns,
                device,
                answered_ns: arrival,
            });
        }
    }
}

/// The question for the device's time: a control of playback that changes nothing, whose answer holds the time.
fn clock_question(protocol: Protocol) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend(0x8000_u16.to_le_bytes());
    let words = ((QUESTION_BYTES / 4) as u16).to_le_bytes();
    match protocol {
        Protocol::V311 => return Vec::new(),
        Protocol::V40 => bytes.extend([QUESTION as u8, words[0], words[1], 0, 0, 0]),
        Protocol::V41 => bytes.extend([QUESTION as u8, 0, words[0], words[1], 0, 0]),
    }
    bytes.resize(16 + QUESTION_BYTES, 0);
    // Neither mode nor flags: no change.
    bytes[16 + 32..16 + 34].copy_from_slice(&u16::MAX.to_le_bytes());
    bytes
}
