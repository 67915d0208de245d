//! A low-pass on a device: the sections' own recurrence in f64, in tiles of 4,096 steps side by side.

use super::Input;
use super::layout::{DeviceLayout, THREADS, tile_bytes};
use super::recursive::{Rows, grid};
use betz_base::error::Result;
use betz_device::cuda::{Buffer, Context, PushKernelArg};
use betz_kernels::LOW_PASS;
use betz_runtime::psc::{LowPass, Section};

/// A low-pass at work on rows of samples; its states go on from slice to slice.
pub(crate) struct LowPassScan<'a> {
    context: &'a Context,
    sections: usize,
    rows: usize,
    /// Sections, then the powers; see `Cascade` in `kernels/low_pass.cu`.
    coefficients: Buffer<f64>,
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
        let mut coefficients: Vec<f64> = sections
            .iter()
            .flat_map(|s| [s.b[0], s.b[1], s.b[2], s.a[0], s.a[1]])
            .collect();
        coefficients.extend(powers(&sections));
        Ok(Self {
            context,
            sections: sections.len(),
            rows,
            coefficients: context.upload(&coefficients)?,
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
        self.carry = self.context.zeros(2 * self.sections * self.rows)?;
        Ok(())
    }

    /// Filters the steps of `layout`, which follow those of the run before; zero outside segments.
    /// `output` may be the input. Does not wait.
    pub(crate) fn run<T: Input, U: Input>(
        &mut self,
        input: Rows<'_, T>,
        layout: &DeviceLayout,
        output: Rows<'_, U>,
    ) -> Result<()> {
        if self.rows == 0 || layout.steps == 0 {
            return Ok(());
        }
        let context = self.context;
        let blocks = grid(self.rows, layout.tiles)?;
        let states = layout.tiles * 2 * self.sections * self.rows;
        let ends: Buffer<f64> = context.alloc(states)?;
        let words: Buffer<f64> = context.alloc(states * THREADS)?;
        let options = [
            format!("-DSECTIONS={}", self.sections),
            format!("-DINPUT={}", T::NAME),
            format!("-DOUTPUT={}", U::NAME),
        ];
        let kernel = |name, shared| context.kernel(LOW_PASS, &options, name, shared);
        let (stride, steps) = (input.stride as u64, layout.steps as i32);
        let (rows, tiles) = (self.rows as i32, layout.tiles as i32);
        let shared = tile_bytes(8);
        kernel("low_pass_tile_ends", shared)?.launch(blocks, THREADS as u32, shared, |a| {
            a.arg(input.view).arg(&stride).arg(&steps).arg(&layout.mask);
            a.arg(&self.coefficients).arg(&rows).arg(&tiles);
            a.arg(&ends).arg(&words);
        })?;
        let carriers = (self.rows.div_ceil(64) as u32, 1, 1);
        kernel("low_pass_carry", 0)?.launch(carriers, 64, 0, |a| {
            a.arg(&ends)
                .arg(&words)
                .arg(&steps)
                .arg(&layout.uncut)
                .arg(&tiles);
            a.arg(&self.coefficients).arg(&rows).arg(&self.carry);
        })?;
        let output_stride = output.stride as u64;
        kernel("low_pass_filter", shared)?.launch(blocks, THREADS as u32, shared, |a| {
            a.arg(input.view).arg(&stride).arg(&steps).arg(&layout.mask);
            a.arg(&layout.uncut).arg(&self.coefficients).arg(&rows);
            a.arg(&tiles).arg(&ends).arg(&words);
            a.arg(output.view).arg(&output_stride);
        })
    }
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
