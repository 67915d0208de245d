//! `betz convert`: a recording in another format.

pub(crate) mod args;
mod voltage;

use std::path::Path;

use betz::model::Decoder;
use betz::recording::{Recording, Stretches};
use betz::{Error, Result, input_form};
use betz_formats::nwb::{self, DecodedOutputs, Moment, Session, WriteOptions};
use serde::Serialize;

use crate::common_args::Part;
use crate::data;
use crate::decoded;
use crate::device;
use crate::files::{Files, Kind};
use crate::report::{self, Outcome};
use args::Convert;

#[derive(Serialize)]
struct ConversionReport {
    out: String,
    format: &'static str,
    bytes: u64,
    channels: usize,
    seconds: f64,
    segments: usize,
    outputs: usize,
    /// Estimates of the model, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    decoded: Option<usize>,
}

pub(crate) fn run(args: &Convert) -> Result<()> {
    let nwb = to_nwb(&args.out)?;
    if nwb && let Some(recording) = voltage::of(&args.input)? {
        return voltage::run(args, &recording);
    }
    voltage::refuse_options(args)?;
    let mut files = Files::new(&args.common)
        .reads("IN", &args.input)
        .may_read("--decode", args.decode.as_deref());
    files.writes(
        "OUT",
        &args.out,
        if nwb { Kind::Nwb } else { Kind::Recorded },
    )?;
    if !nwb {
        only_of_nwb(args)?;
        let recording = data::read_recording(&args.input, &args.behavior)?;
        recording.write_npz(&args.out)?;
        return told(args, &recording, "npz", None);
    }
    match args.memory {
        Some(memory) => in_stretches(args, memory),
        None => whole(args),
    }
}

/// True if `out` is NWB, false if it is `.npz`.
fn to_nwb(out: &Path) -> Result<bool> {
    let ending = out.extension().and_then(|e| e.to_str()).unwrap_or("");
    match ending.to_ascii_lowercase().as_str() {
        "nwb" => Ok(true),
        "npz" => Ok(false),
        _ => Err(Error::argument(format!(
            "OUT {}: expected a file ending in .nwb or .npz",
            out.display()
        ))),
    }
}

/// Refuses options that an `.npz` has no place for.
fn only_of_nwb(args: &Convert) -> Result<()> {
    for (option, given) in [
        ("--start", args.start.is_some()),
        ("--identifier", args.identifier.is_some()),
        ("--description", args.description.is_some()),
        ("--subject", args.subject.id.is_some()),
        ("--species", args.subject.species.is_some()),
        ("--sex", args.subject.sex.is_some()),
        ("--age", args.subject.age.is_some()),
        ("--created", args.created.is_some()),
        ("--decode", args.decode.is_some()),
        ("--memory", args.memory.is_some()),
    ] {
        if given {
            return Err(Error::argument(format!(
                "{option}: expected none where OUT is an .npz, which has no place for it"
            )));
        }
    }
    Ok(())
}

fn whole(args: &Convert) -> Result<()> {
    let (recording, read) = data::read_recording_with_report(&args.input, &args.behavior)?;
    let said = decoded::said(&args.input, recording.meta.as_deref(), read.origin_seconds)?;
    let session = session(args, said)?;
    let mut options = options(args, session)?;
    if let Some(path) = &args.decode {
        options.decoded = Some(decode(args, path, &recording)?);
    }
    let at = |e: Error| e.at(args.input.display());
    nwb::write(&recording, &args.out, &options).map_err(at)?;
    let decoded = options.decoded.map(|decoded| decoded.times.len());
    told(args, &recording, "nwb", decoded)
}

