//! The choice of a kind's configuration by held-out data. It is a race: configurations that fall far behind leave early.

use std::ops::Range;

use super::family::{Family, FoldReadout, Residuals, compared};
use super::split::Split;
use betz_base::error::{Error, Result};
use betz_base::progress::{Phases, Progress};

/// Part of the score that regions are: one movement in twenty is expected to be unlike all that was trained on.
const UNSEEN: f64 = 0.05;

/// Folds and regions that passes go through together, and which of the passes go on.
struct Round {
    folds: Range<usize>,
    regions: Range<usize>,
    /// A pass goes on if its best is so close to the best of all.
    within: f64,
    /// Most passes that go on.
    most: usize,
}

/// Rounds of a race. Most passes are far behind after one fold and one region, or two folds where there are no regions:
/// blocks of one long recording differ more than trials. The last round has all other folds and regions.
const fn rounds(has_regions: bool) -> [Round; 2] {
    let first = if has_regions { 1 } else { 2 };
    [
        Round {
            folds: 0..first,
            regions: 0..1,
            within: 0.003,
            most: 2,
        },
        Round {
            folds: first..usize::MAX,
            regions: 1..usize::MAX,
            within: 0.0,
            most: 1,
        },
    ]
}

/// The best configuration, with its readouts.
pub(super) struct Winner<C> {
    pub(super) config: C,
    /// One per fold.
    pub(super) readouts: Vec<FoldReadout>,
}

/// The best configuration of `family` over all folds of `split`. Where there are `regions`, a twentieth of the score is
/// what it makes of those that it never saw, so that one that only knows what it has seen is not preferred.
///
/// # Errors
/// The same as for [`Family::compare`].
pub(super) fn race<F: Family>(
    family: &F,
    split: &Split<'_>,
    regions: Option<&Split<'_>>,
    progress: &dyn Progress,
) -> Result<Winner<F::Config>> {
    let of_regions = regions.map_or(usize::MAX, Split::latents);
    let latents = of_regions.min(split.latents());
    let costs = family.costs(latents);
    let mut passes: Vec<usize> = (0..costs.len()).collect();
    let rounds = rounds(regions.is_some());
    // A pass takes about as long on every fold and region.
    let stages = [Some(split), regions].map(|split| split.map_or(0, |split| split.stages.len()));
    let counts = counts(&rounds, stages);
    let mut left = expected_work(&costs, counts, rounds[0].most);
    let mut phases = Phases::new(progress, "training", left);
    let (mut all, mut elsewhere) = (None, None);
    for (round, counts) in rounds.into_iter().zip(counts) {
        // Of the last round it is now known what it costs.
        let each: u64 = passes.iter().map(|pass| costs[*pass]).sum();
        let work = counts.map(|count| count * each);
        left = match round.folds.end {
            usize::MAX => work.iter().sum(),
            _ => left,
        };
        phases.expect(left);
        let mut run = |split, folds, share| {
            let phase = &phases.next(share);
            compared(family, (split, folds), (latents, &passes), phase)
        };
        all = joined(all, run(split, round.folds, work[0])?);
        if let Some(regions) = regions {
            elsewhere = joined(elsewhere, run(regions, round.regions, work[1])?);
        }
        let Some(all) = &mut all else { continue };
        passes = ahead(&scores(all, elsewhere.as_ref()), (round.within, round.most));
        for compared in [Some(all), elsewhere.as_mut()].into_iter().flatten() {
            compared.left.retain(|left| passes.contains(&left.pass));
        }
    }
    let none = || Error::argument("cross-validation: expected configurations, got none");
    let mut all = all.ok_or_else(none)?;
    let scores = scores(&all, elsewhere.as_ref());
    // NaN never beats what is there.
    let best = (0..scores.len()).reduce(|a, b| if scores[b].1 > scores[a].1 { b } else { a });
    let best = best.ok_or_else(none)?;
    let best = all.left.swap_remove(best);
    Ok(Winner {
        config: best.config,
        readouts: best.readouts,
    })
}

/// Folds and regions that each round goes through, of as many as there are.
fn counts(rounds: &[Round; 2], [folds, regions]: [usize; 2]) -> [[u64; 2]; 2] {
    let count =
        |all: usize, range: &Range<usize>| all.min(range.end).saturating_sub(range.start) as u64;
    (rounds.each_ref()).map(|round| [count(folds, &round.folds), count(regions, &round.regions)])
}

/// Expected multiply-adds per step of a race over passes that cost `costs`, with as many folds and regions; and the
/// number of its passes over a fold or a region.
pub(super) fn expected(costs: &[u64], [folds, regions]: [usize; 2]) -> [u64; 2] {
    let rounds = rounds(regions > 0);
    let counts = counts(&rounds, [folds, regions]);
    let passes = vec![1; costs.len()];
    [costs, &passes].map(|costs| expected_work(costs, counts, rounds[0].most))
}

/// Expected work of a race over passes that cost `costs`: all of them on the `counts` of folds and regions of the first
/// round. Of the `most` that may go on, the costliest are likelier to, and on average five in eight do.
fn expected_work(costs: &[u64], [first, last]: [[u64; 2]; 2], most: usize) -> u64 {
    let all: u64 = costs.iter().sum();
    let mut ahead = costs.to_vec();
    ahead.sort_unstable_by(|a, b| b.cmp(a));
    let ahead: u64 = ahead.iter().take(most).sum::<u64>() * 5 / 8;
    first.iter().sum::<u64>() * all + last.iter().sum::<u64>() * ahead
}

