//! Random numbers that are a function of what they are for: a seed, a purpose and a place.
//!
//! Philox 4×32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") maps a counter
//! and a key to four words. No state is carried, so which thread or device asks, and in which order,
//! changes nothing. What is made of the words uses integers, tables and fused multiply-adds only,
//! never a system's logarithm, so that a device can make the same.

/// Purpose of the words of a seed: the fourth word of the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Target, weight and delay of a synapse: counter (k, source, projection).
    Synapse = 0x0100_0000,
    /// Sources of a synapse, or how many there are: counter (k low, k high, projection).
    Wiring = 0x0200_0000,
    /// Poisson input: counter (step / 4 low, step / 4 high, neuron).
    Poisson = 0x0300_0000,
    /// Membrane potentials at the start: counter (neuron, 0, 0).
    Start = 0x0400_0000,
    /// Chances of a closed loop, outside the network.
    Loop = 0x0500_0000,
    /// Parameters of neurons: counter (neuron of its population, population, parameter).
    Parameter = 0x0600_0000,
    /// Spikes of Poisson sources: counter (step / 4 low, step / 4 high, neuron).
    Source = 0x0700_0000,
}

const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Four random words for a counter.
#[inline(always)]
pub(crate) fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    let [mut x, mut y] = key;
    for _ in 0..10 {
        let p = MULTIPLIERS[0] * u64::from(a);
        let q = MULTIPLIERS[1] * u64::from(c);
        (a, b, c, d) = (
            (q >> 32) as u32 ^ b ^ x,
            q as u32,
            (p >> 32) as u32 ^ d ^ y,
            p as u32,
        );
        x = x.wrapping_add(WEYL[0]);
        y = y.wrapping_add(WEYL[1]);
    }
    [a, b, c, d]
}

/// Counters that [`philox_wide`] takes at a time.
pub(crate) const WIDE: usize = 16;

/// [`philox`] of sixteen counters at a time: word by word, so that registers hold sixteen of each.
#[inline(always)]
pub(crate) fn philox_wide(counter: [[u32; WIDE]; 4], key: [u32; 2]) -> [[u32; WIDE]; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    let [mut x, mut y] = key;
    for _ in 0..10 {
        for i in 0..WIDE {
            let p = MULTIPLIERS[0] * u64::from(a[i]);
            let q = MULTIPLIERS[1] * u64::from(c[i]);
            a[i] = (q >> 32) as u32 ^ b[i] ^ x;
            c[i] = (p >> 32) as u32 ^ d[i] ^ y;
            b[i] = q as u32;
            d[i] = p as u32;
        }
        x = x.wrapping_add(WEYL[0]);
        y = y.wrapping_add(WEYL[1]);
    }
    [a, b, c, d]
}

/// The words of a seed for one purpose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    key: [u32; 2],
    purpose: u32,
}

impl Words {
    pub(crate) fn new(seed: u64, purpose: Purpose) -> Self {
        Self {
            key: [seed as u32, (seed >> 32) as u32],
            purpose: purpose as u32,
        }
    }

    /// Four words at a place; `again` tells draws apart that are repeated there.
    #[inline(always)]
    pub(crate) fn at(&self, place: [u32; 3], again: u32) -> [u32; 4] {
        philox(
            [place[0], place[1], place[2], self.purpose ^ again],
            self.key,
        )
    }

    pub(crate) fn key(&self) -> [u32; 2] {
        self.key
    }

    pub(crate) fn purpose(&self) -> u32 {
        self.purpose
    }
}

/// An integer below `n` from one word: ⌊word · n / 2³²⌋. No value is off by more than 2⁻³².
#[inline(always)]
pub(crate) fn below(word: u32, n: u32) -> u32 {
    ((u64::from(word) * u64::from(n)) >> 32) as u32
}

/// A number in (0, 1) from one word.
#[inline(always)]
pub(crate) fn unit(word: u32) -> f64 {
    (f64::from(word) + 0.5) / 4_294_967_296.0
}

