//! Decoded outputs, as a table or in an NWB file together with their recording.

use std::path::Path;

use betz::model::Decoder;
use betz::recording::{Dataset, Recording};
use betz::{Error, Result};
use betz_interop::nwb::{self, DecodedOutputs, Moment, Session, WriteOptions};

use crate::common_args::Behaviors;
use crate::data;
use crate::files::Kind;

/// True if `path` ends in .nwb.
pub(super) fn is_nwb(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("nwb"))
}

/// The kind of file for decoded outputs at `path`: a table, or NWB.
pub(super) fn kind(path: Option<&Path>) -> Kind {
    match path.is_some_and(is_nwb) {
        true => Kind::Nwb,
        false => data::OUTPUTS,
    }
}

/// `estimates` of `model` for the steps of `dataset`, as a series: one for the end of each step inside a segment.
pub(super) fn series(
    name: &Path,
    model: &Decoder,
    dataset: &Dataset,
    estimates: &[f32],
) -> DecodedOutputs {
    let width = model.outputs().len();
    let (mut times, mut values) = (Vec::new(), Vec::new());
    for segment in &dataset.segments {
        for step in segment.start..segment.stop {
            times.push((step + 1) as f64 * dataset.step_seconds);
            let row = step as usize * width;
            values.extend_from_slice(&estimates[row..row + width]);
        }
    }
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    DecodedOutputs {
        by: format!(
            "{name}, a {} decoder that Betz {} trained",
            model.kind(),
            model.training().betz_version
        ),
        outputs: model.outputs().to_vec(),
        times,
        values,
    }
}

/// The session that the recording at `path` tells of, whose times begin at `origin_seconds` of the file's.
pub(super) fn said(
    path: &Path,
    meta: Option<&str>,
    origin_seconds: f64,
) -> Result<Option<Session>> {
    if !betz_interop::is_hdf5(path) {
        return Ok(meta.and_then(nwb::session_of_meta));
    }
    Ok(nwb::read_session(path)?.map(|session| Session {
        zero: (origin_seconds != 0.0 || session.zero.is_some()).then(|| {
            let zero = session.zero.as_ref().unwrap_or(&session.start);
            zero.after(origin_seconds)
        }),
        ..session
    }))
}

/// When a file is made, where the environment says it.
pub(super) fn created() -> Result<Option<Moment>> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let seconds = text.trim().parse().map_err(|_| {
        Error::argument(format!(
            "SOURCE_DATE_EPOCH: expected seconds since 1970, got '{text}'"
        ))
    })?;
    let moment = Moment::of_epoch(seconds).map_err(|e| e.at("SOURCE_DATE_EPOCH"))?;
    Ok(Some(moment))
}

/// Refuses, before any work, an NWB file of a recording that does not say when its session began.
pub(super) fn check(out: Option<&Path>, recording: &Path) -> Result<()> {
    let Some(out) = out.filter(|out| is_nwb(out)) else {
        return Ok(());
    };
    let meta = match betz_interop::is_hdf5(recording) {
        true => None,
        false => Recording::read_meta(recording)?,
    };
    begun(out, recording, said(recording, meta.as_deref(), 0.0)?).map(|_| ())
}

fn begun(out: &Path, recording: &Path, session: Option<Session>) -> Result<Session> {
    session.ok_or_else(|| {
        Error::argument(format!(
            "--out {}: expected a recording that says when its session began, which NWB wants, got {}; betz convert --decode MODEL --start TIME writes it",
            out.display(),
            recording.display()
        ))
    })
}

/// Where a model's outputs come from and go to.
pub(super) struct Outputs<'a> {
    pub(super) out: &'a Path,
    pub(super) recording: &'a Path,
    pub(super) behavior: &'a Behaviors,
    pub(super) model: &'a Path,
}

impl Outputs<'_> {
    /// Writes `estimates` of `model` for `dataset`: as a table, or into an NWB file beside the whole recording.
    pub(super) fn write(
        &self,
        model: &Decoder,
        dataset: &Dataset,
        estimates: &[f32],
    ) -> Result<()> {
        if !is_nwb(self.out) {
            return data::write_outputs(self.out, model, dataset, estimates);
        }
        let (recording, read) = data::read_again(self.recording, self.behavior)?;
        let session = said(
            self.recording,
            recording.meta.as_deref(),
            read.origin_seconds,
        )?;
        let mut session = begun(self.out, self.recording, session)?;
        // Another file has another name.
        session.identifier = String::new();
        let mut options = WriteOptions::new(session);
        if let Some(created) = created()? {
            options.created = created;
        }
        options.decoded = Some(series(self.model, model, dataset, estimates));
        nwb::write(&recording, self.out, &options)
    }
}
