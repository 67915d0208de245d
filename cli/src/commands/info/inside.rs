//! `betz info FILE`: what a model or a recording holds.

use std::path::Path;

use betz::model::{Decoder, Head, OutputScore};
use betz::recording::SpikeForm;
use betz::train::place::ClusterlessPlace;
use betz::{Error, Result};
#[cfg(feature = "rig")]
use betz_formats::voltage::VoltageRecording;
use serde::Serialize;

use super::args::Info;
#[cfg(feature = "lab")]
use super::picture as recording_picture;
#[cfg(feature = "rig")]
use super::voltage::{self, StreamFacts};
use crate::bank::{self, FilterShape};
use crate::clusterless;
#[cfg(feature = "rig")]
use crate::commands::sort;
#[cfg(feature = "lab")]
use crate::commands::{mine, network};
use crate::commands::{sums, train};
use crate::data;
use crate::files::{Files, Kind, first_bytes};
use crate::report::{self, Outcome, Table, count, number};
use betz::input_form;

#[derive(Serialize)]
struct ModelFacts {
    kind: &'static str,
    decoder: &'static str,
    /// Members of a blend; absent for other kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<MemberFacts>,
    file: String,
    bytes: u64,
    betz_version: String,
    channels: usize,
    masked_channels: usize,
    channel_names: Vec<String>,
    outputs: Vec<Output>,
    step_seconds: f64,
    filters: Vec<FilterShape>,
    low_pass_hz: Option<f64>,
    delay_seconds: f64,
    ridge: f64,
    gram: String,
    solver: String,
    steps: u64,
    segments: u64,
    /// Of a signal, the sum of its values.
    spikes: u64,
    of_signal: bool,
    folds: u32,
    scores: Vec<OutputScore>,
}

#[derive(Serialize)]
struct MemberFacts {
    decoder: &'static str,
    weight: f64,
    filters: Vec<FilterShape>,
}

/// The members of a blend; none of another kind.
fn members(model: &Decoder) -> Vec<MemberFacts> {
    let Head::ModelBlend(blend) = model.head() else {
        return Vec::new();
    };
    let others = blend.members.iter();
    let others = others.map(|m| (m.decoder.kind(), m.weight, m.decoder.bank()));
    std::iter::once((blend.own.name(), blend.weight, model.bank()))
        .chain(others)
        .map(|(decoder, weight, bank)| MemberFacts {
            decoder,
            weight,
            filters: bank::shapes(bank),
        })
        .collect()
}

#[derive(Serialize)]
struct Output {
    name: String,
    unit: String,
}

#[derive(Serialize)]
struct RecordingFacts {
    kind: &'static str,
    file: String,
    bytes: u64,
    form: &'static str,
    tick_seconds: f64,
    seconds: f64,
    channels: usize,
    silent_channels: usize,
    /// Of a signal, how many of its values are not 0.
    spikes: u64,
    mean_rate_hz: f64,
    segments: usize,
    seconds_in_segments: f64,
    longest_silence_seconds: f64,
    behavior_samples: usize,
    outputs: Vec<Output>,
    meta: Option<String>,
    /// Voltage beside the units, in an NWB file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg(feature = "rig")]
    streams: Vec<StreamFacts>,
    #[serde(skip)]
    entries: String,
}

/// The content of a file that `betz info` describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Model,
    Clusterless,
    Sums,
    #[cfg(feature = "lab")]
    NetworkShard,
    #[cfg(feature = "lab")]
    CountShard,
    #[cfg(feature = "rig")]
    Sorter,
    #[cfg(feature = "lab")]
    Network,
    Recording,
    #[cfg(feature = "rig")]
    Voltage,
}

/// True for the samples or the header of SpikeGLX or Open Ephys.
#[cfg(feature = "rig")]
fn has_voltage_header(path: &Path) -> bool {
    match path.extension().and_then(|e| e.to_str()) {
        Some("meta" | "oebin") => true,
        Some("bin") => path.with_extension("meta").is_file(),
        _ => false,
    }
}

/// Most outputs that the table of a recording lists.
const MOST_LISTED: usize = 30;

