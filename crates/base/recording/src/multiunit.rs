//! Multi-unit (MU) channels: the union of several spike trains, as an electrode records its neurons.

#[cfg(feature = "random")]
use rand::{SeedableRng, seq::SliceRandom};
#[cfg(feature = "random")]
use rand_chacha::ChaCha8Rng;

use super::{Recording, Spikes};
use betz_base::error::{Error, Result};

/// Group of a channel that is in no group.
const NOWHERE: u32 = u32::MAX;

impl Recording {
    /// Merges channels: each group becomes one channel, the union of the group's spike trains.
    ///
    /// A group is a list of channel numbers. Its channel's name joins theirs by `+` (`u3+u7`), and its position is the
    /// mean of their electrode positions. Channels in no group are left out. Behaviour, segments, clock and meta stay
    /// the same. Allocates one new recording; O(spikes).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) if there is no group, a group is
    /// empty, or a channel is unknown or listed twice (its spikes would count double).
    pub fn combine(&self, groups: &[Vec<u32>]) -> Result<Self> {
        let group_of = self.group_of_channels(groups)?;
        let kept = self
            .spikes
            .ticks
            .iter()
            .zip(&self.spikes.channels)
            .filter_map(|(&t, &c)| {
                let g = group_of[c as usize];
                (g != NOWHERE).then_some((t, g))
            });
        let (ticks, channels) = kept.unzip();
        let weights = self.spikes.weights.iter().zip(&self.spikes.channels);
        let weights = weights
            .filter(|(_, c)| group_of[**c as usize] != NOWHERE)
            .map(|(&w, _)| w)
            .collect();
        let name = |group: &Vec<u32>| {
            let names: Vec<&str> = group
                .iter()
                .map(|&c| self.channel_names[c as usize].as_str())
                .collect();
            names.join("+")
        };
        let electrode_um = self.electrode_um.as_ref().map(|places| {
            groups
                .iter()
                .map(|group| {
                    [0, 1].map(|axis| {
                        let sum: f64 = group
                            .iter()
                            .map(|&c| f64::from(places[c as usize][axis]))
                            .sum();
                        (sum / group.len() as f64) as f32
                    })
                })
                .collect()
        });
        let combined = Self {
            tick_seconds: self.tick_seconds,
            ticks: self.ticks,
            spikes: Spikes {
                ticks,
                channels,
                weights,
            },
            channel_names: groups.iter().map(name).collect(),
            behavior: self.behavior.clone(),
            segments: self.segments.clone(),
            electrode_um,
            form: self.form,
            meta: self.meta.clone(),
        };
        combined.check()?;
        Ok(combined)
    }

    /// The group of every channel; [`NOWHERE`] for one that is in none.
    fn group_of_channels(&self, groups: &[Vec<u32>]) -> Result<Vec<u32>> {
        if groups.is_empty() {
            return Err(Error::argument(
                "multi-unit groups: expected at least one group, got none",
            ));
        }
        let mut group_of = vec![NOWHERE; self.channels()];
        for (g, group) in groups.iter().enumerate() {
            if group.is_empty() {
                return Err(Error::argument(format!(
                    "multi-unit group {g}: expected at least one channel, got none"
                )));
            }
            for &c in group {
                let Some(slot) = group_of.get_mut(c as usize) else {
                    return Err(Error::argument(format!(
                        "multi-unit group {g}: expected channels below {}, got {c}",
                        self.channels()
                    )));
                };
                if *slot != NOWHERE {
                    return Err(Error::argument(format!(
                        "multi-unit group {g}: channel {c} (`{}`) is in group {slot} already",
                        self.channel_names[c as usize]
                    )));
                }
                *slot = g as u32;
            }
        }
        Ok(group_of)
    }
}

/// Assigns `channels` channels at random to groups of `per_electrode`, each channel to one group; the last group is
/// smaller if the numbers do not divide. The same seed gives the same groups on every machine. Groups list their
/// channels in ascending order. The result is empty if either number is 0.
///
/// ```
/// let groups = betz_recording::multiunit::random_groups(7, 3, 42);
/// assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
/// ```
#[cfg(feature = "random")]
pub fn random_groups(channels: usize, per_electrode: usize, seed: u64) -> Vec<Vec<u32>> {
    if per_electrode == 0 {
        return Vec::new();
    }
    let mut order: Vec<u32> = (0..channels as u32).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    order
        .chunks(per_electrode)
        .map(|group| {
            let mut group = group.to_vec();
            group.sort_unstable();
            group
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Segment, SpikeForm};

    fn four_units() -> Recording {
        Recording {
            tick_seconds: 0.001,
            ticks: 10,
            spikes: Spikes::new(vec![0, 1, 1, 3, 3, 9], vec![2, 0, 3, 1, 0, 2]),
            channel_names: ["u0", "u1", "u2", "u3"].map(String::from).to_vec(),
            behavior: None,
            segments: vec![Segment { start: 0, stop: 10 }],
            electrode_um: Some(vec![[0.0, 0.0], [2.0, 0.0], [4.0, 8.0], [6.0, 0.0]]),
            form: SpikeForm::Events,
            meta: None,
        }
    }

    #[test]
    fn a_group_is_the_union_of_its_trains() {
        let mu = four_units().combine(&[vec![3, 2], vec![0]]).unwrap();
        assert_eq!(mu.channel_names, ["u3+u2", "u0"]);
        assert_eq!(mu.spikes.ticks, [0, 1, 1, 3, 9]);
        assert_eq!(mu.spikes.channels, [0, 1, 0, 1, 0]);
        assert_eq!(mu.electrode_um, Some(vec![[5.0, 4.0], [0.0, 0.0]]));
        let mut counts = four_units();
        counts.form = SpikeForm::Counts;
        counts.spikes.weights = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mu = counts.combine(&[vec![3, 2], vec![0]]).unwrap();
        assert_eq!(mu.spikes.weights, [1.0, 2.0, 3.0, 5.0, 6.0]);
    }

    #[test]
    fn bad_groups_are_named() {
        for (groups, word) in [
            (vec![], "got none"),
            (vec![vec![0], vec![]], "group 1"),
            (vec![vec![0, 4]], "below 4"),
            (vec![vec![0, 1], vec![1]], "`u1`"),
            (vec![vec![2, 2]], "`u2`"),
        ] {
            let e = four_units().combine(&groups).unwrap_err();
            assert!(e.message().contains(word), "{e}");
        }
    }

    #[cfg(feature = "random")]
    #[test]
    fn random_groups_deal_every_channel_once() {
        let groups = random_groups(10, 3, 7);
        assert_eq!(
            groups.iter().map(Vec::len).collect::<Vec<_>>(),
            [3, 3, 3, 1]
        );
        let mut all = groups.concat();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<u32>>());
        assert_eq!(groups, random_groups(10, 3, 7));
        assert_ne!(groups, random_groups(10, 3, 8));
        assert!(random_groups(0, 3, 1).is_empty() && random_groups(5, 0, 1).is_empty());
    }
}
