//! Stand-in for CUDA in a build without the feature `cuda`: the same names, and nothing behind
//! them.
//!
//! No device can be opened, so that no [`Context`] exists, nor anything that is made from one: these
//! types have no values, their methods no bodies, and what is written for them is compiled, checked
//! and left out.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use betz_kernels::{Arguments, Blocks, In, InOut, Out, Plain};

use crate::matrix::{Batch, Matrices, Precision, ProductShape, SecondFactor, TransformShape};
use crate::probe::{CudaDevice, Probe};
use betz_base::error::{Error, ErrorKind, Result};

pub use betz_kernels::Plain as Value;

/// The missing feature.
const BUILT_WITHOUT: &str = "this build of Betz has no CUDA support (feature `cuda`)";

/// Pieces that are under way at once.
pub const FEED_PIECES: usize = 2;

/// Most thread blocks of one launch side by side in the second and the third dimension.
pub const MOST_BLOCKS: u32 = 65_535;

fn unavailable(what: &str) -> Error {
    Error::new(
        ErrorKind::DeviceUnavailable,
        format!("{what}{BUILT_WITHOUT}"),
    )
}

/// Number of CUDA devices.
///
/// # Errors
/// Always, saying that CUDA was left out.
pub fn device_count() -> Result<usize> {
    Err(unavailable(""))
}

/// The version of NVRTC.
///
/// # Errors
/// Always, saying that CUDA was left out.
pub fn nvrtc_version() -> Result<(i32, i32)> {
    Err(unavailable(""))
}

/// Compiles a kernel file.
///
/// # Errors
/// Always, saying that CUDA was left out.
pub fn compile(
    _name: &str,
    _text: &str,
    _headers: &[(&str, &str)],
    _options: &[String],
    _capability: (u32, u32),
) -> Result<Vec<u8>> {
    Err(unavailable(""))
}

/// See [`crate::probe`].
pub fn probe() -> Probe {
    Probe {
        driver: None,
        libraries: Vec::new(),
        devices: Vec::new(),
        reason: Some(BUILT_WITHOUT.to_owned()),
    }
}

/// A CUDA device: none.
#[derive(Debug)]
pub enum Context {}

/// An enum without values: a type that holds it cannot be made.
#[derive(Debug)]
enum Never {}

impl Context {
    /// False.
    pub(crate) fn any_open() -> bool {
        false
    }

    /// The context of device `number`.
    ///
    /// # Errors
    /// Always, saying that CUDA was left out.
    pub fn open(number: usize) -> Result<Arc<Self>> {
        Err(unavailable(&format!("CUDA device {number}: ")))
    }
}

/// Methods of a type without values.
macro_rules! methods {
    ($(
        fn $name:ident $(<$generic:ident: $bound:path>)?
        (($($this:tt)+) $(, $argument:ty)* $(,)?) $(-> $output:ty)?;
    )*) => {$(
        #[doc = concat!("`", stringify!($name), "`, of which there is none here.")]
        #[allow(clippy::missing_errors_doc, clippy::too_many_arguments)]
        pub fn $name $(<$generic: $bound>)? ($($this)+ self $(, _: $argument)*) $(-> $output)? {
            self.never()
        }
    )*};
}

impl Context {
    const fn never(&self) -> ! {
        match *self {}
    }