/// Two 32-bit words as one of 64.
#[inline(always)]
pub(crate) fn wide(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Spreads the bits of a word: the last steps of SplitMix64 (Steele et al. 2014).
#[inline(always)]
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A sequence of words, one after another, for work that is done in one order anyway.
#[derive(Debug, Clone)]
pub struct Sequence {
    words: Words,
    stream: u32,
    block: u64,
    left: Vec<u32>,
}

impl Sequence {
    pub fn new(seed: u64, purpose: Purpose, stream: u32) -> Self {
        Self {
            words: Words::new(seed, purpose),
            stream,
            block: 0,
            left: Vec::with_capacity(4),
        }
    }

    pub fn word(&mut self) -> u32 {
        if self.left.is_empty() {
            let place = [self.block as u32, (self.block >> 32) as u32, self.stream];
            self.left.extend(self.words.at(place, 0));
            self.block += 1;
        }
        self.left.pop().unwrap_or_default()
    }

    pub fn unit(&mut self) -> f64 {
        unit(self.word())
    }

    pub fn below(&mut self, n: u32) -> u32 {
        below(self.word(), n)
    }

    pub fn normal(&mut self, table: &Normal) -> f64 {
        f64::from(table.quantile(self.word()))
    }
}

/// Segments of each octave of [`Normal`]'s table.
const SEGMENTS: usize = 64;
/// Octaves: the tail's probability falls to 2⁻³².
const OCTAVES: usize = 32;

/// Standard normal numbers by linear interpolation of the quantile, within 3·10⁻⁵ of it.
///
/// One bit of a word is the sign; the other 31 are a tail probability. Each octave of probabilities
/// has 64 segments of equal width.
#[derive(Debug, Clone)]
pub struct Normal {
    edges: Vec<f32>,
}

/// No draw of [`Normal`] is farther from zero.
pub(crate) const NORMAL_LIMIT: f64 = 6.5;

impl Default for Normal {
    fn default() -> Self {
        Self::new()
    }
}

impl Normal {
    pub fn new() -> Self {
        let edge = |octave: usize, segment: usize| {
            // The tail probability is n / 2³³ with n = 2^(31 − octave) · (1 + segment / 64).
            let n = 2f64.powi(31 - octave as i32) * (1.0 + segment as f64 / SEGMENTS as f64);
            -normal_quantile(n / 2f64.powi(33)) as f32
        };
        let octaves = (0..OCTAVES).flat_map(|o| (0..=SEGMENTS).map(move |s| edge(o, s)));
        Self {
            edges: octaves.collect(),
        }
    }

    /// The table: 32 octaves of 65 numbers.
    pub(crate) fn edges(&self) -> &[f32] {
        &self.edges
    }

    #[inline(always)]
    pub(crate) fn quantile(&self, word: u32) -> f32 {
        let n = word | 1;
        let octave = n.leading_zeros();
        let fraction = (n << octave) & 0x7fff_ffff;
        let segment = (fraction >> 25) as usize;
        let place = octave as usize * (SEGMENTS + 1) + segment;
        let rest = (fraction & 0x01ff_ffff) as f32 * (1.0 / 33_554_432.0);
        let (from, to) = (self.edges[place], self.edges[place + 1]);
        let z = rest.mul_add(to - from, from);
        if word & 1 == 0 { z } else { -z }
    }
}

/// The quantile of the standard normal distribution for 0 < p ≤ 1/2: Wichura's AS 241 (1988).
fn normal_quantile(p: f64) -> f64 {
    let polynomial = |c: &[f64], x: f64| c.iter().rev().fold(0.0, |sum, c| sum * x + c);
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        const A: [f64; 8] = [
            3.387_132_872_796_366_5,
            133.141_667_891_784_38,
            1_971.590_950_306_551_3,
            13_731.693_765_509_46,
            45_921.953_931_549_87,
            67_265.770_927_008_7,
            33_430.575_583_588_13,
            2_509.080_928_730_122_7,
        ];
        const B: [f64; 8] = [
            1.0,
            42.313_330_701_600_91,
            687.187_007_492_057_9,
            5_394.196_021_424_751,
            21_213.794_301_586_597,
            39_307.895_800_092_71,
            28_729.085_735_721_943,
            5_226.495_278_852_854,
        ];
        let r = 0.180_625 - q * q;
        return q * polynomial(&A, r) / polynomial(&B, r);
    }
    let r = (-p.ln()).sqrt();
    let z = if r <= 5.0 {
        const C: [f64; 8] = [
            1.423_437_110_749_683_5,
            4.630_337_846_156_546,
            5.769_497_221_460_691,
            3.647_848_324_763_204_5,
            1.270_458_252_452_368_4,
            0.241_780_725_177_450_6,
            0.022_723_844_989_269_184,
            7.745_450_142_783_414e-4,
        ];
        const D: [f64; 8] = [
            1.0,
            2.053_191_626_637_759,
            1.676_384_830_183_803_8,
            0.689_767_334_985_1,
            0.148_103_976_427_480_08,
            0.015_198_666_563_616_457,
            5.475_938_084_995_345e-4,
            1.050_750_071_644_416_9e-9,
        ];
        polynomial(&C, r - 1.6) / polynomial(&D, r - 1.6)
    } else {
        const E: [f64; 8] = [
            6.657_904_643_501_103,
            5.463_784_911_164_114,
            1.784_826_539_917_291_3,
            0.296_560_571_828_504_87,
            0.026_532_189_526_576_124,
            0.001_242_660_947_388_078_4,
            2.711_555_568_743_487_6e-5,
            2.010_334_399_292_288_1e-7,
        ];
        const F: [f64; 8] = [
            1.0,
            0.599_832_206_555_888,
            0.136_929_880_922_735_8,
            0.014_875_361_290_850_615,
            7.868_691_311_456_133e-4,
            1.846_318_317_510_054_8e-5,
            1.421_511_758_316_446e-7,
            2.044_263_103_389_939_8e-15,
        ];
        polynomial(&E, r - 5.0) / polynomial(&F, r - 5.0)
    };
    -z
}

