//! `betz record nwb`: a recorded session as an NWB file.

use std::path::Path;

use betz::{Error, Result, recording};
use betz_interop::nwb::{
    DecodedOutputs, Moment, Session, SessionParts, SessionTrial, SessionVoltage, TakeRows,
    WriteOptions, write_session,
};
use betz_interop::rig::Samples;
use betz_interop::rig::notes::NoteContent;
use betz_live::bin_recording;
use betz_live::plan::Feature;
use betz_live::record::{Damage, Reader, Record, Recording};
use serde::Serialize;

use super::args::Nwb;
use super::print_damage;
use crate::files::{Files, Kind};
use crate::report::{self, Outcome};

/// Rows of zeros that stand for lost ones at once.
const AT_ONCE: u64 = 4096;

#[derive(Serialize)]
struct NwbReport {
    steps: i64,
    outputs: usize,
    labels: usize,
    trials: usize,
    marks: usize,
    /// Rows of voltage, lost ones included; 0 if it was left out.
    rows: u64,
    /// Rows of voltage that were lost.
    lost: u64,
    /// Rows that are left out because the device had started again before them.
    rows_after_restart: u64,
    /// True if the voltage is left out because the channels are sorted units.
    without_voltage: bool,
    damage: Damage,
}

pub(super) fn run(args: &Nwb) -> Result<()> {
    Files::new(&args.common).writes("--out", &args.out, Kind::Nwb)?;
    let recorded = Recording::open(&args.folder)?;
    let step = recorded.model.step_seconds();
    let contents = Contents::read(&args.folder, recorded.facts.rate, step)?;
    let units = recorded.plan.voltage.feature == Feature::Units;
    let facts = recorded.facts.clone();
    let (name, outputs) = (
        recorded.plan.session.name.clone(),
        recorded.model.outputs().to_vec(),
    );
    let features = features(recorded, step)?;

    let start = Moment::of_epoch(facts.unix_seconds as i64)?;
    let mut session = Session::begun(start);
    session.description = format!("{name}: a session that `betz run` recorded");
    let mut options = WriteOptions::new(session);
    if !contents.times.is_empty() {
        options.decoded = Some(DecodedOutputs {
            by: "the session's model, in real time".into(),
            outputs,
            times: contents.times.clone(),
            values: contents.values.clone(),
        });
    }
    let mut read = |take: TakeRows<'_>| give_voltage(&args.folder, facts.channels, take);
    let microvolts = facts.microvolts.filter(|_| facts.voltage);
    let voltage = match microvolts {
        Some(microvolts) if contents.rows > 0 && !args.no_voltage && !units => {
            Some(SessionVoltage {
                channels: facts.channels,
                rate: facts.rate,
                microvolts,
                start_seconds: 0.0,
                rows: contents.rows,
                read: &mut read,
            })
        }
        _ => None,
    };
    let told = NwbReport {
        steps: features.ticks,
        outputs: contents.times.len(),
        labels: contents.labels,
        trials: contents.trials.len(),
        marks: contents.marks.len(),
        rows: voltage.as_ref().map_or(0, |v| v.rows),
        lost: contents.lost_rows,
        rows_after_restart: contents.after_restart,
        without_voltage: units && facts.voltage,
        damage: contents.damage,
    };
    let mut parts = SessionParts {
        voltage,
        trials: contents.trials,
        marks: contents.marks,
        lost: contents.lost,
    };
    write_session(&features, &args.out, &options, &mut parts)?;
    report::tell(&told, args.common.json)
}

/// The features of each step, with the labels as behaviour.
fn features(mut recorded: Recording, step: f64) -> Result<recording::Recording> {
    let plan = recorded.plan.clone();
    let noise = recorded.facts.noise.clone();
    let bins = bin_recording(&mut recorded, step, noise.as_deref())?;
    let outputs = match recorded.labels.is_empty() {
        true => Vec::new(),
        false => recorded.model.outputs().to_vec(),
    };
    bins.into_recording(&plan, outputs, &|step, _| {
        recorded.labels.get(&step).cloned()
    })
}

/// Everything of a recording but its voltage and its features. Times are in seconds since its first row.
#[derive(Default)]
struct Contents {
    /// Ends of the steps, ascending, and their outputs.
    times: Vec<f64>,
    values: Vec<f32>,
    labels: usize,
    trials: Vec<SessionTrial>,
    marks: Vec<(f64, String)>,
    lost: Vec<[f64; 2]>,
    /// Rows of voltage, those lost between them included.
    rows: u64,
    lost_rows: u64,
    after_restart: u64,
    damage: Damage,
}

