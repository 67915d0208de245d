//! Scores of sorted spikes against a known truth.

use betz_base::{Error, Result};

/// Spikes of units, in the order of their samples.
#[derive(Debug, Clone, Copy)]
pub struct Train<'a> {
    /// Time of the spike.
    pub samples: &'a [i64],
    /// Which unit, beside each.
    pub units: &'a [u32],
}

/// One true unit and what was found of it.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitScore {
    /// The true unit.
    pub unit: u32,
    /// Its spikes.
    pub spikes: u64,
    /// The sorted unit that was matched with it, if any.
    pub found: Option<u32>,
    /// Spikes of both.
    pub hits: u64,
    /// Spikes of the sorted unit that are not its.
    pub extra: u64,
    /// hits / (hits + misses + extra).
    pub accuracy: f64,
    /// hits / (hits + misses).
    pub recall: f64,
    /// hits / (hits + extra).
    pub precision: f64,
}

/// Scores of all true units.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// One a true unit, by number.
    pub units: Vec<UnitScore>,
    /// Sorted units.
    pub found: usize,
    /// Part of the true spikes that have a sorted spike of any unit beside them.
    pub detected: f64,
}

impl Score {
    /// Mean over true units.
    pub fn mean(&self, of: impl Fn(&UnitScore) -> f64) -> f64 {
        self.units.iter().map(of).sum::<f64>() / self.units.len().max(1) as f64
    }

    /// True units with an accuracy of 0.8 or more.
    pub fn well_found(&self) -> usize {
        self.units.iter().filter(|u| u.accuracy >= 0.8).count()
    }
}

/// Matches every true unit with at most one sorted unit, so that the sum of accuracies is largest (Kuhn 1955; as
/// SpikeInterface's comparison with `hungarian` does). Spikes within `window` samples are the same, each once.
///
/// # Errors
/// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for lists of different lengths,
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for samples that do not ascend.
///
/// ```
/// use betz_sort::score::{Train, score};
///
/// let truth = Train { samples: &[100, 200, 300], units: &[0, 0, 1] };
/// let sorted = Train { samples: &[102, 201, 299, 400], units: &[7, 7, 4, 4] };
/// let score = score(truth, sorted, 12)?;
/// assert_eq!(score.units[0].accuracy, 1.0);
/// assert_eq!(score.units[1].accuracy, 0.5); // one hit, one extra
/// # Ok::<(), betz_base::Error>(())
/// ```
pub fn score(truth: Train<'_>, sorted: Train<'_>, window: i64) -> Result<Score> {
    let (true_ids, true_trains) = trains("truth", truth)?;
    let (found_ids, found_trains) = trains("sorted", sorted)?;
    let hits: Vec<Vec<u64>> = (true_trains.iter())
        .map(|a| found_trains.iter().map(|b| matches(a, b, window)).collect())
        .collect();
    let agreement: Vec<Vec<f64>> = (hits.iter().zip(&true_trains))
        .map(|(row, a)| {
            let one = |(h, b): (&u64, &Vec<i64>)| {
                let all = a.len() as u64 + b.len() as u64 - h;
                *h as f64 / all.max(1) as f64
            };
            row.iter().zip(&found_trains).map(one).collect()
        })
        .collect();
    let matched = assign(&agreement, found_trains.len());
    let units = (true_ids.iter().enumerate())
        .map(|(t, &unit)| {
            let spikes = true_trains[t].len() as u64;
            let found = matched[t].filter(|f| hits[t][*f] > 0);
            let (hit, extra) = found.map_or((0, 0), |f| {
                (hits[t][f], found_trains[f].len() as u64 - hits[t][f])
            });
            let part = |of: u64| if of == 0 { 0.0 } else { hit as f64 / of as f64 };
            UnitScore {
                unit,
                spikes,
                found: found.map(|f| found_ids[f]),
                hits: hit,
                extra,
                accuracy: part(spikes + extra),
                recall: part(spikes),
                precision: part(hit + extra),
            }
        })
        .collect();
    let all = matches(truth.samples, sorted.samples, window);
    Ok(Score {
        units,
        found: found_ids.len(),
        detected: all as f64 / truth.samples.len().max(1) as f64,
    })
}

