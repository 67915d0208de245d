//! Messages of a tap: a row of voltage, or the spikes of a bin.
//!
//! | field | `synapse.BroadbandFrame` | `synapse.SpiketrainFrame` |
//! |---|---|---|
//! | 1 | `timestamp_ns`: the start's time, and the rows since then by the nominal rate | `timestamp_ns` |
//! | 2 | `sequence_number`, one per message | the same |
//! | 3 | `frame_data`, sint32: one value of each channel | `bin_size_ms` |
//! | 4 | `sample_rate_hz` | `spike_counts`, one per channel |
//! | 5 | `channel_ranges`: type (1; 0 is electrodes) and count (2) | `channel_ids` |
//! | 6 | `unix_timestamp_ns`: the device's clock when it made the message | the same |

use crate::rig::protobuf::{Value, signed, take_field};

/// Most channels of a row.
const MOST_CHANNELS: usize = 1 << 16;
/// Most spikes of a channel in a bin.
const MOST_SPIKES: u32 = 1000;

/// Reason why a message is no row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Misfit {
    /// It is no message of the expected kind.
    Damage,
    /// It has so many channels, which is another number than expected.
    Width(usize),
    /// It has another rate than expected.
    Rate(f64),
    /// Neither it nor the address states a rate.
    NoRate,
    /// One of its values is no int16.
    Value(i64),
}

impl Misfit {
    /// True if `other` asks for the same remedy.
    pub(super) fn is_like(self, other: Self) -> bool {
        let both_are_values = matches!((self, other), (Self::Value(_), Self::Value(_)));
        both_are_values || self == other
    }
}

/// A message of a tap.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Number of the message.
    pub(super) sequence: u64,
    /// Device time in nanoseconds: when the message was made or, on devices that do not state that, of the row.
    pub(super) time_ns: u64,
    /// Rows per second; 0 if the message does not state them.
    pub(super) rate: f64,
    /// Voltage of each electrode.
    pub(super) voltage: Vec<i16>,
    /// Spikes of each channel.
    pub(super) spikes: Vec<u32>,
}

impl Row {
    fn clear(&mut self) {
        (self.sequence, self.time_ns, self.rate) = (0, 0, 0.0);
        self.voltage.clear();
        self.spikes.clear();
    }

    /// Reads a `BroadbandFrame`, and subtracts `offset` from its values. Channels behind the electrodes are left out.
    pub(super) fn read_voltage(&mut self, mut message: &[u8], offset: i64) -> Result<(), Misfit> {
        self.clear();
        let (mut row_ns, mut made_ns) = (0, 0);
        let mut misfit = Misfit::Damage;
        // Electrodes of the ranges so far, and whether another kind has begun.
        let (mut electrodes, mut is_past) = (None, false);
        while !message.is_empty() {
            let (field, value) = take_field(&mut message).ok_or(Misfit::Damage)?;
            let read = match field {
                1 => value.number().map(|n| row_ns = n),
                2 => value.number().map(|n| self.sequence = n),
                3 => value.each_number(|number| {
                    if self.voltage.len() == MOST_CHANNELS {
                        return None;
                    }
                    let value = signed(number).saturating_sub(offset);
                    match i16::try_from(value) {
                        Ok(value) => self.voltage.push(value),
                        Err(_) => {
                            misfit = Misfit::Value(signed(number));
                            return None;
                        }
                    }
                    Some(())
                }),
                4 => value.number().map(|n| self.rate = n as f64),
                5 => read_range(value).map(|(kind, count)| {
                    is_past |= kind != 0;
                    let more = if is_past { 0 } else { count };
                    electrodes = Some(electrodes.unwrap_or(0_usize).saturating_add(more));
                }),
                6 => value.number().map(|n| made_ns = n),
                _ => Some(()),
            };
            read.ok_or(misfit)?;
        }
        if electrodes.is_some_and(|n| n > self.voltage.len()) || self.voltage.is_empty() {
            return Err(Misfit::Damage);
        }
        self.voltage.truncate(electrodes.unwrap_or(usize::MAX));
        if self.voltage.is_empty() {
            return Err(Misfit::Width(0));
        }
        self.time_ns = if made_ns > 0 { made_ns } else { row_ns };
        Ok(())
    }

