//! `betz export`: a model in other programs' formats.

use crate::common_args::Common;
use betz::Result;
use betz::model::Decoder;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

use crate::files::{Files, Kind};
use crate::report::{self, Outcome};

#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Model file: a linear decoder, a lift, a Kalman filter, a recurrent decoder, classes or a gated decoder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// ONNX file to write. It computes one step: counts and states in, estimates and states out
    #[arg(long, value_name = "FILE", required_unless_present = "safetensors")]
    pub(crate) onnx: Option<PathBuf>,
    /// Safetensors file to write: the weights of a recurrent decoder under PyTorch's names
    #[arg(long, value_name = "FILE")]
    pub(crate) safetensors: Option<PathBuf>,
}

#[derive(Serialize)]
struct ExportReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    onnx: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safetensors: Option<String>,
    kind: &'static str,
    /// Check of all files' names.
    bytes: u64,
}

pub(crate) fn run(args: &Export) -> Result<()> {
    let mut files = Files::new(&args.common).reads("MODEL", &args.model);
    if let Some(onnx) = &args.onnx {
        files.writes("--onnx", onnx, Kind::Onnx)?;
    }
    if let Some(safetensors) = &args.safetensors {
        files.writes("--safetensors", safetensors, Kind::Safetensors)?;
    }
    let model = Decoder::load(&args.model)?;
    let mut bytes = 0;
    let written = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    if let Some(path) = &args.onnx {
        betz_formats::onnx::write(&model, path).map_err(|e| e.at(args.model.display()))?;
        bytes += written(path);
    }
    if let Some(path) = &args.safetensors {
        betz_formats::import::write(&model, path).map_err(|e| e.at(args.model.display()))?;
        bytes += written(path);
    }
    let name = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let exported = ExportReport {
        onnx: name(&args.onnx),
        safetensors: name(&args.safetensors),
        kind: model.kind(),
        bytes,
    };
    report::tell(&exported, args.common.json)
}

impl Outcome for ExportReport {
    fn print(&self) -> Result<()> {
        let (kind, bytes) = (self.kind, self.bytes);
        if let Some(onnx) = &self.onnx {
            report::line(&format!(
                "{onnx}: one step of a {kind} decoder, {bytes} bytes"
            ))?;
        }
        if let Some(safetensors) = &self.safetensors {
            report::line(&format!("{safetensors}: the weights of a {kind} decoder"))?;
        }
        Ok(())
    }
}
