//! One context a device, opened once in a process and shared.

use betz_base::lock::lock;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};

use cudarc::cublas::CudaBlas;
use cudarc::cusolver::DnHandle;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUmemPool_attribute};
use cudarc::driver::{CudaContext, CudaModule, CudaStream, result};

use super::error::{blas_error, driver_error, solver_error};
use super::fourier::Plans;
use super::library::Library;
use super::phases::Marks;
use crate::probe::{CudaDevice, Probe};
use betz_base::error::{Error, ErrorKind, Result};

/// Oldest CUDA version of a driver that the bindings fit.
const OLDEST_DRIVER: (u32, u32) = (13, 0);

/// Oldest compute capability the kernels are written for.
const OLDEST_CAPABILITY: (u32, u32) = (8, 0);

/// A CUDA device with its streams, compiled kernels and library handles.
///
/// Thread-safe. Work of one context goes to one stream in the order it was asked for; results are
/// there once a download or [`Context::synchronize`] returns. Copies of long inputs run on a second
/// stream, which the first waits for.
pub struct Context {
    info: CudaDevice,
    pub(super) cuda: Arc<CudaContext>,
    pub(super) stream: Arc<CudaStream>,
    /// Carries copies from the host beside the work of `stream`.
    pub(super) copies: Arc<CudaStream>,
    pub(super) modules: Arc<Mutex<HashMap<String, ModuleSlot>>>,
    blas: OnceLock<CudaBlas>,
    /// Used by one thread at a time.
    solver: OnceLock<Mutex<DnHandle>>,
    pub(super) transforms: Mutex<Plans>,
    pub(super) phases: Marks,
    shared_bytes: usize,
    fast_double: bool,
    memory_cap: Mutex<Option<u64>>,
    slots: Mutex<HashMap<TypeId, Box<dyn Any + Send>>>,
}

/// A module, once it is loaded. Its lock is held while it is compiled: who wants the same one waits, and others are
/// compiled at the same time.
pub(super) type ModuleSlot = Arc<Mutex<Option<Arc<CudaModule>>>>;

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context(cuda:{}, {})", self.info.number, self.info.name)
    }
}

/// The contexts of this process.
static OPEN: Mutex<Vec<Arc<Context>>> = Mutex::new(Vec::new());

impl Context {
    /// True when [`Context::open`] has opened a device in this process, or is about to: does not wait
    /// for that.
    pub(crate) fn any_open() -> bool {
        match OPEN.try_lock() {
            Ok(open) => !open.is_empty(),
            Err(TryLockError::Poisoned(open)) => !open.into_inner().is_empty(),
            Err(TryLockError::WouldBlock) => true,
        }
    }

    /// The context of device `number`, opened on the first call in this process.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`] when the driver or NVRTC is absent or too old, or there is
    /// no such device; [`ErrorKind::DeviceMemory`] when the device has no memory left for a context.
    pub fn open(number: usize) -> Result<Arc<Self>> {
        let mut open = lock(&OPEN);
        if let Some(context) = open.iter().find(|c| c.info.number == number) {
            return Ok(Arc::clone(context));
        }
        let context = Arc::new(Self::new(number)?);
        open.push(Arc::clone(&context));
        Ok(context)
    }

