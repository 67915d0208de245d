//! Synapses that a device has no room for, read from the host's memory across the bus.

use std::fmt;

use serde::Serialize;

/// Bytes of a static synapse on a device.
pub(crate) const SYNAPSE_BYTES: u64 = 8;
/// Bytes per second that kernels read across the bus, row by row (`benches/record/spiking.md`).
const BUS_RATE: f64 = 45e9;
/// Bytes per second of rows that they deliver from the device's own memory.
const DEVICE_RATE: f64 = 285e9;
/// Seconds of a step without any spike.
const STEP_SECONDS: f64 = 8e-6;

/// Cost of synapses that stay in the host's memory, known before a network is built.
///
/// Synapses lie in blocks by target. The row of a neuron that fires is read across the bus from each block that is not on the
/// device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StreamCost {
    /// Blocks of targets.
    pub target_blocks: u32,
    /// Those whose synapses are on the device.
    pub resident_blocks: u32,
    /// Bytes of the host's memory that the others take.
    pub host_bytes: u64,
    /// Bytes per step across the bus if neurons fire at [`StreamCost::RATE_HZ`].
    pub bytes_per_step: f64,
    /// Expected time of a step then, in times of one with all synapses on the device.
    pub expected_factor: f64,
}

impl StreamCost {
    /// Mean rate of all neurons for which the cost is given; it grows in proportion.
    pub const RATE_HZ: f64 = 10.0;

    /// Of a network of so many static synapses and steps of so many milliseconds.
    pub(crate) fn new(
        (target_blocks, resident_blocks): (u32, u32),
        host_bytes: u64,
        synapses: f64,
        step_ms: f64,
    ) -> Self {
        let far = f64::from(target_blocks - resident_blocks) / f64::from(target_blocks);
        // A neuron's spike goes through all its synapses.
        let delivered = Self::RATE_HZ * step_ms * 1e-3 * synapses * SYNAPSE_BYTES as f64;
        let bytes_per_step = far * delivered;
        let resident = STEP_SECONDS + delivered / DEVICE_RATE;
        let streamed =
            STEP_SECONDS + (delivered - bytes_per_step) / DEVICE_RATE + bytes_per_step / BUS_RATE;
        Self {
            target_blocks,
            resident_blocks,
            host_bytes,
            bytes_per_step,
            expected_factor: streamed / resident,
        }
    }
}

impl fmt::Display for StreamCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} blocks of targets stay in {:.1} MB of the host's memory; at {} spikes per second and neuron, {:.3} MB per step cross the bus, and a step takes {:.1} times as long as with all synapses on the device",
            self.target_blocks - self.resident_blocks,
            self.target_blocks,
            self.host_bytes as f64 / 1e6,
            Self::RATE_HZ,
            self.bytes_per_step / 1e6,
            self.expected_factor
        )
    }
}