impl Content {
    fn of(path: &Path) -> Result<Self> {
        if path.is_dir() {
            #[cfg(feature = "lab")]
            if network::is_network(path) {
                return Ok(Self::Network);
            }
            #[cfg(feature = "rig")]
            if VoltageRecording::read(path)?.is_some() {
                return Ok(Self::Voltage);
            }
            return Err(Error::argument(format!(
                "{}: expected a file, or the folder of a network (.zarr) or of voltage (SpikeGLX, Open Ephys), got another folder",
                path.display()
            )));
        }
        Ok(match first_bytes(path)? {
            start if start == *b"BETZMODL" => Self::Model,
            ClusterlessPlace::MAGIC => Self::Clusterless,
            betz::train::sums::MAGIC => Self::Sums,
            #[cfg(feature = "lab")]
            betz::network::file::PART_MAGIC => Self::NetworkShard,
            #[cfg(feature = "lab")]
            betz::episode::count::PART_MAGIC => Self::CountShard,
            #[cfg(feature = "rig")]
            start if start == *b"BETZSORT" => Self::Sorter,
            #[cfg(feature = "lab")]
            start if start.starts_with(b"PK") && network::is_network(path) => Self::Network,
            start if start.starts_with(b"PK") => Self::Recording,
            #[cfg(not(feature = "rig"))]
            _ if betz_formats::is_hdf5(path) => Self::Recording,
            #[cfg(feature = "rig")]
            _ if betz_formats::is_hdf5(path) => match betz_formats::nwb::has_units(path)? {
                true => Self::Recording,
                false => match VoltageRecording::read(path)? {
                    Some(recording) if !recording.streams.is_empty() => Self::Voltage,
                    _ => Self::Recording,
                },
            },
            #[cfg(feature = "rig")]
            _ if has_voltage_header(path) => Self::Voltage,
            start => {
                let got = match std::fs::metadata(path) {
                    Ok(file) if file.len() == 0 => "an empty file".to_owned(),
                    _ => format!("a file that begins with \"{}\"", start.escape_ascii()),
                };
                return Err(Error::argument(format!(
                    "{}: expected a model, sums, a sorter, a recording (.npz, .nwb), a network (.npz) or voltage with a header (SpikeGLX, Open Ephys), got {got}",
                    path.display()
                )));
            }
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Model => "a model",
            Self::Clusterless => "a clusterless place decoder",
            Self::Sums => "sums",
            #[cfg(feature = "lab")]
            Self::NetworkShard | Self::CountShard => "a shard",
            #[cfg(feature = "rig")]
            Self::Sorter => "a sorter",
            #[cfg(feature = "lab")]
            Self::Network => "a network",
            Self::Recording => "a recording",
            #[cfg(feature = "rig")]
            Self::Voltage => "voltage",
        }
    }

    /// Refuses options that need another content.
    fn check(self, args: &Info) -> Result<()> {
        if args.weights.is_some() && self != Self::Model {
            let got = self.name();
            return Err(Error::argument(format!(
                "--weights: expected a model, got {got}"
            )));
        }
        #[cfg(feature = "lab")]
        if args.picture.is_some() && self != Self::Recording {
            let hint = match self {
                Self::Model => " (betz evaluate --picture draws what it decodes)",
                #[cfg(feature = "rig")]
                Self::Sorter => " (betz sort show --picture draws it)",
                #[cfg(feature = "lab")]
                Self::Network => " (betz network graph --picture draws it)",
                _ => "",
            };
            return Err(Error::argument(format!(
                "--picture: expected a recording, got {}{hint}",
                self.name()
            )));
        }
        Ok(())
    }
}

pub(super) fn run(args: &Info, path: &Path) -> Result<()> {
    let mut files = Files::new(&args.common).reads("FILE", path);
    files.may_write("--weights", args.weights.as_deref(), Kind::Weights)?;
    #[cfg(feature = "lab")]
    files.may_write("--picture", args.picture.as_deref(), Kind::Picture)?;
    let content = Content::of(path)?;
    content.check(args)?;
    let (json, bytes) = (args.common.json, path.metadata().map_or(0, |m| m.len()));
    match content {
        Content::Model => model(args, path, bytes),
        Content::Clusterless => clusterless::info(path, json),
        Content::Sums => sums::inside(path, bytes, json),
        #[cfg(feature = "lab")]
        Content::NetworkShard => network::part_inside(path, json),
        #[cfg(feature = "lab")]
        Content::CountShard => mine::describe_part(path, json),
        #[cfg(feature = "rig")]
        Content::Sorter => sort::inside(path, json),
        #[cfg(feature = "lab")]
        Content::Network => network::inside(path, bytes, json),
        Content::Recording => recording(args, path, bytes),
        #[cfg(feature = "rig")]
        Content::Voltage => voltage::run(path, json),
    }
}

fn model(args: &Info, path: &Path, bytes: u64) -> Result<()> {
    let model = Decoder::load(path)?;
    if let Some(to) = &args.weights {
        write_weights(&model, path, to)?;
    }
    let record = model.training();
    let facts = ModelFacts {
        kind: "model",
        decoder: model.kind(),
        members: members(&model),
        file: path.display().to_string(),
        bytes,
        betz_version: record.betz_version.clone(),
        channels: model.channels(),
        masked_channels: model.channel_mask().iter().filter(|used| !**used).count(),
        channel_names: model.channel_names().to_vec(),
        outputs: outputs(model.outputs()),
        step_seconds: model.step_seconds(),
        filters: bank::shapes(model.bank()),
        low_pass_hz: model.low_pass().map(|l| l.cutoff_hz),
        delay_seconds: model.delay_steps() as f64 * model.step_seconds(),
        ridge: record.ridge,
        gram: record.gram_path.clone(),
        solver: record.solver.clone(),
        steps: record.steps,
        segments: record.segments,
        spikes: record.spikes,
        of_signal: input_form::is_of_signal(&model),
        folds: record.folds,
        scores: record.scores.clone(),
    };
    report::tell(&facts, args.common.json)
}

impl Outcome for ModelFacts {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: a {} decoder of {} ({} masked) into {}, {} bytes",
            self.file,
            self.decoder,
            count(self.channels as u128, "channel"),
            self.masked_channels,
            count(self.outputs.len() as u128, "output"),
            self.bytes
        ))?;
        for member in &self.members {
            report::line(&format!(
                "member: {:.2} {}, bank (tau s:order): {}",
                member.weight,
                member.decoder,
                bank::text(&member.filters)
            ))?;
        }
        if self.members.is_empty() {
            report::line(&format!(
                "bank (tau s:order): {}",
                bank::text(&self.filters)
            ))?;
        }
        report::line(&format!(
            "step {} s, delay {} s, ridge {:.4e}, low-pass {}",
            number(self.step_seconds),
            number(self.delay_seconds),
            self.ridge,
            self.low_pass_hz
                .map_or_else(|| "none".to_owned(), |hz| format!("{} Hz", number(hz)))
        ))?;
        report::line(&format!(
            "trained by Betz {} on {}, {} and {}{}",
            self.betz_version,
            count(self.steps, "step"),
            count(self.segments, "segment"),
            if self.of_signal {
                "a signal".to_owned()
            } else {
                count(self.spikes, "spike")
            },
            // By gradient steps there are neither.
            match self.gram.is_empty() {
                true => String::new(),
                false => format!(" (Γ {}, {})", self.gram, self.solver),
            }
        ))?;
        if self.scores.is_empty() {
            return report::line("no cross-validated scores");
        }
        report::line(&train::print::scored_on(self.decoder, self.folds))?;
        report::score_table(&self.scores)
    }
}

