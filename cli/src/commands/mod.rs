//! One file or folder per command: `args` are its options, `run` or `mod` does the work, `print` shows the result.

pub(crate) mod adapt;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod decode;
pub(crate) mod demo;
pub(crate) mod drop;
pub(crate) mod evaluate;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod info;
pub(crate) mod join;
pub(crate) mod look;
pub(crate) mod mine;
pub(crate) mod monitor;
pub(crate) mod network;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod solve;
pub(crate) mod som;
pub(crate) mod sort;
pub(crate) mod stream;
pub(crate) mod sums;
pub(crate) mod train;