fn in_stretches(args: &Convert, memory: u64) -> Result<()> {
    if betz_formats::is_hdf5(&args.input) {
        return Err(Error::argument(format!(
            "--memory: expected a recording that is read in chunks (.npz), got {}",
            args.input.display()
        )));
    }
    args.behavior.none_in_stretches()?;
    let mut stretches = Stretches::open(&args.input)?;
    let said = decoded::said(&args.input, stretches.outline().meta.as_deref(), 0.0)?;
    let session = session(args, said)?;
    let mut options = options(args, session)?;
    options.memory = memory;
    let at = |e: Error| e.at(args.input.display());
    nwb::write_stretches(&mut stretches, &args.out, &options).map_err(at)?;
    told(args, stretches.outline(), "nwb", None)
}

/// The session that IN describes, if it does, with the changes of the command line.
fn session(args: &Convert, said: Option<Session>) -> Result<Session> {
    let start = |text: &str| Moment::parse(text).map_err(|e| e.at("--start"));
    let mut session = match (&args.start, said) {
        (None, Some(said)) => said,
        (Some(text), Some(said)) => Session {
            zero: None,
            start: start(text)?,
            ..said
        },
        (Some(text), None) => Session::begun(start(text)?),
        (None, None) => {
            return Err(Error::argument(format!(
                "--start: expected when the session began, such as 2020-10-19T13:00:00-05:00: NWB wants it, and {} does not say",
                args.input.display()
            )));
        }
    };
    // Another file has another name.
    session.identifier = args.identifier.clone().unwrap_or_default();
    if let Some(description) = &args.description {
        session.description.clone_from(description);
    }
    args.subject.set(&mut session.subject);
    Ok(session)
}

fn options(args: &Convert, session: Session) -> Result<WriteOptions> {
    let mut options = WriteOptions::new(session);
    if let Some(text) = &args.created {
        options.created = Moment::parse(text).map_err(|e| e.at("--created"))?;
    } else if let Some(created) = decoded::created()? {
        options.created = created;
    }
    Ok(options)
}

/// Estimates of the model at `path` for `recording`, one for the end of each step inside a segment.
fn decode(args: &Convert, path: &Path, recording: &Recording) -> Result<DecodedOutputs> {
    let device = device::open(&args.common.device)?;
    let model = Decoder::load(path)?;
    let at = |e: Error| e.at(args.input.display());
    input_form::check(&model, recording.form).map_err(at)?;
    // All steps are decoded, those without behaviour too.
    let seen = Recording {
        tick_seconds: recording.tick_seconds,
        ticks: recording.ticks,
        spikes: recording.spikes.clone(),
        channel_names: recording.channel_names.clone(),
        behavior: None,
        segments: recording.segments.clone(),
        electrode_um: None,
        form: recording.form,
        meta: None,
    };
    let seen = seen.with_channels(model.channel_names()).map_err(at)?;
    let decoded = decoded::whole(&device, &model, seen, &Part::default()).map_err(at)?;
    Ok(decoded::series(
        path,
        (&model).into(),
        &decoded.dataset,
        &decoded.estimates,
    ))
}

fn told(
    args: &Convert,
    outline: &Recording,
    format: &'static str,
    decoded: Option<usize>,
) -> Result<()> {
    let converted = ConversionReport {
        out: args.out.display().to_string(),
        format,
        bytes: std::fs::metadata(&args.out).map_or(0, |m| m.len()),
        channels: outline.channels(),
        seconds: outline.seconds(),
        segments: outline.segments.len(),
        outputs: outline.behavior.as_ref().map_or(0, |b| b.outputs.len()),
        decoded,
    };
    report::tell(&converted, args.common.json)
}

impl Outcome for ConversionReport {
    fn print(&self) -> Result<()> {
        let decoded = self.decoded.map_or_else(String::new, |steps| {
            format!(", {} decoded", report::count(steps as u128, "step"))
        });
        report::line(&format!(
            "{}: {}, {:.1} s, {}, {}{decoded}, {} bytes",
            self.out,
            report::count(self.channels as u128, "channel"),
            self.seconds,
            report::count(self.segments as u128, "segment"),
            report::count(self.outputs as u128, "output"),
            self.bytes
        ))
    }
}
