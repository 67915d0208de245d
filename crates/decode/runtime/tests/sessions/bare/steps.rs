//! Opens the example models and steps them: the part that is the same with and without the standard library.

use betz_base::Result;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{Input, Session, SessionConfig};

/// Model files as a device would hold them, in read-only memory.
pub(crate) const MODELS: [&[u8]; 3] = [
    include_bytes!("../../fixtures/model_v2.betz"),
    include_bytes!("../../fixtures/classes.betz"),
    include_bytes!("../../fixtures/gated.betz"),
];

/// Sums of a run of [`step`] with the standard library, one per model.
pub(crate) const EXPECTED: [f64; 3] = [
    -7_414.437_941_533_513,
    1_830.019_780_561_328,
    97_577.501_923_084_26,
];

/// Steps per run.
pub(crate) const STEPS: u32 = 1000;

/// Most channels and outputs of an example model.
const MOST: usize = 8;

/// Opens a session. Allocates.
///
/// # Errors
/// The errors of [`Decoder::from_bytes`] and [`Session::open`].
pub(crate) fn open(model: &[u8]) -> Result<Session> {
    let decoder = Decoder::from_bytes(model)?;
    let config = SessionConfig {
        statistics: false,
        ..SessionConfig::default()
    };
    Session::open(&decoder, config)
}

/// Steps the session on a fixed pattern of spikes; returns a weighted sum of all estimates. Allocates nothing.
pub(crate) fn step(session: &mut Session) -> Option<f64> {
    let (mut counts, mut out) = ([0_u16; MOST], [0.0_f32; MOST]);
    let counts = counts.get_mut(..session.channels())?;
    let out = out.get_mut(..session.outputs())?;
    let mut sum = 0.0;
    for tick in 0..STEPS {
        for (channel, count) in (0_u32..).zip(&mut *counts) {
            *count = u16::from((tick * 7 + channel * 13).is_multiple_of(19));
        }
        session.warm();
        session.try_step(&Input::Counts(counts), out).ok()?;
        // Weighted, because probabilities of classes add up to 1.
        for (weight, estimate) in (1_u32..).zip(&*out) {
            sum += f64::from(weight) * f64::from(*estimate);
        }
    }
    Some(sum)
}
