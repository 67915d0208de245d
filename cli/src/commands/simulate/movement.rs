//! The movement that a network's tuned populations follow.

use std::path::Path;

use betz::simulate::noise::band_limited_noise;
use betz::spiking::{Engine, Movement, Network};
use betz::{Error, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Length of the movement that is made, after which it begins again.
const SECONDS: f64 = 120.0;
/// Its highest frequency, and the standard deviation of each coordinate.
const BAND_HZ: f64 = 2.0;
const STD: f64 = 0.5;
/// Time for which a position holds; at least a step.
const TICK_MS: f64 = 1.0;

/// The movement of a file or, without one, noise that follows from the network's seed.
///
/// # Errors
/// `Io` and `InvalidRecording` naming the file and the line; `InvalidArgument` for steps that are too long for the noise.
pub(crate) fn movement(network: &Network, file: Option<&Path>) -> Result<Movement> {
    if let Some(path) = file {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, &e))?;
        return Movement::read(&text, &path.display().to_string(), network.step_ms);
    }
    let tick = (TICK_MS / network.step_ms).round().max(1.0) as u64;
    let tick_seconds = tick as f64 * network.step_ms * 1e-3;
    let count = (SECONDS / tick_seconds).round() as usize;
    let mut random = ChaCha8Rng::seed_from_u64(network.seed);
    let mut noise = || band_limited_noise(count, tick_seconds, BAND_HZ, STD, &mut random);
    let (x, y) = (noise()?, noise()?);
    let rows = (0..)
        .zip(x.iter().zip(&y))
        .map(|(at, (x, y))| (at * tick, [*x as f32, *y as f32]))
        .collect();
    Movement::new(rows, count as u64 * tick)
}

/// Lets the tuned populations of a network follow a movement; `None` if there are none and no file is given.
///
/// # Errors
/// As [`movement`]; `InvalidArgument` for a file of a network without tuned populations.
pub(crate) fn follow(engine: &mut Engine, file: Option<&Path>) -> Result<Option<Movement>> {
    if file.is_none() && !engine.network().is_tuned() {
        return Ok(None);
    }
    let movement = movement(engine.network(), file)?;
    engine.follow(&movement).map_err(|e| e.at("--movement"))?;
    Ok(Some(movement))
}
