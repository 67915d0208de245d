//! A low-pass on a device: the sections' own recurrence in f64, in tiles of 4,096 steps side by side.

use super::layout::{DeviceLayout, THREADS, tile_bytes};
use super::recursive::grid;
use betz_base::error::Result;
use betz_device::cuda::{Buffer, Context};
use betz_kernels::psc::{LowPassCarry, LowPassFilter, LowPassTileEnds};
use betz_kernels::{self as kernels, In, Sample};
use betz_runtime::psc::{LowPass, Section};

/// A low-pass at work on rows of samples; its states go on from slice to slice.
pub(crate) struct LowPassScan<'a> {
    context: &'a Context,
    rows: usize,
    sections: Buffer<kernels::Section>,
    section_count: usize,
    /// Effect of silent steps on the delays; see `Cascade` in `kernels/low_pass.cu`.
    powers: Buffer<f64>,
    /// 2 × sections × rows.
    carry: Buffer<f64>,
}

impl<'a> LowPassScan<'a> {
    /// # Errors
    /// As [`LowPass::check`], and those of the device.
    pub(crate) fn new(
        context: &'a Context,
        low_pass: LowPass,
        step_seconds: f64,
        rows: usize,
    ) -> Result<Self> {
        let sections = low_pass.sections(step_seconds)?;
        let powers = powers(&sections);
        let there: Vec<_> = sections
            .iter()
            .map(|s| kernels::Section {
                b0: s.b[0],
                b1: s.b[1],
                b2: s.b[2],
                a1: s.a[0],
                a2: s.a[1],
            })
            .collect();
        Ok(Self {
            context,
            rows,
            sections: context.upload(&there)?,
            section_count: sections.len(),
            powers: context.upload(&powers)?,
            carry: context.zeros(2 * sections.len() * rows)?,
        })
    }

    /// Bytes that a run needs for each tile and row.
    pub(crate) fn tile_bytes(low_pass: LowPass) -> usize {
        Self::carry_bytes(low_pass) * (1 + THREADS)
    }

    /// Bytes of a row's states.
    pub(crate) fn carry_bytes(low_pass: LowPass) -> usize {
        8 * 2 * low_pass.order.div_ceil(2) as usize
    }

    /// Back to rest.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.carry = self.context.zeros(2 * self.section_count * self.rows)?;
        Ok(())
    }

    /// Filters the steps of `layout`, which follow those of the run before, in place; zero outside
    /// segments. Rows of `samples` are `stride` samples apart. Does not wait.
    pub(crate) fn run<T: Sample>(
        &mut self,
        samples: &mut Buffer<T>,
        stride: usize,
        layout: &DeviceLayout,
    ) -> Result<()> {
        let Some(states) = self.states(samples.read(), stride, layout)? else {
            return Ok(());
        };
        let output = samples.update();
        let filter = LowPassFilter {
            input: output.in_place(),
            stride: stride as u64,
            steps: layout.steps as i32,
            mask: layout.mask.read(),
            uncut: layout.uncut.read(),
            sections: self.sections.read(),
            powers: self.powers.read(),
            rows: self.rows as i32,
            tiles: layout.tiles as i32,
            at: states.ends.read(),
            words: states.words.read(),
            output,
            output_stride: stride as u64,
        };
        let blocks = grid(self.rows, layout.tiles)?;
        self.context
            .load::<LowPassFilter<T, T>>(&self.options::<T>(), tile_bytes(8))?
            .launch(blocks, THREADS as u32, filter)
    }

    /// The delays at every tile's start, and within tiles; `None` where there is nothing to filter.
    fn states<T: Sample>(
        &mut self,
        input: In<'_, T>,
        stride: usize,
        layout: &DeviceLayout,
    ) -> Result<Option<TileStates>> {
        if self.rows == 0 || layout.steps == 0 {
            return Ok(None);
        }
        let context = self.context;
        let states = layout.tiles * 2 * self.section_count * self.rows;
        let mut ends: Buffer<f64> = context.alloc(states)?;
        let mut words: Buffer<f64> = context.alloc(states * THREADS)?;
        let options = self.options::<T>();
        let (rows, tiles) = (self.rows as i32, layout.tiles as i32);
        let tile_ends = LowPassTileEnds {
            input,
            stride: stride as u64,
            steps: layout.steps as i32,
            mask: layout.mask.read(),
            sections: self.sections.read(),
            powers: self.powers.read(),
            rows,
            tiles,
            at: ends.write(),
            words: words.write(),
        };
        context
            .load::<LowPassTileEnds<T>>(&options, tile_bytes(8))?
            .launch(grid(self.rows, layout.tiles)?, THREADS as u32, tile_ends)?;
        let carry = LowPassCarry {
            at: ends.update(),
            words: words.read(),
            steps: layout.steps as i32,
            uncut: layout.uncut.read(),
            tiles,
            sections: self.sections.read(),
            powers: self.powers.read(),
            rows,
            carry: self.carry.update(),
        };
        context.load::<LowPassCarry>(&options, 0)?.launch(
            (self.rows.div_ceil(64) as u32, 1, 1),
            64,
            carry,
        )?;
        Ok(Some(TileStates { ends, words }))
    }

    /// Compile-time constants of the kernels.
    fn options<T: Sample>(&self) -> [String; 3] {
        [
            format!("-DSECTIONS={}", self.section_count),
            format!("-DINPUT={}", T::VALUE),
            format!("-DOUTPUT={}", T::VALUE),
        ]
    }
}

