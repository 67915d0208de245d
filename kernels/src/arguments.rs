//! What a launch is given, checked by types: device addresses that say whether a kernel reads or writes
//! there, one struct per kernel that lists them in the order of its signature, and how large each
//! piece of memory has to be where the other arguments say so.
//!
//! A test reads every `__global__` signature of every `.cu` file and compares it with its struct.

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::Source;

/// Something that device memory may hold.
pub trait Element: Copy + Send + Sync + 'static {
    /// What the kernels call it.
    const C: &'static str;
}

/// An element that may be copied between host and device byte by byte.
///
/// # Safety
/// Any bits are a value of it (all zeros too), it has no padding, and it refers to nothing.
#[allow(unsafe_code)]
pub unsafe trait Plain: Element {}

/// A type that kernels are compiled for by an option `-DNAME=VALUE`.
pub trait Compiled: Plain {
    /// The option's value.
    const VALUE: &'static str;
}

/// What a kernel does with an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// A value: `T x`.
    Value,
    /// Memory that it only reads: `const T *x`.
    Input,
    /// Memory that it writes: `T *x`.
    Output,
}

/// One argument of a kernel, as its struct has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, the same on both sides.
    pub name: &'static str,
    /// What the kernel does with it.
    pub direction: Direction,
    /// Its type, or that of what it points to, in the kernels' words.
    pub c: &'static str,
}

/// A type that an argument may have. Its first bytes are what the kernel takes.
pub trait Pass {
    /// What the kernel does with it.
    const DIRECTION: Direction;
    /// Its type, or that of what it points to.
    const C: &'static str;
}

/// Most arguments of a kernel.
pub const MOST_ARGUMENTS: usize = 26;

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
    /// Its arguments in order.
    const PARAMETERS: &'static [Parameter];
    /// Compile-time options that its types stand for: name and value each.
    const OPTIONS: &'static [(&'static str, &'static str)];

    /// Where the arguments are, in order; as many as there are parameters, null beyond.
    fn pointers(&self) -> [*mut c_void; MOST_ARGUMENTS];

    /// Compares the sizes of its memory with what a launch of `blocks` would touch, as far as the
    /// arguments say.
    ///
    /// # Errors
    /// The first argument that is too short.
    fn check(&self, blocks: Blocks) -> Result<(), TooShort>;
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
    ($name:ident, $direction:ident) => {
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

        impl<T: Element> Pass for $name<'_, T> {
            const DIRECTION: Direction = Direction::$direction;
            const C: &'static str = T::C;
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
            /// Where the values begin.
            pub(crate) const fn address(&self) -> u64 {
                self.address
            }
        }
    )*};
}

address!(In, Out, MaybeOut);

pointer!(In, Input);
pointer!(Out, Output);
pointer!(InOut, Output);
pointer!(MaybeOut, Output);
pointer!(InPlace, Input);

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

/// `of` as a number of values.
pub(crate) fn n(of: impl Number) -> u128 {
    of.number()
}

/// Values from the first of row 0 to the last of the `rows`-th, rows `stride` apart, `width` used.
pub(crate) fn rows(rows: impl Number, stride: impl Number, width: impl Number) -> u128 {
    match rows.number() {
        0 => 0,
        rows => (rows - 1) * stride.number() + width.number(),
    }
}

macro_rules! value {
    ($($type:ty = $c:literal),*) => {$(
        impl Element for $type {
            const C: &'static str = $c;
        }

        #[allow(unsafe_code)]
        // SAFETY: a number.
        unsafe impl Plain for $type {}

        impl Pass for $type {
            const DIRECTION: Direction = Direction::Value;
            const C: &'static str = $c;
        }
    )*};
}

value!(
    u8 = "u8",
    u16 = "u16",
    i16 = "i16",
    u32 = "u32",
    u64 = "u64",
    i32 = "int",
    i64 = "long long",
    f32 = "float",
    f64 = "double"
);

/// Declares the struct of a kernel's arguments. `needs` lists how many values each piece of memory
/// must have at least, from the arguments (`own`) and the launch's `blocks`.
macro_rules! kernel {
    (
        $(#[$doc:meta])*
        $source:ident, $kernel:ident:
        struct $name:ident<$life:lifetime $(, $generic:ident: $bound:ident = $option:literal)*> {
            $($field:ident: $type:ty,)*
        }
        needs |$own:ident, $blocks:ident| { $($short:ident: $size:expr,)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<$life $(, $generic)*> {
            $(
                #[doc = concat!("`", stringify!($field), "` of the kernel.")]
                pub $field: $type,
            )*
        }

        #[allow(unsafe_code)]
        // SAFETY: one pointer per field, in order; a test compares fields and options with the
        // signature. A field's first bytes are the argument: numbers, addresses or `repr(C)` structs.
        unsafe impl<$life $(, $generic: $bound)*> $crate::Arguments for $name<$life $(, $generic)*> {
            const SOURCE: $crate::Source = $crate::$source;
            const KERNEL: &'static str = stringify!($kernel);
            const PARAMETERS: &'static [$crate::Parameter] = &[$(
                $crate::Parameter {
                    name: stringify!($field),
                    direction: <$type as $crate::Pass>::DIRECTION,
                    c: <$type as $crate::Pass>::C,
                },
            )*];
            const OPTIONS: &'static [(&'static str, &'static str)] =
                &[$(($option, <$generic as $crate::Compiled>::VALUE),)*];

            fn pointers(&self) -> [*mut std::ffi::c_void; $crate::MOST_ARGUMENTS] {
                let mut pointers = [std::ptr::null_mut(); $crate::MOST_ARGUMENTS];
                let fields = [$(std::ptr::from_ref(&self.$field).cast_mut().cast(),)*];
                pointers[..fields.len()].copy_from_slice(&fields);
                pointers
            }

            #[allow(unused_variables)]
            fn check(&self, $blocks: $crate::Blocks) -> Result<(), $crate::TooShort> {
                let $own = self;
                $(
                    let expected: u128 = $size;
                    if (self.$short.len() as u128) < expected {
                        return Err($crate::TooShort {
                            argument: stringify!($short),
                            expected,
                            got: self.$short.len(),
                        });
                    }
                )*
                Ok(())
            }
        }
    };
}

pub(crate) use kernel;
