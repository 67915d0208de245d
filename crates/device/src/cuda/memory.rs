//! Memory on the device, and host memory that copies at full speed.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr,
    ValidAsZeroBits, result,
};

use super::{Context, driver_error};
use betz_base::error::{Error, ErrorKind, Result};

/// A number that may be copied to a device and back.
pub trait Value: DeviceRepr + ValidAsZeroBits {}

impl<T: DeviceRepr + ValidAsZeroBits> Value for T {}

/// Device memory, given back when dropped.
pub type Buffer<T> = CudaSlice<T>;

impl Context {
    /// Device memory for `len` values, contents undefined: the first kernel or copy fills it.
    #[allow(unsafe_code)]
    pub fn alloc<T: DeviceRepr>(&self, len: usize) -> Result<Buffer<T>> {
        // SAFETY: plain numbers, which are valid in any bit pattern; the length is at least one
        // since the driver refuses empty allocations.
        unsafe { self.stream.alloc(len.max(1)) }.map_err(|e| self.out_of_memory::<T>(len, e))
    }

    /// Device memory for `len` zeros.
    pub fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<Buffer<T>> {
        self.stream
            .alloc_zeros(len.max(1))
            .map_err(|e| self.out_of_memory::<T>(len, e))
    }

    /// Copies `from` over `to`, of the same length, on the device.
    pub fn copy<T>(&self, from: &Buffer<T>, to: &mut Buffer<T>) -> Result<()> {
        self.stream
            .memcpy_dtod(from, to)
            .map_err(|e| driver_error("copying on the device", e))
    }

    /// Copies `values` into new device memory. The driver takes its own copy of pageable memory
    /// before it returns, so `values` may be changed at once.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`] when the device has no room left.
    pub fn upload<T: DeviceRepr>(&self, values: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(values.len())?;
        if !values.is_empty() {
            self.stream
                .memcpy_htod(values, &mut buffer)
                .map_err(|e| driver_error("copying to the device", e))?;
        }
        Ok(buffer)
    }

