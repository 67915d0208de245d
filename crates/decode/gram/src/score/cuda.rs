//! Scores on a CUDA device: sums over parts of the steps, joined here in the steps' order.

use std::ops::Range;

use rayon::prelude::*;

use super::{Evaluation, ScoreSums};
use crate::decode;
use crate::gram::paired_steps;
use crate::psc::cuda::{Layout, TILE};
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, PinnedBuffer};
use betz_device::{Ran, Room};
use betz_kernels::Part;
use betz_kernels::decode::ScoreParts;
use betz_recording::{DatasetView, Segment};
use betz_runtime::model::Decoder;

/// Steps that one block of threads sums.
const PART_STEPS: usize = 2048;

/// Most steps of a slice when estimates come from the host.
const MOST_SLICE_STEPS: usize = 256 * TILE;

/// Behaviour on its way up, kept between calls: one is filled while the other is copied.
#[derive(Default)]
struct ScoreStaging {
    truth: [Option<PinnedBuffer<f32>>; 2],
    estimates: [Option<PinnedBuffer<f32>>; 2],
}

/// ScoreSums under way: slices of estimates come in, one after another.
struct DeviceScorer<'a> {
    context: &'a Context,
    data: &'a DatasetView<'a>,
    delay_steps: i64,
    /// Segments' paired steps.
    paired: Vec<Segment>,
    staging: Box<ScoreStaging>,
    /// The parts of every slice so far.
    parts: Vec<(Buffer<Part>, usize)>,
}

/// [`evaluate`](super::evaluate) on `context`'s device: behaviour and spikes go up, sums come down.
///
/// # Errors
/// As [`evaluate`](super::evaluate), and those of the device.
pub(super) fn evaluate(
    context: &Context,
    decoder: &Decoder,
    data: &DatasetView<'_>,
) -> Result<Evaluation> {
    evaluate_within(Room::of(context)?, decoder, data)
}

fn evaluate_within(
    room: Room<'_>,
    decoder: &Decoder,
    data: &DatasetView<'_>,
) -> Result<Evaluation> {
    let mut scoring = DeviceScorer::new(room.context, data, decoder.delay_steps())?;
    let extra = 4 * data.outputs.len() + 1;
    decode::cuda::walk(room, extra, decoder, data, |steps, estimates| {
        scoring.add(steps, estimates)
    })?;
    scoring.finish()
}

/// [`score_estimates`](super::score_estimates) on `context`'s device.
///
/// # Errors
/// As [`score_estimates`](super::score_estimates), and those of the device.
pub(super) fn score_estimates(
    context: &Context,
    data: &DatasetView<'_>,
    estimates: &[f32],
    delay_steps: i64,
) -> Result<Evaluation> {
    super::check_estimates(data, estimates)?;
    let width = data.outputs.len();
    let mut scoring = DeviceScorer::new(context, data, delay_steps)?;
    let room = context.available_memory()? as usize / (8 * width + 1) / 2;
    let slice = (room / TILE * TILE).clamp(TILE, MOST_SLICE_STEPS);
    for (number, from) in (0..data.steps).step_by(slice).enumerate() {
        let steps = from..data.steps.min(from + slice);
        let source = &estimates[from * width..steps.end * width];
        let pinned = &mut scoring.staging.estimates[number % 2];
        let pinned = context.pinned_at_least(pinned, source.len())?;
        copy(source, &mut pinned.as_mut_slice()?[..source.len()]);
        let uploaded = context.upload_pinned(pinned, source.len())?;
        scoring.add(steps, &uploaded)?;
    }
    scoring.finish()
}

impl<'a> DeviceScorer<'a> {
    fn new(context: &'a Context, data: &'a DatasetView<'a>, delay_steps: i64) -> Result<Self> {
        super::check_behavior(data)?;
        betz_recording::check_segments(data.segments, data.steps as i64)?;
        let pairs = data.segments.iter();
        let paired = pairs
            .filter_map(|segment| paired_steps(segment, delay_steps))
            .map(|(start, stop)| Segment { start, stop })
            .collect();
        Ok(Self {
            context,
            data,
            delay_steps,
            paired,
            staging: context.take_slot(),
            parts: Vec::new(),
        })
    }