impl Contents {
    fn read(folder: &Path, rate: f64, step_seconds: f64) -> Result<Self> {
        let mut reader = Reader::open(folder)?;
        let mut contents = Self::default();
        let mut rows = Rows::default();
        let mut begun: Option<f64> = None;
        while let Some(record) = reader.next_record()? {
            match record {
                Record::Block(0, block) if block.epoch > 0 => {
                    contents.after_restart += block.rows as u64
                }
                Record::Block(0, block) => {
                    let (missing, new) = rows.take(block.first, block.rows as u64);
                    if missing > 0 {
                        let end = (contents.rows + missing) as f64 / rate;
                        contents.lost.push([contents.rows as f64 / rate, end]);
                    }
                    contents.lost_rows += missing;
                    contents.rows += missing + new;
                }
                Record::Step { number, values, .. } => {
                    let end = (number + 1) as f64 * step_seconds;
                    // A step that was recorded twice would be damage.
                    if contents.times.last().is_none_or(|last| *last < end)
                        && values.iter().all(|v| v.is_finite())
                    {
                        contents.times.push(end);
                        contents.values.extend(values);
                    }
                }
                Record::Note { step, content } => {
                    let at = step as f64 * step_seconds;
                    match content {
                        NoteContent::Label(_) => contents.labels += 1,
                        NoteContent::Mark(text) => contents.marks.push((at, text)),
                        NoteContent::TrialBegin => begun = Some(at),
                        NoteContent::TrialEnd | NoteContent::TrialReject => {
                            let learn = content == NoteContent::TrialEnd;
                            // An end without a begin is no trial.
                            contents
                                .trials
                                .extend(begun.take().map(|start| SessionTrial {
                                    start,
                                    stop: at,
                                    learn,
                                }));
                        }
                    }
                }
                _ => {}
            }
        }
        contents.marks.sort_by(|a, b| a.0.total_cmp(&b.0));
        contents.damage = reader.damage();
        Ok(contents)
    }
}

/// The next row of voltage.
#[derive(Default)]
struct Rows(Option<u64>);

impl Rows {
    /// Rows that are missing before a block, and its rows that did not come before.
    fn take(&mut self, first: u64, rows: u64) -> (u64, u64) {
        let next = *self.0.get_or_insert(first);
        let end = first.saturating_add(rows);
        let new = end.saturating_sub(next).min(rows);
        self.0 = Some(next.max(end));
        (first.saturating_sub(next), new)
    }
}

/// Reads the voltage of a recording; lost rows are 0.
fn give_voltage(folder: &Path, channels: usize, take: TakeRows<'_>) -> Result<()> {
    let mut reader = Reader::open(folder)?;
    let mut rows = Rows::default();
    let zeros = vec![0_i16; AT_ONCE as usize * channels];
    while let Some(record) = reader.next_record()? {
        let Record::Block(0, block) = record else {
            continue;
        };
        let Samples::Voltage(voltage) = &block.samples else {
            continue;
        };
        if block.epoch > 0 {
            continue;
        }
        if voltage.len() != block.rows * channels {
            return Err(Error::recording(format!(
                "recording: expected {} rows of {channels} channels at row {}, got {} samples",
                block.rows,
                block.first,
                voltage.len()
            )));
        }
        let (mut missing, new) = rows.take(block.first, block.rows as u64);
        while missing > 0 {
            let now = missing.min(AT_ONCE);
            take(&zeros[..now as usize * channels])?;
            missing -= now;
        }
        take(&voltage[(block.rows - new as usize) * channels..])?;
    }
    Ok(())
}

impl Outcome for NwbReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}, {}, {}, {}, {}",
            report::count(self.steps as u64, "step"),
            report::count(self.outputs as u64, "output row"),
            report::count(self.labels as u64, "label"),
            report::count(self.trials as u64, "trial"),
            report::count(self.marks as u64, "mark")
        ))?;
        report::line(&match (self.rows, self.without_voltage) {
            (_, true) => "voltage: left out, because the channels are sorted units".into(),
            (0, _) => "voltage: none".into(),
            (rows, _) => format!(
                "voltage: {}, {} of them lost and written as 0",
                report::count(rows, "row"),
                self.lost
            ),
        })?;
        if self.rows_after_restart > 0 {
            report::line(&format!(
                "left out: {} after a restart of the device",
                report::count(self.rows_after_restart, "row")
            ))?;
        }
        print_damage(&self.damage)
    }
}
