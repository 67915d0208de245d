//! Names of the parts of training whose seconds [`Progress::took`] receives, and their times on a device.

use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_device::cuda::Context;

/// Responses of all channels to the filters of the bank. On a device, also their products with behaviour, because one
/// kernel makes both.
pub const FILTERING: &str = "filtering";
/// Γ from responses, or from the spikes themselves.
pub const GRAM: &str = "gram";
/// Υ, Σa and their like.
pub const UPSILON: &str = "upsilon";
/// Centring of Γ and Cholesky's factor of it.
pub const FACTOR: &str = "factor";
/// The explicit inverse, of [`Solver::Inverse`](crate::solve::Solver::Inverse) only.
pub const INVERSE: &str = "inverse";
/// φ: triangular solves, or the product of the inverse with Υ.
pub const WEIGHTS: &str = "weights";
/// Comparison of ridges and banks by cross-validation.
pub const CHOOSING: &str = "choosing";
/// Decoding of held-out data, and scores of the estimates.
pub const SCORING: &str = "scoring";

/// The part that a phase of a device's work belongs to.
fn part_of(phase: &str) -> Option<&'static str> {
    Some(match phase {
        "responses" | "operands" | "sampled filters" => FILTERING,
        "products" | "sums" | GRAM => GRAM,
        UPSILON => UPSILON,
        FACTOR => FACTOR,
        INVERSE => INVERSE,
        WEIGHTS => WEIGHTS,
        _ => return None,
    })
}

/// Does `work` on `context` and tells `progress` the seconds of its parts by the device's clock, if it wants to know.
/// Then it waits for the device.
///
/// # Errors
/// The errors of `work` and of the device.
pub fn time_on<R>(
    context: &Context,
    progress: &dyn Progress,
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    if !progress.wants_seconds() {
        return work();
    }
    context.start_phases();
    let made = work();
    let phases = context.take_phases()?;
    for (part, seconds) in (phases.iter()).filter_map(|(name, s)| Some((part_of(name)?, *s))) {
        progress.took(part, seconds);
    }
    made
}
