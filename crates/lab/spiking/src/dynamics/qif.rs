//! The quadratic integrate-and-fire neuron (Latham et al. 2000; Izhikevich 2007, ch. 3).

use super::{Dynamics, Model, parameter, range};

/// C dV/dt = k (V − V_r) (V − V_c) + I; at V ≥ peak: V ← V_reset.
#[derive(Debug)]
pub(crate) struct Quadratic;

impl Dynamics<1, 8> for Quadratic {
    const MODEL: Model = Model {
        name: "qif",
        text: "C dV/dt = k (V - V_r) (V - V_c) + I; V >= peak: V = V_reset",
        states: &["v"],
        parameters: &[
            parameter("c_m_pf", 100.0, range::CAPACITANCE, "capacitance"),
            parameter("curvature", 0.7, (1e-4, 1e3), "k in nS/mV"),
            parameter("rest_mv", -60.0, range::POTENTIAL, "resting potential V_r"),
            parameter(
                "critical_mv",
                -40.0,
                range::POTENTIAL,
                "unstable potential V_c",
            ),
            parameter(
                "peak_mv",
                35.0,
                range::POTENTIAL,
                "potential at which a spike is cut off",
            ),
            parameter(
                "reset_mv",
                -50.0,
                range::POTENTIAL,
                "potential after a spike",
            ),
            parameter("current_pa", 0.0, range::CURRENT, "constant current"),
            parameter("refractory_ms", 0.0, range::SILENCE, "refractory time"),
        ],
        longest_ms: 0.1,
        refractory: Some("refractory_ms"),
    };
    const RESETS: bool = true;

    #[inline(always)]
    fn slope(p: &[f32; 8], y: &[f32; 1], current: f32) -> [f32; 1] {
        let [capacitance, curvature, rest, critical, peak, _, held, _] = *p;
        // Beyond the peak nothing grows: a spike ends there.
        let v = if y[0] > peak { peak } else { y[0] };
        let pull = curvature * (v - rest);
        [pull.mul_add(v - critical, current + held) / capacitance]
    }

    #[inline(always)]
    fn fires(p: &[f32; 8], _: f32, now: f32) -> bool {
        now >= p[4]
    }

    #[inline(always)]
    fn reset(p: &[f32; 8], _: [f32; 1]) -> [f32; 1] {
        [p[5]]
    }

    #[inline(always)]
    fn start(_: &[f32; 8], v: f32) -> [f32; 1] {
        [v]
    }
}
