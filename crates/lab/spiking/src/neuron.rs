//! A population's constants over one step: the propagators of exact integration
//! (Rotter and Diesmann 1999), singular limits included.

use betz_base::{Error, Result};

use crate::spec::{Arrival, Lif, Network, Neuron, Synapse};

/// Numbers of the update, in f32 as the engine uses them.
///
/// A synaptic current is a chain M_0 … M_n with M_0' = p M_0 + arrivals and
/// M_k' = p Σ_i C(k, i) M_i: M_k is Σ_j j^k p^j arrivals(t − j). An exponential current is a chain of
/// one, an alpha function of two, the PSC of order n of n + 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Constants {
    /// e^(−Δ/τ_m).
    pub(crate) leak: f32,
    /// Addition of one pA to V over a step.
    pub(crate) current: f32,
    /// The same for the constant current.
    pub(crate) constant: f32,
    /// V_th − E_L.
    pub(crate) threshold: f32,
    /// V_reset − E_L.
    pub(crate) reset: f32,
    /// Steps of silence.
    pub(crate) refractory: i32,
    /// Receptors: one, or one for each sign of the weight.
    pub(crate) receptors: Vec<Receptor>,
    /// Arrivals act in the step they arrive in.
    pub(crate) early: bool,
    /// V jumps by what arrives; no receptor has a chain.
    pub(crate) delta: bool,
}

/// One synaptic current.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Receptor {
    /// e^(−Δ/τ).
    pub(crate) decay: f32,
    /// From arriving weight to M_0.
    pub(crate) gain: f64,
    /// Addition of each M_k to V over a step.
    pub(crate) onto: Vec<f32>,
    /// Addition of an arrival to each M_k when its truncated filter ends.
    pub(crate) tail: Vec<f64>,
}

impl Constants {
    pub(crate) fn of(network: &Network, population: usize) -> Result<Option<Self>> {
        let index = population;
        let population = &network.populations[index];
        let Neuron::Lif(lif) = population.neuron else {
            return Ok(None);
        };
        // Conductances are integrated with the potential (`model_population.rs`).
        if matches!(population.synapse, Synapse::Conductance { .. }) {
            return Ok(None);
        }
        let h = network.step_ms;
        let leak = (-h / lif.tau_m_ms).exp();
        // R (1 − e^(−Δ/τ_m)) with R = τ_m / C_m.
        let held = lif.tau_m_ms / lif.c_m_pf * -(-h / lif.tau_m_ms).exp_m1();
        let receptors = receptors(network, index, lif, held)?;
        let early = match population.synapse {
            Synapse::Exponential { arrival, .. } | Synapse::Alpha { arrival, .. } => {
                arrival == Arrival::Beginning
            }
            Synapse::Psc { .. } => true,
            Synapse::Delta | Synapse::Conductance { .. } => false,
        };
        let constants = Self {
            leak: leak as f32,
            current: held as f32,
            constant: (lif.current_pa * held) as f32,
            threshold: (lif.threshold_mv - lif.rest_mv) as f32,
            reset: (lif.reset_mv - lif.rest_mv) as f32,
            refractory: network.steps_of(lif.refractory_ms)? as i32,
            receptors,
            early,
            delta: population.synapse == Synapse::Delta,
        };
        let finite = [
            constants.current,
            constants.constant,
            constants.threshold,
            constants.reset,
        ];
        if !finite.iter().all(|v| v.is_finite()) {
            return Err(Error::argument(format!(
                "population {:?}: its constants leave the range of a 32-bit number: {constants:?}",
                population.name
            )));
        }
        Ok(Some(constants))
    }

    /// Length of the chains.
    pub(crate) fn chain(&self) -> usize {
        self.receptors[0].onto.len()
    }
}

fn receptors(network: &Network, population: usize, lif: Lif, held: f64) -> Result<Vec<Receptor>> {
    let h = network.step_ms;
    // Two time constants that are one make one receptor.
    let taus = |tau: f64, inhibitory: Option<f64>| match inhibitory {
        Some(other) if other != tau => vec![tau, other],
        _ => vec![tau],
    };
    Ok(match network.populations[population].synapse {
        Synapse::Conductance { .. } => Vec::new(),
        Synapse::Delta => vec![Receptor {
            decay: 0.0,
            gain: 1.0,
            onto: Vec::new(),
            tail: Vec::new(),
        }],
        Synapse::Exponential {
            tau_ms,
            tau_inhibitory_ms,
            ..
        } => (taus(tau_ms, tau_inhibitory_ms).iter())
            .map(|&tau| Receptor {
                decay: (-h / tau).exp() as f32,
                gain: 1.0,
                onto: vec![exponential_onto(lif, tau, h) as f32],
                tail: vec![0.0],
            })
            .collect(),
        Synapse::Alpha {
            tau_ms,
            tau_inhibitory_ms,
            ..
        } => (taus(tau_ms, tau_inhibitory_ms).iter())
            .map(|&tau| Receptor {
                decay: (-h / tau).exp() as f32,
                // dI/dt jumps by w e / τ; the chain counts in steps, so M_1 = I / Δ.
                gain: std::f64::consts::E / tau,
                onto: vec![
                    rising_onto(lif, tau, h) as f32,
                    (exponential_onto(lif, tau, h) * h) as f32,
                ],
                tail: vec![0.0; 2],
            })
            .collect(),
        Synapse::Psc {
            order,
            tau_ms,
            truncated,
        } => {
            let length = truncated
                .then(|| network.filter_length(population))
                .transpose()?;
            let sum = psc_sum(order, tau_ms / h, length);
            let decay = (-h / tau_ms).exp();
            let mut onto = vec![0.0; order as usize + 1];
            onto[order as usize] = held as f32;
            let tail = (0..=order).map(|k| match length {
                Some(l) => -(l as f64).powi(k as i32) * decay.powf(l as f64) / sum,
                None => 0.0,
            });
            if !(sum.is_finite() && sum > 0.0) {
                return Err(Error::argument(format!(
                    "PSC of order {order}, tau {tau_ms} ms in steps of {h} ms: expected values of a finite sum above 0, got {sum}"
                )));
            }
            vec![Receptor {
                decay: decay as f32,
                gain: 1.0 / sum,
                onto,
                tail: tail.collect(),
            }]
        }
    })
}