/// The weights with all that is needed to use them elsewhere.
fn write_weights(model: &Decoder, from: &Path, to: &Path) -> Result<()> {
    use betz::recording::arrays::{Array, write};
    let shape = [model.channels(), model.bank().len(), model.latents()];
    let named = [model.outputs().len()];
    // A sampled filter has neither; the model's file has its samples.
    let filters = model.bank().filters();
    let mut tau: Vec<f64> = filters.iter().map(|f| f.tau_seconds).collect();
    let mut order: Vec<i64> = filters.iter().map(|f| i64::from(f.order)).collect();
    tau.resize(model.bank().len(), f64::NAN);
    order.resize(model.bank().len(), -1);
    let used: Vec<i64> = model.channel_mask().iter().map(|&u| i64::from(u)).collect();
    let outputs: Vec<String> = model.outputs().iter().map(|o| o.name.clone()).collect();
    let units: Vec<String> = model.outputs().iter().map(|o| o.unit.clone()).collect();
    let meta = format!(
        "{{\"weights_of\": {}}}",
        serde_json::Value::from(from.display().to_string())
    );
    write(
        to,
        &[
            ("weights", Array::F64(&shape, model.weights())),
            ("intercept", Array::F64(&shape[2..], model.intercept())),
            ("filter_tau_seconds", Array::F64(&shape[1..2], &tau)),
            ("filter_order", Array::I64(&shape[1..2], &order)),
            ("channel_used", Array::I64(&shape[..1], &used)),
            ("step_seconds", Array::F64(&[], &[model.step_seconds()])),
            ("delay_steps", Array::I64(&[], &[model.delay_steps()])),
            (
                "channel_names",
                Array::Text(&shape[..1], model.channel_names()),
            ),
            ("output_names", Array::Text(&named, &outputs)),
            ("output_units", Array::Text(&named, &units)),
            ("meta", Array::Text(&[], &[meta])),
        ],
    )
}

