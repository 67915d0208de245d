//! The sources of a plan: rigs of blocks, or buses of whole steps.

use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::bus::{Content, Frame, Reception, Source, Stream, open_source};
use betz_rigs::rig::{
    Arrival, Block, Loss, Rig, RigCounts, RigOptions, RigSpike, Samples, Signal, Stamp, host_ns,
};
use betz_runtime::model::Decoder;

use crate::plan::{Plan, Sends, SourcePlan};

/// Opens the sources of a plan, in their order.
///
/// # Errors
/// The errors of the sources, with file, line and key.
pub fn open_rigs(plan: &Plan, model: &Decoder) -> Result<Vec<Box<dyn Rig>>> {
    let numbers = 0..plan.source.len();
    numbers
        .map(|source| open_rig(plan, model, source))
        .collect()
}

/// Opens the source number `source` of a plan.
pub(crate) fn open_rig(plan: &Plan, model: &Decoder, source: usize) -> Result<Box<dyn Rig>> {
    let of = &plan.source[source];
    let refuse = |e: Error| {
        plan.refuse_source(source, "from", e.message())
            .of_kind(e.kind())
    };
    if of.form() == Sends::Samples {
        let options = RigOptions {
            reorder: Some(Duration::from_secs_f64(plan.missing.reorder.seconds())),
            ..rig_options(of)
        };
        return options.open(&of.from).map_err(refuse);
    }
    let outputs: Vec<String> = model.outputs().iter().map(|o| o.name.clone()).collect();
    let channels = match source {
        0 => plan.first_channels(model),
        _ => of.channels.unwrap_or(0),
    };
    let stream = Stream {
        channels,
        outputs: &outputs,
        step_seconds: model.step_seconds(),
    };
    let source = open_source(&of.from, &stream).map_err(|error| {
        // Keys of voltage tell what was meant.
        let is_of_voltage =
            of.from.contains('?') && RigOptions::default().of_address(&of.from).is_ok();
        refuse(
            match is_of_voltage && error.kind() == ErrorKind::InvalidArgument {
                true => Error::argument(format!(
                    "{}; with sends = \"samples\" this address is one of voltage",
                    error.message()
                )),
                false => error,
            },
        )
    })?;
    Ok(step_rig(source, &stream))
}

/// Facts that a plan states about a source of samples beside its address.
fn rig_options(of: &SourcePlan) -> RigOptions {
    RigOptions {
        channels: of.channels,
        rate: of.rate,
        microvolts: of.microvolts,
        buffer: None,
        reorder: None,
    }
}

/// Channels that a plan states of its first source, in its address or beside it; `None` if only the source knows.
pub(crate) fn stated_channels(of: &SourcePlan) -> Option<usize> {
    let options = rig_options(of);
    // Sources of this program have no address that a rig understands.
    options.of_address(&of.from).unwrap_or(options).channels
}

/// A rig of the whole steps that `source` sends, for a plan whose source has `sends = "steps"`: a block per step.
pub fn step_rig(source: Box<dyn Source>, stream: &Stream<'_>) -> Box<dyn Rig> {
    Box::new(StepRig {
        frame: Frame::new(stream.channels),
        source,
        signal: Signal {
            channels: stream.channels,
            rate: 1.0 / stream.step_seconds,
            microvolts: None,
            clock_bits: 64,
        },
        epoch: 0,
        next: None,
    })
}

/// A bus whose frames are steps of the model: a row of features, or the spikes of a step.
struct StepRig {
    source: Box<dyn Source>,
    frame: Frame,
    signal: Signal,
    epoch: u32,
    next: Option<u64>,
}

impl Rig for StepRig {
    fn signal(&self) -> Option<Signal> {
        Some(self.signal.clone())
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        match self.source.take(&mut self.frame, patience)? {
            Reception::Nothing => return Ok(Arrival::Nothing),
            Reception::Ended => return Ok(Arrival::Ended),
            Reception::Step => {}
        }
        let frame = &self.frame;
        if frame.restart {
            (self.epoch, self.next) = (self.epoch + 1, None);
        }
        let first = self.next.map_or(0, |next| next + frame.skipped);
        let room = std::mem::replace(&mut block.samples, Samples::Features(Vec::new()));
        let samples = samples(frame, first, room);
        self.next = Some(first + 1);
        *block = Block {
            epoch: self.epoch,
            first,
            rows: 1,
            host_ns: host_ns() - frame.received.elapsed().as_nanos() as i64,
            lost_before: Loss {
                count: frame.skipped,
                at_least: false,
            },
            samples,
        };
        Ok(Arrival::Block)
    }

    fn stamp(&self) -> Option<Stamp> {
        Some(Stamp {
            sequence: self.frame.sequence,
            sent: self.frame.sent,
        })
    }

    fn counts(&self) -> RigCounts {
        let counts = self.source.counts();
        RigCounts {
            blocks: counts.messages,
            rows: counts.steps,
            lost: counts.lost,
            bounds: 0,
            duplicates: counts.duplicated,
            late: counts.late,
            malformed: counts.malformed,
            dropped_by_host: counts.dropped,
            restarts: counts.restarts,
            reconnects: counts.reconnects,
        }
    }
}

/// The samples of step `tick`, in the room of those of an earlier one. Spikes stay a list, so that those of unknown channels
/// are counted.
fn samples(frame: &Frame, tick: u64, room: Samples) -> Samples {
    if frame.content == Content::Spikes {
        let mut spikes = match room {
            Samples::Spikes(spikes) => spikes,
            Samples::Voltage(_) | Samples::Features(_) => Vec::new(),
        };
        spikes.clear();
        spikes.extend(frame.spikes.iter().map(|channel| RigSpike {
            tick,
            channel: *channel,
            unit: 0,
        }));
        return Samples::Spikes(spikes);
    }
    let mut row = match room {
        Samples::Features(row) => row,
        Samples::Voltage(_) | Samples::Spikes(_) => Vec::new(),
    };
    row.clear();
    match frame.content {
        Content::Counts => row.extend(frame.counts.iter().map(|n| f32::from(*n))),
        Content::Features | Content::Spikes => row.extend(&frame.features),
    }
    Samples::Features(row)
}
