//! The online rule on a CUDA device, by `map_online.cu`: every weight has the bits that the CPU gives it.

use std::sync::Arc;

use betz_base::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, Kernel};
use betz_kernels::map as kernels;
use betz_kernels::map::MapOnline;

use super::grid::{Grid, Lattice};
use super::samples::Samples;

/// Samples in shared memory: one that is learned, one that has come, one on its way.
const HELD: usize = 3;
/// Nodes of a block, unless there are more than all blocks have so.
const BLOCK_NODES: usize = 128;
/// Shared memory of a block that is not asked for: nearest nodes of the warps, and winners.
const OWN_SHARED: usize = 512;

/// Shares of the way to a sample that nodes go, by their place as seen from the winner.
pub(super) struct ScaleTable {
    /// Rows below the winner of the first row; negative above.
    pub(super) up: isize,
    /// Rows of the table.
    pub(super) height: usize,
    /// Columns right of the winner of the first column; negative to the left.
    pub(super) left: isize,
    /// Columns of the table.
    pub(super) width: usize,
    /// (parity of the winner's row, height, width), one parity on squares; NaN where a node stays.
    pub(super) scales: Vec<f32>,
}

/// A map in the memory of a device, and what it learns from.
pub(super) struct OnlineOnCuda {
    context: Arc<Context>,
    kernel: Kernel,
    grid: Grid,
    dims: usize,
    padded: usize,
    shape: Shape,
    samples: Buffer<f32>,
    planes: Buffer<f32>,
    /// The lowest and the highest value of each dimension, and true if weights may not leave them.
    ranges: Buffer<f32>,
    bounded: bool,
    table: ScaleTable,
    scales: Buffer<f32>,
}

/// Nodes of a block, and where they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    blocks: u32,
    threads: u32,
    /// Nodes of a block.
    per: usize,
    /// True if blocks keep their nodes in shared memory.
    in_shared: bool,
    shared_bytes: usize,
}

impl Shape {
    /// For a device of so many bytes of shared memory a block, and blocks that run at the same time.
    fn new(nodes: usize, dims: usize, shared_bytes: usize, most_blocks: usize) -> Result<Self> {
        let most_blocks = most_blocks.clamp(1, kernels::ONLINE_BLOCKS as usize);
        let presented = dims.saturating_mul(4 * HELD);
        let room = shared_bytes.saturating_sub(OWN_SHARED);
        if presented > room {
            let what = format!("three samples of {dims} numbers in a block's shared memory");
            return Err(Error::device_memory(&what, presented as u64, room as u64));
        }
        let least = nodes.div_ceil(most_blocks);
        let per = BLOCK_NODES.clamp(least, least.max((room - presented) / (4 * dims)));
        let whole = presented.saturating_add(per.saturating_mul(dims).saturating_mul(4));
        let in_shared = whole <= room;
        let threads = per
            .next_multiple_of(32)
            .clamp(32, kernels::ONLINE_THREADS as usize);
        Ok(Self {
            blocks: nodes.div_ceil(per) as u32,
            threads: threads as u32,
            per,
            in_shared,
            shared_bytes: if in_shared { whole } else { presented },
        })
    }
}

