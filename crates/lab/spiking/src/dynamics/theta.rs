//! The theta neuron of Ermentrout and Kopell (1986): a phase on a circle.

use super::{Dynamics, Model, parameter};
use crate::math::cos;

const PI: f32 = std::f32::consts::PI;
const TURN: f32 = 2.0 * PI;

/// τ dθ/dt = (1 − cos θ) + (1 + cos θ) (I_0 + I); a spike is the passage of π. The "potential" is θ in rad.
#[derive(Debug)]
pub(crate) struct Theta;

impl Dynamics<1, 3> for Theta {
    const MODEL: Model = Model {
        name: "theta",
        text: "tau dtheta/dt = (1 - cos theta) + (1 + cos theta) (I_0 + I / scale); a spike at theta = pi (Ermentrout and Kopell 1986)",
        states: &["theta"],
        parameters: &[
            parameter("tau_ms", 10.0, (0.5, 1e5), "time constant"),
            parameter(
                "input",
                -0.1,
                (-100.0, 100.0),
                "I_0; excitable below 0, periodic above",
            ),
            parameter(
                "scale_pa",
                1.0,
                (1e-3, 1e6),
                "current that adds 1 to the input",
            ),
        ],
        longest_ms: 0.1,
        refractory: None,
    };
    const RESETS: bool = false;

    #[inline(always)]
    fn slope(p: &[f32; 3], y: &[f32; 1], current: f32) -> [f32; 1] {
        let cosine = cos(y[0]);
        let drive = p[1] + current / p[2];
        [(1.0 + cosine).mul_add(drive, 1.0 - cosine) / p[0]]
    }

    #[inline(always)]
    fn fires(_: &[f32; 3], _: f32, now: f32) -> bool {
        now >= PI
    }

    #[inline(always)]
    fn reset(_: &[f32; 3], y: [f32; 1]) -> [f32; 1] {
        [y[0] - TURN]
    }

    /// Phases are taken modulo a turn.
    #[inline(always)]
    fn start(_: &[f32; 3], v: f32) -> [f32; 1] {
        [v - TURN * ((v + PI) / TURN).floor()]
    }
}