    /// Reads a `SpiketrainFrame`.
    pub(super) fn read_spikes(&mut self, mut message: &[u8]) -> Result<(), Misfit> {
        self.clear();
        let (mut row_ns, mut made_ns, mut named) = (0, 0, 0);
        while !message.is_empty() {
            let (field, value) = take_field(&mut message).ok_or(Misfit::Damage)?;
            let read = match field {
                1 => value.number().map(|n| row_ns = n),
                2 => value.number().map(|n| self.sequence = n),
                3 => value.number().map(|n| match n {
                    0 => self.rate = 0.0,
                    milliseconds => self.rate = 1000.0 / milliseconds as f64,
                }),
                4 => value.each_number(|number| {
                    let count = u32::try_from(number).ok().filter(|n| *n <= MOST_SPIKES)?;
                    self.spikes.push(count);
                    (self.spikes.len() <= MOST_CHANNELS).then_some(())
                }),
                5 => value.each_number(|_| {
                    named += 1;
                    Some(())
                }),
                6 => value.number().map(|n| made_ns = n),
                _ => Some(()),
            };
            read.ok_or(Misfit::Damage)?;
        }
        if self.spikes.is_empty() || ![0, self.spikes.len()].contains(&named) {
            return Err(Misfit::Damage);
        }
        self.time_ns = if made_ns > 0 { made_ns } else { row_ns };
        Ok(())
    }
}

/// Type and count of a range of channels.
fn read_range(value: Value<'_>) -> Option<(u64, usize)> {
    let Value::Bytes(mut range) = value else {
        return None;
    };
    let (mut kind, mut count) = (0, 0);
    while !range.is_empty() {
        match take_field(&mut range)? {
            (1, value) => kind = value.number()?,
            (2, value) => count = usize::try_from(value.number()?).ok()?,
            _ => {}
        }
    }
    Some((kind, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Message of five electrodes and two inputs, made by science-synapse 2.8.4.
    const VOLTAGE: &[u8] = b"\x08\x80\x80\xa8\xbe\xf6\x94\xbf\xbd\x18\x10\xac\x02\x1a\x0c\0\x01\xa0\x1f\xff\xff\x03\
        \xfe\xff\x03\x02\0\x20\xb0\xea\x01\x2a\x02\x10\x05\x2a\x08\x08\x01\x10\x02\x1a\x02\0\x02\x30\xa0\x8d\xae\
        \xbe\xf6\x94\xbf\xbd\x18";
    /// Message of the spikes of three channels, made by it.
    const SPIKES: &[u8] = b"\x08\x05\x18\x14\x22\x04\0\x03\xac\x02\x2a\x03\x07\x08\x09";

    #[test]
    fn messages_of_the_makers_library_are_read() {
        let mut row = Row::default();
        assert_eq!(row.read_voltage(VOLTAGE, 0), Ok(()));
        assert_eq!(row.voltage, [0, -1, 2000, i16::MIN, i16::MAX]);
        let facts = (row.sequence, row.time_ns, row.rate);
        assert_eq!(facts, (300, 1_764_000_000_000_100_000, 30_000.0));
        assert_eq!(row.read_spikes(SPIKES), Ok(()));
        assert_eq!(row.spikes, [0, 3, 300]);
        assert_eq!((row.sequence, row.time_ns, row.rate), (0, 5, 50.0));
        // Each of the other kind is refused.
        assert_eq!(row.read_voltage(SPIKES, 0), Err(Misfit::Damage));
        assert_eq!(row.read_spikes(VOLTAGE), Err(Misfit::Damage));
    }

    #[test]
    fn offsets_apply_before_the_range_of_int16() {
        let mut row = Row::default();
        assert_eq!(row.read_voltage(VOLTAGE, 1), Err(Misfit::Value(-32_768)));
        let unsigned = b"\x1a\x04\xfe\xff\x07\0\x20\x01";
        assert_eq!(row.read_voltage(unsigned, 32_768), Ok(()));
        assert_eq!(row.voltage, [i16::MAX, i16::MIN]);
        assert_eq!(row.read_voltage(unsigned, 0), Err(Misfit::Value(65_535)));
    }
}
