//! Format 1: the linear engine, the outputs and the record of training, in a fixed order.

use super::wire::{Reader, Writer};
use crate::model::{
    DecoderParts, Head, Limits, LowPass, MAX_CHANNELS, MAX_FILTERS, MAX_OUTPUTS, OutputScore,
    TrainingRecord,
};
use crate::psc::{Filter, FilterBank};
use betz_base::error::{Error, ErrorKind, Result};
use betz_recording::OutputInfo;

/// The payload as bincode's standard configuration writes it (format 1 was written with it): integers
/// of variable length, f64 little-endian, lists and texts behind their length, an option behind a byte.
pub(super) fn write(parts: &DecoderParts, to: &mut Writer<'_>) {
    to.f64(parts.step_seconds);
    to.varint(parts.bank.len() as u64);
    for filter in parts.bank.filters() {
        to.f64(filter.tau_seconds);
        to.varint(u64::from(filter.order));
    }
    to.flag(parts.low_pass.is_some());
    if let Some(low_pass) = parts.low_pass {
        to.varint(u64::from(low_pass.order));
        to.f64(low_pass.cutoff_hz);
    }
    to.signed(parts.delay_steps);
    to.varint(parts.channel_names.len() as u64);
    parts.channel_names.iter().for_each(|name| to.text(name));
    to.varint(parts.channel_mask.len() as u64);
    parts.channel_mask.iter().for_each(|part| to.flag(*part));
    for list in [&parts.weights, &parts.intercept] {
        to.varint(list.len() as u64);
        list.iter().for_each(|v| to.f64(*v));
    }
    to.varint(parts.outputs.len() as u64);
    for output in &parts.outputs {
        to.text(&output.name);
        to.text(&output.unit);
    }
    let training = &parts.training;
    to.text(&training.betz_version);
    to.varint(training.steps);
    to.varint(training.segments);
    to.varint(training.spikes);
    to.f64(training.ridge);
    to.text(&training.gram_path);
    to.text(&training.solver);
    to.varint(u64::from(training.folds));
    to.varint(training.scores.len() as u64);
    for score in &training.scores {
        to.text(&score.name);
        to.text(&score.unit);
        for value in [score.r2, score.rmse, score.nrmse_range, score.nrmse_std] {
            to.f64(value);
        }
    }
}

pub(super) fn read(from: &mut Reader<'_>) -> Result<DecoderParts> {
    let step_seconds = from.f64("step_seconds")?;
    let (count, mut filters) = from.many((9, MAX_FILTERS), "filters")?;
    for _ in 0..count {
        filters.push(Filter {
            tau_seconds: from.f64("a filter's tau")?,
            order: from.small("a filter's order")?,
        });
    }
    let bank =
        FilterBank::new(filters).map_err(|e| Error::new(ErrorKind::InvalidModel, e.message()))?;
    let low_pass = if from.flag("low_pass")? {
        Some(LowPass {
            order: from.small("the low-pass's order")?,
            cutoff_hz: from.f64("the low-pass's cut-off")?,
        })
    } else {
        None
    };
    let delay_steps = from.signed("delay_steps")?;
    let (count, mut channel_names) = from.many((1, MAX_CHANNELS), "channel_names")?;
    for _ in 0..count {
        channel_names.push(from.text("a channel's name")?);
    }
    let (count, mut channel_mask) = from.many((1, MAX_CHANNELS), "channel_mask")?;
    for _ in 0..count {
        channel_mask.push(from.flag("channel_mask")?);
    }
    let count = from.varint("weights")?;
    let weights = from.list_of(count, "weights")?;
    let count = from.varint("intercept")?;
    let intercept = from.list_of(count, "intercept")?;
    let (count, mut outputs) = from.many((2, MAX_OUTPUTS), "outputs")?;
    for _ in 0..count {
        outputs.push(OutputInfo {
            name: from.text("an output's name")?,
            unit: from.text("an output's unit")?,
        });
    }
    let training = training(from)?;
    Ok(DecoderParts {
        step_seconds,
        bank,
        low_pass,
        delay_steps,
        channel_names,
        channel_mask,
        weights,
        intercept,
        head: Head::Linear,
        outputs,
        limits: Limits::default(),
        training,
        attachments: Vec::new(),
    })
}

fn training(from: &mut Reader<'_>) -> Result<TrainingRecord> {
    let mut record = TrainingRecord {
        betz_version: from.text("betz_version")?,
        steps: from.varint("steps")?,
        segments: from.varint("segments")?,
        spikes: from.varint("spikes")?,
        ridge: from.f64("ridge")?,
        gram_path: from.text("gram_path")?,
        solver: from.text("solver")?,
        folds: from.small("folds")?,
        scores: Vec::new(),
    };
    let (count, mut scores) = from.many((34, MAX_OUTPUTS), "scores")?;
    for _ in 0..count {
        scores.push(OutputScore {
            name: from.text("a score's name")?,
            unit: from.text("a score's unit")?,
            r2: from.f64("r2")?,
            rmse: from.f64("rmse")?,
            nrmse_range: from.f64("nrmse_range")?,
            nrmse_std: from.f64("nrmse_std")?,
        });
    }
    record.scores = scores;
    Ok(record)
}
