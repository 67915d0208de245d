//! Arguments of `betz multiply`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, memory_size};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz multiply a.npy b.npy --out c.npy\n  betz multiply a.npy --out gram.npy --device cuda:all --device-memory 2GiB\n\nWithout B, it is A times its transpose (with --transpose-a: the transpose times A)."
)]
pub(crate) struct Multiply {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Left factor: a matrix of float32 or float64 (.npy)
    #[arg(value_name = "A.npy")]
    pub(crate) a: PathBuf,
    /// Right factor, of the same type [default: the transpose of the left one]
    #[arg(value_name = "B.npy")]
    pub(crate) b: Option<PathBuf>,
    /// Product to write (.npy)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Take the transpose of A
    #[arg(long)]
    pub(crate) transpose_a: bool,
    /// Take the transpose of B
    #[arg(long, requires = "b")]
    pub(crate) transpose_b: bool,
    /// Round factors of float32 to TF32 (11 bits) on a CUDA device
    #[arg(long)]
    pub(crate) tf32: bool,
    /// Largest memory of blocks on the CPU, such as 2GiB
    #[arg(long, value_name = "SIZE", value_parser = memory_size, default_value = "1GiB")]
    pub(crate) memory: u64,
    /// Largest memory to use on each CUDA device, such as 2GiB [default: what is free]
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) device_memory: Option<u64>,
}
