//! Units that are echoes of others: the same spikes, seen again later or further off.
//!
//! A large spike crosses the threshold again as it swings back, and on electrodes beyond those that it excludes. Such
//! crossings make a heap of their own, locked to the first to a fraction of a millisecond, which no two neurons are. Two
//! large units on one electrode may have one heap of echoes between them: what counts is how many of its spikes follow
//! any of them.

/// A unit's spikes in training.
pub(crate) struct UnitTrain {
    /// Samples, ascending.
    pub(crate) samples: Vec<i64>,
    /// Mean minimum in standard deviations of the noise.
    pub(crate) size: f32,
    pub(crate) place: [f32; 2],
}

/// Lags at which echoes come, in milliseconds.
const REACH_MS: f64 = 1.6;
/// Width of what is one lag.
const LAG_MS: f64 = 0.3;
/// Part of a unit's spikes that follow larger units' at one lag each.
const PART: f64 = 0.5;
/// Less than this part at one lag, beyond what chance brings together, is none.
const LEAST_PART: f64 = 0.1;
/// Electrodes further apart than this see no spike of the other.
const REACH_UM: f32 = 400.0;

/// Which units are echoes of a larger one.
pub(crate) fn echoes(units: &[UnitTrain], rate_hz: f64) -> Vec<bool> {
    let reach = (REACH_MS * 1e-3 * rate_hz) as i64;
    let width = ((LAG_MS * 1e-3 * rate_hz) as usize).max(1);
    let echo = |b: usize| {
        let own = &units[b];
        let larger = units.iter().filter(|larger| {
            let [dx, dy] = [0, 1].map(|i| larger.place[i] - own.place[i]);
            larger.size > own.size && dx.hypot(dy) <= REACH_UM
        });
        let parts = larger.map(|larger| locked(&own.samples, &larger.samples, reach, width));
        parts.filter(|part| *part > LEAST_PART).sum::<f64>() > PART
    };
    (0..units.len()).map(echo).collect()
}

/// The largest part of `own` that has one of `other` at the same lag, less what any other lag has.
fn locked(own: &[i64], other: &[i64], reach: i64, width: usize) -> f64 {
    let mut lags = vec![0_u32; 2 * reach as usize + 1];
    let mut from = 0;
    for &sample in own {
        while from < other.len() && other[from] < sample - reach {
            from += 1;
        }
        for &there in other[from..].iter().take_while(|t| **t <= sample + reach) {
            lags[(there - sample + reach) as usize] += 1;
        }
    }
    let windows = lags.windows(width.min(lags.len()));
    let mut counts: Vec<u32> = windows.map(|w| w.iter().sum()).collect();
    counts.sort_unstable();
    let most = counts.last().copied().unwrap_or(0);
    let usual = counts.get(counts.len() / 2).copied().unwrap_or(0);
    f64::from(most - usual) / own.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_base::random::Random;

    #[test]
    fn what_follows_at_one_lag_is_an_echo_and_what_does_not_is_a_unit() {
        let mut random = Random::new(8);
        let mut fired = |size: f32| {
            let mut samples: Vec<i64> = (0..500).map(|_| random.below(3_000_000) as i64).collect();
            samples.sort_unstable();
            UnitTrain {
                samples,
                size,
                place: [0.0; 2],
            }
        };
        let (first, second) = (fired(20.0), fired(8.0));
        let late = UnitTrain {
            samples: first
                .samples
                .iter()
                .enumerate()
                .map(|(i, s)| s + 24 + (i % 3) as i64)
                .collect(),
            size: 6.0,
            place: [100.0, 0.0],
        };
        let far = UnitTrain {
            samples: late.samples.clone(),
            size: 5.0,
            place: [9000.0, 0.0],
        };
        // One heap of what follows two units, later the one than the other.
        let mut of_both: Vec<i64> = (first.samples.iter().map(|s| s + 20))
            .chain(second.samples.iter().map(|s| s + 31))
            .collect();
        of_both.sort_unstable();
        let both = UnitTrain {
            samples: of_both,
            size: 4.0,
            place: [20.0, 0.0],
        };
        assert_eq!(
            echoes(&[first, second, late, far, both], 30_000.0),
            [false, false, true, false, true]
        );
    }

    #[test]
    fn chance_among_many_busy_units_makes_no_echo() {
        let mut random = Random::new(3);
        let units: Vec<UnitTrain> = (0..40)
            .map(|u| {
                let mut samples: Vec<i64> =
                    (0..3000).map(|_| random.below(1_800_000) as i64).collect();
                samples.sort_unstable();
                UnitTrain {
                    samples,
                    size: 50.0 - u as f32,
                    place: [0.0; 2],
                }
            })
            .collect();
        assert_eq!(echoes(&units, 30_000.0), [false; 40]);
    }
}