/// Largest expected count per step that [`poisson_thresholds`] serves.
pub(crate) const POISSON_LIMIT: f64 = 1000.0;

/// Thresholds of a word for Poisson counts: the count is the number of thresholds at or below the
/// word. The last one is at most 2³² − 1, so counts have a largest value, the table's length.
pub(crate) fn poisson_thresholds(expected: f64) -> Vec<u32> {
    thresholds(poisson_probabilities(expected))
}

fn poisson_probabilities(expected: f64) -> impl Iterator<Item = f64> {
    // Logarithms, since e^−λ may be too small for a number while the counts around λ are not.
    let mut log_p = -expected;
    (0u32..).map(move |k| {
        if k > 0 {
            log_p += expected.ln() - f64::from(k).ln();
        }
        log_p.exp()
    })
}

fn thresholds(probabilities: impl Iterator<Item = f64>) -> Vec<u32> {
    let mut sum = 0.0;
    let mut table = Vec::new();
    for p in probabilities {
        sum += p;
        let threshold = (sum * 4_294_967_296.0).round();
        if threshold >= 4_294_967_295.5 || table.len() >= 1 << 16 {
            break;
        }
        table.push(threshold as u32);
    }
    table
}

/// Cumulated probabilities of a binomial count in units of 2⁻⁶⁴: the count is the number of entries
/// at or below a 64-bit word.
pub(crate) fn binomial_thresholds(trials: u32, p: f64) -> Vec<u64> {
    let (log_p, log_q) = (p.ln(), (-p).ln_1p());
    let mut log_choose = 0.0;
    let mut sum = 0.0;
    let mut table = Vec::new();
    for k in 0..trials {
        if k > 0 {
            log_choose += f64::from(trials - k + 1).ln() - f64::from(k).ln();
        }
        sum += (log_choose + f64::from(k) * log_p + f64::from(trials - k) * log_q).exp();
        let threshold = sum * 18_446_744_073_709_551_616.0;
        if threshold >= 18_446_744_073_709_549_568.0 {
            break;
        }
        table.push(threshold as u64);
    }
    table
}

/// A permutation of 0…n − 1 that needs no memory: a Feistel network over the next power of four,
/// walked until it falls below n. The first k values are a draw of k without repetition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    n: u64,
    half: u32,
    keys: [u64; 6],
}

