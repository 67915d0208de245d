//! The leaky integrate-and-fire (LIF) neuron.
//!
//! dV/dt = −(V − R·J)/τ_RC (Galbraith 2010, eq. 2.1) with R = 1 and threshold 1, so that the current
//! J is in units of the current that just fires; reset to 0, then silence for τ_ref.

use betz_base::error::{Error, Result};

/// A neuron's constants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lif {
    /// Membrane time constant τ_RC in seconds.
    pub tau_rc_seconds: f64,
    /// Refractory period τ_ref in seconds.
    pub tau_ref_seconds: f64,
}

impl Lif {
    /// A neuron with these constants.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) unless τ_RC is finite
    /// and positive and τ_ref finite and not negative.
    pub fn new(tau_rc_seconds: f64, tau_ref_seconds: f64) -> Result<Self> {
        let neuron = Self {
            tau_rc_seconds,
            tau_ref_seconds,
        };
        if tau_rc_seconds.is_finite()
            && tau_rc_seconds > 0.0
            && tau_ref_seconds.is_finite()
            && tau_ref_seconds >= 0.0
        {
            Ok(neuron)
        } else {
            Err(Error::argument(format!(
                "LIF neuron: expected finite tau_RC > 0 and tau_ref >= 0, got {neuron:?}"
            )))
        }
    }

    /// Firing rate in Hz under a constant current: 1 / (τ_ref − τ_RC ln(1 − 1/J)) above 1, else 0.
    pub fn rate_hz(&self, current: f64) -> f64 {
        if current <= 1.0 {
            return 0.0;
        }
        1.0 / (self.tau_ref_seconds - self.tau_rc_seconds * (-1.0 / current).ln_1p())
    }

    /// The constant current that gives `rate_hz`: the inverse of [`Lif::rate_hz`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) unless the rate is
    /// below 1/τ_ref and high enough for its current to differ from the threshold current in an f64
    /// (about 1/(37 τ_RC)).
    ///
    /// ```
    /// # fn main() -> betz_base::Result<()> {
    /// let neuron = betz_simulate::lif::Lif::new(0.020, 0.002)?;
    /// let current = neuron.current_for_rate(40.0)?;
    /// assert!((neuron.rate_hz(current) - 40.0).abs() < 1e-9);
    /// # Ok(())
    /// # }
    /// ```
    pub fn current_for_rate(&self, rate_hz: f64) -> Result<f64> {
        let charging = 1.0 / rate_hz - self.tau_ref_seconds;
        let current = -1.0 / (-charging / self.tau_rc_seconds).exp_m1();
        if rate_hz > 0.0 && charging > 0.0 && current > 1.0 && current.is_finite() {
            return Ok(current);
        }
        Err(Error::argument(format!(
            "LIF neuron: expected a rate between about {:.3} Hz and 1/tau_ref = {:.3} Hz, got {rate_hz} Hz",
            1.0 / (37.0 * self.tau_rc_seconds),
            1.0 / self.tau_ref_seconds
        )))
    }
}

/// A neuron under way, one step of fixed length at a time.
///
/// Within a step the current is constant and the update is exact: V ← J + (V − J)·e^(−t/τ_RC), the
/// moment at which V reaches the threshold is solved for, and the refractory period counts from that
/// moment, across steps. V never falls below its reset value 0 (as in the neural-engineering
/// framework): without that floor, a strongly inhibited neuron would answer late.
#[derive(Debug, Clone)]
pub struct LifStepper {
    neuron: Lif,
    step_seconds: f64,
    /// e^(−step/τ_RC).
    decay: f64,
    voltage: f64,
    /// Rest of the refractory period in seconds.
    silent_seconds: f64,
}

impl LifStepper {
    /// Starts at `voltage` (0 to below 1), not refractory.
    pub fn new(neuron: Lif, step_seconds: f64, voltage: f64) -> Self {
        Self {
            neuron,
            step_seconds,
            decay: (-step_seconds / neuron.tau_rc_seconds).exp(),
            voltage,
            silent_seconds: 0.0,
        }
    }

