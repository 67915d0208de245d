//! Blocks of targets: how a network's synapses are divided where a device has no room for all of them.

use betz_base::{Error, ErrorKind, Result};

use crate::streaming::SYNAPSE_BYTES;

/// Most blocks. The host draws rows of some rules once for each.
const MOST_BLOCKS: u32 = 32;
/// Bytes of a synapse that the host has drawn, until it is placed.
pub(super) const LISTED_BYTES: u64 = 12;

/// Blocks of targets: neuron t is of block t modulo `all`. The first `near` are on the device, the others on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TargetBlocks {
    pub(super) all: u32,
    pub(super) near: u32,
}

/// Memory that a network with blocks of targets takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub(super) neurons: u64,
    /// Static synapses, and those of them that the host draws.
    pub(super) synapses: f64,
    pub(super) listed: f64,
    /// Bytes on the device of all else.
    pub(super) device_bytes: u64,
    /// Bytes on the host while the network is built.
    pub(super) host_bytes: u64,
}

impl Demand {
    /// Most bytes of the synapses of one of `all` blocks.
    pub(super) fn block_bytes(&self, all: u32) -> u64 {
        let share = self.synapses / f64::from(all);
        // A share of random targets differs from others.
        let most = share * 1.01 + 5.0 * share.sqrt() + 64.0;
        most.min(self.synapses + 64.0) as u64 * SYNAPSE_BYTES
    }

    /// Bytes on the device that `all` blocks take besides synapses.
    fn overhead(&self, all: u32) -> u64 {
        let offsets = u64::from(all) * 4 * (self.neurons + 1);
        let listed = (self.listed / f64::from(all)) as u64 * LISTED_BYTES;
        self.device_bytes + offsets + listed
    }

    /// Bytes on the device and on the host.
    pub(super) fn bytes(&self, blocks: TargetBlocks) -> (u64, u64) {
        let block = self.block_bytes(blocks.all);
        let near = u64::from(blocks.near) * block;
        let far = u64::from(blocks.all - blocks.near) * block;
        (self.overhead(blocks.all) + near.max(block), far)
    }
}

impl TargetBlocks {
    /// The division that leaves the fewest bytes on the host.
    ///
    /// # Errors
    /// `DeviceMemory` if `device` bytes do not suffice for one block, or `host` bytes for the others.
    pub(super) fn choose(demand: &Demand, device: u64, host: u64) -> Result<Self> {
        let fitting = (2..=MOST_BLOCKS).filter_map(|all| {
            let room = device.checked_sub(demand.overhead(all))?;
            let near = (room / demand.block_bytes(all).max(1)).min(u64::from(all) - 1) as u32;
            // One block is on the device while it is made.
            (near > 0).then_some(Self { all, near })
        });
        let best = fitting.min_by_key(|blocks| (demand.bytes(*blocks).1, blocks.all));
        let Some(best) = best else {
            let least = demand.bytes(Self {
                all: MOST_BLOCKS,
                near: 1,
            });
            return Err(Error::new(
                ErrorKind::DeviceMemory,
                format!(
                    "synapses from the host's memory: expected at least {} bytes of device memory, got {device}",
                    least.0
                ),
            ));
        };
        let needed = demand.bytes(best).1.saturating_add(demand.host_bytes);
        if needed > host {
            return Err(Error::new(
                ErrorKind::DeviceMemory,
                format!(
                    "synapses from the host's memory: expected at least {needed} bytes of the host's memory beside {device} bytes of the device's, got {host}"
                ),
            ));
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand() -> Demand {
        Demand {
            neurons: 1_000_000,
            synapses: 4e9,
            listed: 0.0,
            device_bytes: 2 << 30,
            host_bytes: 1 << 26,
        }
    }

    #[test]
    fn blocks_fill_the_device_and_no_more() {
        let demand = demand();
        for device in [4u64 << 30, 8 << 30, 16 << 30, 31 << 30] {
            let blocks = TargetBlocks::choose(&demand, device, u64::MAX).unwrap();
            let (near, far) = demand.bytes(blocks);
            assert!(near <= device, "{blocks:?} take {near} of {device} bytes");
            assert!((1..blocks.all).contains(&blocks.near), "{blocks:?}");
            // The rest would not hold another block, and both sides hold all synapses.
            let block = demand.block_bytes(blocks.all);
            assert!(
                near + block > device || blocks.near + 1 == blocks.all,
                "{blocks:?}"
            );
            assert!(u64::from(blocks.near) * block + far >= 32_000_000_000);
            // No other division leaves less on the host.
            for all in 2..=MOST_BLOCKS {
                for near in 1..all {
                    let other = demand.bytes(TargetBlocks { all, near });
                    assert!(
                        other.0 > device || other.1 >= far,
                        "{all} {near} {blocks:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn memory_that_does_not_suffice_is_told() {
        let demand = demand();
        let error = TargetBlocks::choose(&demand, 2 << 30, u64::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceMemory);
        let words = error.message();
        assert!(
            words.contains("at least 3") && words.contains("got 2147483648"),
            "{words}"
        );
        let blocks = TargetBlocks::choose(&demand, 8 << 30, u64::MAX).unwrap();
        let needed = demand.bytes(blocks).1 + demand.host_bytes;
        assert_eq!(
            TargetBlocks::choose(&demand, 8 << 30, needed).unwrap(),
            blocks
        );
        let error = TargetBlocks::choose(&demand, 8 << 30, needed - 1).unwrap_err();
        for number in [needed, 8 << 30, needed - 1] {
            assert!(error.message().contains(&number.to_string()), "{error}");
        }
    }

    #[test]
    fn a_share_has_room_for_chance() {
        let demand = demand();
        let (one, all) = (demand.block_bytes(1), demand.block_bytes(16));
        assert!(one == 8 * (4_000_000_000 + 64), "{one}");
        assert!(all > 2_000_000_000 && all < 2_030_000_000, "{all}");
    }
}
