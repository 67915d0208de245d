//! Decimal numbers of seconds as whole picoseconds.

use super::malformed_line;
use betz_base::error::Result;

/// Powers of ten that fit 64 bits.
const POWERS: [u64; 20] = {
    let mut powers = [1_u64; 20];
    let mut i = 1;
    while i < 20 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// Decimals of a second that are kept: 12, one picosecond.
const DECIMALS: i32 = 12;

/// A decimal number of seconds as whole picoseconds, rounded to the nearest.
pub(super) fn parse_picoseconds(text: &[u8]) -> Result<i128> {
    let refuse = || {
        let word = String::from_utf8_lossy(text);
        match word.parse::<f64>() {
            Ok(v) if !v.is_finite() => malformed_line("expected a finite time, got", text),
            _ => malformed_line("expected seconds as a decimal number, got", text),
        }
    };
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let mut mantissa = 0_u64;
    // Power of ten that the mantissa is to be multiplied by, in picoseconds.
    let mut exponent = DECIMALS;
    let mut seen = false;
    let mut fraction = false;
    let mut i = 0;
    while i < digits.len() {
        match digits[i] {
            d @ b'0'..=b'9' => {
                seen = true;
                // 19 digits are kept; later ones are far below a picosecond, or only shift.
                if mantissa < POWERS[18] {
                    mantissa = mantissa * 10 + u64::from(d - b'0');
                    exponent -= i32::from(fraction);
                } else {
                    exponent += i32::from(!fraction);
                }
            }
            b'.' if !fraction => fraction = true,
            b'e' | b'E' if seen => {
                let power: i32 = std::str::from_utf8(&digits[i + 1..])
                    .ok()
                    .and_then(|t| t.parse().ok())
                    .ok_or_else(refuse)?;
                exponent = exponent.saturating_add(power);
                break;
            }
            _ => return Err(refuse()),
        }
        i += 1;
    }
    if !seen {
        return Err(refuse());
    }
    let value = match exponent {
        0 => i128::from(mantissa),
        1..=18 => i128::from(mantissa) * i128::from(POWERS[exponent as usize]),
        19.. if mantissa > 0 => {
            return Err(malformed_line(
                "expected a time within 53 days of the first event, got",
                text,
            ));
        }
        -19..=-1 => {
            let divisor = POWERS[(-exponent) as usize];
            // The quotient in 64 bits: a 128-bit division costs ten times as much.
            let (quotient, rest) = (mantissa / divisor, mantissa % divisor);
            i128::from(quotient + u64::from(rest >= divisor - rest))
        }
        _ => 0,
    };
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ps(text: &str) -> i128 {
        parse_picoseconds(text.as_bytes()).unwrap()
    }

    #[test]
    fn decimals_become_picoseconds() {
        assert_eq!(ps("0"), 0);
        assert_eq!(ps("1"), 1_000_000_000_000);
        assert_eq!(ps("0.004"), 4_000_000_000);
        assert_eq!(ps("-1.5"), -1_500_000_000_000);
        assert_eq!(ps("1.065178770507307E-4"), 106_517_877);
        assert_eq!(ps("0.0016613354553935054"), 1_661_335_455);
        assert_eq!(ps("3999.9999999999996"), 4_000_000_000_000_000);
        assert_eq!(ps("0.00000000000050000000000000000000"), 1);
        assert_eq!(ps("0.000000000000499999999999"), 0);
        assert_eq!(ps("1700000000.123456789"), 1_700_000_000_123_456_789_000);
        assert_eq!(ps(".5"), 500_000_000_000);
        assert_eq!(ps("5."), 5_000_000_000_000);
        assert_eq!(ps("1e3"), 1_000_000_000_000_000);
        assert_eq!(ps("1e-400"), 0);
        assert_eq!(ps("0e99"), 0);
    }
}
