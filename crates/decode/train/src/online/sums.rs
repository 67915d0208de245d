//! Sums that forget by labelled time.

use super::assemble::Trial;
use crate::latents::targets;
use betz_base::error::Result;
use betz_gram::NormalEquations;
use betz_gram::gram::dense::BLOCK_STEPS;
use betz_gram::gram::{GramPath, normal_equations, paired_steps};
use betz_gram::psc::{Block, Responses};
use betz_recording::{DatasetView, Segment, SpikesView};
use betz_runtime::psc::{FilterBank, LowPass};

/// Sums in which older steps count less.
#[derive(Clone)]
pub(super) struct FadingSums {
    sums: NormalEquations,
    /// Steps that are left of those that were added.
    pub(super) steps: f64,
}

/// The data of a trial's sums.
pub(super) struct TrialSource<'a> {
    pub(super) bank: &'a FilterBank,
    pub(super) low_pass: Option<LowPass>,
    pub(super) delay_steps: i64,
    /// The outputs are targets of latents, made of the labels.
    pub(super) targets: bool,
}

impl FadingSums {
    pub(super) fn new(sums: NormalEquations) -> Self {
        Self {
            steps: sums.steps as f64,
            sums,
        }
    }

    /// Restores the sums from the result of [`parts`](Self::parts).
    pub(super) fn from_parts(sums: NormalEquations, steps: f64) -> Self {
        Self { sums, steps }
    }

    /// The sums, whose own number of steps means nothing, and the steps that they count.
    pub(super) fn parts(&self) -> (&NormalEquations, f64) {
        (&self.sums, self.steps)
    }

    /// Multiplies the weight of everything added before by `share`.
    pub(super) fn forget(&mut self, share: f64) {
        self.steps *= share;
        let sums = &mut self.sums;
        let lists = [
            &mut sums.gram,
            &mut sums.upsilon,
            &mut sums.feature_sum,
            &mut sums.output_sum,
            &mut sums.output_sq_sum,
        ];
        for list in lists {
            list.iter_mut().for_each(|v| *v *= share);
        }
    }

    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for sums of another shape.
    pub(super) fn add(&mut self, trial: &NormalEquations) -> Result<()> {
        self.sums.steps = 0;
        self.sums.add(trial)?;
        self.steps += trial.steps as f64;
        Ok(())
    }

    /// The sums with a whole number of steps, all scaled alike: what they are solved to is the same at a
    /// ridge that is scaled too.
    pub(super) fn whole(&self) -> NormalEquations {
        let steps = self.steps.round().max(1.0);
        let mut copy = Self {
            sums: self.sums.clone(),
            steps: self.steps,
        };
        copy.forget(steps / self.steps.max(f64::MIN_POSITIVE));
        copy.sums.steps = steps as u64;
        copy.sums
    }
}

/// Steps whose responses are in memory at once.
const BLOCK: usize = 256;

/// Bytes that [`of_trial`] takes at most, besides the trial's own: its result, two sums that it is made of, the
/// parts of one of them, and a block of responses.
pub(super) fn bytes(features: usize) -> usize {
    let sums = 6_usize.saturating_mul(features).saturating_mul(features);
    let responses = (BLOCK_STEPS + 2 * BLOCK).saturating_mul(features);
    sums.saturating_add(responses)
        .saturating_mul(size_of::<f64>())
}

/// The sums over the labelled steps of `trial` with the spikes `spikes`. Filters remember what was before
/// each run.
///
/// # Errors
/// The same as for [`normal_equations`].
pub(super) fn of_trial(
    trial: &Trial,
    spikes: SpikesView<'_>,
    over: &TrialSource<'_>,
) -> Result<NormalEquations> {
    let runs: Vec<Segment> = (trial.labelled.iter())
        .map(|run| Segment {
            start: run.start as i64,
            stop: run.end as i64,
        })
        .collect();
    let labels = DatasetView {
        spikes,
        segments: &runs,
        ..trial.data.view()
    };
    let made = over.targets.then(|| targets(&labels));
    let view = made.as_ref().map_or(labels, |made| made.view(&labels));
    let features = view.channels() * over.bank.len();
    if by_label_is_cheaper(&view, over) {
        return by_label(&view, over);
    }
    let mut sums = NormalEquations::zeros(features, view.outputs.len());
    for run in &runs {
        if run.stop.abs_diff(run.start) > over.delay_steps.unsigned_abs() {
            sums.add(&of_run(&view, run, over)?)?;
        }
    }
    Ok(sums)
}

