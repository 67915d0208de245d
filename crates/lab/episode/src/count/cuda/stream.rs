//! Events in a device's memory in the order of time, for the automata.

use std::sync::Arc;

use super::check_number;
use crate::events::Events;
use betz_base::error::Result;
use betz_device::cuda::{Buffer, Context};

/// A recording's events in time order on one device: 8 bytes per event, packed as on the host; events of one tick in
/// any order.
pub struct DeviceStream {
    /// The device's context.
    pub context: Arc<Context>,
    /// As [`Events::stream`].
    pub events: Buffer<u64>,
    /// Number of events.
    pub count: u32,
    /// As [`Events::symbol_bits`].
    pub symbol_bits: u32,
    /// The tick from which those of [`DeviceEvents`](super::DeviceEvents) count.
    pub(super) origin: i64,
}

impl DeviceStream {
    /// Copies all of `events` to the device of `context`.
    ///
    /// # Errors
    /// `InvalidArgument` for more than 2³⁰ events; `DeviceMemory` if they do not fit; `DeviceFailure`.
    pub fn upload(context: &Arc<Context>, events: &Events) -> Result<Self> {
        check_number(events)?;
        Ok(Self {
            context: Arc::clone(context),
            events: context.upload(events.stream())?,
            count: events.len() as u32,
            symbol_bits: events.symbol_bits(),
            origin: events.first_tick(),
        })
    }
}
