//! A recorded session as one NWB file.

use std::path::Path;

use betz::recording::{Recording as Binned, Segment, SpikeForm, Spikes};
use betz::{ErrorKind, Result};
use betz_formats::nwb::{
    DecodedOutputs, Moment, ReadRows, SeriesKind, Session, SessionElectrodes, SessionParts,
    SessionSeries, SessionUnit, TakeRows, WriteOptions, write_session,
};
use betz_live::bin_recording;
use betz_live::plan::{Feature, Gives};
use betz_live::record::Recording;

use super::survey::{Epoch, Form, LineChange, Survey, rows};
use super::{Export, UnitSpikes};
use crate::files::{Files, Kind};

/// Hands the rows of an epoch to whoever takes them.
type RowReader<'a, T> = Box<dyn FnMut(TakeRows<'_, T>) -> Result<()> + 'a>;

/// Reader of the rows of an epoch.
enum Reader<'a> {
    Voltage(RowReader<'a, i16>),
    Features(RowReader<'a, f32>),
}

/// Writes the file; returns the number of bins with features.
pub(super) fn write(
    args: &Export,
    recorded: Recording,
    survey: Survey,
    units: Vec<UnitSpikes>,
) -> Result<i64> {
    Files::new(&args.common).writes("--out", &args.out, Kind::Nwb)?;
    let options = options(args, &recorded, &survey)?;
    let (several, sorted) = (
        recorded.plan.source.len() > 1,
        recorded.plan.voltage.feature == Feature::Units,
    );
    let gives_lines: Vec<bool> = (recorded.plan.source.iter())
        .map(|source| source.gives == Gives::Lines)
        .collect();
    let features = features(recorded)?;
    // Analogue inputs beside digital lines are no electrodes.
    let is_plain = |epoch: &Epoch| {
        args.plain_voltage || gives_lines.get(epoch.source).copied().unwrap_or(false)
    };
    let has_voltage = |epoch: &&Epoch| {
        epoch.form == Form::Voltage && epoch.facts.microvolts.is_some() && !args.no_voltage
    };
    // Without sorting, the electrodes of a single source are the channels of the features.
    let of_features =
        |epoch: &Epoch| !several && !sorted && epoch.facts.channels == features.channel_names.len();
    let mut electrodes: Vec<(usize, SessionElectrodes)> = Vec::new();
    for epoch in (survey.epochs.iter()).filter(|epoch| !is_plain(epoch) && has_voltage(epoch)) {
        if !of_features(epoch) && electrodes.iter().all(|of| of.0 != epoch.source) {
            let source = survey.sources[epoch.source].clone();
            let channels = epoch.facts.channels;
            electrodes.push((epoch.source, SessionElectrodes { source, channels }));
        }
    }
    let written: Vec<&Epoch> = (survey.epochs.iter())
        .filter(|epoch| epoch.form == Form::Features || has_voltage(epoch))
        .collect();
    let mut readers: Vec<Reader<'_>> = (written.iter())
        .map(|epoch| reader(&args.folder, epoch))
        .collect();
    let mut parts = SessionParts {
        units: (units.into_iter())
            .map(|unit| unit_of(&survey, unit))
            .collect(),
        trials: survey.trials.clone(),
        marks: survey.marks.clone(),
        lines: lines(&survey),
        events: survey.events.clone(),
        status: (survey.steps.iter())
            .map(|step| (step.seconds, step.status))
            .collect(),
        lost: survey.lost(),
        ..SessionParts::default()
    };
    for (epoch, reader) in written.iter().zip(&mut readers) {
        let before = electrodes.iter().take_while(|of| of.0 != epoch.source);
        let electrode = match of_features(epoch) {
            _ if is_plain(epoch) => None,
            true => Some(0),
            false => {
                Some(features.channel_names.len() + before.map(|of| of.1.channels).sum::<usize>())
            }
        };
        parts.series.push(series(&survey, epoch, electrode, reader));
    }
    parts.electrodes = electrodes.into_iter().map(|of| of.1).collect();
    write_session(&features, &args.out, &options, &mut parts)?;
    Ok(features.ticks)
}

fn reader<'a>(folder: &'a Path, epoch: &'a Epoch) -> Reader<'a> {
    match epoch.form {
        Form::Voltage => Reader::Voltage(Box::new(|take| rows(folder, epoch, take))),
        Form::Features | Form::Spikes => {
            Reader::Features(Box::new(|take| rows(folder, epoch, take)))
        }
    }
}

/// The series of an epoch's rows; voltage without an electrode is in microvolts.
fn series<'a>(
    survey: &Survey,
    epoch: &Epoch,
    electrode: Option<usize>,
    reader: &'a mut Reader<'_>,
) -> SessionSeries<'a> {
    let (what, kind) = match reader {
        Reader::Voltage(read) => {
            let read: ReadRows<'a, i16> = read;
            let microvolts = epoch.facts.microvolts.unwrap_or(1.0);
            let kind = match electrode {
                Some(electrode) => SeriesKind::Voltage {
                    electrode,
                    microvolts,
                    read,
                },
                None => SeriesKind::Microvolts { microvolts, read },
            };
            ("voltage", kind)
        }
        Reader::Features(read) => {
            let read: ReadRows<'a, f32> = read;
            ("features", SeriesKind::Features { read })
        }
    };
    // A single series needs no other name.
    let name = match survey
        .epochs
        .iter()
        .filter(|e| e.form == epoch.form)
        .count()
    {
        1 => what.to_owned(),
        _ => format!("{what}_{}", survey.name(epoch)),
    };
    SessionSeries {
        name,
        channels: epoch.facts.channels,
        rate: epoch.facts.rate,
        start_seconds: epoch.start_seconds,
        rows: epoch.rows,
        kind,
    }
}

