//! The slots of a walk become edges in order, on the device: by window, then i, then j.

use std::sync::Arc;

use betz_base::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, Kernel};
use betz_kernels::network as kernels;
use betz_kernels::network::{NetworkLongRows, NetworkPlace, NetworkRows, NetworkShortRows};

use super::shape::int;

/// Threads of a block of the kernels here.
const THREADS: u32 = 256;

/// Edges of some tiles in all windows of a chunk, by row (window · nodes + i), then j.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// The end of each row in `edges`, at which the next one begins.
    pub(super) ends: Vec<u32>,
    /// j in the upper half, the bits of the value in the lower; NaN where the host has to decide.
    pub(super) edges: Vec<u64>,
}

/// The kernels that bring edges into order.
pub(super) struct Order {
    context: Arc<Context>,
    rows: Kernel,
    place: Kernel,
    short_rows: Kernel,
    long_rows: Kernel,
}

impl Order {
    pub(super) fn open(context: &Arc<Context>) -> Result<Self> {
        Ok(Self {
            context: Arc::clone(context),
            rows: context.load::<NetworkRows<'_>>(&[], 0)?,
            place: context.load::<NetworkPlace<'_>>(&[], 0)?,
            short_rows: context.load::<NetworkShortRows<'_>>(&[], 0)?,
            long_rows: context.load::<NetworkLongRows<'_>>(&[], 0)?,
        })
    }

    /// The edges of the first `slots` slots of so many windows and nodes, on the host. What `keys` held is lost.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] when the host has no room for them; those of the device.
    pub(super) fn fetch(
        &self,
        (windows, nodes): (usize, usize),
        keys: &mut Buffer<u64>,
        values: &Buffer<f32>,
        slots: usize,
    ) -> Result<Piece> {
        let context = &self.context;
        let rows = windows * nodes;
        let nodes = int(nodes)?;
        // u32 counts no more.
        let counted = u32::try_from(slots).map_err(|_| {
            let found = format!("expected fewer than 2^32 edges at once, got {slots}");
            Error::new(
                ErrorKind::DeviceMemory,
                format!("network on a CUDA device: {found}"),
            )
        })?;
        let most = context.info().multiprocessors.max(1) * 16;
        let blocks = |threads: usize| {
            let blocks = u32::try_from(threads.div_ceil(THREADS as usize)).unwrap_or(u32::MAX);
            (blocks.clamp(1, most), 1, 1)
        };
        let mut ends: Buffer<u32> = context.zeros(rows)?;
        let mut placed: Buffer<u64> = context.alloc(slots.max(1))?;
        let mut long_rows: Buffer<u32> = context.alloc(slots / (kernels::SHORT_ROW + 1) + 1)?;
        let mut count: Buffer<u32> = context.zeros(1)?;
        let slots = u64::from(counted);
        self.rows.launch(
            blocks(slots as usize),
            THREADS,
            NetworkRows {
                keys: keys.read(),
                slots,
                nodes,
                rows: ends.update(),
            },
        )?;
        context.exclusive_sums(&mut ends, rows)?;
        self.place.launch(
            blocks(slots as usize),
            THREADS,
            NetworkPlace {
                keys: keys.read(),
                values: values.read(),
                slots,
                nodes,
                rows: ends.update(),
                placed: placed.write(),
            },
        )?;
        self.short_rows.launch(
            blocks(rows),
            THREADS,
            NetworkShortRows {
                ends: ends.read(),
                all: rows as u64,
                placed: placed.read(),
                ordered: keys.write(),
                long_rows: long_rows.write(),
                count: count.update(),
            },
        )?;
        self.long_rows.launch(
            (most, 1, 1),
            THREADS,
            NetworkLongRows {
                ends: ends.read(),
                placed: placed.read(),
                nodes,
                long_rows: long_rows.read(),
                count: count.read(),
                ordered: keys.write(),
            },
        )?;
        self.download(context.download(&ends, rows)?, keys)
    }

    fn download(&self, ends: Vec<u32>, keys: &Buffer<u64>) -> Result<Piece> {
        let there = ends.last().map_or(0, |end| *end as usize);
        let mut edges = Vec::new();
        if edges.try_reserve_exact(there).is_err() {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("edges: expected room for {there} more, got none"),
            ));
        }
        edges.resize(there, 0);
        self.context.download_into(keys, 0, &mut edges)?;
        Ok(Piece { ends, edges })
    }
}