fn joined<C: PartialEq>(a: Option<Residuals<C>>, b: Option<Residuals<C>>) -> Option<Residuals<C>> {
    match (a, b) {
        (Some(mut a), Some(b)) => {
            a.add(b);
            Some(a)
        }
        (a, b) => a.or(b),
    }
}

/// The pass and the score of every configuration.
fn scores<C: PartialEq>(all: &Residuals<C>, elsewhere: Option<&Residuals<C>>) -> Vec<(usize, f64)> {
    let mut scores: Vec<(usize, f64)> = all.left.iter().map(|l| l.pass).zip(all.r2()).collect();
    if let Some(elsewhere) = elsewhere {
        for ((_, r2), elsewhere) in scores.iter_mut().zip(elsewhere.r2()) {
            *r2 += UNSEEN * (elsewhere - *r2);
        }
    }
    scores
}

/// The passes that are ahead, ascending, by the best score of each: at most `most`, `within` so much of the best of all;
/// all where none has a score.
fn ahead(scores: &[(usize, f64)], (within, most): (f64, usize)) -> Vec<usize> {
    let mut best: Vec<(usize, f64)> = Vec::new();
    for &(pass, score) in scores {
        match best.iter_mut().find(|(p, _)| *p == pass) {
            Some((_, b)) => *b = b.max(score),
            None => best.push((pass, score)),
        }
    }
    best.sort_by(|a, b| b.1.total_cmp(&a.1));
    // Above all numbers in that order: not to be taken for the best.
    let (known, unknown): (Vec<_>, Vec<_>) = best.iter().partition(|(_, score)| score.is_finite());
    let of = if known.is_empty() { unknown } else { known };
    let least = of.first().map_or(f64::NAN, |(_, best)| best - within);
    let close = of
        .iter()
        .filter(|(_, score)| least.is_nan() || *score >= least);
    let mut passes: Vec<usize> = close.map(|(pass, _)| *pass).collect();
    if least.is_finite() {
        passes.truncate(most);
    }
    passes.sort_unstable();
    passes
}

#[cfg(test)]
mod tests {
    use super::super::family::{Residual, Truth};
    use super::*;

    #[test]
    fn those_close_to_the_best_are_ahead() {
        let scores = [
            (0, 0.90),
            (0, 0.948),
            (1, 0.95),
            (2, 0.9475),
            (3, 0.94),
            (4, f64::NAN),
        ];
        assert_eq!(ahead(&scores, (0.003, 2)), [0, 1]);
        assert_eq!(ahead(&scores, (0.003, 3)), [0, 1, 2]);
        assert_eq!(
            ahead(&[(0, 0.5), (1, 0.9), (2, f64::NEG_INFINITY)], (0.003, 2)),
            [1]
        );
        assert_eq!(ahead(&[(0, f64::NAN), (1, f64::NAN)], (0.003, 1)), [0, 1]);
        assert_eq!(ahead(&[(3, 0.1)], (0.0, 1)), [3]);
    }

    /// The work that is expected is at most 30 % from that of the race, whether one or both of those that may go on do.
    #[test]
    fn the_work_of_a_race_is_known_from_its_beginning() {
        let lifts = vec![3 * 268 * 3 * 268, 3 * 262 * 3 * 262];
        let experts = [vec![208 * 208; 4], vec![624 * 624; 4]].concat();
        for costs in [lifts, experts] {
            for counts in [[[2, 0], [3, 0]], [[1, 1], [4, 3]]] {
                let expected = expected_work(&costs, counts, 2) as f64;
                let [first, last] = counts.map(|count| count.iter().sum::<u64>());
                let mut ahead = costs.clone();
                ahead.sort_unstable_by(|a, b| b.cmp(a));
                for on in [1, 2] {
                    let all: u64 = costs.iter().sum();
                    let work = first * all + last * ahead[..on].iter().sum::<u64>();
                    let off = expected / work as f64 - 1.0;
                    assert!(off.abs() < 0.3, "{costs:?}, {counts:?}, {on}: {off}");
                }
            }
        }
    }

    #[test]
    fn rounds_hold_every_fold_and_region_once() {
        for (has_regions, first) in [(true, 1), (false, 2)] {
            let [early, late] = rounds(has_regions);
            assert_eq!(
                (early.folds.clone(), early.regions.clone()),
                (0..first, 0..1)
            );
            assert_eq!(late.folds, early.folds.end..usize::MAX);
            assert_eq!(late.regions, early.regions.end..usize::MAX);
        }
    }

    #[test]
    fn a_twentieth_of_the_score_is_of_regions() {
        let mut sums = betz_gram::NormalEquations::zeros(1, 1);
        (sums.steps, sums.output_sum[0], sums.output_sq_sum[0]) = (10, 0.0, 100.0);
        let compared = |residuals: [f64; 3]| Residuals {
            left: (residuals.iter().enumerate())
                .map(|(pass, residual)| Residual {
                    pass,
                    config: pass,
                    residual: vec![*residual],
                    readouts: Vec::new(),
                })
                .collect(),
            truth: Truth::new(&sums),
        };
        let all = compared([5.0, 6.0, 50.0]);
        let got = scores(&all, Some(&compared([45.0, 16.0, f64::NAN])));
        assert!((got[0].1 - 0.93).abs() < 1e-12 && (got[1].1 - 0.935).abs() < 1e-12);
        assert!(got[2].1.is_nan());
        let alone = scores(&all, None);
        assert!((alone[2].1 - 0.5).abs() < 1e-12);
    }
}
