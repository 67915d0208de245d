//! Dynamic time warping on one device. The host prepares a window's samples and envelopes and reads the pairs; the device
//! leaves out pairs by their bounds and aligns the others, in f64 and in the order of the CPU's sums.

use std::sync::Arc;

use betz_base::progress::check;
use betz_base::{Error, ErrorKind, Progress, Result};
use betz_device::cuda::{Buffer, Context, Kernel};
use betz_kernels::network as kernels;
use betz_kernels::network::NetworkWarp;

use super::shape::int;
use crate::warp::WindowSamples;

/// Lags that a lane holds, in the kernels that there are.
const CELLS: [usize; 5] = [2, 4, 8, 16, 32];

/// Largest band that a warp holds.
pub(crate) const MOST_BAND: usize = (32 * CELLS[4] - 1) / 2;

/// Pairs of a launch, at most: there is room for all of them.
const MOST_PAIRS: usize = 1 << 22;

/// Bytes of a pair's place: two nodes and a sum.
const PAIR_BYTES: u64 = 16;

/// Cells in a second of a fast device, roughly: a request to stop is heard after a launch.
const RATE: f64 = 1e11;

const THREADS: u32 = 128;

/// Blocks on a multiprocessor at once.
const RESIDENT: u32 = 8;

/// Pairs of a window with their sums of squares.
#[derive(Debug, Default)]
pub(super) struct WarpResult {
    pub(super) pairs: Vec<(u32, u32, f64)>,
    /// Pairs that no bound left out.
    pub(super) aligned: u64,
}

/// The kernel of one device.
pub(super) struct Warper {
    context: Arc<Context>,
    kernel: Kernel,
    /// The device's number of how many.
    share: (usize, usize),
}

/// A band within a window of `length` samples.
fn band_of(band: usize, length: usize) -> usize {
    band.min(length - 1)
}

impl Warper {
    /// Compiles the kernel for a band of so many samples. `share`: the device's number of how many.
    pub(super) fn open(
        context: &Arc<Context>,
        (band, length): (usize, usize),
        share: (usize, usize),
    ) -> Result<Self> {
        let width = 2 * band_of(band, length) + 1;
        let cells = CELLS.into_iter().find(|cells| 32 * cells >= width);
        let Some(cells) = cells else {
            return Err(Error::argument(format!(
                "dtw on a CUDA device: expected a band of up to {MOST_BAND} samples, got {band}"
            )));
        };
        Ok(Self {
            context: Arc::clone(context),
            kernel: context.load::<NetworkWarp<'_>>(&[format!("-DCELLS={cells}")], 0)?,
            share,
        })
    }

    /// This device's share of the pairs of a window whose squared distance is at most `most`.
    pub(super) fn pairs(
        &self,
        all: &WindowSamples,
        band: usize,
        most: f64,
        progress: &dyn Progress,
    ) -> Result<WarpResult> {
        let mut found = WarpResult::default();
        let (nodes, length) = (all.defined.len(), all.length);
        if nodes < 2 {
            return Ok(found);
        }
        let context = &self.context;
        let band = band_of(band, length);
        let at_once = self.rows_at_once(nodes, length, band)?;
        let samples = context.upload(&all.samples)?;
        let upper = context.upload(&all.upper)?;
        let lower = context.upload(&all.lower)?;
        let mut pairs: Buffer<u32> = context.zeros(2 * at_once * nodes)?;
        let mut squares: Buffer<f64> = context.zeros(at_once * nodes)?;
        let blocks = context.info().multiprocessors.max(1) * RESIDENT;
        let launches = (0..nodes - 1).step_by(at_once);
        for first in launches.skip(self.share.0).step_by(self.share.1.max(1)) {
            check(progress, "dynamic time warping")?;
            let mut tally: Buffer<u64> = context.zeros(kernels::WARP_TALLY)?;
            self.kernel.launch(
                (blocks, 1, 1),
                THREADS,
                NetworkWarp {
                    samples: samples.read(),
                    upper: upper.read(),
                    lower: lower.read(),
                    nodes: int(nodes)?,
                    length: int(length)?,
                    band: int(band)?,
                    most,
                    first: int(first)?,
                    last: int((first + at_once).min(nodes))?,
                    pairs: pairs.update(),
                    squares: squares.update(),
                    tally: tally.update(),
                },
            )?;
            let counted = context.download(&tally, kernels::WARP_TALLY)?;
            found.aligned += counted[kernels::WARP_ALIGNED];
            let kept = usize::try_from(counted[kernels::WARP_KEPT]).unwrap_or(usize::MAX);
            let own = context.download(&pairs, 2 * kept)?;
            let sums = context.download(&squares, kept)?;
            let node = |at: u32| all.defined[at as usize];
            let pair = |(pair, sum): (&[u32; 2], f64)| (node(pair[0]), node(pair[1]), sum);
            found
                .pairs
                .extend(own.as_chunks::<2>().0.iter().zip(sums).map(pair));
        }
        Ok(found)
    }

    /// Rows of a launch.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`] where there is no room for one.
    fn rows_at_once(&self, nodes: usize, length: usize, band: usize) -> Result<usize> {
        let room = self.context.available_memory()?;
        let fixed = 3 * 8 * (nodes * length) as u64;
        let row = nodes as u64 * PAIR_BYTES;
        let least = fixed + row + (1 << 20);
        if least + least / 16 > room {
            return Err(Error::new(
                ErrorKind::DeviceMemory,
                format!(
                    "dtw on cuda:{}: expected room for {} bytes, got {room}",
                    self.context.number(),
                    least + least / 16
                ),
            )
            .with_needed_bytes(least + least / 16)
            .with_available_bytes(room));
        }
        let by_room = (room - room / 16).saturating_sub(fixed) / row;
        let cells = nodes as f64 * length as f64 * (2 * band + 1).min(length) as f64;
        let by_time = (RATE / cells) as usize;
        let by_room = usize::try_from(by_room).unwrap_or(usize::MAX);
        Ok((MOST_PAIRS / nodes).min(by_time).min(by_room).max(1))
    }
}