    /// Copies `values` into new device memory without waiting.
    pub fn upload_pinned<T: DeviceRepr>(
        &self,
        values: &PinnedBuffer<T>,
        len: usize,
    ) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(len)?;
        self.copy_pinned(values, 0..len, &mut buffer, 0)?;
        Ok(buffer)
    }

    /// Copies part of `values` to `offset` of `buffer` without waiting.
    pub fn copy_pinned<T: DeviceRepr>(
        &self,
        values: &PinnedBuffer<T>,
        range: std::ops::Range<usize>,
        buffer: &mut Buffer<T>,
        offset: usize,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let source = &values.as_slice()[range];
        let mut target = buffer.slice_mut(offset..offset + source.len());
        let fail = |e| driver_error("copying to the device", e);
        self.stream.memcpy_htod(source, &mut target).map_err(fail)?;
        // The buffer waits for this before it frees its memory or hands it out for writing.
        let copied = self.stream.record_event(None).map_err(fail)?;
        *values.copied.lock().unwrap_or_else(PoisonError::into_inner) = Some(copied);
        Ok(())
    }

    /// Copies the first `len` values of `buffer` to the host and waits for them.
    pub fn download<T: DeviceRepr + Clone + Default>(
        &self,
        buffer: &Buffer<T>,
        len: usize,
    ) -> Result<Vec<T>> {
        self.download_range(buffer, 0..len)
    }

    /// Copies part of `buffer` to the host and waits for it.
    pub fn download_range<T: DeviceRepr + Clone + Default>(
        &self,
        buffer: &Buffer<T>,
        range: std::ops::Range<usize>,
    ) -> Result<Vec<T>> {
        let mut values = vec![T::default(); range.len()];
        if !range.is_empty() {
            self.stream
                .memcpy_dtoh(&buffer.slice(range), &mut values)
                .map_err(|e| driver_error("copying from the device", e))?;
        }
        self.synchronize()?;
        Ok(values)
    }

    /// Copies `values` to `offset` of `buffer`. As [`upload`](Self::upload) otherwise.
    pub fn upload_into<T: DeviceRepr>(
        &self,
        values: &[T],
        buffer: &mut Buffer<T>,
        offset: usize,
    ) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.stream
            .memcpy_htod(values, &mut buffer.slice_mut(offset..offset + values.len()))
            .map_err(|e| driver_error("copying to the device", e))
    }

    /// Zeros over all of `buffer`.
    pub fn clear<T: DeviceRepr + ValidAsZeroBits>(&self, buffer: &mut Buffer<T>) -> Result<()> {
        self.stream
            .memset_zeros(buffer)
            .map_err(|e| driver_error("clearing device memory", e))
    }

    /// Copies values of `buffer` from `offset` on over all of `values` and waits for them.
    pub fn download_into<T: DeviceRepr>(
        &self,
        buffer: &Buffer<T>,
        offset: usize,
        values: &mut [T],
    ) -> Result<()> {
        if !values.is_empty() {
            self.stream
                .memcpy_dtoh(&buffer.slice(offset..offset + values.len()), values)
                .map_err(|e| driver_error("copying from the device", e))?;
        }
        self.synchronize()
    }

    /// Copies the first `len` values of `buffer` to the host through pinned memory, a piece while the
    /// one before is taken out of it: `take` gets each piece and where it begins. Waits for them.
    pub fn download_pieces<T: Value + Copy>(
        &self,
        buffer: &Buffer<T>,
        len: usize,
        mut take: impl FnMut(usize, &[T]) -> Result<()>,
    ) -> Result<()> {
        const PIECE_BYTES: usize = 16 << 20;
        let piece = (PIECE_BYTES / size_of::<T>()).min(len.max(1));
        let mut pinned = [self.pinned::<T>(piece)?, self.pinned::<T>(piece)?];
        let fail = |e| driver_error("copying from the device", e);
        let pieces = len.div_ceil(piece);
        for i in 0..=pieces {
            if i < pieces {
                let range = i * piece..len.min((i + 1) * piece);
                let target = &mut pinned[i % 2].as_mut_slice()?[..range.len()];
                self.stream
                    .memcpy_dtoh(&buffer.slice(range), target)
                    .map_err(fail)?;
                let copied = self.stream.record_event(None).map_err(fail)?;
                *pinned[i % 2]
                    .copied
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner) = Some(copied);
            }
            if i > 0 {
                let from = (i - 1) * piece;
                let source = pinned[(i - 1) % 2].as_mut_slice()?;
                take(from, &source[..piece.min(len - from)])?;
            }
        }
        Ok(())
    }

    /// Where `buffer` begins in the device's memory, for arguments that are not buffers themselves.
    /// The caller keeps the buffer until the kernel is asked for.
    pub fn address<T>(&self, buffer: &Buffer<T>) -> u64 {
        buffer.device_ptr(&self.stream).0
    }

    /// Copies values in `range` of another device's `buffer` to the start of `to`, here. Waits.
    #[allow(unsafe_code)]
    pub fn copy_from_peer<T>(
        &self,
        peer: &Self,
        buffer: &Buffer<T>,
        range: std::ops::Range<usize>,
        to: &mut Buffer<T>,
    ) -> Result<()> {
        peer.synchronize()?;
        self.synchronize()?;
        // Without a link the driver copies through host memory.
        if peer.open_to(self)? {
            self.open_to(peer)?;
        }
        let fail = |e| driver_error("copying between devices", e);
        self.cuda.bind_to_thread().map_err(fail)?;
        let from = buffer.slice(range);
        let len = from.len().min(to.len());
        {
            let (source, _s) = from.device_ptr(&peer.stream);
            let (target, _t) = to.device_ptr_mut(&self.stream);
            // SAFETY: both hold `len` values and outlive the copy, which is waited for.
            unsafe {
                result::memcpy_peer_async(
                    self.cuda.cu_ctx(),
                    target,
                    peer.cuda.cu_ctx(),
                    source,
                    len * size_of::<T>(),
                    self.stream.cu_stream(),
                )
            }
            .map_err(fail)?;
        }
        self.synchronize()
    }

    /// Copies the first `len` values of `buffer` over those of `values` without waiting:
    /// [`PinnedBuffer::as_mut_slice`] waits.
    pub fn download_pinned<T: DeviceRepr>(
        &self,
        buffer: &Buffer<T>,
        len: usize,
        values: &mut PinnedBuffer<T>,
    ) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let fail = |e| driver_error("copying from the device", e);
        let target = &mut values.as_mut_slice()?[..len];
        self.stream
            .memcpy_dtoh(&buffer.slice(..len), target)
            .map_err(fail)?;
        let copied = self.stream.record_event(None).map_err(fail)?;
        *values.copied.lock().unwrap_or_else(PoisonError::into_inner) = Some(copied);
        Ok(())
    }

    fn out_of_memory<T>(&self, len: usize, error: cudarc::driver::DriverError) -> Error {
        let wanted = len * size_of::<T>();
        let free = self.available_memory().unwrap_or(0);
        driver_error(
            &format!("allocating {wanted} bytes on the device ({free} available)"),
            error,
        )
    }

    /// The buffer in `slot`, made anew when it holds fewer than `len` values.
    ///
    /// # Errors
    /// As [`pinned`](Self::pinned).
    pub fn pinned_at_least<'a, T: Value>(
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
    pub fn pinned<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        let bytes = len.max(1) * size_of::<T>();
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
                copied: Mutex::new(None),
                marker: PhantomData,
            })
            .ok_or_else(|| Error::new(ErrorKind::Internal, "pinned memory at address zero"))
    }
}

/// Page-locked host memory: copies to and from the device run at full speed and need no waiting.
pub struct PinnedBuffer<T> {
    pointer: NonNull<T>,
    len: usize,
    cuda: Arc<CudaContext>,
    /// The last copy that was asked for.
    copied: Mutex<Option<CudaEvent>>,
    marker: PhantomData<T>,
}

#[allow(unsafe_code)]
// SAFETY: owns its memory as a `Vec<T>` does.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
#[allow(unsafe_code)]
// SAFETY: as above; shared access is read-only.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

impl<T: DeviceRepr> PinnedBuffer<T> {
    /// Copies the first `len` values to `buffer` on `stream` without waiting.
    pub(super) fn copy_on(
        &self,
        stream: &Arc<CudaStream>,
        len: usize,
        buffer: &mut Buffer<T>,
    ) -> Result<()> {
        let fail = |e| driver_error("copying to the device", e);
        stream
            .memcpy_htod(&self.as_slice()[..len], &mut buffer.slice_mut(..len))
            .map_err(fail)?;
        let copied = stream.record_event(None).map_err(fail)?;
        *self.copied.lock().unwrap_or_else(PoisonError::into_inner) = Some(copied);
        Ok(())
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

    /// The values.
    #[allow(unsafe_code)]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: `len` initialised values, owned by self.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
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

    fn wait(&mut self) -> Result<()> {
        let copied = self
            .copied
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        match copied.take() {
            Some(event) => event
                .synchronize()
                .map_err(|e| driver_error("waiting for a copy to the device", e)),
            None => Ok(()),
        }
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
