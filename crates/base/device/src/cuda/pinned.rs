//! Page-locked host memory, which copies at full speed.

use betz_base::lock::lock;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use betz_kernels::Plain;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result};

use super::context::Context;
use super::error::driver_error;
use super::memory::{Buffer, beyond, copy_in, copy_out};
use betz_base::error::{Error, ErrorKind, Result};

impl Context {
    /// The buffer in `slot`, made anew when it holds fewer than `len` values.
    ///
    /// # Errors
    /// As [`pinned`](Self::pinned).
    pub fn pinned_at_least<'a, T: Plain>(
        &self,
        slot: &'a mut Option<PinnedBuffer<T>>,
        len: usize,
    ) -> Result<&'a mut PinnedBuffer<T>> {
        if slot.as_ref().is_none_or(|buffer| buffer.len() < len) {
            // The old one first: the two need not fit beside each other.
            *slot = None;
            *slot = Some(self.pinned(len + len / 8)?);
        }
        slot.as_mut()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "pinned memory was not made"))
    }

    /// Page-locked host memory for `len` values, all zero bits.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`] when the system cannot lock that much.
    #[allow(unsafe_code)]
    pub fn pinned<T: Plain>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        let bytes = len.max(1).saturating_mul(size_of::<T>());
        let fail = |e| {
            Error::new(
                ErrorKind::DeviceMemory,
                format!("locking {bytes} bytes of host memory: {e}"),
            )
            .with_needed_bytes(bytes as u64)
        };
        self.cuda.bind_to_thread().map_err(fail)?;
        // SAFETY: the context is current; the pointer is checked below and freed by `Drop`.
        let pointer = unsafe { result::malloc_host(bytes, 0) }.map_err(fail)?;
        // SAFETY: fresh memory of that many bytes; zero bits are a valid `T`.
        unsafe { std::ptr::write_bytes(pointer.cast::<u8>(), 0, bytes) };
        NonNull::new(pointer.cast())
            .map(|pointer| PinnedBuffer {
                pointer,
                len,
                cuda: Arc::clone(&self.cuda),
                copies: Mutex::default(),
                addressed: AtomicBool::new(false),
                marker: PhantomData,
            })
            .ok_or_else(|| Error::new(ErrorKind::Internal, "pinned memory at address zero"))
    }

    /// Copies the first `len` of `values` into new device memory without waiting.
    pub fn upload_pinned<T: Plain>(
        &self,
        values: &PinnedBuffer<T>,
        len: usize,
    ) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(len)?;
        self.copy_pinned(values, 0..len, &mut buffer, 0)?;
        Ok(buffer)
    }

    /// Copies part of `values` to `offset` of `buffer` without waiting.
    pub fn copy_pinned<T: Plain>(
        &self,
        values: &PinnedBuffer<T>,
        range: Range<usize>,
        buffer: &mut Buffer<T>,
        offset: usize,
    ) -> Result<()> {
        values.send(&self.stream, range, buffer, offset)
    }

    /// Copies the first `len` values of `buffer` to the host through pinned memory, a piece while the
    /// one before is taken out of it: `take` gets each piece and where it begins. Waits for them.
    pub fn download_pieces<T: Plain>(
        &self,
        buffer: &Buffer<T>,
        len: usize,
        mut take: impl FnMut(usize, &[T]) -> Result<()>,
    ) -> Result<()> {
        const PIECE_BYTES: usize = 16 << 20;
        let piece = (PIECE_BYTES / size_of::<T>()).min(len.max(1));
        let mut pinned = [self.pinned::<T>(piece)?, self.pinned::<T>(piece)?];
        let pieces = len.div_ceil(piece);
        for i in 0..=pieces {
            if i < pieces {
                let range = i * piece..len.min((i + 1) * piece);
                pinned[i % 2].receive(&self.stream, buffer, range)?;
            }
            if i > 0 {
                let from = (i - 1) * piece;
                let source = pinned[(i - 1) % 2].as_slice()?;
                take(from, &source[..piece.min(len - from)])?;
            }
        }
        Ok(())
    }

    /// Copies the first `len` values of `buffer` over those of `values` without waiting:
    /// [`PinnedBuffer::as_slice`] waits.
    pub fn download_pinned<T: Plain>(
        &self,
        buffer: &Buffer<T>,
        len: usize,
        values: &mut PinnedBuffer<T>,
    ) -> Result<()> {
        values.receive(&self.stream, buffer, 0..len)
    }
}

/// Page-locked host memory: copies to and from the device run at full speed and need no waiting.
///
/// It knows of the copies that were asked for: [`as_slice`](Self::as_slice) waits for those that write
/// it, [`as_mut_slice`](Self::as_mut_slice) and its end for all.
pub struct PinnedBuffer<T> {
    pointer: NonNull<T>,
    len: usize,
    cuda: Arc<CudaContext>,
    copies: Mutex<Copies>,
    /// Kernels know its address.
    addressed: AtomicBool,
    marker: PhantomData<T>,
}

impl<T> std::fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedBuffer({})", self.len)
    }
}

/// The last copies that were asked for; all before them on the same stream are made when they are.
#[derive(Default)]
struct Copies {
    /// Last copies to the device: on one stream, and on another.
    sent: [Option<(usize, CudaEvent)>; 2],
    /// Last copy from the device.
    received: Option<CudaEvent>,
}

