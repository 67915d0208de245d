//! 64-bit FNV-1a: stable for ever, unlike the standard library's hashes. It names and tells apart; it
//! protects against nothing.
//!
//! Fowler, Noll and Vo's constants: offset basis 0xcbf29ce484222325, prime 0x100000001b3.

/// A running hash.
///
/// ```
/// use betz_base::hash::Fnv1a;
///
/// let mut hash = Fnv1a::new();
/// hash.bytes(b"foobar");
/// assert_eq!(hash.finish(), 0x85944171f73967e8); // the authors' test vector
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Fnv1a(u64);

impl Fnv1a {
    /// The hash of nothing.
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Takes `bytes` in, one after another.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Takes a word in, little end first.
    pub fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    /// Takes the bits of `value` in: 0.0 and −0.0 differ.
    pub fn number(&mut self, value: f64) {
        self.word(value.to_bits());
    }

    /// The hash of `values` in their order.
    pub fn of_values(values: &[f32]) -> u64 {
        let mut hash = Self::new();
        for value in values {
            hash.number(f64::from(*value));
        }
        hash.finish()
    }

    /// The hash of all that was taken in.
    pub const fn finish(self) -> u64 {
        self.0
    }
}

impl Default for Fnv1a {
    fn default() -> Self {
        Self::new()
    }
}
