//! Prefix sums on the device: where the results of many threads go in one list.

use super::context::Context;
use super::memory::Buffer;
use betz_base::error::Result;
use betz_kernels::scan::{ScanAdd, ScanBlocks};

const THREADS: u32 = 1024;

/// Numbers that a block sums; as in the kernels.
const BLOCK: usize = 4 * THREADS as usize;

impl Context {
    /// Replaces the first `len` of `values` by their exclusive prefix sums, modulo 2³². Does not
    /// wait. Allocates one number for every 4,096.
    pub fn exclusive_sums(&self, values: &mut Buffer<u32>, len: usize) -> Result<()> {
        let blocks = len.div_ceil(BLOCK);
        if blocks == 0 {
            return Ok(());
        }
        let count = len as u32;
        let grid = (blocks as u32, 1, 1);
        let mut totals: Buffer<u32> = self.alloc(blocks)?;
        self.load::<ScanBlocks>(&[], 0)?.launch(
            grid,
            THREADS,
            ScanBlocks {
                values: values.update(),
                count,
                totals: totals.write(),
            },
        )?;
        if blocks > 1 {
            self.exclusive_sums(&mut totals, blocks)?;
            self.load::<ScanAdd>(&[], 0)?.launch(
                grid,
                THREADS,
                ScanAdd {
                    values: values.update(),
                    count,
                    offsets: totals.read(),
                },
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::cuda::Context;

    #[test]
    fn cuda_prefix_sums_agree_with_the_hosts() {
        let context = match Context::open(0) {
            Ok(context) => context,
            Err(error) => {
                eprintln!("skipped: {}", error.message());
                return;
            }
        };
        for len in [0, 1, 31, 4_095, 4_096, 4_097, 100_000, 4_096 * 4_096 + 5] {
            let values: Vec<u32> = (0..len as u32).map(|i| i.wrapping_mul(31) % 7).collect();
            let mut sum = 0_u32;
            let expected: Vec<u32> = values
                .iter()
                .map(|v| {
                    sum = sum.wrapping_add(*v);
                    sum.wrapping_sub(*v)
                })
                .collect();
            let mut there = context.upload(&values).unwrap();
            context.exclusive_sums(&mut there, len).unwrap();
            assert!(
                context.download(&there, len).unwrap() == expected,
                "{len} numbers"
            );
        }
    }
}
