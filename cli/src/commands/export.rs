//! `betz export`: a model in another program's format.

use betz::Result;
use betz::model::Decoder;
use serde::Serialize;

use crate::args::Export;
use crate::files::{Files, Kind};
use crate::report;

#[derive(Serialize)]
struct Exported {
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
    let exported = Exported {
        onnx: args.onnx.display().to_string(),
        kind: model.kind(),
        bytes: std::fs::metadata(&args.onnx).map_or(0, |m| m.len()),
    };
    if args.common.json {
        return report::json(&exported);
    }
    report::line(&format!(
        "{}: one step of a {} decoder, {} bytes",
        exported.onnx, exported.kind, exported.bytes
    ))
}
