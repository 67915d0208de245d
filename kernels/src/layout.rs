//! Structs that host and kernels share, written from the `.cu` files, but for two that have addresses and are made by hand.

use std::marker::PhantomData;

use crate::arguments::{Element, In, KernelOption, MaybeOut, Out, Plain};

include!(concat!(env!("OUT_DIR"), "/structs.rs"));

/// A tick: 32 bits where the recording allows it, else 64. Kernels are compiled for one of the two.
pub trait Tick: width::Width + KernelOption + Default + PartialEq + std::fmt::Debug {
    /// `tick`, which fits.
    fn narrowed(tick: i64) -> Self;
}

/// Keeps the widths of ticks to two.
mod width {
    pub trait Width {}
    impl Width for i32 {}
    impl Width for i64 {}
}

impl KernelOption for i32 {
    const VALUE: &'static str = "0";
}

impl KernelOption for i64 {
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
pub trait Sample: KernelOption {}

macro_rules! sample {
    ($($type:ty = $c:literal),*) => {$(
        impl KernelOption for $type {
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

/// Destination of a tile of responses.
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
    /// Lengths, which the kernel does not see.
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
