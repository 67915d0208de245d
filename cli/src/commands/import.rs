//! `betz import`: a network of another program as a model.

use std::path::PathBuf;

use betz::{Result, input_form};
use betz_formats::import::{Network, Options};
use clap::Args;
use serde::Serialize;

use crate::common_args::{Common, Part, Weights};
use crate::data;
use crate::files::{Files, Kind};
use crate::parse::positive_seconds;
use crate::report::{self, Outcome};

#[derive(Args)]
#[command(
    after_help = "Example: betz import gru.safetensors --recording reach.npz --out gru.betz\nThe network sees the counts of a step, one per channel, and its states are never reset: train it so, without a reset at\nthe start of each trial. docs/connect.md says what a network may consist of."
)]
pub(crate) struct Import {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Network file: .safetensors with PyTorch's names of weights, or .onnx. It is one chain of GRU, LSTM
    /// and linear layers, causal convolutions, layer normalisation and activations
    #[arg(value_name = "NETWORK")]
    pub(crate) network: PathBuf,
    /// Recording (.npz, .nwb) that names the network's inputs, in the order of its channels, and its outputs
    #[arg(long, value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Model file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Length of one step in seconds [default: the bin of a binned recording, else 0.005]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) step: Option<f64>,
    /// Day whose input layer is taken from a safetensors file with one per day (day_weights.N) [default: the last]
    #[arg(long, value_name = "N")]
    pub(crate) day: Option<usize>,
    /// Steps between two patches of a safetensors network whose input is several steps side by side
    #[arg(long, value_name = "STEPS")]
    pub(crate) stride: Option<usize>,
    /// Numbers that matrices are rounded to: of bf16 a step of a large network reads half the memory, of int8 a
    /// quarter
    #[arg(long, value_enum, default_value_t)]
    pub(crate) weights: Weights,
}

#[derive(Serialize)]
struct ImportReport {
    model: String,
    network: String,
    channels: usize,
    outputs: usize,
    step_seconds: f64,
    memory_steps: u64,
}

pub(crate) fn run(args: &Import) -> Result<()> {
    Files::new(&args.common)
        .reads("NETWORK", &args.network)
        .reads("--recording", &args.recording)
        .writes("--out", &args.out, Kind::Model)?;
    let options = Options {
        day: args.day,
        stride: args.stride,
        precision: args.weights.into(),
    };
    let network = Network::read(&args.network, options)?;
    let recording = data::read_recording(&args.recording, &args.part.behavior)?;
    let step = (args.step).unwrap_or_else(|| data::default_step(&recording));
    let form = recording.form;
    let at_recording = |e: betz::Error| e.at(args.recording.display());
    let (dataset, _) = data::aligned_dataset(recording, step, &args.part).map_err(at_recording)?;
    let model = network
        .decoder(&dataset)
        .map_err(|e| e.at(args.network.display()))?;
    let model = input_form::marked(model, form)?;
    model.save(&args.out)?;
    let memory_steps = match model.head() {
        betz::model::Head::Recurrent(head) => head.memory_steps,
        betz::model::Head::Layers(head) => head.memory_steps,
        _ => 0,
    };
    let imported = ImportReport {
        model: args.out.display().to_string(),
        network: network.describe(),
        channels: model.channels(),
        outputs: model.outputs().len(),
        step_seconds: model.step_seconds(),
        memory_steps,
    };
    report::tell(&imported, args.common.json)
}

impl Outcome for ImportReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: {}, {} channels, {} outputs, steps of {} s, remembers {} steps",
            self.model,
            self.network,
            self.channels,
            self.outputs,
            self.step_seconds,
            self.memory_steps
        ))
    }
}
