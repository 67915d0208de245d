//! Decoded outputs in an NWB file, together with their recording.

use std::path::Path;

use betz::recording::{Dataset, Recording};
use betz::{Error, Result};
use betz_formats::nwb::{self, DecodedOutputs, Moment, Session, WriteOptions};

use super::{Outputs, Source, is_nwb};
use crate::data;

/// `estimates` of `source` for the steps of `dataset`, as a series: one for the end of each step inside a segment.
pub(crate) fn series(
    name: &Path,
    source: Source<'_>,
    dataset: &Dataset,
    estimates: &[f32],
) -> DecodedOutputs {
    let width = source.outputs.len();
    let (mut times, mut values) = (Vec::new(), Vec::new());
    for segment in &dataset.segments {
        for step in segment.start..segment.stop {
            times.push((step + 1) as f64 * dataset.step_seconds);
            let row = step as usize * width;
            values.extend_from_slice(&estimates[row..row + width]);
        }
    }
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    let author = source
        .version
        .map_or_else(String::new, |v| format!(" that Betz {v} trained"));
    DecodedOutputs {
        by: format!("{name}, a {} decoder{author}", source.kind),
        outputs: source.outputs.to_vec(),
        times,
        values,
    }
}

/// The session that the recording at `path` tells of, whose times begin at `origin_seconds` of the file's.
pub(crate) fn said(
    path: &Path,
    meta: Option<&str>,
    origin_seconds: f64,
) -> Result<Option<Session>> {
    if !betz_formats::is_hdf5(path) {
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

/// Time at which a file is made, if the environment names it.
pub(crate) fn created() -> Result<Option<Moment>> {
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
pub(crate) fn check(out: Option<&Path>, recording: &Path) -> Result<()> {
    let Some(out) = out.filter(|out| is_nwb(out)) else {
        return Ok(());
    };
    let meta = match betz_formats::is_hdf5(recording) {
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

impl Outputs<'_> {
    pub(super) fn write_nwb(
        &self,
        source: Source<'_>,
        dataset: &Dataset,
        estimates: &[f32],
    ) -> Result<()> {
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
        options.decoded = Some(series(self.model, source, dataset, estimates));
        nwb::write(&recording, self.out, &options)
    }
}
