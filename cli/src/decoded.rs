//! Decoded outputs: of a whole recording, as a table, as arrays, or in an NWB file together with their recording.

#[cfg(feature = "rig")]
mod nwb;

use std::path::Path;

use betz::device::Device;
use betz::model::{self, Decoder};
use betz::recording::arrays::{self, Array};
use betz::recording::{Dataset, OutputInfo, Recording};
use betz::stream::{MAX_PHASES, PhasedSession, SessionConfig};
use betz::{Error, Result, input_form};

use crate::common_args::{Behaviors, Part};
use crate::data::{self, Columns};
use crate::device;
use crate::files::{DECODED, Kind, is_stream};

#[cfg(feature = "rig")]
pub(super) use nwb::{check, created, said, series};

/// True if `path` ends in .nwb.
pub(super) fn is_nwb(path: &Path) -> bool {
    ends_in(path, "nwb")
}

fn ends_in(path: &Path, wanted: &str) -> bool {
    path.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case(wanted))
}

/// The kind of file for decoded outputs at `path`, by its ending: NWB, arrays, or a table, which a pipe gets, too.
pub(super) fn kind(path: &Path) -> Result<Kind> {
    match path {
        #[cfg(not(feature = "rig"))]
        _ if is_nwb(path) => Err(Error::argument(format!(
            "--out {}: expected a file ending in .csv or .npz, because this build of betz only decodes; a build with every floor writes NWB",
            path.display()
        ))),
        _ if is_nwb(path) => Ok(Kind::Nwb),
        _ if ends_in(path, "npz") => Ok(Kind::Decoded),
        _ if is_table(path) => Ok(data::OUTPUTS),
        _ => Err(Error::argument(format!(
            "--out: expected a file ending in .csv, .npz or .nwb, got {}",
            path.display()
        ))),
    }
}

/// True if decoded outputs at `path` are a table, which is written row by row.
pub(super) fn is_table(path: &Path) -> bool {
    ends_in(path, "csv") || is_stream(path)
}

/// The outputs of a recording at every step inside its segments.
pub(super) struct Whole {
    /// The recording without behaviour on the model's clock.
    pub(super) dataset: Dataset,
    /// (steps, outputs) row-major, NaN outside segments.
    pub(super) estimates: Vec<f32>,
    /// The device that decoded.
    pub(super) device: String,
}

/// Decodes `part` of `recording`, which has no behaviour and `model`'s channels: every step inside a segment.
pub(super) fn whole(
    device: &Device,
    model: &Decoder,
    recording: Recording,
    part: &Part,
) -> Result<Whole> {
    let dataset = data::dataset(recording, model.step_seconds(), part)?;
    let values = dataset.steps as u128 * model.outputs().len() as u128;
    betz::memory::plan("the decoded outputs", values * 4)?;
    let decoded = model::decode_on(device, model, &dataset)?;
    device::note_fallback(&decoded.ran, "decoding");
    Ok(Whole {
        dataset,
        estimates: decoded.estimates,
        device: decoded.ran.device,
    })
}

/// Number of ticks of `every` seconds in a step of `model`.
pub(super) fn phases(model: &Decoder, every: f64) -> Result<usize> {
    let step = model.step_seconds();
    let ticks = (step / every).round();
    if (1.0..=MAX_PHASES as f64).contains(&ticks) && (step / every - ticks).abs() < 1e-6 * ticks {
        return Ok(ticks as usize);
    }
    Err(Error::argument(format!(
        "--every: expected a whole part of the model's step of {step} s, down to a {MAX_PHASES}th, got {every} s"
    )))
}

/// Decodes `part` of `recording`, which has no behaviour and `model`'s channels, at each of `phases` ticks per step, on
/// `device`.
pub(super) fn at_ticks(
    model: &Decoder,
    recording: Recording,
    part: &Part,
    (phases, device): (usize, String),
) -> Result<Whole> {
    if input_form::is_of_signal(model) {
        return Err(Error::argument(
            "--every: expected a model of spikes, because they are counted again at every tick; got one of a signal",
        ));
    }
    let dataset = data::dataset(recording, model.step_seconds() / phases as f64, part)?;
    let (channels, width) = (model.channels(), model.outputs().len());
    let values = dataset.steps as u128 * width as u128;
    betz::memory::plan("the decoded outputs", values * 4)?;
    let mut estimates = vec![f32::NAN; dataset.steps * width];
    let mut session = PhasedSession::open(model, phases, SessionConfig::default())?;
    let mut counts = vec![0_u16; channels];
    for segment in &dataset.segments {
        session.reset();
        for tick in segment.start..segment.stop {
            counts.fill(0);
            for i in dataset.spikes.range(tick, tick + 1) {
                let count = &mut counts[dataset.spikes.channels[i] as usize];
                *count = count.saturating_add(dataset.spikes.weight(i) as u16);
            }
            let out = &mut estimates[tick as usize * width..][..width];
            session.step_counts(&counts, out)?;
        }
    }
    Ok(Whole {
        dataset,
        estimates,
        device,
    })
}