/// Times and texts of the changes of digital lines, such as `nsp/1 up`.
fn lines(survey: &Survey) -> Vec<(f64, String)> {
    let text = |change: &LineChange| {
        let way = if change.edge.is_up { "up" } else { "down" };
        let (source, line) = (&survey.sources[change.source], change.edge.line);
        (change.seconds, format!("{source}/{line} {way}"))
    };
    survey.lines.iter().map(text).collect()
}

fn unit_of(survey: &Survey, unit: UnitSpikes) -> SessionUnit {
    let mut times: Vec<f64> = (unit.spikes.iter())
        .map(|(at, row)| survey.epochs[*at].seconds(*row))
        .collect();
    times.sort_by(f64::total_cmp);
    SessionUnit {
        name: unit.name,
        times,
        observed: survey.observed(unit.source),
    }
}

fn options(args: &Export, recorded: &Recording, survey: &Survey) -> Result<WriteOptions> {
    let start = Moment::of_epoch(recorded.facts.unix_seconds as i64)?;
    let mut session = Session::begun(start);
    session.description = format!(
        "{}: a session that `betz run` recorded",
        recorded.plan.session.name
    );
    args.subject.set(&mut session.subject);
    let mut options = WriteOptions::new(session);
    if !survey.steps.is_empty() && !recorded.plan.records_only() {
        let mut decoded = DecodedOutputs {
            by: "the session's model, in real time".into(),
            outputs: recorded.model.outputs().to_vec(),
            times: Vec::new(),
            values: Vec::new(),
        };
        for step in &survey.steps {
            // A step that was recorded twice would be damage.
            let follows = decoded.times.last().is_none_or(|last| *last < step.seconds);
            if follows && step.values.iter().all(|v| v.is_finite()) {
                decoded.times.push(step.seconds);
                decoded.values.extend(&step.values);
            }
        }
        options.decoded = Some(decoded);
    }
    Ok(options)
}

/// The features of each step, with the labels as behaviour. A session that was over before its front end had any has none: one
/// bin without spikes.
fn features(mut recorded: Recording) -> Result<Binned> {
    let plan = recorded.plan.clone();
    let step = recorded.model.step_seconds();
    let noise = recorded.facts.noise.clone();
    let channels = recorded.model.channels();
    let made = bin_recording(&mut recorded, step, noise.as_deref()).and_then(|bins| {
        let outputs = match recorded.labels.is_empty() {
            true => Vec::new(),
            false => recorded.model.outputs().to_vec(),
        };
        bins.into_recording(&plan, outputs, &|step, _| {
            recorded.labels.get(&step).cloned()
        })
    });
    match made {
        Err(error) if error.kind() == ErrorKind::InsufficientData => Ok(Binned {
            tick_seconds: step,
            ticks: 1,
            spikes: Spikes::default(),
            channel_names: (0..channels).map(|c| format!("c{c}")).collect(),
            behavior: None,
            segments: vec![Segment { start: 0, stop: 1 }],
            electrode_um: None,
            form: SpikeForm::Counts,
            meta: None,
        }),
        made => made,
    }
}
