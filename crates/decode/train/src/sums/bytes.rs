//! Sums as a file: a frame with its checksum around little-endian numbers.
//!
//! ```text
//! channels, filters, outputs, low-pass order (0: none)          u32 each
//! cut-off f64, step seconds f64, delay i64
//! filters: tau f64, order u32
//! sampled filters: count u32; name, step seconds f64, start i64, length u64, samples f64 (from version 4 on)
//! names, then name and unit of each output: length u32, UTF-8
//! path: length u32, UTF-8; parts: count u32, u64 each
//! steps, segments, spikes, artefacts u64, largest response f64
//! signal u32; histogram: count u64, (spikes, steps) u64 each; spikes a channel u64 each
//! least and greatest label of each output f32 (not in version 1, whose labels' range is not known)
//! sample of the spikes: length in bytes u32, number of runs u64, hashes u64 each (not in versions 1 and 2)
//! levels: count u32, of every channel or none, i128 each (from version 5 on)
//! powers of two of the values: one per channel, then one per output, i32 each (from version 5 on)
//! values i128 each
//! ```

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use super::scale::{self, Scale};
use super::{Form, Sums, fixed, part_names};
use crate::limits::Extremes;
use crate::training_data::TrainingData;
use crate::usual_counts::UsualCounts;
use betz_base::error::{ErrorKind, Result};
use betz_base::file::{read_all, write_atomically};
use betz_base::frame::Content;
use betz_base::hash::Fnv1a;
use betz_base::wire::{Reader, Writer};
use betz_recording::OutputInfo;
use betz_runtime::model::{MAX_DELAY_STEPS, MAX_FILTERS, check_sizes};
use betz_runtime::psc::{Filter, FilterBank, LowPass, SampledFilter};

/// The first bytes of a file of sums.
pub const MAGIC: [u8; 8] = *b"BETZSUMS";

const CONTENT: Content = Content {
    magic: MAGIC,
    name: "Betz's sums",
    damaged: ErrorKind::InvalidModel,
};

const VERSION: u32 = 5;

impl Sums {
    /// The sums as the bytes of a file. Equal sums give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::framed();
        let beside = self.sample.written_bytes() + (1 << 10);
        to.bytes.reserve_exact(self.values.len() * 16 + beside);
        self.write(&mut to, &self.parts, &self.extremes, Some(&self.sample));
        to.seal(CONTENT, VERSION)
    }

    /// The name of these sums: a hash of all that version 1 holds of them, but the names of their parts.
    pub(super) fn name(&self) -> u64 {
        let mut to = Writer::default();
        self.write(&mut to, &[], &[], None);
        let mut hash = Fnv1a::new();
        hash.bytes(&to.bytes);
        part_names::of(hash.finish(), self.steps)
    }

    pub(super) fn write(
        &self,
        to: &mut Writer,
        parts: &[u64],
        extremes: &[Extremes],
        sample: Option<&TrainingData>,
    ) {
        let form = &self.form;
        let (order, cutoff) = form.low_pass.map_or((0, 0.0), |l| (l.order, l.cutoff_hz));
        to.u32(form.channel_names.len() as u32);
        to.u32(form.bank.filters().len() as u32);
        to.u32(form.outputs.len() as u32);
        to.u32(order);
        to.f64(cutoff);
        to.f64(form.step_seconds);
        to.i64(form.delay_steps);
        for filter in form.bank.filters() {
            to.f64(filter.tau_seconds);
            to.u32(filter.order);
        }
        // A name's hash goes over what version 1 had, and over these where there are some.
        if sample.is_some() || !form.bank.sampled().is_empty() {
            to.u32(form.bank.sampled().len() as u32);
        }
        for filter in form.bank.sampled() {
            to.text(filter.name());
            to.f64(filter.step_seconds());
            to.i64(filter.start());
            to.u64(filter.samples().len() as u64);
            filter.samples().iter().for_each(|h| to.f64(*h));
        }
        let named = form.outputs.iter().flat_map(|o| [&o.name, &o.unit]);
        let path = std::iter::once(&self.path);
        (form.channel_names.iter().chain(named).chain(path)).for_each(|text| to.text(text));
        to.u32(parts.len() as u32);
        let counts = [self.steps, self.segments, self.spikes, self.artefacts];
        (parts.iter().chain(&counts)).for_each(|word| to.u64(*word));
        to.f64(self.largest);
        to.u32(u32::from(self.usual.signal));
        to.u64(self.usual.histogram.len() as u64);
        let pairs = self.usual.histogram.iter().flat_map(|(c, s)| [c, s]);
        (pairs.chain(&self.usual.counts)).for_each(|word| to.u64(*word));
        for (low, high) in extremes {
            to.f32(*low);
            to.f32(*high);
        }
        if let Some(sample) = sample {
            to.u32(sample.written_bytes() as u32);
            sample.write_to(to);
            let levels = self.levels.as_deref().unwrap_or(&[]);
            to.u32(levels.len() as u32);
            let levels = levels.iter().flat_map(|level| level.to_le_bytes());
            to.bytes.extend(levels);
            let powers = self.scale.channels.iter().chain(&self.scale.outputs);
            powers.for_each(|power| to.u32(power.cast_unsigned()));
        }
        let values = self.values.iter().flat_map(|value| value.to_le_bytes());
        to.bytes.extend(values);
    }

    /// The sums in `bytes`. Takes no memory out of proportion to them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for bytes that are no sums, are damaged or cut short, or hold what no sums
    /// can; [`ErrorKind::UnsupportedVersion`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (version, from) = CONTENT.read(bytes, 1..=VERSION)?;
        read(from, version)
    }

    /// Writes the file `path`: complete, or not at all.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes();
        write_atomically(path, |file| file.write_all(&bytes))
    }

    /// Reads the file `path`.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes), and [`ErrorKind::Io`]; messages begin with the path.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = read_all(path, Some(&MAGIC))?;
        Self::from_bytes(&bytes).map_err(|e| e.at(path.display()))
    }
}

