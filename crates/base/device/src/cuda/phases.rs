//! Seconds of the phases of an operation, as the device's own clock has them.

use betz_base::lock::lock;
use std::sync::Mutex;

use cudarc::driver::CudaEvent;
use cudarc::driver::sys::CUevent_flags;

use super::context::Context;
use super::error::driver_error;
use betz_base::error::Result;

/// Phases that are timed: the event at the begin of each.
pub(super) type Marks = Mutex<Option<Vec<(&'static str, CudaEvent)>>>;

impl Context {
    /// From here on, [`Context::phase`] takes times, until [`Context::take_phases`].
    pub fn start_phases(&self) {
        *lock(&self.phases) = Some(Vec::new());
    }

    /// Says that what is asked of the device from here on belongs to phase `name`. Does nothing unless phases are timed.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceFailure`](betz_base::ErrorKind::DeviceFailure).
    pub fn phase(&self, name: &'static str) -> Result<()> {
        let mut marks = lock(&self.phases);
        let Some(marks) = marks.as_mut() else {
            return Ok(());
        };
        let event = (self.stream).record_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        marks.push((name, event.map_err(|e| driver_error("timing a phase", e))?));
        Ok(())
    }

    /// Seconds of each phase since [`Context::start_phases`], in the order in which they first came. Waits. A phase ends
    /// where the next begins; time that the device waits for the host belongs to the phase that it waits in.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceFailure`](betz_base::ErrorKind::DeviceFailure).
    pub fn take_phases(&self) -> Result<Vec<(&'static str, f64)>> {
        self.phase("")?;
        let marks = lock(&self.phases).take();
        let mut phases: Vec<(&'static str, f64)> = Vec::new();
        for pair in marks.unwrap_or_default().windows(2) {
            let [(name, begin), (_, end)] = pair else {
                continue;
            };
            let took = begin.elapsed_ms(end);
            let took = f64::from(took.map_err(|e| driver_error("timing a phase", e))?) / 1e3;
            match phases.iter_mut().find(|(known, _)| known == name) {
                Some((_, seconds)) => *seconds += took,
                None => phases.push((name, took)),
            }
        }
        Ok(phases)
    }
}
