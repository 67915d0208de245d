//! A decoder on a recording that is larger than memory: through a session, whose state goes from chunk to chunk.

use std::ops::Range;

use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_device::Ran;
use betz_recording::{Dataset, Segment};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{Session, SessionConfig};

use super::ahead;
use super::job::tell;
use super::{Outline, Read};
use betz_gram::gram::paired_steps;
use betz_gram::score::{Evaluation, ScoreSums, check_outputs, sums_of};

/// A step that was decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodedRow<'a> {
    /// Its number in the recording.
    pub step: i64,
    /// One value an output.
    pub estimate: &'a [f32],
    /// The behaviour at its end; empty where the recording has none.
    pub truth: &'a [f32],
}

/// Decodes the recording that `read` reads, in the chunks between `cuts`, and scores it where it has behaviour;
/// `each` is told of every step inside segments. Estimates are those of [`decode`](betz_gram::decode::decode) in memory,
/// to f32's rounding; scores those of [`evaluate`](betz_gram::evaluate).
///
/// Memory: a chunk.
///
/// # Errors
/// As [`evaluate`](betz_gram::evaluate), without [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData)
/// where there is no behaviour (there are no scores then); what reading and `each` say.
pub fn evaluate(
    decoder: &Decoder,
    read: &mut dyn Read,
    outline: &Outline,
    cuts: &[i64],
    each: &mut dyn FnMut(DecodedRow<'_>) -> Result<()>,
    progress: &dyn Progress,
) -> Result<Evaluation> {
    let mut session = Session::open(decoder, SessionConfig::default())?;
    let width = decoder.outputs().len();
    let delay = decoder.delay_steps();
    let mut all = vec![ScoreSums::default(); width];
    let (mut steps, mut segments) = (0, 0);
    // One step before tells whether a segment goes on; a delay on either side is paired with.
    let around = delay.abs().max(1);
    let reach = |chunk: &Range<i64>| {
        (chunk.start - around).max(0)..chunk.end.saturating_add(around).min(outline.steps)
    };
    let chunks: Vec<Range<i64>> = cuts.windows(2).map(|ends| ends[0]..ends[1]).collect();
    ahead::each(read, &chunks, reach, |done, chunk, data| {
        tell(progress, "decode", done, chunks.len())?;
        let first = reach(chunk).start;
        let labelled = !data.outputs.is_empty();
        if labelled {
            check_outputs(decoder, &data)?;
        }
        let own = chunk.start - first..chunk.end - first;
        for segment in &data.segments {
            let inside = Segment {
                start: segment.start.max(own.start),
                stop: segment.stop.min(own.end),
            };
            if inside.is_empty() {
                continue;
            }
            if inside.start == segment.start {
                session.reset();
                segments += 1;
            }
            steps += inside.len() as u64;
            let estimates = run(&mut session, &data, &inside)?;
            for (i, estimate) in estimates.chunks_exact(width).enumerate() {
                let step = inside.start + i as i64;
                let row = step as usize * width;
                let truth = if labelled {
                    &data.behavior[row..row + width]
                } else {
                    &[]
                };
                each(DecodedRow {
                    step: step + first,
                    estimate,
                    truth,
                })?;
            }
            if labelled {
                join_sums(&mut all, &data, (segment, &inside), delay, &estimates);
            }
        }
        Ok(())
    })?;
    let scored = all.iter().any(|sums| sums.to_array()[0] > 0.0);
    let outputs = match scored {
        true => (all.iter().zip(decoder.outputs()))
            .map(|(sums, output)| sums.score(output))
            .collect::<Result<_>>()?,
        false => Vec::new(),
    };
    Ok(Evaluation {
        outputs,
        steps,
        segments,
        ran: Ran::on_cpu("session"),
    })
}

/// Adds the sums of the `estimates` of `inside`, a part of `segment`, that have behaviour `delay` steps before.
fn join_sums(
    all: &mut [ScoreSums],
    data: &Dataset,
    (segment, inside): (&Segment, &Segment),
    delay: i64,
    estimates: &[f32],
) {
    let Some((from, to)) = paired_steps(segment, delay) else {
        return;
    };
    let (from, to) = (from.max(inside.start), to.min(inside.stop));
    if from >= to {
        return;
    }
    let width = all.len();
    let values = |first: i64| (from - first) as usize * width..(to - first) as usize * width;
    let (truth, own) = (
        &data.behavior[values(delay)],
        &estimates[values(inside.start)],
    );
    let here = sums_of(width, truth, own);
    (all.iter_mut().zip(&here)).for_each(|(all, here)| all.join(here));
}

/// The estimates of the steps of `inside`, (steps, outputs).
fn run(session: &mut Session, data: &Dataset, inside: &Segment) -> Result<Vec<f32>> {
    let width = session.outputs();
    let mut estimates =
        betz_base::memory::filled("decoded outputs", f32::NAN, inside.len() * width)?;
    let weights = &data.spikes.weights;
    let mut values = vec![
        0.0_f32;
        if weights.is_empty() {
            0
        } else {
            session.channels()
        }
    ];
    let mut next = data.spikes.range(inside.start, inside.stop).start;
    for (step, out) in (inside.start..inside.stop).zip(estimates.chunks_exact_mut(width)) {
        let ticks = &data.spikes.ticks[next..];
        let now = next..next + ticks.iter().take_while(|&&t| t == step).count();
        next = now.end;
        let channels = &data.spikes.channels[now.clone()];
        if weights.is_empty() {
            session.step_spikes(channels, out)?;
            continue;
        }
        for i in now {
            values[data.spikes.channels[i] as usize] += weights[i];
        }
        session.step_values(&values, out)?;
        channels.iter().for_each(|&c| values[c as usize] = 0.0);
    }
    Ok(estimates)
}