    methods! {
        fn beside((&)) -> Result<Self>;
        fn info((&)) -> &CudaDevice;
        fn number((&)) -> usize;
        fn shared_bytes((&)) -> usize;
        fn fast_double((&)) -> bool;
        fn synchronize((&)) -> Result<()>;
        fn set_memory_cap((&), Option<u64>);
        fn memory_cap((&)) -> Option<u64>;
        fn available_memory((&)) -> Result<u64>;
        fn take_peak_memory((&)) -> Result<u64>;
        fn trim((&)) -> Result<()>;
        fn put_slot<T: Any>((&), Box<T>);
        fn start_blas((&)) -> Result<()>;
        fn start_solver((&)) -> Result<()>;
        fn has_solver((&)) -> bool;
        fn start_phases((&));
        fn phase((&), &'static str) -> Result<()>;
        fn take_phases((&)) -> Result<Vec<(&'static str, f64)>>;
        fn block_transforms((&), TransformShape, usize) -> Result<BlockTransforms>;
        fn load<A: Arguments>((&), &[String], usize) -> Result<Kernel>;
        fn exclusive_sums((&), &mut Buffer<u32>, usize) -> Result<()>;
        fn sorted_by_bits(
            (&), &Buffer<u64>, usize, std::ops::Range<u32>,
        ) -> Result<Buffer<u64>>;
        fn alloc<T: betz_kernels::Element>((&), usize) -> Result<Buffer<T>>;
        fn zeros<T: Plain>((&), usize) -> Result<Buffer<T>>;
        fn copy<T: betz_kernels::Element>((&), &Buffer<T>, &mut Buffer<T>) -> Result<()>;
        fn clear<T: Plain>((&), &mut Buffer<T>) -> Result<()>;
        fn upload<T: Plain>((&), &[T]) -> Result<Buffer<T>>;
        fn upload_into<T: Plain>((&), &[T], &mut Buffer<T>, usize) -> Result<()>;
        fn upload_pinned<T: Plain>((&), &PinnedBuffer<T>, usize) -> Result<Buffer<T>>;
        fn copy_pinned<T: Plain>(
            (&), &PinnedBuffer<T>, Range<usize>, &mut Buffer<T>, usize,
        ) -> Result<()>;
        fn download<T: Plain>((&), &Buffer<T>, usize) -> Result<Vec<T>>;
        fn download_range<T: Plain>((&), &Buffer<T>, Range<usize>) -> Result<Vec<T>>;
        fn download_into<T: Plain>((&), &Buffer<T>, usize, &mut [T]) -> Result<()>;
        fn download_pieces<T: Plain>(
            (&), &Buffer<T>, usize, impl FnMut(usize, &[T]) -> Result<()>,
        ) -> Result<()>;
        fn download_pinned<T: Plain>(
            (&), &Buffer<T>, usize, &mut PinnedBuffer<T>,
        ) -> Result<()>;
        fn copy_from_peer<T: betz_kernels::Element>(
            (&), &Self, &Buffer<T>, Range<usize>, &mut Buffer<T>,
        ) -> Result<()>;
        fn address_for<T: betz_kernels::Element>((&), &Self, &Buffer<T>) -> Result<Option<u64>>;
        fn address_here<T: betz_kernels::Element>((&), &Buffer<T>) -> u64;
        fn pinned<T: Plain>((&), usize) -> Result<PinnedBuffer<T>>;
        fn products(
            (&),
            Batch,
            Matrices<&Buffer<u16>>,
            Matrices<&Buffer<u16>>,
            Matrices<&mut Buffer<f32>>,
        ) -> Result<()>;
        fn product_f32(
            (&),
            Precision,
            ProductShape,
            &Buffer<f32>,
            SecondFactor<&Buffer<f32>>,
            f32,
            &mut Buffer<f32>,
        ) -> Result<()>;
        fn product_f64(
            (&), ProductShape, &Buffer<f64>, SecondFactor<&Buffer<f64>>, f64, &mut Buffer<f64>,
        ) -> Result<()>;
        fn symmetric_times(
            (&), usize, usize, &Buffer<f64>, &Buffer<f64>, &mut Buffer<f64>,
        ) -> Result<()>;
    }

    /// `take_slot`, of which there is none here.
    pub fn take_slot<T: Any + Send + Default>(&self) -> Box<T> {
        self.never()
    }

    /// `pinned_at_least`, of which there is none here.
    #[allow(clippy::missing_errors_doc)]
    pub fn pinned_at_least<'a, T: Plain>(
        &self,
        _slot: &'a mut Option<PinnedBuffer<T>>,
        _len: usize,
    ) -> Result<&'a mut PinnedBuffer<T>> {
        self.never()
    }
}

