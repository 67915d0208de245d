//! The neuron of Hodgkin and Huxley (1952), in today's signs and with rest near −65 mV (Gerstner et al. 2014, ch. 2).

use super::{Dynamics, Model, parameter, range};
use crate::math::{exp, linoid};

/// C dV/dt = g_Na m³ h (E_Na − V) + g_K n⁴ (E_K − V) + g_L (E_L − V) + I; a spike is an upward passage of the threshold.
#[derive(Debug)]
pub(crate) struct HodgkinHuxley;

/// Rates of opening and closing of the gates m, h and n in 1/ms.
#[inline(always)]
fn rates(v: f32) -> [[f32; 2]; 3] {
    [
        [
            linoid((v + 40.0) * 0.1),
            4.0 * exp((v + 65.0) * (-1.0 / 18.0)),
        ],
        [
            0.07 * exp((v + 65.0) * -0.05),
            1.0 / (1.0 + exp((v + 35.0) * -0.1)),
        ],
        [
            0.1 * linoid((v + 55.0) * 0.1),
            0.125 * exp((v + 65.0) * -0.0125),
        ],
    ]
}

impl Dynamics<4, 9> for HodgkinHuxley {
    const MODEL: Model = Model {
        name: "hh",
        text: "C dV/dt = g_Na m^3 h (E_Na - V) + g_K n^4 (E_K - V) + g_L (E_L - V) + I (Hodgkin and Huxley 1952)",
        states: &["v", "m", "h", "n"],
        parameters: &[
            parameter("c_m_pf", 100.0, range::CAPACITANCE, "capacitance"),
            parameter(
                "sodium_ns",
                12_000.0,
                range::CONDUCTANCE,
                "conductance g_Na",
            ),
            parameter(
                "potassium_ns",
                3_600.0,
                range::CONDUCTANCE,
                "conductance g_K",
            ),
            parameter("leak_ns", 30.0, range::CONDUCTANCE, "conductance g_L"),
            parameter(
                "sodium_mv",
                50.0,
                range::POTENTIAL,
                "reversal potential E_Na",
            ),
            parameter(
                "potassium_mv",
                -77.0,
                range::POTENTIAL,
                "reversal potential E_K",
            ),
            parameter(
                "leak_mv",
                -54.402,
                range::POTENTIAL,
                "reversal potential E_L",
            ),
            parameter(
                "threshold_mv",
                0.0,
                range::POTENTIAL,
                "potential whose upward passage is a spike",
            ),
            parameter("current_pa", 0.0, range::CURRENT, "constant current"),
        ],
        longest_ms: 0.025,
        refractory: None,
    };
    const RESETS: bool = false;

    #[inline(always)]
    fn slope(p: &[f32; 9], y: &[f32; 4], current: f32) -> [f32; 4] {
        let [
            capacitance,
            sodium,
            potassium,
            leak,
            sodium_mv,
            potassium_mv,
            leak_mv,
            _,
            held,
        ] = *p;
        let [v, m, h, n] = *y;
        let [opening_m, opening_h, opening_n] = rates(v);
        let squared = n * n;
        let mut sum = current + held;
        sum = (leak).mul_add(leak_mv - v, sum);
        sum = (potassium * (squared * squared)).mul_add(potassium_mv - v, sum);
        sum = (sodium * (m * m * m * h)).mul_add(sodium_mv - v, sum);
        [
            sum / capacitance,
            opening_m[0].mul_add(1.0 - m, -(opening_m[1] * m)),
            opening_h[0].mul_add(1.0 - h, -(opening_h[1] * h)),
            opening_n[0].mul_add(1.0 - n, -(opening_n[1] * n)),
        ]
    }

    #[inline(always)]
    fn fires(p: &[f32; 9], before: f32, now: f32) -> bool {
        (before < p[7]) & (now >= p[7])
    }

    #[inline(always)]
    fn reset(_: &[f32; 9], y: [f32; 4]) -> [f32; 4] {
        y
    }

    #[inline(always)]
    fn start(_: &[f32; 9], v: f32) -> [f32; 4] {
        let [m, h, n] = rates(v);
        let steady = |gate: [f32; 2]| gate[0] / (gate[0] + gate[1]);
        [v, steady(m), steady(h), steady(n)]
    }
}