/// Σ_j j^n e^(−j/τ) over the filter's steps, τ in steps; in closed form where it never ends.
fn psc_sum(order: u32, tau: f64, length: Option<u64>) -> f64 {
    let p = (-1.0 / tau).exp();
    let q = -(-1.0 / tau).exp_m1();
    match (length, order) {
        (Some(length), _) => (0..length)
            .map(|j| (j as f64).powi(order as i32) * (-(j as f64) / tau).exp())
            .sum(),
        // Polylogarithms of order −n.
        (None, 0) => 1.0 / q,
        (None, 1) => p / q.powi(2),
        (None, 2) => p * (1.0 + p) / q.powi(3),
        (None, _) => p * (1.0 + 4.0 * p + p * p) / q.powi(4),
    }
}

/// Addition of a current e^(−t/τ) of 1 pA to V over h: (h/C) e^(−h/τ_m) (1 − e^(−δ))/δ with
/// δ = h/τ − h/τ_m, whose limit at δ = 0 is the case τ = τ_m.
fn exponential_onto(lif: Lif, tau: f64, h: f64) -> f64 {
    let delta = h / tau - h / lif.tau_m_ms;
    let ratio = if delta == 0.0 {
        1.0
    } else {
        -(-delta).exp_m1() / delta
    };
    h / lif.c_m_pf * (-h / lif.tau_m_ms).exp() * ratio
}

/// Addition of a current (t in ms) e^(−t/τ) to V over h: (h²/C) e^(−h/τ_m) (1 − (1 + δ) e^(−δ))/δ².
fn rising_onto(lif: Lif, tau: f64, h: f64) -> f64 {
    let delta = h / tau - h / lif.tau_m_ms;
    let ratio = if delta.abs() < 1e-2 {
        // Σ_k (−δ)^k / (k! (k + 2)).
        0.5 - delta * (1.0 / 3.0 - delta * (1.0 / 8.0 - delta * (1.0 / 30.0 - delta / 144.0)))
    } else {
        (1.0 - (1.0 + delta) * (-delta).exp()) / (delta * delta)
    };
    h * h / lif.c_m_pf * (-h / lif.tau_m_ms).exp() * ratio
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ∫_0^h e^(−(h − s)/τ_m) f(s) ds / C by Simpson's rule.
    fn integral(lif: Lif, h: f64, f: impl Fn(f64) -> f64) -> f64 {
        let n = 2000;
        let at = |i: usize| {
            let s = h * i as f64 / n as f64;
            (-(h - s) / lif.tau_m_ms).exp() * f(s)
        };
        let inner: f64 = (1..n)
            .map(|i| at(i) * if i % 2 == 1 { 4.0 } else { 2.0 })
            .sum();
        (at(0) + inner + at(n)) * h / n as f64 / 3.0 / lif.c_m_pf
    }

    #[test]
    fn propagators_are_the_integrals_also_where_the_formula_is_singular() {
        let lif = Lif::default();
        for h in [0.1, 0.25, 5.0] {
            for tau in [0.5, 2.0, 9.99, 10.0, 10.0 + 1e-9, 10.3, 100.0] {
                let exact = integral(lif, h, |s| (-s / tau).exp());
                let got = exponential_onto(lif, tau, h);
                assert!((got / exact - 1.0).abs() < 1e-9, "{h} {tau}: {got} {exact}");
                let exact = integral(lif, h, |s| s * (-s / tau).exp());
                let got = rising_onto(lif, tau, h);
                assert!((got / exact - 1.0).abs() < 1e-9, "{h} {tau}: {got} {exact}");
            }
        }
    }

    #[test]
    fn closed_sums_are_the_long_sums() {
        for order in 0..4 {
            for tau in [0.3, 1.0, 10.0, 40.0] {
                let (closed, long) = (psc_sum(order, tau, None), psc_sum(order, tau, Some(4000)));
                assert!((closed / long - 1.0).abs() < 1e-10, "{order} {tau}");
            }
        }
    }
}
