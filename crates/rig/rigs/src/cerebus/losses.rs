//! Lost Cerebus packets, found from the device's own packets.

use crate::order::LONGEST_SECONDS;

/// Ticks of 1/30,000 s from one packet of a sample group to the next, by the group's number.
const PERIODS: [u64; 7] = [0, 60, 30, 15, 3, 1, 1];
/// Monitors in a row over which packets must be owed before they count as lost: packets may pass their monitor.
const MONITORS: usize = 10;

/// One packet's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Time, in the protocol's ticks.
    pub time: u64,
    /// Channel number; 0 for sample groups, 0x8000 and more for the system.
    pub chid: u16,
    /// Unit of a spike; otherwise the packet's type or sample group.
    pub kind: u16,
}

/// Counts lost packets in two ways: exactly by the times of sample groups, and by the balance of packets sent and
/// received that the device's monitors allow. The first is used as soon as there is a group.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Newest time of each sample group.
    groups: [Option<u64>; PERIODS.len()],
    has_group: bool,
    /// Packets since the last monitor, and that monitor's number.
    received: i64,
    monitor: Option<Option<u32>>,
    /// Packets sent less packets received since the first monitor, after each of the last monitors.
    balance: i64,
    owed: Vec<i64>,
    reported: i64,
    /// A monitor was lost, with what it said of other losses.
    bound: bool,
}

impl Losses {
    /// Number of packets found lost by `packet`; times count `rate` per second.
    pub(crate) fn take(&mut self, packet: &Packet, payload: &[u8], rate: u64) -> u64 {
        self.received += 1;
        match (packet.chid, packet.kind) {
            (0, 1..=6) => {
                self.has_group = true;
                self.group(usize::from(packet.kind), packet.time, rate)
            }
            // Longer packets of this type are previews of line noise.
            (0x8000, 1) if (4..=8).contains(&payload.len()) => {
                let word = |at| {
                    payload
                        .get(at..at + 4)
                        .map(|_| crate::udp::word(payload, at))
                };
                let sent = word(0).map_or(0, u32::from_le_bytes);
                let lost = self.monitor(sent, word(4).map(u32::from_le_bytes));
                if self.has_group { 0 } else { lost }
            }
            _ => 0,
        }
    }

    /// True if more may be lost than was found since the last call.
    #[cfg(feature = "rig")]
    pub(crate) fn take_bound(&mut self) -> bool {
        std::mem::take(&mut self.bound)
    }

    fn group(&mut self, group: usize, time: u64, rate: u64) -> u64 {
        let Some(gap) = self.groups[group].map_or(Some(0), |last| time.checked_sub(last)) else {
            return 0;
        };
        self.groups[group] = Some(time);
        if gap > LONGEST_SECONDS as u64 * rate {
            return 0;
        }
        let period = PERIODS[group] * rate;
        ((gap * 30_000 + period / 2) / period).saturating_sub(1)
    }

    fn monitor(&mut self, sent: u32, number: Option<u32>) -> u64 {
        let received = std::mem::take(&mut self.received);
        let before = self.monitor.replace(number);
        let missed = match (before, number) {
            (None, _) => return 0,
            (Some(Some(before)), Some(number)) => number.wrapping_sub(before).wrapping_sub(1),
            _ => 0,
        };
        if missed > 1 << 20 {
            // The device has restarted.
            *self = Self {
                groups: self.groups,
                has_group: self.has_group,
                monitor: Some(number),
                ..Self::default()
            };
            return 0;
        }
        // The losses that a lost monitor told of are unknown: the monitors themselves are a lower bound.
        self.balance += i64::from(sent) + i64::from(missed) - received;
        self.bound |= missed > 0;
        self.owed.push(self.balance);
        if self.owed.len() > MONITORS {
            self.owed.remove(0);
        }
        let owed = match self.owed.len() {
            MONITORS => self.owed.iter().copied().min().unwrap_or(0),
            _ => 0,
        };
        let lost = (owed - self.reported).max(0);
        self.reported += lost;
        lost as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKS: u64 = 30_000;

    fn packet(time: u64, chid: u16, kind: u16) -> Packet {
        Packet { time, chid, kind }
    }

    fn monitor(losses: &mut Losses, sent: u32, number: u32) -> u64 {
        let payload = [sent.to_le_bytes(), number.to_le_bytes()].concat();
        losses.take(&packet(0, 0x8000, 1), &payload, TICKS)
    }

    #[test]
    fn gaps_of_a_sample_group_are_exact_in_ticks_and_nanoseconds() {
        for (rate, period) in [(TICKS, 1.0), (1_000_000_000, 1e9 / 3e4)] {
            let mut losses = Losses::default();
            let mut lost = 0;
            for sample in (0..200_u32).filter(|s| !(50..57).contains(s) && *s != 120) {
                let time = (f64::from(sample) * period) as u64;
                lost += losses.take(&packet(time, 0, 5), &[0; 64], rate);
            }
            assert_eq!(lost, 8);
        }
        let mut losses = Losses::default();
        for time in [600, 660, 540, 660 + 60 * 3, 1 << 40, 5] {
            let lost = losses.take(&packet(time, 0, 1), &[], TICKS);
            assert_eq!(lost, if time == 840 { 2 } else { 0 }, "{time}");
        }
    }

    #[test]
    fn packets_that_pass_their_monitor_are_not_lost() {
        let mut losses = Losses::default();
        let mut lost = monitor(&mut losses, 1, 0);
        for number in 1..=40_u32 {
            // Every other interval is one packet short, which comes with the next one.
            for _ in 0..(if number % 2 == 1 { 8 } else { 10 }) {
                lost += losses.take(&packet(0, 3, 0), &[], TICKS);
            }
            lost += monitor(&mut losses, 10, number);
        }
        assert_eq!(lost, 0);
        // Four packets that never come, and then a monitor with its packets.
        let mut number = 41;
        for short in [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] {
            for _ in 0..9 - short {
                lost += losses.take(&packet(0, 3, 0), &[], TICKS);
            }
            number += u32::from(number == 46);
            lost += monitor(&mut losses, 10, number);
            number += 1;
        }
        assert_eq!(lost, 4, "the lost monitor is owed for too short a time");
        for _ in 0..10 {
            for _ in 0..9 {
                lost += losses.take(&packet(0, 3, 0), &[], TICKS);
            }
            lost += monitor(&mut losses, 10, number);
            number += 1;
        }
        assert_eq!(lost, 5, "a lost monitor counts itself: a lower bound");
        assert_eq!(monitor(&mut losses, 10, 0), 0, "a device that begins anew");
    }

    #[test]
    fn a_preview_of_line_noise_is_no_monitor() {
        let mut losses = Losses::default();
        assert_eq!(losses.take(&packet(0, 0x8000, 1), &[9; 604], TICKS), 0);
        assert_eq!(losses.monitor, None);
    }
}
