//! The adaptive exponential neuron of Brette and Gerstner (2005).

use super::{Dynamics, Model, parameter, range};
use crate::math::exp;

/// C dV/dt = −g_L (V − E_L) + g_L Δ_T e^((V − V_T)/Δ_T) − w + I, τ_w dw/dt = a (V − E_L) − w;
/// at V ≥ peak: V ← V_r, w ← w + b.
#[derive(Debug)]
pub(crate) struct Adex;

impl Dynamics<2, 12> for Adex {
    const MODEL: Model = Model {
        name: "adex",
        text: "C dV/dt = -g_L (V - E_L) + g_L D_T exp((V - V_T) / D_T) - w + I, tau_w dw/dt = a (V - E_L) - w (Brette and Gerstner 2005)",
        states: &["v", "w"],
        parameters: &[
            parameter("c_m_pf", 281.0, range::CAPACITANCE, "capacitance"),
            parameter("leak_ns", 30.0, range::CONDUCTANCE, "leak conductance g_L"),
            parameter("rest_mv", -70.6, range::POTENTIAL, "resting potential E_L"),
            parameter(
                "threshold_mv",
                -50.4,
                range::POTENTIAL,
                "threshold of the exponential V_T",
            ),
            parameter(
                "slope_mv",
                2.0,
                (0.01, 100.0),
                "slope of the exponential D_T",
            ),
            parameter(
                "tau_w_ms",
                144.0,
                range::TIME,
                "time constant of the adaptation",
            ),
            parameter("a_ns", 4.0, (-1e4, 1e4), "coupling of the adaptation to V"),
            parameter(
                "b_pa",
                80.5,
                (-1e6, 1e6),
                "addition of a spike to the adaptation",
            ),
            parameter(
                "reset_mv",
                -70.6,
                range::POTENTIAL,
                "potential after a spike V_r",
            ),
            parameter(
                "peak_mv",
                20.0,
                range::POTENTIAL,
                "potential at which a spike is cut off",
            ),
            parameter("current_pa", 0.0, range::CURRENT, "constant current"),
            parameter("refractory_ms", 0.0, range::SILENCE, "refractory time"),
        ],
        longest_ms: 0.05,
        refractory: Some("refractory_ms"),
    };
    const RESETS: bool = true;

    #[inline(always)]
    fn slope(p: &[f32; 12], y: &[f32; 2], current: f32) -> [f32; 2] {
        let [
            capacitance,
            leak,
            rest,
            threshold,
            width,
            tau,
            a,
            _,
            _,
            peak,
            held,
            _,
        ] = *p;
        // Beyond the peak nothing grows: a spike ends there.
        let v = if y[0] > peak { peak } else { y[0] };
        let away = v - rest;
        let upswing = width * exp((v - threshold) / width) - away;
        [
            (leak.mul_add(upswing, current + held) - y[1]) / capacitance,
            a.mul_add(away, -y[1]) / tau,
        ]
    }

    #[inline(always)]
    fn fires(p: &[f32; 12], _: f32, now: f32) -> bool {
        now >= p[9]
    }

    #[inline(always)]
    fn reset(p: &[f32; 12], y: [f32; 2]) -> [f32; 2] {
        [p[8], y[1] + p[7]]
    }

    #[inline(always)]
    fn start(p: &[f32; 12], v: f32) -> [f32; 2] {
        [v, p[6] * (v - p[2])]
    }
}
