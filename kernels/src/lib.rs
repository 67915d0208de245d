//! The CUDA kernels of Betz: one `.cu` file per operation, and the arguments of their launches.
//!
//! Nothing here runs anything: [`Source`]s are compiled at run time by NVRTC, in `betz_device::cuda`. The arguments of each
//! kernel, and the structs that host and kernels share, are written from the `.cu` files by `build/`; the README says how.

mod arguments;
mod layout;
pub mod map;
pub mod network;
pub mod recurrent;
pub mod sort;
pub mod spiking;

pub use arguments::{
    Arguments, Blocks, Element, In, InOut, InPlace, KernelOption, MaybeOut, Out, Plain, TooShort,
};
pub use layout::{
    Block, Cells, Counts, Entry, Filter, LearnRule, Link, Mask, ModelCells, Node, Pair, Part,
    Sample, Section, Step, Tally, Target, TargetShape, Tick, Tuple, Wires,
};

/// One kernel file and the headers that it includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Its name, for messages and the cache: `gram_event` for `gram_event.cu`.
    pub name: &'static str,
    /// Its text, without comments and indentation.
    pub text: &'static str,
    /// The headers' names and texts.
    pub headers: &'static [(&'static str, &'static str)],
    /// Sets of compile-time options that tests compile it with; none: without options.
    pub variants: &'static [&'static [&'static str]],
    /// Machine code that was made when Betz was built, if `BETZ_NVRTC` named the folder of NVRTC then.
    pub images: &'static [Image],
}

/// Machine code of a kernel file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// Compile-time options, beside [`FIXED_OPTIONS`].
    pub options: &'static [&'static str],
    /// Compute capability that it was made for.
    pub capability: (u32, u32),
    /// A cubin.
    pub code: &'static [u8],
}

impl Source {
    /// The image of `options`, in any order, that runs on a device of `capability`.
    pub fn image(&self, options: &[String], capability: (u32, u32)) -> Option<&'static [u8]> {
        let fits = |image: &&Image| {
            let (major, minor) = image.capability;
            major == capability.0
                && minor <= capability.1
                && image.options.len() == options.len()
                && options.iter().all(|o| image.options.contains(&o.as_str()))
        };
        self.images.iter().find(fits).map(|image| image.code)
    }
}

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Arguments of the kernels of one family of files.
macro_rules! arguments {
    ($($(#[$doc:meta])* $module:ident uses $($item:ident),*;)*) => {$(
        $(#[$doc])*
        pub mod $module {
            use crate::arguments::{$($item),*};

            include!(concat!(env!("OUT_DIR"), "/", stringify!($module), ".rs"));
        }
    )*};
}

arguments! {
    /// Arguments of `decode.cu` and `scores.cu`.
    decode uses TILE_WORDS, n, rows;
    /// Arguments of `episode_*.cu`.
    episode uses n;
    /// Arguments of `gram_*.cu` and `responses_*.cu`.
    gram uses n, rows;
    /// Arguments of `psc_recursive.cu`, `low_pass.cu` and `trains.cu`.
    psc uses TILE_WORDS, n, rows;
    /// Arguments of `scan.cu`.
    scan uses n;
    /// Arguments of `solve.cu`.
    solve uses n;
}