/// The sums of `run`: those up to its end without those up to its begin.
fn of_run(
    view: &DatasetView<'_>,
    run: &Segment,
    over: &TrialSource<'_>,
) -> Result<NormalEquations> {
    let up_to = |stop: i64| {
        let segment = [Segment { start: 0, stop }];
        let view = DatasetView {
            segments: &segment,
            ..*view
        };
        let (low_pass, delay) = (over.low_pass, over.delay_steps);
        normal_equations(view, over.bank, low_pass, delay, GramPath::Auto, &()).map(|s| s.0)
    };
    let mut sums = up_to(run.stop)?;
    // From rest, pairs that lie outside the trial are left out by themselves.
    if run.start > 0 {
        let shift = over.delay_steps.unsigned_abs();
        sums.subtract(&up_to(run.start.saturating_add_unsigned(shift))?)?;
    }
    Ok(sums)
}

/// True where the products of the labelled steps alone cost less than the sums up to each run's end and begin.
/// Labels that come every hundredth step are as many runs as labels.
fn by_label_is_cheaper(view: &DatasetView<'_>, over: &TrialSource<'_>) -> bool {
    let runs = view.segments.len() as f64;
    let labels: u64 = (view.segments.iter())
        .map(|run| run.stop.abs_diff(run.start))
        .sum();
    let features = (view.channels() * over.bank.len()) as f64;
    let states = over.bank.step_cost();
    let each_way = features / 2.0;
    let spikes = 2.0 * view.spikes.ticks.len() as f64 * states;
    let up_to = spikes.min(view.steps as f64 * each_way);
    labels as f64 * each_way < runs * up_to
}

/// The sums over all pairs in the segments of `view`, whose filters begin at rest with the dataset.
fn by_label(view: &DatasetView<'_>, over: &TrialSource<'_>) -> Result<NormalEquations> {
    let whole = [Segment {
        start: 0,
        stop: view.steps as i64,
    }];
    let all = DatasetView {
        segments: &whole,
        ..*view
    };
    let mut responses = Responses::new(all, over.bank, over.low_pass)?;
    let (features, outputs) = (responses.features(), view.outputs.len());
    let mut sums = NormalEquations::zeros(features, outputs);
    let mut pairs = (view.segments.iter())
        .filter_map(|run| paired_steps(run, over.delay_steps))
        .flat_map(|(first, stop)| first..stop)
        .peekable();
    let mut block = Block::<f32>::default();
    let mut response = vec![0.0; features];
    while pairs.peek().is_some() && responses.next_block(BLOCK, &mut block) {
        let (first, columns) = (block.steps[0] as i64, block.steps.len());
        while let Some(step) = pairs.next_if(|&step| step < first + columns as i64) {
            let column = (step - first) as usize;
            for (value, row) in response.iter_mut().zip(block.values.chunks_exact(columns)) {
                *value = f64::from(row[column]);
            }
            let truth = (step - over.delay_steps) as usize * outputs;
            add_pair(&mut sums, &response, &view.behavior[truth..][..outputs]);
        }
    }
    for i in 0..features {
        for j in 0..i {
            sums.gram[j * features + i] = sums.gram[i * features + j];
        }
    }
    Ok(sums)
}

