//! A recorded session as flat files: rows as SpikeInterface and Kilosort read them, and everything else as text.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use betz::{Error, Result};
use betz_live::record::Recording;
use serde_json::{Value, json};

use super::survey::{Epoch, Form, Survey, rows};
use super::{Export, UnitSpikes};

/// Version of the layout.
const VERSION: u32 = 1;

/// Writes a folder, which must not exist yet.
pub(super) fn write(
    args: &Export,
    recorded: &Recording,
    survey: &Survey,
    units: &[UnitSpikes],
) -> Result<()> {
    let to = &args.out;
    std::fs::create_dir(to).map_err(|e| Error::io("creating", to, &e))?;
    let mut files = Vec::new();
    for epoch in &survey.epochs {
        if let Some(file) = write_epoch(args, survey, epoch)? {
            files.push(file);
        }
    }
    write_lines(to, "steps.csv", &steps(recorded, survey))?;
    write_lines(to, "labels.csv", &labels(recorded, survey))?;
    write_lines(to, "spikes.csv", &spikes(survey, units))?;
    let notes = json!({
        "trials": (survey.trials.iter())
            .map(|t| json!({"start": t.start, "stop": t.stop, "learn": t.learn}))
            .collect::<Vec<_>>(),
        "marks": texts(&survey.marks),
        "lines": (survey.lines.iter())
            .map(|change| json!({
                "seconds": change.seconds,
                "source": survey.sources[change.source],
                "line": change.edge.line,
                "up": change.edge.is_up,
                "epoch": change.edge.epoch,
                "device_row": change.edge.row,
            }))
            .collect::<Vec<_>>(),
        "aligned": survey.aligned,
        "events": (survey.events.iter())
            .map(|(at, text)| json!({"seconds": at, "event": serde_json::from_str::<Value>(text).unwrap_or_default()}))
            .collect::<Vec<_>>(),
        "lost_seconds": survey.lost(),
    });
    let subject = &args.subject;
    let session = json!({
        "betz_flat": VERSION,
        "name": recorded.plan.session.name,
        "start_unix_seconds": recorded.facts.unix_seconds,
        "subject": {"id": subject.id, "species": subject.species, "sex": subject.sex, "age": subject.age},
        "step_seconds": recorded.model.step_seconds(),
        "outputs": recorded.model.outputs().iter().map(|o| &o.name).collect::<Vec<_>>(),
        "rows": files,
        "notes": notes,
    });
    let text = serde_json::to_string_pretty(&session)
        .map_err(|e| Error::argument(format!("session.json: {e}")))?;
    write_lines(to, "session.json", &[text])
}

fn texts(all: &[(f64, String)]) -> Vec<Value> {
    (all.iter())
        .map(|(at, text)| json!({"seconds": at, "text": text}))
        .collect()
}

/// Writes the rows of an epoch and the JSON beside them; `None` for spikes, which have no rows.
fn write_epoch(args: &Export, survey: &Survey, epoch: &Epoch) -> Result<Option<Value>> {
    let kind = match epoch.form {
        Form::Voltage if args.no_voltage => return Ok(None),
        Form::Voltage => "int16",
        Form::Features => "float32",
        Form::Spikes => return Ok(None),
    };
    let name = format!("{}.dat", survey.name(epoch));
    let path = args.out.join(&name);
    let failed = |e: std::io::Error| Error::io("writing", &path, &e);
    let mut out = BufWriter::new(File::create(&path).map_err(failed)?);
    match epoch.form {
        Form::Voltage => rows::<i16>(&args.folder, epoch, &mut |values| {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            out.write_all(&bytes).map_err(failed)
        })?,
        Form::Features | Form::Spikes => rows::<f32>(&args.folder, epoch, &mut |values| {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            out.write_all(&bytes).map_err(failed)
        })?,
    }
    out.flush().map_err(failed)?;
    let about = json!({
        "file": name,
        "source": survey.sources[epoch.source],
        "epoch": epoch.epoch,
        "dtype": kind,
        "num_channels": epoch.facts.channels,
        "sampling_frequency": epoch.facts.rate,
        "gain_to_uV": epoch.facts.microvolts,
        "offset_to_uV": 0,
        "time_axis": 0,
        "rows": epoch.rows,
        "start_seconds": epoch.start_seconds,
        "first_device_row": epoch.first,
        // Rows of the file, from the first to before the last.
        "lost_rows": (epoch.gaps.iter())
            .map(|gap| gap.map(|row| row - epoch.first))
            .collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&about)
        .map_err(|e| Error::argument(format!("{name}: {e}")))?;
    write_lines(&args.out, &format!("{}.json", survey.name(epoch)), &[text])?;
    Ok(Some(about))
}

/// A line per step: number, time of its end, status, outputs.
fn steps(recorded: &Recording, survey: &Survey) -> Vec<String> {
    let names: Vec<&str> = (recorded.model.outputs().iter())
        .map(|o| o.name.as_str())
        .collect();
    let head = format!("step,end_seconds,status,{}", names.join(","));
    let lines = survey.steps.iter().map(|step| {
        let values: Vec<String> = step.values.iter().map(ToString::to_string).collect();
        format!(
            "{},{},{},{}",
            step.number,
            step.seconds,
            step.status,
            values.join(",")
        )
    });
    std::iter::once(head).chain(lines).collect()
}

/// A line per label: step and values.
fn labels(recorded: &Recording, survey: &Survey) -> Vec<String> {
    let names: Vec<&str> = (recorded.model.outputs().iter())
        .map(|o| o.name.as_str())
        .collect();
    let lines = survey.labels.iter().map(|(step, values)| {
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        format!("{step},{}", values.join(","))
    });
    std::iter::once(format!("step,{}", names.join(",")))
        .chain(lines)
        .collect()
}

/// A line per spike of a sorted unit, or of a channel of a source that sends spikes, in order of time.
fn spikes(survey: &Survey, units: &[UnitSpikes]) -> Vec<String> {
    let mut all: Vec<(f64, &str, u64)> = (units.iter())
        .flat_map(|unit| {
            (unit.spikes.iter())
                .map(|(at, row)| (survey.epochs[*at].seconds(*row), unit.name.as_str(), *row))
        })
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let lines = all
        .iter()
        .map(|(seconds, unit, row)| format!("{seconds},{unit},{row}"));
    std::iter::once("seconds,unit,device_row".to_owned())
        .chain(lines)
        .collect()
}

fn write_lines(folder: &Path, name: &str, lines: &[String]) -> Result<()> {
    let path = folder.join(name);
    let mut text = lines.join("\n");
    text.push('\n');
    std::fs::write(&path, text).map_err(|e| Error::io("writing", &path, &e))
}
