//! Memory on the device, and copies to and from it.

use std::marker::PhantomData;
use std::ops::Range;

use betz_kernels::{Element, In, InOut, Out, Plain};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DriverError, result, sys};

use super::context::Context;
use super::error::driver_error;
use betz_base::error::{Error, ErrorKind, Result};

/// A value that may be copied to a device and back.
pub use betz_kernels::Plain as Value;

/// Device memory for values of `T`, given back in the context's order of work when dropped.
///
/// A launch borrows it: [`read`](Self::read) for what a kernel only reads, [`write`](Self::write) and
/// [`update`](Self::update) for what it changes. Work on it is asked for in the order of these borrows
/// and all of it runs on its context's one stream (or behind explicit waits, as in [`Feed`](super::Feed)),
/// so that no borrow has to outlast the asking.
pub struct Buffer<T> {
    bytes: CudaSlice<u8>,
    len: usize,
    marker: PhantomData<T>,
}

impl<T> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} on cuda:{})", self.len, self.ordinal())
    }
}

impl<T> Buffer<T> {
    /// Number of values, at least one.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// False: a buffer has room for a value.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of the device that it is on.
    pub fn ordinal(&self) -> usize {
        self.bytes.ordinal()
    }

    /// Input of a kernel, which only reads it.
    #[allow(unsafe_code)]
    pub fn read(&self) -> In<'_, T> {
        // SAFETY: `len` values of this buffer; frees and copies of it are ordered on its stream.
        unsafe { In::new(self.address(), self.len) }
    }

    /// Output of a kernel, written before anything reads it.
    #[allow(unsafe_code)]
    pub fn write(&mut self) -> Out<'_, T> {
        // SAFETY: as above.
        unsafe { Out::new(self.address(), self.len) }
    }

    /// Memory that a kernel reads and writes.
    #[allow(unsafe_code)]
    pub fn update(&mut self) -> InOut<'_, T> {
        // SAFETY: as above.
        unsafe { InOut::new(self.address(), self.len) }
    }

    /// Address of the first value in the device's memory.
    pub(super) fn address(&self) -> u64 {
        // Events are off (`Context::new`): this asks for the address alone.
        self.bytes.device_ptr(self.bytes.stream()).0
    }

    /// Address of the first value of `range`.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] for a range that is not in the buffer.
    pub(super) fn address_of(&self, range: &Range<usize>) -> Result<u64> {
        if range.start > range.end || range.end > self.len {
            return Err(beyond("device memory", range, self.len));
        }
        Ok(self.address() + (range.start * size_of::<T>()) as u64)
    }
}

/// A range that is not in `what`, of `len` values.
pub(super) fn beyond(what: &str, range: &Range<usize>, len: usize) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("{what}: expected a part of {len} values, got {range:?}"),
    )
}

/// Asks for a copy of `bytes` bytes from the host. Pageable memory has been read when it returns.
///
/// # Safety
/// Both places hold that many bytes; page-locked memory is neither freed nor written before the copy
/// is made.
#[allow(unsafe_code)]
pub(super) unsafe fn copy_in(
    stream: &CudaStream,
    from: *const u8,
    to: u64,
    bytes: usize,
) -> std::result::Result<(), DriverError> {
    stream.context().bind_to_thread()?;
    // SAFETY: the caller's promise.
    unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, stream.cu_stream()) }.result()
}

/// Asks for a copy of `bytes` bytes to the host.
///
/// # Safety
/// Both places hold that many bytes, and nothing touches those of the host before the copy is made.
#[allow(unsafe_code)]
pub(super) unsafe fn copy_out(
    stream: &CudaStream,
    from: u64,
    to: *mut u8,
    bytes: usize,
) -> std::result::Result<(), DriverError> {
    stream.context().bind_to_thread()?;
    // SAFETY: the caller's promise.
    unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream.cu_stream()) }.result()
}

