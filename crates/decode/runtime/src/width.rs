//! Loops compiled once per vector width of the processor, chosen when a model is prepared.
//!
//! Rust neither fuses nor reorders floating-point operations, so every copy of a loop gives the same bits.

/// The widest vectors that this processor has, asked once when a model is prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Width {
    pub(crate) fn detect() -> Self {
        // Without an operating system nothing says that it keeps wide registers.
        #[cfg(all(target_arch = "x86_64", feature = "std"))]
        {
            let avx2 = std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("bmi1")
                && std::arch::is_x86_feature_detected!("popcnt");
            if avx2
                && std::arch::is_x86_feature_detected!("avx512f")
                && std::arch::is_x86_feature_detected!("avx512vl")
            {
                return Self::Avx512;
            }
            if avx2 {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }

    /// True if the sums of 48 lanes stay in registers. Of the plainest x86-64 they do not; those of ARM do.
    #[inline(always)]
    pub(crate) fn is_wide(self) -> bool {
        self != Self::Baseline || !cfg!(target_arch = "x86_64")
    }
}

/// A function in one copy per vector width: `name(width, arguments)`. Where the body wants the width, which its copy
/// knows as a constant, `at width;` names it first.
macro_rules! for_every_width {
    ($(#[$doc:meta])* fn $($function:tt)*) => {
        $crate::width::for_every_width! { at _width; $(#[$doc])* fn $($function)* }
    };
    (at $width:ident; $(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        #[allow(unsafe_code)]
        #[inline]
        pub(crate) fn $name(width: $crate::width::Width, $($argument: $type),*) {
            #[inline(always)]
            fn plain($width: $crate::width::Width, $($argument: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,popcnt")]
            fn avx2($($argument: $type),*) {
                plain($crate::width::Width::Avx2, $($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx2,bmi1,popcnt")]
            fn avx512($($argument: $type),*) {
                plain($crate::width::Width::Avx512, $($argument),*)
            }

            match width {
                $crate::width::Width::Baseline => {
                    plain($crate::width::Width::Baseline, $($argument),*)
                }
                // SAFETY: a `Width` other than the baseline comes from `Width::detect`, which found
                // the instructions on this processor.
                #[cfg(target_arch = "x86_64")]
                $crate::width::Width::Avx2 => unsafe { avx2($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::width::Width::Avx512 => unsafe { avx512($($argument),*) },
            }
        }
    };
}

pub(crate) use for_every_width;