fn outputs(infos: &[betz::recording::OutputInfo]) -> Vec<Output> {
    let output = |o: &betz::recording::OutputInfo| Output {
        name: o.name.clone(),
        unit: o.unit.clone(),
    };
    infos.iter().map(output).collect()
}

fn recording(args: &Info, path: &Path, bytes: u64) -> Result<()> {
    let recording = data::open_recording(path)?;
    #[cfg(feature = "lab")]
    if let Some(to) = &args.picture {
        let data = match &recording.behavior {
            Some(_) => Some(recording.align(data::default_step(&recording))?),
            None => None,
        };
        recording_picture::draw(path, &recording, data.as_ref(), to)?;
    }
    let mut fires = vec![false; recording.channels()];
    for &c in &recording.spikes.channels {
        fires[c as usize] = true;
    }
    // Before the first spike and after the last one too.
    let ends = (std::iter::once(0).chain(recording.spikes.ticks.iter().copied()))
        .chain(std::iter::once(recording.ticks));
    let begins = std::iter::once(0).chain(recording.spikes.ticks.iter().copied());
    let silences = ends.skip(1).zip(begins).map(|(end, begin)| end - begin);
    let ticks: i64 = recording.segments.iter().map(|s| s.len() as i64).sum();
    let tick = recording.tick_seconds;
    let facts = RecordingFacts {
        kind: "recording",
        file: path.display().to_string(),
        bytes,
        form: match recording.form {
            SpikeForm::Counts => "counts",
            SpikeForm::Events => "events",
            SpikeForm::Signal => "a signal",
        },
        tick_seconds: tick,
        seconds: recording.seconds(),
        channels: recording.channels(),
        silent_channels: fires.iter().filter(|fires| !**fires).count(),
        spikes: match recording.form {
            SpikeForm::Signal => recording.spikes.len() as u64,
            _ => recording.spikes.total() as u64,
        },
        mean_rate_hz: recording.spikes.total() / recording.channels() as f64 / recording.seconds(),
        segments: recording.segments.len(),
        seconds_in_segments: ticks as f64 * tick,
        longest_silence_seconds: silences.max().unwrap_or(0) as f64 * tick,
        behavior_samples: recording.behavior.as_ref().map_or(0, |b| b.samples()),
        outputs: (recording.behavior.as_ref()).map_or_else(Vec::new, |b| outputs(&b.outputs)),
        meta: recording.meta.clone(),
        #[cfg(feature = "rig")]
        streams: voltage::beside_units(path)?,
        entries: data::entries(&recording),
    };
    report::tell(&facts, args.common.json)
}

impl Outcome for RecordingFacts {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: a recording of {} ({} silent) for {:.3} s, as {}, {} bytes",
            self.file,
            count(self.channels as u128, "channel"),
            self.silent_channels,
            self.seconds,
            self.form,
            self.bytes
        ))?;
        report::line(&format!(
            "{}, {:.2} Hz per channel, longest silence {:.3} s; a {} is {} s",
            self.entries,
            self.mean_rate_hz,
            self.longest_silence_seconds,
            match self.form {
                "counts" => "bin",
                "events" => "tick",
                _ => "sample",
            },
            number(self.tick_seconds)
        ))?;
        report::line(&format!(
            "{} of {:.3} s in all",
            count(self.segments as u128, "segment"),
            self.seconds_in_segments
        ))?;
        if self.outputs.is_empty() {
            report::line("no behaviour")?;
        } else {
            let mut table = Table::new(&["behaviour", "unit", "samples"]);
            for o in self.outputs.iter().take(MOST_LISTED) {
                table.row([
                    o.name.clone(),
                    o.unit.clone(),
                    self.behavior_samples.to_string(),
                ]);
            }
            table.print()?;
            if let Some(more) = self.outputs.len().checked_sub(MOST_LISTED + 1) {
                report::line(&format!(
                    "and {}; --json lists all",
                    count(more as u128 + 1, "more output")
                ))?;
            }
        }
        #[cfg(feature = "rig")]
        if !self.streams.is_empty() {
            voltage::print_table(&self.streams)?;
        }
        match &self.meta {
            Some(meta) => report::line(&format!("meta: {meta}")),
            None => Ok(()),
        }
    }
}