fn read(mut from: Reader<'_>, version: u32) -> Result<Sums> {
    let form = read_form(&mut from, version)?;
    let path = from.text()?;
    let count = from.u32()?;
    let count = from.room(u64::from(count), 8, "parts")?;
    let parts = from.u64_list(count as u64)?;
    if parts.is_empty() || !parts.is_sorted_by(|a, b| a < b) {
        return Err(CONTENT.error("expected names of parts, each once and in ascending order"));
    }
    let (steps, segments) = (from.u64()?, from.u64()?);
    let (spikes, artefacts, largest) = (from.u64()?, from.u64()?, from.f64()?);
    if steps == 0 || !(largest.is_finite() && largest >= 0.0) {
        return Err(CONTENT.error(format_args!(
            "expected at least one step and a finite largest response of at least 0, got {steps} and {largest}"
        )));
    }
    let usual = read_usual(&mut from, form.channel_names.len())?;
    let outputs = 0..form.outputs.len();
    let extremes = outputs
        .map(|_| match version {
            1 => Ok((f32::NEG_INFINITY, f32::INFINITY)),
            _ => Ok((f32::from_bits(from.u32()?), f32::from_bits(from.u32()?))),
        })
        .collect::<Result<Vec<Extremes>>>()?;
    if extremes
        .iter()
        .any(|(low, high)| low.is_nan() || high.is_nan())
    {
        return Err(CONTENT.error("expected the labels' range, got NaN"));
    }
    let sample = match version {
        1 | 2 => TrainingData::default(),
        _ => {
            let length = u64::from(from.u32()?);
            let section = from.bytes(length)?;
            TrainingData::read_from(&mut Reader::new(section, CONTENT.damaged, CONTENT.name))?
        }
    };
    let levels = match version {
        1..=4 => None,
        _ => read_levels(&mut from, form.channel_names.len())?,
    };
    let scale = match version {
        1..=4 => Scale::none(form.channel_names.len(), form.outputs.len()),
        _ => read_scale(&mut from, (form.channel_names.len(), form.outputs.len()))?,
    };
    let count = fixed::len(form.features(), form.outputs.len());
    if count.and_then(|c| c.checked_mul(16)) != Some(from.rest().len()) {
        return Err(CONTENT.error(format_args!(
            "expected the sums of {} features and {} outputs, got {} bytes",
            form.features(),
            form.outputs.len(),
            from.rest().len()
        )));
    }
    let (values, _) = from.rest().as_chunks::<16>();
    Ok(Sums {
        values: values.iter().map(|v| i128::from_le_bytes(*v)).collect(),
        levels,
        scale,
        form,
        parts,
        steps,
        segments,
        spikes,
        artefacts,
        largest,
        usual,
        extremes,
        sample,
        path,
        ran: None,
    })
}

/// Powers of two of channels and outputs.
fn read_scale(from: &mut Reader<'_>, (channels, outputs): (usize, usize)) -> Result<Scale> {
    let mut powers = |count: usize| -> Result<Vec<i32>> {
        let count = from.room(count as u64, 4, "powers of two")?;
        (0..count)
            .map(|_| match from.u32()?.cast_signed() {
                power if power.unsigned_abs() <= scale::MOST.unsigned_abs() => Ok(power),
                power => Err(CONTENT.error(format_args!(
                    "expected powers of two of at most {}, got {power}",
                    scale::MOST
                ))),
            })
            .collect()
    };
    Ok(Scale {
        channels: powers(channels)?,
        outputs: powers(outputs)?,
    })
}

