//! The end of a session whose recording must not end before it.

use betz_base::{ErrorKind, Result};

use super::Live;
use crate::pipeline::Give;
use crate::plan::OnFull;
use crate::record::{Disk, Recorder};

impl Live {
    /// Ends a session that can record no more, if the plan says so (`record.on_full = "stop"`). Its last outputs are 0.
    ///
    /// # Errors
    /// `Io` with file, line and key.
    pub(super) fn check_disk(&mut self, each: &mut Give<'_>) -> Result<()> {
        let of_plan = self.plan.record.as_ref();
        let is_over = of_plan.is_some_and(|record| record.on_full == OnFull::Stop)
            && self.recorder.as_ref().is_some_and(Recorder::has_ended);
        if !is_over {
            return Ok(());
        }
        let why = match self.recorder.as_ref().map(Recorder::disk) {
            Some(Disk::Full) => "the disk is full",
            _ => "the disk has failed",
        };
        self.rest_outputs(each)?;
        let message = format!("expected a disk that records, because on_full = \"stop\"; {why}");
        Err(self
            .plan
            .refuse("record", "on_full", message)
            .of_kind(ErrorKind::Io))
    }
}