impl Copies {
    /// Notes that `stream` reads the memory, up to `event`. Waits where that is a third stream.
    fn add_sent(&mut self, stream: &CudaStream, event: CudaEvent) -> Result<()> {
        let key = stream.cu_stream() as usize;
        let place = self
            .sent
            .iter()
            .position(|sent| sent.as_ref().is_none_or(|(of, _)| *of == key));
        let slot = &mut self.sent[place.unwrap_or(0)];
        if let (None, Some((_, other))) = (place, slot.take()) {
            wait_for(Some(other))?;
        }
        *slot = Some((key, event));
        Ok(())
    }
}

fn wait_for(event: Option<CudaEvent>) -> Result<()> {
    event.map_or(Ok(()), |event| {
        event
            .synchronize()
            .map_err(|e| driver_error("waiting for a copy to the device", e))
    })
}

#[allow(unsafe_code)]
// SAFETY: owns its memory as a `Vec<T>` does.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
#[allow(unsafe_code)]
// SAFETY: as above; shared access is read-only, and waits for copies that write.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

impl<T: Plain> PinnedBuffer<T> {
    /// Copies the first `len` values to `buffer` on `stream` without waiting.
    pub(super) fn copy_on(
        &self,
        stream: &Arc<CudaStream>,
        len: usize,
        buffer: &mut Buffer<T>,
    ) -> Result<()> {
        self.send(stream, 0..len, buffer, 0)
    }

    /// Copies the values in `range` to `offset` of `buffer` on `stream` without waiting.
    #[allow(unsafe_code)]
    pub(super) fn send(
        &self,
        stream: &Arc<CudaStream>,
        range: Range<usize>,
        buffer: &mut Buffer<T>,
        offset: usize,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let target = buffer.address_of(&(offset..offset.saturating_add(range.len())))?;
        let source = self.place(&range)?;
        let fail = |e| driver_error("copying to the device", e);
        let mut copies = self.copies();
        // SAFETY: both hold the values, checked above; the event below keeps the memory from being
        // freed or handed out for writing before the copy is made.
        unsafe { copy_in(stream, source.cast(), target, range.len() * size_of::<T>()) }
            .map_err(fail)?;
        copies.add_sent(stream, stream.record_event(None).map_err(fail)?)
    }

    /// Copies the values in `range` of `buffer` to the beginning on `stream` without waiting.
    #[allow(unsafe_code)]
    pub(super) fn receive(
        &mut self,
        stream: &Arc<CudaStream>,
        buffer: &Buffer<T>,
        range: Range<usize>,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.wait()?;
        let source = buffer.address_of(&range)?;
        let target = self.place(&(0..range.len()))?;
        let fail = |e| driver_error("copying from the device", e);
        // SAFETY: both hold the values, checked above; no other copy is under way, and the event
        // below keeps the memory from being read, written or freed before this one is made.
        unsafe { copy_out(stream, source, target.cast(), range.len() * size_of::<T>()) }
            .map_err(fail)?;
        let received = stream.record_event(None).map_err(fail)?;
        self.copies().received = Some(received);
        Ok(())
    }

    /// Address of the first value of `range`.
    fn place(&self, range: &Range<usize>) -> Result<*mut T> {
        if range.start > range.end || range.end > self.len {
            return Err(beyond("page-locked memory", range, self.len));
        }
        Ok(self.pointer.as_ptr().wrapping_add(range.start))
    }
}

impl<T> PinnedBuffer<T> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values, once every copy from the device that was asked for has been made. Copies to the
    /// device may be under way: they only read.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceFailure`] when earlier work on the device failed.
    #[allow(unsafe_code)]
    pub fn as_slice(&self) -> Result<&[T]> {
        self.as_slice_ready()?;
        // SAFETY: `len` initialised values, owned by self; copies that write begin under `&mut self`
        // alone, and the last has been waited for.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) })
    }

    /// The values for writing, once every copy that was asked for has been made.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceFailure`] when earlier work on the device failed.
    #[allow(unsafe_code)]
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        self.wait()?;
        // SAFETY: `len` initialised values, owned by self, no copy under way.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) })
    }

    /// Address of the first value for kernels of any device, which read it across the bus. Once it was asked for, writing and
    /// the end of the memory wait for all work of the device.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceFailure`] when an earlier copy from the device failed.
    pub fn address(&self) -> Result<u64> {
        self.as_slice_ready()?;
        self.addressed.store(true, Ordering::Relaxed);
        Ok(self.pointer.as_ptr() as u64)
    }

    /// Waits for copies from the device.
    fn as_slice_ready(&self) -> Result<()> {
        wait_for(self.copies().received.take())
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        lock(&self.copies)
    }

    fn wait(&mut self) -> Result<()> {
        if *self.addressed.get_mut() {
            let waited = self.cuda.synchronize();
            waited.map_err(|e| driver_error("waiting for kernels that read host memory", e))?;
        }
        let copies = self
            .copies
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for sent in &mut copies.sent {
            wait_for(sent.take().map(|(_, event)| event))?;
        }
        wait_for(copies.received.take())
    }
}

impl<T> Drop for PinnedBuffer<T> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // A failure here was or will be reported by the work itself.
        let _ = self.wait();
        let _ = self.cuda.bind_to_thread();
        // SAFETY: the pointer came from `malloc_host` and is freed once, no copy under way.
        let _ = unsafe { result::free_host(self.pointer.as_ptr().cast()) };
    }
}
