//! Neuron models in f64, each written down as its paper has it, and integrated in steps so short that they are exact.

use betz_base::{Error, Result};

use crate::dynamics::Kind;

/// The way of one neuron.
#[derive(Debug, Clone, PartialEq)]
pub struct Trajectory {
    /// Potential at the end of each step.
    pub potentials: Vec<f64>,
    /// Times of the spikes in ms.
    pub spikes_ms: Vec<f64>,
}

/// State: the potential and up to three more variables.
type State = [f64; 4];

/// A model with its parameters, in the order in which [`neuron_models`](crate::neuron_models) lists them.
#[derive(Debug)]
struct Equations {
    kind: Kind,
    values: Vec<f64>,
}

impl Equations {
    /// Derivatives per ms.
    fn slope(&self, y: State, input: f64) -> State {
        let p = &self.values[..];
        let mut slope = [0.0; 4];
        match self.kind {
            Kind::Lif => {
                let [tau, capacitance, rest, _, _, held, _] = fixed(p);
                slope[0] = (rest - y[0]) / tau + (input + held) / capacitance;
            }
            Kind::Izhikevich => {
                let [
                    a,
                    b,
                    _,
                    _,
                    peak,
                    square,
                    linear,
                    constant,
                    shift,
                    capacitance,
                    held,
                    leak,
                ] = fixed(p);
                // A spike is cut off at the peak: nothing grows beyond it.
                let v = y[0].min(peak);
                let curve = square * v * v + linear * v + constant;
                slope[0] = curve - y[1] + (input + held) / capacitance;
                slope[1] = a * (b * (v + shift) - leak * y[1]);
            }
            Kind::Adex => {
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
                ] = fixed(p);
                let v = y[0].min(peak);
                let upswing = width * ((v - threshold) / width).exp();
                slope[0] = (leak * (rest - v + upswing) - y[1] + input + held) / capacitance;
                slope[1] = (a * (v - rest) - y[1]) / tau;
            }
            Kind::Quadratic => {
                let [capacitance, curvature, rest, critical, peak, _, held, _] = fixed(p);
                let v = y[0].min(peak);
                let pull = curvature * (v - rest) * (v - critical);
                slope[0] = (pull + input + held) / capacitance;
            }
            Kind::Theta => {
                let [tau, constant, scale] = fixed(p);
                let cosine = y[0].cos();
                let drive = constant + input / scale;
                slope[0] = ((1.0 - cosine) + (1.0 + cosine) * drive) / tau;
            }
            Kind::HodgkinHuxley => {
                let [capacitance, g_na, g_k, g_l, e_na, e_k, e_l, _, held] = fixed(p);
                let [v, m, h, n] = y;
                let sodium = g_na * m.powi(3) * h * (e_na - v);
                let potassium = g_k * n.powi(4) * (e_k - v);
                let leak = g_l * (e_l - v);
                slope[0] = (sodium + potassium + leak + input + held) / capacitance;
                for (k, (opening, closing)) in gates(v).into_iter().enumerate() {
                    slope[k + 1] = opening * (1.0 - y[k + 1]) - closing * y[k + 1];
                }
            }
        }
        slope
    }

    fn start(&self, v: f64) -> State {
        let p = &self.values[..];
        match self.kind {
            Kind::Izhikevich => [v, p[1] * (v + p[8]), 0.0, 0.0],
            Kind::Adex => [v, p[6] * (v - p[2]), 0.0, 0.0],
            Kind::HodgkinHuxley => {
                let [m, h, n] = gates(v).map(|(opening, closing)| opening / (opening + closing));
                [v, m, h, n]
            }
            Kind::Lif | Kind::Quadratic | Kind::Theta => [v, 0.0, 0.0, 0.0],
        }
    }

    fn fires(&self, before: f64, now: f64) -> bool {
        let p = &self.values[..];
        match self.kind {
            Kind::Lif => now >= p[3],
            Kind::Izhikevich | Kind::Quadratic => now >= p[4],
            Kind::Adex => now >= p[9],
            Kind::Theta => now >= std::f64::consts::PI,
            Kind::HodgkinHuxley => before < p[7] && now >= p[7],
        }
    }

    fn reset(&self, y: State) -> State {
        let p = &self.values[..];
        match self.kind {
            Kind::Lif => [p[4], 0.0, 0.0, 0.0],
            Kind::Izhikevich => [p[2], y[1] + p[3], 0.0, 0.0],
            Kind::Adex => [p[8], y[1] + p[7], 0.0, 0.0],
            Kind::Quadratic => [p[5], 0.0, 0.0, 0.0],
            Kind::Theta => [y[0] - std::f64::consts::TAU, 0.0, 0.0, 0.0],
            Kind::HodgkinHuxley => y,
        }
    }
}