    fn new(number: usize) -> Result<Self> {
        start_driver()?;
        Library::Nvrtc.load()?;
        let place = |e: Error| e.at(format!("CUDA device {number}"));
        let info = describe(number).map_err(place)?;
        let fail = |e| driver_error(&format!("CUDA device {number}: opening a context"), e);
        let cuda = CudaContext::new(number).map_err(fail)?;
        // Buffers stay on one stream, so cudarc's events a buffer would only cost time.
        #[allow(unsafe_code)]
        // SAFETY: buffers are used on `stream` alone, or (`feed`) behind explicit waits.
        unsafe {
            cuda.disable_event_tracking();
        }
        let stream = cuda.new_stream().map_err(fail)?;
        let copies = cuda.new_stream().map_err(fail)?;
        let shared_bytes = cuda
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
            .map_err(fail)? as usize;
        // Floating-point rates: two on a data centre's device, 32 or 64 elsewhere.
        let ratio = cuda
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO)
            .map_err(fail)?;
        let context = Self {
            info,
            cuda,
            stream,
            copies,
            modules: Arc::default(),
            blas: OnceLock::new(),
            solver: OnceLock::new(),
            transforms: Mutex::default(),
            phases: Mutex::default(),
            shared_bytes,
            fast_double: ratio <= 4,
            memory_cap: Mutex::new(None),
            slots: Mutex::default(),
        };
        context.keep_freed_memory(u64::MAX).map_err(place)?;
        Ok(context)
    }

    /// The same device with streams of its own, whose work runs beside that of this context: for small kernels that leave
    /// most of the device idle. Compiled kernels are shared; buffers belong to the context that made them.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceFailure`] when the device has no stream left.
    pub fn beside(&self) -> Result<Self> {
        let new_stream = || {
            (self.cuda.new_stream()).map_err(|e| driver_error("opening a stream of the device", e))
        };
        Ok(Self {
            info: self.info.clone(),
            cuda: Arc::clone(&self.cuda),
            stream: new_stream()?,
            copies: new_stream()?,
            modules: Arc::clone(&self.modules),
            blas: OnceLock::new(),
            solver: OnceLock::new(),
            transforms: Mutex::default(),
            phases: Mutex::default(),
            shared_bytes: self.shared_bytes,
            fast_double: self.fast_double,
            memory_cap: Mutex::new(self.memory_cap()),
            slots: Mutex::default(),
        })
    }

    /// Name, number and capability of the device.
    pub fn info(&self) -> &CudaDevice {
        &self.info
    }

    /// Its number, as in `cuda:N`.
    pub fn number(&self) -> usize {
        self.info.number
    }

    /// Largest shared memory of one block, in bytes.
    pub fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// True where f64 arithmetic runs at a rate near that of f32.
    pub fn fast_double(&self) -> bool {
        self.fast_double
    }

    /// Waits until everything asked of this context is done.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceFailure`] when something asked for earlier failed.
    pub fn synchronize(&self) -> Result<()> {
        self.stream
            .synchronize()
            .map_err(|e| driver_error("waiting for the device", e))
    }

    /// Limits what operations plan to hold on the device together, in bytes; `None` lifts the limit.
    /// Operations that can work in parts then do so.
    pub fn set_memory_cap(&self, bytes: Option<u64>) {
        *lock(&self.memory_cap) = bytes;
    }

    /// The limit that [`Context::set_memory_cap`] set.
    pub fn memory_cap(&self) -> Option<u64> {
        *lock(&self.memory_cap)
    }

    /// Bytes that an operation may plan to use now: what is free, or what is left of the cap where
    /// that is less. What libraries have taken so far is not free.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceFailure`] when the driver does not say.
    pub fn available_memory(&self) -> Result<u64> {
        let cap = self.memory_cap();
        if cap.is_some() {
            // Buffers given back in the stream's order count until it has got there.
            self.synchronize()?;
        }
        let (free, _) = self
            .cuda
            .mem_get_info()
            .map_err(|e| driver_error("asking for free device memory", e))?;
        let reserved =
            self.pool_attribute(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        let used = self.pool_attribute(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        let available = free as u64 + reserved.saturating_sub(used);
        Ok(plannable(available, used, cap))
    }

    /// Most bytes of buffers that were held at once since the last call of this, or the context's
    /// start.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceFailure`] when the driver does not say.
    #[allow(unsafe_code)]
    pub fn take_peak_memory(&self) -> Result<u64> {
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
        let (peak, mut zero) = (self.pool_attribute(attribute)?, 0u64);
        // SAFETY: the attribute takes a pointer to a 64-bit zero, read during the call.
        unsafe {
            sys::cuMemPoolSetAttribute(
                self.pool()?,
                attribute,
                std::ptr::from_mut(&mut zero).cast(),
            )
        }
        .result()
        .map_err(|e| driver_error("asking the device's memory pool", e))?;
        Ok(peak)
    }

    /// Gives memory that was freed but kept for reuse back to the system.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceFailure`].
    #[allow(unsafe_code)]
    pub fn trim(&self) -> Result<()> {
        self.synchronize()?;
        let pool = self.pool()?;
        // SAFETY: `pool` is this device's default pool, which lives as long as the context.
        unsafe { sys::cuMemPoolTrimTo(pool, 0) }
            .result()
            .map_err(|e| driver_error("giving device memory back", e))
    }

    /// Lets the pool keep up to `bytes` of freed memory across synchronisations, so that buffers
    /// of the same sizes cost microseconds the next time.
    #[allow(unsafe_code)]
    fn keep_freed_memory(&self, bytes: u64) -> Result<()> {
        let (pool, mut bytes) = (self.pool()?, bytes);
        // SAFETY: the attribute takes a pointer to a 64-bit value, read during the call.
        unsafe {
            sys::cuMemPoolSetAttribute(
                pool,
                CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                std::ptr::from_mut(&mut bytes).cast(),
            )
        }
        .result()
        .map_err(|e| driver_error("setting up the device's memory pool", e))
    }

    #[allow(unsafe_code)]
    fn pool_attribute(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        let (pool, mut value) = (self.pool()?, 0u64);
        // SAFETY: the attributes asked for here are 64-bit values.
        unsafe {
            sys::cuMemPoolGetAttribute(pool, attribute, std::ptr::from_mut(&mut value).cast())
        }
        .result()
        .map_err(|e| driver_error("asking the device's memory pool", e))?;
        Ok(value)
    }

    /// Lets device `peer` read and write this device's buffers directly, where the two are linked;
    /// copies between them otherwise go through host memory. False where they are not.
    #[allow(unsafe_code)]
    pub(super) fn open_to(&self, peer: &Self) -> Result<bool> {
        let (mut linked, peer_device) = (0, peer.cuda.cu_device());
        // SAFETY: writes one integer; both devices came from the driver.
        unsafe { sys::cuDeviceCanAccessPeer(&mut linked, peer_device, self.cuda.cu_device()) }
            .result()
            .map_err(|e| driver_error("asking how devices are linked", e))?;
        if linked == 0 || self.number() == peer.number() {
            return Ok(false);
        }
        let access = sys::CUmemAccessDesc {
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: peer.number() as i32,
            },
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: one description, read during the call; the pool lives as long as the context.
        unsafe { sys::cuMemPoolSetAccess(self.pool()?, &access, 1) }
            .result()
            .map_err(|e| driver_error("opening memory to another device", e))?;
        Ok(true)
    }

    #[allow(unsafe_code)]
    fn pool(&self) -> Result<sys::CUmemoryPool> {
        let mut pool = std::ptr::null_mut();
        // SAFETY: writes one pool handle; the device is valid while its context is.
        unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, self.cuda.cu_device()) }
            .result()
            .map_err(|e| driver_error("finding the device's memory pool", e))?;
        Ok(pool)
    }

    /// The leftovers of an operation's last run, such as buffers, for its next one; a new `T` the first
    /// time, or while another thread has it.
    pub fn take_slot<T: Any + Send + Default>(&self) -> Box<T> {
        lock(&self.slots)
            .remove(&TypeId::of::<T>())
            .and_then(|slot| slot.downcast().ok())
            .unwrap_or_default()
    }

    /// Leaves `slot` for the operation's next run.
    pub fn put_slot<T: Any + Send>(&self, slot: Box<T>) {
        lock(&self.slots).insert(TypeId::of::<T>(), slot);
    }

    /// Starts cuBLAS, which its first product does otherwise.
    ///
    /// # Errors
    /// Errors of the library; [`ErrorKind::DeviceUnavailable`] if it is absent.
    pub fn start_blas(&self) -> Result<()> {
        self.blas().map(|_| ())
    }

    /// Starts cuSOLVER, which its first factor does otherwise.
    ///
    /// # Errors
    /// Errors of the library; [`ErrorKind::DeviceUnavailable`] if it is absent.
    pub fn start_solver(&self) -> Result<()> {
        self.solver().map(|_| ())
    }

    /// True once cuSOLVER has been started.
    pub fn has_solver(&self) -> bool {
        self.solver.get().is_some()
    }

    /// cuBLAS on this context's stream, started on the first call.
    pub(super) fn blas(&self) -> Result<&CudaBlas> {
        get_or_start(&self.blas, Library::Blas, || {
            CudaBlas::new(Arc::clone(&self.stream)).map_err(|e| blas_error("starting cuBLAS", e))
        })
    }

    /// cuSOLVER on this context's stream, started on the first call.
    pub(super) fn solver(&self) -> Result<MutexGuard<'_, DnHandle>> {
        // cuSOLVER stands on cuBLAS.
        Library::Blas.load()?;
        let what = "starting cuSOLVER";
        let solver = get_or_start(&self.solver, Library::Solver, || {
            // The handle belongs to whatever context is current.
            self.cuda
                .bind_to_thread()
                .map_err(|e| driver_error(what, e))?;
            let handle =
                DnHandle::new(Arc::clone(&self.stream)).map_err(|e| solver_error(what, e))?;
            Ok(Mutex::new(handle))
        })?;
        Ok(lock(solver))
    }
}

