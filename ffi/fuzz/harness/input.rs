//! A fuzzer's input, as a harness reads it.

use betz_ffi::betz_status;

/// The input, read as numbers; zeros when it is at its end.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// Makes up to `most` calls, until the input is at its end. No call may panic, meet a handle that a
    /// panic left behind, or fail for a reason of the library's own.
    pub fn calls(&mut self, most: usize, mut call: impl FnMut(&mut Self) -> betz_status) {
        for _ in 0..most {
            if self.0.is_empty() {
                break;
            }
            let status = call(self);
            assert_ne!(status, betz_status::BETZ_ERROR_PANIC);
            assert_ne!(status, betz_status::BETZ_ERROR_POISONED);
            assert_ne!(status, betz_status::BETZ_ERROR_INTERNAL);
        }
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    pub fn float(&mut self) -> f64 {
        match self.byte() {
            0 => 0.0,
            1 => f64::NAN,
            2 => f64::INFINITY,
            3 => -1.0,
            4 => 1e-300,
            5 => 1e300,
            n => f64::from(n) * 0.01,
        }
    }
}
