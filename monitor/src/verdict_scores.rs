//! Scores of real recordings: a decoder that is trained on the first half decodes the second, as it is and with half of its channels
//! exchanged or silent, and the session's history and judge follow it second by second.

use betz_gram::decode::decode;
use betz_recording::{Dataset, Recording, Spikes};
use betz_runtime::psc::{Filter, FilterBank};
use betz_runtime::stream::StepStatus;
use betz_train::{Search, TrainOptions, train_validated};

use super::*;
use crate::session_counts::Losses;
use crate::session_history::{SessionHistory, StepFacts};

/// Time constant in seconds and order of each filter: for movements, and for places.
const MOVEMENT: [(f64, u32); 3] = [(0.1, 0), (0.3, 1), (0.8, 0)];
const PLACE: [(f64, u32); 3] = [(0.5, 1), (2.0, 1), (5.0, 1)];

/// A decoder, what it has not seen, and what the judge knows of its training.
struct Trial {
    decoder: betz_runtime::model::Decoder,
    rest: Dataset,
    training: Training,
    /// First step of the rest.
    first: usize,
    /// Step from which channels fail: a third of the rest later.
    fails: usize,
}

/// Verdicts on one replay.
#[derive(Debug, Default)]
struct Replay {
    seconds: usize,
    /// Times at which the score became a cause before anything failed, and after.
    false_verdicts: usize,
    verdicts: usize,
    /// Seconds in which the score was a cause.
    bad: usize,
    watched: usize,
    /// Seconds from the failure to the score as a cause, and to any bad verdict.
    score_after: Option<usize>,
    bad_after: Option<usize>,
}

/// Trains on the first half of the first `seconds` of a recording; `None` if it is not there.
fn trained(file: &str, step_seconds: f64, seconds: f64, bank: &[(f64, u32)]) -> Option<Trial> {
    let recording = Recording::read_npz(&shared(file)?).unwrap();
    let end = seconds.min(recording.seconds());
    let data = recording.align(step_seconds).unwrap();
    let bank = bank
        .iter()
        .map(|&(tau_seconds, order)| Filter { tau_seconds, order });
    let options = TrainOptions::new(FilterBank::new(bank.collect()).unwrap());
    let half = data.between(0.0, end / 2.0).unwrap();
    let decoder = train_validated(&half, &options, &Search::ridge(), &()).unwrap();
    let rest = data.between(end / 2.0, end).unwrap();
    let mut training = Training::of(&decoder);
    training.mean_counts = vec![0.0; half.channels()];
    for (i, &channel) in half.spikes.channels.iter().enumerate() {
        training.mean_counts[channel as usize] += f64::from(half.spikes.weight(i));
    }
    let steps = half.steps_in_segments() as f64;
    training
        .mean_counts
        .iter_mut()
        .for_each(|mean| *mean /= steps);
    let first = rest.segments[0].start as usize;
    let last = rest.segments.last().unwrap().stop as usize;
    Some(Trial {
        decoder,
        training,
        first,
        fails: first + (last - first) / 3,
        rest,
    })
}