    /// ScoreSums over `steps`, whose estimates are row-major (steps, outputs). Does not wait.
    fn add(&mut self, steps: Range<usize>, estimates: &Buffer<f32>) -> Result<()> {
        let (context, width) = (self.context, self.data.outputs.len());
        let which = self.parts.len() % 2;
        let pinned = &mut self.staging.truth[which];
        let pinned = context.pinned_at_least(pinned, steps.len() * width)?;
        let rows = &mut pinned.as_mut_slice()?[..steps.len() * width];
        // Row t stands for step t − delay; what lies outside the recording is paired with nothing.
        let first = steps.start as i64 - self.delay_steps;
        let last = first + steps.len() as i64;
        let known = first.clamp(0, self.data.steps as i64)..last.clamp(0, self.data.steps as i64);
        let at = (known.start - first).max(0) as usize * width;
        let source = &self.data.behavior[known.start as usize * width..known.end as usize * width];
        if source.len() < rows.len() {
            rows.fill(0.0);
        }
        if !source.is_empty() {
            copy(source, &mut rows[at..at + source.len()]);
        }
        let truth = context.upload_pinned(pinned, steps.len() * width)?;
        let layout = Layout::new(&self.paired, steps.start as i64, steps.end as i64);
        let mask = context.upload(&layout.words)?;
        let count = steps.len().div_ceil(PART_STEPS);
        let mut parts: Buffer<Part> = context.alloc(count * width)?;
        let Some(columns) = u32::try_from(width).ok().filter(|&w| w < 1 << 16) else {
            return Err(Error::device_limit(format!(
                "scores on a device: expected fewer than 65,536 outputs, got {width}"
            )));
        };
        let arguments = ScoreParts {
            truth: truth.read(),
            estimate: estimates.read(),
            paired: mask.read(),
            steps: steps.len() as i32,
            part_steps: PART_STEPS as i32,
            outputs: width as i32,
            parts: parts.write(),
        };
        context
            .load::<ScoreParts>(&[], 0)?
            .launch((count as u32, columns, 1), 256, arguments)?;
        self.parts.push((parts, count * width));
        Ok(())
    }

    fn finish(self) -> Result<Evaluation> {
        let width = self.data.outputs.len();
        let mut sums = vec![ScoreSums::default(); width];
        for (parts, len) in &self.parts {
            let parts = self.context.download(parts, *len)?;
            for row in parts.chunks_exact(width) {
                for (sums, part) in sums.iter_mut().zip(row) {
                    sums.join(&ScoreSums {
                        count: part.count,
                        sum: part.sum,
                        squares: part.squares,
                        residual: part.residual,
                        low: part.low,
                        high: part.high,
                    });
                }
            }
        }
        self.context.put_slot(self.staging);
        if sums.iter().any(|s| s.count == 0.0) {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                super::NO_ROW.to_owned(),
            ));
        }
        let scores = self.data.outputs.iter().zip(&sums);
        Ok(Evaluation {
            outputs: scores
                .map(|(info, s)| s.score(info))
                .collect::<Result<_>>()?,
            steps: self.paired.iter().map(|s| s.len() as u64).sum(),
            segments: self.paired.len() as u64,
            ran: Ran::default(),
        })
    }
}

