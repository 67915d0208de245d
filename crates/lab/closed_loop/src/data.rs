use betz_base::{Error, Result};

use crate::session::{Session, Setup};
use crate::units::Units;
use crate::user::Aim;
use betz_spiking::random::{Normal, Purpose, Sequence};

/// One bin: what there was to decode, and what it should have been.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Spikes of each channel.
    pub counts: Vec<u32>,
    /// Position of the cursor, in cm.
    pub position: [f64; 2],
    /// The label: the velocity in cm/s that the decoder should answer.
    pub velocity: [f64; 2],
}

/// Bins to train a decoder on, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingData {
    /// Length of a bin in seconds.
    pub bin_s: f64,
    /// The bins.
    pub bins: Vec<Observation>,
}

impl TrainingData {
    pub(crate) fn channels(&self) -> Result<usize> {
        let channels = self.bins.first().map_or(0, |b| b.counts.len());
        if channels == 0 || self.bins.len() < 10 {
            return Err(Error::new(
                betz_base::ErrorKind::InsufficientData,
                format!(
                    "training: expected at least 10 bins of at least one channel, got {} of {channels}",
                    self.bins.len()
                ),
            ));
        }
        if let Some(i) = self.bins.iter().position(|b| {
            b.counts.len() != channels
                || !b.position.iter().chain(&b.velocity).all(|v| v.is_finite())
        }) {
            return Err(Error::mismatch(format!(
                "training: expected {channels} channels and finite labels in every bin, got others in bin {i}"
            )));
        }
        Ok(channels)
    }
}

/// Calibration data: minimum-jerk reaches (Flash and Hogan 1985) to the task's targets, 0.7 s each and
/// 0.4 s of rest, with the user's noise on what the units are told.
///
/// # Errors
/// As [`super::Loop::new`]; `InvalidArgument` for no reaches.
pub fn reaches(setup: &Setup, units: &mut Units, count: usize) -> Result<TrainingData> {
    setup.check(units)?;
    if count == 0 {
        return Err(Error::argument(
            "calibration: expected at least one reach, got 0",
        ));
    }
    let mut chance = Sequence::new(setup.seed, Purpose::Loop, 2);
    let normal = Normal::new();
    let bin = setup.bin_s;
    let steps = setup.steps_per_bin(units)?;
    let (moving, resting) = (0.7, 0.4);
    let mut position = [0.0; 2];
    let mut counts = vec![0; units.len()];
    let mut bins = Vec::new();
    for k in 0..count {
        let from = position;
        let target = setup.task.target(k, &mut chance);
        let total = ((moving + resting) / bin).ceil() as usize;
        for i in 0..total {
            let s = ((i + 1) as f64 * bin / moving).min(1.0);
            let path = s.powi(3) * (10.0 - 15.0 * s + 6.0 * s * s);
            let next = [0, 1].map(|i| from[i] + (target[i] - from[i]) * path);
            let velocity = [0, 1].map(|i| (next[i] - position[i]) / bin);
            let speed = velocity[0].hypot(velocity[1]);
            let noise = setup.user.noise_cm_s + setup.user.noise_of_speed * speed;
            let told = velocity.map(|v| v + noise * chance.normal(&normal));
            units.fire(told, steps, &mut chance, &mut counts)?;
            position = next;
            bins.push(Observation {
                counts: counts.clone(),
                position,
                velocity,
            });
        }
    }
    Ok(TrainingData { bin_s: bin, bins })
}

/// A session's bins with what its user is taken to have intended ([`Aim::turned`]). What ReFIT retrains on.
pub fn intention(session: &Session) -> TrainingData {
    let bins = session.log.iter().map(|bin| Observation {
        counts: bin.counts.clone(),
        position: bin.cursor,
        velocity: Aim {
            cursor: bin.cursor,
            target: bin.target,
            radius: session.radius,
            velocity: bin.velocity,
        }
        .turned(),
    });
    TrainingData {
        bin_s: session.bin_s,
        bins: bins.collect(),
    }
}