impl Permutation {
    /// `n` up to 2⁶².
    pub(crate) fn new(n: u64, seed: u64) -> Self {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        let mut key = seed;
        Self {
            n,
            half: bits.div_ceil(2).max(1),
            keys: [0; 6].map(|_: u64| {
                key = mix(key);
                key
            }),
        }
    }

    #[inline]
    pub(crate) fn at(&self, k: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let mut x = k;
        loop {
            let (mut left, mut right) = (x >> self.half, x & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (mix(right ^ key) & mask));
            }
            x = left << self.half | right;
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_its_authors_words() {
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox(counter, key), expected);
            let wide = philox_wide(counter.map(|c| [c; WIDE]), key);
            assert_eq!(wide.map(|w| w[7]), expected);
        }
    }

    #[test]
    fn normal_numbers_follow_the_normal_distribution() {
        let table = Normal::new();
        assert!((normal_quantile(0.025) + 1.959_963_984_540_054).abs() < 1e-12);
        assert!((normal_quantile(1e-9) + 5.997_807_015_007_68).abs() < 1e-10);
        for word in [0, 1, 2, 3, 7, 1 << 20, 1 << 30, u32::MAX - 1, u32::MAX] {
            let exact = -normal_quantile(f64::from(word | 1) / 2f64.powi(33));
            let got = f64::from(table.quantile(word)).abs();
            assert!((got - exact).abs() < 5e-3 * if word < 64 { 20.0 } else { 1.0 });
            assert!(got < NORMAL_LIMIT, "{word}: {got}");
        }
        let words = Words::new(3, Purpose::Start);
        let n = 200_000u32;
        let (mut sum, mut squares, mut fourth, mut beyond) = (0.0, 0.0, 0.0, 0);
        for i in 0..n {
            let z = f64::from(table.quantile(words.at([i, 0, 0], 0)[0]));
            sum += z;
            squares += z * z;
            fourth += z.powi(4);
            beyond += u32::from(z > 1.959_964);
        }
        let n = f64::from(n);
        assert!((sum / n).abs() < 0.01, "{}", sum / n);
        assert!((squares / n - 1.0).abs() < 0.015, "{}", squares / n);
        assert!((fourth / n - 3.0).abs() < 0.12, "{}", fourth / n);
        assert!((f64::from(beyond) / n - 0.025).abs() < 0.002);
    }

    #[test]
    fn counts_have_their_mean_and_variance() {
        let words = Words::new(9, Purpose::Poisson);
        for expected in [1e-9, 0.01, 0.2, 1.8, 16.0, 100.0, 1000.0] {
            let table = poisson_thresholds(expected);
            let n = 40_000u32;
            let (mut sum, mut squares) = (0.0, 0.0);
            for i in 0..n {
                let word = words.at([i, 0, 0], 0)[0];
                let count = table.partition_point(|t| *t <= word) as f64;
                sum += count;
                squares += count * count;
            }
            let n = f64::from(n);
            let (mean, variance) = (sum / n, squares / n - (sum / n).powi(2));
            let error = (expected / n).sqrt();
            assert!((mean - expected).abs() <= 4.0 * error + 1e-9, "{mean}");
            // The variance of a sample variance: (2 + 1/λ) / n of its square.
            let spread = 5.0 * ((2.0 + 1.0 / expected) / n).sqrt();
            assert!(
                (variance / expected - 1.0).abs() < spread,
                "{expected}: {variance}"
            );
        }
    }

    #[test]
    fn binomial_table_sums_to_one() {
        let table = binomial_thresholds(64, 0.3);
        let mean: f64 = table.iter().map(|t| 1.0 - *t as f64 / 2f64.powi(64)).sum();
        assert!((mean - 64.0 * 0.3).abs() < 1e-9, "{mean}");
        assert!(table.is_sorted());
    }

    #[test]
    fn a_permutation_visits_everything_once() {
        for n in [1, 2, 3, 5, 64, 1000, 4097] {
            let permutation = Permutation::new(n, 5);
            let mut seen: Vec<u64> = (0..n).map(|k| permutation.at(k)).collect();
            if n > 10 {
                assert!(!seen.is_sorted());
            }
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..n), "{n}");
        }
    }
}