impl OnlineOnCuda {
    /// Takes samples and weights, (dims, padded), to the device.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`], with the bytes it takes, also for samples of more numbers than a block holds three times; those
    /// of the device.
    pub(super) fn new(
        context: &Arc<Context>,
        grid: &Grid,
        samples: Samples<'_>,
        planes: &[f32],
        ranges: &[(f32, f32)],
        bounded: bool,
        table: ScaleTable,
    ) -> Result<Self> {
        let dims = samples.dims();
        let shared_bytes = context.shared_bytes();
        let multiprocessors = context.info().multiprocessors as usize;
        let shape = Shape::new(grid.nodes(), dims, shared_bytes, multiprocessors)?;
        let held = samples.values().len() + planes.len() + table.scales.len() + 2 * dims;
        let bytes = held as u64 * 4 + 1024 * 1024;
        let room = context.available_memory()?;
        if bytes > room {
            return Err(Error::device_memory("training a map", bytes, room));
        }
        let option = format!("-DIN_SHARED={}", u8::from(shape.in_shared));
        let kernel = context.load::<MapOnline<'_>>(&[option], shape.shared_bytes)?;
        let together = kernel.resident_blocks(shape.threads)?;
        if shape.blocks > together {
            return Err(Error::new(
                ErrorKind::DeviceMemory,
                format!(
                    "the online rule on a device: expected {} blocks at the same time, got {together}",
                    shape.blocks
                ),
            ));
        }
        let ranges: Vec<f32> = ranges.iter().flat_map(|&(low, high)| [low, high]).collect();
        Ok(Self {
            kernel,
            grid: grid.clone(),
            dims,
            padded: planes.len() / dims,
            shape,
            samples: context.upload(samples.values())?,
            planes: context.upload(planes)?,
            ranges: context.upload(&ranges)?,
            bounded,
            scales: context.upload(&table.scales)?,
            table,
            context: Arc::clone(context),
        })
    }

    /// Nodes move by another table from now on.
    ///
    /// # Errors
    /// The errors of the device.
    pub(super) fn follow(&mut self, table: ScaleTable) -> Result<()> {
        self.scales = self.context.upload(&table.scales)?;
        self.table = table;
        Ok(())
    }

    /// Presents the samples [first, first + count), and waits until all are learned.
    ///
    /// # Errors
    /// The errors of the device.
    pub(super) fn present(&mut self, first: usize, count: usize) -> Result<()> {
        let mut messages = self.context.zeros(2 * kernels::ONLINE_BLOCKS as usize)?;
        let hexagonal = self.grid.lattice() == Lattice::Hexagonal;
        self.kernel.launch_together(
            (self.shape.blocks, 1, 1),
            self.shape.threads,
            MapOnline {
                samples: self.samples.read(),
                scales: self.scales.read(),
                ranges: self.ranges.read(),
                first: first as u64,
                count: count as u64,
                dims: self.dims as i32,
                rows: self.grid.rows() as i32,
                columns: self.grid.columns() as i32,
                padded: self.padded as i32,
                per: self.shape.per as i32,
                torus: i32::from(self.grid.is_torus()),
                parities: if hexagonal { 2 } else { 1 },
                up: self.table.up as i32,
                height: self.table.height as i32,
                left: self.table.left as i32,
                width: self.table.width as i32,
                bounded: i32::from(self.bounded),
                messages: messages.update(),
                planes: self.planes.update(),
            },
        )?;
        self.context.synchronize()
    }

    /// The weights as they are now, (dims, padded).
    ///
    /// # Errors
    /// The errors of the device.
    pub(super) fn planes(&self) -> Result<Vec<f32>> {
        self.context.download(&self.planes, self.dims * self.padded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_all_nodes_and_room_for_them() {
        for nodes in [1, 2, 127, 128, 129, 6300, 90_000, 1 << 22] {
            for dims in [1, 3, 32, 300, 2000] {
                for (shared, most) in [(48 << 10, 40), (232_448, 132), (232_448, 1000)] {
                    let shape = Shape::new(nodes, dims, shared, most).unwrap();
                    let what = format!("{nodes} of {dims}: {shape:?}");
                    let blocks = shape.blocks as usize;
                    assert!(blocks * shape.per >= nodes, "{what}");
                    assert!((blocks - 1) * shape.per < nodes, "{what}");
                    assert!(
                        blocks <= most.min(kernels::ONLINE_BLOCKS as usize),
                        "{what}"
                    );
                    assert!(shape.shared_bytes + OWN_SHARED <= shared, "{what}");
                    assert!(
                        shape.threads.is_multiple_of(32) && shape.threads >= 32,
                        "{what}"
                    );
                }
            }
        }
        assert!(Shape::new(128, 1000, 232_448, 132).unwrap().per < 128);
        // The CPU's by `auto`, as where the memory of a device falls short.
        let error = Shape::new(4, 4100, 48 << 10, 40).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceMemory);
        assert!(
            error.message().contains("three samples of 4100 numbers"),
            "{error:?}"
        );
    }
}
