//! Homogeneous Poisson trains beside a smooth movement: a problem of any size to time things on.

use rand::RngExt;
use rand_distr::{Distribution, Exp};

use super::{Stream, generator};
use betz_base::error::{Error, Result};
use betz_recording::{Dataset, OutputInfo, Segment, Spikes};

/// `channels` independent Poisson trains of `rate_hz` over `steps` steps of `step_seconds`, one
/// segment, and two outputs, sin 3.1 t and cos 1.7 t (t in seconds), which no spike depends on.
///
/// # Errors
/// `InvalidArgument` unless there is a channel and `rate_hz` and `step_seconds` are finite and above 0.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// let data = betz_simulate::poisson(10, 20.0, 1_000, 0.01, 1)?; // 10 s
/// assert!((1_500..2_500).contains(&data.spikes.len()));
/// # Ok(())
/// # }
/// ```
pub fn poisson(
    channels: usize,
    rate_hz: f64,
    steps: usize,
    step_seconds: f64,
    seed: u64,
) -> Result<Dataset> {
    let positive = |x: f64| x.is_finite() && x > 0.0;
    if channels == 0 || !positive(rate_hz) || !positive(step_seconds) {
        return Err(Error::argument(format!(
            "Poisson trains: expected channels, a rate and a step above 0, got {channels} channels, {rate_hz} Hz and {step_seconds} s"
        )));
    }
    let mut rng = generator(seed, Stream::Poisson as u64);
    // All trains together are one Poisson process, whose events fall on any channel alike.
    let gap = Exp::new(channels as f64 * rate_hz * step_seconds)
        .map_err(|e| Error::argument(format!("Poisson trains of {rate_hz} Hz: {e}")))?;
    let mut spikes = Spikes::default();
    let mut at: f64 = gap.sample(&mut rng);
    while at < steps as f64 {
        spikes.ticks.push(at as i64);
        spikes.channels.push(rng.random_range(0..channels as u32));
        at += gap.sample(&mut rng);
    }
    let movement = |step: usize| {
        let t = step as f64 * step_seconds;
        [(3.1 * t).sin() as f32, (1.7 * t).cos() as f32]
    };
    Ok(Dataset {
        step_seconds,
        steps,
        channel_names: (0..channels).map(|c| c.to_string()).collect(),
        spikes,
        segments: vec![Segment {
            start: 0,
            stop: steps as i64,
        }],
        outputs: ["x", "y"].map(OutputInfo::from).to_vec(),
        behavior: (0..steps).flat_map(movement).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_have_their_rate_on_every_channel() {
        let data = poisson(50, 20.0, 40_000, 0.00025, 1).unwrap();
        let expected = 50.0 * 20.0 * 10.0;
        assert!((data.spikes.len() as f64 - expected).abs() < 5.0 * f64::sqrt(expected));
        assert!(data.spikes.ticks.is_sorted());
        for channel in 0..50 {
            let own = data.spikes.channels.iter().filter(|&&c| c == channel);
            assert!((own.count() as f64 - 200.0).abs() < 6.0 * f64::sqrt(200.0));
        }
    }

    #[test]
    fn a_seed_gives_the_same_trains_again() {
        let draw = |seed| poisson(3, 50.0, 1000, 0.001, seed).unwrap().spikes.ticks;
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for (channels, rate, step) in [
            (0, 1.0, 1.0),
            (1, 0.0, 1.0),
            (1, f64::NAN, 1.0),
            (1, 1.0, -1.0),
        ] {
            let error = poisson(channels, rate, 10, step, 1).unwrap_err();
            assert!(error.message().contains("above 0"), "{error}");
        }
    }
}