impl Context {
    /// Device memory for `len` values, contents undefined: the first kernel or copy fills it.
    #[allow(unsafe_code)]
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        // The driver refuses empty allocations.
        let len = len.max(1);
        // SAFETY: bytes may have any value, and a `T` is read by what wrote it alone.
        let bytes = unsafe { self.stream.alloc(len.saturating_mul(size_of::<T>())) };
        Ok(Buffer {
            bytes: bytes.map_err(|e| self.out_of_memory::<T>(len, e))?,
            len,
            marker: PhantomData,
        })
    }

    /// Device memory for `len` zeros.
    pub fn zeros<T: Plain>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(len)?;
        self.clear(&mut buffer)?;
        Ok(buffer)
    }

    /// Copies all of `from` to the start of `to`, on the device.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] when `to` is shorter; those of the device.
    #[allow(unsafe_code)]
    pub fn copy<T: Element>(&self, from: &Buffer<T>, to: &mut Buffer<T>) -> Result<()> {
        let (source, target) = (from.address(), to.address_of(&(0..from.len))?);
        let fail = |e| driver_error("copying on the device", e);
        self.cuda.bind_to_thread().map_err(fail)?;
        // SAFETY: both hold `from.len` values; frees of both are ordered behind the copy.
        unsafe {
            result::memcpy_dtod_async(
                target,
                source,
                from.len * size_of::<T>(),
                self.stream.cu_stream(),
            )
        }
        .map_err(fail)
    }

    /// Copies `values` into new device memory. The driver takes its own copy of pageable memory
    /// before it returns, so `values` may be changed at once.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`] when the device has no room left.
    pub fn upload<T: Plain>(&self, values: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(values.len())?;
        self.upload_into(values, &mut buffer, 0)?;
        Ok(buffer)
    }

    /// Copies the first `len` values of `buffer` to the host and waits for them.
    pub fn download<T: Plain + Default>(&self, buffer: &Buffer<T>, len: usize) -> Result<Vec<T>> {
        self.download_range(buffer, 0..len)
    }

    /// Copies part of `buffer` to the host and waits for it.
    pub fn download_range<T: Plain + Default>(
        &self,
        buffer: &Buffer<T>,
        range: Range<usize>,
    ) -> Result<Vec<T>> {
        let mut values = vec![T::default(); range.len()];
        self.download_into(buffer, range.start, &mut values)?;
        Ok(values)
    }

    /// Copies `values` to `offset` of `buffer`. As [`upload`](Self::upload) otherwise.
    #[allow(unsafe_code)]
    pub fn upload_into<T: Plain>(
        &self,
        values: &[T],
        buffer: &mut Buffer<T>,
        offset: usize,
    ) -> Result<()> {
        let target = buffer.address_of(&(offset..offset.saturating_add(values.len())))?;
        if values.is_empty() {
            return Ok(());
        }
        // SAFETY: both hold the values, checked above; a slice that is not page-locked has been read
        // when the driver returns.
        unsafe {
            copy_in(
                &self.stream,
                values.as_ptr().cast(),
                target,
                size_of_val(values),
            )
        }
        .map_err(|e| driver_error("copying to the device", e))
    }

    /// Zeros over all of `buffer`.
    #[allow(unsafe_code)]
    pub fn clear<T: Plain>(&self, buffer: &mut Buffer<T>) -> Result<()> {
        let fail = |e| driver_error("clearing device memory", e);
        self.cuda.bind_to_thread().map_err(fail)?;
        let bytes = buffer.len * size_of::<T>();
        // SAFETY: the buffer's own bytes; all zeros are a valid `T`.
        unsafe { result::memset_d8_async(buffer.address(), 0, bytes, self.stream.cu_stream()) }
            .map_err(fail)
    }

    /// Copies values of `buffer` from `offset` on over all of `values` and waits for them.
    #[allow(unsafe_code)]
    pub fn download_into<T: Plain>(
        &self,
        buffer: &Buffer<T>,
        offset: usize,
        values: &mut [T],
    ) -> Result<()> {
        let source = buffer.address_of(&(offset..offset.saturating_add(values.len())))?;
        let mut asked = Ok(());
        if !values.is_empty() {
            // SAFETY: both hold the values; waited for below, whatever comes.
            asked = unsafe {
                copy_out(
                    &self.stream,
                    source,
                    values.as_mut_ptr().cast(),
                    size_of_val(values),
                )
            };
        }
        let waited = self.synchronize();
        asked.map_err(|e| driver_error("copying from the device", e))?;
        waited
    }

    /// Copies values in `range` of another device's `buffer` to the start of `to`, here. Waits.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] for values that are not there, or have no room; those of the devices.
    #[allow(unsafe_code)]
    pub fn copy_from_peer<T: Element>(
        &self,
        peer: &Self,
        buffer: &Buffer<T>,
        range: Range<usize>,
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
        let (source, target) = (
            buffer.address_of(&range)?,
            to.address_of(&(0..range.len()))?,
        );
        // SAFETY: both hold the values, checked above, and outlive the copy, which is waited for.
        unsafe {
            result::memcpy_peer_async(
                self.cuda.cu_ctx(),
                target,
                peer.cuda.cu_ctx(),
                source,
                range.len() * size_of::<T>(),
                self.stream.cu_stream(),
            )
        }
        .map_err(fail)?;
        self.synchronize()
    }

    /// Where `buffer`, which is on this device, begins for kernels of `peer`: `None` where the two are not linked.
    /// What both do there they have to agree on by themselves.
    ///
    /// # Errors
    /// The errors of the devices.
    pub fn address_for<T: Element>(&self, peer: &Self, buffer: &Buffer<T>) -> Result<Option<u64>> {
        Ok(self.open_to(peer)?.then(|| buffer.address()))
    }

    /// Address of `buffer` for kernels of this device that find it in a table. What they do there, and that it outlives
    /// them, is for the caller to see to.
    pub fn address_here<T: Element>(&self, buffer: &Buffer<T>) -> u64 {
        buffer.address()
    }

    fn out_of_memory<T>(&self, len: usize, error: DriverError) -> Error {
        let wanted = len.saturating_mul(size_of::<T>());
        let free = self.available_memory().unwrap_or(0);
        driver_error(
            &format!("allocating {wanted} bytes on the device ({free} available)"),
            error,
        )
    }
}
