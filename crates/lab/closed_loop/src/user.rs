use std::collections::VecDeque;

use betz_base::{Error, Result};
use serde::{Deserialize, Serialize};

use betz_spiking::random::{Normal, Sequence};

/// A user: u = clip(k (target − cursor as seen), v_max) and noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct User {
    /// From the cursor's movement to what the user makes of it, in seconds.
    pub delay_s: f64,
    /// k in 1/s.
    pub gain_per_s: f64,
    /// Largest intended speed v_max in cm/s.
    pub max_speed_cm_s: f64,
    /// Standard deviation of the noise of each coordinate in cm/s, drawn anew each bin.
    pub noise_cm_s: f64,
    /// The same, as a part of the intended speed (Harris and Wolpert 1998).
    pub noise_of_speed: f64,
}

impl Default for User {
    /// 0.2 s, 4/s, 25 cm/s, noise of 2 cm/s and a fifth of the speed: of the users that
    /// `spiking_record user` tries, the one with which the Kalman filter and ReFIT differ most nearly
    /// by the published factor of two (Gilja et al. 2012).
    fn default() -> Self {
        Self {
            delay_s: 0.2,
            gain_per_s: 4.0,
            max_speed_cm_s: 25.0,
            noise_cm_s: 2.0,
            noise_of_speed: 0.2,
        }
    }
}

impl User {
    pub(crate) fn check(&self, bin_s: f64) -> Result<()> {
        let fields = [
            self.gain_per_s,
            self.max_speed_cm_s,
            self.noise_cm_s,
            self.noise_of_speed,
        ];
        if !(fields.iter().all(|v| v.is_finite() && *v >= 0.0)
            && (0.0..=10.0).contains(&self.delay_s)
            && self.delay_s / bin_s <= 1e5)
        {
            return Err(Error::argument(format!(
                "user: expected finite numbers from 0 and a delay of at most 10 s, got {self:?}"
            )));
        }
        Ok(())
    }
}

/// The facts about a bin from which a label is made, in cm and cm/s; the user's intent is not one of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aim {
    /// Position of the cursor.
    pub cursor: [f64; 2],
    /// Centre of the target.
    pub target: [f64; 2],
    /// Radius of the target.
    pub radius: f64,
    /// The decoder's velocity.
    pub velocity: [f64; 2],
}

impl Aim {
    /// The intention as ReFIT takes it (Gilja et al. 2012): as fast as the decoder went, but straight to the target,
    /// and none on it. A decoder that is too slow, or stands, stays so.
    pub fn turned(&self) -> [f64; 2] {
        let (way, distance) = self.way();
        if distance < self.radius {
            return [0.0; 2];
        }
        let speed = self.velocity[0].hypot(self.velocity[1]);
        way.map(|w| w * speed / distance)
    }

    /// The intention as a model of the user has it (after Shanechi et al. 2016): straight to the target with `gain_per_s`
    /// times the distance, at most `max_speed_cm_s`, whatever the decoder did.
    pub fn straight(&self, gain_per_s: f64, max_speed_cm_s: f64) -> [f64; 2] {
        let (way, distance) = self.way();
        let speed = (gain_per_s * distance).min(max_speed_cm_s);
        way.map(|w| w * speed / distance.max(1e-9))
    }

    fn way(&self) -> ([f64; 2], f64) {
        let way = [0, 1].map(|i| self.target[i] - self.cursor[i]);
        (way, way[0].hypot(way[1]))
    }
}

/// The user's memory of past cursor positions.
#[derive(Debug, Clone)]
pub(crate) struct Mind {
    seen: VecDeque<[f64; 2]>,
    bins: usize,
}

impl Mind {
    pub(crate) fn new(user: &User, bin_s: f64) -> Self {
        Self {
            seen: VecDeque::new(),
            bins: (user.delay_s / bin_s).round() as usize,
        }
    }

    pub(crate) fn intend(
        &mut self,
        user: &User,
        target: [f64; 2],
        cursor: [f64; 2],
        chance: &mut Sequence,
        normal: &Normal,
    ) -> [f64; 2] {
        self.seen.push_back(cursor);
        while self.seen.len() > self.bins + 1 {
            self.seen.pop_front();
        }
        let seen = self.seen.front().copied().unwrap_or(cursor);
        let wanted = [0, 1].map(|i| user.gain_per_s * (target[i] - seen[i]));
        let speed = wanted[0].hypot(wanted[1]);
        let scale = (user.max_speed_cm_s / speed.max(1e-9)).min(1.0);
        let noise = user.noise_cm_s + user.noise_of_speed * speed * scale;
        wanted.map(|w| w * scale + noise * chance.normal(normal))
    }
}
