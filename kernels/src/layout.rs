//! Structs that host and kernels share, field by field.
//!
//! Both sides state the same sizes and offsets: the `.cu` files by `static_assert`, and a test
//! compares those lines with the structs here.

use std::marker::PhantomData;

use crate::arguments::{Compiled, Direction, Element, In, MaybeOut, Out, Pass, Plain};

/// A struct's name, size, and every field's name and offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// What the kernels call it.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Its fields: name and offset each.
    pub fields: Vec<(&'static str, usize)>,
}

/// A struct that a `.cu` file defines too.
pub trait Shared {
    /// How it is laid out here.
    fn layout() -> Layout;
}

/// Declares a struct that host and kernels share.
macro_rules! shared {
    (
        $(#[$doc:meta])*
        struct $name:ident $(<$generic:ident>)? {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        #[repr(C)]
        pub struct $name $(<$generic>)? {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $(<$generic: Tick>)? Element for $name $(<$generic>)? {
            const C: &'static str = stringify!($name);
        }

        impl $(<$generic: Tick>)? Shared for $name $(<$generic>)? {
            fn layout() -> Layout {
                Layout {
                    name: stringify!($name),
                    size: size_of::<Self>(),
                    fields: vec![$((stringify!($field), std::mem::offset_of!(Self, $field)),)*],
                }
            }
        }
    };
}

/// Says that a shared struct has no padding, checked while compiling.
macro_rules! plain {
    ($($type:ty: $($field:ty)*;)*) => {$(
        const _: () = assert!(size_of::<$type>() == 0 $(+ size_of::<$field>())*);

        #[allow(unsafe_code)]
        // SAFETY: numbers without padding between or behind them, checked above.
        unsafe impl Plain for $type {}
    )*};
}

pub(crate) use {plain, shared};

/// A tick: 32 bits where the recording allows it, else 64. Kernels are compiled for one of the two.
pub trait Tick: width::Width + Compiled + Default + PartialEq + std::fmt::Debug {
    /// `tick`, which fits.
    fn narrowed(tick: i64) -> Self;
}

/// Keeps the widths of ticks to two.
mod width {
    pub trait Width {}
    impl Width for i32 {}
    impl Width for i64 {}
}

impl Compiled for i32 {
    const VALUE: &'static str = "0";
}

impl Compiled for i64 {
    const VALUE: &'static str = "1";
}

impl Tick for i32 {
    fn narrowed(tick: i64) -> Self {
        tick as Self
    }
}

impl Tick for i64 {
    fn narrowed(tick: i64) -> Self {
        tick
    }
}

/// A type of samples or counts that kernels are compiled for.
pub trait Sample: Compiled {}

macro_rules! sample {
    ($($type:ty = $c:literal),*) => {$(
        impl Compiled for $type {
            const VALUE: &'static str = $c;
        }

        impl Sample for $type {}
    )*};
}

sample!(
    u8 = "u8",
    u16 = "u16",
    i16 = "i16",
    f32 = "float",
    f64 = "double"
);

shared! {
    /// What is known of a block of 32 steps; an array of them ends with one entry more, `since` = 0.
    struct Block {
        /// Steps since the segment began; 0 in its first block.
        since: i32,
        /// Steps until the sums end.
        left: i32,
        /// Steps until the sums begin; 0 once they have.
        before: i32,
        /// Row of the behaviour that is paired with the first step.
        origin: i32,
    }
}

shared! {
    /// One filter `h[m]` = scale · (m/τ)^n e^(−m/τ), m in steps.
    struct Filter {
        /// 1/τ, a step.
        rate: f32,
        /// 1 − e^(−1/τ).
        loss: f32,
        /// What the response is multiplied by.
        scale: f32,
        /// n.
        order: i32,
        /// [`Filter::rate`] in f64.
        exact_rate: f64,
        /// [`Filter::scale`] in f64.
        exact_scale: f64,
    }
}

shared! {
    /// What is known of a word of 32 steps, a bit each.
    struct Mask {
        /// The step lies in a segment.
        inside: u32,
        /// A segment begins there, from rest.
        fresh: u32,
    }
}

shared! {
    /// What one row of a batch of transforms is made from.
    struct Chunk {
        /// First sample of the input.
        first: i32,
        /// How many.
        count: i32,
        /// Of these, those at the beginning that are only the filters' history.
        skip: i32,
        /// The step of the output that the first sample behind the history belongs to.
        to: i32,
    }
}

shared! {
    /// Where the coefficients of a pair of filters begin, and after how many steps they no longer change.
    struct Pair {
        /// Index of the first.
        first: u64,
        /// Steps.
        reach: u64,
    }
}

shared! {
    /// Sums over a part of the steps, about the part's own mean.
    struct Part {
        /// Rows that count.
        count: f64,
        /// Σx.
        sum: f64,
        /// Σ(x − x̄)².
        squares: f64,
        /// Σ(x − x̂)².
        residual: f64,
        /// The smallest x.
        low: f64,
        /// The largest x.
        high: f64,
    }
}

shared! {
    /// A second-order section: y = b0·x + z1; z1 = b1·x − a1·y + z2; z2 = b2·x − a2·y.
    struct Section {
        /// Of x.
        b0: f64,
        /// Of x, a step before.
        b1: f64,
        /// Of x, two steps before.
        b2: f64,
        /// Of −y, a step before.
        a1: f64,
        /// Of −y, two steps before.
        a2: f64,
    }
}

shared! {
    /// A prefix of patterns in a tree in preorder: its last symbol and the interval (low, high] before it.
    struct Node<T> {
        /// Lower bound of the delay, not included.
        low: T,
        /// Upper bound, included.
        high: T,
        /// The last symbol.
        symbol: u32,
        /// Symbols in the prefix, less one.
        depth: u32,
        /// First node after this one's subtree.
        next: u32,
        /// Which pattern this prefix is; all ones, if none.
        leaf: u32,
    }
}

shared! {
    /// What the greedy choice takes in a part when it begins with the occurrence that starts at `start`.
    struct Entry<T> {
        /// Where that occurrence starts.
        start: T,
        /// End of the last occurrence taken.
        end: T,
        /// How many are taken.
        taken: u32,
    }
}

shared! {
    /// A symbol of a prefix, and the interval (low, high] before it.
    struct Link<T> {
        /// Lower bound of the delay, not included.
        low: T,
        /// Upper bound, included.
        high: T,
        /// The symbol.
        symbol: u32,
        /// Of no use.
        unused: u32,
    }
}

shared! {
    /// The next symbol of an episode: its events are `from..to` of the ticks, the delay to it in (low, high].
    struct Step<T> {
        /// Lower bound of the delay, not included.
        low: T,
        /// Upper bound, included.
        high: T,
        /// Its first event.
        from: u32,
        /// Behind its last event.
        to: u32,
    }
}

shared! {
    /// What one automaton saw of the occurrences that end in its segment.
    struct Tuple {
        /// End of the first one, if it lies within the episode's span of the segment's begin; else −1.
        first: i64,
        /// End of the first completion after the segment, within the span of its end; else −1.
        beyond: i64,
        /// How many.
        count: u32,
        /// Of no use.
        unused: u32,
    }
}

shared! {
    /// What the entries of a launch find together.
    struct Tally {
        /// The sum.
        total: u64,
        /// The most of one.
        most: u32,
        /// Of no use.
        unused: u32,
    }
}

/// A complex number as CUDA's own `float2` has it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C, align(8))]
pub struct Complex {
    /// Real part.
    pub re: f32,
    /// Imaginary part.
    pub im: f32,
}

impl Element for Complex {
    const C: &'static str = "float2";
}

plain! {
    Block: i32 i32 i32 i32;
    Filter: f32 f32 f32 i32 f64 f64;
    Mask: u32 u32;
    Chunk: i32 i32 i32 i32;
    Pair: u64 u64;
    Part: f64 f64 f64 f64 f64 f64;
    Section: f64 f64 f64 f64 f64;
    Tuple: i64 i64 u32 u32;
    Tally: u64 u32 u32;
    Complex: f32 f32;
}

/// As `plain`, for both widths of ticks, of which there are two.
macro_rules! plain_with_ticks {
    ($($name:ident: $words:literal;)*) => {$(
        const _: () = assert!(
            size_of::<$name<i32>>() == 8 + 4 * $words && size_of::<$name<i64>>() == 16 + 4 * $words
        );

        #[allow(unsafe_code)]
        // SAFETY: two ticks and 32-bit numbers without padding between or behind them.
        unsafe impl<T: Tick> Plain for $name<T> {}
    )*};
}

plain_with_ticks! {
    Node: 4;
    Link: 2;
    Step: 2;
}

/// Where a tile of responses goes.
#[derive(Debug)]
#[repr(C)]
pub struct Target<'a> {
    operand: u64,
    behavior: u64,
    upsilon: u64,
    centre: u64,
    columns: i32,
    stride: i32,
    outputs: i32,
    whole: i32,
    /// What the kernel does not see.
    sizes: TargetSizes,
    borrow: PhantomData<&'a mut [u16]>,
}

/// Values behind the addresses of a [`Target`].
#[derive(Debug, Clone, Copy)]
struct TargetSizes {
    operand: usize,
    behavior: usize,
    upsilon: usize,
    centre: usize,
}

/// The numbers of a [`Target`].
#[derive(Debug, Clone, Copy)]
pub struct TargetShape {
    /// Columns of the operand.
    pub columns: i32,
    /// Steps from one column to the next.
    pub stride: i32,
    /// Outputs of the behaviour.
    pub outputs: i32,
    /// One array of TF32, not two of bf16.
    pub whole: bool,
}

impl<'a> Target<'a> {
    /// The operand's bits; the behaviour of the round, `[step][outputs]`; Υ and Σa of its chunks,
    /// [chunk][outputs + 1][column], where they are wanted; what is taken from each column.
    pub fn new(
        operand: Out<'a, u16>,
        behavior: In<'a, f32>,
        upsilon: Option<Out<'a, f64>>,
        centre: In<'a, f32>,
        shape: TargetShape,
    ) -> Self {
        let upsilon = MaybeOut::from(upsilon);
        Self {
            operand: operand.address(),
            behavior: behavior.address(),
            upsilon: upsilon.address(),
            centre: centre.address(),
            columns: shape.columns,
            stride: shape.stride,
            outputs: shape.outputs,
            whole: i32::from(shape.whole),
            sizes: TargetSizes {
                operand: operand.len(),
                behavior: behavior.len(),
                upsilon: upsilon.len(),
                centre: centre.len(),
            },
            borrow: PhantomData,
        }
    }

    /// Columns of the operand.
    pub(crate) const fn columns(&self) -> i32 {
        self.columns
    }

    /// Chunks that its memory is enough for, as far as its numbers say.
    pub(crate) fn len(&self) -> usize {
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        let (columns, outputs) = (count(self.columns), count(self.outputs));
        if self.sizes.centre < columns || self.sizes.operand < 2 * columns * count(self.stride) {
            return 0;
        }
        if self.upsilon == 0 {
            return usize::MAX;
        }
        // A chunk is 32 steps at least.
        let behavior = self.sizes.behavior / (32 * outputs).max(1);
        (self.sizes.upsilon / ((outputs + 1) * columns).max(1)).min(match outputs {
            0 => usize::MAX,
            _ => behavior,
        })
    }
}

impl Pass for Target<'_> {
    const DIRECTION: Direction = Direction::Value;
    const C: &'static str = "Target";
}

impl Shared for Target<'_> {
    fn layout() -> Layout {
        use std::mem::offset_of;
        Layout {
            name: "Target",
            size: offset_of!(Self, sizes),
            fields: vec![
                ("operand", offset_of!(Self, operand)),
                ("behavior", offset_of!(Self, behavior)),
                ("upsilon", offset_of!(Self, upsilon)),
                ("centre", offset_of!(Self, centre)),
                ("columns", offset_of!(Self, columns)),
                ("stride", offset_of!(Self, stride)),
                ("outputs", offset_of!(Self, outputs)),
                ("whole", offset_of!(Self, whole)),
            ],
        }
    }
}

