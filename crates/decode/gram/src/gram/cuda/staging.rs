//! Page-locked host memory that copies run from, kept between calls.

use betz_base::error::{Error, ErrorKind, Result};
use betz_device::cuda::{Context, PinnedBuffer, Value};
use betz_kernels::Block;

/// Buffers of the last call, by type; a context keeps one set.
#[derive(Default)]
pub(crate) struct GramStaging {
    pub(super) u8s: Vec<PinnedBuffer<u8>>,
    pub(super) u16s: Vec<PinnedBuffer<u16>>,
    pub(super) u32s: Vec<PinnedBuffer<u32>>,
    pub(super) blocks: Vec<PinnedBuffer<Block>>,
    pub(super) f32s: Vec<PinnedBuffer<f32>>,
}

/// The first buffer of `kept`, made anew when it is too small.
pub(super) fn at_least<'a, T: Value>(
    context: &Context,
    kept: &'a mut Vec<PinnedBuffer<T>>,
    len: usize,
) -> Result<&'a mut PinnedBuffer<T>> {
    if kept.first().is_none_or(|buffer| buffer.len() < len) {
        // The old one first: the two need not fit beside each other.
        kept.clear();
        kept.push(context.pinned(len + len / 8)?);
    }
    kept.first_mut()
        .ok_or_else(|| Error::new(ErrorKind::Internal, "staging buffer was not made"))
}