fn copy(from: &[f32], to: &mut [f32]) {
    to.par_chunks_mut(1 << 15)
        .zip(from.par_chunks(1 << 15))
        .for_each(|(to, from)| to.copy_from_slice(from));
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::cases;
    use betz_runtime::psc::LowPass;
    use betz_testkit::context;

    /// Largest relative error of scores.
    const TOLERANCE: f64 = 1e-9;

    fn close(expected: &Evaluation, got: &Evaluation, what: &str) {
        assert_eq!(
            (expected.steps, expected.segments),
            (got.steps, got.segments)
        );
        for (e, g) in expected.outputs.iter().zip(&got.outputs) {
            assert_eq!((&e.name, &e.unit), (&g.name, &g.unit));
            for (e, g) in [
                (e.r2, g.r2),
                (e.rmse, g.rmse),
                (e.nrmse_range, g.nrmse_range),
                (e.nrmse_std, g.nrmse_std),
            ] {
                let same = e.is_nan() && g.is_nan();
                let near = (e - g).abs() <= TOLERANCE * e.abs().max(1e-3);
                assert!(same || near, "{what}: {e} {g}");
            }
        }
    }

    #[test]
    fn equal_the_cpus_for_any_segments_delays_and_gaps() {
        let Some(context) = context() else { return };
        for case in cases::all() {
            let data = &case.data;
            let width = data.outputs.len();
            let mut estimates: Vec<f32> = (data.behavior.iter().enumerate())
                .map(|(i, x)| x + ((i * 7 % 13) as f32 - 6.0) * 0.1)
                .collect();
            for (i, estimate) in estimates.iter_mut().enumerate() {
                if i % 17 == 3 {
                    *estimate = f32::NAN;
                }
            }
            for delay in [0, 3, -5, 90, 5000, -5000] {
                let name = format!("{}, delay {delay}", case.name);
                let expected = super::super::score_estimates(data, &estimates, delay);
                let got = score_estimates(&context, &data.view(), &estimates, delay);
                match (&expected, &got) {
                    (Ok(expected), Ok(got)) => {
                        close(expected, got, &name);
                        let again =
                            score_estimates(&context, &data.view(), &estimates, delay).unwrap();
                        assert_eq!(format!("{again:?}"), format!("{got:?}"));
                    }
                    (Err(expected), Err(got)) => assert_eq!(expected.kind(), got.kind(), "{name}"),
                    _ => panic!("{name}: {expected:?} {got:?}, {width} outputs"),
                }
            }
        }
    }

    #[test]
    fn a_decoders_scores_equal_the_cpus_however_time_is_cut() {
        let Some(context) = context() else { return };
        let segments = [(5, 9000), (9000, 9001), (9500, 25_000)];
        let spikes = cases::random_spikes(3, 8, 25_000, 40_000);
        let data = cases::dataset(8, &segments, spikes, 2);
        for (delay_steps, low_pass) in [(0, None), (40, Some((3, 20.0))), (-7, None)] {
            let low_pass = low_pass.map(|(order, cutoff_hz)| LowPass { order, cutoff_hz });
            let bank = cases::bank(&[(10.0, 1), (50.0, 2)]);
            let decoder = cases::solved(&data, &bank, low_pass, delay_steps);
            let expected = super::super::evaluate(&decoder, &data).unwrap();
            for memory in [1 << 40, 1_400_000] {
                let got = evaluate_within(
                    Room {
                        context: &context,
                        memory,
                    },
                    &decoder,
                    &data.view(),
                )
                .unwrap();
                assert_eq!(
                    (expected.steps, expected.segments),
                    (got.steps, got.segments)
                );
                for (e, g) in expected.outputs.iter().zip(&got.outputs) {
                    assert!((e.r2 - g.r2).abs() < 1e-6, "{} {}", e.r2, g.r2);
                    assert!(
                        (e.rmse - g.rmse).abs() < 1e-6 * e.rmse,
                        "{} {}",
                        e.rmse,
                        g.rmse
                    );
                }
            }
        }
    }

    /// Far from zero, over several slices' parts; infinite values; a constant output.
    #[test]
    fn sums_keep_their_digits() {
        let Some(context) = context() else { return };
        let mut data = cases::dataset(1, &[(0, 30_000), (30_000, 70_000)], vec![], 3);
        for (i, x) in data.behavior.iter_mut().enumerate() {
            let t = (i / 3) as f32;
            *x = match i % 3 {
                0 => 1e4 + (t * 0.01).sin(),
                1 => 7.0,
                _ => t,
            };
        }
        let mut estimates: Vec<f32> = data.behavior.iter().map(|x| x + 0.25).collect();
        let expected = super::super::score_estimates(&data, &estimates, 11).unwrap();
        let got = score_estimates(&context, &data.view(), &estimates, 11).unwrap();
        close(&expected, &got, "far from zero");
        assert!(got.outputs[1].r2.is_nan());
        estimates[60_000] = f32::INFINITY;
        let error = score_estimates(&context, &data.view(), &estimates, 11).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NonFinite);
    }
}
