//! Verdicts of a trainer whose session waits for them, between two trials.

use super::{Verdict, Worker};
use betz_base::error::Result;
use betz_runtime::stream::{Session, SwapOptions, Swapper};

/// Swap without warming up: the next trial starts from rest.
const AT_ONCE: SwapOptions<'_> = SwapOptions {
    warm_up_steps: Some(0),
    cross_fade_steps: 0,
    by_position: false,
    replay: None,
};

/// Makes `session` follow `verdict` between two trials: swaps in the model of `worker`, or takes it back.
///
/// # Errors
/// As [`Swapper::swap_with`] and [`Swapper::roll_back`].
pub fn follow_verdict(
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