/// Delays at every tile's start, and at every word's from rest at its tile's.
struct TileStates {
    ends: Buffer<f64>,
    words: Buffer<f64>,
}

/// A^(32·k) for k = 0…32, then A^4096, with A what one silent step does to all delays: N × N each,
/// row-major.
fn powers(sections: &[Section]) -> Vec<f64> {
    let n = 2 * sections.len();
    let times = |a: &[f64], b: &[f64]| -> Vec<f64> {
        let mut product = vec![0.0; n * n];
        for i in 0..n {
            for k in 0..n {
                for j in 0..n {
                    product[i * n + j] += a[i * n + k] * b[k * n + j];
                }
            }
        }
        product
    };
    let mut step = vec![0.0; n * n];
    for j in 0..n {
        let mut delays = vec![0.0; n];
        delays[j] = 1.0;
        let mut x = 0.0;
        for (section, z) in sections.iter().zip(delays.chunks_exact_mut(2)) {
            let y = section.b[0] * x + z[0];
            z[0] = section.b[1] * x - section.a[0] * y + z[1];
            z[1] = section.b[2] * x - section.a[1] * y;
            x = y;
        }
        for (i, z) in delays.iter().enumerate() {
            step[i * n + j] = *z;
        }
    }
    let word = (0..5).fold(step, |power, _| times(&power, &power));
    let mut all = vec![0.0; n * n];
    for i in 0..n {
        all[i * n + i] = 1.0;
    }
    for k in 0..32 {
        let next = times(&word, &all[k * n * n..]);
        all.extend(next);
    }
    let tile = (0..2).fold(all[32 * n * n..].to_vec(), |power, _| times(&power, &power));
    all.extend(tile);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_runtime::psc::{LowPassFilter, MAX_LOW_PASS_ORDER};

    #[test]
    fn powers_are_what_silence_does() {
        for order in 1..=MAX_LOW_PASS_ORDER {
            for cutoff_hz in [2.0, 60.0, 990.0, 1000.0] {
                let low_pass = LowPass { order, cutoff_hz };
                let sections = low_pass.sections(0.00025).unwrap();
                let n = 2 * sections.len();
                let powers = powers(&sections);
                assert_eq!(powers.len(), 34 * n * n);
                let mut filter = LowPassFilter::new(low_pass, 0.00025, 1).unwrap();
                for t in 0..50 {
                    filter.step(&mut [f64::from(t % 7)]);
                }
                let before = filter.state().to_vec();
                let largest = before.iter().fold(0.0f64, |m, z| m.max(z.abs()));
                for step in 1..=4096usize {
                    filter.step(&mut [0.0]);
                    let at = match step {
                        4096 => 33,
                        s if s % 32 == 0 && s <= 1024 => s / 32,
                        _ => continue,
                    };
                    for (i, z) in filter.state().iter().enumerate() {
                        let row = &powers[at * n * n + i * n..][..n];
                        let got: f64 = row.iter().zip(&before).map(|(p, z)| p * z).sum();
                        // Near a double pole at one, rounding grows with the square of the steps.
                        assert!(
                            (got - z).abs() <= 1e-7 * largest,
                            "{order} {cutoff_hz} {step}"
                        );
                    }
                }
            }
        }
    }
}
