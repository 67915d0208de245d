//! `betz export`: a model in another program's format.

use crate::common_args::Common;
use betz::Result;
use betz::model::Decoder;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

use crate::files::{Files, Kind};
use crate::report::{self, Outcome};

#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Model file: a linear decoder, a lift, a Kalman filter or a recurrent decoder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// ONNX file to write. It computes one step: counts and states in, estimates and states out
    #[arg(long, value_name = "FILE")]
    pub(crate) onnx: PathBuf,
}

#[derive(Serialize)]
struct ExportReport {
    onnx: String,
    kind: &'static str,
    bytes: u64,
}

pub(crate) fn run(args: &Export) -> Result<()> {
    Files::new(&args.common)
        .reads("MODEL", &args.model)
        .writes("--onnx", &args.onnx, Kind::Onnx)?;
    let model = Decoder::load(&args.model)?;
    betz_interop::onnx::write(&model, &args.onnx).map_err(|e| e.at(args.model.display()))?;
    let exported = ExportReport {
        onnx: args.onnx.display().to_string(),
        kind: model.kind(),
        bytes: std::fs::metadata(&args.onnx).map_or(0, |m| m.len()),
    };
    report::tell(&exported, args.common.json)
}

impl Outcome for ExportReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: one step of a {} decoder, {} bytes",
            self.onnx, self.kind, self.bytes
        ))
    }
}