/// Device memory: none.
#[derive(Debug)]
pub struct Buffer<T>(Never, PhantomData<T>);

impl<T> Buffer<T> {
    const fn never(&self) -> ! {
        match self.0 {}
    }

    methods! {
        fn len((&)) -> usize;
        fn is_empty((&)) -> bool;
        fn ordinal((&)) -> usize;
        fn read((&)) -> In<'_, T>;
        fn write((&mut)) -> Out<'_, T>;
        fn update((&mut)) -> InOut<'_, T>;
    }
}

// As the real one has: what drops it early means to.
impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {}
}

/// Page-locked host memory: none.
#[derive(Debug)]
pub struct PinnedBuffer<T>(Never, PhantomData<T>);

impl<T> PinnedBuffer<T> {
    const fn never(&self) -> ! {
        match self.0 {}
    }

    methods! {
        fn len((&)) -> usize;
        fn is_empty((&)) -> bool;
        fn address((&)) -> Result<u64>;
        fn as_slice((&)) -> Result<&[T]>;
        fn as_mut_slice((&mut)) -> Result<&mut [T]>;
    }
}

/// A compiled kernel: none.
#[derive(Debug, Clone)]
pub struct Kernel(Arc<Never>);

impl Kernel {
    fn never(&self) -> ! {
        match *self.0 {}
    }

    methods! {
        fn launch<A: Arguments>((&), Blocks, u32, A) -> Result<()>;
        fn launch_together<A: Arguments>((&), Blocks, u32, A) -> Result<()>;
        fn resident_blocks((&), u32) -> Result<u32>;
    }
}

/// A stream of host data into device memory: none.
#[derive(Debug)]
pub struct Feed<T>(Never, PhantomData<T>);

impl<T: Plain> Feed<T> {
    const fn never(&self) -> ! {
        match self.0 {}
    }

    /// `new`, of which there is none here.
    #[allow(clippy::missing_errors_doc)]
    pub fn new(context: &Context, _len: usize, _kept: &mut Vec<PinnedBuffer<T>>) -> Result<Self> {
        context.never()
    }

    /// `keep`, of which there is none here.
    pub fn keep(self, _kept: &mut Vec<PinnedBuffer<T>>) {
        self.never()
    }

    methods! {
        fn send((&mut), usize, impl FnOnce(&mut [T]) -> Result<()>) -> Result<()>;
        fn piece((&)) -> &Buffer<T>;
        fn release((&mut)) -> Result<()>;
    }
}

/// False.
pub fn has_transforms() -> bool {
    false
}

/// Transforms of many blocks by cuFFT: none.
#[derive(Debug)]
pub struct BlockTransforms(Never);

impl BlockTransforms {
    const fn never(&self) -> ! {
        match self.0 {}
    }

    methods! {
        fn forward((&mut), &Context, &Buffer<f32>, usize, &mut Buffer<f32>) -> Result<()>;
        fn inverse((&mut), &Context, &mut Buffer<f32>) -> Result<()>;
    }
}

/// A precision that cuSOLVER factorises in.
#[allow(clippy::missing_errors_doc)]
pub trait Factor: Plain + Default {
    /// `cholesky`, of which there is none here.
    fn cholesky(
        context: &Context,
        _n: usize,
        _a: &mut Buffer<Self>,
        _status: &mut Buffer<i32>,
    ) -> Result<()> {
        context.never()
    }

    /// `cholesky_solve`, of which there is none here.
    fn cholesky_solve(
        context: &Context,
        _n: usize,
        _m: usize,
        _a: &Buffer<Self>,
        _b: &mut Buffer<Self>,
        _status: &mut Buffer<i32>,
    ) -> Result<()> {
        context.never()
    }

    /// `cholesky_inverse`, of which there is none here.
    fn cholesky_inverse(
        context: &Context,
        _n: usize,
        _a: &mut Buffer<Self>,
        _status: &mut Buffer<i32>,
    ) -> Result<()> {
        context.never()
    }
}

impl Factor for f32 {}
impl Factor for f64 {}