/// Numbers of the units that fire, and their spikes.
fn trains(name: &str, train: Train<'_>) -> Result<(Vec<u32>, Vec<Vec<i64>>)> {
    if train.samples.len() != train.units.len() {
        return Err(Error::mismatch(format!(
            "{name}: expected a unit for each of {} spikes, got {}",
            train.samples.len(),
            train.units.len()
        )));
    }
    if let Some(at) = train.samples.windows(2).position(|w| w[0] > w[1]) {
        return Err(Error::argument(format!(
            "{name}, spike {}: expected samples that ascend, got {} after {}",
            at + 1,
            train.samples[at + 1],
            train.samples[at]
        )));
    }
    let mut by_unit = std::collections::BTreeMap::<u32, Vec<i64>>::new();
    for (&sample, &unit) in train.samples.iter().zip(train.units) {
        by_unit.entry(unit).or_default().push(sample);
    }
    Ok(by_unit.into_iter().unzip())
}

/// Number of spikes of `a` with one of `b` within `window`, each of them used once.
fn matches(a: &[i64], b: &[i64], window: i64) -> u64 {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        if b[j] < a[i].saturating_sub(window) {
            j += 1;
        } else if b[j] > a[i].saturating_add(window) {
            i += 1;
        } else {
            count += 1;
            i += 1;
            j += 1;
        }
    }
    count
}

/// The column of each row, so that the sum is largest: shortest augmenting paths over a square of costs.
fn assign(worth: &[Vec<f64>], columns: usize) -> Vec<Option<usize>> {
    let n = worth.len().max(columns);
    let cost = |i: usize, j: usize| -> f64 {
        -worth
            .get(i)
            .and_then(|row| row.get(j))
            .copied()
            .unwrap_or(0.0)
    };
    // Rows and columns count from 1; column 0 is where a path begins.
    let (mut u, mut v) = (vec![0.0; n + 1], vec![0.0; n + 1]);
    let (mut row_of, mut way) = (vec![0; n + 1], vec![0; n + 1]);
    for i in 1..=n {
        row_of[0] = i;
        let mut at = 0;
        let mut least = vec![f64::INFINITY; n + 1];
        let mut used = vec![false; n + 1];
        while row_of[at] != 0 {
            used[at] = true;
            let row = row_of[at];
            let (mut delta, mut next) = (f64::INFINITY, 0);
            for j in 1..=n {
                if used[j] {
                    continue;
                }
                let here = cost(row - 1, j - 1) - u[row] - v[j];
                if here < least[j] {
                    (least[j], way[j]) = (here, at);
                }
                if least[j] < delta {
                    (delta, next) = (least[j], j);
                }
            }
            for j in 0..=n {
                if used[j] {
                    u[row_of[j]] += delta;
                    v[j] -= delta;
                } else {
                    least[j] -= delta;
                }
            }
            at = next;
        }
        while at != 0 {
            row_of[at] = row_of[way[at]];
            at = way[at];
        }
    }
    let mut found = vec![None; worth.len()];
    for j in 1..=columns {
        if row_of[j] >= 1 && row_of[j] <= worth.len() {
            found[row_of[j] - 1] = Some(j - 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_all_assignments_is_found() {
        let worth = [
            vec![0.9, 0.8, 0.0],
            vec![0.8, 0.1, 0.0],
            vec![0.3, 0.2, 0.1],
        ];
        assert_eq!(assign(&worth, 3), [Some(1), Some(0), Some(2)]);
        assert_eq!(assign(&worth[..1], 3), [Some(0)]);
        let narrow = [vec![0.9], vec![0.95], vec![0.1]];
        assert_eq!(assign(&narrow, 1), [None, Some(0), None]);
        assert_eq!(assign(&[], 2), Vec::<Option<usize>>::new());
    }

    #[test]
    fn each_spike_counts_once_and_nothing_is_nothing() {
        assert_eq!(matches(&[10, 11, 12], &[11], 5), 1);
        assert_eq!(matches(&[10, 30], &[14, 26], 4), 2);
        let none = Train {
            samples: &[],
            units: &[],
        };
        let one = Train {
            samples: &[5],
            units: &[3],
        };
        let scored = score(one, none, 12).unwrap();
        assert_eq!(
            (scored.units[0].accuracy, scored.units[0].found),
            (0.0, None)
        );
        assert!(score(none, one, 12).unwrap().units.is_empty());
        let back = Train {
            samples: &[5, 4],
            units: &[3, 3],
        };
        assert!(score(back, one, 12).is_err());
    }
}
