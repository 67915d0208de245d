//! The plain numbers of NumPy: types that arrays are written in, and all types that can be read.

/// A number with a NumPy type of its own.
pub trait Element: Copy {
    /// NumPy's type string.
    const DESCR: &'static str;
    /// Name in messages.
    const NAME: &'static str;
    /// Appends the numbers in `bytes` (whole elements, little-endian) to `out`.
    fn decode(bytes: &[u8], out: &mut Vec<Self>);
    /// Appends the bytes of `values` to `out`.
    fn encode(values: &[Self], out: &mut Vec<u8>);
}

macro_rules! element {
    ($($t:ty, $descr:literal, $name:literal;)*) => {$(
        impl Element for $t {
            const DESCR: &'static str = $descr;
            const NAME: &'static str = $name;
            fn decode(bytes: &[u8], out: &mut Vec<Self>) {
                out.extend(bytes.as_chunks().0.iter().map(|b| <$t>::from_le_bytes(*b)));
            }
            fn encode(values: &[Self], out: &mut Vec<u8>) {
                out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            }
        }
    )*};
}
element! {
    u8, "|u1", "uint8";
    u16, "<u2", "uint16";
    u32, "<u4", "uint32";
    u64, "<u8", "uint64";
    i16, "<i2", "int16";
    i64, "<i8", "int64";
    f32, "<f4", "float32";
    f64, "<f8", "float64";
}

/// A number that any NumPy number is converted to if its value fits.
pub trait Number: Element {
    /// Converts `value`; `None` if it does not fit.
    fn of_integer(value: i128) -> Option<Self>;
    /// Converts `value`, rounded to this type's precision; `None` if it does not fit.
    fn of_float(value: f64) -> Option<Self>;
    /// Appends the integers in `bytes` (whole elements of NumPy's type `descr`) to `out` by a fast path. Returns
    /// `false` and leaves `out` unchanged if there is no fast path for `descr`, or if a number does not fit.
    fn of_integers(descr: &str, bytes: &[u8], out: &mut Vec<Self>) -> bool {
        let _ = (descr, bytes, out);
        false
    }
}

/// Appends the integers in `bytes`, each read by `read`, to `out` if all of them fit.
fn all_fit<const N: usize, S, T: TryFrom<S>>(
    bytes: &[u8],
    read: impl Fn([u8; N]) -> S,
    out: &mut Vec<T>,
) -> bool {
    let before = out.len();
    for element in bytes.as_chunks().0 {
        let Ok(number) = T::try_from(read(*element)) else {
            out.truncate(before);
            return false;
        };
        out.push(number);
    }
    true
}

macro_rules! integer {
    ($($t:ty)*) => {$(
        impl Number for $t {
            fn of_integer(value: i128) -> Option<Self> {
                value.try_into().ok()
            }
            fn of_float(value: f64) -> Option<Self> {
                // Within ±2⁶⁴ the cast is exact for whole numbers.
                (value.fract() == 0.0 && value.abs() <= u64::MAX as f64)
                    .then(|| (value as i128).try_into().ok())?
            }
            fn of_integers(descr: &str, bytes: &[u8], out: &mut Vec<Self>) -> bool {
                match descr {
                    "|u1" => all_fit(bytes, u8::from_le_bytes, out),
                    "<u2" => all_fit(bytes, u16::from_le_bytes, out),
                    "<u4" => all_fit(bytes, u32::from_le_bytes, out),
                    "<u8" => all_fit(bytes, u64::from_le_bytes, out),
                    "<i2" => all_fit(bytes, i16::from_le_bytes, out),
                    "<i4" => all_fit(bytes, i32::from_le_bytes, out),
                    "<i8" => all_fit(bytes, i64::from_le_bytes, out),
                    _ => false,
                }
            }
        }
    )*};
}
integer! { u8 u16 u32 u64 i16 i64 }

impl Number for f32 {
    fn of_integer(value: i128) -> Option<Self> {
        Some(value as Self)
    }
    fn of_float(value: f64) -> Option<Self> {
        let near = value as Self;
        (near.is_finite() || !value.is_finite()).then_some(near)
    }
}

impl Number for f64 {
    fn of_integer(value: i128) -> Option<Self> {
        let near = value as Self;
        (near as i128 == value).then_some(near)
    }
    fn of_float(value: f64) -> Option<Self> {
        Some(value)
    }
}

/// A dtype of plain numbers, in either byte order.
#[derive(Clone, Copy)]
pub(super) struct NumberFormat {
    /// NumPy's letter: b, i, u or f.
    kind: u8,
    pub(super) size: usize,
    big_endian: bool,
}

/// A number as it is stored.
pub(super) enum Value {
    Integer(i128),
    Float(f64),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

impl NumberFormat {
    pub(super) fn of(descr: &str) -> Option<Self> {
        let (order, rest) = descr.split_at_checked(1)?;
        let (kind, size) = rest.split_at_checked(1)?;
        let stored = Self {
            kind: kind.as_bytes()[0],
            size: size.parse().ok()?,
            big_endian: match order {
                "<" | "|" | "=" => false,
                ">" => true,
                _ => return None,
            },
        };
        let sizes: &[usize] = match stored.kind {
            b'b' => &[1],
            b'i' | b'u' => &[1, 2, 4, 8],
            b'f' => &[2, 4, 8],
            _ => return None,
        };
        sizes.contains(&stored.size).then_some(stored)
    }

    /// The number in `bytes`, which holds exactly one.
    pub(super) fn value(self, bytes: &[u8]) -> Value {
        let mut bits = 0_u64;
        for (i, &byte) in bytes.iter().enumerate() {
            let place = if self.big_endian {
                self.size - 1 - i
            } else {
                i
            };
            bits |= u64::from(byte) << (8 * place);
        }
        let unused = 64 - 8 * self.size as u32;
        match (self.kind, self.size) {
            (b'b', _) => Value::Integer(i128::from(bits != 0)),
            (b'i', _) => Value::Integer(i128::from((bits << unused) as i64 >> unused)),
            (b'u', _) => Value::Integer(i128::from(bits)),
            (_, 2) => Value::Float(half(bits as u16)),
            (_, 4) => Value::Float(f64::from(f32::from_bits(bits as u32))),
            _ => Value::Float(f64::from_bits(bits)),
        }
    }
}

/// The value of an IEEE half-precision number.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    }
}
