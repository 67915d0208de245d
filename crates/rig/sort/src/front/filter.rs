//! Butterworth band-pass filters, one sample of all channels at a time.

use std::f64::consts::PI;
#[cfg(test)]
use std::f64::consts::TAU;

use betz_base::Result;
use betz_base::state::StateBytes;
use pulp::{Arch, Simd, WithSimd};

use super::LANES;

/// A complex number; nothing else here needs one.
#[derive(Debug, Clone, Copy)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    fn times(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            re: self.re + other.re,
            im: self.im + other.im,
        }
    }

    fn scaled(self, by: f64) -> Self {
        Self {
            re: self.re * by,
            im: self.im * by,
        }
    }

    fn over(self, other: Self) -> Self {
        let squared = other.re * other.re + other.im * other.im;
        let conjugate = Self {
            re: other.re,
            im: -other.im,
        };
        self.times(conjugate).scaled(1.0 / squared)
    }

    fn root(self) -> Self {
        let length = self.re.hypot(self.im).sqrt();
        let angle = self.im.atan2(self.re) / 2.0;
        Self {
            re: length * angle.cos(),
            im: length * angle.sin(),
        }
    }
}

/// y = b₀ x + b₁ x₁ + b₂ x₂ − a₁ y₁ − a₂ y₂; here b₁ = 0 and b₂ = −b₀ (zeros at 0 and at half the rate).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Biquad {
    pub(crate) b: f64,
    pub(crate) a1: f64,
    pub(crate) a2: f64,
}

/// A Butterworth band-pass of `order` at each edge, as so many biquads: the analogue prototype's poles, moved to
/// the band, and to z by the bilinear transform with both edges kept.
pub(crate) fn band_pass(order: usize, low_hz: f64, high_hz: f64, rate_hz: f64) -> Vec<Biquad> {
    let warped = |hz: f64| 2.0 * rate_hz * (PI * hz / rate_hz).tan();
    let (low, high) = (warped(low_hz), warped(high_hz));
    let (width, middle) = (high - low, (low * high).sqrt());
    let (mut pairs, mut reals) = (Vec::new(), Vec::new());
    for k in 0..order {
        let angle = PI * (2 * k + order + 1) as f64 / (2 * order) as f64;
        let pole = Complex {
            re: angle.cos(),
            im: angle.sin(),
        }
        .scaled(width / 2.0);
        let inside = pole.times(pole).plus(Complex {
            re: -middle * middle,
            im: 0.0,
        });
        let root = inside.root();
        for s in [pole.plus(root), pole.plus(root.scaled(-1.0))] {
            let step = s.scaled(1.0 / (2.0 * rate_hz));
            let one = Complex { re: 1.0, im: 0.0 };
            let z = one.plus(step).over(one.plus(step.scaled(-1.0)));
            if z.im.abs() < 1e-9 {
                reals.push(z.re);
            } else if z.im > 0.0 {
                pairs.push(z);
            }
        }
    }
    reals.sort_by(f64::total_cmp);
    let mut sections: Vec<Biquad> = pairs
        .iter()
        .map(|z| Biquad {
            b: 1.0,
            a1: -2.0 * z.re,
            a2: z.re * z.re + z.im * z.im,
        })
        .collect();
    sections.extend(reals.chunks_exact(2).map(|z| Biquad {
        b: 1.0,
        a1: -(z[0] + z[1]),
        a2: z[0] * z[1],
    }));
    // Each section has gain 1 in the middle of the band.
    let centre = 2.0 * (middle / (2.0 * rate_hz)).atan();
    for section in &mut sections {
        section.b = 1.0 / gain(*section, centre);
    }
    sections
}

/// |H| at an angle.
fn gain(section: Biquad, angle: f64) -> f64 {
    let (z1, z2) = (
        Complex {
            re: angle.cos(),
            im: -angle.sin(),
        },
        Complex {
            re: (2.0 * angle).cos(),
            im: -(2.0 * angle).sin(),
        },
    );
    let above = Complex {
        re: section.b * (1.0 - z2.re),
        im: -section.b * z2.im,
    };
    let below = Complex { re: 1.0, im: 0.0 }
        .plus(z1.scaled(section.a1))
        .plus(z2.scaled(section.a2));
    let of = above.over(below);
    of.re.hypot(of.im)
}

/// |H| of all sections at a frequency.
#[cfg(test)]
pub(crate) fn gain_at(sections: &[Biquad], hz: f64, rate_hz: f64) -> f64 {
    sections
        .iter()
        .map(|s| gain(*s, TAU * hz / rate_hz))
        .product()
}

/// The filter at work on rows of a multiple of [`LANES`] channels, in f32.
#[derive(Debug, Clone)]
pub(crate) struct BandPass {
    arch: Arch,
    sections: Vec<[f32; 3]>,
    channels: usize,
    /// For each section: two states a channel.
    states: Vec<f32>,
}