impl Trial {
    /// Decodes and judges the rest; from the failure on, a spike of a channel is one of `moved`, or none.
    fn replay(&self, moved: impl Fn(u32) -> Option<u32>) -> Replay {
        let mut rest = self.rest.clone();
        let channels = rest.channels();
        let mut all: Vec<(i64, u32, f32)> = Vec::new();
        for (i, (&tick, &channel)) in rest
            .spikes
            .ticks
            .iter()
            .zip(&rest.spikes.channels)
            .enumerate()
        {
            let to = if tick < self.fails as i64 {
                Some(channel)
            } else {
                moved(channel)
            };
            all.extend(to.map(|to| (tick, to, rest.spikes.weight(i))));
        }
        all.sort_by_key(|&(tick, channel, _)| (tick, channel));
        rest.spikes = Spikes {
            ticks: all.iter().map(|s| s.0).collect(),
            channels: all.iter().map(|s| s.1).collect(),
            weights: all.iter().map(|s| s.2).collect(),
        };
        let estimates = decode(&self.decoder, &rest).unwrap();
        let (step_seconds, outputs) = (rest.step_seconds, rest.outputs.len());
        let names: Vec<String> = rest.channel_names.clone();
        let mut history = SessionHistory::new(channels, outputs);
        let mut judge = Judge::new(channels, step_seconds, Some(&self.training));
        let (mut replay, mut was, mut next) = (Replay::default(), false, 0);
        let second_of = |step: usize| ((step - self.first) as f64 * step_seconds + 1e-9) as i64;
        for step in rest
            .segments
            .iter()
            .flat_map(|s| s.start as usize..s.stop as usize)
        {
            let second = second_of(step);
            if let Some(closed) = history.over(second) {
                let (at, steps, counts) = (closed.at, closed.steps, closed.counts.to_vec());
                history.close();
                let closed = ClosedSecond {
                    at,
                    steps,
                    flags: FlagCounts::default(),
                    counts: &counts,
                };
                let score = (history.score(&judge.variances), history.r2_steps());
                judge.observe(&closed, score, &[], &names);
                replay.seconds += 1;
                let of = |kind| judge.causes.iter().any(|cause| cause.kind == kind);
                let (bad, watched) = (of(CauseKind::Accuracy), of(CauseKind::Slow));
                replay.bad += usize::from(bad);
                replay.watched += usize::from(watched);
                let after = at.checked_sub(second_of(self.fails)).filter(|s| *s >= 0);
                let begins = (bad || watched) && !was;
                replay.false_verdicts += usize::from(begins && after.is_none());
                replay.verdicts += usize::from(begins && after.is_some());
                was = bad || watched;
                let after = after.map(|s| s as usize);
                replay.score_after = replay.score_after.or(after.filter(|_| bad));
                let ill = after.filter(|_| judge.level == Level::Bad);
                replay.bad_after = replay.bad_after.or(ill);
            }
            let begin = next;
            while next < all.len() && all[next].0 <= step as i64 {
                next += 1;
            }
            let spikes: Vec<u32> = (all[begin..next].iter())
                .flat_map(|&(_, channel, n)| std::iter::repeat_n(channel, n as usize))
                .collect();
            let row = step * outputs..(step + 1) * outputs;
            history.step(&StepFacts {
                second,
                spikes: &spikes,
                previous_latency_ns: 0,
                missed: false,
                status: StepStatus::OK,
                estimates: &estimates[row.clone()],
                truth: &rest.behavior[row],
                losses: Losses::default(),
            });
        }
        replay
    }
}

/// A recording and the most seconds to the score as a cause, with channels exchanged and silent.
struct Case {
    file: &'static str,
    step_seconds: f64,
    seconds: f64,
    bank: [(f64, u32); 3],
    most: [usize; 2],
}

#[test]
fn a_decoder_that_got_worse_is_found_by_its_score() {
    let case = |file, step_seconds, bank, most| Case {
        file,
        step_seconds,
        seconds: f64::MAX,
        bank,
        most,
    };
    for Case {
        file,
        step_seconds,
        seconds,
        bank,
        most,
    } in [
        case("reach95.npz", 0.1, MOVEMENT, [30, 90]),
        case("decode/mihi_a.npz", 0.2, MOVEMENT, [35, 35]),
        // The rat leaves its track after 960 s.
        Case {
            seconds: 960.0,
            ..case("linear_track.npz", 0.1, PLACE, [120, 120])
        },
        case("decode/field1.npz", 0.1, PLACE, [120, 240]),
    ] {
        let Some(trial) = trained(file, step_seconds, seconds, &bank) else {
            continue;
        };
        let even = trial.rest.channels() as u32 / 2 * 2;
        let as_it_is = trial.replay(Some);
        // Every second channel takes the place of the next such channel.
        let exchanged = trial.replay(|c| match c % 2 == 0 && c < even {
            true => Some((c + 2) % even),
            false => Some(c),
        });
        let silent = trial.replay(|c| (c % 2 != 0).then_some(c));
        println!(
            "{file}, trained {:.2}: as it is {as_it_is:?}; exchanged {exchanged:?}; silent {silent:?}",
            trial.training.r2.unwrap_or(f64::NAN)
        );
        let quiet = (as_it_is.false_verdicts, as_it_is.verdicts);
        assert_eq!(quiet, (0, 0), "{file}: {as_it_is:?}");
        for (replay, most) in [(exchanged, most[0]), (silent, most[1])] {
            assert_eq!(replay.false_verdicts, 0, "{file}: {replay:?}");
            assert!(
                replay.score_after.is_some_and(|s| s <= most),
                "{file}: {replay:?}"
            );
        }
    }
}
