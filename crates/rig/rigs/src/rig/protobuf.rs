//! Reads and writes fields of Protocol Buffers messages (protobuf.dev/programming-guides/encoding), as far as rigs need
//! them. Anything that a field cannot be is `None`; nothing is taken on trust.

/// Value of a field, by its wire type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// Most bytes of a varint.
const VARINT: usize = 10;

/// Takes the number and the value of the next field from the front of `message`; `None` if no field is there. Groups,
/// which current programs no longer write, are refused.
pub(crate) fn take_field<'a>(message: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let key = take_varint(message)?;
    let value = match key & 7 {
        0 => Value::Varint(take_varint(message)?),
        1 => {
            let (bytes, rest) = message.split_first_chunk()?;
            *message = rest;
            Value::Fixed64(u64::from_le_bytes(*bytes))
        }
        2 => {
            let length = usize::try_from(take_varint(message)?).ok()?;
            let (bytes, rest) = message.split_at_checked(length)?;
            *message = rest;
            Value::Bytes(bytes)
        }
        5 => {
            let (bytes, rest) = message.split_first_chunk()?;
            *message = rest;
            Value::Fixed32(u32::from_le_bytes(*bytes))
        }
        _ => return None,
    };
    (key >> 3 > 0).then_some((key >> 3, value))
}

/// Takes a number of 1 to 10 bytes, of which each holds 7 bits, from the front of `bytes`.
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    // Nearly all numbers are samples, of at most three bytes; the loop below takes 2.6 times as long for them.
    match **bytes {
        [a, ..] if a < 0x80 => {
            *bytes = &bytes[1..];
            return Some(u64::from(a));
        }
        [a, b, ..] if b < 0x80 => {
            *bytes = &bytes[2..];
            return Some(u64::from(a & 0x7f) | u64::from(b) << 7);
        }
        [a, b, c, ..] if c < 0x80 => {
            *bytes = &bytes[3..];
            return Some(u64::from(a & 0x7f) | u64::from(b & 0x7f) << 7 | u64::from(c) << 14);
        }
        _ => {}
    }
    let mut number = 0;
    for (k, &byte) in bytes.iter().take(VARINT).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * k);
        if byte < 0x80 {
            *bytes = &bytes[k + 1..];
            // The tenth byte holds the last bit of 64.
            return (k + 1 < VARINT || byte <= 1).then_some(number);
        }
    }
    None
}

impl Value<'_> {
    /// The number of a field of a whole number.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Self::Varint(number) => Some(number),
            _ => None,
        }
    }

    /// Gives the numbers of a repeated field to `each`, be they packed or one; `None` if the field holds none, or if
    /// `each` refuses a number.
    pub(crate) fn each_number(self, mut each: impl FnMut(u64) -> Option<()>) -> Option<()> {
        match self {
            Self::Varint(number) => each(number),
            Self::Bytes(mut packed) => {
                while !packed.is_empty() {
                    each(take_varint(&mut packed)?)?;
                }
                Some(())
            }
            Self::Fixed64(_) | Self::Fixed32(_) => None,
        }
    }
}

/// The number that a field of type `sint32` or `sint64` stands for.
pub(crate) fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Appends a field of fixed 4 bytes.
pub(crate) fn put_fixed32(to: &mut Vec<u8>, field: u64, value: u32) {
    put_varint(to, field << 3 | 5);
    to.extend(value.to_le_bytes());
}

/// Appends a field of fixed 8 bytes.
pub(crate) fn put_fixed64(to: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(to, field << 3 | 1);
    to.extend(value.to_le_bytes());
}

/// Appends a number.
pub(crate) fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends a field of a whole number. Senders leave out a 0.
#[cfg(feature = "emulate")]
pub(crate) fn put_number(to: &mut Vec<u8>, field: u64, number: u64) {
    if number > 0 {
        put_varint(to, field << 3);
        put_varint(to, number);
    }
}

/// Appends a field of bytes.
#[cfg(feature = "emulate")]
pub(crate) fn put_bytes(to: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(to, field << 3 | 2);
    put_varint(to, bytes.len() as u64);
    to.extend(bytes);
}

/// The number by which a field of type `sint32` or `sint64` states `value`.
#[cfg(feature = "emulate")]
pub(crate) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[cfg(all(test, feature = "emulate"))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(mut message: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
        let mut fields = Vec::new();
        while !message.is_empty() {
            fields.push(take_field(&mut message)?);
        }
        Some(fields)
    }

    #[test]
    fn fields_come_back_as_written() {
        let mut message = Vec::new();
        put_number(&mut message, 1, u64::MAX);
        put_fixed32(&mut message, 2, 7);
        put_fixed64(&mut message, 3, 1 << 60);
        put_bytes(&mut message, 1 << 20, b"ab");
        put_number(&mut message, 5, 0);
        let expected = vec![
            (1, Value::Varint(u64::MAX)),
            (2, Value::Fixed32(7)),
            (3, Value::Fixed64(1 << 60)),
            (1 << 20, Value::Bytes(b"ab")),
        ];
        assert_eq!(fields(&message), Some(expected));
        // From the specification: 150 as field 1, and the numbers 3, 270 and 86942 packed as field 6.
        assert_eq!(fields(b"\x08\x96\x01"), Some(vec![(1, Value::Varint(150))]));
        let mut numbers = Vec::new();
        let mut packed = &b"\x32\x06\x03\x8e\x02\x9e\xa7\x05"[..];
        let each = |n| {
            numbers.push(n);
            Some(())
        };
        let value = take_field(&mut packed).map(|(_, value)| value.each_number(each));
        assert_eq!((value, numbers), (Some(Some(())), vec![3, 270, 86_942]));
        for value in [0, -1, 1, -2, i64::from(i32::MAX), i64::from(i32::MIN)] {
            assert_eq!(signed(zigzag(value)), value);
        }
        assert_eq!(zigzag(-2), 3);
    }

    #[test]
    fn damage_is_refused() {
        let cases: &[&[u8]] = &[
            b"\x08",
            b"\x08\x80",
            b"\x0d\0\0\0",
            b"\x09\0\0\0\0\0\0\0",
            b"\x0a\x02a",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
            // A group, its end, two wire types that do not exist, and field 0.
            b"\x0b",
            b"\x0c",
            b"\x0e",
            b"\x0f",
            b"\0\x01",
            // A number of more than 64 bits, and one without an end.
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        ];
        for case in cases {
            assert_eq!(fields(case), None, "{case:02x?}");
        }
    }

    proptest! {
        #[test]
        fn a_message_that_is_cut_within_a_field_is_refused(numbers in proptest::collection::vec(any::<u64>(), 1..20)) {
            let mut packed = Vec::new();
            numbers.iter().for_each(|n| put_varint(&mut packed, *n));
            let mut message = Vec::new();
            put_fixed64(&mut message, 3, 5);
            let whole = message.len();
            put_bytes(&mut message, 4, &packed);
            for cut in 0..message.len() {
                prop_assert_eq!(fields(&message[..cut]).is_some(), cut == 0 || cut == whole);
            }
            let mut found = Vec::new();
            let each = |n| {
                found.push(n);
                Some(())
            };
            let read = fields(&message).and_then(|f| f[1].1.each_number(each));
            prop_assert_eq!((read, found), (Some(()), numbers));
        }

        #[test]
        fn no_bytes_are_read_twice(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &bytes[..];
            while let Some((number, value)) = take_field(&mut rest) {
                prop_assert!(number > 0);
                let _ = value.each_number(|_| Some(()));
            }
            prop_assert!(bytes.ends_with(rest));
        }
    }
}