impl BandPass {
    pub(crate) fn new(sections: &[Biquad], channels: usize) -> Result<Self> {
        let narrow = |s: &Biquad| [s.b as f32, s.a1 as f32, s.a2 as f32];
        Ok(Self {
            arch: Arch::new(),
            sections: sections.iter().map(narrow).collect(),
            channels,
            states: betz_base::memory::filled("filter", 0.0, 2 * channels * sections.len())?,
        })
    }

    /// Back to rest.
    pub(crate) fn restart(&mut self) {
        self.states.fill(0.0);
    }

    pub(crate) fn state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        state.numbers(&mut self.states)
    }

    /// Replaces a row by its filtered self.
    pub(crate) fn step(&mut self, row: &mut [f32]) {
        self.arch.dispatch(Step {
            sections: &self.sections,
            channels: self.channels,
            states: &mut self.states,
            row,
        });
    }
}

struct Step<'a> {
    sections: &'a [[f32; 3]],
    channels: usize,
    states: &'a mut [f32],
    row: &'a mut [f32],
}

impl WithSimd for Step<'_> {
    type Output = ();

    /// Transposed direct form II: y = b x + s₁; s₁ ← s₂ − a₁ y; s₂ ← −b x − a₂ y.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // by index over arrays of known length: these become vectors
    fn with_simd<S: Simd>(self, _: S) {
        let (row, _) = self.row.as_chunks_mut::<LANES>();
        let states = self.states.chunks_exact_mut(2 * self.channels);
        for (&[b, a1, a2], states) in self.sections.iter().zip(states) {
            let (first, second) = states.split_at_mut(self.channels);
            let (first, _) = first.as_chunks_mut::<LANES>();
            let (second, _) = second.as_chunks_mut::<LANES>();
            for ((row, first), second) in row.iter_mut().zip(first).zip(second) {
                for l in 0..LANES {
                    let input = b * row[l];
                    let y = input + first[l];
                    first[l] = second[l] - a1 * y;
                    second[l] = -input - a2 * y;
                    row[l] = y;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_base::random::Random;

    #[test]
    fn edges_are_where_they_were_asked_for() {
        for order in 1..=4 {
            let sections = band_pass(order, 300.0, 6000.0, 30_000.0);
            assert_eq!(sections.len(), order);
            for edge in [300.0, 6000.0] {
                let gain = gain_at(&sections, edge, 30_000.0);
                assert!(
                    (gain - 0.5_f64.sqrt()).abs() < 1e-9,
                    "order {order}: {gain}"
                );
            }
            assert!((gain_at(&sections, 1500.0, 30_000.0) - 1.0).abs() < 0.06);
            // Far below, it falls by 6 dB an octave and order.
            let fall = gain_at(&sections, 10.0, 30_000.0) / gain_at(&sections, 20.0, 30_000.0);
            assert!((fall.log2() + order as f64).abs() < 0.02, "order {order}");
        }
    }

    /// scipy.signal.sosfilt(butter(3, [300, 6000], "band", fs=30000, output="sos"), impulse) to 12 digits.
    #[test]
    fn the_impulse_response_is_scipys() {
        let expected = [
            0.087_265_830_972_3,
            0.307_914_452_254,
            0.378_038_854_384,
            0.119_730_676_911,
            -0.159_712_970_959,
            -0.208_155_729_126,
        ];
        let sections = band_pass(3, 300.0, 6000.0, 30_000.0);
        let mut states = vec![[0.0_f64; 2]; 3];
        for (i, expected) in expected.iter().enumerate() {
            let mut y = if i == 0 { 1.0 } else { 0.0 };
            for (s, state) in sections.iter().zip(&mut states) {
                let input = s.b * y;
                y = input + state[0];
                state[0] = state[1] - s.a1 * y;
                state[1] = -input - s.a2 * y;
            }
            assert!((y - expected).abs() < 1e-11, "{i}: {y} for {expected}");
        }
    }

    #[test]
    fn f32_stays_within_1e_4_of_f64_on_a_large_offset() {
        let sections = band_pass(3, 300.0, 6000.0, 30_000.0);
        let mut filter = BandPass::new(&sections, LANES).unwrap();
        let mut states = vec![[0.0_f64; 2]; 3];
        let mut random = Random::new(5);
        let (mut error, mut power) = (0.0, 0.0);
        for i in 0..60_000 {
            let hum = 1000.0 * (TAU * 50.0 * f64::from(i) / 30_000.0).sin();
            let x = (6000.0 + hum + 8.0 * random.normal()) as f32;
            let mut y = f64::from(x);
            for (s, state) in sections.iter().zip(&mut states) {
                let input = s.b * y;
                y = input + state[0];
                state[0] = state[1] - s.a1 * y;
                state[1] = -input - s.a2 * y;
            }
            let mut row = [x; LANES];
            filter.step(&mut row);
            if i > 3000 {
                error += (f64::from(row[3]) - y).powi(2);
                power += y * y;
            }
        }
        let relative = (error / power).sqrt();
        assert!(relative < 1e-4, "{relative:e}");
    }
}