fn get_or_start<T>(
    cell: &OnceLock<T>,
    library: Library,
    start: impl FnOnce() -> Result<T>,
) -> Result<&T> {
    if let Some(started) = cell.get() {
        return Ok(started);
    }
    library.load()?;
    let started = start()?;
    // Two threads may both have started one; the first to arrive is kept.
    Ok(cell.get_or_init(|| started))
}

/// Bytes to plan with where `available` can be had, `used` are in use and no more than `cap` may be.
fn plannable(available: u64, used: u64, cap: Option<u64>) -> u64 {
    // A part is left for what the driver rounds up and the libraries load late.
    let most = available - available / 50;
    cap.map_or(most, |cap| cap.saturating_sub(used).min(most))
}

/// Loads and initialises the driver, and checks its version.
fn start_driver() -> Result<(u32, u32)> {
    Library::Driver.load()?;
    let unavailable =
        |what: &str, e| Error::new(ErrorKind::DeviceUnavailable, format!("{what}: {e}"));
    result::init().map_err(|e| unavailable("starting the CUDA driver", e))?;
    let mut version = 0;
    #[allow(unsafe_code)]
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(|e| unavailable("asking for the CUDA driver's version", e))?;
    let version = version.max(0) as u32;
    let version = (version / 1000, version % 1000 / 10);
    if version < OLDEST_DRIVER {
        return Err(Error::new(
            ErrorKind::DeviceUnavailable,
            format!(
                "CUDA driver: expected one for CUDA {}.{} or newer, got {}.{}",
                OLDEST_DRIVER.0, OLDEST_DRIVER.1, version.0, version.1
            ),
        ));
    }
    Ok(version)
}

