//! Izhikevich 2003, "Simple model of spiking neurons": two equations, twenty firing patterns.

use super::{Dynamics, Model, parameter, range};

/// dv/dt = 0.04 v² + 5 v + 140 − u + I, du/dt = a (b (v + s) − e u); at v ≥ peak: v ← c, u ← u + d.
#[derive(Debug)]
pub(crate) struct Izhikevich;

impl Dynamics<2, 12> for Izhikevich {
    const MODEL: Model = Model {
        name: "izhikevich",
        text: "dv/dt = q v^2 + l v + k - u + I / C_m, du/dt = a (b (v + s) - e u); v >= peak: v = c, u += d (Izhikevich 2003)",
        states: &["v", "u"],
        parameters: &[
            parameter("a", 0.02, (-10.0, 10.0), "rate of recovery in 1/ms"),
            parameter(
                "b",
                0.2,
                (-100.0, 100.0),
                "sensitivity of recovery to v in 1/ms",
            ),
            parameter("c_mv", -65.0, range::POTENTIAL, "potential after a spike"),
            parameter("d", 8.0, (-1e3, 1e3), "addition of a spike to u in mV/ms"),
            parameter(
                "peak_mv",
                30.0,
                range::POTENTIAL,
                "potential at which a spike is cut off",
            ),
            parameter("quadratic", 0.04, (1e-4, 10.0), "q in 1/(mV ms)"),
            parameter("linear", 5.0, (-1e3, 1e3), "l in 1/ms"),
            parameter("constant", 140.0, (-1e5, 1e5), "k in mV/ms"),
            parameter(
                "shift_mv",
                0.0,
                range::POTENTIAL,
                "s: shift of v in the recovery",
            ),
            parameter(
                "c_m_pf",
                1.0,
                range::CAPACITANCE,
                "capacitance; 1 pF: one pA is one unit of I",
            ),
            parameter("current_pa", 0.0, range::CURRENT, "constant current"),
            parameter(
                "leak",
                1.0,
                (0.0, 1.0),
                "e: 1, or 0 for a recovery that does not decay",
            ),
        ],
        longest_ms: 0.1,
        refractory: None,
    };
    const RESETS: bool = true;

    #[inline(always)]
    fn slope(p: &[f32; 12], y: &[f32; 2], current: f32) -> [f32; 2] {
        let [
            a,
            b,
            _,
            _,
            peak,
            quadratic,
            linear,
            constant,
            shift,
            capacitance,
            held,
            leak,
        ] = *p;
        // Beyond the peak nothing grows: a spike ends there.
        let v = if y[0] > peak { peak } else { y[0] };
        let curve = v.mul_add(v.mul_add(quadratic, linear), constant);
        [
            curve - y[1] + (current + held) / capacitance,
            a * (b.mul_add(v + shift, -(leak * y[1]))),
        ]
    }

    #[inline(always)]
    fn fires(p: &[f32; 12], _: f32, now: f32) -> bool {
        now >= p[4]
    }

    #[inline(always)]
    fn reset(p: &[f32; 12], y: [f32; 2]) -> [f32; 2] {
        [p[2], y[1] + p[3]]
    }

    #[inline(always)]
    fn start(p: &[f32; 12], v: f32) -> [f32; 2] {
        [v, p[1] * (v + p[8])]
    }
}
