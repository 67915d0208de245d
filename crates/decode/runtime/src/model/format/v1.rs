//! Format 1: the linear engine, the outputs and the record of training, in a fixed order.

use crate::model::{
    DecoderParts, Head, Limits, LowPass, MAX_CHANNELS, MAX_FILTERS, MAX_OUTPUTS, OutputScore,
    TrainingRecord,
};
use crate::psc::{Filter, FilterBank};
use alloc::vec::Vec;
use betz_base::error::Result;
use betz_base::output::OutputInfo;
use betz_base::wire::{Reader, Writer};

/// The payload as bincode's standard configuration writes it (format 1 was written with it): integers
/// of variable length, f64 little-endian, lists and texts behind their length, an option behind a byte.
pub(super) fn write(parts: &DecoderParts, to: &mut Writer) {
    to.f64(parts.step_seconds);
    to.varint(parts.bank.filters().len() as u64);
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
    parts
        .channel_names
        .iter()
        .for_each(|name| to.var_text(name));
    to.varint(parts.channel_mask.len() as u64);
    parts.channel_mask.iter().for_each(|part| to.flag(*part));
    for list in [&parts.weights, &parts.intercept] {
        to.varint(list.len() as u64);
        list.iter().for_each(|v| to.f64(*v));
    }
    to.varint(parts.outputs.len() as u64);
    for output in &parts.outputs {
        to.var_text(&output.name);
        to.var_text(&output.unit);
    }
    let training = &parts.training;
    to.var_text(&training.betz_version);
    to.varint(training.steps);
    to.varint(training.segments);
    to.varint(training.spikes);
    to.f64(training.ridge);
    to.var_text(&training.gram_path);
    to.var_text(&training.solver);
    to.varint(u64::from(training.folds));
    to.varint(training.scores.len() as u64);
    for score in &training.scores {
        to.var_text(&score.name);
        to.var_text(&score.unit);
        for value in [score.r2, score.rmse, score.nrmse_range, score.nrmse_std] {
            to.f64(value);
        }
    }
}

pub(super) fn read(from: &mut Reader<'_>) -> Result<DecoderParts> {
    let step_seconds = from.at("step_seconds").f64()?;
    let (count, mut filters) = from.at("filters").many(9, MAX_FILTERS)?;
    for _ in 0..count {
        filters.push(Filter {
            tau_seconds: from.at("a filter's tau").f64()?,
            order: from.at("a filter's order").small()?,
        });
    }
    // Complete, and checked, once the sections are read: sampled filters have one of their own.
    let bank = FilterBank::unchecked(filters, Vec::new());
    let low_pass = if from.at("low_pass").flag()? {
        Some(LowPass {
            order: from.at("the low-pass's order").small()?,
            cutoff_hz: from.at("the low-pass's cut-off").f64()?,
        })
    } else {
        None
    };
    let delay_steps = from.at("delay_steps").signed()?;
    let (count, mut channel_names) = from.at("channel_names").many(1, MAX_CHANNELS)?;
    for _ in 0..count {
        channel_names.push(from.at("a channel's name").var_text()?);
    }
    let (count, mut channel_mask) = from.at("channel_mask").many(1, MAX_CHANNELS)?;
    for _ in 0..count {
        channel_mask.push(from.at("channel_mask").flag()?);
    }
    let count = from.at("weights").varint()?;
    let weights = from.at("weights").f64_list(count)?;
    let count = from.at("intercept").varint()?;
    let intercept = from.at("intercept").f64_list(count)?;
    let (count, mut outputs) = from.at("outputs").many(2, MAX_OUTPUTS)?;
    for _ in 0..count {
        outputs.push(OutputInfo {
            name: from.at("an output's name").var_text()?,
            unit: from.at("an output's unit").var_text()?,
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
        channel_means: Vec::new(),
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
        betz_version: from.at("betz_version").var_text()?,
        steps: from.at("steps").varint()?,
        segments: from.at("segments").varint()?,
        spikes: from.at("spikes").varint()?,
        ridge: from.at("ridge").f64()?,
        gram_path: from.at("gram_path").var_text()?,
        solver: from.at("solver").var_text()?,
        folds: from.at("folds").small()?,
        scores: Vec::new(),
    };
    let (count, mut scores) = from.at("scores").many(34, MAX_OUTPUTS)?;
    for _ in 0..count {
        scores.push(OutputScore {
            name: from.at("a score's name").var_text()?,
            unit: from.at("a score's unit").var_text()?,
            r2: from.at("r2").f64()?,
            rmse: from.at("rmse").f64()?,
            nrmse_range: from.at("nrmse_range").f64()?,
            nrmse_std: from.at("nrmse_std").f64()?,
        });
    }
    record.scores = scores;
    Ok(record)
}