/// Adds one step's response and behaviour; to Γ on and below its diagonal.
fn add_pair(sums: &mut NormalEquations, response: &[f64], behavior: &[f32]) {
    let (features, outputs) = (sums.features, sums.outputs);
    sums.steps += 1;
    for (i, &a) in response.iter().enumerate() {
        if a == 0.0 {
            continue;
        }
        let row = &mut sums.gram[i * features..][..=i];
        row.iter_mut()
            .zip(response)
            .for_each(|(sum, b)| *sum += a * b);
        sums.feature_sum[i] += a;
        let row = &mut sums.upsilon[i * outputs..][..outputs];
        (row.iter_mut().zip(behavior)).for_each(|(sum, &x)| *sum += a * f64::from(x));
    }
    let totals = sums.output_sum.iter_mut().zip(&mut sums.output_sq_sum);
    for ((sum, square), &x) in totals.zip(behavior) {
        *sum += f64::from(x);
        *square += f64::from(x).powi(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_gram::cases;

    fn spikes() -> Vec<(i64, u32)> {
        (0..400).map(|i| (i * 3 / 4, (i * 7 % 5) as u32)).collect()
    }

    /// A trial's sums know variances wherever a channel's zero is, by label and by run.
    #[test]
    fn a_trial_far_from_zero_keeps_its_digits() {
        let bank = cases::bank(&[(1.0 / 40.0, 0)]);
        let all = (0..3000).flat_map(|t| (0..4).map(move |c| (t, c)));
        let mut data = cases::dataset(4, &[(0, 3000)], all.collect(), 1);
        let value = |t: i64, c: u32| ((t * (7 + i64::from(c) * 4)) % 101) as f32;
        let ticks = data.spikes.ticks.iter().zip(&data.spikes.channels);
        data.spikes.weights = ticks.map(|(&t, &c)| 1e4 + value(t, c)).collect();
        let over = TrialSource {
            bank: &bank,
            low_pass: None,
            delay_steps: 0,
            targets: false,
        };
        for labelled in [
            std::iter::once(100..2900).collect::<Vec<_>>(),
            (0..29).map(|i| i * 100..i * 100 + 2).collect(),
        ] {
            let trial = Trial {
                labelled,
                data: data.clone(),
            };
            let sums = of_trial(&trial, data.spikes.view(), &over).unwrap();
            let steps = trial.labelled.iter().cloned().flatten();
            let values: Vec<Vec<f64>> = (0..4)
                .map(|c| {
                    steps
                        .clone()
                        .map(|t| f64::from(value(t as i64, c)))
                        .collect()
                })
                .collect();
            let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
            for i in 0..4 {
                for j in 0..4 {
                    let about = |v: &[f64]| v.iter().map(|x| x - mean(v)).collect::<Vec<_>>();
                    let product =
                        |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                    let (a, b) = (about(&values[i]), about(&values[j]));
                    let scale = (product(&a, &a) * product(&b, &b)).sqrt();
                    let got = sums.gram[i * 4 + j] - sums.feature_sum[i] * sums.feature_mean()[j];
                    let error = (got - product(&a, &b)).abs() / scale;
                    assert!(error < 1e-5, "{i}, {j}: {error:e}");
                }
            }
        }
    }

    /// Runs anywhere, delays both ways, a low-pass: both ways make the same sums.
    #[test]
    fn sums_by_label_are_those_of_the_runs() {
        let bank = cases::bank(&[(40.0, 0), (120.0, 1)]);
        let low_pass = LowPass {
            order: 2,
            cutoff_hz: 3.0,
        };
        for (delay_steps, low_pass) in [(0, None), (4, None), (-3, Some(low_pass))] {
            let data = cases::dataset(5, &[(0, 300)], spikes(), 2);
            let trial = Trial {
                labelled: vec![0..3, 10..11, 20..60, 100..101, 290..300],
                data,
            };
            let over = TrialSource {
                bank: &bank,
                low_pass,
                delay_steps,
                targets: false,
            };
            let runs: Vec<Segment> = (trial.labelled.iter())
                .map(|run| Segment {
                    start: run.start as i64,
                    stop: run.end as i64,
                })
                .collect();
            let view = DatasetView {
                segments: &runs,
                ..trial.data.view()
            };
            let by_label = by_label(&view, &over).unwrap();
            let mut by_run = NormalEquations::zeros(by_label.features, by_label.outputs);
            let longer = |run: &&Segment| (run.stop - run.start) > delay_steps.abs();
            for run in runs.iter().filter(longer) {
                by_run.add(&of_run(&view, run, &over).unwrap()).unwrap();
            }
            assert_eq!(by_label.steps, by_run.steps);
            let lists = |s: &NormalEquations| {
                let all = [
                    &s.gram,
                    &s.upsilon,
                    &s.feature_sum,
                    &s.output_sum,
                    &s.output_sq_sum,
                ];
                all.map(Clone::clone).concat()
            };
            for (a, b) in lists(&by_label).iter().zip(lists(&by_run)) {
                assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{a} {b}");
            }
        }
    }
}