/// The decoder that estimates come from.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) outputs: &'a [OutputInfo],
    pub(super) kind: &'a str,
    /// Version of Betz that trained it; `None` for a network of another program.
    pub(super) version: Option<&'a str>,
}

impl<'a> From<&'a Decoder> for Source<'a> {
    fn from(model: &'a Decoder) -> Self {
        Self {
            outputs: model.outputs(),
            kind: model.kind(),
            version: Some(&model.training().betz_version),
        }
    }
}

/// The files of decoded outputs: where they come from and go to.
pub(super) struct Outputs<'a> {
    pub(super) out: &'a Path,
    pub(super) recording: &'a Path,
    pub(super) behavior: &'a Behaviors,
    pub(super) model: &'a Path,
    /// A table has the number of each step's segment.
    pub(super) segments: bool,
}

impl Outputs<'_> {
    /// Writes `estimates` of `source` for `dataset`: as a table, as arrays, or into an NWB file with the whole
    /// recording.
    pub(super) fn write(
        &self,
        source: Source<'_>,
        dataset: &Dataset,
        estimates: &[f32],
    ) -> Result<()> {
        match kind(self.out)? {
            #[cfg(feature = "rig")]
            Kind::Nwb => self.write_nwb(source, dataset, estimates),
            Kind::Decoded => self.write_npz(source, dataset, estimates),
            _ => {
                let columns = Columns {
                    segment: self.segments,
                    truth: !dataset.outputs.is_empty(),
                };
                data::write_outputs(self.out, source.outputs, dataset, estimates, columns)
            }
        }
    }

    /// Arrays with a row for each step inside a segment.
    fn write_npz(&self, source: Source<'_>, dataset: &Dataset, estimates: &[f32]) -> Result<()> {
        let width = source.outputs.len();
        let (mut steps, mut segments) = (Vec::new(), Vec::new());
        let (mut decoded, mut truth) = (Vec::new(), Vec::new());
        for (number, segment) in dataset.segments.iter().enumerate() {
            for step in segment.start..segment.stop {
                steps.push(step);
                segments.push(number as i64);
                let row = step as usize * width..(step as usize + 1) * width;
                decoded.extend_from_slice(&estimates[row.clone()]);
                if !dataset.outputs.is_empty() {
                    truth.extend_from_slice(&dataset.behavior[row]);
                }
            }
        }
        let ends: Vec<f64> = (steps.iter())
            .map(|step| (step + 1) as f64 * dataset.step_seconds)
            .collect();
        let [names, units] = [
            source.outputs.iter().map(|o| o.name.clone()).collect(),
            source.outputs.iter().map(|o| o.unit.clone()).collect(),
        ] as [Vec<String>; 2];
        let meta = [format!(
            "{DECODED}{}, \"recording\": {}, \"decoder\": \"{}\"}}",
            json_text(self.model),
            json_text(self.recording),
            source.kind
        )];
        let rows = [steps.len()];
        let values = [steps.len(), width];
        let mut list = vec![
            ("meta", Array::Text(&[], &meta)),
            ("outputs", Array::F32(&values, &decoded)),
            ("times", Array::F64(&rows, &ends)),
            ("steps", Array::I64(&rows, &steps)),
            ("segments", Array::I64(&rows, &segments)),
            (
                "step_seconds",
                Array::F64(&[], std::slice::from_ref(&dataset.step_seconds)),
            ),
            ("output_names", Array::Text(&values[1..], &names)),
            ("output_units", Array::Text(&values[1..], &units)),
        ];
        if !dataset.outputs.is_empty() {
            list.push(("truth", Array::F32(&values, &truth)));
        }
        arrays::write(self.out, &list)
    }
}

/// The name of a file as a string of JSON.
fn json_text(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    serde_json::Value::from(name).to_string()
}