    /// One step under `current`; returns the number of spikes in it.
    ///
    /// ```
    /// # fn main() -> betz_base::Result<()> {
    /// use betz_simulate::lif::{Lif, LifStepper};
    ///
    /// let neuron = Lif::new(0.020, 0.002)?;
    /// let mut stepper = LifStepper::new(neuron, 0.001, 0.0);
    /// let spikes: u32 = (0..1_000).map(|_| stepper.step(neuron.current_for_rate(40.0).unwrap_or(0.0))).sum();
    /// assert!((39..=40).contains(&spikes)); // one second
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn step(&mut self, current: f64) -> u32 {
        if self.silent_seconds == 0.0 {
            let voltage = current + (self.voltage - current) * self.decay;
            if voltage < 1.0 {
                self.voltage = voltage.max(0.0);
                return 0;
            }
        }
        self.step_with_events(current)
    }

    /// A step that holds a spike or a part of a refractory period.
    fn step_with_events(&mut self, current: f64) -> u32 {
        let tau = self.neuron.tau_rc_seconds;
        let mut left = self.step_seconds;
        let mut spikes = 0;
        loop {
            if self.silent_seconds >= left {
                self.silent_seconds -= left;
                return spikes;
            }
            left -= self.silent_seconds;
            self.silent_seconds = 0.0;
            let voltage = current + (self.voltage - current) * (-left / tau).exp();
            if voltage < 1.0 {
                self.voltage = voltage.max(0.0);
                return spikes;
            }
            // V reaches 1 after τ ln((J − V)/(J − 1)), which is inside what is left of the step.
            let wait = tau * ((1.0 - self.voltage) / (current - 1.0)).ln_1p();
            left = (left - wait).max(0.0);
            spikes += 1;
            self.voltage = 0.0;
            self.silent_seconds = self.neuron.tau_ref_seconds;
            if left == 0.0 {
                return spikes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_rate_follows_the_analytic_curve() {
        for (tau_rc, tau_ref) in [(0.02, 0.002), (0.015, 0.0011), (0.025, 0.003), (0.02, 0.0)] {
            let neuron = Lif::new(tau_rc, tau_ref).unwrap();
            for current in [0.5, 1.0, 1.001, 1.2, 1.5, 2.0, 5.0, 20.0] {
                let seconds = 40.0;
                // Steps of 0.25 ms and coarse steps of 5 ms, which may hold several spikes.
                for step in [0.000_25, 0.005] {
                    let mut stepper = LifStepper::new(neuron, step, 0.0);
                    let steps = (seconds / step) as usize;
                    let spikes: u32 = (0..steps).map(|_| stepper.step(current)).sum();
                    let expected = neuron.rate_hz(current) * seconds;
                    // Rounding may move the last spike across the end.
                    assert!(
                        (f64::from(spikes) - expected).abs() <= 1.0 + 1e-9 * expected,
                        "{neuron:?}, J = {current}, step {step}: {spikes} spikes, expected {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn current_for_rate_inverts_the_curve() {
        let neuron = Lif::new(0.02, 0.002).unwrap();
        for rate in [5.0, 20.0, 60.0, 200.0, 499.0] {
            let back = neuron.rate_hz(neuron.current_for_rate(rate).unwrap());
            assert!((back / rate - 1.0).abs() < 1e-9, "{rate} Hz gave {back} Hz");
        }
        for rate in [0.0, -1.0, 0.5, 500.0, 1e9, f64::NAN] {
            assert!(neuron.current_for_rate(rate).is_err(), "{rate}");
        }
        assert!(Lif::new(0.0, 0.001).is_err() && Lif::new(0.02, f64::NAN).is_err());
    }

    #[test]
    fn voltage_has_a_floor() {
        let neuron = Lif::new(0.02, 0.002).unwrap();
        let mut inhibited = LifStepper::new(neuron, 0.000_25, 0.9);
        (0..4000).for_each(|_| assert_eq!(inhibited.step(-30.0), 0));
        let mut fresh = LifStepper::new(neuron, 0.000_25, 0.0);
        let first = |s: &mut LifStepper| (0..4000).position(|_| s.step(1.5) > 0);
        assert_eq!(first(&mut inhibited), first(&mut fresh));
    }
}
