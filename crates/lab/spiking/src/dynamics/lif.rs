//! The leaky integrate-and-fire neuron, for populations whose neurons differ or whose synapses are conductances. Alike
//! neurons with currents are integrated exactly (`neuron.rs`).

use super::{Dynamics, Model, parameter, range};

/// τ_m dV/dt = −(V − E_L) + (I + I_e) τ_m / C_m.
#[derive(Debug)]
pub(crate) struct LeakyIntegrator;

impl Dynamics<1, 7> for LeakyIntegrator {
    const MODEL: Model = Model {
        name: "lif",
        text: "tau_m dV/dt = -(V - E_L) + (I + I_e) tau_m / C_m",
        states: &["v"],
        parameters: &[
            parameter("tau_m_ms", 10.0, range::TIME, "membrane time constant"),
            parameter("c_m_pf", 250.0, (1e-4, 1e6), "capacitance"),
            parameter("rest_mv", -65.0, range::POTENTIAL, "resting potential"),
            parameter("threshold_mv", -50.0, range::POTENTIAL, "threshold"),
            parameter(
                "reset_mv",
                -65.0,
                range::POTENTIAL,
                "potential after a spike",
            ),
            parameter("current_pa", 0.0, range::CURRENT, "constant current"),
            parameter("refractory_ms", 2.0, range::SILENCE, "refractory time"),
        ],
        longest_ms: 0.5,
        refractory: Some("refractory_ms"),
    };
    const RESETS: bool = true;

    #[inline(always)]
    fn slope(p: &[f32; 7], y: &[f32; 1], current: f32) -> [f32; 1] {
        let [tau, capacitance, rest, _, _, constant, _] = *p;
        [(rest - y[0]) / tau + (current + constant) / capacitance]
    }

    #[inline(always)]
    fn fires(p: &[f32; 7], _: f32, now: f32) -> bool {
        now >= p[3]
    }

    #[inline(always)]
    fn reset(p: &[f32; 7], _: [f32; 1]) -> [f32; 1] {
        [p[4]]
    }

    #[inline(always)]
    fn start(_: &[f32; 7], v: f32) -> [f32; 1] {
        [v]
    }
}
