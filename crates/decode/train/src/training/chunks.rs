//! Training on a recording that is larger than memory, by one process or a team.

use super::{Delay, Training};
use crate::device::Trained;
use crate::long::{File, Work};
use betz_base::error::{Error, Result};
use betz_base::progress::Progress;
use betz_base::team::Team;
use betz_device::Device;
use betz_recording::{DatasetView, SpikesView};

impl Training {
    /// Trains on a recording that is read in chunks of about `memory` bytes, shared out by `team`. The
    /// first process has the decoder, the others have none.
    ///
    /// # Errors
    /// As [`Work::train`]; [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for other
    /// kinds than the linear one, an estimated delay or variances, and for chunks that are too short
    /// ([`File::check_chunks`]).
    pub fn run_in_chunks(
        &self,
        team: &dyn Team,
        file: &mut File,
        device: &Device,
        memory: u64,
        progress: &dyn Progress,
    ) -> Result<Option<Trained>> {
        if self.compares() || self.variance || matches!(self.delay, Delay::Estimated { .. }) {
            return Err(Error::argument(
                "training in chunks: expected a linear decoder at a given delay, without variances",
            ));
        }
        let outline = file.outline().clone();
        let (segments, cuts) = (file.whole_steps(), file.cuts().to_vec());
        let sizes = DatasetView {
            step_seconds: outline.step_seconds,
            steps: usize::try_from(outline.steps).unwrap_or(usize::MAX),
            channel_names: &outline.channel_names,
            spikes: SpikesView::default(),
            segments: &segments,
            outputs: &outline.outputs,
            behavior: &[],
        };
        let plan = self.plan(&sizes, super::given_delay)?;
        file.check_chunks(&plan.options, plan.banks())?;
        let work = Work {
            team,
            device,
            outline: &outline,
            cuts: &cuts,
            memory,
            progress,
        };
        work.train(file, &plan)
    }
}
