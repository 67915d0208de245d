//! Arguments of launches, checked by types: device addresses that say whether a kernel reads or writes there, and the
//! trait of the structs that `build/` writes from the signatures in the `.cu` files.

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::{MOST_ARGUMENTS, Source};

/// A type of values that device memory may hold.
pub trait Element: Copy + Send + Sync + 'static {}

/// An element that may be copied between host and device byte by byte.
///
/// # Safety
/// Any bits are a value of it (all zeros too), it has no padding, and it refers to nothing.
#[allow(unsafe_code)]
pub unsafe trait Plain: Element {}

/// A type that is chosen when a kernel is compiled, by an option `-DNAME=VALUE`.
pub trait KernelOption: Plain {
    /// The option's value.
    const VALUE: &'static str;
}

/// The blocks of a launch: x, y, z.
pub type Blocks = (u32, u32, u32);

/// An argument that is shorter than the kernel takes it to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooShort {
    /// Which argument.
    pub argument: &'static str,
    /// Values that the kernel would touch.
    pub expected: u128,
    /// Values that are there.
    pub got: usize,
}

/// The arguments of one kernel.
///
/// # Safety
/// [`Arguments::pointers`] gives, in the order of the kernel's signature, one pointer per argument
/// to at least as many initialised bytes as the argument's type has, laid out as that type; and
/// [`Arguments::OPTIONS`] lists every compile-time option that the signature's types depend on.
#[allow(unsafe_code)]
pub unsafe trait Arguments {
    /// The kernel's file.
    const SOURCE: Source;
    /// The kernel's name.
    const KERNEL: &'static str;
    /// Number of its arguments.
    const COUNT: usize;
    /// Compile-time options that its types stand for: name and value each.
    const OPTIONS: &'static [(&'static str, &'static str)];

    /// Addresses of the [`Arguments::COUNT`] arguments in order, null beyond.
    fn pointers(&self) -> [*mut c_void; MOST_ARGUMENTS];

    /// Compares the lengths of its memory with the values that a launch of `grid` blocks would touch, as far as the
    /// arguments say.
    ///
    /// # Errors
    /// The first argument that is too short.
    fn check(&self, grid: Blocks) -> Result<(), TooShort>;
}

/// Device memory that a kernel only reads.
#[repr(C)]
pub struct In<'a, T> {
    address: u64,
    len: usize,
    borrow: PhantomData<&'a [T]>,
}

/// Device memory that a kernel writes before anything reads it.
#[repr(C)]
pub struct Out<'a, T> {
    address: u64,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

/// Device memory that a kernel reads and writes.
#[repr(C)]
pub struct InOut<'a, T> {
    address: u64,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

/// As [`Out`], where the kernel can do without.
#[repr(C)]
pub struct MaybeOut<'a, T> {
    address: u64,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

/// As [`In`], where an output of the same kernel may lie in the same place: every thread has read
/// what it needs before it writes there.
#[repr(C)]
pub struct InPlace<'a, T> {
    address: u64,
    len: usize,
    borrow: PhantomData<&'a [T]>,
}

macro_rules! pointer {
    ($name:ident) => {
        impl<'a, T> $name<'a, T> {
            /// The `len` values from `address` on.
            ///
            /// # Safety
            /// They are device memory of the launching context for as long as `'a`, and everything
            /// that uses them is ordered behind or before the launch.
            #[allow(unsafe_code)]
            pub const unsafe fn new(address: u64, len: usize) -> Self {
                Self {
                    address,
                    len,
                    borrow: PhantomData,
                }
            }

            /// Number of values.
            pub const fn len(&self) -> usize {
                self.len
            }

            /// True when there are none.
            pub const fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// The values behind the first `count`; none, where there are no more.
            #[must_use]
            pub const fn skip(self, count: usize) -> Self {
                let count = if count < self.len { count } else { self.len };
                Self {
                    address: self.address + (count * size_of::<T>()) as u64,
                    len: self.len - count,
                    borrow: PhantomData,
                }
            }
        }

        impl<T> std::fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({} values)"), self.len)
            }
        }
    };
}

macro_rules! address {
    ($($name:ident),*) => {$(
        impl<T> $name<'_, T> {
            /// Address of the first value.
            pub(crate) const fn address(&self) -> u64 {
                self.address
            }
        }
    )*};
}

address!(In, Out, MaybeOut);

pointer!(In);
pointer!(Out);
pointer!(InOut);
pointer!(MaybeOut);
pointer!(InPlace);

impl<T> Clone for In<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<'_, T> {}

impl<'a, T> Out<'a, T> {
    /// The first `count` values, and the others: two outputs of one launch in one buffer.
    #[must_use]
    pub const fn split_at(self, count: usize) -> (Self, Self) {
        let count = if count < self.len { count } else { self.len };
        let first = Self {
            address: self.address,
            len: count,
            borrow: PhantomData,
        };
        (first, self.skip(count))
    }
}

impl<'a, T> InOut<'a, T> {
    /// The first `count` values, and the others: two outputs of one launch in one buffer.
    #[must_use]
    pub const fn split_at(self, count: usize) -> (Self, Self) {
        let count = if count < self.len { count } else { self.len };
        let first = Self {
            address: self.address,
            len: count,
            borrow: PhantomData,
        };
        (first, self.skip(count))
    }

    /// The same as the input of a kernel that allows it.
    pub const fn in_place(&self) -> InPlace<'a, T> {
        InPlace {
            address: self.address,
            len: self.len,
            borrow: PhantomData,
        }
    }
}

impl<'a, T> From<In<'a, T>> for InPlace<'a, T> {
    fn from(input: In<'a, T>) -> Self {
        Self {
            address: input.address,
            len: input.len,
            borrow: PhantomData,
        }
    }
}

impl<'a, T> From<Option<Out<'a, T>>> for MaybeOut<'a, T> {
    fn from(output: Option<Out<'a, T>>) -> Self {
        let (address, len) = output.map_or((0, usize::MAX), |out| (out.address, out.len));
        Self {
            address,
            len,
            borrow: PhantomData,
        }
    }
}

/// A number of values, from an argument; a negative one is none.
pub(crate) trait Number {
    fn number(self) -> u128;
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn number(self) -> u128 {
                u128::try_from(self).unwrap_or(0)
            }
        }
    )*};
}

number!(i32, u32, i64, u64, usize);

/// `number` as a number of values.
pub(crate) fn n(number: impl Number) -> u128 {
    number.number()
}

/// Words of a tile: `THREADS` of `tile_scan.cuh`.
pub(crate) const TILE_WORDS: u32 = 128;

/// Values from the first of row 0 to the last of the `rows`-th, rows `stride` apart, `width` used.
pub(crate) const fn rows(rows: u128, stride: u128, width: u128) -> u128 {
    match rows {
        0 => 0,
        rows => (rows - 1) * stride + width,
    }
}

/// Refuses an argument with less than `expected` values.
pub(crate) const fn check_length(
    argument: &'static str,
    got: usize,
    expected: u128,
) -> Result<(), TooShort> {
    if (got as u128) < expected {
        return Err(TooShort {
            argument,
            expected,
            got,
        });
    }
    Ok(())
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Element for $type {}

        #[allow(unsafe_code)]
        // SAFETY: a number.
        unsafe impl Plain for $type {}
    )*};
}

plain!(u8, u16, i16, u32, u64, i32, i64, f32, f64);
