//! A session that is trained while it is used: what a worker decides is done with it between trials.

use betz::Result;
use betz::stream::{Session, SwapOptions, Swapper};
use betz::train::online::{Verdict, Worker};

/// Nothing is to be warmed up where a trial begins.
const AT_ONCE: SwapOptions<'_> = SwapOptions {
    warm_up_steps: Some(0),
    cross_fade_steps: 0,
    by_position: false,
    replay: None,
};

/// Swaps in what `verdict` of `worker` says is to decode from now on, or takes it back.
pub(crate) fn follow(
    verdict: &Verdict,
    worker: &Worker,
    swapper: &mut Swapper,
    session: &mut Session,
) -> Result<()> {
    match verdict {
        Verdict::Accepted { .. } | Verdict::Channels { .. } => {
            swapper.swap_with(worker.model(), &AT_ONCE)?;
        }
        Verdict::RolledBack => swapper.roll_back()?,
        _ => {}
    }
    session.take_requests();
    Ok(())
}