/// The parameters as an array; those that are missing are no numbers.
fn fixed<const N: usize>(values: &[f64]) -> [f64; N] {
    let mut array = [f64::NAN; N];
    for (to, from) in array.iter_mut().zip(values) {
        *to = *from;
    }
    array
}

/// Opening and closing of m, h and n: Hodgkin and Huxley 1952, shifted to a rest of −65 mV.
fn gates(v: f64) -> [(f64, f64); 3] {
    let rising = |scale: f64, at: f64| {
        let x = (v + at) / 10.0;
        if x == 0.0 {
            scale * 10.0
        } else {
            scale * 10.0 * x / -(-x).exp_m1()
        }
    };
    [
        (rising(0.1, 40.0), 4.0 * (-(v + 65.0) / 18.0).exp()),
        (
            0.07 * (-(v + 65.0) / 20.0).exp(),
            1.0 / (1.0 + (-(v + 35.0) / 10.0).exp()),
        ),
        (rising(0.01, 55.0), 0.125 * (-(v + 65.0) / 80.0).exp()),
    ]
}

/// A neuron of a model from the potential `start` on, under the current `input(ms, v)` in pA; `parameters` differ from
/// the usual ones. Each of `steps` steps of `step_ms` is `parts` steps of the Runge-Kutta method of order 4.
///
/// # Errors
/// `InvalidArgument` for a model that there is not.
pub fn trajectory(
    model: &str,
    parameters: &[(&str, f64)],
    start: f64,
    input: &dyn Fn(f64, f64) -> f64,
    (step_ms, steps, parts): (f64, usize, usize),
) -> Result<Trajectory> {
    let Some((kind, listed)) = crate::dynamics::by_name(model) else {
        return Err(Error::argument(format!("no model {model:?}")));
    };
    let mut values: Vec<f64> = listed.parameters.iter().map(|p| p.default).collect();
    for (name, value) in parameters {
        match listed.place(name) {
            Some(place) => values[place] = *value,
            None => {
                return Err(Error::argument(format!(
                    "{model} has no parameter {name:?}"
                )));
            }
        }
    }
    let silence =
        (listed.refractory.and_then(|name| listed.place(name))).map_or(0.0, |p| values[p]);
    let equations = Equations { kind, values };
    let h = step_ms / parts as f64;
    let mut y = equations.start(start);
    let mut free_from = 0.0;
    let mut way = Trajectory {
        potentials: Vec::new(),
        spikes_ms: Vec::new(),
    };
    for step in 0..steps {
        for part in 0..parts {
            let t = step as f64 * step_ms + part as f64 * h;
            let before = y[0];
            y = runge_kutta(&equations, y, h, t, t + 1e-9 >= free_from, input);
            if t + 1e-9 >= free_from && equations.fires(before, y[0]) {
                y = equations.reset(y);
                way.spikes_ms.push(t + h);
                free_from = t + h + silence;
            }
        }
        way.potentials.push(y[0]);
    }
    Ok(way)
}

fn runge_kutta(
    equations: &Equations,
    y: State,
    h: f64,
    t: f64,
    free: bool,
    input: &dyn Fn(f64, f64) -> f64,
) -> State {
    let slope = |at: State, t: f64| {
        let mut slope = equations.slope(at, input(t, at[0]));
        if !free {
            slope[0] = 0.0;
        }
        slope
    };
    let ahead = |k: State, by: f64| {
        let mut at = y;
        for i in 0..4 {
            at[i] += by * k[i];
        }
        at
    };
    let first = slope(y, t);
    let second = slope(ahead(first, h / 2.0), t + h / 2.0);
    let third = slope(ahead(second, h / 2.0), t + h / 2.0);
    let fourth = slope(ahead(third, h), t + h);
    let mut next = y;
    for i in 0..4 {
        next[i] += h / 6.0 * (first[i] + 2.0 * second[i] + 2.0 * third[i] + fourth[i]);
    }
    next
}
