//! Band-limited noise: band, standard deviation, seed.

use betz_base::ErrorKind;
use betz_simulate::noise::band_limited_noise;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn noise(samples: usize, step: f64, band: f64, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    band_limited_noise(samples, step, band, 0.5, &mut rng).unwrap()
}

#[test]
fn power_lies_inside_the_band_alone_and_has_the_given_deviation() {
    for (samples, step, band) in [(4000, 0.001, 5.0), (3999, 0.001, 30.0), (1250, 0.01, 49.0)] {
        let x = noise(samples, step, band, 3);
        let mean = x.iter().sum::<f64>() / samples as f64;
        let variance = x.iter().map(|v| v * v).sum::<f64>() / samples as f64;
        assert!(mean.abs() < 1e-12, "mean {mean}");
        assert!(
            (variance.sqrt() - 0.5).abs() < 1e-12,
            "std {}",
            variance.sqrt()
        );

        let forward = <f64 as betz_fourier::Real>::forward(samples);
        let (mut input, mut bins) = (x, forward.make_output_vec());
        forward.process(&mut input, &mut bins).unwrap();
        let edge = (band * step * samples as f64).floor() as usize;
        let power: Vec<f64> = bins.iter().map(|c| c.norm_sqr()).collect();
        let inside: f64 = power[1..=edge].iter().sum();
        let outside: f64 = power[0] + power[edge + 1..].iter().sum::<f64>();
        assert!(outside < 1e-20 * inside, "{outside} against {inside}");
        // Flat: both halves of the band hold about half of the power.
        let lower: f64 = power[1..=edge / 2].iter().sum();
        assert!((lower / inside - 0.5).abs() < 0.25, "{}", lower / inside);
    }
}

#[test]
fn values_are_gaussian_enough_and_follow_the_seed() {
    let x = noise(100_000, 0.001, 40.0, 1);
    let fourth = x.iter().map(|v| v.powi(4)).sum::<f64>() / x.len() as f64;
    // A Gaussian's fourth moment is 3 σ⁴.
    assert!(
        (fourth / (3.0 * 0.5_f64.powi(4)) - 1.0).abs() < 0.1,
        "{fourth}"
    );
    assert_eq!(x, noise(100_000, 0.001, 40.0, 1));
    assert_ne!(x, noise(100_000, 0.001, 40.0, 2));
}

#[test]
fn impossible_noise_is_refused() {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    for (samples, step, band, std) in [
        (100, 0.001, 500.0, 0.5),
        (100, 0.001, 5.0, 0.5),
        (0, 0.001, 5.0, 0.5),
        (100, 0.0, 5.0, 0.5),
        (100, 0.001, f64::NAN, 0.5),
        (1000, 0.001, 5.0, 0.0),
    ] {
        let e = band_limited_noise(samples, step, band, std, &mut rng).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    }
}
