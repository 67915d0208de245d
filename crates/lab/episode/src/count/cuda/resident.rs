//! Events that stay on a device between counts.

use betz_base::lock::lock;
use std::sync::{Arc, Mutex};

use betz_base::error::Result;
use betz_device::cuda::Context;

use super::{DeviceEvents, DeviceStream, siblings};
use crate::count::CountJob;
use crate::events::Events;

/// The last events that were counted on one device, copied in each order when a kernel first needs it.
pub struct ResidentEvents {
    context: Arc<Context>,
    copies: Mutex<Copies>,
}

/// Copies of the same events.
#[derive(Default)]
struct Copies {
    /// [`Events::id`] of the events.
    id: Option<u64>,
    by_symbol: Option<Arc<DeviceEvents>>,
    in_time: Option<Arc<DeviceStream>>,
}

impl ResidentEvents {
    /// No events yet, on the device of `context`.
    pub fn new(context: &Arc<Context>) -> Self {
        Self {
            context: Arc::clone(context),
            copies: Mutex::default(),
        }
    }

    /// `events` by symbol; copies them if they are not there.
    ///
    /// # Errors
    /// As [`DeviceEvents::upload`].
    pub fn by_symbol(&self, events: &Events) -> Result<Arc<DeviceEvents>> {
        let upload = || DeviceEvents::upload(&self.context, events);
        self.get_or_upload(events, |copies| &mut copies.by_symbol, upload)
    }

    /// `events` in time order; copies them if they are not there.
    ///
    /// # Errors
    /// As [`DeviceStream::upload`].
    pub fn in_time(&self, events: &Events) -> Result<Arc<DeviceStream>> {
        let upload = || DeviceStream::upload(&self.context, events);
        self.get_or_upload(events, |copies| &mut copies.in_time, upload)
    }

    fn get_or_upload<T>(
        &self,
        events: &Events,
        slot: impl FnOnce(&mut Copies) -> &mut Option<Arc<T>>,
        upload: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let mut copies = lock(&self.copies);
        if copies.id != Some(events.id()) {
            // The old copies go first: both need not fit at once.
            *copies = Copies {
                id: Some(events.id()),
                ..Copies::default()
            };
        }
        let slot = slot(&mut copies);
        if let Some(copy) = slot {
            return Ok(Arc::clone(copy));
        }
        Ok(Arc::clone(slot.insert(Arc::new(upload()?))))
    }

    /// Gives the memory of the copies back.
    pub(crate) fn clear(&self) {
        *lock(&self.copies) = Copies::default();
    }

    /// Counts `job` by latest starts.
    pub(crate) fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        let events = self.by_symbol(job.events)?;
        siblings::count(&events, || self.in_time(job.events), job)
    }
}