/// Number of CUDA devices.
///
/// # Errors
/// [`ErrorKind::DeviceUnavailable`] without a working driver.
pub fn device_count() -> Result<usize> {
    start_driver()?;
    let count =
        result::device::get_count().map_err(|e| driver_error("counting CUDA devices", e))?;
    Ok(count.max(0) as usize)
}

/// Reads what device `number` is, without opening a context.
#[allow(unsafe_code)]
fn describe(number: usize) -> Result<CudaDevice> {
    let count = device_count()?;
    if number >= count {
        return Err(Error::new(
            ErrorKind::DeviceUnavailable,
            format!("no such device: the driver reports {count}"),
        ));
    }
    let fail = |e| driver_error("reading its description", e);
    let device = result::device::get(number as i32).map_err(fail)?;
    // SAFETY: `device` came from the driver.
    let attribute = |a| unsafe { result::device::get_attribute(device, a) }.map_err(fail);
    let compute_capability = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
    );
    if compute_capability < OLDEST_CAPABILITY {
        return Err(Error::new(
            ErrorKind::DeviceUnavailable,
            format!(
                "expected compute capability {}.{} or newer, got {}.{}",
                OLDEST_CAPABILITY.0,
                OLDEST_CAPABILITY.1,
                compute_capability.0,
                compute_capability.1
            ),
        ));
    }
    if attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 0 {
        return Err(Error::new(
            ErrorKind::DeviceUnavailable,
            "the device has no stream-ordered memory pools",
        ));
    }
    Ok(CudaDevice {
        number,
        name: result::device::get_name(device).map_err(fail)?,
        compute_capability,
        // SAFETY: as above.
        memory_bytes: unsafe { result::device::total_mem(device) }.map_err(fail)? as u64,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
    })
}

/// See [`crate::probe`].
pub fn probe() -> Probe {
    let libraries: Vec<_> = Library::ALL
        .iter()
        .map(|l| (l.name(), l.load().err().map(|e| e.message().to_owned())))
        .collect();
    let mut found = Probe {
        driver: None,
        libraries,
        devices: Vec::new(),
        reason: None,
    };
    match start_driver().and_then(|driver| {
        found.driver = Some(driver);
        Library::Nvrtc.load()?;
        device_count()
    }) {
        Err(error) => found.reason = Some(error.message().to_owned()),
        Ok(count) => {
            for number in 0..count {
                match describe(number) {
                    Ok(device) => found.devices.push(device),
                    Err(error) => {
                        found.reason = Some(format!("CUDA device {number}: {}", error.message()));
                    }
                }
            }
            if !found.devices.is_empty() {
                found.reason = None;
            } else if found.reason.is_none() {
                found.reason = Some("the CUDA driver reports no device".to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_above_what_is_free_leaves_the_same_reserve_as_none() {
        assert_eq!(plannable(1000, 300, None), 980);
        for (cap, expected) in [
            (u64::MAX, 980),
            (1300, 980),
            (1280, 980),
            (1200, 900),
            (100, 0),
        ] {
            assert_eq!(plannable(1000, 300, Some(cap)), expected);
        }
    }
}