/// The levels, of every channel or none.
fn read_levels(from: &mut Reader<'_>, channels: usize) -> Result<Option<Vec<i128>>> {
    match from.u32()? as usize {
        0 => Ok(None),
        count if count == channels => {
            let bytes = from.bytes(channels as u64 * 16)?;
            let (levels, _) = bytes.as_chunks::<16>();
            Ok(Some(
                levels.iter().map(|l| i128::from_le_bytes(*l)).collect(),
            ))
        }
        count => Err(CONTENT.error(format_args!(
            "expected the levels of {channels} channels or none, got {count}"
        ))),
    }
}

fn read_sampled(from: &mut Reader<'_>) -> Result<Vec<SampledFilter>> {
    let count = from.u32()?;
    // Each takes at least a name's length, a step, a start, a length and a sample.
    let count = from.room(u64::from(count), 36, "sampled filters")?;
    let filters = (0..count.min(MAX_FILTERS)).map(|_| {
        let name = from.text()?;
        let (step_seconds, start, length) = (from.f64()?, from.i64()?, from.u64()?);
        let samples = from.f64_list(length)?;
        SampledFilter::new(name, samples, step_seconds, start)
            .map_err(|e| e.of_kind(ErrorKind::InvalidModel).at("sums"))
    });
    filters.collect()
}

fn read_form(from: &mut Reader<'_>, version: u32) -> Result<Form> {
    let (channels, filters, outputs) = (from.u32()?, from.u32()?, from.u32()?);
    let (channels, filters, outputs) = (channels as usize, filters as usize, outputs as usize);
    // A bank of sampled filters alone has no others.
    let at_least_one = if version < 4 { filters } else { filters.max(1) };
    check_sizes(ErrorKind::InvalidModel, channels, at_least_one, outputs)
        .map_err(|e| e.at("sums"))?;
    // Each filter takes 12 bytes, each name 4, each output two names.
    from.room(
        (filters * 12 + channels * 4 + outputs * 8) as u64,
        1,
        "bytes of filters and names",
    )?;
    let (order, cutoff_hz) = (from.u32()?, from.f64()?);
    let low_pass = (order > 0).then_some(LowPass { order, cutoff_hz });
    let step_seconds = from.f64()?;
    let delay_steps = from.i64()?;
    if !(step_seconds.is_finite() && step_seconds > 0.0) {
        return Err(CONTENT.error(format_args!(
            "expected a step of a finite length above 0 s, got {step_seconds}"
        )));
    }
    if delay_steps.unsigned_abs() > MAX_DELAY_STEPS as u64 {
        return Err(CONTENT.error(format_args!(
            "expected a delay of at most {MAX_DELAY_STEPS} steps, got {delay_steps}"
        )));
    }
    if let Some(low_pass) = low_pass {
        low_pass
            .check(step_seconds)
            .map_err(|e| e.of_kind(ErrorKind::InvalidModel))?;
    }
    let bank = (0..filters).map(|_| {
        let (tau_seconds, order) = (from.f64()?, from.u32()?);
        Ok(Filter { tau_seconds, order })
    });
    let filters = bank.collect::<Result<_>>()?;
    let sampled = match version {
        1..4 => Vec::new(),
        _ => read_sampled(from)?,
    };
    let bank = FilterBank::with_sampled(filters, sampled)
        .map_err(|e| e.of_kind(ErrorKind::InvalidModel).at("sums"))?;
    let names = (0..channels).map(|_| from.text());
    let channel_names = names.collect::<Result<_>>()?;
    let named = (0..outputs).map(|_| {
        let (name, unit) = (from.text()?, from.text()?);
        Ok(OutputInfo { name, unit })
    });
    Ok(Form {
        outputs: named.collect::<Result<_>>()?,
        step_seconds,
        bank,
        low_pass,
        delay_steps,
        channel_names,
    })
}

fn read_usual(from: &mut Reader<'_>, channels: usize) -> Result<UsualCounts> {
    let signal = from.u32()? != 0;
    let count = from.u64()?;
    let count = from.room(count, 16, "pairs of a histogram")?;
    let mut histogram = BTreeMap::new();
    for _ in 0..count {
        let (spikes, steps) = (from.u64()?, from.u64()?);
        histogram.insert(spikes, steps);
    }
    let total = |sum: u64, steps: &u64| sum.checked_add(*steps);
    if histogram.len() != count || histogram.values().try_fold(0, total).is_none() {
        return Err(CONTENT.error("expected a histogram of steps, each number once"));
    }
    let counts = from.u64_list(channels as u64)?;
    Ok(UsualCounts {
        signal,
        histogram,
        counts,
    })
}
