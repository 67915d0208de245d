//! A stream of host data into device memory, one piece after another, copied while the device
//! computes with the piece before.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};

use super::context::Context;
use super::error::driver_error;
use super::memory::{Buffer, Value};
use super::pinned::PinnedBuffer;
use betz_base::error::{Error, ErrorKind, Result};

/// Pieces that are under way at once: one is computed with, one is copied.
pub const FEED_PIECES: usize = 2;

/// Pinned host memory and device memory for [`FEED_PIECES`] pieces of up to `len` values.
pub struct Feed<T: Value> {
    slots: Vec<Slot<T>>,
    /// The slot that holds the latest piece.
    latest: usize,
    compute: Arc<CudaStream>,
    copies: Arc<CudaStream>,
}

struct Slot<T: Value> {
    host: PinnedBuffer<T>,
    device: Buffer<T>,
    /// The device no longer reads the piece.
    read: Option<CudaEvent>,
}

impl<T: Value> Feed<T> {
    /// Room for pieces of up to `len` values. Host memory is taken from `kept` where it is large
    /// enough; see [`Feed::keep`].
    pub fn new(context: &Context, len: usize, kept: &mut Vec<PinnedBuffer<T>>) -> Result<Self> {
        let mut slots = Vec::with_capacity(FEED_PIECES);
        for _ in 0..FEED_PIECES {
            let host = match kept.pop() {
                Some(host) if host.len() >= len => host,
                // The old one goes first: the two need not fit beside each other.
                old => {
                    drop(old);
                    context.pinned(len)?
                }
            };
            slots.push(Slot {
                host,
                device: context.alloc(len)?,
                read: None,
            });
        }
        let copies = Arc::clone(&context.copies);
        // New device memory belongs to work on the compute stream.
        copies
            .join(&context.stream)
            .map_err(|e| driver_error("preparing copies", e))?;
        Ok(Self {
            slots,
            latest: 0,
            compute: Arc::clone(&context.stream),
            copies,
        })
    }

    /// Copies the next piece: `fill` writes its `len` values. What is asked of the device from here
    /// on sees it; the piece before stays until [`Feed::release`] and what was asked until then.
    pub fn send(&mut self, len: usize, fill: impl FnOnce(&mut [T]) -> Result<()>) -> Result<()> {
        self.latest = (self.latest + 1) % self.slots.len();
        let slot = &mut self.slots[self.latest];
        if len > slot.host.len() {
            return Err(Error::new(
                ErrorKind::Internal,
                format!(
                    "feed: expected at most {} values, got {len}",
                    slot.host.len()
                ),
            ));
        }
        fill(&mut slot.host.as_mut_slice()?[..len])?;
        if len == 0 {
            return Ok(());
        }
        let fail = |e| driver_error("copying to the device", e);
        if let Some(read) = slot.read.take() {
            self.copies.wait(&read).map_err(fail)?;
        }
        slot.host.copy_on(&self.copies, len, &mut slot.device)?;
        self.compute.join(&self.copies).map_err(fail)
    }

    /// The latest piece on the device.
    pub fn piece(&self) -> &Buffer<T> {
        &self.slots[self.latest].device
    }

    /// Says that what was asked of the device so far is all that reads the latest piece.
    pub fn release(&mut self) -> Result<()> {
        let read = self.compute.record_event(None);
        self.slots[self.latest].read =
            Some(read.map_err(|e| driver_error("following the device", e))?);
        Ok(())
    }

    /// Gives the host memory back for the next feed. Does not wait: the memory knows of its copies.
    pub fn keep(mut self, kept: &mut Vec<PinnedBuffer<T>>) {
        kept.extend(self.slots.drain(..).map(|slot| slot.host));
    }
}

impl<T: Value> Drop for Feed<T> {
    fn drop(&mut self) {
        // Device memory goes back in the compute stream's order, which copies must have ended before.
        let _ = self.compute.join(&self.copies);
    }
}