/// Counts, one row per step.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Counts<'a, C> {
    counts: u64,
    width: u64,
    first_channel: i32,
    resident: i32,
    delay: i32,
    unused: i32,
    borrow: PhantomData<&'a [C]>,
}

impl<'a, C> Counts<'a, C> {
    /// `counts`, `width` of them per step from channel `first_channel` on; rows are those of the
    /// round in padded time, or, `resident`, of the whole recording, `delay` behind a block's `origin`.
    pub fn new(
        counts: In<'a, C>,
        width: u64,
        first_channel: i32,
        resident: bool,
        delay: i32,
    ) -> Self {
        Self {
            counts: counts.address(),
            width,
            first_channel,
            resident: i32::from(resident),
            delay,
            unused: 0,
            borrow: PhantomData,
        }
    }
}

impl<C> Pass for Counts<'_, C> {
    const DIRECTION: Direction = Direction::Value;
    const C: &'static str = "Counts";
}

impl<C> Shared for Counts<'_, C> {
    fn layout() -> Layout {
        use std::mem::offset_of;
        Layout {
            name: "Counts",
            size: size_of::<Self>(),
            fields: vec![
                ("counts", offset_of!(Self, counts)),
                ("width", offset_of!(Self, width)),
                ("first_channel", offset_of!(Self, first_channel)),
                ("resident", offset_of!(Self, resident)),
                ("delay", offset_of!(Self, delay)),
            ],
        }
    }
}
